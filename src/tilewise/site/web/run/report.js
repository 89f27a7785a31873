// In: the results of a launch. Out: the page's report as plain data: the counts by source line as in results/table.py,
// hazards and notes in the sentences of results/findings.py, arrays as text.

import { cells, COLUMNS, Describer, grouped, HAZARD_KINDS } from "tilewise-sentences";
import { numbersIn } from "./launch.js";
import { initialBytes } from "./machine.js";

/** Elements of an array that are shown. */
const SHOWN = 256;

/** @param {any} layout @param {any} program @param {any} launch @param {any} ended @param {number} maxSteps */
export function report(layout, program, launch, ended, maxSteps) {
  const width = layout.counters.length;
  const rows = program.lines.map((line, at) => ({ line, counts: ended.counts.subarray(at * width, (at + 1) * width) }));
  const total = new BigUint64Array(width);
  for (const { counts } of rows) counts.forEach((value, at) => (total[at] += value));
  const source = program.source.split("\n");
  const describer = new Describer(names(layout, program, launch, maxSteps));
  const isWhole = ended.status === layout.status.DONE;
  return {
    title: `${program.name}<<<${shape(launch.grid)}, ${shape(launch.block)}>>>`,
    isWhole,
    steps: ended.steps,
    accesses: layout.counters.reduce((sum, name, at) => sum + (/^[gs][lsa]_lanes$/.test(name) ? Number(total[at]) : 0), 0),
    table: table(rows, total, source),
    hazards: ended.hazards.map((row) => hazard(describer, row, source)),
    notes: ended.notes.map((row) => describer.note(row)),
    printed: ended.printed,
  };
}

/** What the sentences name: as `Memory` and `Program` have it. */
function names(layout, program, launch, maxSteps) {
  const big = (numbers) => numbers.map(BigInt);
  const given = launch.given.map((one) => ("data" in one ? { itemsize: BigInt(one.width) } : null));
  const variables = program.variables.map(({ element_bytes: bytes }) => (bytes ? { itemsize: BigInt(bytes) } : null));
  const parameters = program.parameters.map(([name]) => name);
  const namesOf = (test) => parameters.filter((_, at) => test(launch.given[at]));
  const elements = (bytes, width) => BigInt(Math.floor(bytes / (width || 1)));
  return {
    grid: big(launch.grid),
    block: big(launch.block),
    lines: program.source.split("\n"),
    max_steps: BigInt(maxSteps),
    shared_bytes: BigInt(launch.sharedBytes),
    program: {
      lines: big(program.lines),
      shared_variables: program.shared.map(([name, start, size]) => [name, BigInt(start), BigInt(size)]),
      module_variables: program.variables,
      local_bytes: BigInt(program.local_bytes),
      waits: program.waits,
    },
    memory: {
      shown: [...given, ...variables],
      names: [...parameters, ...program.variables.map(({ name }) => name)],
      arrays: launch.given,
      elements(number) {
        const one = launch.given[Number(number)];
        if (one) return "data" in one ? elements(one.data.length, one.width) : 1n;
        const { bytes, element_bytes: width } = program.variables[Number(number) - launch.given.length];
        return elements(bytes, width);
      },
      pointers: namesOf((one) => one.mayPoint),
      missing: namesOf((one) => one.isNull),
      before: (number) => BigInt(launch.given[Number(number)]?.before ?? 0),
      begins: (number) => BigInt(launch.given[Number(number)]?.skew ?? 0),
      text_at(address) {
        const [base, shift] = ["GLOBAL_BASE", "GLOBAL_SHIFT"].map((name) => BigInt(layout.constants[name]));
        const number = Number((address - base) >> shift) - launch.given.length;
        const bytes = initialBytes(program.variables[number]).subarray(Number((address - base) & ((1n << shift) - 1n)));
        return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
      },
    },
  };
}

function hazard(describer, row, source) {
  const kind = HAZARD_KINDS[String(row.kind)];
  const line = Number(describer.program.lines[Number(row.line)] ?? 0n);
  const caller = Number(row.caller);
  const sentence = describer[`_${kind.replaceAll(/[ -]/g, "_")}`](row);
  return {
    kind,
    line,
    isNear: row.near_line !== 0n,
    message: sentence,
    count: Number(row.count),
    source: source[line - 1] ?? "",
    caller,
    callerSource: source[caller - 1] ?? "",
    repair: describer._repair(kind, row),
  };
}

function table(rows, total, source) {
  const used = COLUMNS.filter((column) => total[column.used]);
  const cell = (column, counts) => cells[column.form](...column.takes.map((at) => counts[at]));
  const made = (counts, every = false) =>
    used.map((column) => {
      const { text, title, mark } = every || counts[column.used] ? cell(column, counts) : { text: "" };
      return { text: typeof text === "bigint" ? grouped(text) : text, title: title ?? "", mark: mark ?? "" };
    });
  const lines = rows
    .filter(({ line, counts }) => line && used.some((column) => counts[column.used]))
    .sort((a, b) => a.line - b.line)
    .map(({ line, counts }) => ({ line, source: (source[line - 1] ?? "").trim(), cells: made(counts) }));
  return {
    columns: used.map(({ group, name, meaning }) => ({ group, name, meaning })),
    lines,
    total: made(total, true).map(({ text, title }) => ({ text, title, mark: "" })),
  };
}

/** The cells of a row of totals below the columns of another run. @param {any} columns @param {string[]} totals */
export function totalsBelow(columns, totals) {
  const counts = totals.map(BigInt);
  return columns.map(({ group, name }) => {
    const column = COLUMNS.find((one) => one.group === group && one.name === name);
    const { text } = cells[column.form](...column.takes.map((at) => counts[at]));
    return typeof text === "bigint" ? grouped(text) : text;
  });
}

/** The arrays that the kernel may write, as text. @param {any} plan @param {any} launch @param {any} ended */
export function arrays(plan, launch, ended) {
  return plan.arguments.flatMap((one, at) => {
    if (!one.shape || !one.written || !ended.arrays[at]) return [];
    const type = one.type;
    const numbers = numbersIn(ended.arrays[at], type, SHOWN).map((value) => text(value, type));
    const size = launch.shapes[at].reduce((all, extent) => all * extent, 1);
    return [{ name: one.name, shape: launch.shapes[at], numbers, left: size - numbers.length }];
  });
}

/** A number with as few digits as tell it from its neighbours, and at most six. */
function text(value, type) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value) || Number.isInteger(value)) return String(value).replace("-", "−");
  const digits = type === "f8" ? 6 : type === "f4" ? 6 : 4;
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

function shape(extents) {
  const last = extents.findLastIndex((extent) => extent !== 1);
  return last <= 0 ? String(extents[0]) : `(${extents.slice(0, last + 1).join(", ")})`;
}
