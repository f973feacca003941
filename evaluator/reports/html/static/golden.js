// The form of a golden question: its sentence and its proof follow what is edited. No values of the page are run.
(() => {
  "use strict";
  let latest = 0, waiting;
  const send = (form, address, button) => fetch(address, {
    method: "POST", body: new URLSearchParams(new FormData(form, button)), redirect: "manual",
  });
  const show = async (form, answer) => {
    const text = await answer.text();
    const proof = form.querySelector("#proof");
    if (answer.ok) {
      const template = document.createElement("template");
      template.innerHTML = text;
      proof.replaceChildren(template.content);
      return;
    }
    const page = new DOMParser().parseFromString(text, "text/html");
    const problem = document.createElement("p");
    problem.className = "problem recorded";
    problem.textContent = page.querySelector("main p")?.textContent ?? `The server answers ${answer.status}`;
    proof.replaceChildren(problem);
  };
  const prove = async (form) => {
    const number = ++latest;
    form.querySelector("#proof").setAttribute("aria-busy", "true");
    const answer = await send(form, form.dataset.golden).catch(() => null);
    if (number !== latest) return;  // a later one is on its way
    form.querySelector("#proof").removeAttribute("aria-busy");
    if (answer) await show(form, answer);
  };
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-golden]");
    if (!form || event.target.name === "reviewed") return;
    clearTimeout(waiting);
    waiting = setTimeout(() => prove(form), event.target.type === "checkbox" ? 0 : 300);
  });
  document.addEventListener("keydown", (event) => {  // Enter in a line adds nothing yet
    if (event.key === "Enter" && event.target.matches("form[data-golden] input:not([type=checkbox])")) event.preventDefault();
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-golden]");
    if (!form) return;
    event.preventDefault();
    latest++;
    clearTimeout(waiting);
    const answer = await send(form, form.action, event.submitter).catch(() => null);
    if (answer?.type === "opaqueredirect") location.reload();
    else if (answer) await show(form, answer);
  });
  document.addEventListener("part", (event) => {
    event.target.querySelector?.("form[data-golden] .struck input[type=checkbox]")?.focus();
  });
})();
