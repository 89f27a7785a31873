// The page that `tilewise trace` writes: its launch in fields, to be changed and run again offline.
// In: what cli/trace_page.py has put into the page: an offer with its fields, the worker's script, machine.wasm.

import { shownRuns } from "../run/runs.js";
import { element } from "../site/dom.js";
import { Fields, Wrong } from "./fields.js";
import { held, heldParts } from "./held.js";

async function mount(root) {
  const { offer, proposal, fills } = JSON.parse(held("tw-again-data"));
  const fields = new Fields(root.id, () => want());
  const result = element("div", { class: "tw-try-result" });
  const runs = shownRuns({ root, result, wantSteps: () => want(true), parts: await heldParts() }, new AbortController().signal);
  const { status, progress, figure } = runs;
  const again = element("button", { type: "button", class: "tw-act", onclick: () => want() }, "Run");
  const acts = element("div", { class: "tw-try-acts" }, again, figure.button);
  const form = element("form", { class: "tw-try-controls tw-play-form", "aria-label": "Launch", onsubmit: (event) => event.preventDefault() }, fields.root, acts);
  root.append(form, figure.root, status, progress, result);
  fields.show(proposal, { fills });
  runs.offer(offer);

  function want(step = false) {
    try {
      runs.want(fields.choice(), step);
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      runs.refuse(error.message);
    }
  }
}

mount(document.getElementById("tw-again"));
