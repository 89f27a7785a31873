// Bits of a number in several formats, one cell per bit, aligned where exponent and fraction meet.
// In: the specification of tilewise.figures.bit_fields. Out: a View. Only shows precomputed bits.

import { slider } from "tilewise-figures/controls.js";
import { element } from "tilewise-figures/dom.js";
import { within } from "tilewise-figures/state.js";

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { formats, numbers, step_name: stepName, start } = figure.spec;
  const before = 1 + Math.max(...formats.map((one) => one.exponent));
  const columns = before + Math.max(...formats.map((one) => one.fraction));
  let at = within(memory.saved.at, 0, numbers.length - 1, start);

  const heads = element(
    "div",
    { class: "tw-bit-cells tw-bit-heads", "aria-hidden": "true" },
    element("span", { class: "tw-bit-head tw-bit-head-left" }, "sign, exponent"),
    element("span", { class: "tw-bit-head" }, "fraction"),
  );
  heads.children[0].style.gridColumn = `1 / ${before + 1}`;
  heads.children[1].style.gridColumn = `${before + 1} / -1`;
  const rows = formats.map((one) => {
    const count = 1 + one.exponent + one.fraction;
    const bits = Array.from({ length: count }, (_, place) =>
      element("span", {
        class: place === 1 || place === 1 + one.exponent ? "tw-bit tw-bit-first" : "tw-bit",
        "data-field": place === 0 ? "sign" : place <= one.exponent ? "exponent" : "fraction",
      }),
    );
    bits[0].style.gridColumnStart = String(before - one.exponent);
    const cells = element("div", { class: "tw-bit-cells", role: "img" }, ...bits);
    const said = element("span", { class: "tw-bit-said" });
    return { one, bits, cells, said, root: element("div", { class: "tw-bit-row" }, element("b", {}, one.name), cells, said) };
  });
  const control = slider({
    label: stepName,
    min: 0,
    max: numbers.length - 1,
    value: at,
    text: (step) => numbers[step].label,
    onInput(next) {
      at = next;
      draw();
    },
  });
  const top = element("div", { class: "tw-bit-row" }, element("span"), heads, element("span"));
  const table = element("div", { class: "tw-bit-rows" }, top, ...rows.map((row) => row.root));
  table.style.setProperty("--tw-bit-columns", String(columns));
  body.append(table, element("div", { class: "tw-calculator-sliders" }, control.root));
  resize();

  function draw() {
    rows.forEach(({ one, bits, cells, said }, number) => {
      const held = numbers[at].rows[number];
      bits.forEach((bit, place) => {
        bit.textContent = held.bits[place];
        bit.classList.toggle("tw-bit-set", held.bits[place] === "1");
      });
      said.textContent = held.said;
      cells.setAttribute("aria-label", `${one.name}: ${parted(held.bits, one)}`);
    });
    memory.save({ at });
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return { recolour: () => {}, resize, dispose: () => {} };
}

function parted(bits, one) {
  return `${bits[0]} ${bits.slice(1, 1 + one.exponent)} ${bits.slice(1 + one.exponent)}`;
}
