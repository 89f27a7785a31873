// The machine in a thread of its own. In: {offer} once, then {run, number, choice}. Out: {ready}, {progress},
// {report} or {refused}, each with the number. Who wants a run stopped ends this thread.

import layout from "tilewise-layout";
import { launchOf, Refused } from "./launch.js";
import { Machine } from "./machine.js";
import { arrays, report, totalsBelow } from "./report.js";
import { warp } from "./warp.js";

/** Warp instructions of a run: some ten seconds. */
const MOST_STEPS = 20_000_000;
/** Of a second, traced run, from which the picture of the first warp is made; and of that warp. */
const TRACED_STEPS = 20_000;
const WARP_STEPS = 1000;

let offer = null;
/** @type {Promise<Machine> | null} */
let machine = null;

async function begin(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  return Machine.from(await answer.arrayBuffer(), layout);
}

async function run({ number, choice }) {
  try {
    const launch = launchOf(offer, choice);
    const program = offer.kernels[choice.kernel].program;
    const begun = performance.now();
    const own = await machine;
    const ended = own.run(program, launch.given, {
      ...launch,
      maxSteps: MOST_STEPS,
      paused: (steps) => postMessage({ number, progress: steps, of: MOST_STEPS }),
    });
    const ms = performance.now() - begun;
    const made = report(layout, program, launch, ended, MOST_STEPS);
    const trace = { blocks: [0], warps: [0], maxSteps: WARP_STEPS };
    const traced = own.run(program, launch.given, { ...launch, maxSteps: TRACED_STEPS, trace });
    const pageTotals = offer.totals && totalsBelow(made.table.columns, offer.totals);
    postMessage({
      number,
      report: {
        ...made,
        ms,
        pageTotals,
        warp: warp(own, program, traced.accesses),
        arrays: made.isWhole ? arrays(offer, launch, ended) : [],
      },
    });
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
