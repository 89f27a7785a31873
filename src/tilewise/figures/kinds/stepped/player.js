// Step, play, pause: a slider with buttons and keyboard control. Nothing moves before the reader starts it.
// In: the number of steps. Out: an element; calls a listener for each step. With reduced motion, readers step by hand.

import { element, uniqueId } from "tilewise-figures/dom.js";

const BEAT = 900;
const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -Infinity, End: Infinity };
const ICONS = {
  play: '<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="M4 2.5v11l9-5.5z"/></svg>',
  pause: '<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="M4 2.5h3v11H4zM9 2.5h3v11H9z"/></svg>',
};

/**
 * @param {{label: string, count: number, value: number, onStep: (step: number) => void,
 *   onPlaying: (playing: boolean) => void}} options
 */
export function player({ label, count, value, onStep, onPlaying }) {
  const most = count - 1;
  const id = uniqueId("step");
  const less = matchMedia("(prefers-reduced-motion: reduce)");
  let timer = 0;
  const input = element("input", {
    type: "range",
    id,
    min: 0,
    max: most,
    step: 1,
    "data-control": "step",
    "aria-label": label,
    "aria-keyshortcuts": "ArrowLeft ArrowRight Home End Space",
  });
  const output = element("output", { for: id, class: "tw-value" });
  const button = (name, sign, act) => {
    const made = element("button", { type: "button", class: "tw-button", "aria-label": name, onclick: act });
    made.innerHTML = sign;
    return made;
  };
  const back = button(`previous ${label}`, "‹", () => go(at() - 1));
  const on = button(`next ${label}`, "›", () => go(at() + 1));
  const play = button("play", ICONS.play, () => (timer ? pause() : start()));
  const root = element(
    "div",
    { class: "tw-stepper tw-player" },
    element("label", { for: id }, label),
    back,
    play,
    on,
    input,
    output,
  );
  input.value = String(value);
  input.addEventListener("input", () => {
    pause();
    moved();
  });
  const motion = () => {
    play.hidden = less.matches || count < 2;
    if (less.matches) pause();
  };
  less.addEventListener("change", motion);
  const unseen = () => document.hidden && pause();
  document.addEventListener("visibilitychange", unseen);
  motion();
  show();

  function at() {
    return Number(input.value);
  }

  function show() {
    const said = `${at() + 1} of ${count}`;
    output.textContent = said;
    input.setAttribute("aria-valuetext", said);
    back.setAttribute("aria-disabled", String(at() <= 0));
    on.setAttribute("aria-disabled", String(at() >= most));
  }

  function moved() {
    show();
    onStep(at());
  }

  function jump(step) {
    const next = Math.max(0, Math.min(most, step));
    if (next === at()) return;
    input.value = String(next);
    moved();
  }

  function go(step) {
    pause();
    jump(step);
  }

  function start() {
    if (less.matches || count < 2) return;
    playing(true);
    if (at() >= most) jump(0);
    timer = window.setInterval(() => {
      jump(at() + 1);
      if (at() >= most) pause();
    }, BEAT);
  }

  function pause() {
    if (!timer) return;
    window.clearInterval(timer);
    timer = 0;
    playing(false);
  }

  function playing(now) {
    play.innerHTML = now ? ICONS.pause : ICONS.play;
    play.setAttribute("aria-label", now ? "pause" : "play");
    onPlaying(now);
  }

  return {
    root,
    /** Keys that reach the figure outside of its slider; a slider knows arrows, Home and End itself. */
    onKey(event) {
      const name = event.target.tagName;
      if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
      if (event.key === " " && name !== "BUTTON" && name !== "SUMMARY" && event.target.type !== "radio") {
        event.preventDefault();
        if (timer) pause();
        else start();
      } else if (event.key in KEYS && name !== "INPUT" && !event.target.closest(".tw-code")) {
        event.preventDefault();
        go(at() + KEYS[event.key]);
      }
    },
    pause,
    dispose() {
      pause();
      less.removeEventListener("change", motion);
      document.removeEventListener("visibilitychange", unseen);
    },
  };
}
