// Parts of a page that are loaded on demand: an element with `data-load` has the address of one.
// A button loads at a click, <details> when it is opened, anything else at once. What comes takes the place of the
// element, of the one around it that `data-swap` names, or of what is in the element whose id is in `data-into`.
(() => {
  "use strict";
  const status = (text) => window.spangradeSay(text, true);

  // The server's answer as elements; its message, and null, where it is an error.
  const fetched = async (address) => {
    let answer;
    try {
      answer = await fetch(address);
    } catch {
      status("spangrade view does not run any more");
      return null;
    }
    const text = await answer.text();
    if (!answer.ok) {
      const page = new DOMParser().parseFromString(text, "text/html");
      status(page.querySelector("main p")?.textContent ?? `The server answers ${answer.status}`);
      return null;
    }
    const template = document.createElement("template");
    template.innerHTML = text;
    return template.content;
  };

  const load = async (element) => {
    if (element.getAttribute("aria-busy")) return;
    element.setAttribute("aria-busy", "true");
    const part = await fetched(element.dataset.load);
    element.removeAttribute("aria-busy");
    if (!part) return;
    status("");
    const { into, swap } = element.dataset;
    const target = into ? document.getElementById(into)
      : element.tagName === "DETAILS" ? element.querySelector(".content")
      : swap ? element.closest(swap) : element;
    const around = target.parentElement;
    if (into || element.tagName === "DETAILS") {
      if (element.tagName === "DETAILS") delete element.dataset.load;
      target.replaceChildren(part);
    } else target.replaceWith(part);
    const changed = target.isConnected ? target : around;
    start(changed);
    changed.dispatchEvent(new CustomEvent("part", { bubbles: true }));
  };

  const start = (root) => {
    for (const element of root.querySelectorAll("[data-load]:not(button, details)")) load(element);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-load]");
    if (button) load(button);
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details[data-load]") && event.target.open) load(event.target);
  }, true);
  window.spangradeLoad = fetched;
  window.spangradeStart = start;
  start(document);
})();
