// Judges an answer to a puzzle, as puzzles/judging.py does: every launch must be right, then within its budget.
// In: the machine, the puzzle's data (puzzles/browser.py), the program of an answer. Out: {fault} with its line,
// message, repair and launch, or {spent}. The sentences are those of puzzles/wording.py, translated.

import { general, grouped, placeOf, wording } from "tilewise-judging";
import { launchOf, numbersIn, Refused } from "./launch.js";
import { report } from "./report.js";

const NOTHING_CHOSEN = { sizes: {}, kernel: 0, fill: "given", own: [] };

/** A launch of a puzzle as an offer has it. */
const offerOf = (trial, program, maxThreads) => ({ ...trial, kernels: [{ program }], maxThreads });

/** @param {any} puzzle @param {any} answer {program, maxThreads, trial} */
export const launchOfTrial = (puzzle, { program, maxThreads, trial }) => launchOf(offerOf(puzzle.trials[trial], program, maxThreads), NOTHING_CHOSEN);

/** @param {import("./machine.js").Machine} machine @param {any} puzzle @param {any} answer {program, maxThreads} */
export function judge(machine, puzzle, answer) {
  const runs = [];
  for (const [at, trial] of puzzle.trials.entries()) {
    const { fault, ended } = right(machine, puzzle, { ...answer, trial: at });
    if (fault) return { fault: { ...fault, message: oneLine(fault.message), trial: at } };
    runs.push(lines(machine, answer.program, ended));
  }
  for (const [at, trial] of puzzle.trials.entries()) {
    const fault = overBudget(puzzle.limits, trial, runs[at]);
    if (fault) return { fault: { ...fault, message: oneLine(fault.message), trial: at } };
  }
  const spent = puzzle.limits.map(({ short, counter }, at) => [short, grouped(total(runs[0], counter)), grouped(puzzle.trials[0].most[at])]);
  return { spent, label: puzzle.trials[0].label, solved: wording.solved(runs.length) };
}

/** One launch: what the machine left of it, or what is wrong with it. */
function right(machine, puzzle, answer) {
  const trial = puzzle.trials[answer.trial];
  const at = wording.launched(trial.label, wording.shape(trial.grid, trial.block));
  let launch;
  try {
    launch = launchOfTrial(puzzle, answer);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { fault: { line: 0, message: `${error.message} ${at}`, repair: "" } };
  }
  const ended = machine.run(answer.program, launch.given, { ...launch, maxSteps: puzzle.maxSteps });
  const { hazards, isWhole } = report(machine.layout, answer.program, launch, ended, puzzle.maxSteps);
  if (!isWhole) {
    const { kind, line, message, isNear, source, caller, callerSource, repair } = hazards.at(-1);
    const met = { kind, line, message, is_near: isNear, source_line: source, caller, caller_line: callerSource, repair };
    const said = wording.hazard_message(met, oneLine(`${kind}: ${message}${placeOf(met)}.`));
    return { fault: { line: wording.hazard_line(met), message: said, repair: `${at} ${wording.hazard_repair(met)}` } };
  }
  for (const { name, type, data } of trial.expected) {
    const number = trial.arguments.findIndex((one) => (one.same ?? one.name) === name);
    const { type: own, shape } = trial.arguments[number];
    const wrong = firstWrong(name, shape, [ended.arrays[number], own], [bytes(data), type], launch.given[number].data, puzzle);
    if (wrong) return { fault: { line: 0, message: `wrong value: ${wrong.message} ${at}`, repair: wrong.repair } };
  }
  return { ended };
}

const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const isFloat = (type) => type[0] === "f";
const shown = (value, type) => (isFloat(type) ? general(value) : String(value));

/** The first wrong element of an output, as puzzles/wrong_values.py finds it; null where none is. */
function firstWrong(name, shape, [left, leftType], [should, rightType], beforeBytes, { rtol, atol }) {
  const [actual, right] = [numbersIn(left, leftType), numbersIn(should, rightType)];
  const alike = (a, b) => a === b || (Number.isNaN(a) && Number.isNaN(b));
  const near = (a, b) => alike(a, b) || (isFloat(leftType) && Math.abs(a - b) <= rtol * Math.abs(b) + atol);
  const wrong = actual.flatMap((value, at) => (near(value, right[at]) ? [] : [at]));
  if (!wrong.length) return null;
  const [first] = wrong;
  const width = left.length / actual.length;
  const isKept = (at) => left.subarray(at * width, (at + 1) * width).every((byte, k) => byte === beforeBytes[at * width + k]);
  const kept = actual.filter((_, at) => isKept(at)).length;
  const elsewhere = right.flatMap((value, at) => (value === actual[first] ? [at] : []));
  const rights = new Set(right);
  const isMoved = elsewhere.length === 1 && rights.size > 0.9 * right.length && wrong.filter((at) => !Number.isNaN(actual[at]) && rights.has(actual[at])).length > 0.9 * wrong.length;
  return {
    message: wording.wrong_value(name, indexText(first, shape), shown(actual[first], leftType), shown(right[first], rightType), wrong.length, actual.length),
    repair: wording.diagnosis(
      name,
      actual.length - kept,
      isKept(first),
      alike(right[first], numbersIn(beforeBytes, leftType)[first]),
      Number.isNaN(actual[first]),
      isMoved ? indexText(elsewhere[0], shape) : "",
      wrong.length === actual.length,
    ),
  };
}

function indexText(at, shape) {
  const index = [];
  for (const extent of [...shape].reverse()) {
    index.unshift(at % extent);
    at = Math.floor(at / extent);
  }
  return `[${index.join(", ")}]`;
}

/** The counters of each line of the source; line 0 has what the compiler gives no line. */
function lines({ layout }, program, { counts }) {
  const width = layout.counters.length;
  return new Map(program.lines.map((line, row) => [line, [...counts.subarray(row * width, (row + 1) * width)].map(Number)]));
}

const total = (byLine, counter) => [...byLine.values()].reduce((sum, counts) => sum + counts[counter], 0);

function overBudget(limits, trial, byLine) {
  for (const [at, { words, repair, because, counter }] of limits.entries()) {
    const [count, most] = [total(byLine, counter), trial.most[at]];
    if (count <= most) continue;
    const named = [...byLine].filter(([line]) => line);
    const [line, worst] = named.reduce((a, b) => (b[1][counter] > a[1] ? [b[0], b[1][counter]] : a), [0, -1]);
    const message = wording.over_budget(count, most, words, trial.label, wording.shape(trial.grid, trial.block), Math.max(worst, 0));
    return { line, message, repair: wording.budget_repair(repair, most, because) };
  }
  return null;
}

/** A message as errors.py shortens it. */
const oneLine = (text) => {
  const line = text.split(/\s+/).filter(Boolean).join(" ");
  return line.length <= wording.LONGEST ? line : `${line.slice(0, wording.LONGEST).trimEnd()} …`;
};
