"""The sentences about hazards and the cells of the table of counts, as JavaScript: one source for both.

In: the source of ``results/findings.py``, ``results/async_findings.py`` and of the cells in
``results/table.py``. Out: a module for ``site/web/run``. Integers become BigInts, which behave like
Python's.
"""

from __future__ import annotations

import json

from tilewise.simulator.browser.translation import Translation, named
from tilewise.simulator.engine.shared import HAZARD_KINDS
from tilewise.simulator.results import async_findings, findings, hazards, table

_HELPERS = """
const truly = (value) => (Array.isArray(value) ? value.length > 0 : Boolean(value));
const floorDiv = (a, b) => (a - modulo(a, b)) / b;
const modulo = (a, b) => ((a % b) + b) % b;
const ratio = (a, b) => Number(a) / Number(b);
const int = (value) => value;
const str = String;
const len = (value) => BigInt(value.length);
const range = (end) => Array.from({ length: Number(end) }, (_, k) => BigInt(k));
const map = (how, values) => values.map((value) => how(value));
const cut = (value, from, to) => value.slice(Number(from), to === undefined ? undefined : Number(to));
const most = (values) => values.reduce((a, b) => (b > a ? b : a));
const max = (...values) => most(values);
const mostOf = (values, otherwise) => (values.length ? most(values) : otherwise);
const leastBy = (values, key, otherwise) =>
  values.length ? values.reduce((a, b) => (key(b) < key(a) ? b : a)) : otherwise;
const grouped = (value) => String(value).replace(/\\B(?=(\\d{3})+$)/g, ",");
const hex = (value) => `0x${value.toString(16)}`;
const hex8 = (value) => `0x${value.toString(16).padStart(8, "0")}`;
const short_name = (name) => name;
const shown_name = (name) => name;
function fixed1(value) {
  const [, kept, last, rest] = /^(.*\\.(\\d))(\\d*)$/.exec(value.toFixed(60)); // all of its digits
  return /^50*$/.test(rest) && last % 2 === 0 ? kept : value.toFixed(1);
}
const removesuffix = (text, end) => (text.endsWith(end) ? text.slice(0, -end.length) : text);
const Cell = (text, title = null, mark = null) => ({ text, title, mark });
"""


def script() -> str:
    """The module: ``Describer``, ``cells``, ``COLUMNS``, ``HAZARD_KINDS``."""
    translate = Translation(big=True)
    agents = {name: getattr(findings, name) for name in ("BY_BULK", "BY_GROUP", "BY_OBJECT")}
    kinds = {str(number): name for number, name in HAZARD_KINDS.items()}
    parts = [
        _HELPERS,
        *(f"const {name} = {value}n;" for name, value in agents.items()),
        *(f"const {name} = {json.dumps(getattr(findings, name))};" for name in ("_USES", "_ABSENT")),
        f"const REPAIRS = {json.dumps({kind: hazards.repair_of(kind) for kind in kinds.values()})};",
        'const repair_of = (kind) => REPAIRS[kind] ?? "";',
        translate.function(named(findings, "_place")),
        translate.function(named(findings, "_signed")),
        translate.class_(named(findings, "Findings")),
        translate.class_(named(async_findings, "Describer")),
        *(translate.function(named(table, name)) for name in table.CELLS.values()),
        f"export const cells = {{ {', '.join(f'{form}: {name}' for form, name in table.CELLS.items())} }};",
        f"export const COLUMNS = {json.dumps(table.columns())};",
        "export { grouped };",
        f"export const HAZARD_KINDS = {json.dumps(kinds)};",
        "export { Describer };",
    ]
    return "\n".join(parts) + "\n"
