// Charts over time, drawn by uPlot from the JSON of the page: one crosshair for all of them. A drag, or Shift with the arrow keys
// and Enter, chooses a time; a click leads to the sessions of a point.
(() => {
  "use strict";
  const INKS = ["--model", "--tool", "--agent", "--passed", "--broken", "--text"];
  const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [10, 4], [1, 4]];  // lines differ by these, too, not by the colour alone
  const NEAR_PX = 20;
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  const ink = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };  // a canvas knows no light-dark()
  const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const DAY_S = 86_400, [HOURS, DAYS, MONTHS] = ["{HH}:{mm}", "{D} {MMM}", "{MMM} {YYYY}"].map((text) => uPlot.fmtDate(text));
  const form = (options) => (number) => new Intl.NumberFormat("en", { maximumSignificantDigits: 4, ...options }).format(number);
  const FORMS = {
    percent: form({ style: "percent" }), usd: form({ style: "currency", currency: "USD" }),
    seconds: form({ style: "unit", unit: "second" }), count: form({ notation: "compact" }),
  };
  const plots = [];

  const start = (group) => {
    const { name, slots, marks, charts } = JSON.parse(group.dataset.charts);
    const isTime = slots[0].at !== null;
    const at = slots.map((slot, place) => isTime ? slot.at : place);
    const go = (filters, first, last) => {
      const list = group.dataset.list, address = new URL(list && filters ? list : location.href, location.href);
      for (const [key, text] of Object.entries(filters ?? {})) address.searchParams.set(key, text);
      address.searchParams.set("since", slots[first].since);
      address.searchParams.set("until", slots[last].until);
      location.assign(address);
    };
    const chosen = (plot) => {
      const { left, width } = plot.select;
      if (width) go(null, plot.posToIdx(left), plot.posToIdx(left + width));
    };

    const draw = (chart, figure) => {
      const shown = chart.series.map(({ points }) => points.map((point) => point && point[0]));
      // The points and their intervals: hollow if they are of few sessions.
      const drawSeries = (plot, number) => {
        const { ctx } = plot, x = (place) => plot.valToPos(at[place], "x", true), y = (one) => plot.valToPos(one, "y", true);
        ctx.save();
        ctx.strokeStyle = ctx.fillStyle = ink(INKS[number - 1]);
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([]);
        chart.series[number - 1].points.forEach((point, place) => {
          if (!point) return;
          const [value, , isFew, low, high] = point;
          ctx.beginPath();
          if (low !== null) { ctx.moveTo(x(place), y(low)); ctx.lineTo(x(place), y(high)); ctx.stroke(); ctx.beginPath(); }
          ctx.arc(x(place), y(value), (slots.length > 45 ? 2 : 3) * devicePixelRatio, 0, 2 * Math.PI);
          if (isFew) ctx.stroke(); else ctx.fill();
        });
        ctx.restore();
      };
      const drawMarks = (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.strokeStyle = ink("--faint");
        ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
        for (const place of Object.keys(marks)) {
          const x = plot.valToPos(at[place], "x", true);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      };
      const axis = { stroke: () => ink("--faint"), grid: { stroke: () => ink("--line"), width: 1 }, ticks: { show: false }, size: 28 };
      const ends = chart.series.flatMap(({ points }) => points).flatMap((point) => point ? [point[0], point[3] ?? point[0], point[4] ?? point[0]] : []);
      const low = Math.min(0, ...ends), high = chart.most ?? Math.max(0, ...ends);
      const text = (place) => `${slots[place].text}${marks[place] ? `, ${marks[place]}` : ""}`;
      const plot = new uPlot({
        width: figure.clientWidth, height: 180,
        tzDate: utc,
        cursor: { sync: { key: "page" }, y: false, drag: { x: isTime, setScale: false } },
        scales: { x: { time: isTime }, y: { range: (_, least, most) => uPlot.rangeNum(Math.min(low, least), high || most || 1, chart.most ? 0 : 0.05, true) } },
        axes: [
          isTime
            ? { ...axis, values: (_, times, __, ___, step) => times.map((one) => (step < DAY_S ? HOURS : step < 28 * DAY_S ? DAYS : MONTHS)(utc(one))) }
            : { ...axis, incrs: [1, 2, 3, 6, 12, 24], values: (_, places) => places.map((one) => slots[one]?.text ?? "") },
          { ...axis, size: (_, texts) => Math.max(64, ...(texts ?? []).map((one) => 8 * one.length)), values: (_, numbers) => numbers.map(FORMS[chart.unit]) },
        ],
        series: [
          { label: name, value: (_, value, series, place) => place === null ? "–" : text(place) },
          ...chart.series.map((one, number) => ({
            label: one.name || (chart.series.length > 1 ? "not recorded" : "value"), width: 2, dash: DASHES[number],
            stroke: () => ink(INKS[number]), points: { show: false },
            value: (_, value, series, place) => place === null ? "–" : one.points[place]?.[1] ?? "nothing",
          })),
        ],
        hooks: { drawSeries: [(plot, number) => number && drawSeries(plot, number)], drawAxes: [drawMarks], setSelect: [chosen] },
      }, [at, ...shown], figure);
      plots.push(plot);
      new ResizeObserver(() => plot.setSize({ width: figure.clientWidth, height: 180 })).observe(figure);

      plot.over.addEventListener("click", () => {
        const { idx, top } = plot.cursor;
        const near = chart.series.map(({ filters, points }) => ({ filters, away: filters && points[idx] ? Math.abs(plot.valToPos(points[idx][0], "y") - top) : Infinity }));
        const nearest = near.reduce((one, other) => other.away < one.away ? other : one);
        if (!plot.select.width && nearest.away <= NEAR_PX) go(nearest.filters, idx, idx);
      });
      let from = null;
      figure.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const last = slots.length - 1, place = plot.cursor.idx ?? last + 1;
        const next = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: last }[event.key];
        if (event.key === "Enter" && from !== null && isTime) go(null, Math.min(from, place), Math.max(from, place));
        else if (next === undefined) return;
        else {
          const to = Math.max(0, Math.min(last, next)), left = (one) => plot.valToPos(at[one], "x");
          from = event.shiftKey && isTime ? from ?? place : null;
          plot.setCursor({ left: left(to), top: 0 }, true, true);
          const [one, other] = [left(from ?? to), left(to)];
          plot.setSelect({ left: Math.min(one, other), width: Math.abs(other - one), top: 0, height: plot.over.clientHeight }, false);
          figure.querySelector("[role=status]").textContent = `${text(to)}; ${chart.series.map((line) => `${line.name} ${line.points[to]?.[1] ?? "nothing"}`.trim()).join("; ")}`;
        }
        event.preventDefault();
      });
    };

    group.hidden = false;
    charts.forEach((chart, number) => draw(chart, group.querySelectorAll("figure")[number]));
  };
  for (const group of document.querySelectorAll("[data-charts]")) start(group);
  const redraw = () => plots.forEach((plot) => plot.redraw(false));
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
