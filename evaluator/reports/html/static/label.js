// Keys of a reviewer: each presses the button, or follows the link, that has it in `data-key`; n goes to the note. The
// rubric that was chosen stays, from session to session.
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
    const button = /^[a-z]$/.test(event.key) && document.querySelector(`[data-key="${event.key}"]`);
    if (event.key === "n" && note) note.focus();
    else if (button) button.click();
    else return;
    event.preventDefault();
  });
})();
