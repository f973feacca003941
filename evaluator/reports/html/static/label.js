// Keys of a reviewer: each presses the button, or follows the link, that has it in `data-key`, in the row that is lit if it
// is there; n goes to the note. The rubric that was chosen stays, from session to session.
(() => {
  "use strict";
  const rubric = document.querySelector("[data-rubric]");
  if (rubric) {
    const stored = sessionStorage.getItem("spangrade-rubric");
    if ([...rubric.options].some((one) => one.value === stored)) rubric.value = stored;
    rubric.addEventListener("change", () => sessionStorage.setItem("spangrade-rubric", rubric.value));
  }
  document.addEventListener("keydown", (event) => {
    if (event.repeat || window.spangradeKeyIsTaken(event)) return;  // a key that is held labels one session
    const note = document.querySelector("[data-note]");
    const named = `[data-key="${event.key}"]`;
    const row = event.target.closest("tr");
    const button = /^[a-z]$/.test(event.key) && (row?.querySelector(named) ?? document.querySelector(named));
    if (event.key === "n" && note) note.focus();
    else if (button) button.click();
    else return;
    event.preventDefault();
  });
})();
