// The machine in a worker. In: {offer} once, then {number, choice}, with {step} for a stepped figure of the run; an
// offer with trials is a puzzle's (puzzles/browser.py), and a choice is then an answer. Out: {progress}, {report},
// {stepped} or {refused}, each with the number. To stop a run, terminate the worker.

import layout from "tilewise-layout";
import { first_warp } from "tilewise-stepping";
import { judge, launchOfTrial } from "./judge.js";
import { launchOf, planOf, Refused } from "./launch.js";
import { Machine } from "./machine.js";
import { arrays, report, totalsBelow } from "./report.js";
import { stepped, tracedOf } from "./steps.js";

/** Warp instructions of a run: some ten seconds. */
const MOST_STEPS = 20_000_000;
const WARP_STEPS = 1000;
/** Hazards that end a traced run too. */
const LAST = ["assert", "trap", "steps", "deadlock"];

let offer = null;
/** @type {Promise<Machine> | null} */
let machine = null;

/** @param {string | ArrayBuffer} wasm an address, or the file itself */
async function begin(wasm) {
  if (typeof wasm !== "string") return Machine.from(wasm, layout);
  const answer = await fetch(wasm);
  if (!answer.ok) throw new Error(`${wasm}: ${answer.status}`);
  return Machine.from(await answer.arrayBuffer(), layout);
}

/** What the machine left of a launch, with the accesses of its first warp, and the time it took. */
function ran(own, { program }, launch, number) {
  const begun = performance.now();
  const ended = own.run(program, launch.given, {
    ...launch,
    maxSteps: MOST_STEPS,
    trace: { blocks: [0], warps: [0], maxSteps: WARP_STEPS },
    paused: (steps) => postMessage({ number, progress: steps, of: MOST_STEPS }),
  });
  return { ended, ms: performance.now() - begun };
}

async function answer({ number, choice, step }) {
  const own = await machine;
  if (offer.trials && !step) return { report: judge(own, offer, choice) };
  const launch = offer.trials ? launchOfTrial(offer, choice) : launchOf(offer, choice);
  const kernel = offer.trials ? choice : offer.kernels[choice.kernel];
  const { ended, ms } = ran(own, kernel, launch, number);
  const told = (one, program = kernel.program) => report(layout, program, launch, one, MOST_STEPS);
  const made = told(ended);
  if (step) return { stepped: withEnd(stepped(own, kernel, launch, made, told), made) };
  return {
    report: {
      ...made,
      ms,
      pageTotals: offer.totals && totalsBelow(made.table.columns, offer.totals),
      warp: warp(own, kernel.program, launch, ended),
      arrays: made.isWhole ? arrays(planOf(offer, choice.kernel), launch, ended) : [],
    },
  };
}

/** A stepped figure that says where the counts below it end earlier. */
function withEnd({ figure, ...rest }, { isWhole, hazards }) {
  if (!figure || offer.trials || isWhole || !hazards.length || LAST.includes(hazards[0].kind)) return { figure, ...rest };
  return { figure: { ...figure, caption: `${figure.caption} The counts below end at the hazard; the steps go on past it.` } };
}

function warp(own, program, launch, traced) {
  const { rows, buffers } = tracedOf(own, { program, watched: [] }, launch, traced, []);
  return first_warp(rows, buffers);
}

async function run(asked) {
  const { number } = asked;
  try {
    postMessage({ number, ...(await answer(asked)) });
  } catch (error) {
    const isOurs = error instanceof Refused || error instanceof RangeError;
    postMessage({ number, refused: isOurs ? error.message : `The run failed: ${error.message}` });
  }
}

addEventListener("message", ({ data }) => {
  if (data.offer) {
    offer = data.offer;
    machine = begin(data.wasm);
    machine.catch(() => {});
  } else run(data);
});
