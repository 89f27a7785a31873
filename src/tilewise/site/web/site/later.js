// In: folds, and groups of rows, with a link into a separate file (tilewise/site/folded.py). Out: the link's target
// instead of it: for a fold when it is opened, for the whole page before it is printed or searched. If the file is
// unavailable, and without JavaScript, the link stays.

import { element } from "./dom.js";

const PLACE = ".tw-later";
/** Files by address, as documents. */
const files = new Map();
let again = () => {};
let count = 0;

/** Tell what looks at the page anew once there is more of it. */
export function onMore(open) {
  again = open;
}

/** Put what is left out below `root` in its place; resolves when it is there. */
export async function fetchAll(root) {
  const places = [...root.querySelectorAll(PLACE)];
  if (!places.length) return;
  const found = await Promise.all(places.map((place) => fileOf(place).catch(() => null)));
  settle(places.map((place, at) => [place, found[at]]));
}

/** What a link to `id` leads to in a part that is left out: an element of its file; null where nothing is. */
export async function lookUp(id) {
  const place = document.getElementById(id)?.closest(PLACE);
  return place ? (await fileOf(place)).getElementById(id) : null;
}

export function fetchFolds(article, signal) {
  if (!article.querySelector(PLACE) && !article.querySelector("template")) return;
  const listen = (target, kind, handle) => target.addEventListener(kind, handle, { signal, capture: true });
  const own = (fold) => fold?.querySelector(`:scope > ${PLACE}`);
  listen(article, "toggle", ({ target }) => target.open && own(target) && fetchAll(target));
  // Who turns to a fold may well open it.
  const near = ({ target }) => {
    const place = own(target.closest?.("summary")?.parentElement);
    if (place) fileOf(place).catch(() => {});
  };
  for (const kind of ["pointerover", "focusin"]) listen(article, kind, near);
  listen(window, "keydown", ({ key, ctrlKey, metaKey }) => {
    if (key === "F3" || ((ctrlKey || metaKey) && key.toLowerCase() === "f")) fetchAll(article);
  });
  listen(window, "beforeprint", () => fetchAllNow(article));
  for (const fold of article.querySelectorAll("details[open]")) if (own(fold)) fetchAll(fold);
}

/** The same before the next line runs: a browser does not wait for what it prints. */
function fetchAllNow(root) {
  const places = [...root.querySelectorAll(PLACE)];
  const texts = new Map();
  for (const address of new Set(places.map(addressOf))) {
    const request = new XMLHttpRequest();
    try {
      request.open("GET", address, false);
      request.send();
      if (request.status === 200) texts.set(address, parsed(request.responseText));
    } catch {
      // the link is printed
    }
  }
  settle(places.map((place) => [place, texts.get(addressOf(place)) ?? null]));
}

const linkOf = (place) => place.querySelector("a[href]");
const addressOf = (place) => linkOf(place).href.split("#")[0];
const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

/** The file of a place, fetched once; rejects where it cannot be had. */
function fileOf(place) {
  const address = addressOf(place);
  if (!files.has(address)) {
    const got = fetch(address).then(async (answer) => {
      if (!answer.ok) throw new Error(answer.statusText);
      return parsed(await answer.text());
    });
    files.set(address, got);
    got.catch(() => files.delete(address));
  }
  return files.get(address);
}

/** Put parts in their places, and show the one that the address asks for. */
function settle(pairs) {
  const id = decodeURIComponent(location.hash.slice(1));
  let isWanted = false;
  let isMore = false;
  for (const [place, file] of pairs) {
    if (!place.isConnected) continue;
    const part = file?.getElementById(linkOf(place).hash.slice(1));
    place.classList.toggle("tw-failed", !part);
    if (!part) continue;
    const rows = place.matches("tr"); // tables.js shows a row that is wanted
    isWanted ||= Boolean(id && !rows && place.querySelector(`[id="${CSS.escape(id)}"]`));
    const from = rows ? part.querySelector("tbody") : (part.content ?? part.lastElementChild);
    const made = document.importNode(from, true);
    if (rows) made.querySelector(".tw-group").remove();
    for (const code of made.querySelectorAll("pre > code")) addCopyButton(code);
    place.replaceWith(...made.childNodes);
    isMore = true;
  }
  if (!isMore) return;
  again();
  if (isWanted) document.getElementById(id)?.scrollIntoView();
}

/** The button that Material gives to the code that a page is sent with. */
function addCopyButton(code) {
  const pre = code.parentElement;
  if (pre.querySelector(".md-code__nav") || pre.closest(".no-copy")) return;
  pre.id ||= `tw-code-${(count += 1)}`;
  const title = document.querySelector(".md-code__button[data-md-type=copy]")?.title || "Copy to clipboard";
  const target = { "data-clipboard-target": `#${pre.id} > code`, "data-md-type": "copy" };
  const button = element("button", { class: "md-code__button", title, ...target });
  pre.insertBefore(element("nav", { class: "md-code__nav" }, button), code);
}
