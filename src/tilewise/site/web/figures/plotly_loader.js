// Fetches the Plotly bundle once, from this script's own folder.
// In: nothing. Out: a promise of Plotly; rejected with a sentence for the reader.

const home = document.currentScript instanceof HTMLScriptElement ? document.currentScript.src : document.baseURI;

/** @type {Promise<any>|null} */
let loading = null;

/** @returns {Promise<any>} */
export function loadPlotly() {
  loading = loading || request();
  loading.catch(() => {
    loading = null;
  });
  return loading;
}

/** What Plotly is asked to leave out, and what it must not offer. */
export const CONFIG = {
  displayModeBar: false,
  displaylogo: false,
  responsive: false,
  scrollZoom: false,
  showSendToCloud: false,
  showTips: false,
};

/** Whether Plotly can be had: a frame in a notebook neither holds it nor has an address to fetch it from. */
export const hasPlotly = () => home !== "" || document.getElementById("tw-plotly") !== null;

let answer = null;

/** Whether this browser draws in space. */
export function hasWebGL() {
  if (answer === null) {
    try {
      const canvas = document.createElement("canvas");
      const drawing = canvas.getContext("webgl") || canvas.getContext("webgl2");
      answer = Boolean(drawing);
      drawing?.getExtension("WEBGL_lose_context")?.loseContext();
    } catch {
      answer = false;
    }
  }
  return answer;
}

export const NO_WEBGL = "3-D needs WebGL, which this browser does not offer here; the 2-D view shows the same threads.";

function request() {
  return new Promise((resolve, reject) => {
    if (globalThis.TilewisePlotly) {
      resolve(globalThis.TilewisePlotly);
      return;
    }
    // Instant navigation replaces what the head holds; Plotly's rules stay when their element is in the body.
    if (!document.getElementById("plotly.js-style-global")) {
      const rules = document.createElement("style");
      rules.id = "plotly.js-style-global";
      rules.append("");
      document.body.append(rules);
    }
    const script = document.createElement("script");
    const enclosed = document.getElementById("tw-plotly");
    if (enclosed) {
      script.textContent = enclosed.textContent;
      document.body.append(script);
      resolve(globalThis.TilewisePlotly);
      return;
    }
    script.src = new URL("plotly.js", home).href;
    script.addEventListener("load", () => {
      if (globalThis.TilewisePlotly) resolve(globalThis.TilewisePlotly);
      else reject(new Error("The drawing script did not start. Reload the page to try again."));
    });
    script.addEventListener("error", () =>
      reject(new Error("The drawing script could not be fetched. Reload the page to try again.")),
    );
    document.body.append(script);
  });
}
