// Describes a thread's indices, with the arithmetic spelled out.
// In: a thread, the launch. Out: elements. Stateless.

import { element, grouped } from "tilewise-figures/dom.js";
import { WARP, usedAxes, works } from "tilewise-figures/launch.js";


/**
 * @param {import("tilewise-figures/launch.js").Thread} who
 * @param {{grid: import("tilewise-figures/launch.js").Size, block: import("tilewise-figures/launch.js").Size}} launch
 * @param {{axes: string[], extent: import("tilewise-figures/launch.js").Size|null}} spec
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
