// Judges answers to a puzzle, as the page does, for test_solve.py. Out: for each, the line that the command prints.
import { Machine } from "./run/machine.js";
import { judge } from "./run/judge.js";

const [wasm, layout] = await Promise.all([
  fetch("machine.wasm").then((answer) => answer.arrayBuffer()),
  fetch("layout.json").then((answer) => answer.json()),
]);

globalThis.judged = async (puzzle, answers) => {
  const machine = await Machine.from(wasm, layout);
  return answers.map((answer) => {
    const { fault, solved } = judge(machine, puzzle, answer);
    if (solved) return "SOLVED";
    const place = fault.line ? `answer.cu:${fault.line}:` : "answer.cu:";
    return [place, fault.message, fault.repair].filter(Boolean).join(" ");
  });
};
document.title = "ready";
