// A reader's own run as a stepped figure. In: the machine, a kernel of an offer, a launch. Out: the figure's data, as
// figures/kinds/stepped generates it from a traced run, with a sentence on what it omits; or why there is none.

import { beyond_shape, fits, MOST_MOMENTS, MOST_THREADS, of_run, Rows, touched, Traced, Values } from "tilewise-stepping";
import { elementIn, globalPlaces, numberIn, sharedPlace } from "./places.js";

/** Lane accesses that are traced, and warp instructions of a run that is traced. */
const MOST_ACCESSES = 30_000;
const MOST_STEPS = 2_000_000;
/** Instructions of one warp, where a block is too much. */
const OF_A_WARP = [5000, 1000, 300];

/**
 * @param {import("./machine.js").Machine} machine @param {any} kernel one of an offer's @param {any} launch of launch.js
 * @param {any} report of the same run, untraced, from report.js @param {(ended: any, program: any) => any} retold the report of another run of it
 * @returns {{figure: any} | {refused: string}}
 */
export function stepped(machine, kernel, launch, report, retold) {
  const { program, names } = kernel.watched ?? { program: kernel.program, names: [] };
  const run = (options) => machine.run(program, launch.given, { ...launch, maxSteps: MOST_STEPS, collect: true, ...options });
  // Stepping passes over hazards, where the run beside it stops at the first: it counts what it would trace.
  const whole = report.isWhole ? report : retold(run({}), program);
  let refused = "This kernel touches no memory, so there is nothing to step through.";
  for (const { trace, note } of narrower(launch, whole)) {
    const ended = run({ trace });
    const { hazards } = retold(ended, program);
    const data = tracedOf(machine, { program, watched: names }, launch, ended, hazards);
    if (!data.rows.step.length && !data.watched.some(({ step }) => step.length)) continue;
    if (!fits(data)) {
      refused = `The figure draws the first ${MOST_THREADS.toLocaleString("en-US")} threads of a launch. Launch smaller blocks.`;
      continue;
    }
    const arrays = touched(data.rows, data.buffers);
    if (arrays.some((array) => beyond_shape(data, array) >= 0)) continue;
    const made = of_run(data, arrays, { step_name: "step", start: 0, view: "2d", axes: ["x", "y", "z"], extent: null });
    if (made.steps.length > MOST_MOMENTS) {
      refused = `Even the first ${OF_A_WARP.at(-1)} instructions of one warp make more than ${MOST_MOMENTS} steps.`;
      continue;
    }
    const caption = `Warps that do the same share a step; barriers keep their order. A GPU may order the rest differently.${note}`;
    return { figure: { kind: "stepped", title: `${report.title}, step by step`, caption, ...made } };
  }
  return { refused };
}

/** What to trace: everything, and then less and less. */
function* narrower({ grid }, { accesses, isWhole }) {
  const blocks = grid[0] * grid[1] * grid[2];
  if (isWhole && accesses <= MOST_ACCESSES) yield { trace: { maxSteps: 100_000 }, note: "" };
  const part = blocks > 1 ? `block 0 of ${blocks.toLocaleString("en-US")}` : "";
  if (blocks > 1 && accesses / blocks <= MOST_ACCESSES) {
    yield { trace: { blocks: [0], maxSteps: 20_000 }, note: ` The figure shows ${part}; the table counts all.` };
  }
  for (const maxSteps of OF_A_WARP) {
    const shown = `the first ${maxSteps.toLocaleString("en-US")} instructions of warp 0${part && ` of ${part}`}`;
    yield { trace: { blocks: [0], warps: [0], maxSteps }, note: ` The figure shows ${shown}; the table counts all.` };
  }
}

/** What of_run takes, as Python's `traced_of` has it. */
export function tracedOf(machine, { program, watched }, launch, ended, hazards) {
  const { layout } = machine;
  const { size, fields } = layout.structures.Access;
  const at = Object.fromEntries(Object.entries(fields).map(([name, [offset]]) => [name, offset / 4]));
  const rows = Rows(...Array.from({ length: 13 }, () => []));
  const seen = watched.map(() => Values(...Array.from({ length: 7 }, () => [])));
  const places = globalPlaces(program, launch);
  const words = new Int32Array(ended.accesses);
  const view = new DataView(ended.accesses);
  const long = (from) => words[from + 1] * 2 ** 32 + (words[from] >>> 0);
  for (let row = 0; row < words.length; row += size / 4) {
    const line = program.lines[words[row + at.line]] ?? 0;
    const bits = 4 * (row + at.bits);
    let [buffer, index] = [words[row + at.buffer], long(row + at.index)];
    if (words[row + at.kind] === layout.watch) {
      if (seen[buffer]) push(seen[buffer], words, row, at, line, numberIn(view, bits, layout.watched[index]));
      continue;
    }
    const [space, bytes, address] = [words[row + at.space], words[row + at.size], long(row + at.address)];
    const [inGlobal, inShared] = [space === layout.spaces.GLOBAL, space === layout.spaces.SHARED];
    const place = inGlobal ? places[buffer] : inShared ? sharedPlace(program, address) : null;
    const width = place?.width || bytes;
    const parts = bytes % width === 0 ? bytes / width : 1;
    if (inGlobal && place) index = Math.floor(index / width);
    else if (inShared && place) [buffer, index] = [places.length + place.number, Math.floor(place.offset / bytes) * parts];
    else if (!inGlobal && !inShared) buffer = -1;
    for (let part = 0; part < parts; part++) {
      const before = (part * bytes) / parts;
      push(rows, words, row, at, line, elementIn(view, bits, before, bytes / parts, place, inShared));
      rows.space.push(space);
      rows.kind.push(words[row + at.kind]);
      rows.size.push(bytes / parts);
      rows.buffer.push(buffer);
      rows.address.push(address + before);
      rows.index.push(index + part);
    }
  }
  return Traced(
    program.name,
    program.source,
    launch.grid,
    launch.block,
    rows,
    seen,
    watched,
    [...places.map(({ name }) => name), ...program.shared.map(([name]) => name)],
    shapesOf(program, launch),
    hazards.map(({ line, kind, message }) => ({ line, kind, message })),
    barriersOf(layout, program, ended),
  );
}

/** What accesses and watched values have in common. */
function push(columns, words, row, at, line, value) {
  for (const name of ["step", "block", "warp", "lane", "interval"]) columns[name].push(words[row + at[name]]);
  columns.line.push(line);
  columns.value.push(value);
}

function shapesOf(program, { shapes }) {
  const declared = Object.entries(program.declared).filter(([, { shape }]) => shape.length);
  const given = program.parameters.flatMap(([name], at) => (shapes?.[at]?.length ? [[name, shapes[at]]] : []));
  return Object.fromEntries([...declared.map(([name, { shape }]) => [name, shape]), ...given]);
}

/** Each line with barriers, and how often warps passed it. */
function barriersOf(layout, program, { counts }) {
  const width = layout.counters.length;
  const at = layout.counters.indexOf("barriers");
  const found = new Map();
  program.lines.forEach((line, row) => found.set(line, Number(counts[row * width + at])));
  return [...found].filter(([line, count]) => line && count).sort(([a], [b]) => a - b);
}
