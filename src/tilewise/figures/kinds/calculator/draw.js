// Sliders, bars and a verdict: a model whose every answer was computed when the page was built.
// In: the specification of tilewise.figures.calculator. Out: a View. Only looks answers up.

import { names, slider } from "tilewise-figures/controls.js";
import { element, escaped, grouped } from "tilewise-figures/dom.js";
import { within } from "tilewise-figures/state.js";

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { sliders, meters, limits, verdicts, verdict, plot } = figure.spec;
  const saved = memory.saved.at || [];
  const at = sliders.map((one, n) => within(saved[n], 0, one.said.length - 1, one.start));
  const picture = element("div", { class: "tw-flat tw-calculator-plot", role: "img", "aria-label": figure.alt });
  const stage = plot ? element("div", { class: "tw-stage" }, picture) : null;
  const rows = meters.map((meter) => {
    const value = element("b", { class: "tw-meter-value" });
    const bar = element("span", { class: "tw-meter-bar", "data-role": meter.role });
    const root = element(
      "div",
      { class: "tw-meter" },
      element("span", { class: "tw-meter-label" }, meter.label),
      element("span", { class: "tw-meter-track" }, bar),
      value,
    );
    return { root, bar, value };
  });
  const said = element("p", { class: "tw-calculator-verdict", role: "status" });
  const controls = sliders.map((one, n) => {
    const onInput = (value) => {
      at[n] = value;
      draw();
    };
    const shared = { label: one.name, value: at[n], onInput };
    if (one.are_names) return names({ ...shared, texts: one.said });
    return slider({ ...shared, min: 0, max: one.said.length - 1, text: (value) => one.said[value] });
  });
  body.append(
    ...(stage ? [stage] : []),
    element("div", { class: "tw-meters" }, ...rows.map((row) => row.root)),
    said,
    element("div", { class: "tw-calculator-sliders" }, ...controls.map((control) => control.root)),
  );
  resize();

  function draw() {
    const state = sliders.reduce((index, one, n) => index * one.said.length + at[n], 0);
    rows.forEach((row, n) => {
      row.bar.style.width = `${100 * meters[n].share[state]}%`;
      row.value.textContent = meters[n].texts[meters[n].text[state]];
      row.root.classList.toggle("tw-meter-limit", Boolean((limits[state] >> n) & 1));
    });
    said.textContent = verdicts[verdict[state]];
    if (plot && stage) {
      picture.innerHTML = drawing(plot, plot.drawings[plot.drawing[state]], plot.point[state], stage);
    }
    memory.save({ at: [...at] });
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return { recolour: () => {}, resize, dispose: () => {} };
}

/** Axes, lines with their labels, and the point, as text of an SVG. */
function drawing(plot, lines, point, stage) {
  const [width, height] = [stage.clientWidth - 2, stage.clientHeight - 2];
  const [left, right, top, bottom] = [58, 14, 22, height - 42];
  const x = scale(plot.x_range, plot.log, left, width - right);
  const y = scale(plot.y_range, plot.log, bottom, top);
  const parts = [];
  for (const tick of ticks(plot.x_range, plot.log)) {
    parts.push(
      `<line class="tw-rule" x1="${x(tick)}" x2="${x(tick)}" y1="${top}" y2="${bottom}"/>`,
      `<text class="tw-tick" text-anchor="middle" x="${x(tick)}" y="${bottom + 17}">${short(tick)}</text>`,
    );
  }
  for (const tick of ticks(plot.y_range, plot.log)) {
    parts.push(
      `<line class="tw-rule" x1="${left}" x2="${width - right}" y1="${y(tick)}" y2="${y(tick)}"/>`,
      `<text class="tw-tick" text-anchor="end" x="${left - 6}" y="${y(tick) + 4}">${short(tick)}</text>`,
    );
  }
  parts.push(
    `<text class="tw-tick" text-anchor="end" x="${width - right}" y="${bottom + 36}">${escaped(plot.x)}</text>`,
    `<text class="tw-tick" x="0" y="12">${escaped(plot.y)}</text>`,
  );
  for (const line of lines) {
    const points = line.points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`);
    const [lx, ly] = line.points[line.points.length - 1];
    const dashed = line.role === "predicted" ? ' stroke-dasharray="7 4"' : "";
    parts.push(
      `<polyline class="tw-line" data-role="${line.role}"${dashed} points="${points.join(" ")}"/>`,
      `<text class="tw-line-label" data-role="${line.role}" text-anchor="end" x="${x(lx) - 4}" y="${y(ly) - 7}">${escaped(line.label)}</text>`,
    );
  }
  if (point) {
    const [px, py] = [x(point[0]), y(point[1])];
    parts.push(
      `<line class="tw-drop" x1="${px}" x2="${px}" y1="${py}" y2="${bottom}"/>`,
      `<circle class="tw-point" cx="${px}" cy="${py}" r="7"/>`,
    );
  }
  return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" aria-hidden="true">${parts.join("")}</svg>`;
}

function scale([first, last], log, from, to) {
  const place = log ? Math.log10 : Number;
  const [low, high] = [place(first), place(last)];
  return (value) => {
    const share = (place(value) - low) / (high - low);
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  };
}

function ticks([first, last], log) {
  const made = [];
  if (log) {
    for (let power = Math.ceil(Math.log10(first) - 1e-9); 10 ** power <= last * 1.000001; power += 1) made.push(10 ** power);
    return made;
  }
  const rough = (last - first) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || rough;
  for (let value = Math.ceil(first / step) * step; value <= last * 1.000001; value += step) made.push(value);
  return made;
}

function short(value) {
  return value >= 1000 ? grouped(Math.round(value)) : String(Number(value.toPrecision(3)));
}
