// The compiler: on the server that sent the page, if it is the reader's own machine (site/play/requests.py); otherwise
// in the page, if the site has its files (site/in_page/files.py) and the reader has agreed to load them.
// In: a kernel's text. Out: its kernels and a program, or its faults, in the form of kernel/pasted.py.

import { element } from "../site/dom.js";
import { keptCompiler, largeOf, PAGES, scriptsOf, totalBytes } from "./kept.js";

/** Read once: a page that is swapped in has no such line. */
const told = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="tilewise-compiler"]'));
const isServed = Boolean(told?.dataset.url);

/** Whether texts can be compiled here. */
export const isHere = told !== null && isSecureContext;

const FILES = new URL("compiler/", import.meta.url).href;
const WORKER = new URL("compiler_worker.js", import.meta.url).href;
const OFFLINE = new URL("../../offline.js", import.meta.url).href;
const MOST_MS = 60_000;
/** What the compiler takes of memory, by benchmarks/compiler_in_page.py. */
const MEMORY = "about 600 MB";

const refused = (message) => ({ kernels: [], notes: [], faults: [{ line: 0, message, repair: "" }] });

async function compileThere(given, signal) {
  let answer;
  try {
    answer = await fetch(told.dataset.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Tilewise-Token": told.content },
      body: JSON.stringify(given),
      credentials: "omit",
      signal,
    });
    const made = await answer.json();
    return made.refused ? refused(made.refused) : made;
  } catch (error) {
    if (signal?.aborted) throw error;
    return refused(answer ? "The server's answer can't be read. Start it again." : "The server does not answer. Start it again.");
  }
}

/** The compiler in this page: one for all scripts that ask for it, until the page is left or a text breaks it. */
class InPage {
  /** @param {object} list @param {(loaded: number, of: number) => void} progress */
  constructor(list, progress = () => {}) {
    Object.assign(this, { number: 0, waiting: new Map(), worker: new Worker(WORKER, { type: "module" }) });
    this.isBegun = false;
    this.begun = new Promise((resolve, reject) => {
      this.worker.onmessage = ({ data }) => {
        if (data.of) progress(data.loaded, data.of);
        else if (data.ready) resolve((this.isBegun = true));
        else if (data.failed) reject(new Error(data.failed));
        else this.waiting.get(data.number)?.(data.made);
      };
      this.worker.onerror = (event) => {
        reject(new Error(event.message));
        this.end("The compiler stopped while compiling this kernel.");
      };
    });
    this.begun.catch((error) => {
      console.warn(error);
      this.end("The compiler did not start. Reload the page.");
    });
    this.worker.postMessage({ files: FILES, list });
  }

  async compile(given) {
    await this.begun.catch(() => {});
    const number = (this.number += 1);
    const late = setTimeout(() => this.end("The compiler took more than a minute, and was ended."), MOST_MS);
    const made = await new Promise((resolve) => {
      this.waiting.set(number, resolve);
      if (held() === this) this.worker.postMessage({ number, given });
      else resolve(refused("The compiler is not running. Try again."));
    });
    clearTimeout(late);
    this.waiting.delete(number);
    return made;
  }

  end(message) {
    this.worker.terminate();
    if (held() === this) globalThis.tilewiseCompiler = undefined;
    for (const answer of this.waiting.values()) answer(refused(message));
  }
}

/** @returns {InPage | undefined} */
const held = () => globalThis.tilewiseCompiler;

async function listOf() {
  const answer = await fetch(new URL("list.json", FILES), { cache: "no-cache" });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

/** How many bytes of this release's files the browser does not hold. */
async function lacking(list) {
  const kept = await keptCompiler();
  const large = largeOf(list, FILES);
  const found = await Promise.all(large.map(({ address }) => kept?.match(address)));
  return totalBytes(large.filter((_, at) => !found[at]));
}

/** From now on pages of this site that have been open are there without a network too (play/offline.js). */
async function keepPages(list) {
  const offline = navigator.serviceWorker;
  if (!offline) return;
  await offline.register(OFFLINE);
  await offline.ready;
  const seen = performance.getEntriesByType("resource").map(({ name }) => name);
  const own = ["list.json", ...scriptsOf(list)].map((name) => new URL(name, FILES).href);
  const wanted = new Set([location.href.split("#")[0], WORKER, ...own, ...seen.filter((url) => url.startsWith(location.origin) && !url.startsWith(FILES))]);
  const kept = await caches.open(PAGES);
  await Promise.all([...wanted].map((url) => kept.add(url).catch(() => {})));
}

/** Whether a text can be compiled without asking the reader whether the compiler may be fetched. */
export async function isReady() {
  if (isServed || held()) return true;
  if (!isHere) return false;
  try {
    return (await lacking(await listOf())) === 0;
  } catch {
    return false;
  }
}

/** Start the compiler, where this browser holds it: not before a text is changed, since it takes seconds and memory. */
export async function start() {
  if (isServed || held()) return;
  const list = await listOf();
  if ((await lacking(list)) === 0) globalThis.tilewiseCompiler ??= new InPage(list);
}

/**
 * Have the compiler ready; where it must be fetched first, say how large it is, and ask.
 * @param {HTMLElement} place where to ask @param {AbortSignal} signal @returns {Promise<boolean>} false: not now
 */
export async function ready(place, signal) {
  if (await isReady()) return true;
  if (place.querySelector(".tw-load")) return false;
  place.querySelector(".tw-load-failed")?.remove();
  const box = element("div", { class: "tw-load", role: "status" });
  place.append(box);
  try {
    const list = await listOf();
    if (!(await asked(box, await lacking(list), signal))) return false;
    const meter = element("progress", { max: 1, value: 0, "aria-label": "Loading the compiler" });
    const says = element("span", {}, "Loading the compiler …");
    box.replaceChildren(element("p", {}, meter, " ", says));
    const made = new InPage(list, (loaded, of) => {
      meter.value = loaded / of;
      says.textContent = loaded < of ? `${megabytes(loaded)} of ${megabytes(of)}` : "Starting …";
    });
    globalThis.tilewiseCompiler = made;
    await made.begun;
    await keepPages(list).catch((error) => console.warn(error)); // it compiles without
    return !signal.aborted;
  } catch {
    box.replaceChildren(element("p", {}, "The compiler could not be loaded. Check the connection, and press the button again."));
    box.classList.replace("tw-load", "tw-load-failed");
    return false;
  } finally {
    if (box.classList.contains("tw-load")) box.remove();
    else signal.addEventListener("abort", () => box.remove());
  }
}

const megabytes = (bytes) => `${Math.ceil(bytes / 1e6)} MB`;

/** Whether the reader wants the compiler. */
function asked(box, size, signal) {
  return new Promise((resolve) => {
    const answer = (text, wanted) => element("button", { type: "button", class: "tw-act", onclick: () => resolve(wanted) }, text);
    const says = `Editing needs a compiler: ${megabytes(size)}, fetched once and kept in this browser. While a page uses it, it takes ${MEMORY} of memory. Your text stays here. `;
    box.replaceChildren(element("p", {}, says, answer("Load it", true), " ", answer("Not now", false)));
    box.querySelector("button").focus();
    signal.addEventListener("abort", () => resolve(false));
  });
}

async function compile(given, signal) {
  if (isServed) return compileThere(given, signal);
  await start().catch((error) => console.warn(error));
  if (!held()) return refused("The compiler is not loaded.");
  const made = await held().compile(given);
  if (signal?.aborted) throw new Error("the page has been left");
  return made;
}

/** Compiles the newest text that is wanted, one at a time; what has been overtaken is not told. */
export class Compiling {
  /** @param {(made: any, given: any) => void} tell @param {(says: string) => void} busy "": no longer @param {AbortSignal} signal */
  constructor(tell, busy, signal) {
    Object.assign(this, { tell, busy, signal, next: null, isBusy: false, isWanted: false, pause: 0 });
    signal.addEventListener("abort", () => clearTimeout(this.pause));
  }

  /** Compile once nothing has been typed for a while. */
  soon(given, ms) {
    start().catch(() => {}); // what is wrong is said when the text is compiled
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.now(given()), ms);
  }

  /** The reader does not want to wait for the text that is being compiled. */
  drop() {
    Object.assign(this, { next: null, isWanted: false });
  }

  async now(given) {
    clearTimeout(this.pause);
    Object.assign(this, { next: given, isWanted: true });
    this.busy(isServed || held()?.isBegun ? "Compiling …" : "Starting the compiler …");
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.next && !this.signal.aborted) {
      const wanted = this.next;
      this.next = null;
      try {
        const made = await compile(wanted, this.signal);
        if (!this.next && this.isWanted && !this.signal.aborted) this.tell(made, wanted);
      } catch {
        break; // the page has been left
      }
    }
    this.isBusy = false;
    this.busy("");
  }
}

/** Whether a program can be launched as another is: same name, same parameters. */
export const takesTheSame = (program, own) => program.name === own.name && JSON.stringify(program.parameters) === JSON.stringify(own.parameters);
