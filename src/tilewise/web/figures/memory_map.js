// The map of arrays under a run: a slider over the steps, cells that say who reads and who writes.
// In: the specification that tilewise.figures.memory_map wrote. Out: a View.

import { arrayPanel } from "./arrays.js";
import { stepper } from "./controls.js";
import { element, grouped } from "./dom.js";
import { elementOf } from "./readout.js";
import { within } from "./state.js";

/** @type {import("./main.js").Draw} */
export function memoryMap(body, figure, memory) {
  const { run, sector_elements: sectorElements } = figure.spec;
  let step = within(memory.saved.step, 0, run.steps.length - 1, 0);
  const panel = arrayPanel(run.arrays, run.steps, { sectorElements, largest: 22 });
  const text = element("div", { class: "tw-readout tw-step-text", "aria-live": "polite" });
  const steps = stepper({
    label: "step",
    count: run.steps.length,
    value: step,
    onInput(next) {
      step = next;
      show();
    },
  });
  const key = element(
    "p",
    { class: "tw-key" },
    keyed("tw-read", "r", "read now"),
    keyed("tw-write", "w", "written now"),
    keyed("tw-before", "", "touched before"),
    sectorElements ? `A bar stands before each ${sectorElements * 4 === 32 ? "32-byte " : ""}sector.` : "",
  );
  panel.root.classList.add("tw-stage");
  body.append(key, panel.root, text, steps.root);
  resize();

  function show() {
    panel.show(step, -1);
    const now = run.steps[step];
    text.replaceChildren(
      now.source ? element("code", {}, now.source) : "",
      element("p", {}, `${now.line ? `Line ${now.line}: ` : ""}${now.touches.map(said).join("; ")}.`),
    );
    memory.save({ step });
  }

  function said(touch) {
    const array = run.arrays[touch.a];
    const count = touch.t.length;
    const [first, last] = [Math.min(...touch.i), Math.max(...touch.i)];
    const where = first === last ? elementOf(array, first) : `${elementOf(array, first)} to ${elementOf(array, last)}`;
    return `${grouped(count)} ${count === 1 ? `thread ${touch.k}s` : `threads ${touch.k}`} ${where}`;
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    show();
    panel.fit(panel.root.clientWidth, panel.root.clientHeight);
    show();
  }

  return { recolour: () => {}, resize, dispose: () => {} };
}

function keyed(name, sign, label) {
  return element("span", {}, element("i", { class: `tw-key-sign ${name}`, "aria-hidden": "true" }, sign), ` ${label}`);
}
