// The source with the current line, and lines with hazards.
// In: a source. Out: an element, and a function that moves the mark. Only the panel scrolls, never the page.

import { element, escaped } from "tilewise-figures/dom.js";
import { colouredLines } from "./syntax.js";

const MARKER = /^\s*(?:\/\/|#)\s*(?:\[[\w-]+|[\w-]+\])\s*$/;

/**
 * @param {{text: string, language: string, name: string}} code
 * @param {{line: number, kind: string, message: string}[]} hazards
 */
export function codePanel(code, hazards) {
  const plain = code.text.split("\n");
  const first = plain.findIndex((line) => line.trim());
  const last = plain.findLastIndex((line) => line.trim());
  const rows = new Map();
  const root = element("pre", {
    class: "tw-code",
    tabindex: 0,
    role: "region",
    "aria-label": code.name ? `Source of ${code.name}` : "Source",
  });
  const lines = colouredLines(code.text, code.language);
  const made = [];
  for (let at = first; at <= last; at += 1) {
    if (MARKER.test(plain[at])) continue;
    const wrong = hazards.filter((hazard) => hazard.line === at + 1);
    const said = escaped(wrong.map((hazard) => `${hazard.kind}: ${hazard.message}`).join("; "));
    made.push(
      `<span class="tw-line${wrong.length ? " tw-wrong" : ""}" data-line="${at + 1}"${said ? ` title="${said}"` : ""}>` +
        `<span class="tw-line-number" aria-hidden="true">${at + 1}</span>` +
        `<span class="tw-line-mark" aria-hidden="true">${wrong.length ? "!" : ""}</span>${lines[at] || " "}</span>`,
    );
  }
  root.innerHTML = `<code>${made.join("")}</code>`;
  for (const row of root.querySelectorAll(".tw-line")) rows.set(Number(row.dataset.line), row);
  let now = null;

  return {
    root,
    /** @param {number} line from 1; 0 for none */
    show(line) {
      const next = rows.get(line) || null;
      if (next === now) return;
      now?.removeAttribute("aria-current");
      now = next;
      if (!now) return;
      now.setAttribute("aria-current", "step");
      const [top, bottom] = [now.offsetTop, now.offsetTop + now.offsetHeight];
      const edge = now.offsetHeight;
      if (top - edge < root.scrollTop) root.scrollTop = top - edge;
      else if (bottom + edge > root.scrollTop + root.clientHeight) root.scrollTop = bottom + edge - root.clientHeight;
    },
  };
}
