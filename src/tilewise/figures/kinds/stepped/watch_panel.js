// Values of watched variables: a row of lanes for each variable, for the warp of the selected thread.
// In: the latest values by thread. Out: a table. A model without threads has its values in their own order.

import { element } from "tilewise-figures/dom.js";
import { WARP } from "tilewise-figures/launch.js";
import { brief } from "./moments.js";

/**
 * @param {string[]} names
 * @param {{onThread: (k: number) => void}} options
 */
export function watchPanel(names, { onThread }) {
  const title = element("p", { class: "tw-array-name" });
  const table = element("table", { class: "tw-watch" });
  const root = element("div", { class: "tw-watch-box" }, title, table);
  table.addEventListener("click", (event) => {
    const k = event.target.closest?.("[data-k]")?.dataset.k;
    if (k !== undefined) onThread(Number(k));
  });

  return {
    root,
    /**
     * @param {{watched: Map<number, any>[]}} known
     * @param {Set<string>} fresh `variable:thread` of what this step has set
     * @param {{first: number, count: number, said: string}} warp threads of the selected warp; count 0 for a model
     * @param {number} selected @param {number} columns
     */
    show({ watched }, fresh, warp, selected, columns) {
      title.textContent = warp.count ? `variables, ${warp.said}` : "values";
      const lanes = warp.count || Math.max(1, ...watched.map((values) => values.size));
      const across = Math.min(columns, lanes);
      const body = element("tbody");
      if (lanes > 1) body.append(header(across, warp.count ? "lane" : ""));
      names.forEach((name, number) => {
        for (let start = 0; start < lanes; start += across) {
          const row = element("tr", {}, element("th", { scope: "row" }, start ? `+${start}` : name));
          for (let lane = start; lane < Math.min(lanes, start + across); lane += 1) {
            const k = warp.first + lane;
            const value = watched[number].get(k);
            const classes = [
              fresh.has(`${number}:${k}`) ? "tw-fresh" : "",
              warp.count && k === selected ? "tw-chosen" : "",
            ];
            row.append(
              element(
                "td",
                { class: classes.filter(Boolean).join(" ") || null, "data-k": warp.count ? k : null, title: titled(name, value) },
                brief(value),
              ),
            );
          }
          body.append(row);
        }
      });
      table.replaceChildren(body);
    },
  };
}

/** The threads that share a warp with one. @param {import("tilewise-figures/launch.js").Thread} who @param {number} each @param {number} k */
export function warpOf(who, each, k) {
  const first = k - who.lane;
  const count = Math.min(WARP, each - who.warp * WARP);
  return { first, count, said: `warp ${who.warp} of block ${who.linearBlock}` };
}

function header(across, word) {
  const cells = Array.from({ length: across }, (_, lane) => element("th", { scope: "col" }, String(lane)));
  return element("tr", { class: "tw-lanes" }, element("td", {}, word), ...cells);
}

function titled(name, value) {
  return value === undefined ? `${name} has no value yet` : `${name} = ${value}`;
}
