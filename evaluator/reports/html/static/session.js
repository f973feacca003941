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
    const item = document.querySelector(`[data-item][data-span="${CSS.escape(spans[0])}"]`);
    if (item) {
      mark(item);
      item.scrollIntoView({ block: "nearest" });
    }
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

  // Select a message, a call or a hand-off: it is lit wherever it is shown, and the side pane has its span.
  const detail = document.getElementById("span-detail");
  const within = (element, selector) => element.querySelector(selector)?.textContent ?? "";
  const barOf = (span) => span && document.querySelector(`tr[data-span="${CSS.escape(span)}"]`);
  const mark = (item) => {
    for (const other of document.querySelectorAll(".chosen")) other.classList.remove("chosen");
    item.classList.add("chosen");
    const form = document.querySelector("[data-commenting]");
    if (!form) return;
    const { span } = item.dataset;
    form.hidden = !span;
    if (!span) return;
    const own = `.remark[data-author="${CSS.escape(form.dataset.author)}"] [data-text]`;
    form.elements.span.value = span;
    form.elements.comment.value = within(document, `[data-span="${CSS.escape(span)}"] ${own}`);
    form.elements.back.value = form.elements.back.value.replace(/#.*/s, "") + (barOf(span) ? `#${barOf(span).id}` : "");
    form.querySelector("[data-step]").textContent = within(item, ".line strong") || within(item, ".name");
  };
  const select = (item, block = "nearest") => {
    mark(item);
    reveal(item);
    const { span } = item.dataset;
    light(span ? [span] : []);
    const bar = barOf(span);
    if (bar) bar.scrollIntoView({ block: "nearest" });
    item.scrollIntoView({ block });
    item.focus({ preventScroll: true });
    const at = bar ?? item.closest(".turn");  // the address is that of the step, to be sent
    if (at && !document.querySelector("[data-prefix]").dataset.prefix) history.replaceState(null, "", `#${at.id}`);
    if (detail && span) load(item, [span]);
    else if (detail) detail.replaceChildren();
  };
  document.addEventListener("click", (event) => {
    const item = event.target.closest("[data-item]");
    if (item && !event.target.closest("a, button, summary, input") && getSelection().isCollapsed) select(item);
  });

  const go = (selector, step) => {
    const all = [...document.querySelectorAll(selector)].filter((one) => one.offsetParent);
    const chosen = document.querySelector(".chosen");
    let at = all.indexOf(chosen);
    if (at < 0 && chosen)  // the next one of another kind
      at = all.findLastIndex((one) => one.compareDocumentPosition(chosen) & Node.DOCUMENT_POSITION_FOLLOWING)
        + (step < 0 ? 1 : 0);
    const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
    if (next) select(next);
  };
  // What failed: calls and turns of the conversation, then spans that it does not have.
  const failures = () => {
    const found = [...document.querySelectorAll(".item.failed, .problems")];
    for (const turn of document.querySelectorAll(".turn.failed"))
      if (!found.some((one) => turn.contains(one))) found.push(turn.querySelector(".reply"));
    const shown = new Set(found.map((one) => one.dataset.span));
    found.push(...[...document.querySelectorAll("tr.span.failed")].filter((one) => !shown.has(one.dataset.span)));
    const isBefore = (one, other) => one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
    return found.filter((one) => !one.closest("[hidden]")).sort((one, other) => (isBefore(one, other) ? -1 : 1));
  };
  const toFailure = (step) => {
    const all = failures();
    if (!all.length) {
      window.spangradeSay("No errors");
      return;
    }
    const chosen = document.querySelector(".chosen");
    let at = all.indexOf(chosen);
    if (at >= 0) at += step;
    else if (!chosen) at = step > 0 ? 0 : -1;
    else {
      const following = all.findIndex((one) => chosen.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
      at = (following < 0 ? all.length : following) + (step < 0 ? -1 : 0);
    }
    at = (at + all.length) % all.length;  // round and round
    select(all[at], "center");
    window.spangradeSay(`Error ${at + 1} of ${all.length}`);
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-next-error]")) toFailure(1);
  });
  const comment = () => {
    const form = document.querySelector("[data-commenting]:not([hidden])");
    if (form) form.elements.comment.focus();
    else window.spangradeSay("Choose a step first");
  };
  const copy = () => {
    const chosen = document.querySelector(".chosen");
    if (!chosen) return;
    const texts = [...chosen.querySelectorAll("pre.recorded")].map((one) => one.textContent.replace(/^\n/, ""));
    navigator.clipboard.writeText(texts.join("\n")).then(
      () => window.spangradeSay("Copied"),
      () => window.spangradeSay("The browser does not allow copying"));
  };

  // A long JSON value as a tree. It is made of the lines of its text, so that each value stands in it as it is recorded;
  // that text stays in the page, to be copied.
  const MOST_LINES = 5000;
  // JSON that is recorded on one line, on lines as the server writes others: no number and no text of it changes.
  const onLines = (json) => {
    let depth = 0;
    const line = () => `\n${"  ".repeat(depth)}`;
    return json.replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|[[{]|[\]}]|,|:|\s+/g, (part) => {
      if (/^\s/.test(part)) return "";
      if (part === ",") return part + line();
      if (part === ":") return ": ";
      if (/^[[{]$/.test(part)) { depth += 1; return part + line(); }
      if (/^[\]}]$/.test(part)) { depth -= 1; return line() + part; }
      return part.replace(/^([[{])\s*([\]}])$/, "$1$2");
    });
  };
  const indent = (line) => line.search(/\S/);
  const tree = (lines) => {
    const list = document.createElement("ul");
    list.className = "tree";
    for (let at = 0; at < lines.length; at++) {
      const item = list.appendChild(document.createElement("li"));
      item.className = "recorded";
      const line = lines[at].trim();
      if (!/[[{]$/.test(line)) {
        item.textContent = line;
        continue;
      }
      let end = at + 1;
      while (indent(lines[end]) > indent(lines[at])) end++;
      const inside = lines.slice(at + 1, end);
      const entries = inside.filter((one) => indent(one) === indent(inside[0]) && !/^[\]}],?$/.test(one.trim())).length;
      const branch = item.appendChild(document.createElement("details"));
      branch.open = inside.length <= 8;
      const summary = branch.appendChild(document.createElement("summary"));
      summary.append(`${line} `);
      const number = summary.appendChild(document.createElement("span"));
      number.className = "faint";
      number.textContent = String(entries);
      summary.append(` ${lines[end].trim()}`);
      branch.append(tree(inside));
      at = end;
    }
    return list;
  };
  document.addEventListener("toggle", (event) => {
    const text = event.target.matches("details.value[open]") && event.target.querySelector(":scope > pre.recorded:only-of-type");
    if (!text || text.hidden) return;
    let json = text.textContent.trim();
    try {
      while (json.startsWith('"')) json = JSON.parse(json);  // JSON in a text
      if (!/^[[{]/.test(json)) return;
      JSON.parse(json);
    } catch { return; }  // a text, or the beginning of a long value
    const lines = onLines(json).split("\n");
    if (lines.length < 4 || lines.length > MOST_LINES) return;
    text.hidden = true;
    text.after(tree(lines.slice(1, -1)));
  }, true);

  const help = document.querySelector("[data-help]");
  const keys = {
    "j": () => go("[data-item]", 1),
    "k": () => go("[data-item]", -1),
    "]": () => go(".message.user", 1),
    "[": () => go(".message.user", -1),
    "e": () => toFailure(1),
    "E": () => toFailure(-1),
    "c": copy,
    ...(document.querySelector("[data-commenting]") && { "m": comment }),
    "?": () => help && (help.open ? help.close() : help.showModal()),
    "+": () => zoomAll("in"),
    "-": () => zoomAll("out"),
    "0": () => zoomAll("all"),
    "<": () => zoomAll("left"),
    ">": () => zoomAll("right"),
  };
  document.addEventListener("keydown", (event) => {
    if (!document.body.classList.contains("workplace") || !Object.hasOwn(keys, event.key)) return;
    if (window.spangradeKeyIsTaken(event) && !(event.key === "?" && help?.open)) return;
    keys[event.key]();
    event.preventDefault();
  });

  // Zoom: each bar's picture shows a part of the axis.
  const ranges = new WeakMap();
  const brief = (s) => s && Math.abs(s) < 1 ? `${Number((s * 1000).toPrecision(3))} ms` : `${s.toFixed(1)} s`;
  const show = (waterfall, from, to) => {
    const width = Math.min(AXIS, Math.max(AXIS / 1e6, to - from));
    const left = Math.min(Math.max(0, from), AXIS - width);
    ranges.set(waterfall, [left, left + width]);
    for (const svg of waterfall.querySelectorAll("svg.time"))
      svg.setAttribute("viewBox", `${left} 0 ${width} 10`);
    const seconds = Number(waterfall.querySelector("[data-axis-s]").dataset.axisS);
    const exact = (at) => `${(at / AXIS * seconds).toPrecision(4)} s`;
    for (const tick of waterfall.querySelectorAll("[data-tick]"))
      tick.textContent = brief((left + width * Number(tick.dataset.tick)) / AXIS * seconds);
    waterfall.querySelector("[data-zoom-range]").textContent = `${exact(left)} to ${exact(left + width)}`;
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
  const zoomAll = (how) => {
    for (const waterfall of document.querySelectorAll("[data-waterfall]")) zoom(waterfall, how);
  };
  document.addEventListener("wheel", (event) => {  // around the pointer
    const svg = event.ctrlKey && event.target.closest?.("svg.time");
    if (!svg) return;
    event.preventDefault();
    const waterfall = svg.closest("[data-waterfall]");
    const [from, to] = ranges.get(waterfall) || [0, AXIS];
    const box = svg.getBoundingClientRect();
    const at = from + (to - from) * (event.clientX - box.left) / box.width;
    const factor = event.deltaY < 0 ? 0.8 : 1.25;
    show(waterfall, at - (at - from) * factor, at + (to - at) * factor);
  }, { passive: false });
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
