// The lanes of a warp above the memory that they read: each sector has one colour, its unused bytes are hatched.
// In: the specification of tilewise.figures.sector_map. Out: a View. Only shows precomputed elements.

import { slider } from "tilewise-figures/controls.js";
import { element } from "tilewise-figures/dom.js";
import { within } from "tilewise-figures/state.js";

const LINE = 32;
const SECTOR = 8;
const COLOURS = 8;

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { strides, offsets, start, rows, elements, said } = figure.spec;
  const lists = [strides, offsets];
  const saved = memory.saved.at || [];
  const at = lists.map((list, n) => within(saved[n], 0, list.length - 1, start[n]));
  const cells = (count) => Array.from({ length: count }, () => element("span", { class: "tw-sector-cell" }));
  const lanes = cells(LINE);
  const memoryCells = cells(LINE * rows);
  lanes.forEach((cell, lane) => {
    cell.textContent = String(lane);
  });
  const verdict = element("p", { class: "tw-calculator-verdict", role: "status" });
  const controls = ["stride", "offset"].map((label, n) =>
    slider({
      label,
      min: 0,
      max: lists[n].length - 1,
      value: at[n],
      text: (value) => String(lists[n][value]),
      onInput(value) {
        at[n] = value;
        draw();
      },
    }),
  );
  body.append(
    element("p", { class: "tw-sector-head" }, "lanes"),
    element("div", { class: "tw-sector-cells", "aria-hidden": "true" }, ...lanes),
    element("p", { class: "tw-sector-head" }, "memory: 128 bytes per row, four sectors"),
    element("div", { class: "tw-sector-cells tw-sector-memory", role: "img", "aria-label": figure.alt }, ...memoryCells),
    verdict,
    element("div", { class: "tw-calculator-sliders" }, ...controls.map((control) => control.root)),
  );
  resize();

  function draw() {
    const state = at[0] * offsets.length + at[1];
    const read = elements[state];
    const colours = new Map();
    for (const index of read) {
      const sector = Math.floor(index / SECTOR);
      if (!colours.has(sector)) colours.set(sector, colours.size % COLOURS);
    }
    lanes.forEach((cell, lane) => paint(cell, colours.get(Math.floor(read[lane] / SECTOR)), true));
    memoryCells.forEach((cell, index) => {
      const lane = read.indexOf(index);
      paint(cell, colours.get(Math.floor(index / SECTOR)), lane >= 0);
      cell.textContent = lane >= 0 ? String(lane) : "";
    });
    verdict.textContent = said[state];
    memory.save({ at: [...at] });
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return { recolour: () => {}, resize, dispose: () => {} };
}

/** A cell in the colour of its sector, filled where a lane reads it; without a colour it is not fetched. */
function paint(cell, colour, used) {
  cell.dataset.sector = colour === undefined ? "none" : String(colour);
  cell.classList.toggle("tw-sector-used", used);
}
