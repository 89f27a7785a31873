// The element of an access and the value of its bits, as engine/memory.py reports them for a trace.

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

/** The shared variable at an address: its number, how far in it, type and bytes of an element; null between them. */
export function sharedPlace(program, address) {
  const within = address % WITHIN_BLOCK;
  const number = program.shared.findLastIndex(([, start, size]) => within >= start && (within < start + size || size === 0));
  if (number < 0) return null;
  const [name, start] = program.shared[number];
  const type = program.declared[name]?.type ?? "";
  return { number, offset: within - start, type, width: TYPES[type]?.[0] ?? 0 };
}

/** Bits as a number. @param {DataView} view @param {number} at @param {string} type */
export function numberIn(view, at, type) {
  return TYPES[type] ? TYPES[type][2](view, at) : Number(view.getBigUint64(at, true));
}

/** An element of an access. @param {DataView} view @param {number} bits where they begin @param {number} before bytes in front of it @param {number} size its bytes */
export function elementIn(view, bits, before, size, place, inShared) {
  if (TYPES[place?.type] && place.width === size) return numberIn(view, bits + before, place.type);
  if (inShared) return BY_SIZE[size] ? numberIn(view, bits, BY_SIZE[size]) : 0;
  return place ? numberIn(view, bits, place.type) : 0;
}
