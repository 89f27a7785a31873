// Sliders, steppers and switches, all native form elements for keyboards and screen readers.
// In: a label, a range, a listener. Out: an element and a setter that doesn't call the listener.

import { element, uniqueId } from "./dom.js";

/**
 * @typedef {{root: HTMLElement, set: (value: any) => void, limit?: (most: number) => void}} Control
 */

/**
 * A slider with its label on the left and its value on the right.
 * @param {{label: string, min: number, max: number, value: number, text?: (value: number) => string,
 *   onInput: (value: number) => void}} options
 * @returns {Control}
 */
export function slider({ label, min, max, value, text = String, onInput }) {
  const id = uniqueId("slider");
  const output = element("output", { for: id, class: "tw-value" });
  const input = element("input", { type: "range", id, min, max, step: 1, "data-control": label });
  const show = () => {
    const said = text(Number(input.value));
    output.textContent = said;
    input.setAttribute("aria-valuetext", said);
  };
  input.value = String(value);
  input.addEventListener("input", () => {
    show();
    onInput(Number(input.value));
  });
  show();
  const root = element("div", { class: "tw-slider" }, element("label", { for: id }, label), input, output);
  return {
    root,
    set(next) {
      input.value = String(next);
      show();
    },
  };
}

/**
 * A slider over steps with a button on either side.
 * @param {{label: string, count: number, value: number, text?: (step: number) => string,
 *   onInput: (step: number) => void}} options
 * @returns {Control}
 */
export function stepper({ label, count, value, text, onInput }) {
  const id = uniqueId("step");
  let most = count - 1;
  const input = element("input", { type: "range", id, min: 0, max: most, step: 1, "data-control": "step" });
  const output = element("output", { for: id, class: "tw-value" });
  const back = element("button", { type: "button", class: "tw-button", "aria-label": `previous ${label}` }, "‹");
  const on = element("button", { type: "button", class: "tw-button", "aria-label": `next ${label}` }, "›");
  const show = () => {
    const step = Number(input.value);
    const said = text ? text(step) : `${step + 1} of ${most + 1}`;
    output.textContent = said;
    input.setAttribute("aria-valuetext", said);
    back.setAttribute("aria-disabled", String(step <= 0));
    on.setAttribute("aria-disabled", String(step >= most));
  };
  const go = (step) => {
    const next = Math.max(0, Math.min(most, step));
    if (next === Number(input.value)) return;
    input.value = String(next);
    show();
    onInput(next);
  };
  back.addEventListener("click", () => go(Number(input.value) - 1));
  on.addEventListener("click", () => go(Number(input.value) + 1));
  input.value = String(value);
  input.addEventListener("input", () => {
    show();
    onInput(Number(input.value));
  });
  show();
  const root = element(
    "div",
    { class: "tw-stepper" },
    element("label", { for: id }, label),
    back,
    input,
    on,
    output,
  );
  return {
    root,
    set(step) {
      input.value = String(step);
      show();
    },
    limit(next) {
      most = next - 1;
      input.max = String(most);
      show();
    },
  };
}

/**
 * The control of a figure's steps: a switch where they are names, which have no order, else a slider with buttons.
 * @param {{label: string, texts: string[], areNames: boolean, value: number, onInput: (value: number) => void}} options
 * @returns {Control}
 */
export function steps({ texts, areNames, ...shared }) {
  if (areNames) return names({ ...shared, texts });
  return stepper({ ...shared, count: texts.length, text: (at) => texts[at] });
}

/**
 * A switch between names, by their places.
 * @param {{label: string, texts: string[], value: number, onInput: (value: number) => void}} options
 * @returns {Control}
 */
export function names({ label, texts, value, onInput }) {
  const made = choice({
    label,
    options: texts.map((text, at) => ({ value: String(at), label: text })),
    value: String(value),
    onInput: (next) => onInput(Number(next)),
  });
  made.root.classList.add("tw-names");
  return { root: made.root, set: (next) => made.set(String(next)) };
}

/**
 * A switch between a few choices: radio buttons that look like one control.
 * @param {{label: string, options: {value: string, label: string, disabled?: boolean}[], value: string,
 *   onInput: (value: string) => void}} options
 * @returns {Control}
 */
export function choice({ label, options, value, onInput }) {
  const name = uniqueId("choice");
  const inputs = options.map((option) => {
    const input = element("input", { type: "radio", name, value: option.value, disabled: option.disabled });
    input.checked = option.value === value;
    input.addEventListener("change", () => onInput(option.value));
    return input;
  });
  const root = element(
    "fieldset",
    { class: "tw-choice" },
    element("legend", {}, label),
    ...options.map((option, at) =>
      element("label", { title: option.disabled ? option.disabled : null }, inputs[at], element("span", {}, option.label)),
    ),
  );
  return {
    root,
    set(next) {
      for (const input of inputs) input.checked = input.value === next;
    },
  };
}
