// Charts: one crosshair for all of a page, with the values at its place; dragging chooses a time, and so do Shift and the
// arrow keys. What it shows are the texts of the page, never as HTML.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const LEAST_PX = 4;  // less is a click
  const shape = (name, className) => {
    const made = document.createElementNS(SVG, name);
    made.setAttribute("class", className);
    return made;
  };
  const set = (element, values) => { for (const [name, value] of Object.entries(values)) element.setAttribute(name, value); };
  const part = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  };

  const start = (group) => {
    const slots = [...group.querySelectorAll("[data-slots] > li")].map(({ dataset, textContent }) =>
      ({ at: Number(dataset.at), text: textContent, since: dataset.since, until: dataset.until }));
    if (!slots.length) return;
    const isTime = Boolean(slots[0].since);
    const legend = new Map([...group.querySelectorAll(".legend [data-line]")].map((one) => [one.dataset.line, one]));
    const said = group.querySelector("[data-said]");
    const charts = [...group.querySelectorAll("svg[data-plot]")].map((svg) => {
      const [left, width, top, bottom] = svg.dataset.plot.split(" ").map(Number);
      for (const title of svg.querySelectorAll("[data-slot] > title")) {  // the crosshair has its text
        title.parentElement.setAttribute("aria-label", title.textContent);
        title.remove();
      }
      const chosen = shape("rect", "selection"), line = shape("line", "crosshair");
      set(chosen, { y: top, height: bottom - top });
      set(line, { y1: top, y2: bottom });
      const tip = part("div", "tip", "");
      tip.hidden = chosen.style.display = line.style.display = "none";
      tip.setAttribute("aria-hidden", "true");
      svg.prepend(chosen);
      svg.append(line);
      group.append(tip);
      return { svg, left, width, top, line, chosen, tip, marks: null, box: svg.viewBox.baseVal.width };
    });
    const every = group.dataset.charts !== "one";  // every chart has its values, not the one below the pointer alone

    const marksOf = (chart, slot) => {
      if (!chart.marks) {
        chart.marks = new Map();
        for (const mark of chart.svg.querySelectorAll("[data-slot]")) {
          const number = Number(mark.dataset.slot);
          chart.marks.set(number, [...chart.marks.get(number) ?? [], mark]);
        }
      }
      return chart.marks.get(slot) ?? [];
    };
    const valueOf = ({ dataset }) => dataset.n ? `${dataset.text}, n ${dataset.n}` : dataset.text;
    const nameOf = (mark) => legend.get(mark.dataset.line)?.querySelector(".recorded").textContent ?? "";

    const fill = (chart, slot) => {
      const rows = marksOf(chart, slot).map((mark) => {
        const row = part("div", "tip-row", "");
        const swatch = legend.get(mark.dataset.line)?.querySelector("svg").cloneNode(true);
        if (swatch) row.append(swatch, part("span", "tip-name recorded", nameOf(mark)));
        row.append(part("span", "tip-value", mark.dataset.text));
        if (mark.dataset.n) row.append(part("span", "faint", `n ${mark.dataset.n}`));
        return row;
      });
      if (!rows.length) rows.push(part("div", "faint", "nothing"));
      chart.tip.replaceChildren(part("div", "tip-head recorded", slots[slot].text), ...rows);
    };

    let shown = -1, from = -1, pressed = null;
    const show = (slot, over) => {
      for (const chart of charts) {
        const { svg, left, width, top, line, tip } = chart;
        const rect = svg.getBoundingClientRect(), scale = rect.width / chart.box;
        const x = left + slots[slot].at * width;
        line.style.display = "";
        set(line, { x1: x, x2: x });
        tip.hidden = !(every || svg === over) || rect.bottom < 0 || rect.top > innerHeight;
        if (tip.hidden) continue;
        if (slot !== shown || !tip.firstChild) fill(chart, slot);
        // On the side of the crosshair that has more room, within the chart if it is wide enough.
        const at = rect.left + x * scale;
        const after = at + 12 + tip.offsetWidth <= innerWidth && (slots[slot].at < 0.5 || at - 12 - tip.offsetWidth < 0);
        tip.style.left = `${Math.max(4, after ? at + 12 : at - 12 - tip.offsetWidth)}px`;
        tip.style.top = `${Math.max(4, Math.min(rect.top + top * scale, innerHeight - tip.offsetHeight - 4))}px`;
      }
      shown = slot;
      for (const { left, width, chosen } of charts) {
        chosen.style.display = from < 0 ? "none" : "";
        const half = width / slots.length / 2;
        const [first, last] = [Math.min(from, slot), Math.max(from, slot)];
        if (from >= 0) set(chosen, { x: left + slots[first].at * width - half, width: (slots[last].at - slots[first].at) * width + 2 * half });
      }
    };
    const hide = () => {
      shown = from = -1;
      for (const { tip, line, chosen } of charts) { tip.hidden = true; line.style.display = chosen.style.display = "none"; }
    };
    const choose = (one, other) => {
      const address = new URL(location.href);
      address.searchParams.set("since", slots[Math.min(one, other)].since);
      address.searchParams.set("until", slots[Math.max(one, other)].until);
      location.assign(address);
    };

    for (const chart of charts) {
      const { svg, left, width } = chart;
      const slotAt = (event) => {
        const rect = svg.getBoundingClientRect();
        const share = ((event.clientX - rect.left) / rect.width * chart.box - left) / width;
        return Math.max(0, Math.min(slots.length - 1, Math.floor(share * slots.length)));
      };
      const moved = (event) => {
        if (pressed && isTime && Math.abs(event.clientX - pressed.x) >= LEAST_PX) from = pressed.slot;
        show(slotAt(event), svg);
      };
      svg.addEventListener("pointermove", (event) => { if (!pressed) moved(event); });
      svg.addEventListener("pointerleave", () => { if (!pressed) hide(); });
      svg.addEventListener("dragstart", (event) => event.preventDefault());  // of a link
      svg.addEventListener("pointerdown", (event) => {
        if (event.button || event.pointerType === "touch") return;
        pressed = { x: event.clientX, slot: slotAt(event) };
        const end = (last) => {
          removeEventListener("pointermove", moved);
          removeEventListener("pointerup", end);
          removeEventListener("pointercancel", end);
          const first = from;
          pressed = null;
          hide();
          if (first < 0 || last.type !== "pointerup") return;
          const stay = (click) => { click.preventDefault(); click.stopPropagation(); };
          addEventListener("click", stay, { capture: true, once: true });  // a drag that ends on a point opens nothing
          setTimeout(() => removeEventListener("click", stay, { capture: true }));
          choose(first, slotAt(last));
        };
        pressed.end = end;
        addEventListener("pointermove", moved);
        addEventListener("pointerup", end);
        addEventListener("pointercancel", end);
      });
      svg.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const last = slots.length - 1, at = shown < 0 ? last : shown;
        const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
        if (event.key === "Enter" && event.target === svg && isTime && from >= 0) choose(from, at);
        else if (next === undefined) return;
        else {
          from = event.shiftKey && isTime ? (from < 0 ? at : from) : -1;
          show(Math.max(0, Math.min(last, next)), svg);
          said.textContent = [slots[shown].text, ...marksOf(chart, shown).map((one) => `${nameOf(one)} ${valueOf(one)}`)].join("; ");
        }
        event.preventDefault();
      });
      svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) show(shown < 0 ? slots.length - 1 : shown, svg); });
      svg.addEventListener("blur", () => { if (!pressed) hide(); });
    }
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || shown < 0) return;
      pressed?.end(event);
      hide();
    });
    addEventListener("scroll", () => { if (!pressed) hide(); }, { passive: true, capture: true });
  };
  for (const group of document.querySelectorAll("[data-charts]")) start(group);
})();
