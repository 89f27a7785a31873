// The stepped figure: one slider moves threads, source line, memory and variables of a run or a model together.
// In: the specification of tilewise.figures.stepped. Out: a View. Loaded only if a page has such a figure.

import { bankStrip } from "./banks.js";
import { cellPanel, elementName } from "./cells.js";
import { codePanel } from "./code_panel.js";
import { element, grouped } from "tilewise-figures/dom.js";
import { SIGNS, grid2d } from "tilewise-figures/grid_2d.js";
import { scene } from "tilewise-figures/grid_3d.js";
import { threadAt, threadOf, total, usedAxes } from "tilewise-figures/launch.js";
import { copied, hasAddress } from "tilewise-figures/links.js";
import { acting, knownAt, moments } from "./moments.js";
import { player } from "./player.js";
import { space } from "tilewise-figures/space.js";
import { firstView, hasViews, stageNote, viewChoice } from "tilewise-figures/stage.js";
import { within } from "tilewise-figures/state.js";
import { palette } from "tilewise-figures/theme.js";
import { warpOf, watchPanel } from "./watch_panel.js";

const NARROW = 560;
const DEEDS = { read: "reads", write: "writes", update: "updates", outside: "accesses out-of-bounds element" };
const NAMES = { read: "read", write: "written", update: "updated", outside: "out of bounds" };
/** Elements of a touch that are named one by one. */
const MOST_SAID = 4;

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { spec, steps: texts } = figure;
  const all = moments(spec);
  const threads = spec.grid ? Math.min(total(spec.grid) * total(spec.block), spec.max_threads) : 0;
  const { saved } = memory;
  const state = {
    step: within(saved.step, 0, all.length - 1, spec.start),
    selected: within(saved.selected, 0, Math.max(0, threads - 1), firstActing()),
    view: hasViews(spec) ? firstView(saved.view, spec.view) : "2d",
  };

  const grid = spec.grid ? threadViews() : null;
  const code = spec.code ? codePanel(spec.code, spec.hazards) : null;
  const cells = spec.arrays.length ? cellPanel(spec, { onThread: select }) : null;
  const banks = spec.grid && spec.arrays.some((array) => array.space === "shared") ? bankStrip(spec) : null;
  const watch = spec.watched.length ? watchPanel(spec.watched, { onThread: select }) : null;
  const text = element("p", { class: "tw-step-said", "aria-live": "polite", "aria-atomic": "true" });
  const mine = element("p", { class: "tw-step-mine" });
  const steps = player({
    label: spec.step_name,
    count: all.length,
    value: state.step,
    onStep(next) {
      state.step = next;
      show();
    },
    onPlaying: (now) => text.setAttribute("aria-live", now ? "off" : "polite"),
  });
  const memoryBox = cells ? element("div", { class: "tw-memory-box" }, key(), cells.root, banks ? banks.root : "") : null;
  body.append(
    toolbar(),
    code ? code.root : "",
    element("div", { class: "tw-parts" }, grid ? grid.root : "", memoryBox || ""),
    watch ? watch.root : "",
    element("div", { class: "tw-readout tw-step-words" }, text, mine),
    steps.root,
  );
  body.classList.toggle("tw-beside", spec.beside);
  body.addEventListener("keydown", steps.onKey);
  const away = new IntersectionObserver((entries) => entries.some((entry) => !entry.isIntersecting) && steps.pause());
  away.observe(body);
  resize();

  /** The thread that stands first: one that does something early, so that the panels beside it are not empty. */
  function firstActing() {
    const first = all.flatMap((moment) => [...moment.touches, ...moment.watches]).find((part) => part.threads?.length);
    return first ? first.threads[0] : 0;
  }

  function toolbar() {
    const name = spec.grid && spec.code?.name ? element("p", { class: "tw-launch" }, launchText()) : "";
    return element("div", { class: "tw-toolbar" }, grid?.view ? grid.view.root : "", name, ...(hasAddress ? linking() : []));
  }

  function linking() {
    const said = element("span", { class: "tw-copied", role: "status" });
    const copy = element("button", { type: "button", class: "tw-link", onclick: () => copyLink(said) }, "Copy link");
    copy.setAttribute("aria-label", "Copy link to this step");
    return [said, copy];
  }

  /** What the signs in the arrays mean; only those that this figure can show. */
  function key() {
    const kinds = new Set(all.flatMap((moment) => moment.touches.map((touch) => touch.kind)));
    const items = Object.keys(NAMES).filter((kind) => kinds.has(kind));
    const sign = (name, letter, said) =>
      element("span", {}, element("i", { class: `tw-key-sign ${name}`, "aria-hidden": "true" }, letter), ` ${said}`);
    const global = spec.arrays.some((array) => array.space === "global");
    return element(
      "p",
      { class: "tw-key" },
      ...items.map((kind) => sign(`tw-${kind}`, SIGNS[kind], NAMES[kind])),
      sign("tw-before", "", "before"),
      global ? sign("tw-fetched", "", "unused") : "",
      global ? element("span", {}, element("i", { class: "tw-key-bar", "aria-hidden": "true" }), " sector") : "",
    );
  }

  function launchText() {
    const written = (size) => {
      const used = size[2] > 1 ? 3 : size[1] > 1 ? 2 : 1;
      return used === 1 ? String(size[0]) : `(${size.slice(0, used).join(", ")})`;
    };
    return `${spec.code.name}<<<${written(spec.grid)}, ${written(spec.block)}>>>`;
  }

  async function copyLink(said) {
    const link = memory.link({ ...state });
    if (await copied(link)) {
      said.textContent = "Copied.";
      return;
    }
    const field = element("input", { type: "text", readonly: true, value: link, "aria-label": "Link to this step" });
    said.replaceChildren(field);
    field.focus();
    field.select();
  }

  function threadViews() {
    const flat = grid2d({ onPreview: () => {}, onSelect: select, label: `Threads of the launch. ${figure.alt}` });
    flat.root.addEventListener("keydown", onGridKey);
    const deep = element("div", { class: "tw-space", hidden: true });
    const stage = element("div", { class: "tw-stage" }, flat.root, deep);
    const note = hasViews(spec) ? stageNote() : element("p", { class: "tw-stage-note", hidden: true });
    const launched = total(spec.grid) * total(spec.block);
    if (launched > threads && note.hidden) {
      note.hidden = false;
      note.textContent = `The first ${grouped(threads)} of ${grouped(launched)} threads are drawn.`;
    }
    const choose = (next) => {
      state.view = next;
      draw();
    };
    const view = hasViews(spec) ? viewChoice(state.view, choose) : null;
    const cubes = space(deep, { onSelect: select });
    return { root: element("div", { class: "tw-stage-box" }, stage, note), stage, flat, deep, cubes, view, note };
  }

  function launch() {
    return { grid: spec.grid, block: spec.block, extent: spec.extent, count: threads, colourBy: "block" };
  }

  function select(k) {
    state.selected = k;
    show();
  }

  function onGridKey(event) {
    const [axis, by] =
      { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, -1], ArrowDown: [1, 1], PageUp: [2, -1], PageDown: [2, 1] }[
        event.key
      ] || [];
    if (axis === undefined) return;
    event.preventDefault();
    let next = state.selected + by * (axis ? Math.min(32, spec.block[0]) : 1);
    if (usedAxes(spec.grid, spec.block).length > 1) {
      const position = [...threadAt(state.selected, spec.grid, spec.block).position];
      position[axis] += by;
      if (position[axis] < 0 || position[axis] >= spec.grid[axis] * spec.block[axis]) return;
      next = threadOf(/** @type {any} */ (position), spec.grid, spec.block);
    }
    if (next >= 0 && next < threads) select(next);
  }

  /** The threads anew: view, room or colours have changed. */
  function draw() {
    if (grid) {
      const deep = state.view === "3d";
      grid.flat.root.hidden = deep;
      grid.deep.hidden = !deep;
      grid.view?.set(state.view);
      if (!deep) grid.flat.draw(launch(), grid.stage.clientWidth, grid.stage.clientHeight);
    }
    show();
  }

  function show() {
    const moment = all[state.step];
    const who = grid ? threadAt(state.selected, spec.grid, spec.block) : null;
    const block = who ? who.linearBlock : 0;
    const known = knownAt(spec, all, state.step, block);
    const warp = who ? warpOf(who, total(spec.block), state.selected) : { first: 0, count: 0, said: "" };
    if (grid) markThreads(moment);
    code?.show(moment.line);
    cells?.show(moment, known, block, state.selected);
    banks?.show(moment, warp);
    watch?.show(known, freshly(moment), ownValues(warp), state.selected, body.clientWidth < NARROW ? 8 : 16);
    text.textContent = texts[state.step];
    mine.textContent = who ? ownText(moment, who, known) : "";
    memory.save({ ...state });
  }

  function markThreads(moment) {
    const now = acting(moment, spec.threads ? spec.threads[state.step] : null);
    if (state.view === "2d") {
      grid.flat.mark(state.selected, null, now);
      grid.flat.reveal(state.selected);
      return;
    }
    const colour = palette(body);
    const made = scene(launch(), spec.axes, { selected: state.selected, preview: null, acting: now }, colour, face());
    colour.done();
    grid.cubes.draw(made, grid.stage.clientWidth, grid.stage.clientHeight).catch((error) => {
      state.view = "2d";
      grid.note.hidden = false;
      grid.note.textContent = error.message;
      draw();
    });
  }

  function face() {
    return getComputedStyle(body).fontFamily;
  }

  function freshly(moment) {
    const fresh = new Set();
    for (const { name, threads: who, values } of moment.watches) {
      values.forEach((_, place) => fresh.add(`${name}:${who ? who[place] : place}`));
    }
    return fresh;
  }

  /** A model's values belong to no thread. */
  function ownValues(warp) {
    const threaded = all.some((moment) => moment.watches.some((one) => one.threads));
    return threaded ? warp : { first: 0, count: 0, said: "" };
  }

  function ownText(moment, who, known) {
    const k = state.selected;
    const deeds = moment.touches.flatMap((touch) => {
      const mine = (touch.threads || []).flatMap((thread, place) => (thread === k ? [place] : []));
      return mine.length ? [`${DEEDS[touch.kind]} ${elementsOf(touch, mine)}`] : [];
    });
    const place = usedAxes(spec.grid, spec.block).length;
    const tuple = (values) => (place === 1 ? String(values[0]) : `(${values.slice(0, place).join(", ")})`);
    if (spec.cell) {
      const busy = spec.threads?.[state.step]?.includes(k);
      return `The ${spec.cell} at ${tuple(who.position)} is ${busy ? "" : "not "}part of this step.`;
    }
    const name = `Thread ${tuple(who.thread)} of block ${tuple(who.block)}, lane ${who.lane} of warp ${who.warp}`;
    const values = spec.watched.flatMap((variable, number) => {
      const value = known.watched[number].get(k);
      return value === undefined ? [] : [`${variable} = ${value}`];
    });
    const sets = moment.watches.some((watch) => watch.threads?.includes(k));
    const idle = moment.barrier ? "waits at the barrier" : sets ? `executes line ${moment.line}` : "does nothing in this step";
    const does = deeds.join(", ") || idle;
    return `${name}: ${does}.${values.length ? ` It has ${values.join(", ")}.` : ""}`;
  }

  /** What a thread touched of an array, and its values, the first ones of many. */
  function elementsOf(touch, places) {
    const array = spec.arrays[touch.array];
    const numbers = places.map((place) => touch.elements[place]);
    const first = places.slice(0, MOST_SAID);
    const more = places.length > MOST_SAID ? ` and ${(places.length - MOST_SAID).toLocaleString("en-US")} more` : "";
    const inRow = places.length > 1 && numbers.every((number, at) => number === numbers[0] + at);
    const names = inRow
      ? `${elementName(array, numbers[0])} to ${elementName(array, numbers.at(-1))}`
      : `${first.map((place) => elementName(array, touch.elements[place])).join(", ")}${more}`;
    return touch.values ? `${names} = ${first.map((place) => touch.values[place]).join(", ")}${more}` : names;
  }

  function resize() {
    const narrow = body.clientWidth < NARROW;
    const rooms = spec.rooms[narrow ? "narrow" : "wide"];
    body.classList.toggle("tw-narrow", narrow);
    if (code) code.root.style.height = `${rooms.code}px`;
    if (grid) grid.root.style.height = `${spec.beside && !narrow && rooms.memory > rooms.stage ? rooms.memory : rooms.stage}px`;
    if (memoryBox) memoryBox.style.height = `${rooms.memory}px`;
    if (watch) watch.root.style.height = `${rooms.watch}px`;
    cells?.fit(memoryBox.clientWidth);
    draw();
  }

  return {
    recolour: () => {
      if (grid && state.view === "3d") show();
    },
    resize,
    dispose() {
      away.disconnect();
      steps.dispose();
      grid?.cubes.dispose();
    },
  };
}
