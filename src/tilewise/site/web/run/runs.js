// Runs in a worker, and the part of a panel that shows them: the latest run's table, its progress and a stop button,
// its stepped figure, a sentence for screen readers. In: an offer, choices. Out: the results of run_worker.js.

import { element } from "../site/dom.js";
import { figurePlace } from "./figure.js";
import { progressText, shortText, table } from "./table.js";

/** How long a run lasts before the page says so, and offers to stop it. */
const PATIENCE_MS = 250;
const SPOKEN_MS = 600;
const PARTS = { worker: new URL("run_worker.js", import.meta.url).href, wasm: new URL("machine.wasm", import.meta.url).href };

/**
 * @param {{root: HTMLElement, result: HTMLElement, wantSteps: () => void, closed?: () => void, reported?: (report: any) => void,
 *   parts?: {worker: string, wasm: string | ArrayBuffer}}} panel the run's element, where its table is
 * @param {AbortSignal} signal
 */
export function shownRuns({ root, result, wantSteps, closed, reported, parts }, signal) {
  const status = element("p", { class: "tw-try-status", role: "status" });
  const progress = element("p", { class: "tw-try-progress", hidden: true });
  const figure = figurePlace(root, wantSteps, closed);
  let runs = null;
  let speaking = 0;
  const say = (sentence) => {
    clearTimeout(speaking);
    speaking = setTimeout(() => (status.textContent = sentence), SPOKEN_MS);
  };
  const answered = () => (result.dataset.answers = Number(result.dataset.answers ?? 0) + 1); // for tests, which wait for one
  const stop = element("button", { type: "button", class: "tw-act", onclick: () => {
    runs.stop();
    progress.replaceChildren("Stopped. The table shows the run before.");
  } }, "Stop");
  const tell = {
    progress: (steps, of) => {
      progress.hidden = false;
      progress.replaceChildren(progressText(steps, of), stop);
    },
    report: (report) => {
      progress.hidden = true;
      renew(result, table(report));
      answered();
      reported?.(report);
      say(shortText(report));
      figure.renew();
    },
    stepped: (made) => figure.show(made),
    refused: (sentence) => {
      progress.hidden = true;
      result.replaceChildren(element("p", { class: "tw-try-refused" }, sentence));
      answered();
      say(sentence);
    },
  };
  signal.addEventListener("abort", () => {
    clearTimeout(speaking);
    runs?.stop();
  });
  return {
    status,
    progress,
    figure,
    say,
    refuse: tell.refused,
    /** Whether an offer has been made. */
    get isOffered() {
      return runs !== null;
    },
    offer(offer) {
      runs?.stop();
      runs = new Runs(offer, tell, parts);
    },
    want: (choice, step = false) => runs?.want(choice, step),
    stop: () => runs?.stop(),
  };
}

/** One run at a time, always the newest that is wanted. */
export class Runs {
  constructor(offer, tell, parts = PARTS) {
    Object.assign(this, { offer, tell, parts, number: 0, busy: false, next: null, worker: null, patience: 0 });
  }

  /** @param {import("./launch.js").Choice} choice @param {boolean} [step] whether a stepped figure is wanted */
  want(choice, step = false) {
    this.next = { choice, step };
    if (!this.busy) this.#go();
  }

  stop() {
    this.worker?.terminate();
    clearTimeout(this.patience);
    Object.assign(this, { worker: null, busy: false, next: null });
  }

  #go() {
    if (!this.worker) {
      this.worker = new Worker(this.parts.worker);
      this.worker.addEventListener("message", ({ data }) => this.#hear(data));
      this.worker.addEventListener("error", () => {
        this.stop();
        this.tell.refused("This browser could not start the simulator.");
      });
      this.worker.postMessage({ offer: this.offer, wasm: this.parts.wasm });
    }
    const wanted = this.next;
    Object.assign(this, { busy: true, next: null, number: this.number + 1 });
    this.since = performance.now();
    this.worker.postMessage({ number: this.number, ...wanted });
  }

  #hear({ number, progress, of, report, stepped, refused }) {
    if (number !== this.number || !this.busy) return;
    if (progress !== undefined) {
      if (performance.now() - this.since > PATIENCE_MS) this.tell.progress(progress, of);
      return;
    }
    this.busy = false;
    if (report) this.tell.report(report);
    else if (stepped) this.tell.stepped(stepped);
    else {
      this.stop(); // what failed may have left the machine's memory in any state
      this.tell.refused(refused);
    }
    if (this.next) this.#go();
  }
}

/**
 * Make the children of an element like others, and keep each that already is: most of a table stays as a slider moves, and
 * so does how far it is scrolled. @param {Element} parent @param {Iterable<ChildNode>} fresh
 */
function renew(parent, fresh) {
  const before = [...parent.childNodes];
  for (const one of fresh) {
    const was = before.shift();
    if (!was) parent.append(one);
    else if (was.nodeName !== one.nodeName || was.className !== one.className) was.replaceWith(one);
    else if (one instanceof Text) {
      if (was.data !== one.data) was.data = one.data;
    } else if (!was.isEqualNode(one)) {
      for (const { name, value } of one.attributes) if (was.getAttribute(name) !== value) was.setAttribute(name, value);
      for (const name of ["title", "data-mark", "data-name"]) if (!one.hasAttribute(name)) was.removeAttribute(name);
      renew(was, [...one.childNodes]);
    }
  }
  for (const one of before) one.remove();
}
