// What every page needs: colours, copying, and the keyboard. No values of the page are run.
(() => {
  "use strict";
  const root = document.documentElement;
  // What a page says of what was just done goes by itself; a problem stays until something works again.
  let clearing;
  const status = (text, stays = false) => {
    clearTimeout(clearing);
    document.getElementById("status").textContent = text;
    if (text && !stays) clearing = setTimeout(() => status(""), 5000);
  };
  window.spangradeSay = status;

  // Whether a key is not for the page: together with another one, in a field, or in a dialog.
  window.spangradeKeyIsTaken = (event) => event.ctrlKey || event.metaKey || event.altKey || event.isComposing
    || event.target.closest("input, select, textarea, [contenteditable]") || document.querySelector("dialog[open]");

  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameToggle = () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]"))
      button.textContent = isDark() ? "Light" : "Dark";
  };
  nameToggle();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameToggle);

  document.addEventListener("click", (event) => {  // a menu closes at a click elsewhere
    for (const menu of document.querySelectorAll("details.menu[open]"))
      if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("click", async (event) => {
    if (event.target.closest("[data-theme-toggle]")) {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("spangrade-theme", root.dataset.theme); } catch { /* until the next page */ }
      nameToggle();
    }
    const copy = event.target.closest("[data-copy]");  // the id of the element whose text is copied
    if (copy) {
      const text = document.getElementById(copy.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
        status("Copied");
      } catch {
        status("The browser does not allow copying: select the text instead");
      }
    }
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("select[data-at-once]")) event.target.form.requestSubmit();
  });

  // How long ago a time was goes on while the page is open, by the clock of the server.
  const loaded = Date.now();
  const AGES = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  setInterval(() => {
    for (const one of document.querySelectorAll("time[data-ago]")) {
      const seconds = Number(one.dataset.ago) + Math.floor((Date.now() - loaded) / 1000);
      if (Number(one.dataset.ago) < 0 || seconds >= 30 * 86400) continue;
      const [size, unit] = AGES.find(([least]) => seconds >= least) ?? [1, "s"];
      one.textContent = `${Math.floor(seconds / size)} ${unit} ago`;
    }
  }, 15000);

  // On a phone the pages are one line that scrolls.
  document.querySelector(".top nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

  // `g` and a letter lead to a page, `/` to the search. Single letters are for the pages of a reviewer and a session.
  // There j and k go through the rows of a list, elsewhere the arrows from one that has the focus; at its end, to the next
  // page. Enter follows the focused link.
  const rows = () => [...document.querySelectorAll("a.row")];
  const move = (step) => {
    const all = rows();
    const here = all.indexOf(document.activeElement);
    const next = here < 0 ? (step > 0 ? 0 : all.length - 1) : here + step;
    if (all[next]) all[next].focus();
    else document.querySelector(step > 0 ? 'a[rel="next"]' : 'a[rel="prev"]')?.click();
  };
  const step = ({ key, target }) => {
    if (document.body.classList.contains("letters")) return { j: 1, k: -1 }[key];
    return target.closest("a.row") ? { ArrowDown: 1, ArrowUp: -1 }[key] : undefined;
  };
  let goes = false;  // the key before was `g`
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("input, select, textarea, [contenteditable]");
    if (field && event.key === "Escape") field.blur();
    if (window.spangradeKeyIsTaken(event)) return;
    const search = document.querySelector("[data-search]");
    const page = goes && document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    goes = event.key === "g" && !goes;
    if (page) {
      event.stopImmediatePropagation();  // it is no letter of the page that is left
      page.click();
    } else if (event.key === "/" && search) {
      search.focus();
      if (/\S$/.test(search.value)) search.value += " ";
      search.setSelectionRange(search.value.length, search.value.length);
    } else if (step(event)) move(step(event));
    else return;
    event.preventDefault();
  });
})();
