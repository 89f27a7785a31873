// The 2-D view of a launch: one cell per thread, as SVG in the page's colours.
// In: a launch; the idle, selected and active threads. Out: an element; calls a listener when a thread is selected.

import { element, escaped, uniqueId } from "./dom.js";
import { flat } from "./flat.js";
import { WARP, threadAt, total, usedAxes, works } from "./launch.js";

/**
 * @typedef {{grid: import("./launch.js").Size, block: import("./launch.js").Size,
 *   extent: import("./launch.js").Size|null, count: number, colourBy: string}} Launch
 */

/** The letter that says what a colour says. */
export const SIGNS = { read: "r", write: "w", update: "u", run: "•", outside: "!" };

/**
 * @param {{onPreview: (k: number|null) => void, onSelect: (k: number) => void, label: string}} options
 */
export function grid2d({ onPreview, onSelect, label }) {
  const root = element("div", { class: "tw-flat", tabindex: 0, role: "application", "aria-label": label });
  root.setAttribute("aria-roledescription", "thread grid, arrow keys select");
  const hatch = uniqueId("hatch");
  let placed = null;
  /** @type {Launch|null} */
  let launch = null;
  let overlay = null;

  const hit = (event) => {
    const rect = event.target.closest?.("[data-k]");
    return rect ? Number(rect.getAttribute("data-k")) : null;
  };
  root.addEventListener("pointermove", (event) => {
    if (event.pointerType === "mouse") onPreview(hit(event));
  });
  root.addEventListener("pointerleave", () => onPreview(null));
  root.addEventListener("click", (event) => {
    const k = hit(event);
    if (k !== null) onSelect(k);
  });

  return {
    root,
    /** @param {Launch} next @param {number} width @param {number} height */
    draw(next, width, height) {
      launch = next;
      placed = flat(next.grid, next.block, width - 8, height - 8, next.count);
      root.innerHTML = picture(next, placed, hatch);
      overlay = root.querySelector(".tw-marks");
    },
    /** @param {number} selected @param {number|null} preview @param {Map<number, string>} acting */
    mark(selected, preview, acting) {
      if (overlay && launch && placed) overlay.innerHTML = marks(launch, placed, selected, preview, acting);
    },
    /** Bring a thread into view where the picture is larger than its room. @param {number} k */
    reveal(k) {
      if (!placed || (root.scrollWidth <= root.clientWidth && root.scrollHeight <= root.clientHeight)) return;
      root.scrollTo({ left: placed.x[k] - root.clientWidth / 2, top: placed.y[k] - root.clientHeight / 2 });
    },
  };
}

/** Which of four tints a thread's block or warp has; neighbours differ. @param {import("./launch.js").Thread} who */
export function tint(who, colourBy) {
  if (colourBy === "warp") return (who.warp + who.linearBlock) % 4;
  return (who.block[0] + 2 * who.block[1] + 3 * who.block[2]) % 4;
}

function picture(launch, placed, hatch) {
  const { grid, block, extent, count, colourBy } = launch;
  const { cell, x, y } = placed;
  const inner = cell - seam(cell);
  const single = usedAxes(grid, block).length === 1;
  const cells = [];
  const numbers = [];
  for (let k = 0; k < count; k += 1) {
    const who = threadAt(k, grid, block);
    const at = `x="${x[k]}" y="${y[k]}" width="${inner}" height="${inner}" data-k="${k}"`;
    cells.push(
      works(who.position, extent)
        ? `<rect class="tw-cell tw-${colourBy}-${tint(who, colourBy)}" ${at}/>`
        : `<rect class="tw-idle" fill="url(#${hatch})" ${at}/>`,
    );
    if (cell >= 26) {
      const text = single ? who.thread[0] : who.linearThread;
      const name = works(who.position, extent) ? "tw-number" : "tw-number tw-number-idle";
      numbers.push(`<text class="${name}" x="${x[k] + inner / 2}" y="${y[k] + inner / 2}">${text}</text>`);
    }
  }
  const named = (boxes, name, up) =>
    boxes
      .filter((box) => box.label)
      .map((box) => `<text class="${name}" x="${box.x}" y="${box.y - up}">${escaped(box.label)}</text>`)
      .join("");
  const width = Math.ceil(placed.width) + 6;
  const height = Math.ceil(placed.height) + 6;
  return (
    `<svg width="${width}" height="${height}" viewBox="-3 -3 ${width} ${height}" aria-hidden="true">` +
    `<defs>${hatching(hatch)}</defs><g>${cells.join("")}</g><g class="tw-numbers">${numbers.join("")}</g>` +
    `<g>${named(placed.blocks, "tw-label", 5)}${named(placed.layers, "tw-layer", 7)}</g><g class="tw-marks"></g></svg>`
  );
}

/** The pattern that means idle or waste. @param {string} id */
export function hatching(id) {
  return (
    `<pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
    '<rect class="tw-hatch-ground" width="6" height="6"/><line class="tw-hatch-line" x1="1" y1="0" x2="1" y2="6"/></pattern>'
  );
}

function seam(cell) {
  return cell > 8 ? 1.5 : cell > 4 ? 1 : 0.5;
}

function marks(launch, placed, selected, preview, acting) {
  const { cell, x, y } = placed;
  const inner = cell - seam(cell);
  const box = (k, name, grow) =>
    `<rect class="${name}" x="${x[k] - grow}" y="${y[k] - grow}" width="${inner + 2 * grow}" height="${inner + 2 * grow}"/>`;
  const parts = [];
  const who = threadAt(selected, launch.grid, launch.block);
  const each = total(launch.block);
  const first = who.linearBlock * each + who.warp * WARP;
  const last = Math.min(first + WARP, (who.linearBlock + 1) * each, launch.count);
  for (let k = first; k < last; k += 1) parts.push(box(k, "tw-in-warp", 0));
  for (const [k, kind] of acting) {
    if (k >= launch.count) continue;
    parts.push(box(k, `tw-acting tw-${kind}`, cell < 10 ? 0 : -Math.round(cell / 9)));
    if (cell >= 14) {
      parts.push(`<text class="tw-sign" x="${x[k] + inner / 2}" y="${y[k] + inner / 2}">${SIGNS[kind]}</text>`);
    }
  }
  if (preview !== null && preview !== selected) parts.push(box(preview, "tw-preview", 1));
  parts.push(box(selected, "tw-selected", 2));
  return parts.join("");
}
