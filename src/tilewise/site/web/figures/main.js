// Draws every figure of the page when it is near the viewport, and releases it when the page changes.
// In: `<figure class="tw-figure" data-figure="...json">`. Out: a drawing in its body. Each kind draws itself.

import { fetched } from "./data.js";
import { element } from "./dom.js";
import { scriptOf } from "./kinds.js";
import { asked, linkTo } from "./links.js";
import { recall, remember } from "./state.js";

/**
 * @typedef {{dispose: () => void, recolour: () => void, resize: () => void}} View
 * @typedef {{saved: Record<string, any>, save: (state: Record<string, any>) => void,
 *   link: (place: import("./links.js").Place) => string}} Memory
 * @typedef {(body: HTMLElement, figure: any, memory: Memory) => View} Mount
 */

/** @type {Map<Element, View|null>} */
const views = new Map();

/** Draws what comes as near to the screen as a margin says. */
const drawing = (rootMargin) =>
  new IntersectionObserver(
    (entries, observer) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        observer.unobserve(entry.target);
        mount(/** @type {HTMLElement} */ (entry.target));
      }
    },
    { rootMargin },
  );

// Until the reader moves, only what is well in view: a chart's script takes a slow phone seconds.
let near = drawing("0px 0px -100px");
const MOVES = ["scroll", "pointerdown", "keydown"];
function look() {
  for (const kind of MOVES) removeEventListener(kind, look, true);
  near.disconnect();
  near = drawing("600px 0px");
  for (const [figure, view] of views) if (!view) near.observe(figure);
}
for (const kind of MOVES) addEventListener(kind, look, { capture: true, passive: true });

const sizes = new ResizeObserver((entries) => {
  for (const entry of entries) {
    const figure = entry.target.closest(".tw-figure");
    const width = Math.round(entry.contentRect.width);
    if (!figure || !width || entry.target.dataset.width === String(width)) continue;
    const first = entry.target.dataset.width === undefined;
    entry.target.dataset.width = String(width);
    if (!first) views.get(figure)?.resize();
  }
});

function scan() {
  for (const [figure, view] of views) {
    if (figure.isConnected) continue;
    view?.dispose();
    views.delete(figure);
  }
  for (const figure of document.querySelectorAll(".tw-figure[data-figure]")) {
    if (views.has(figure)) continue;
    views.set(figure, null);
    near.observe(figure);
  }
}

/** Resolves once an element has a width: what is not drawn yet has none in print. */
function shown(body) {
  return new Promise((resolve) => {
    const seen = new ResizeObserver(() => {
      if (!body.clientWidth) return;
      seen.disconnect();
      resolve(undefined);
    });
    seen.observe(body);
  });
}

/** @param {HTMLElement} place */
async function mount(place) {
  const body = /** @type {HTMLElement} */ (place.querySelector(".tw-figure-body"));
  if (!body) return;
  const url = new URL(place.dataset.figure, document.baseURI).href;
  const page = location.pathname;
  try {
    const figure = await fetched(url);
    const draw = await scriptOf(figure.kind);
    if (!body.clientWidth) await shown(body);
    if (!place.isConnected || views.get(place)) return;
    if (!draw) throw new Error(`This page's script draws no figure of kind ${figure.kind}.`);
    const name = `${page} ${place.id || figure.title}`;
    body.replaceChildren();
    views.set(
      place,
      draw(body, figure, {
        saved: { ...recall(name, figure.kind), ...asked(place.id) },
        save: (state) => remember(name, figure.kind, state),
        link: (where) => linkTo(place.id, where),
      }),
    );
    place.dataset.state = "drawn";
    sizes.observe(body);
  } catch (error) {
    place.dataset.state = "failed";
    const again = element("button", { type: "button", class: "tw-quiet" }, "Try again");
    again.addEventListener("click", () => mount(place));
    body.replaceChildren(element("p", { class: "tw-figure-note", role: "status" }, `${error.message} `, again));
  }
}

function start() {
  scan();
  const scheme = new MutationObserver(() => {
    for (const view of views.values()) view?.recolour();
  });
  scheme.observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
  // Material announces each page, the first one too, when it swaps content instead of loading a page.
  globalThis.document$?.subscribe(scan);
  document.addEventListener("tw:content", scan);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start, { once: true });
else start();
