// A page that is a file: sort and filter its table of sessions, and open the session that a link leads to.
(() => {
  "use strict";
  const table = document.querySelector("table.sortable");
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  open();
  if (!table) return;

  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value === undefined) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compare = (one, other) => {
    if (one === null || other === null) return (one === null) - (other === null);  // unknown comes last
    return typeof one === "number" ? one - other : one.localeCompare(other);
  };
  table.addEventListener("click", (event) => {
    const button = event.target.closest("[data-sort]");
    if (!button) return;
    const head = button.closest("th"), column = Number(button.dataset.sort);
    const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([one], [other]) =>
      one === null || other === null ? compare(one, other) : direction * compare(one, other));
    body.append(...rows.map(([, row]) => row));
  });

  const verdict = document.querySelector("[data-filter-verdict]");
  const text = document.querySelector("[data-filter-text]");
  const filter = () => {
    const wanted = text.value.toLowerCase();
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = Boolean(verdict.value && row.dataset.verdict !== verdict.value)
        || !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    document.querySelector("[data-filter-count]").textContent = `${shown} rows`;
  };
  verdict.addEventListener("change", filter);
  text.addEventListener("input", filter);
})();
