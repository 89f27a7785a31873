// Which script draws a kind of figure; what few pages need is fetched when it is needed.
// In: the name of a kind. Out: a promise of the function that draws it, or of nothing where no one does.

import { bitFields } from "./bit_fields.js";
import { blockGrid } from "./block_grid.js";
import { calculator } from "./calculator.js";
import { chart } from "./chart.js";
import { floorPlan } from "./floor_plan.js";
import { loopNest } from "./loop_nest.js";
import { memoryMap } from "./memory_map.js";
import { ribbon } from "./ribbon.js";
import { timeline } from "./timeline.js";

const home = document.currentScript instanceof HTMLScriptElement ? document.currentScript.src : "";

/** @type {Record<string, import("./main.js").Draw>} */
const HERE = {
  bit_fields: bitFields,
  block_grid: blockGrid,
  calculator,
  chart,
  floor_plan: floorPlan,
  loop_nest: loopNest,
  memory_map: memoryMap,
  ribbon,
  timeline,
};

/** @type {Promise<import("./main.js").Draw>|null} */
let loading = null;

/** @param {string} kind @returns {Promise<import("./main.js").Draw|undefined>} */
export async function drawingOf(kind) {
  if (kind !== "stepped") return HERE[kind];
  if (globalThis.TilewiseStepped) return globalThis.TilewiseStepped;
  loading ||= request();
  loading.catch(() => {
    loading = null;
  });
  return loading;
}

function request() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL("stepped.js", home || document.baseURI).href;
    script.addEventListener("load", () => resolve(globalThis.TilewiseStepped));
    script.addEventListener("error", () =>
      reject(new Error("The script of this figure could not be fetched. Reload the page to try again.")),
    );
    document.body.append(script);
  });
}
