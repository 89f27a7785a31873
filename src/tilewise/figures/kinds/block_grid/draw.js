// The grid and block explorer: one launch, one selected thread, in 2-D or 3-D.
// In: the specification of tilewise.figures.block_grid. Out: a View. Sizes and selection persist when the view changes,
// and for the rest of the visit.

import { choice, slider, stepper } from "tilewise-figures/controls.js";
import { element, grouped } from "tilewise-figures/dom.js";
import { grid2d } from "tilewise-figures/grid_2d.js";
import { scene } from "tilewise-figures/grid_3d.js";
import { MOST_IN_BLOCK, hasDepth, threadAt, threadOf, total, usedAxes, working } from "tilewise-figures/launch.js";
import { NO_WEBGL, hasWebGL } from "tilewise-figures/plotly_loader.js";
import { arithmetic } from "./readout.js";
import { space } from "tilewise-figures/space.js";
import { firstView, viewChoice } from "tilewise-figures/stage.js";
import { within } from "tilewise-figures/state.js";
import { palette } from "tilewise-figures/theme.js";

const LETTERS = ["x", "y", "z"];

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { spec } = figure;
  const state = restored(spec, memory.saved);
  let preview = null;

  const flat = grid2d({ onPreview: hover, onSelect: select, label: `Threads of the launch. ${figure.alt}` });
  const deep = element("div", { class: "tw-space", hidden: true });
  const cubes = space(deep, { onPreview: hover, onSelect: select });
  const note = element("p", { class: "tw-stage-note", role: "status" });
  const readout = element("div", { class: "tw-readout", "aria-live": "polite" });
  const stage = element("div", { class: "tw-stage" }, flat.root, deep);

  const view = hasDepth(spec)
    ? viewChoice(state.view, (next) => {
        state.view = next;
        redraw();
      })
    : null;
  const colours = choice({
    label: "Colour by",
    options: [
      { value: "block", label: "block" },
      { value: "warp", label: "warp" },
    ],
    value: state.colourBy,
    onInput(next) {
      state.colourBy = next;
      redraw();
    },
  });
  const sizes = ["grid", "block", ...(spec.extent ? ["extent"] : [])].flatMap((what) =>
    LETTERS.map((_, axis) => sizeSlider(what, axis)),
  );
  const steps = stepper({
    label: "thread",
    count: count(),
    value: state.selected,
    onInput(next) {
      state.selected = next;
      refresh();
    },
  });
  const launch = element("p", { class: "tw-launch" });

  body.append(
    element("div", { class: "tw-toolbar" }, view ? view.root : "", colours.root, launch),
    element("div", { class: spec.extent ? "tw-sizes tw-sizes-data" : "tw-sizes" }, ...sizes.map((one) => one.root)),
    element("div", { class: "tw-columns" }, element("div", { class: "tw-stage-box" }, stage, note), readout),
    steps.root,
  );
  flat.root.addEventListener("keydown", onKey);
  redraw();

  function sizeSlider(what, axis) {
    return slider({
      label: what === "extent" ? `data ${spec.axes[axis]}` : `${what}Dim.${LETTERS[axis]}`,
      min: 1,
      max: spec.most[what][axis],
      value: state[what][axis],
      onInput(next) {
        const kept = threadAt(state.selected, state.grid, state.block);
        state[what] = state[what].map((size, at) => (at === axis ? next : size));
        const here = kept.position.map((p, at) => Math.min(p, state.grid[at] * state.block[at] - 1));
        state.selected = Math.min(threadOf(/** @type {any} */ (here), state.grid, state.block), count() - 1);
        steps.limit(count());
        redraw();
      },
    });
  }

  function count() {
    return Math.min(total(state.grid) * total(state.block), spec.max_threads);
  }

  function drawing() {
    return {
      grid: state.grid,
      block: state.block,
      extent: state.extent,
      count: count(),
      colourBy: state.colourBy,
    };
  }

  function select(k) {
    state.selected = k;
    preview = null;
    refresh();
  }

  function hover(k) {
    if (k === preview) return;
    preview = k;
    if (state.view === "2d") flat.mark(state.selected, preview, new Map());
    say();
  }

  function onKey(event) {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1], ArrowDown: [1, 1] }[event.key];
    const layer = { PageUp: [2, -1], PageDown: [2, 1] }[event.key];
    const [axis, by] = move || layer || [];
    if (axis === undefined) return;
    event.preventDefault();
    const single = usedAxes(state.grid, state.block).length === 1;
    if (single) {
      const stride = axis === 0 ? 1 : Math.min(32, state.block[0]);
      const next = state.selected + by * stride;
      if (next >= 0 && next < count()) select(next);
      return;
    }
    const position = [...threadAt(state.selected, state.grid, state.block).position];
    position[axis] += by;
    if (position[axis] < 0 || position[axis] >= state.grid[axis] * state.block[axis]) return;
    const next = threadOf(/** @type {any} */ (position), state.grid, state.block);
    if (next < count()) select(next);
  }

  /** The picture anew: sizes, colours, view or room have changed. */
  function redraw() {
    const deepView = state.view === "3d";
    flat.root.hidden = deepView;
    deep.hidden = !deepView;
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    body.dataset.view = state.view;
    launch.textContent = `<<<${written(state.grid)}, ${written(state.block)}>>>`;
    say(); // the words take their room before the drawing takes the rest
    if (!deepView) flat.draw(drawing(), stage.clientWidth, stage.clientHeight);
    refresh();
  }

  /** The marks anew: the selection has changed. */
  function refresh() {
    steps.set(state.selected);
    if (state.view === "3d") drawDeep();
    else {
      flat.mark(state.selected, preview, new Map());
      flat.reveal(state.selected);
    }
    say();
    memory.save({ ...state });
  }

  function drawDeep() {
    const colour = palette(body);
    const marks = { selected: state.selected, preview: null, acting: new Map() };
    const made = scene(drawing(), spec.axes, marks, colour, getComputedStyle(body).fontFamily);
    colour.done();
    cubes.draw(made, stage.clientWidth, stage.clientHeight).catch((error) => {
      state.view = "2d";
      view?.set("2d");
      redraw();
      note.textContent = error.message;
    });
  }

  function say() {
    const k = preview ?? state.selected;
    const problem = { axes: spec.axes, extent: state.extent };
    readout.replaceChildren(arithmetic(threadAt(k, state.grid, state.block), state, problem, preview !== null));
    note.textContent = warning();
  }

  function warning() {
    const each = total(state.block);
    const all = total(state.grid) * each;
    if (each > MOST_IN_BLOCK) {
      return `CUDA refuses this launch: ${state.block.join(" · ")} = ${grouped(each)} threads; a block holds at most 1,024.`;
    }
    if (all > spec.max_threads) return `The first ${grouped(spec.max_threads)} of ${grouped(all)} threads are drawn.`;
    if (view && !hasWebGL()) return NO_WEBGL;
    const idle = state.extent ? all - working(state.grid, state.block, state.extent) : 0;
    const threads = `${grouped(total(state.grid))} blocks, ${grouped(all)} threads`;
    return state.extent ? `${threads}, ${grouped(idle)} of them idle (${state.view === "3d" ? "hollow" : "hatched"}).` : `${threads}.`;
  }

  return {
    recolour: () => {
      if (state.view === "3d") drawDeep();
    },
    resize: redraw,
    dispose: () => cubes.dispose(),
  };
}

function written(size) {
  const used = size[2] > 1 ? 3 : size[1] > 1 ? 2 : 1;
  return used === 1 ? String(size[0]) : `(${size.slice(0, used).join(", ")})`;
}

/** The state to start with: what the reader left, as far as it still fits the figure. */
function restored(spec, saved) {
  const size = (name) =>
    !Array.isArray(saved[name])
      ? spec[name]
      : spec[name].map((usual, axis) => within(saved[name][axis], 1, spec.most[name][axis], usual));
  const [grid, block, extent] = [size("grid"), size("block"), spec.extent && size("extent")];
  const last = Math.min(total(grid) * total(block), spec.max_threads) - 1;
  return {
    grid,
    block,
    extent,
    selected: within(saved.selected, 0, last, 0),
    view: hasDepth(spec) ? firstView(saved.view, spec.view) : "2d",
    colourBy: saved.colourBy === "block" || saved.colourBy === "warp" ? saved.colourBy : "block",
  };
}

