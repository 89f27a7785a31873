// Blocks laid along an array: above all of them, below the threads of the one selected.
// In: the specification that tilewise.figures.ribbon wrote. Out: a View with sliders for n and the block size.

import { slider, stepper } from "./controls.js";
import { element, grouped, uniqueId } from "./dom.js";
import { hatching } from "./grid_2d.js";
import { WARP } from "./launch.js";
import { within } from "./state.js";

const MOST_DRAWN = 160;
const TOP = 70;

/** @type {import("./main.js").Draw} */
export function ribbon(body, figure, memory) {
  const { spec } = figure;
  const usual = Math.ceil(spec.n / spec.block) - 1;
  const state = {
    n: within(memory.saved.n, 1, spec.most, spec.n),
    size: within(memory.saved.size, 0, spec.blocks.length - 1, spec.blocks.indexOf(spec.block)),
    block: 0,
    thread: 0,
  };
  state.block = within(memory.saved.block, 0, blocks() - 1, Math.min(usual, blocks() - 1));
  state.thread = within(memory.saved.thread, 0, width() - 1, 0);
  const hatch = uniqueId("hatch");
  let preview = null;

  const picture = element("div", {
    class: "tw-flat tw-ribbon",
    tabindex: 0,
    role: "application",
    "aria-label": `Blocks over the array. ${figure.alt}`,
    "aria-roledescription": "ribbon, left and right select a block, up and down a thread",
  });
  const stage = element("div", { class: "tw-stage" }, picture);
  const readout = element("div", { class: "tw-readout", "aria-live": "polite" });
  const steps = stepper({
    label: "block",
    count: blocks(),
    value: state.block,
    text: (at) => `${grouped(at)} (of ${grouped(blocks())})`,
    onInput(next) {
      state.block = next;
      draw();
    },
  });
  const sizes = [
    slider({
      label: "n",
      min: 1,
      max: spec.most,
      value: state.n,
      text: grouped,
      onInput(next) {
        state.n = next;
        refit();
      },
    }),
    slider({
      label: "blockDim.x",
      min: 0,
      max: spec.blocks.length - 1,
      value: state.size,
      text: (at) => grouped(spec.blocks[at]),
      onInput(next) {
        state.size = next;
        refit();
      },
    }),
  ];
  body.append(
    element("div", { class: "tw-sizes tw-sizes-two" }, ...sizes.map((one) => one.root)),
    stage,
    readout,
    steps.root,
  );
  picture.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const at = event.target.closest?.("[data-t]")?.getAttribute("data-t") ?? null;
    preview = at === null ? null : Number(at);
    say();
  });
  picture.addEventListener("pointerleave", () => {
    preview = null;
    say();
  });
  picture.addEventListener("click", (event) => {
    const block = event.target.closest?.("[data-b]")?.getAttribute("data-b");
    const thread = event.target.closest?.("[data-t]")?.getAttribute("data-t");
    if (block) state.block = Number(block);
    if (thread) state.thread = Number(thread);
    draw();
  });
  picture.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by) return;
    event.preventDefault();
    state.block = Math.max(0, Math.min(blocks() - 1, state.block + by[0]));
    state.thread = Math.max(0, Math.min(width() - 1, state.thread + by[1]));
    draw();
  });
  resize();

  function width() {
    return spec.blocks[state.size];
  }

  function blocks() {
    return Math.ceil(state.n / spec.blocks[state.size]);
  }

  /** A new n or block size: show the last block, whose tail is the subject. */
  function refit() {
    state.block = blocks() - 1;
    state.thread = Math.min(state.thread, width() - 1);
    steps.limit(blocks());
    draw();
  }

  function draw() {
    steps.set(state.block);
    const room = stage.clientWidth - 4;
    const parts = [ribbonParts(room), zoomParts(room, stage.clientHeight - TOP - 34)];
    const tall = stage.clientHeight - 4;
    picture.innerHTML =
      `<svg width="${room}" height="${tall}" viewBox="0 0 ${room} ${tall}" aria-hidden="true">` +
      `<defs>${hatching(hatch)}</defs>${parts.join("")}</svg>`;
    say();
    memory.save({ ...state });
  }

  /** All blocks; of very many, neighbours share a rectangle. */
  function ribbonParts(room) {
    const all = blocks();
    const reach = all * width();
    const scale = (room - 4) / reach;
    const x = (element) => 2 + element * scale;
    const parts = [];
    const drawn = Math.min(all, MOST_DRAWN);
    const each = all / drawn;
    for (let at = 0; at < drawn; at += 1) {
      const [first, next] = [Math.round(at * each), Math.round((at + 1) * each)];
      const wide = Math.max(0.5, x(next * width()) - x(first * width()) - (drawn < 100 ? 1 : 0.3));
      parts.push(
        `<rect class="tw-cell tw-block-${at % 2 ? 2 : 0}" data-b="${first}" x="${x(first * width())}" y="22" width="${wide}" height="26"/>`,
      );
    }
    const tail = reach - state.n;
    if (tail) {
      const from = Math.min(x(state.n), room - 4);
      parts.push(
        `<rect class="tw-idle" fill="url(#${hatch})" data-b="${all - 1}" x="${from}" y="22" width="${Math.max(2, room - 2 - from)}" height="26"/>`,
      );
    }
    const chosen = x(state.block * width());
    const wide = Math.max(3, width() * scale);
    parts.push(`<rect class="tw-selected" x="${Math.min(chosen, room - 5)}" y="20" width="${wide}" height="30"/>`);
    const end = `${grouped(state.n)} elements, ${grouped(all)} ${all === 1 ? "block" : "blocks"}`;
    parts.push(`<text class="tw-label" x="2" y="14">${spec.array}[0]</text>`);
    parts.push(`<text class="tw-label" text-anchor="end" x="${room - 2}" y="14">${end}</text>`);
    const [left, right] = [2, room - 2];
    parts.push(
      `<path class="tw-zoom" d="M${Math.min(chosen, room - 5)} 50 L${left} ${TOP} M${Math.min(chosen + wide, right)} 50 L${right} ${TOP}"/>`,
    );
    return parts.join("");
  }

  /** The threads of the selected block, a warp a row. */
  function zoomParts(room, height) {
    const columns = Math.min(WARP, width());
    const rows = Math.ceil(width() / columns);
    const cellWidth = (room - 4) / columns;
    const cellHeight = Math.min(26, cellWidth * 2, height / rows);
    const first = state.block * width();
    const parts = [
      `<text class="tw-label" x="2" y="${TOP + 16}">block ${grouped(state.block)}: threads 0 to ${grouped(width() - 1)}, ${columns} a row</text>`,
    ];
    for (let thread = 0; thread < width(); thread += 1) {
      const x = 2 + (thread % columns) * cellWidth;
      const y = TOP + 24 + Math.floor(thread / columns) * cellHeight;
      const size = `width="${cellWidth - 1}" height="${Math.max(1, cellHeight - 1)}" data-t="${thread}"`;
      const shade = Math.floor(thread / WARP) % 2 ? 2 : 1;
      parts.push(
        first + thread < state.n
          ? `<rect class="tw-cell tw-block-${shade}" x="${x}" y="${y}" ${size}/>`
          : `<rect class="tw-idle" fill="url(#${hatch})" x="${x}" y="${y}" ${size}/>`,
      );
      if (thread === state.thread) {
        const [wide, tall] = [cellWidth + 1, cellHeight + 1];
        parts.push(`<rect class="tw-selected" x="${x - 1}" y="${y - 1}" width="${wide}" height="${tall}"/>`);
      }
    }
    return parts.join("");
  }

  function say() {
    const thread = preview ?? state.thread;
    const index = state.block * width() + thread;
    const idle = blocks() * width() - state.n;
    const inside = index < state.n;
    readout.replaceChildren(
      element(
        "p",
        {},
        element("b", {}, `i = ${grouped(state.block)} · ${grouped(width())} + ${thread} = ${grouped(index)}`),
        inside ? `, below n = ${grouped(state.n)}: ` : `, not below n = ${grouped(state.n)}: `,
        inside ? `thread ${thread} takes ${spec.array}[${grouped(index)}].` : `thread ${thread} is idle.`,
      ),
      element(
        "p",
        {},
        `${grouped(blocks())} blocks · ${grouped(width())} = ${grouped(blocks() * width())} threads for ` +
          `${grouped(state.n)} elements; ${grouped(idle)} idle (hatched).`,
      ),
    );
  }

  function resize() {
    body.classList.toggle("tw-narrow", body.clientWidth < 560);
    draw();
  }

  return { recolour: () => {}, resize, dispose: () => {} };
}
