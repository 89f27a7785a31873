// The parts of a machine, flat or as cubes, and a slider that highlights some of them.
// In: the specification of tilewise.figures.floor_plan. Out: a View.

import { steps as stepsControl } from "tilewise-figures/controls.js";
import { element, escaped } from "tilewise-figures/dom.js";
import { space } from "tilewise-figures/space.js";
import { firstView, stageNote, viewChoice } from "tilewise-figures/stage.js";
import { within } from "tilewise-figures/state.js";
import { palette } from "tilewise-figures/theme.js";

const LARGEST = 40;
const CHARACTER = 6.6;
const DIM = 0.16;

/** @type {import("tilewise-figures/main.js").Mount} */
export function mount(body, figure, memory) {
  const { parts, levels, stops, extent, step_name: stepName } = figure.spec;
  const roles = Object.fromEntries(levels.map((level) => [level.name, level.role]));
  const state = {
    step: within(memory.saved.step, 0, stops.length - 1, figure.spec.start),
    view: firstView(memory.saved.view, "2d"),
  };
  const flat = element("div", { class: "tw-flat", role: "img" });
  const deep = element("div", { class: "tw-space", hidden: true });
  const stage = element("div", { class: "tw-stage" }, flat, deep);
  const text = element("p", { class: "tw-readout tw-stage-text", "aria-live": "polite" });
  const cubes = space(deep, {});
  const note = stageNote();
  const view = viewChoice(state.view, (next) => {
    state.view = next;
    draw();
  });
  const steps = stepsControl({
    label: stepName,
    texts: stops.map((stop) => stop.label),
    areNames: figure.spec.are_names,
    value: state.step,
    onInput(next) {
      state.step = next;
      draw();
    },
  });
  const key = element(
    "p",
    { class: "tw-plan-key" },
    ...levels.map((level) =>
      element("span", {}, element("span", { class: "tw-plan-swatch", style: `--plan:var(--tw-${level.role})` }), level.name),
    ),
  );
  body.append(element("div", { class: "tw-toolbar" }, view.root, key), stage, note, text, steps.root);
  resize();

  function lit(part) {
    const names = stops[state.step].lit;
    return names.includes(part.level) || names.includes(part.name);
  }

  function draw() {
    body.dataset.view = state.view;
    flat.hidden = state.view !== "2d";
    deep.hidden = state.view !== "3d";
    text.textContent = stops[state.step].text;
    flat.setAttribute("aria-label", `${figure.alt} ${text.textContent}`);
    if (state.view === "2d") flat.innerHTML = plan();
    else drawDeep();
    memory.save({ ...state });
  }

  function plan() {
    const [wide, tall] = extent;
    const [width, height] = [stage.clientWidth - 4, stage.clientHeight - 4];
    const cell = Math.min(LARGEST, width / wide, height / tall);
    const left = (width - cell * wide) / 2;
    const made = parts.map((part) => {
      const [x, y] = [left + part.at[0] * cell + 1, part.at[1] * cell + 1];
      const [across, down] = [part.size[0] * cell - 2, part.size[1] * cell - 2];
      const name = lit(part) ? "tw-plan-part tw-plan-lit" : "tw-plan-part";
      const place = `x="${x}" y="${y}" width="${across}" height="${down}" rx="2"`;
      return (
        `<rect class="${name}" style="--plan:var(--tw-${roles[part.level]})" ${place}>` +
        `<title>${escaped(part.name)}</title></rect>${label(part, x, y, across, down)}`
      );
    });
    return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" aria-hidden="true">${made.join("")}</svg>`;
  }

  /** The label where it fits: across, else upright, else not at all. */
  function label(part, x, y, across, down) {
    const room = part.label.length * CHARACTER + 4;
    const [cx, cy] = [x + across / 2, y + down / 2];
    const upright = room > across;
    if (!part.label || (upright && (room > down || across < 14)) || (!upright && down < 14)) return "";
    const turned = upright ? ` transform="rotate(-90 ${cx} ${cy})"` : "";
    const name = lit(part) ? "tw-plan-label tw-plan-label-lit" : "tw-plan-label";
    return `<text class="${name}" x="${cx}" y="${cy}"${turned}>${escaped(part.label)}</text>`;
  }

  function drawDeep() {
    const colour = palette(body);
    const made = [];
    const names = [];
    for (const part of parts) {
      const role = roles[part.level];
      const shade = lit(part) ? colour(role) : colour.over(role, 2 * DIM);
      const [wide, tall] = part.size;
      for (let up = 0; up < part.height; up += 1) {
        for (let j = 0; j < tall; j += 1) {
          for (let i = 0; i < wide; i += 1) {
            made.push({ at: [part.at[0] + i + 0.5, part.at[1] + j + 0.5, -up], size: 0.9, colour: shade });
          }
        }
      }
      if (part.label && lit(part) && parts.length < 40) {
        names.push({ at: [part.at[0] + wide / 2, part.at[1] + tall / 2, -part.height - 0.4], text: part.label });
      }
    }
    const scene = {
      cubes: made,
      marked: [],
      names,
      axes: ["", "", ""],
      ink: colour("ink"),
      wire: colour("waste"),
      family: getComputedStyle(body).fontFamily,
      near: stage.clientWidth < 420 ? 0.95 : 0.72, // a plan is flat: nothing hides what is behind
    };
    colour.done();
    cubes.draw(scene, stage.clientWidth, stage.clientHeight).catch((error) => {
      state.view = "2d";
      view.set("2d");
      draw();
      note.textContent = error.message;
    });
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return {
    recolour: () => {
      if (state.view === "3d") drawDeep();
    },
    resize,
    dispose: () => cubes.dispose(),
  };
}
