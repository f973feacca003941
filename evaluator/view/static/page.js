// What every page needs beside htmx: colours, copying, and the keyboard. No values of the page are run.
(() => {
  "use strict";
  const root = document.documentElement;
  const status = (text) => { document.getElementById("status").textContent = text; };

  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameToggle = () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]"))
      button.textContent = isDark() ? "Light" : "Dark";
  };
  nameToggle();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameToggle);

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
})();
