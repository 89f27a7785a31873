// The faults of a text as a list whose lines link into the editor, and what was left out of the text.

import { coded, element } from "../site/dom.js";

/** @param {any} made @param {(line: number) => void} go */
export function remarks({ faults, notes }, go) {
  const items = faults.map(({ line, message, repair }) =>
    element("li", {}, ...(line ? [element("button", { type: "button", class: "tw-play-line", onclick: () => go(line) }, `Line ${line}`), " "] : []), ...coded(repair ? `${message} ${repair}` : message)),
  );
  return [
    ...(items.length ? [element("ul", { class: "tw-play-faults", "aria-label": "Errors" }, ...items)] : []),
    ...notes.map((note) => element("p", { class: "tw-play-note" }, note)),
  ];
}

/** As the editor marks them. */
export const asMarks = (faults) => faults.filter(({ line }) => line).map(({ line, message }) => ({ line, message, severity: "error" }));
export const hazardMarks = (hazards) =>
  hazards.filter(({ line }) => line).map(({ line, kind, message }) => ({ line, message: `Hazard: ${kind}. ${message}.`, severity: "warning" }));
