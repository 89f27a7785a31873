// Spans on rows, and a moment that moves through their starts and ends.
// In: the specification that tilewise.figures.timeline wrote. Out: a View.

import { stepper } from "tilewise-figures/controls.js";
import { element, escaped, grouped, uniqueId } from "tilewise-figures/dom.js";
import { hatching } from "tilewise-figures/grid_2d.js";
import { within } from "tilewise-figures/state.js";

const ROW = 56;
const BAR = 30;
const [INSIDE, BETWEEN] = [6, 5];

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { rows, spans, moments, unit } = figure.spec;
  const inOrder = [...spans].sort((one, other) => one.start - other.start);
  let at = within(memory.saved.step, 0, moments.length - 1, moments.length - 1);
  const hatch = uniqueId("hatch");
  const picture = element("div", { class: "tw-flat tw-timeline", role: "img", "aria-label": figure.alt });
  const stage = element("div", { class: "tw-stage" }, picture);
  const readout = element("p", { class: "tw-readout tw-one-line", "aria-live": "polite" });
  const steps = stepper({
    label: "moment",
    count: moments.length,
    value: at,
    text: (step) => `${short(moments[step])} ${unit}`,
    onInput(next) {
      at = next;
      draw();
    },
  });
  body.append(stage, readout, steps.root);
  const pen = element("canvas", {}).getContext("2d");
  pen.font = `12px ${getComputedStyle(body).fontFamily}`; // as figures.css has it
  resize();

  function draw() {
    const width = stage.clientWidth - 4;
    const left = Math.max(...rows.map((row) => row.length)) * 8 + 14;
    const [first, last] = [moments[0], moments[moments.length - 1]];
    const scale = (width - left - 14) / (last - first || 1);
    const x = (time) => left + (time - first) * scale;
    const bottom = rows.length * ROW + 8;
    const now = moments[at];
    const parts = rows.map(
      (row, r) =>
        `<text class="tw-row" x="0" y="${r * ROW + ROW / 2 + 8}">${escaped(row)}</text>` +
        `<line class="tw-rule" x1="${left}" x2="${width}" y1="${(r + 1) * ROW + 4}" y2="${(r + 1) * ROW + 4}"/>`,
    );
    const taken = rows.map(() => -BETWEEN); // where the last name above a row ends
    for (const span of inOrder) parts.push(bar(span, x, now, taken));
    parts.push(axisParts(x, first, last, bottom, width));
    parts.push(`<line class="tw-now" x1="${x(now)}" x2="${x(now)}" y1="2" y2="${bottom}"/>`);
    const tall = bottom + 40;
    picture.innerHTML =
      `<svg width="${width}" height="${tall}" viewBox="0 0 ${width} ${tall}" aria-hidden="true">` +
      `<defs>${hatching(hatch)}</defs>${parts.join("")}</svg>`;
    const busy = rows.map((row, r) => {
      const current = spans.find((span) => span.row === r && span.start <= now && now < span.stop);
      return `${row}: ${current ? current.label : "nothing"}`;
    });
    const here = `${short(now)} ${unit}`;
    readout.textContent =
      at === moments.length - 1 ? `All is done at ${here}.` : `From ${here} on, ${busy.join("; ")}.`;
    memory.save({ step: at });
  }

  /** A span and its name: inside, else above, else none where another name stands; the title and the text have it. */
  function bar(span, x, now, taken) {
    const y = span.row * ROW + (ROW - BAR) / 2 + 4;
    const [from, to] = [x(span.start), x(span.stop)];
    const wide = Math.max(2, to - from - 1);
    const done = span.start < now ? Math.min(wide, x(now) - from) : 0;
    const waste = span.role === "waste";
    const name = waste ? "tw-span-waste" : `tw-span tw-role-${span.role}`;
    const fill = waste ? ` fill="url(#${hatch})"` : "";
    const long = pen.measureText(span.label).width;
    const above = Math.min(from, Math.max(to, stage.clientWidth - 4) - long);
    const text = (left, base) => `<text class="tw-span-label" x="${left}" y="${base}">${escaped(span.label)}</text>`;
    let label = "";
    if (long + 2 * INSIDE <= wide) label = text(from + INSIDE, y + BAR / 2 + 4.5);
    else if (above >= taken[span.row] + BETWEEN) {
      label = text(above, y - 5);
      taken[span.row] = above + long;
    }
    return (
      `<g><rect class="tw-later" x="${from + done}" y="${y}" width="${wide - done}" height="${BAR}"/>` +
      `<rect class="${name}"${fill} x="${from}" y="${y}" width="${done}" height="${BAR}"/>` +
      `${label}<title>${escaped(span.label)}</title></g>`
    );
  }

  function axisParts(x, first, last, bottom, width) {
    const parts = ticks(first, last, width < 480 ? 4 : 7).map(
      (time) =>
        `<line class="tw-rule" x1="${x(time)}" x2="${x(time)}" y1="${bottom}" y2="${bottom + 5}"/>` +
        `<text class="tw-tick" text-anchor="middle" x="${x(time)}" y="${bottom + 19}">${short(time)}</text>`,
    );
    parts.push(`<text class="tw-tick" text-anchor="end" x="${width}" y="${bottom + 36}">time [${escaped(unit)}]</text>`);
    return parts.join("");
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return { recolour: () => {}, resize, dispose: () => {} };
}

/** Round numbers between two ends. @param {number} first @param {number} last @param {number} most */
export function ticks(first, last, most) {
  const rough = (last - first || 1) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || rough;
  const made = [];
  for (let at = Math.ceil(first / step); at * step <= last + step * 1e-6; at += 1) made.push(at * step);
  return made;
}

function short(value) {
  return Math.abs(value) >= 1000 ? grouped(Math.round(value)) : String(Number(value.toPrecision(4)));
}
