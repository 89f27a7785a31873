// Spans on rows, and a cursor that moves through their start and end times.
// In: the specification of tilewise.figures.timeline. Out: a View.

import { stepper } from "tilewise-figures/controls.js";
import { element, escaped, grouped, uniqueId } from "tilewise-figures/dom.js";
import { hatching } from "tilewise-figures/grid_2d.js";
import { within } from "tilewise-figures/state.js";

const ROW = 56;
const BAR = 30;
const [INSIDE, BETWEEN] = [6, 8];

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { rows, spans, moments, unit, key } = figure.spec;
  const inOrder = [...spans].sort((one, other) => one.start - other.start);
  let at = within(memory.saved.step, 0, moments.length - 1, moments.length - 1);
  const hatch = uniqueId("hatch");
  const picture = element("div", { class: "tw-flat tw-timeline", role: "img", "aria-label": figure.alt });
  const stage = element("div", { class: "tw-stage" }, picture);
  const legend = element("p", { class: "tw-key" });
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
  body.append(legend, stage, readout, steps.root);
  const pen = element("canvas", {}).getContext("2d");
  const { fontFamily } = getComputedStyle(body);
  const long = (text, font = "12px") => {
    pen.font = `${font} ${fontFamily}`; // as figures.css has it
    return pen.measureText(text).width;
  };
  resize();

  function draw() {
    const width = stage.clientWidth - 4;
    const left = Math.max(...rows.map((row) => long(row, "600 13px"))) + 14;
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
    for (const span of inOrder) parts.push(bar(span, x, now));
    parts.push(axisParts(x, first, last, bottom, width));
    parts.push(`<line class="tw-now" x1="${x(now)}" x2="${x(now)}" y1="2" y2="${bottom}"/>`);
    const names = rows.flatMap((_, row) => namesOf(row, x));
    const keyed = key.length > 0 && body.classList.contains("tw-narrow") && names.length < spans.length;
    legend.hidden = !keyed;
    legend.innerHTML = keyed ? key.map(([label, role]) => `<span>${sign(role)} ${escaped(label)}</span>`).join("") : "";
    if (!keyed) parts.push(...names);
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
      at === moments.length - 1 ? `Finished at ${here}.` : `From ${here} on, ${busy.join("; ")}.`;
    memory.save({ step: at });
  }

  function bar(span, x, now) {
    const from = x(span.start);
    const wide = room(span, x);
    const done = span.start < now ? Math.min(wide, x(now) - from) : 0;
    const rect = (looks, at, width) =>
      `<rect ${looks} x="${at}" y="${top(span.row)}" width="${width}" height="${BAR}"/>`;
    return (
      `<g>${rect('class="tw-to-come"', from + done, wide - done)}${rect(looksOf(span.role), from, done)}` +
      `<title>${escaped(span.label)}</title></g>`
    );
  }

  function looksOf(role) {
    return role === "waste" ? `class="tw-span-waste" fill="url(#${hatch})"` : `class="tw-span tw-role-${role}"`;
  }

  function sign(role) {
    return `<svg width="16" height="12" aria-hidden="true"><rect ${looksOf(role)} x="1" y="1" width="14" height="10"/></svg>`;
  }

  /** The names of a row's spans; of `copy 1`, `copy 2` the numbers alone where whole ones would not all fit. */
  function namesOf(row, x) {
    const mine = inOrder.filter((span) => span.row === row);
    const whole = mine.map((span) => span.label);
    const drawn = placed(mine, whole, x);
    const alike = new Set(whole.map((label) => label.replace(/ \d+$/, ""))).size === 1;
    if (drawn.length === mine.length || !alike || !whole.every((label) => / \d+$/.test(label))) return drawn;
    return placed(
      mine,
      whole.map((label) => label.split(" ").pop()),
      x,
    );
  }

  /** Names inside their spans, else above, else left out where another name is; titles and the text have them all. */
  function placed(mine, names, x) {
    let taken = -BETWEEN; // where the last name above the row ends
    return mine.flatMap((span, n) => {
      const from = x(span.start);
      const wide = long(names[n]);
      const text = (left, base) => [
        `<text class="tw-span-label" x="${left}" y="${base}">${escaped(names[n])}</text>`,
      ];
      if (wide + 2 * INSIDE <= room(span, x)) return text(from + INSIDE, top(span.row) + BAR / 2 + 4.5);
      const above = Math.min(from, Math.max(x(span.stop), stage.clientWidth - 4) - wide);
      if (above < taken + BETWEEN) return [];
      taken = above + wide;
      return text(above, top(span.row) - 5);
    });
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

/** Where a row's bars begin. @param {number} row */
function top(row) {
  return row * ROW + (ROW - BAR) / 2 + 4;
}

/** How wide a span is drawn. */
function room(span, x) {
  return Math.max(2, x(span.stop) - x(span.start) - 1);
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
