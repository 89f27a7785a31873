// The script for each kind of figure; scripts that few pages need are fetched on demand.
// In: the name of a kind. Out: a promise of the function that draws it, or of nothing if the kind is unknown. The
// kinds are the folders of tilewise/figures/kinds; build.mjs writes their list.

import { HERE, ON_DEMAND } from "tilewise-kinds";

const home = document.currentScript instanceof HTMLScriptElement ? document.currentScript.src : "";

/** @type {Map<string, Promise<import("./main.js").Mount>>} */
const loading = new Map();

/** @param {string} kind @returns {Promise<import("./main.js").Mount|undefined>} */
export async function scriptOf(kind) {
  if (!ON_DEMAND.includes(kind)) return HERE[kind];
  if (!loading.has(kind)) {
    const script = request(kind);
    script.catch(() => loading.delete(kind));
    loading.set(kind, script);
  }
  return loading.get(kind);
}

/** The script leaves its function in TilewiseKinds, where it may already be: a page may hold it. */
async function request(kind) {
  if (!globalThis.TilewiseKinds?.[kind]) await fetchScript(`${kind}.js`);
  return globalThis.TilewiseKinds[kind];
}

function fetchScript(file) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(file, home || document.baseURI).href;
    script.addEventListener("load", resolve);
    script.addEventListener("error", () =>
      reject(new Error("The script of this figure could not be fetched. Reload the page to try again.")),
    );
    document.body.append(script);
  });
}
