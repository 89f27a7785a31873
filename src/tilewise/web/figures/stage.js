// Where a figure is flat or in space, as its reader chooses: the choice, its start, and the two drawings' places.
// In: what was kept and asked for. Out: parts to put on the page. A browser without WebGL stays flat and says so.

import { choice } from "./controls.js";
import { element } from "./dom.js";
import { NO_WEBGL, hasWebGL } from "./plotly_loader.js";
import { space } from "./space.js";

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

/** A flat drawing and cubes in one place, of which the figure shows one, and the text below them. */
export function pictureStage() {
  const flat = element("div", { class: "tw-flat", role: "img" });
  const deep = element("div", { class: "tw-space", hidden: true });
  return {
    flat,
    deep,
    cubes: space(deep, {}),
    root: element("div", { class: "tw-stage" }, flat, deep),
    text: element("p", { class: "tw-readout tw-stage-text", "aria-live": "polite" }),
    note: stageNote(),
  };
}
