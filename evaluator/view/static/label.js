// Keys of a reviewer: each presses the button, or follows the link, that has it in `data-key`; n goes to the note.
(() => {
  "use strict";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    const note = document.querySelector("[data-note]");
    const button = /^[a-z]$/.test(event.key) && document.querySelector(`[data-key="${event.key}"]`);
    if (event.key === "n" && note) note.focus();
    else if (button) button.click();
    else return;
    event.preventDefault();
  });
})();
