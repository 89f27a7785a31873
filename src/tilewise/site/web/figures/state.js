// Stores each figure's state for this visit, so that a reload or a rebuilt page keeps the sliders.
// In: a figure's name, kind and state. Out: the state, or nothing. Without storage, it stays in memory.

/** @type {Map<string, {kind: string, state: Record<string, any>}>} */
const kept = new Map();
const PREFIX = "tw-figure:";

/** @param {string} name @param {string} kind @param {Record<string, any>} state */
export function remember(name, kind, state) {
  kept.set(name, { kind, state });
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify({ kind, state }));
  } catch {
    // Storage is switched off or full; memory does until the page is reloaded.
  }
}

/** @param {string} name @param {string} kind @returns {Record<string, any>} */
export function recall(name, kind) {
  let found = kept.get(name);
  if (!found) {
    try {
      found = JSON.parse(sessionStorage.getItem(PREFIX + name) || "null");
    } catch {
      found = undefined;
    }
  }
  return found?.kind === kind ? found.state : {};
}

/**
 * A whole number from a remembered state, or the usual one where it no longer fits.
 * @param {any} value @param {number} least @param {number} most @param {number} usual
 */
export function within(value, least, most, usual) {
  return Number.isInteger(value) && value >= least && value <= most ? value : usual;
}
