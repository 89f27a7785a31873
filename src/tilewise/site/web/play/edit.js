// The editor of a kernel in a lesson's panel: the panel runs the edited kernel with the lesson's own arguments.
// In: a panel of run/main.js, and a compiler. Out: editor and errors above its controls.

import { element } from "../site/dom.js";
import { Compiling, ready, takesTheSame } from "./compiler.js";
import { asMarks, remarks } from "./remarks.js";

const PAUSE_MS = 700;
let count = 0;

/** Open the editor, or close it. @param {HTMLElement} root @param {HTMLElement} button @param {any} panel @param {AbortSignal} signal */
export async function toggle(root, button, panel, signal) {
  const open = root.querySelector(".tw-edit");
  if (open) {
    open.hidden = !open.hidden;
    button.setAttribute("aria-expanded", String(!open.hidden));
    return;
  }
  if (!(await ready(root.querySelector(".tw-try-head"), signal))) return;
  const { edit } = await import(new URL("editor.js", import.meta.url).href);
  if (signal.aborted || root.querySelector(".tw-edit")) return;
  const id = `tw-edit-${(count += 1)}`;
  const host = element("div", { class: "tw-play-text" });
  const faults = element("div", { class: "tw-play-remarks", role: "status" });
  const busy = element("span", { class: "tw-play-busy" });
  const back = element("button", { type: "button", class: "tw-act", hidden: true }, "Back to the page's text");
  const help = "Compiled when you pause, or at once with Ctrl+Enter. Tab leaves the editor.";
  const box = element("div", { class: "tw-edit", id }, host, faults, element("p", { class: "tw-play-bar" }, back, busy, help));
  root.insertBefore(box, root.querySelector("form"));
  button.setAttribute("aria-controls", id);
  button.setAttribute("aria-expanded", "true");

  /** What the page came with, and what is edited, by the kernel's place in the menu. */
  const own = panel.offer.kernels.map(({ program }) => program);
  const watched = panel.offer.kernels.map((one) => one.watched);
  const texts = own.map(({ source }) => source);
  let at = panel.kernel();
  const request = () => {
    const { defines, options } = panel.offer.kernels[at];
    return { text: editor.text(), kernel: own[at].name, defines, options, at };
  };
  const compiling = new Compiling(made, (says) => (busy.textContent = says), signal);
  const editor = edit(host, {
    text: texts[at],
    label: `CUDA text of ${own[at].name}`,
    changed: () => {
      texts[at] = editor.text();
      back.hidden = texts[at] === own[at].source;
      compiling.soon(request, PAUSE_MS);
    },
    run: () => compiling.now(request()),
  });
  signal.addEventListener("abort", () => {
    editor.close();
    box.remove();
  });

  function made(answer, { at: asked }) {
    if (asked !== at) return;
    const program = answer.offer?.kernels[0].program;
    const found = answer.faults.length || takesTheSame(program, own[at]) ? answer : { ...answer, faults: [other(own[at])] };
    faults.replaceChildren(...remarks(found, (line) => editor.go(line)));
    editor.mark(asMarks(found.faults));
    if (!found.faults.length) use(program);
  }
  function use(program) {
    Object.assign(panel.offer.kernels[at], { program, watched: program === own[at] ? watched[at] : undefined });
    panel.renew();
  }
  function show(text) {
    editor.show(text);
    back.hidden = text === own[at].source;
    faults.replaceChildren();
    editor.mark([]);
  }
  back.addEventListener("click", () => {
    texts[at] = own[at].source;
    show(texts[at]);
    use(own[at]);
    editor.focus();
  });
  root.querySelector("form").addEventListener(
    "input",
    () => {
      if (panel.kernel() === at) return;
      at = panel.kernel();
      show(texts[at]);
    },
    { signal },
  );
  editor.focus();
}

const other = ({ name, parameters }) => ({
  line: 0,
  message: `This panel passes ${parameters.map(([one]) => one).join(", ") || "nothing"} to ${name}.`,
  repair: "Keep the kernel's name and parameters here; in the Playground you can change both.",
});
