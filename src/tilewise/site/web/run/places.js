// Where an access went and what its bits are worth, as engine/memory.py says it of a trace.

import { TYPES } from "./launch.js";

const WITHIN_BLOCK = 2 ** 24;
/** How words of shared memory are read that no declaration gives a type: by their size. */
const BY_SIZE = { 1: "u1", 2: "f2", 4: "f4", 8: "f8" };

/** The arrays and module variables of a launch: name, type and bytes of an element. */
export function globalPlaces(program, { given }) {
  return [
    ...program.parameters.map(([name], at) => {
      const one = given[at];
      if (!one || !("data" in one)) return { name, type: "f4", width: 4 };
      return { name, type: one.type ?? "", width: one.width };
    }),
    ...program.variables.map(({ name, type, element_bytes: width }) => ({ name, type: width ? type : "f4", width: width || 4 })),
  ];
}

/** The shared variable at an address, and the element in units of the access; null between them. */
export function sharedPlace(program, address, bytes) {
  const offset = address % WITHIN_BLOCK;
  const number = program.shared.findLastIndex(([, start, size]) => offset >= start && (offset < start + size || size === 0));
  if (number < 0) return null;
  const [name, start] = program.shared[number];
  return { number, index: Math.floor((offset - start) / bytes), type: program.declared[name]?.type ?? "" };
}

/**
 * Bits as a number. @param {DataView} view @param {number} at @param {string} type
 * @param {number} [bytes] of shared memory: the size of the access, whose words count as floats
 */
export function numberIn(view, at, type, bytes) {
  if (bytes === undefined) return TYPES[type] ? TYPES[type][2](view, at) : Number(view.getBigUint64(at, true));
  if (!BY_SIZE[bytes]) return 0;
  const isWhole = /^[iu][48]$/.test(type);
  if (isWhole && Number(type[1]) === bytes) return TYPES[type][2](view, at);
  const value = TYPES[BY_SIZE[bytes]][2](view, at);
  if (!isWhole) return value;
  const [width, , read] = TYPES[type];
  const word = new DataView(new ArrayBuffer(width));
  TYPES[`f${width}`][1](word, 0, value);
  return read(word, 0);
}
