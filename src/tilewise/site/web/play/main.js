// The Playground: any CUDA kernel, compiled by the reader's own server or in the page, run in the browser.
// In: `.tw-play` with the URL of examples, and optionally an initial text. Out: editor, launch and run. Without a
// compiler, the examples run unchanged, and the page says how to get one. The state is in the link.

import { copied } from "../figures/links.js";
import { shownRuns } from "../run/runs.js";
import { element } from "../site/dom.js";
import { Compiling, isHere, isReady, ready } from "./compiler.js";
import { Fields, Wrong } from "./fields.js";
import { LONG_ADDRESS, read, written } from "./link.js";
import { asMarks, hazardMarks, remarks } from "./remarks.js";

const PAUSE_MS = 700;
const KEPT_MS = 800;

/** @param {HTMLElement} root @param {AbortSignal} page */
export async function mount(root, page) {
  const own = new AbortController();
  const { signal } = own;
  page.addEventListener("abort", () => own.abort());
  const part = (name, attributes = {}) => element("div", { class: `tw-play-${name}`, ...attributes });
  const [bar, host, faults, result] = [part("bar"), part("text"), part("remarks"), element("div", { class: "tw-try-result" })];
  const busy = element("span", { class: "tw-play-busy" });
  const given = root.querySelector(".tw-play-text")?.textContent;
  let examples;
  try {
    const answer = await fetch(new URL(root.dataset.examples, document.baseURI));
    if (!answer.ok) throw new Error(answer.statusText);
    examples = await answer.json();
  } catch {
    root.replaceChildren(element("p", {}, "The Playground could not be fetched. Check the connection and reload the page."));
    return;
  }
  const canEdit = await isReady();
  const { edit } = canEdit ? await import(new URL("editor.js", import.meta.url).href) : {};
  if (signal.aborted) return;

  const fields = new Fields("tw-play", () => changed());
  const kernels = element("select", { id: "tw-play-kernel", autocomplete: "off" });
  const kernelRow = element("div", { class: "tw-try-size", hidden: true }, element("label", { for: "tw-play-kernel" }, "kernel"), kernels);
  const form = element("form", { class: "tw-try-controls tw-play-form", "aria-label": "Launch", onsubmit: (event) => event.preventDefault() }, kernelRow, fields.root);
  const pick = element("select", { id: "tw-play-example", autocomplete: "off" }, element("option", { value: "" }, "your text"));
  examples.forEach(({ title }, at) => pick.append(element("option", { value: at }, title)));
  const link = element("button", { type: "button", class: "tw-act" }, "Copy link");
  bar.append(element("label", { for: "tw-play-example" }, "Example"), pick, link, busy);
  const panel = element("div", { class: "tw-try tw-play-panel", id: "tw-play-run" });
  const reported = ({ hazards }) => {
    result.classList.remove("tw-play-stale");
    editor?.mark(hazardMarks(hazards));
    document.dispatchEvent(new Event("tw:content"));
  };
  const runs = shownRuns({ root: panel, result, wantSteps: () => want(true), reported }, signal);
  const { say, status, progress, figure } = runs;
  form.append(element("div", { class: "tw-try-acts" }, figure.button));
  const loadEditor = element("button", { type: "button", class: "tw-act" }, "Edit");
  loadEditor.addEventListener("click", async () => {
    if (!(await ready(loadEditor.closest(".tw-play-notice"), signal))) return;
    own.abort();
    mount(root, page); // the address holds what is shown
  });
  panel.append(bar, ...(canEdit ? [] : [notice(loadEditor)]), host, ...(canEdit ? [help()] : []), faults, form, figure.root, status, progress, result);
  root.replaceChildren(panel);

  let text = "";
  let wanted = {};
  const listing = canEdit ? null : element("code", { tabindex: 0 });
  if (listing) host.append(element("div", { class: "highlight" }, element("pre", {}, listing)));
  const editor = edit?.(host, {
    text: "",
    label: "CUDA text",
    changed: () => {
      text = editor.text();
      pick.value = "";
      compiling.soon(request, PAUSE_MS);
    },
    run: () => compiling.now(request()),
  });
  const request = () => ({ text, kernel: kernels.value || undefined });
  const compiling = new Compiling(made, (says) => (busy.textContent = says), signal);

  const go = (line) => editor?.go(line);
  signal.addEventListener("abort", () => editor?.close());

  /** A text has been compiled. */
  function made(answer) {
    faults.replaceChildren(...remarks(answer, go));
    if (answer.faults.length) {
      if (runs.isOffered) faults.append(element("p", { class: "tw-play-note" }, "The run below is that of the last text that compiled."));
      editor?.mark(asMarks(answer.faults));
      result.classList.add("tw-play-stale");
      say(answer.faults.map(({ line, message }) => `${line ? `Line ${line}: ` : ""}${message}`).join(" "));
      keep();
      return;
    }
    kernels.replaceChildren(...answer.kernels.map((name) => element("option", {}, name)));
    kernels.value = answer.kernel;
    kernelRow.hidden = answer.kernels.length < 2;
    runs.offer(answer.offer);
    fields.show(answer.proposal, wanted);
    wanted = {};
    changed();
  }

  function changed() {
    want();
    keep();
  }

  function want(step = false) {
    try {
      if (runs.isOffered) runs.want(fields.choice(), step);
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      runs.refuse(error.message);
    }
  }

  /** Show a state: an example, a link's, or the text that the page was opened with. */
  function show(state, example) {
    ({ text } = state);
    editor?.show(text);
    if (listing) listing.textContent = text;
    wanted = { fields: state.fields, fills: state.fills };
    fields.known = "";
    pick.value = example === undefined ? "" : String(example);
    const ready = examples.find((one) => one.text === text);
    if (ready) made(ready);
    else if (canEdit) compiling.now({ text, kernel: state.kernel });
    else {
      const how = isHere ? "press Edit" : "run tilewise play and paste the text into its editor";
      const sentence = `This link holds a text that is not compiled yet. To run it, ${how}.`;
      faults.replaceChildren(element("p", { class: "tw-play-note" }, sentence));
      form.hidden = true;
      result.replaceChildren();
    }
  }

  const state = () => ({ text, kernel: kernels.value, ...fields.state() });
  let keeping = 0;
  /** Keep the state in the page's address, so that a reload shows the same. */
  function keep() {
    clearTimeout(keeping);
    const here = location.pathname;
    keeping = setTimeout(async () => {
      const hash = await written(state());
      if (signal.aborted || location.pathname !== here || hash.length > LONG_ADDRESS) return;
      kept = hash;
      history.replaceState(history.state, "", hash);
    }, KEPT_MS);
  }
  let kept = "";

  link.addEventListener("click", async () => {
    const address = new URL(await written(state()), location.href).href;
    link.textContent = (await copied(address)) ? "Copied" : "Copy the address above";
    setTimeout(() => (link.textContent = "Copy link"), 2000);
  });
  pick.addEventListener("input", () => {
    if (!pick.value) return;
    form.hidden = false;
    show({ text: examples[pick.value].text }, Number(pick.value));
  });
  kernels.addEventListener("input", () => compiling.now(request()));
  const fromLink = async () => {
    if (location.hash === kept) return false;
    const held = await read(location.hash);
    if (held) show(held);
    return held !== null;
  };
  window.addEventListener("hashchange", fromLink, { signal });
  if (await fromLink()) return;
  if (given) show({ text: JSON.parse(given).text });
  else show({ text: examples[0].text }, 0);
}

function notice(edit) {
  const says = "You can change the launch below. To edit the kernel, or to paste your own, ";
  const line = element("code", {}, "tilewise play mine.cu");
  const how = element("a", { href: "#compiler" }, "install the course");
  const without = ["you need a compiler: ", how, " and run ", line, ". The Playground then opens with an editor, on your machine alone."];
  return element("div", { class: "tw-play-notice" }, element("p", {}, says, ...(isHere ? ["press ", edit, "."] : without)));
}

function help() {
  const key = (name) => element("kbd", {}, name);
  return element("p", { class: "tw-play-help" }, "The text is compiled when you pause, or at once with ", key("Ctrl"), "+", key("Enter"), ". ", key("Tab"), " leaves the editor; ", key("Ctrl"), "+", key("]"), " indents; ", key("F8"), " goes to the next error.");
}
