// Loops that fold into the axes of a grid, stage by stage: the code on one side, the passes as cells on the other.
// In: the specification that tilewise.figures.loop_nest wrote. Out: a View. A colour and an outline are one thread.

import { stepper } from "./controls.js";
import { element, escaped } from "./dom.js";
import { firstView, pictureStage, viewChoice } from "./stage.js";
import { within } from "./state.js";
import { palette } from "./theme.js";

const TINTS = [0.3, 0.55, 0.42, 0.72];

/** @type {import("./main.js").Draw} */
export function loopNest(body, figure, memory) {
  const { loops, stages, body: innermost } = figure.spec;
  const state = {
    step: within(memory.saved.step, 0, stages.length - 1, 0),
    view: firstView(memory.saved.view, figure.spec.view),
  };
  const code = element("pre", { class: "tw-nest" });
  const { root: stage, flat, deep, cubes, text, note } = pictureStage();
  const view = viewChoice(state.view, (next) => {
    state.view = next;
    draw();
  });
  const steps = stepper({
    label: "stage",
    count: stages.length,
    value: state.step,
    onInput(next) {
      state.step = next;
      draw();
    },
  });
  body.append(
    element("div", { class: "tw-toolbar" }, view.root),
    element("div", { class: "tw-columns tw-columns-even" }, code, element("div", { class: "tw-stage-box" }, stage, note)),
    text,
    steps.root,
  );
  resize();

  function draw() {
    const now = stages[state.step];
    body.dataset.view = state.view;
    flat.hidden = state.view !== "2d";
    deep.hidden = state.view !== "3d";
    code.replaceChildren(...nest(now));
    const threads = product(loops.filter((loop) => loop.name in now.axes));
    const passes = product(loops.filter((loop) => !(loop.name in now.axes)));
    text.textContent =
      `${now.text} ${threads} ${threads === 1 ? "thread" : "threads"}, ${passes} ${passes === 1 ? "pass" : "passes"} each` +
      (state.view === "2d"
        ? "; a cell is a pass, its number the thread that runs it."
        : "; a cube is a pass, and cubes that touch belong to one thread.");
    flat.setAttribute("aria-label", text.textContent);
    if (state.view === "2d") flat.innerHTML = sheets(now);
    else drawDeep(now);
    memory.save({ ...state });
  }

  /** The code of a stage: loops that folded have become index lines. */
  function nest(now) {
    const lines = [];
    for (const loop of loops) {
      const axis = now.axes[loop.name];
      if (axis) {
        lines.push(
          element("span", { class: "tw-folded" }, `${loop.name} = blockIdx.${axis} * blockDim.${axis}`),
          "\n",
          element("span", { class: "tw-folded" }, `    + threadIdx.${axis}`),
          "\n",
        );
      }
    }
    let depth = 0;
    for (const loop of loops) {
      if (loop.name in now.axes) continue;
      const name = loop.reduction ? "tw-loop tw-reduction" : "tw-loop";
      lines.push("  ".repeat(depth), element("span", { class: name }, `for ${loop.name} in 0 .. ${loop.length - 1}:`), "\n");
      depth += 1;
    }
    lines.push("  ".repeat(depth) + innermost);
    return lines;
  }

  /** Number of the thread that runs a pass. */
  function thread(now, pass) {
    let number = 0;
    loops.forEach((loop, at) => {
      if (loop.name in now.axes) number = number * loop.length + pass[at];
    });
    return number;
  }

  function tint(now, pass) {
    const folded = loops.map((loop, at) => (loop.name in now.axes ? pass[at] : 0));
    return (folded[0] + 2 * folded[1] + (folded[2] || 0)) % 4;
  }

  /** One sheet for each pass of the innermost of three loops, side by side. */
  function sheets(now) {
    const [rows, columns, depth] = [loops[0].length, loops[1].length, loops[2] ? loops[2].length : 1];
    const [width, height] = [stage.clientWidth - 6, stage.clientHeight - 6];
    const [gap, head] = [16, 18];
    let best = { cell: 0, across: 1 };
    for (let across = 1; across <= depth; across += 1) {
      const down = Math.ceil(depth / across);
      const wide = (width - (across - 1) * gap - 20) / (across * columns);
      const tall = (height - down * (head + gap) + gap) / (down * rows);
      const cell = Math.floor(Math.min(wide, tall, 34));
      if (cell > best.cell) best = { cell, across };
    }
    const { cell, across } = best;
    const digits = String(product(loops.filter((loop) => loop.name in now.axes)) - 1).length;
    const parts = [];
    for (let k = 0; k < depth; k += 1) {
      const left = 18 + (k % across) * (columns * cell + gap);
      const top = head + Math.floor(k / across) * (rows * cell + head + gap);
      const right = k === 0 ? `${loops[1].name} →` : "";
      const label = loops[2] ? `${loops[2].name} = ${k}${right && `, ${right}`}` : right;
      parts.push(`<text class="tw-layer" x="${left}" y="${top - 5}">${escaped(label)}</text>`);
      for (let i = 0; i < rows; i += 1) {
        for (let j = 0; j < columns; j += 1) {
          const pass = [i, j, k];
          const at = `x="${left + j * cell}" y="${top + i * cell}" width="${cell - 1.5}" height="${cell - 1.5}"`;
          parts.push(
            `<rect class="tw-cell tw-block-${tint(now, pass)}" ${at}><title>${escaped(passText(now, pass))}</title></rect>`,
          );
          if (cell >= digits * 7 + 4) {
            const half = (cell - 1.5) / 2;
            const middle = `x="${left + j * cell + half}" y="${top + i * cell + half}"`;
            parts.push(`<text class="tw-number" ${middle}>${thread(now, pass)}</text>`);
          }
        }
      }
    }
    parts.push(`<text class="tw-layer" x="0" y="${head + 12}">${escaped(loops[0].name)}</text>`);
    parts.push(`<text class="tw-layer" x="0" y="${head + 26}">↓</text>`);
    return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" aria-hidden="true">${parts.join("")}</svg>`;
  }

  function passText(now, pass) {
    const indices = loops.map((loop, at) => `${loop.name} = ${pass[at]}`).join(", ");
    return `${indices}: thread ${thread(now, pass)}`;
  }

  function drawDeep(now) {
    const colour = palette(body);
    const shades = TINTS.map((share) => colour.over("block", share));
    const made = [];
    const sizes = [loops[1].length, loops[0].length, loops[2] ? loops[2].length : 1];
    for (let k = 0; k < sizes[2]; k += 1) {
      for (let i = 0; i < sizes[1]; i += 1) {
        for (let j = 0; j < sizes[0]; j += 1) {
          const pass = [i, j, k];
          made.push({ at: spread(now, j, i, k), size: 0.86, colour: shades[tint(now, pass)] });
        }
      }
    }
    const scene = {
      cubes: made,
      marked: [],
      names: [],
      axes: [loops[1].name, loops[0].name, loops[2] ? loops[2].name : ""],
      ink: colour("ink"),
      wire: colour("waste"),
      family: getComputedStyle(body).fontFamily,
    };
    colour.done();
    cubes.draw(scene, stage.clientWidth, stage.clientHeight).catch((error) => {
      state.view = "2d";
      view.set("2d");
      draw();
      note.textContent = error.message;
    });
  }

  /** Threads stand apart, the passes of one thread touch. */
  function spread(now, j, i, k) {
    const apart = (loop, at) => (loop && loop.name in now.axes ? at * 1.35 : at);
    return [apart(loops[1], j), apart(loops[0], i), apart(loops[2], k)];
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return {
    recolour: () => {
      if (state.view === "3d") drawDeep(stages[state.step]);
    },
    resize,
    dispose: () => cubes.dispose(),
  };
}

function product(loops) {
  return loops.reduce((all, loop) => all * loop.length, 1);
}
