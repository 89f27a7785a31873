// A puzzle solved on its page. In: `.tw-solve` with the URL of the puzzle's data (puzzles/browser.py). Out: its kernel
// with blanks to choose from, whose programs are precompiled, and an editor if the page has a compiler. run_worker.js
// judges both. The reader's choices, code and solved puzzles are stored in this browser.

import { wording } from "tilewise-judging";
import { Runs } from "../run/runs.js";
import { figurePlace } from "../run/figure.js";
import { element } from "../site/dom.js";
import { markSolved } from "../site/solve.js";
import { keep, recall } from "../site/stored.js";
import { Compiling, isHere, isReady, ready, start, takesTheSame } from "./compiler.js";
import { asMarks, remarks } from "./remarks.js";

const KEPT_MS = 800;
const KEPT = "puzzles";

/** @param {HTMLElement} root @param {HTMLButtonElement} opener the button that opened it @param {AbortSignal} signal */
export async function mount(root, opener, signal) {
  const name = root.dataset.puzzle;
  const id = root.id;
  let puzzle;
  try {
    const answer = await fetch(new URL(root.dataset.offer, document.baseURI));
    if (!answer.ok) throw new Error(answer.statusText);
    puzzle = await answer.json();
  } catch {
    opener.after(element("p", { class: "tw-try-refused", role: "alert" }, "This puzzle could not be fetched. Check the connection and try again."));
    return;
  }
  if (signal.aborted) return;

  const held = kept(recall(KEPT)?.[name]);
  const save = () => keep(KEPT, { ...recall(KEPT), [name]: held });
  const button = (text, onclick, more = {}) => element("button", { type: "button", class: "tw-act", onclick, ...more }, text);

  const verdict = element("div", { class: "tw-solve-verdict tw-play-remarks", role: "status" });
  const figure = figurePlace(root, () => runs.want(judged, true));
  const check = button("Check", () => current.check());
  const hints = [...(root.closest(".puzzle")?.querySelectorAll("details.hint") ?? [])];
  const hint = button("", () => {
    const next = hints[Math.min(held.hints, hints.length - 1)];
    held.hints = Math.min(held.hints + 1, hints.length);
    save();
    sayHint();
    next.open = true;
    next.querySelector("summary").focus();
  });
  const sayHint = () => (hint.textContent = `Hint ${Math.min(held.hints + 1, hints.length)} of ${hints.length}`);
  sayHint();
  const again = button("Start over", () => {
    Object.assign(held, { picks: [], text: "" });
    save();
    for (const one of [blanks, writing]) one?.clear();
    forget();
  });

  /** The answer that was judged last, and at which launch to step through it. */
  let judged = null;
  const forget = () => {
    if (runs.busy) runs.stop();
    verdict.replaceChildren();
    current.mark([]);
    figure.button.hidden = true;
    figure.close();
  };
  const runs = new Runs(puzzle, {
    progress: () => {},
    report: ({ fault, ...made }) => {
      judged.trial = fault?.trial ?? 0;
      figure.button.hidden = false;
      if (fault) return refuse([fault]);
      current.mark([]);
      held.solved ||= new Date().toISOString().slice(0, 10);
      save();
      markSolved(root);
      verdict.replaceChildren(...solved(root, made));
    },
    stepped: (made) => figure.show(made),
    refused: (sentence) => refuse([{ line: 0, message: sentence, repair: "" }]),
  });
  signal.addEventListener("abort", () => runs.stop());

  const refuse = (faults) => {
    verdict.replaceChildren(...remarks({ faults, notes: [] }, (line) => current.go(line)));
    current.mark(faults);
  };
  /** Say what the reader waits for; it can be stopped. */
  const wait = (says, stop) => {
    const stopped = () => {
      stop();
      verdict.replaceChildren("Stopped.");
      check.focus();
    };
    verdict.replaceChildren(says, " ", button("Stop", stopped, { class: "tw-act tw-solve-stop" }));
  };
  const judge = (answer) => {
    forget();
    wait("Judging …", () => runs.stop());
    judged = answer;
    runs.want(answer);
  };

  const blanks = fillIn(puzzle, id, held.picks, {
    changed: (picks) => {
      held.picks = picks;
      save();
      forget();
    },
    incomplete: (line) => refuse([{ line, message: "This blank is still empty.", repair: "Choose one of its texts." }]),
    judge,
  });
  let writing = null;
  const host = element("div", { class: "tw-play-text", hidden: true });
  let current = blanks;
  const choose = async (wantsEditor) => {
    if (wantsEditor && !(await ready(bar, signal))) return;
    if (wantsEditor) writing ??= await write(puzzle, host, held, { save, refuse, judge, forget, wait, signal });
    if (signal.aborted) return;
    current = wantsEditor ? writing : blanks;
    host.hidden = !wantsEditor;
    blanks.root.hidden = wantsEditor;
    ways.forEach((way, at) => way.setAttribute("aria-pressed", String(wantsEditor === (at === 1))));
    forget();
  };
  const ways = isHere ? [button("Fill in the blanks", () => choose(false)), button("Write it", () => choose(true))] : [];
  const bar = element("div", { class: "tw-play-bar" }, ...ways);
  root.replaceChildren(
    element(
      "div",
      { class: "tw-try tw-solve-panel" },
      element("p", { class: "tw-try-head" }, element("strong", {}, "Solve it here."), ` The kernel runs in your browser at ${puzzle.trials.length} sizes. What you do is kept in this browser alone.`),
      ...(ways.length ? [bar] : []),
      blanks.root,
      host,
      element("p", { class: "tw-try-acts" }, check, ...(hints.length ? [hint] : []), figure.button, again),
      verdict,
      figure.root,
    ),
  );
  await choose((await isReady()) && (held.text !== "" || held.picks.length === 0));
}

/** What this browser holds of a puzzle, whatever it is. @returns {{picks: string[], text: string, hints: number, solved: string}} */
function kept(held) {
  const { picks, text, hints, solved: day } = { ...held };
  return {
    picks: Array.isArray(picks) ? picks : [],
    text: typeof text === "string" ? text : "",
    hints: Number.isInteger(hints) && hints > 0 ? hints : 0,
    solved: typeof day === "string" ? day : "",
  };
}

/** What a solved puzzle says, as `tilewise puzzle` does. */
function solved(root, { solved: sentence, spent, label }) {
  const cell = (tag, text, isNumber) => element(tag, { class: isNumber ? "tw-right" : null, ...(tag === "th" && { scope: "col" }) }, text);
  const row = (tag, texts) => element("tr", {}, ...texts.map((text, at) => cell(tag, text, at > 0)));
  const table = element(
    "table",
    {},
    element("caption", {}, `For ${label}`),
    element("thead", {}, row("th", ["metric", "yours", "budget"])),
    element("tbody", {}, ...spent.map((texts) => row("td", texts))),
  );
  const { next, nextAt } = root.dataset;
  return [
    element("p", { class: "tw-solve-right" }, element("strong", {}, `${sentence[0].toUpperCase()}${sentence.slice(1)}`)),
    element("div", { class: "tw-table" }, table),
    ...(next ? [element("p", {}, "Next: ", element("a", { href: nextAt }, next))] : []),
  ];
}

/** The kernel with menus for its blanks. */
function fillIn(puzzle, id, picks, { changed, incomplete, judge }) {
  const lines = [];
  const menus = [];
  const begin = () => lines.push(element("span", { class: "tw-solve-line" }));
  begin();
  puzzle.code.forEach((text, at) => {
    text.split("\n").forEach((part, k) => {
      if (k) begin();
      lines.at(-1).append(part);
    });
    if (at === puzzle.blanks.length) return;
    const options = puzzle.blanks[at].map((one, number) => element("option", { value: number }, one || "(nothing)"));
    const label = `Blank ${at + 1} of ${puzzle.blanks.length}, in line ${lines.length}`;
    const menu = element("select", { id: `${id}-${at}`, "aria-label": label, autocomplete: "off" }, element("option", { value: "" }, "choose …"), ...options);
    menu.value = picks[at] ?? "";
    menu.dataset.line = String(lines.length);
    menu.addEventListener("input", () => changed(menus.map(({ value }) => value)));
    menus.push(menu);
    lines.at(-1).append(menu);
  });
  if (!lines.at(-1).textContent) lines.pop();
  const pre = element("pre", { class: "tw-solve-code" }, element("code", {}, ...lines.flatMap((line) => [line, "\n"])));
  return {
    root: pre,
    check() {
      const empty = menus.find(({ value }) => value === "");
      if (empty) {
        incomplete(Number(empty.dataset.line));
        empty.focus();
        return;
      }
      const at = menus.reduce((sum, { value }, k) => sum * puzzle.blanks[k].length + Number(value), 0);
      judge({ program: puzzle.programs[at] });
    },
    mark(faults) {
      lines.forEach((line, at) => line.classList.toggle("tw-solve-fault", faults.some((fault) => fault.line === at + 1)));
    },
    go(number) {
      const line = lines[number - 1];
      line?.scrollIntoView({ block: "center" });
      line?.querySelector("select")?.focus();
    },
    clear: () => menus.forEach((menu) => (menu.value = "")),
  };
}

/** The kernel in an editor. */
async function write(puzzle, host, held, { save, refuse, judge, forget, wait, signal }) {
  const { edit } = await import(new URL("editor.js", import.meta.url).href);
  let keeping = 0;
  const editor = edit(host, {
    text: held.text || puzzle.gaps,
    label: `CUDA text of ${puzzle.kernel}`,
    changed: () => {
      start().catch(() => {}); // what is wrong is said when the text is checked
      held.text = editor.text();
      compiling.drop();
      forget();
      clearTimeout(keeping);
      keeping = setTimeout(save, KEPT_MS);
    },
    run: () => check(),
  });
  signal.addEventListener("abort", () => {
    if (keeping) save();
    editor.close();
  });
  const compiling = new Compiling(made, (says) => says && wait(says, () => compiling.drop()), signal);

  function check() {
    const text = editor.text();
    held.text = text;
    save();
    if (bare(text) === bare(puzzle.gaps)) {
      const line = text.split("\n").findIndex((one) => one.includes("// Your code:")) + 1;
      refuse([{ line, message: capital(wording.EMPTY), repair: "Write your code here and check again." }]);
    } else compiling.now({ text, kernel: puzzle.kernel, options: puzzle.options });
  }
  function made(answer) {
    if (answer.faults.length) return refuse(answer.faults);
    const { kernels, maxThreads } = answer.offer;
    const [{ program }] = kernels;
    if (takesTheSame(program, puzzle.programs[0])) return judge({ program, maxThreads });
    const own = wording.signature(answer.kernel, answer.proposal.arguments.map(({ ctype, name }) => [ctype, name]));
    refuse([{ line: 0, message: capital(wording.other_kernel(own)), repair: wording.keep_kernel(puzzle.signature) }]);
  }
  return {
    check,
    mark: (faults) => editor.mark(asMarks(faults)),
    go: (line) => editor.go(line),
    clear: () => editor.show(puzzle.gaps),
  };
}

/** A text without comments and spaces. */
const bare = (text) => text.replace(/\/\/.*|\/\*[^]*?\*\//g, "").replace(/\s+/g, "");
const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;
