// The page of a session: links to spans, and the zoom of the waterfall. No values of the page are run.
(() => {
  "use strict";
  const AXIS = 1000;

  const reveal = (element) => {
    for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };

  // Light up everything that shows one of the spans.
  const light = (spans) => {
    for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
    for (const element of document.querySelectorAll("[data-span]"))
      if (spans.includes(element.dataset.span)) {
        element.classList.add("lit");
        reveal(element);
      }
  };

  // A span that is not in the page yet is loaded into the panel.
  const load = (link, spans) => {
    const session = link ? link.closest("[data-session]") : document.querySelector("[data-session]");
    const part = session && session.dataset.spanPart;
    if (!part || !spans.length) return;
    window.spangradeLoad(part + encodeURIComponent(spans[0])).then((loaded) => {
      if (!loaded) return;
      const panel = document.getElementById("span-detail");
      panel.replaceChildren(loaded);
      panel.scrollIntoView({ block: "nearest" });
    });
  };

  const PREFIX = "span-";
  const spanOf = (id) => {
    const element = document.getElementById(id);
    if (element && element.dataset.span) return element.dataset.span;
    const at = id.lastIndexOf(PREFIX);
    return at < 0 ? null : id.slice(at + PREFIX.length);
  };

  const follow = (link) => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!id) return;
    const element = document.getElementById(id);
    if (element) reveal(element);
    const own = spanOf(id);
    const spans = link && link.dataset.spans ? link.dataset.spans.split(" ") : own ? [own] : [];
    if (!spans.length) return;
    light(spans);
    if (element) {
      element.scrollIntoView({ block: "center" });
      element.focus({ preventScroll: true });
    } else load(link, spans);
  };

  let followed = null;
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    followed = link;
    if (link.getAttribute("href") === location.hash) follow(link);  // no hashchange then
  });
  window.addEventListener("hashchange", () => { follow(followed); followed = null; });

  // Zoom: each bar's picture shows a part of the axis.
  const ranges = new WeakMap();
  const show = (waterfall, from, to) => {
    const width = Math.min(AXIS, Math.max(AXIS / 1e6, to - from));
    const left = Math.min(Math.max(0, from), AXIS - width);
    ranges.set(waterfall, [left, left + width]);
    for (const svg of waterfall.querySelectorAll("svg.time"))
      svg.setAttribute("viewBox", `${left} 0 ${width} 10`);
    const seconds = Number(waterfall.querySelector("[data-axis-s]").dataset.axisS);
    const text = (at) => `${(at / AXIS * seconds).toPrecision(4)} s`;
    waterfall.querySelector("[data-zoom-range]").textContent = `${text(left)} to ${text(left + width)}`;
  };
  const zoom = (waterfall, how) => {
    const [from, to] = ranges.get(waterfall) || [0, AXIS];
    const width = to - from, middle = (from + to) / 2;
    if (how === "in") show(waterfall, middle - width / 4, middle + width / 4);
    else if (how === "out") show(waterfall, middle - width, middle + width);
    else if (how === "left") show(waterfall, from - width / 2, to - width / 2);
    else if (how === "right") show(waterfall, from + width / 2, to + width / 2);
    else show(waterfall, 0, AXIS);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom]");
    if (button) zoom(button.closest("[data-waterfall]"), button.dataset.zoom);
  });
  document.addEventListener("dblclick", (event) => {
    const svg = event.target.closest("svg.time");
    if (!svg) return;
    const left = Number(svg.dataset.left), width = Number(svg.dataset.width);
    show(svg.closest("[data-waterfall]"), left - width * 0.1, left + width * 1.1);
  });
  document.addEventListener("part", (event) => {  // rows that were loaded later
    const waterfall = event.target.closest && event.target.closest("[data-waterfall]");
    if (waterfall && ranges.has(waterfall)) show(waterfall, ...ranges.get(waterfall));
    if (location.hash && event.target.querySelector && event.target.querySelector("[data-waterfall]")) follow(null);
  });

  follow(null);
})();
