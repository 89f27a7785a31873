// The launch in 3-D: the same threads, in the same order, as cubes.
// In: a launch; the selected and active threads. Out: a scene for space.js. A launch with one axis has lane, warp
// and block as its three axes, because a single row of cubes would show nothing. x points right, y towards the
// reader and z down, so that the first layer is on top and looks like the 2-D view.

import { tint } from "./grid_2d.js";
import { threadAt, total, usedAxes, works } from "./launch.js";

const TINTS = [0.3, 0.5, 0.7, 0.9];
// Of what a thread does, where its role is named otherwise.
const ROLES = { update: "hazard", outside: "hazard", run: "ink" };
const GAP = 0.9;
const SIDE = 0.84;

/**
 * @param {import("./grid_2d.js").Launch} launch
 * @param {string[]} names of x, y and z
 * @param {{selected: number, preview: number|null, acting: Map<number, string>}} marks
 * @param {any} colour
 * @param {string} family
 * @returns {import("./space.js").Scene}
 */
export function scene(launch, names, { selected, preview, acting }, colour, family) {
  const { grid, block, extent, count, colourBy } = launch;
  const single = usedAxes(grid, block).length === 1;
  const shades = TINTS.map((share) => colour.over(colourBy, acting.size ? share * 0.35 : share));
  const cubes = Array.from({ length: count }, (_, k) => {
    const who = threadAt(k, grid, block);
    const kind = acting.get(k);
    return {
      at: place(who, single),
      size: SIDE,
      colour: kind ? colour(ROLES[kind] || kind) : shades[tint(who, colourBy)],
      hollow: !works(who.position, extent),
    };
  });
  const around = (k, grow) => ({ ...cubes[k], size: SIDE + grow });
  const marked = [{ cube: around(selected, 0.12), colour: colour("lane"), width: 7 }];
  if (preview !== null && preview !== selected) {
    marked.push({ cube: around(preview, 0.08), colour: colour("ink"), width: 3 });
  }
  return {
    cubes,
    pin: { at: cubes[selected].at, colour: colour("lane") },
    marked,
    names: blockNames(launch, single),
    axes: single ? ["lane", "warp in block", "block"] : names,
    ink: colour("ink"),
    wire: colour.over("waste", 0.6),
    family,
  };
}

function place(who, single) {
  if (single) return [who.lane, who.warp, who.linearBlock * 3.5];
  return who.position.map((p, axis) => p + who.block[axis] * GAP);
}

function blockNames({ grid, block, count }, single) {
  const each = total(block);
  const blocks = Math.ceil(count / each);
  if (blocks > 48 || (blocks === 1 && !single)) return [];
  const labelled = single ? blocks : Math.min(blocks, grid[0] * grid[1]);
  const apart = single ? 1 : Math.ceil((grid[2] > 1 ? 0.3 : 0.13) * grid[0]); // names of narrow blocks would lie on each other
  const edge = (b) => single || b < grid[0] || b % grid[0] === 0; // inside, names would lie on cubes
  const named = Array.from({ length: labelled }, (_, b) => b).filter((b) => edge(b) && (b % grid[0]) % apart === 0);
  return named.map((b) => {
    const who = threadAt(b * each, grid, block);
    const at = place(who, single);
    if (single) return { at: [-2.5, 0, at[2]], text: String(b) };
    const middle = at.map((side, axis) => side + (block[axis] - 1) / 2);
    middle[2] = at[2] - 0.85;
    const text = `(${who.block.slice(0, grid[2] > 1 ? 3 : 2).join(", ")})`;
    // Those of the first column stand to the left, where neither cubes nor the needle of the first block hide them.
    return b % grid[0] ? { at: middle, text } : { at: [at[0] - 0.7, middle[1], middle[2]], text, side: "middle left" };
  });
}
