/* Charts of series over training steps, and the end of the log in sight.
   What a canvas shows stands beside it as sentences and a table. */
"use strict";
(() => {
  const COLOURS = ["--accent", "--waiting", "--succeeded", "--paused", "--failed", "--neutral"];
  const HEIGHT = 230;

  function colour(element, name) {
    return getComputedStyle(element).getPropertyValue(name).trim() || "#888";
  }

  function number(value) {
    if (value === null || value === undefined) return "–";
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)) return value.toExponential(2);
    return Number(value.toPrecision(4)).toString();
  }

  /* The moments at which training stopped and went on, as lines with a sign above them. */
  function drawMarks(plot, marks, element) {
    const context = plot.ctx;
    const seen = new Map();
    context.save();
    context.lineWidth = devicePixelRatio;
    context.font = `${11 * devicePixelRatio}px sans-serif`;
    for (const mark of marks) {
      const { min, max } = plot.scales.x;
      if (mark.step < min || mark.step > max) continue;
      const at = Math.round(plot.valToPos(mark.step, "x", true));
      const stops = !["resumed", "rerun", "went on"].includes(mark.kind);
      const failed = ["failed", "interrupted", "cancelled"].includes(mark.kind);
      context.strokeStyle = context.fillStyle = colour(element, failed ? "--failed" : mark.kind === "paused" ? "--paused" : "--succeeded");
      context.setLineDash(stops ? [4 * devicePixelRatio, 4 * devicePixelRatio] : []);
      context.beginPath();
      context.moveTo(at, plot.bbox.top);
      context.lineTo(at, plot.bbox.top + plot.bbox.height);
      context.stroke();
      const row = seen.get(at) || 0;
      seen.set(at, row + 1);
      const { left, width } = plot.bbox;
      context.textAlign = at < left + width * 0.08 ? "left" : at > left + width * 0.92 ? "right" : "center";
      if (row < 3) context.fillText(mark.kind, at, plot.bbox.top + (12 + 13 * row) * devicePixelRatio);
    }
    context.restore();
  }

  function draw(element) {
    const chart = JSON.parse(element.dataset.chart);
    element.replaceChildren();
    const axis = { stroke: colour(element, "--soft"), grid: { stroke: colour(element, "--line"), width: 1 }, ticks: { stroke: colour(element, "--line") } };
    const series = chart.names.map((label, at) => ({
      label,
      stroke: colour(element, COLOURS[at % COLOURS.length]),
      width: 1.6,
      spanGaps: true,
      points: { show: chart.steps.length < 30, size: 5 },
      value: (_, value) => number(value),
    }));
    const only = chart.steps.length === 1;
    const range = only ? [chart.steps[0] - 1, chart.steps[0] + 1] : undefined;
    const options = {
      width: Math.max(200, element.clientWidth),
      height: HEIGHT,
      scales: { x: { time: false, range } },
      axes: [{ ...axis, label: "training step", labelSize: 20, size: 34 }, { ...axis, size: 62, values: (_, values) => values.map(number) }],
      series: [{ label: "step" }, ...series],
      hooks: { draw: [(plot) => drawMarks(plot, chart.marks, element)] },
    };
    element.plot = new uPlot(options, [chart.steps, ...chart.values], element);
    element.drawn = element.dataset.chart;
  }

  function drawAll() {
    for (const element of document.querySelectorAll(".plot[data-chart]")) {
      if (element.drawn !== element.dataset.chart || !element.querySelector("canvas")) draw(element);
    }
  }

  drawAll();
  document.addEventListener("htmx:afterSettle", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const element of document.querySelectorAll(".plot[data-chart]")) draw(element);
  });

  /* A log that is read at its end stays there when lines are added. */
  let followed = true;
  const log = () => document.querySelector("#log pre");
  const toEnd = () => { const lines = log(); if (lines && followed) lines.scrollTop = lines.scrollHeight; };
  document.addEventListener("scroll", (event) => {
    if (event.target === log()) followed = log().scrollHeight - log().scrollTop - log().clientHeight < 40;
  }, true);
  document.addEventListener("htmx:afterSettle", toEnd);
  toEnd();

  let wait = null;
  addEventListener("resize", () => {
    clearTimeout(wait);
    wait = setTimeout(() => {
      for (const element of document.querySelectorAll(".plot[data-chart]")) {
        element.plot?.setSize({ width: Math.max(200, element.clientWidth), height: HEIGHT });
      }
    }, 150);
  });
})();
