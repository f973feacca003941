// A page that is a file: its grid and its sessions are in it compressed, and read when they are shown. A folder of pages
// has a table of sessions instead, to sort and filter.
(() => {
  "use strict";
  const table = document.querySelector("table.sortable");
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  const status = (text) => { document.getElementById("status").textContent = text; };

  // Groups of parts, each a list of HTML in JSON, compressed and in base64.
  const read = new Map();
  const parts = (group) => {
    if (!read.has(group)) {
      const bytes = Uint8Array.from(atob(group.content.textContent), (one) => one.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      read.set(group, new Response(plain).json());
    }
    return read.get(group);
  };
  const elements = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };
  const groups = (kind) => [...document.querySelectorAll(`template[data-group="${kind}"]`)];
  const groupOf = (kind, number) => groups(kind).find(({ dataset }) =>
    Number(dataset.first) <= number && number < Number(dataset.first) + Number(dataset.count));

  const overview = document.getElementById("overview"), opened = document.getElementById("opened");
  const show = async () => {
    const wanted = /^#s(\d+)(-|$)/.exec(location.hash);
    const number = wanted && Number(wanted[1]), group = wanted && groupOf("session", number);
    if (group && opened.dataset.number !== wanted[1]) {
      if (!window.DecompressionStream) { status("This browser is too old to open the sessions of this file"); return; }
      const html = (await parts(group))[number - Number(group.dataset.first)];
      read.delete(group);  // a session is small, its neighbours are many
      opened.replaceChildren(elements(html));
      opened.dataset.number = wanted[1];
    }
    const changed = opened.hidden === Boolean(group);
    opened.hidden = !group;
    overview.hidden = Boolean(group);
    document.body.classList.toggle("workplace", Boolean(group));
    if (group) opened.dispatchEvent(new CustomEvent("part", { bubbles: true }));
    else if (changed) dispatchEvent(new Event("resize"));  // the grid has a height again
    open();
  };
  window.addEventListener("hashchange", opened ? show : open);
  if (opened) show(); else open();

  const grid = document.querySelector("[data-grid]");
  if (grid) {
    const atOnce = Number(grid.dataset.atOnce), kept = new Map([[0, [...grid.querySelectorAll("tbody tr")]]]);
    const rowsFrom = async (first) => {
      if (!kept.has(first)) kept.set(first, [...elements((await parts(groupOf("rows", first)))[0]).children]);
      return kept.get(first);
    };
    window.spangradeLoad = async (address) => {
      const part = document.createDocumentFragment();
      part.append(...await rowsFrom(Number(address.split("skip=")[1])));
      return part;
    };
    const filters = document.querySelector("[data-grid-filters]");
    filters.addEventListener("input", async () => {
      const of = (name) => filters.querySelector(`[data-filter="${name}"]`);
      const words = of("text").value.trim().toLowerCase(), verdict = of("verdict").value, metric = of("metric").value;
      const all = [];
      for (let first = 0; first < Number(grid.dataset.total); first += atOnce) all.push(...await rowsFrom(first));
      const unmet = (cell) => cell.childElementCount && !cell.classList.contains("passed")
        && !cell.querySelector(":scope > .faint");
      const left = all.filter((row) => (!words || `${row.textContent} ${row.dataset.reason}`.toLowerCase().includes(words))
        && (!verdict || row.dataset.verdict === verdict)
        && (metric === "" || unmet(row.cells[2 + Number(metric)]))
        && (!of("changed")?.checked || row.querySelector(".before, .change")));
      grid.dispatchEvent(new CustomEvent("rows", { detail: left }));
      filters.querySelector("[data-filter-total]").textContent = `${left.length} row${left.length === 1 ? "" : "s"}`;
    });
  }
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
