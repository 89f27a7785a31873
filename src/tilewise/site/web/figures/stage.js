// The 2-D/3-D view of a figure: the reader's choice and its initial value.
// In: the stored and the requested view. Out: elements. A browser without WebGL stays in 2-D and says so.

import { choice } from "./controls.js";
import { element } from "./dom.js";
import { hasDepth } from "./launch.js";
import { NO_WEBGL, hasPlotly, hasWebGL } from "./plotly_loader.js";

/** Whether a launch is shown flat or in space, as its reader likes. @param {{grid: number[], block: number[]}} launch */
export const hasViews = (launch) => hasDepth(launch) && hasPlotly();

/** The view to begin with. @param {unknown} kept @param {unknown} asked @returns {"2d" | "3d"} */
export function firstView(kept, asked) {
  return hasWebGL() && (kept === "2d" || kept === "3d" ? kept : asked) === "3d" ? "3d" : "2d";
}

/** @param {"2d" | "3d"} value @param {(next: any) => void} onInput */
export function viewChoice(value, onInput) {
  const options = [
    { value: "2d", label: "2-D" },
    { value: "3d", label: "3-D", disabled: !hasWebGL() },
  ];
  return choice({ label: "View", options, value, onInput });
}

/** A line below the drawing, filled where there is no third dimension. */
export function stageNote() {
  return element("p", { class: "tw-stage-note", role: "status", hidden: hasWebGL() }, hasWebGL() ? "" : NO_WEBGL);
}
