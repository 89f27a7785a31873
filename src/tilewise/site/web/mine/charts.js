// In: a chart's data as tilewise/figures wrote it, with the paths of what was recorded; a look-up of paths.
// Out: the same chart of other numbers. What only a model says, drawn as predicted or muted, stays.

import { formatted, short } from "./format.js";

/** @returns the chart's data; null where the look-up lacks a number that the chart needs */
export function redrawn(figure, at) {
  const { data, layout, frames = [] } = figure.spec;
  if (frames.length) return null;
  const paths = layout.meta.paths;
  const made = structuredClone(figure);
  for (const [n, trace] of data.entries()) {
    const own = paths.filter((one) => one.trace === n);
    if (!own.length && !isModel(trace)) return null;
    for (const { axis, scale, paths: places } of own) {
      const values = places.map((path) => at(path) * scale);
      if (!values.every(Number.isFinite)) return null;
      made.spec.data[n][axis] = values;
    }
  }
  for (const trace of made.spec.data) if (trace.type === "bar") label(trace, layout.meta.form);
  for (const axis of new Set(paths.map((one) => one.axis))) stretch(made.spec, axis);
  for (const note of made.spec.layout.annotations ?? []) moveTo(note, made.spec);
  made.steps = made.spec.data.filter((trace) => !trace.fill).flatMap(rowsOf);
  return made;
}

/** Predicted series are drawn dashed, predicted bars hatched. */
function isModel(trace) {
  return trace.line?.dash === "dash" || [].concat(trace.marker?.pattern?.shape ?? []).some(Boolean);
}

function label(trace, form) {
  trace.text = trace.x.map((value) => `\u00a0${(form && formatted(value, form)) || short(value)}`);
}

/** An axis that holds what it held and the new numbers; of bars, as long as the longest. */
function stretch({ data, layout }, name) {
  const axis = layout[`${name}axis`];
  if (!axis.range) return;
  const all = data.flatMap((trace) => trace[name]).filter(Number.isFinite);
  const isLog = axis.type === "log";
  const ends = [Math.min(...all), Math.max(...all)].map((end) => (isLog ? Math.log10(end) : end));
  const margin = 0.05 * (ends[1] - ends[0]);
  const [low, high] = axis.range;
  if (data.some((trace) => trace.type === "bar") && !isLog) axis.range = [low, ends[1] * 1.04];
  else axis.range = [ends[0] < low ? ends[0] - margin : low, ends[1] > high ? ends[1] + margin : high];
}

/** The name beside a line's end goes where the line now ends. */
function moveTo(note, { data, layout }) {
  const trace = note.name === "direct" && data.find((one) => one.name === note.text && one.type === "scatter");
  if (!trace) return;
  for (const name of ["x", "y"]) {
    const end = trace[name].at(-1);
    note[name] = layout[`${name}axis`].type === "log" ? Math.log10(end) : end;
  }
}

function rowsOf(trace) {
  if (trace.type === "bar") {
    const name = trace.name ? `${trace.name} ` : "";
    return trace.y.map((label, at) => `${label.replaceAll("<br>", " ")}: ${name}${trace.text[at].trim()}`);
  }
  const points = trace.x.map((x, at) => `${short(x)}: ${short(trace.y[at])}`);
  return [`${trace.name}: ${points.join("; ")}`];
}
