// The stepped figure of a reader's own run, above its counts. In: the figure's data, from run_worker.js. Out: the same
// element as for the page's own figures; figures.js draws it, and is fetched if necessary.

import { element } from "../site/dom.js";

const SCRIPT = "figures.js";

/** How long a run stands still before it is stepped again. */
const STILL_MS = 200;

/**
 * The place of one run's figure, and the button that opens it; the place keeps its height while another is drawn.
 * @param {HTMLElement} root the run @param {() => void} want ask for the figure @param {() => void} [closed]
 */
export function figurePlace(root, want, closed = () => {}) {
  const id = `${root.id}-steps`;
  const place = element("div", { class: "tw-try-steps", hidden: true });
  const button = element("button", { type: "button", class: "tw-act", onclick: () => (place.hidden ? open() : close()) });
  let waiting = 0;
  const say = () => {
    button.textContent = place.hidden ? "Step through it" : "Close the steps";
    button.setAttribute("aria-expanded", String(!place.hidden));
  };
  const open = () => {
    place.hidden = false;
    place.replaceChildren(element("p", {}, "Tracing the run …"));
    say();
    want();
  };
  const close = () => {
    if (place.hidden) return;
    clearTimeout(waiting);
    place.hidden = true;
    place.replaceChildren();
    say();
    closed();
  };
  say();
  return {
    root: place,
    id,
    button,
    get isOpen() {
      return !place.hidden;
    },
    close,
    /** The run is another one now. */
    renew() {
      clearTimeout(waiting);
      if (!place.hidden) waiting = setTimeout(want, STILL_MS);
    },
    /** @param {{figure?: any, refused?: string}} made */
    show({ figure, refused }) {
      if (place.hidden) return;
      place.style.minHeight = `${place.offsetHeight}px`;
      place.replaceChildren(...(figure ? drawn(id, figure) : [element("p", { class: "tw-try-refused" }, refused)]));
      drawFigures();
      setTimeout(() => (place.style.minHeight = ""), 1500);
    },
  };
}

function drawn(id, figure) {
  const data = element("script", { type: "application/json", id: `${id}-data` });
  data.textContent = JSON.stringify(figure);
  const lines = figure.steps.map((text) => element("li", {}, text));
  const shown = element(
    "figure",
    { class: "tw-figure", id, "data-figure": `#${id}-data`, "data-kind": figure.kind },
    element("p", { class: "tw-figure-title" }, figure.title),
    element("div", { class: "tw-figure-body" }),
    element("figcaption", {}, figure.caption),
    element(
      "div",
      { class: "tw-folds" },
      element(
        "details",
        { class: "tw-figure-alt" },
        element("summary", {}, "Text version"),
        element("p", {}, figure.alt),
        element("ol", { tabindex: 0 }, ...lines),
      ),
    ),
  );
  // Not as an attribute, which the policy of `tilewise play` forbids.
  shown.style.setProperty("--tw-figure-height", `${figure.height}px`);
  shown.style.setProperty("--tw-figure-height-narrow", `${figure.narrow_height}px`);
  return [data, shown];
}

/** Let the page's figures find this one, or fetch their script, which looks for itself. */
function drawFigures() {
  const there = "twFigures" in document.documentElement.dataset || [...document.scripts].some(({ src }) => src.split(/[?#]/)[0].endsWith(`/${SCRIPT}`));
  if (there) document.dispatchEvent(new Event("tw:content"));
  else document.head.append(element("script", { src: new URL(SCRIPT, import.meta.url).href }));
}
