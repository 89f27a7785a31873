// The moments of a stepped figure, and the known state at each of them.
// In: the compact specification of tilewise.figures.stepped. Out: moments in full; and at a moment the contents of
// every array, the elements accessed before, and the latest value of every watched variable.

import { total } from "tilewise-figures/launch.js";

const KINDS = { r: "read", w: "write", u: "update", o: "outside" };

/**
 * @typedef {{array: number, kind: string, elements: number[], threads: number[]|null, values: any[]|null,
 *   sectors: number, passes: number}} Touch
 * @typedef {{name: number, threads: number[]|null, values: any[]}} Watch
 * @typedef {{line: number, barrier: boolean, touches: Touch[], watches: Watch[]}} Moment
 * @typedef {{contents: Map<number, any>[], before: Set<number>[], watched: Map<number, any>[]}} Known
 */

/** @param {any} spec @returns {Moment[]} */
export function moments(spec) {
  return spec.moments.map((short) => ({
    line: short.l || 0,
    barrier: Boolean(short.b),
    touches: (short.p || []).map((touch) => {
      const elements = whole(touch.i);
      return {
        array: touch.a,
        kind: KINDS[touch.k],
        elements,
        threads: touch.t ? whole(touch.t) : null,
        values: touch.v ? every(touch.v, elements.length) : null,
        sectors: touch.s || 0,
        passes: touch.f || 0,
      };
    }),
    watches: (short.w || []).map((watch) => {
      const threads = watch.t ? whole(watch.t) : null;
      const count = threads ? threads.length : watch.v[0] === "c" ? 1 : watch.v.length;
      return { name: watch.n, threads, values: every(watch.v, count) };
    }),
  }));
}

/**
 * What is known when a moment is over. Of shared memory, which every block has for itself, one block's is told.
 * @param {any} spec @param {Moment[]} all @param {number} at @param {number} block
 * @returns {Known}
 */
export function knownAt(spec, all, at, block) {
  const contents = spec.arrays.map((array) => {
    const size = array.shape.reduce((product, side) => product * side, 1);
    return array.start ? new Map(every(array.start, size).entries()) : new Map();
  });
  const before = spec.arrays.map(() => new Set());
  const watched = spec.watched.map(() => new Map());
  const here = ofBlock(spec, block);
  for (let number = 0; number <= at; number += 1) {
    for (const touch of all[number].touches) {
      touch.elements.forEach((element, place) => {
        if (!here(touch, place)) return;
        if (touch.values) contents[touch.array].set(element, touch.values[place]);
        if (number < at) before[touch.array].add(element);
      });
    }
    for (const watch of all[number].watches) {
      if (!watch.threads && watch.values.length < watched[watch.name].size) watched[watch.name].clear();
      watch.values.forEach((value, place) => watched[watch.name].set(watch.threads ? watch.threads[place] : place, value));
    }
  }
  return { contents, before, watched };
}

/** Whether the thread at a place of a touch is to be shown: in shared memory only one block's are. */
export function ofBlock(spec, block) {
  const each = spec.block ? total(spec.block) : 0;
  return (touch, place) =>
    spec.arrays[touch.array].space !== "shared" || !touch.threads || Math.floor(touch.threads[place] / each) === block;
}

/** Which threads a moment is about, and what they do. @param {Moment} moment @param {number[]|null} atWork */
export function acting(moment, atWork) {
  const now = new Map();
  for (const k of atWork || []) now.set(k, "run");
  for (const watch of moment.watches) for (const k of watch.threads || []) now.set(k, "run");
  for (const touch of moment.touches) for (const k of touch.threads || []) now.set(k, touch.kind);
  return now;
}

/** A value in at most five characters. @param {any} value */
export function brief(value) {
  if (value === undefined || value === null) return "·";
  if (value === "nan") return "NaN";
  if (typeof value === "string") return value.replace("-", "−").replace("inf", "∞");
  for (let digits = 4; digits > 0; digits -= 1) {
    const said = String(Number(value.toPrecision(digits)));
    if (said.length <= 5) return said.replace("-", "−");
  }
  return value.toExponential(0).replace("+", "").replace("-", value < 0 ? "−" : "-");
}

function whole(short) {
  if (short[0] !== "r") return short;
  const made = [];
  for (let at = 1; at < short.length; at += 3) {
    for (let n = 0; n < short[at + 2]; n += 1) made.push(short[at] + n * short[at + 1]);
  }
  return made;
}

function every(short, count) {
  return short[0] === "c" ? Array.from({ length: count }, () => short[1]) : short;
}
