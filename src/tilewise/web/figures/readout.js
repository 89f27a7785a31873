// Says who a thread is, with the arithmetic spelled out, and what a step does.
// In: a thread, the launch, a step. Out: elements. Holds no state.

import { element, grouped } from "./dom.js";
import { WARP, usedAxes, works } from "./launch.js";


/**
 * @param {import("./launch.js").Thread} who
 * @param {{grid: import("./launch.js").Size, block: import("./launch.js").Size}} launch
 * @param {{axes: string[], extent: import("./launch.js").Size|null}} spec
 * @param {boolean} preview
 */
export function arithmetic(who, { grid, block }, { axes, extent }, preview) {
  const used = usedAxes(grid, block);
  const tuple = (values) => (used.length === 1 ? String(values[0]) : `(${values.slice(0, used.length).join(", ")})`);
  const rows = [
    ["block", tuple(who.block), used.length > 1 ? `, number ${grouped(who.linearBlock)}` : ""],
    ["thread", tuple(who.thread), used.length > 1 ? inBlock(who, block) : ""],
    ["warp", `${who.warp}`, ` = ${who.linearThread} / ${WARP}`],
    ["lane", `${who.lane}`, ` = ${who.linearThread} % ${WARP}`],
    ...used.map((axis) => [
      axes[axis],
      String(who.position[axis]),
      ` = ${who.block[axis]} · ${block[axis]} + ${who.thread[axis]}`,
    ]),
  ];
  if (used.length > 1) rows.push(["index", ...globalIndex(who, grid, block, extent, used)]);
  const idle = !works(who.position, extent);
  return element(
    "div",
    { class: preview ? "tw-who tw-previewed" : "tw-who" },
    element(
      "dl",
      {},
      ...rows.flatMap(([name, value, how]) => [
        element("dt", {}, name),
        element("dd", {}, element("b", {}, value), how ? element("span", { class: "tw-how" }, how) : ""),
      ]),
    ),
    element("p", { class: idle ? "tw-verdict tw-verdict-idle" : "tw-verdict" }, verdict(who, extent, axes, used, idle)),
  );
}

function inBlock(who, block) {
  const [x, y, z] = who.thread;
  if (block[2] > 1) return `, number (${z} · ${block[1]} + ${y}) · ${block[0]} + ${x} = ${who.linearThread}`;
  return `, number ${y} · ${block[0]} + ${x} = ${who.linearThread}`;
}

function globalIndex(who, grid, block, extent, used) {
  const size = extent || /** @type {any} */ (grid.map((g, axis) => g * block[axis]));
  const [x, y, z] = who.position;
  if (!works(who.position, extent)) return ["none", ""];
  const index = (z * size[1] + y) * size[0] + x;
  const how =
    used.length === 3 ? ` = (${z} · ${size[1]} + ${y}) · ${size[0]} + ${x}` : ` = ${y} · ${size[0]} + ${x}`;
  return [grouped(index), how];
}

function verdict(who, extent, axes, used, idle) {
  if (!extent) return "";
  if (!idle) return "Inside the problem: it works.";
  const axis = used.find((at) => who.position[at] >= extent[at]) ?? 0;
  return `Idle: ${axes[axis]} = ${who.position[axis]} is not below ${extent[axis]}.`;
}

/**
 * @param {import("./arrays.js").Step} step
 * @param {import("./arrays.js").ArrayInfo[]} arrays
 * @param {number} k the thread asked about
 */
export function stepText(step, arrays, k) {
  const mine = step.touches.flatMap((touch) => {
    const at = touch.t.indexOf(k);
    return at < 0 ? [] : [`${touch.k}s ${elementOf(arrays[touch.a], touch.i[at])}${valueOf(touch.v[at])}`];
  });
  const threads = new Set(step.touches.flatMap((touch) => touch.t)).size;
  return element(
    "div",
    { class: "tw-step-text" },
    step.source ? element("code", {}, step.source) : "",
    element(
      "p",
      {},
      `${step.line ? `Line ${step.line}: ` : ""}${grouped(threads)} ${threads === 1 ? "thread acts" : "threads act"}. ` +
        (mine.length ? `This one ${mine.join(", ")}.` : "This one waits its turn or has none."),
    ),
  );
}

/** @param {import("./arrays.js").ArrayInfo} array @param {number} index */
export function elementOf(array, index) {
  if (array.shape.length !== 2) return `${array.name}[${index}]`;
  return `${array.name}[${Math.floor(index / array.shape[1])}][${index % array.shape[1]}]`;
}

function valueOf(value) {
  return value === null || value === undefined ? "" : ` = ${value}`;
}

