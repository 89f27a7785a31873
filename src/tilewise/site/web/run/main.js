// The panel of a kernel that a reader runs: sizes as sliders, and the run, updated as they move.
// In: `.tw-try` with its controls and the page's own run. Out: the reader's run instead of it, by run_worker.js; the
// page's totals stay in a row below. The choice is in the page's URL, so that a link shows the same.

import { copied } from "../figures/links.js";
import { element } from "../site/dom.js";
import { shownRuns } from "./runs.js";

const OWN = "own numbers";

/**
 * @param {HTMLElement} root @param {AbortSignal} signal
 * @param {{offer: any, parts: {worker: string, wasm: ArrayBuffer}} | null} [held] what a page has in itself that has no address
 */
export async function mount(root, signal, held = null) {
  const form = root.querySelector("form");
  const result = root.querySelector(".tw-try-result");
  const wantSteps = () => runs.want(controls.choice(), true);
  const runs = shownRuns({ root, result, wantSteps, closed: () => changed(), parts: held?.parts }, signal); // then the address asks for no steps
  const { status, progress, figure } = runs;
  root.insertBefore(status, result);
  root.insertBefore(progress, result);
  let offer = held?.offer;
  try {
    offer ??= await fetched(root.dataset.offer);
  } catch {
    status.textContent = "This run could not be fetched. Check the connection and reload the page.";
    return;
  }
  if (signal.aborted) return;

  const fills = fillsOf(offer);
  const page = { sizes: Object.fromEntries(offer.sizes.map(({ name, start }) => [name, start])), kernel: 0, fill: "given", own: [] };
  const controls = bind(form, offer, fills, signal);
  const reset = button("Reset", () => {
    controls.show(page);
    changed();
  });
  const link = button("Copy link", async () => {
    link.textContent = (await copied(address())) ? "Copied" : "Copy the address above";
    setTimeout(() => (link.textContent = "Copy link"), 2000);
  });
  const acts = element("div", { class: "tw-try-acts" }, figure.button, reset, ...(held ? [] : [link]));
  form.append(acts);
  root.insertBefore(figure.root, progress); // below the buttons, where it is seen
  // Another part may have the page opened anew: what was added here goes, and is added again when it is touched.
  signal.addEventListener("abort", () => [status, progress, acts, controls.added, figure.root].forEach((one) => one?.remove()));
  form.addEventListener("submit", (event) => event.preventDefault(), { signal });

  runs.offer(offer);
  const address = () => {
    const url = new URL(location.href);
    url.searchParams.set(root.id, written(controls.choice()));
    url.hash = root.id;
    return url.href;
  };
  const isPages = () => JSON.stringify(controls.choice()) === JSON.stringify(page);
  let keeping = 0;
  const changed = () => {
    runs.want(controls.choice());
    if (held) return;
    clearTimeout(keeping);
    const here = location.pathname;
    keeping = setTimeout(() => {
      if (location.pathname !== here) return;
      const url = new URL(location.href);
      if (isPages()) url.searchParams.delete(root.id);
      else url.searchParams.set(root.id, written(controls.choice()));
      if (!figure.isOpen) url.searchParams.delete(figure.id);
      try {
        history.replaceState(history.state, "", url);
      } catch {
        // A page that was opened as a file may not change its address; the copied link still works.
      }
    }, 400);
  };
  form.addEventListener("input", changed, { signal });

  const asked = read(new URLSearchParams(location.search).get(root.id), offer, fills);
  if (asked) controls.show({ ...page, ...asked });
  root.dataset.state = "ready";
  const stepsAsked = new URLSearchParams(location.search).has(figure.id);
  if (stepsAsked) figure.button.click();
  if (asked || !isPages()) changed();
  if ((asked || stepsAsked) && location.hash.slice(1) === root.id) root.scrollIntoView({ block: "start" });
  /** For play/edit.js, which puts other programs into the offer. */
  return { offer, kernel: () => controls.choice().kernel, renew: () => (runs.stop(), changed()) };
}

async function fetched(address) {
  const answer = await fetch(new URL(address, document.baseURI));
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

/** How arrays may begin, by label; nothing where no array has numbers of its own. */
function fillsOf(offer) {
  const has = offer.kernels.some(({ launch }) => (launch ?? offer).arguments.some(({ fill }) => fill && ["normal", "uniform", "integers"].includes(fill.kind)));
  return has ? { random: "given", "0, 1, 2, …": "ramp", [OWN]: "own" } : {};
}

/** The controls as a choice, and back. */
function bind(form, offer, fills, signal) {
  const kernel = form.elements.kernel;
  const inputs = new Map(offer.sizes.map((size) => [size, form.elements[size.name]]));
  const worth = ({ values }, input) => (values ? values[input.value] : Number(input.value));
  const label = (size, input) => {
    const said = String(worth(size, input));
    input.setAttribute("aria-valuetext", said);
    input.nextElementSibling.value = said; // an output's or a field's
  };
  for (const [size, input] of inputs) {
    if (input.value !== input.defaultValue) label(size, input); // moved before this script was there
    input.addEventListener("input", () => label(size, input), { signal });
    if (size.values) continue;
    const field = input.nextElementSibling;
    const follow = () => {
      if (!field.value) return;
      input.value = field.value; // within its limits
      input.setAttribute("aria-valuetext", input.value);
    };
    field.addEventListener("input", follow, { signal });
    field.addEventListener("change", () => label(size, input), { signal });
    if (field.value !== field.defaultValue) follow(); // the first touch, before this script was there
  }
  let fill = null;
  let own = null;
  let added = null;
  if (Object.keys(fills).length) {
    const id = `${form.parentElement.id}-fill`;
    fill = element("select", { id, name: "fill", autocomplete: "off" });
    for (const [text, value] of Object.entries(fills)) fill.append(element("option", { value }, text));
    own = element("input", { type: "text", inputmode: "text", hidden: true, "aria-label": "Numbers, repeated to fill each array", placeholder: "1, 2, 5", maxlength: 400 });
    added = element("div", { class: "tw-try-size" }, element("label", { for: id }, "inputs"), fill, own);
    form.append(added);
    fill.addEventListener("input", () => (own.hidden = fill.value !== "own"));
  }
  return {
    added,
    /** @returns {import("./launch.js").Choice} */
    choice: () => ({
      sizes: Object.fromEntries([...inputs].map(([size, input]) => [size.name, worth(size, input)])),
      kernel: Number(kernel?.value ?? 0),
      fill: fill?.value ?? "given",
      own: fill?.value === "own" ? numbers(own.value) : [],
    }),
    show(choice) {
      for (const [size, input] of inputs) {
        const value = choice.sizes[size.name];
        input.value = String(size.values ? size.values.indexOf(value) : value);
        label(size, input);
      }
      if (kernel) kernel.value = String(choice.kernel);
      if (!fill) return;
      fill.value = choice.fill;
      own.value = choice.own.join(", ");
      own.hidden = choice.fill !== "own";
    },
  };
}

const numbers = (text) =>
  text
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number)
    .filter(Number.isFinite);

/** A choice as text: `n20-block8-kernel1-own1_2.5`. */
function written({ sizes, kernel, fill, own }) {
  const parts = Object.entries(sizes).map(([name, value]) => `${name}.${value}`);
  if (kernel) parts.push(`kernel.${kernel}`);
  if (fill !== "given") parts.push(`fill.${fill}${own.length ? `.${own.join("_")}` : ""}`);
  return parts.join("~");
}

/** The choice that a text stands for, of what is offered; null where there is none. */
function read(text, offer, fills) {
  if (!text) return null;
  const parts = new Map(
    text.slice(0, 2000).split("~").map((part) => [part.split(".")[0], part.slice(part.indexOf(".") + 1)]),
  );
  const sizes = {};
  for (const { name, start, least, most, values } of offer.sizes) {
    const value = Number(parts.get(name) ?? NaN);
    const fits = values ? values.includes(value) : Number.isInteger(value) && value >= least && value <= most;
    sizes[name] = fits ? value : start;
  }
  const kernel = Number(parts.get("kernel") ?? 0);
  const [fill = "", ...own] = (parts.get("fill") ?? "given").split(".");
  return {
    sizes,
    kernel: offer.kernels[kernel] ? kernel : 0,
    fill: Object.values(fills).includes(fill) ? fill : "given",
    own: fill === "own" ? numbers(own.join(".").replaceAll("_", ",")) : [],
  };
}

function button(text, act) {
  return element("button", { type: "button", class: "tw-act", onclick: act }, text);
}
