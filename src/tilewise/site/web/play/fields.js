// The fields of a launch that a reader defines: grid, block, shared memory, and each argument.
// In: a proposal of kernel/pasted.py. Out: a form, and its values as a choice for run/launch.js. Grid and lengths may
// be formulas of the sizes; they update when a size is dragged.

import { element } from "../site/dom.js";
import { Unreadable, worth } from "./formula.js";

const AXES = ["x", "y", "z"];
const OWN = "own";
const FILLS = { random: "", "0, 1, 2, …": "ramp", zeros: "0", ones: "1", "not set": "output", "own numbers": OWN, "null pointer": "null" };
const MOST_OF_A_SLIDER = 4;

/** A field that holds no number that can be used. */
export class Wrong extends Error {}

export class Fields {
  /** @param {string} id @param {() => void} changed */
  constructor(id, changed) {
    this.id = id;
    this.changed = changed;
    this.root = element("div", { class: "tw-play-fields" });
    /** @type {Map<string, HTMLInputElement>} */
    this.inputs = new Map();
    this.fills = new Map();
    this.sliders = new Map();
    this.known = "";
    this.root.addEventListener("input", ({ target }) => this.#follow(target));
  }

  /** Show a kernel's parameters; what a reader has typed stays. @param {any} proposal @param {any} held */
  show({ fields, arguments: parameters }, held = {}) {
    const known = JSON.stringify([fields, parameters]);
    if (known === this.known) return;
    const before = this.known ? this.state() : { fields: {}, fills: {} };
    const typed = Object.entries(before.fields).filter(([name, text]) => name in fields && text !== this.proposed[name]);
    this.known = known;
    this.proposed = fields;
    for (const one of [this.inputs, this.fills, this.sliders]) one.clear();
    const values = { ...fields, ...Object.fromEntries(typed), ...held.fields };
    const fills = { ...before.fills, ...held.fills };
    const launch = element(
      "fieldset",
      {},
      element("legend", {}, "Launch"),
      this.#row("block x", [this.#slider("block.x", values["block.x"], 1024, 1), this.#field("block.x", "threads along x", values)], "block.x"),
      this.#row("block y, z", AXES.slice(1).map((axis) => this.#field(`block.${axis}`, `threads along ${axis}`, values))),
      this.#row("grid x, y, z", AXES.map((axis) => this.#field(`grid.${axis}`, `blocks along ${axis}`, values, true))),
      this.#row("dynamic shared bytes", [this.#field("shared.bytes", "dynamic shared memory per block, in bytes", values)]),
    );
    const rows = parameters.map((one) => this.#argument(one, values, fills[one.name]));
    const given = element("fieldset", {}, element("legend", {}, "Arguments"), ...rows);
    this.root.replaceChildren(launch, ...(rows.length ? [given] : []));
    this.wholes = parameters.filter(({ kind }) => kind === "whole").map(({ name }) => name);
    this.parameters = parameters;
  }

  /** What the fields hold, to be shown again. */
  state() {
    const fields = Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.value]));
    const fills = Object.fromEntries([...this.fills].map(([name, { select, own }]) => [name, [select.value, own.value]]).filter(([, [fill]]) => fill));
    return { fields, fills };
  }

  /** What the fields hold, as numbers. @returns {any} */
  choice() {
    /** @type {Map<string, number>} */
    const known = new Map();
    const sizes = {};
    const take = (name, said, names) => {
      const value = this.#worth(name, said, known);
      sizes[name] = value;
      for (const one of names) known.set(one, value);
    };
    for (const { name, kind } of this.parameters) if (kind === "whole") take(name, name, [name]);
    for (const { name, kind } of this.parameters) {
      if (kind !== "number") continue;
      sizes[name] = Number(this.inputs.get(name).value);
      this.#mark(name, this.inputs.get(name).value.trim() && Number.isFinite(sizes[name]) ? "" : `${name} is no number.`);
    }
    for (const axis of AXES) take(`block.${axis}`, `block ${axis}`, [`blockDim.${axis}`]);
    for (const axis of AXES) take(`grid.${axis}`, `grid ${axis}`, [`gridDim.${axis}`]);
    take("shared.bytes", "shared bytes", []);
    for (const { name, kind } of this.parameters) {
      if (kind === "array" || kind === "variable") take(`${name}.length`, `the length of ${name}`, []);
    }
    const own = new Map([...this.fills].map(([name, { select, own: input }]) => [name, filling(select.value, input.value)]));
    return { sizes, kernel: 0, fill: "given", own: [], fills: Object.fromEntries([...own].filter(([, fill]) => fill)) };
  }

  #worth(name, said, known) {
    const input = this.inputs.get(name);
    const isExtent = !this.wholes.includes(name);
    let wrong = "";
    let value = 0;
    try {
      value = worth(input.value, known);
      const isNegative = isExtent && value < 0;
      if (!Number.isSafeInteger(value) || isNegative) wrong = `“${input.value}” gives ${value}, which ${said} can't be.`;
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      wrong = `${said}: ${error.message}`;
    }
    this.#mark(name, wrong);
    const shown = this.root.querySelector(`[data-worth="${CSS.escape(name)}"]`);
    if (shown) shown.value = String(value) === input.value.trim() ? "" : `= ${value.toLocaleString("en-US")}`;
    return value;
  }

  #mark(name, wrong) {
    this.inputs.get(name).setAttribute("aria-invalid", wrong ? "true" : "false");
    if (wrong) throw new Wrong(wrong);
  }

  #row(label, parts, target = "") {
    const title = target ? element("label", { for: this.#idOf(target) }, label) : element("span", { class: "tw-play-label" }, label);
    return element("div", { class: "tw-try-size" }, title, ...parts);
  }

  #idOf(name) {
    return `${this.id}-${name.replaceAll(/[^\w]/g, "-")}`;
  }

  #field(name, said, values, isFormula = false) {
    const input = element("input", {
      type: "text",
      inputmode: isFormula ? "text" : "numeric",
      "aria-label": said,
      autocomplete: "off",
      spellcheck: "false",
      class: isFormula ? "tw-play-formula" : "tw-try-value",
      maxlength: 200,
      oninput: () => this.changed(),
    });
    input.value = values[name] ?? "1";
    this.inputs.set(name, input);
    return isFormula ? element("span", { class: "tw-play-worth" }, input, element("output", { "data-worth": name })) : input;
  }

  #slider(name, value, most, least = 0) {
    const number = Number(value);
    const slider = element("input", { type: "range", id: this.#idOf(name), min: least, max: most, autocomplete: "off" });
    slider.value = String(Number.isFinite(number) ? number : least);
    slider.addEventListener("input", () => {
      this.inputs.get(name).value = slider.value;
      this.changed();
    });
    this.sliders.set(name, slider);
    return slider;
  }

  /** A slider goes where its field says, and further than it went before. */
  #follow(target) {
    for (const [name, slider] of this.sliders) {
      const value = Number(target.value);
      if (target !== this.inputs.get(name) || !target.value || !Number.isFinite(value)) continue;
      if (value > Number(slider.max)) slider.max = target.value;
      slider.value = target.value;
    }
  }

  #argument({ name, ctype, kind, begins }, values, fill) {
    const type = element("small", {}, ctype);
    if (kind === "struct") return this.#filled(name, [type], fill, ["zeros", "own numbers"]);
    if (kind === "array" || kind === "variable") {
      const length = this.#field(`${name}.length`, `elements of ${name}`, values, true);
      if (kind === "variable") length.querySelector("input").readOnly = true;
      return this.#filled(name, [type, length], fill, Object.keys(FILLS).slice(0, kind === "array" ? undefined : -2), begins);
    }
    const field = this.#field(name, `${name} as a number`, values, false);
    if (kind !== "whole") {
      field.setAttribute("inputmode", "decimal");
      field.id = this.#idOf(name);
      return this.#row(name, [type, field], name);
    }
    const value = Number(values[name]);
    const slider = this.#slider(name, values[name], Math.max(MOST_OF_A_SLIDER * value, 64));
    return this.#row(name, [type, slider, field], name);
  }

  /** A row whose array may begin in several ways. */
  #filled(name, parts, [chosen = "", numbers = ""] = [], offered = [], begins = "random") {
    const id = this.#idOf(`${name}-fill`);
    const own = element("input", { type: "text", "aria-label": `Numbers of ${name}, repeated to fill it`, placeholder: "1, 2, 5", maxlength: 400, hidden: true, oninput: () => this.changed() });
    const select = element("select", { id, "aria-label": `${name} begins with`, autocomplete: "off" });
    for (const label of offered) select.append(element("option", { value: FILLS[label] }, label === "random" ? begins : label));
    select.value = offered.some((label) => FILLS[label] === chosen) ? chosen : FILLS[offered[0]];
    own.value = numbers;
    own.hidden = select.value !== OWN;
    select.addEventListener("input", () => {
      own.hidden = select.value !== OWN;
      this.changed();
    });
    this.fills.set(name, { select, own });
    return element("div", { class: "tw-try-size" }, element("label", { for: id }, name), ...parts, select, own);
  }
}

/** How an array begins, as run/launch.js takes it; null: as the server proposes. */
function filling(kind, own) {
  const numbers = own.split(/[\s,;]+/).filter(Boolean).map(Number).filter(Number.isFinite);
  if (kind === "0" || kind === "1") return { kind: "constant", value: Number(kind) };
  if (kind === OWN) return numbers.length ? { kind: OWN, numbers } : null;
  return kind ? { kind } : null;
}
