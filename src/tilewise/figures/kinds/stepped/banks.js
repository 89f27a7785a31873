// The 32 banks of shared memory in one step of one warp: how many words its lanes request from each.
// In: a moment and a warp. Out: a strip of 32 cells and a sentence. Lanes that request the same word share it.

import { element } from "tilewise-figures/dom.js";

const BANKS = 32;
const WORD = 4;

/** @param {any} spec */
export function bankStrip(spec) {
  const head = element("p", { class: "tw-array-name" });
  const cells = Array.from({ length: BANKS }, () => element("i"));
  const strip = element("div", { class: "tw-banks", "aria-hidden": "true" }, ...cells);

  return {
    root: element("div", { class: "tw-bank-box" }, head, strip),
    /** @param {import("./moments.js").Moment} moment @param {{first: number, count: number, said: string}} warp */
    show(moment, warp) {
      const words = Array.from({ length: BANKS }, () => new Set());
      let wide = false;
      for (const touch of moment.touches) {
        const array = spec.arrays[touch.array];
        if (array.space !== "shared") continue;
        touch.elements.forEach((index, place) => {
          const k = touch.threads[place];
          if (k < warp.first || k >= warp.first + warp.count) return;
          wide ||= !touch.passes;
          const word = Math.floor((array.offset + index * array.item) / WORD);
          words[word % BANKS].add(`${touch.array}:${word}`);
        });
      }
      const most = Math.max(...words.map((bank) => bank.size));
      cells.forEach((cell, bank) => {
        const size = words[bank].size;
        cell.className = size > 1 && !wide ? "tw-clash" : size ? "tw-wanted" : "";
        cell.textContent = size > 1 && !wide ? String(size) : "";
        cell.title = `bank ${bank}: ${size} ${size === 1 ? "word" : "words"}`;
      });
      head.textContent = `banks, ${warp.said}: ${verdict(most, wide)}`;
    },
  };
}

function verdict(most, wide) {
  if (!most) return "not asked";
  if (wide) return "accesses wider than 4 bytes are split";
  return most === 1 ? "no conflict" : `${most}-way conflict, ${most} wavefronts`;
}
