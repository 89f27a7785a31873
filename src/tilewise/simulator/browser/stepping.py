"""The code that draws a traced run, as JavaScript: one source for Python and the page.

In: the source of the modules of ``figures/kinds/stepped`` that use plain lists, and of
``results/first_warp.py``. Out: a module for ``site/web/run``. Integers, addresses too, are below 2⁵³ here and
stay plain numbers. The helpers format numbers as ``figures/values.py`` does.
"""

from __future__ import annotations

from tilewise.figures.kinds.stepped import moment_texts, moments, rooms, run_figure, specification
from tilewise.simulator.browser.translation import Translation
from tilewise.simulator.results import first_warp

HELPERS = r"""
const truly = (value) => (Array.isArray(value) ? value.length > 0 : Boolean(value));
const floorDiv = (a, b) => Math.floor(a / b);
const modulo = (a, b) => ((a % b) + b) % b;
const int = Math.trunc;
const str = String;
const len = (value) => value.length;
const list = (value) => [...value];
const set = (values) => [...new Set(values)];
const has = (within, value) => (Array.isArray(within) ? within.includes(value) : value in within);
const items = Object.entries;
const bit_length = (value) => 32 - Math.clz32(value);
const enumerate = (values) => values.map((value, at) => [at, value]);
const any = (values) => values.some(Boolean);
const all = (values) => values.every(Boolean);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const cut = (value, from, to) => value.slice(from, to);
const zip = (first, second) => first.map((value, at) => [value, second[at]]);
const math = { isnan: Number.isNaN, isfinite: Number.isFinite };
const extreme = (of) => (...values) => (values.length > 1 ? values : values[0]).reduce(of);
const min = extreme((a, b) => (b < a ? b : a));
const max = extreme((a, b) => (b > a ? b : a));
const mostOf = (values, otherwise) => (values.length ? max(values) : otherwise);
function range(...args) {
  const [from, to, step] = args.length > 1 ? [args[0], args[1], args[2] ?? 1] : [0, args[0], 1];
  const values = [];
  for (let value = from; value < to; value += step) values.push(value);
  return values;
}
function order(a, b) {
  if (!Array.isArray(a)) return a < b ? -1 : a > b ? 1 : 0;
  const at = a.findIndex((value, k) => value !== b[k]);
  return at < 0 ? 0 : a[at] - b[at];
}
const sorted = (values, key = (value) => value) =>
  values.map((value) => [key(value), value]).sort(([a], [b]) => order(a, b)).map(([, value]) => value);
const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");

/** The digits and the exponent of a number, rounded as Python rounds: ties to even. */
function rounded(value, digits) {
  const written = (count) => Math.abs(value).toExponential(count - 1).replace(".", "").split("e");
  if (/^50*$/.test(written(17)[0].slice(digits))) {
    const [all, power] = written(101);
    const isEven = all[digits - 1] % 2 === 0;
    if (isEven && /^50*$/.test(all.slice(digits))) return [all.slice(0, digits), Number(power)];
  }
  const [near, exponent] = written(digits);
  return [near, Number(exponent)];
}
const named = (value) => (Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf");
function six_digits(value) {
  if (!Number.isFinite(value)) return named(value);
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 53) return value + 0;
  const [digits, power] = rounded(value, 6);
  return Math.sign(value) * Number(`${digits[0]}.${digits.slice(1)}e${power}`);
}
function number(value) {
  if (!Number.isFinite(value)) return named(value);
  const sign = value < 0 ? "-" : "";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return sign + grouped(Math.abs(value));
  const size = Number(Math.abs(value).toExponential().split("e")[1]);
  const [digits, power] = rounded(value, 4);
  if (size < -4 || size >= 9) {
    const exponent = String(Math.abs(power)).padStart(2, "0");
    return `${sign}${digits[0]}.${digits.slice(1)}e${power < 0 ? "-" : "+"}${exponent}`;
  }
  const written = power < 3 ? `${"0".repeat(Math.max(0, -power))}${digits}` : digits.padEnd(power + 1, "0");
  const point = Math.max(1, power + 1);
  const fraction = written.slice(point).replace(/0+$/, "");
  return `${sign}${grouped(written.slice(0, point))}${fraction && "."}${fraction}`;
}
"""
"""Helpers for the translation with plain numbers."""
_MODULES = (moments, moment_texts, specification, rooms, run_figure, first_warp)
_SHOWN = (
    *("of_run", "fits", "touched", "beyond_shape", "Traced", "MOST_MOMENTS", "MOST_THREADS", "MOST_ROWS"),
    *("Rows", "Values"),
)


def script() -> str:
    """The module: ``of_run`` and what it needs."""
    translate = Translation(big=False)
    names = {module.__name__: module.__name__.rpartition(".")[2].upper() for module in _MODULES}
    parts = [f"const {names[module.__name__]} = {translate.module(module, names)};" for module in _MODULES]
    shown = f"export const {{ {', '.join(_SHOWN)} }} = {names[run_figure.__name__]};"
    warp = f"export const {{ first_warp }} = {names[first_warp.__name__]};"
    return "\n".join([HELPERS, *parts, shown, warp, ""])
