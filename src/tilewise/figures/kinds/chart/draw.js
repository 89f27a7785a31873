// A Plotly chart in the page's colours and font, with a slider if it has frames.
// In: the specification of tilewise.figures, with role tokens for colours. Out: a View.

import { steps as stepsControl } from "tilewise-figures/controls.js";
import { element } from "tilewise-figures/dom.js";
import { CONFIG, loadPlotly } from "tilewise-figures/plotly_loader.js";
import { within } from "tilewise-figures/state.js";
import { palette, resolved } from "tilewise-figures/theme.js";

const NARROW = 560;
const LINE = 17;
/** Plotly's dashes and symbols, in a key 36 by 12 px. */
const DASHES = { dash: "5 3", dot: "1.5 3", dashdot: "7 3 1.5 3", longdash: "10 4" };
const SYMBOLS = {
  circle: "M14 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
  square: "M14.5 2.5h7v7h-7z",
  diamond: "M18 1.2L22.8 6L18 10.8L13.2 6z",
  "triangle-up": "M18 1.5L22.8 9.8h-9.6z",
  cross: "M16.6 1.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z",
};

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { data, layout, frames = [] } = figure.spec;
  const meta = layout.meta || {};
  let at = within(memory.saved.step, 0, frames.length - 1, meta.start || 0);
  let plotly = null;
  let gone = false;
  let turn = Promise.resolve();
  const plot = element("div", { class: "tw-plot", role: "img", "aria-label": figure.alt });
  const key = element("p", { class: "tw-key" });
  const stage = element("div", { class: "tw-stage" }, plot);
  const steps = frames.length
    ? stepsControl({
        label: meta.step_name,
        texts: frames.map((frame) => frame.name),
        areNames: meta.are_names,
        value: at,
        onInput(next) {
          at = next;
          draw();
        },
      })
    : null;
  body.append(key, stage, steps ? steps.root : "");
  resize();

  function draw() {
    turn = turn
      .then(async () => {
        plotly = plotly || (await loadPlotly());
        if (gone) return;
        const colour = palette(body);
        const narrow = body.clientWidth < NARROW;
        const made = specification(narrow, colour);
        showKey(made, narrow, colour);
        colour.done();
        made.layout.width = stage.clientWidth;
        made.layout.height = stage.clientHeight;
        await plotly.react(plot, made.data, made.layout, CONFIG);
        const tight = crowded(plot._fullLayout, made.data);
        if (tight.length) await plotly.restyle(plot, { texttemplate: "" }, tight);
        const title = wrapped(plot);
        if (title) await plotly.relayout(plot, title);
        const moved = apart(plot._fullLayout, made.layout.annotations || []);
        if (moved) await plotly.relayout(plot, { annotations: moved });
        memory.save({ step: at });
      })
      .catch((error) => {
        plot.replaceChildren(element("p", { class: "tw-figure-note", role: "status" }, error.message));
      });
  }

  function specification(narrow, colour) {
    const frame = frames[at] || {};
    const patch = narrow ? meta.narrow || {} : {};
    const whole = {
      data: data.map((trace, n) => ({ ...trace, ...frame.data?.[n], ...patch.traces?.[n] })),
      layout: merged(merged(layout, frame.layout || {}), patch.layout || {}),
    };
    const made = resolved(whole, colour);
    delete made.layout.meta;
    delete made.layout.template;
    made.layout.font.family = getComputedStyle(body).fontFamily;
    made.layout.margin = { ...made.layout.margin };
    if (narrow) {
      made.layout.annotations = (made.layout.annotations || []).filter((note) => note.name !== "direct");
      if (!data.some((trace) => trace.type === "bar")) made.layout.margin.r = Math.min(made.layout.margin.r, 18);
    }
    return made;
  }

  /** On a narrow screen labels beside the lines would leave no room for lines; they move into a row above. */
  function showKey(made, narrow, colour) {
    const direct = (layout.annotations || []).some((note) => note.name === "direct");
    const wanted = (narrow && direct) || meta.key;
    const named = data.filter((trace) => trace.name && (trace.type === "scatter" || trace.type === "bar"));
    key.hidden = !wanted;
    key.replaceChildren(...(wanted ? named.map((trace) => keyed(resolved(trace, colour))) : []));
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < NARROW);
    draw();
  }

  return {
    recolour: draw,
    resize,
    dispose() {
      gone = true;
      if (plotly) plotly.purge(plot);
    },
  };
}

/** Two layouts, the second one's axes laid over the first one's. */
function merged(below, above) {
  const made = { ...below, ...above };
  for (const name of Object.keys(above)) {
    if (/^[xy]axis\d*$/.test(name)) made[name] = { ...below[name], ...above[name] };
  }
  return made;
}

/** A trace's line and mark as they are drawn, and its name. */
function keyed(trace) {
  const colour = trace.type === "bar" ? [].concat(trace.marker.line.color)[0] : trace.line.color;
  const mode = trace.mode || "markers";
  const [symbol, open] = String(trace.marker?.symbol || "circle").split("-open");
  const sign = document.createElement("span");
  sign.innerHTML =
    '<svg width="36" height="12" aria-hidden="true">' +
    (mode.includes("lines")
      ? `<line x1="0" x2="36" y1="6" y2="6" stroke-width="2" stroke-dasharray="${DASHES[trace.line.dash] || "none"}" class="tw-key-line"/>`
      : "") +
    (mode.includes("markers") ? `<path d="${SYMBOLS[symbol]}" stroke-width="1.5" class="tw-key-mark"/>` : "") +
    "</svg>";
  sign.querySelector("svg").style.color = colour;
  const mark = sign.querySelector("path");
  if (mark) mark.style.fill = open === undefined ? colour : "var(--tw-surface)";
  return element("span", {}, sign, ` ${trace.name}`);
}

/** Heat maps whose numbers would be wider than their cells. */
function crowded(full, data) {
  return data.flatMap((trace, at) => {
    if (trace.type !== "heatmap" || !trace.texttemplate) return [];
    const axis = full[trace.xaxis.replace("x", "xaxis")];
    const digits = Number(/\.(\d+)/.exec(trace.texttemplate)?.[1] ?? 2);
    const shown = trace.z.flat().filter((value) => value !== null);
    const longest = Math.max(...shown.map((value) => value.toFixed(digits).length));
    return axis._length / trace.z[0].length < longest * 7.4 + 2 ? [at] : [];
  });
}

/** The title of the axis at the foot in lines that the drawing has room for; null where one line has it. */
function wrapped(plot) {
  const drawn = plot.querySelector(".xtitle");
  const axis = plot._fullLayout?.xaxis;
  if (!drawn || !axis || axis.title.text.includes("<br>")) return null;
  const middle = axis._offset + axis._length / 2;
  const room = 2 * Math.min(middle, plot.clientWidth - middle) - 4;
  const wide = drawn.getBBox().width;
  if (wide <= room) return null;
  const letters = Math.floor((room / wide) * axis.title.text.length);
  return { "xaxis.title.text": folded(axis.title.text, letters).join("<br>") };
}

/** Words in lines of at most so many letters, where the words allow it. */
function folded(text, letters) {
  const lines = [];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last !== undefined && last.length + 1 + word.length <= letters) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Labels that stand beside line ends, moved apart where they would lie on each other; null where none would. */
function apart(full, notes) {
  const axis = full?.yaxis;
  const direct = notes.filter((note) => note.name === "direct" && note.xanchor === "left");
  if (!axis || direct.length < 2) return null;
  const placed = direct
    .map((note) => {
      const end = axis.r2p ? axis.r2p(note.y) : axis.l2p(note.y);
      return { note, end, wanted: end - (note.yshift || 0) };
    })
    .sort((a, b) => a.end - b.end || a.wanted - b.wanted);
  let below = -Infinity;
  for (const one of placed) {
    one.at = Math.max(one.wanted, below + LINE);
    below = one.at;
  }
  const over = Math.max(0, below - (axis._length - 6));
  for (let n = placed.length - 1, roof = Infinity; n >= 0 && over; n -= 1) {
    placed[n].at = Math.min(placed[n].at, n === placed.length - 1 ? axis._length - 6 : roof);
    roof = placed[n].at - LINE;
  }
  if (placed.every((one) => Math.abs(one.at - one.wanted) < 0.5)) return null;
  const shifts = new Map(placed.map((one) => [one.note, one.end - one.at]));
  return notes.map((note) => (shifts.has(note) ? { ...note, yshift: shifts.get(note) } : note));
}
