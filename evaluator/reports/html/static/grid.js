// The grid of a run: of thousands of rows only those in view are in the page. Each has the same height; two empty rows
// stand for those above and below. Rows are fetched when they come into view, and kept.
(() => {
  "use strict";
  const grid = document.querySelector("[data-grid]");
  if (!grid) return;
  let total = Number(grid.dataset.total);
  const atOnce = Number(grid.dataset.atOnce);
  const body = grid.querySelector("tbody");
  let rows = new Map([...body.rows].map((row) => [Number(row.dataset.place), row]));
  document.querySelector("[data-pages]")?.setAttribute("hidden", "");
  let height = 0;
  const columns = grid.querySelector("thead tr").cells.length;
  const AROUND = 12;  // rows above and below what is in view
  const asked = new Set();

  const empty = (className) => {
    const row = document.createElement("tr");
    row.className = className;
    const cell = row.insertCell();
    cell.colSpan = columns;
    return row;
  };
  const above = empty("rest"), below = empty("rest");
  above.ariaHidden = below.ariaHidden = "true";
  const waiting = [];  // rows that stand where one is not loaded yet
  const placeholder = (at) => {
    waiting[at] ??= empty("loading");
    waiting[at].cells[0].textContent = "…";
    return waiting[at];
  };

  const fetchRows = async (part) => {
    asked.add(part);
    const content = await window.spangradeLoad(`${grid.dataset.grid}&skip=${part * atOnce}`);
    if (!content) { asked.delete(part); return; }
    for (const row of content.querySelectorAll("tr")) rows.set(Number(row.dataset.place), row);
    shown = "";
    draw();
  };

  let shown = "";
  const draw = () => {
    height ||= body.querySelector("[data-place]")?.getBoundingClientRect().height ?? 0;
    if (!height) return;  // the grid is not shown yet
    const head = grid.querySelector("thead").offsetHeight;
    const first = Math.max(0, Math.floor((grid.scrollTop - head) / height) - AROUND);
    const last = Math.min(total, Math.ceil((grid.scrollTop + grid.clientHeight) / height) + AROUND);
    // Blocks of rows, so that most frames of a scroll change nothing.
    const from = first - first % 8, to = Math.min(total, last + (8 - last % 8) % 8);
    const window_ = `${from} ${to}`;
    if (window_ === shown) return;
    shown = window_;
    for (let part = Math.floor(from / atOnce); part * atOnce < to; part++)
      if (!rows.has(part * atOnce) && !asked.has(part)) fetchRows(part);
    above.cells[0].style.height = `${from * height}px`;
    below.cells[0].style.height = `${(total - to) * height}px`;
    above.hidden = !from;
    below.hidden = to >= total;
    const wanted = [];
    for (let at = from; at < to; at++) wanted.push(rows.get(at) ?? placeholder(at));
    const keep = new Set(wanted);
    for (const row of [...body.rows]) if (!keep.has(row) && row !== above && row !== below) row.remove();
    if (above.parentElement !== body) body.prepend(above);
    let before = above;
    for (const row of wanted) {
      if (before.nextSibling !== row) before.after(row);
      before = row;
    }
    if (before.nextSibling !== below) before.after(below);
  };

  let due = false;
  grid.addEventListener("scroll", () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; draw(); });
  }, { passive: true });
  addEventListener("resize", draw);
  grid.closest("[data-redraw]")?.addEventListener("toggle", draw);
  grid.addEventListener("rows", (event) => {  // the rows that the filters of a file leave
    rows = new Map(event.detail.entries());
    total = event.detail.length;
    shown = "";
    grid.scrollTop = 0;
    draw();
  });
  draw();
})();
