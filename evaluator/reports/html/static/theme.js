// Runs before the page is drawn, so that the chosen colours do not flash. Storage may be forbidden.
(() => {
  try {
    const theme = localStorage.getItem("spangrade-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch { /* the system's colours */ }
})();
