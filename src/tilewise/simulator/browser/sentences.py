"""The sentences about hazards, and the cells of the table of counts, as JavaScript: one source for both.

In: the source of ``results/findings.py``, ``results/async_findings.py`` and of the cells in
``results/table.py``. Out: a module for ``site/web/run``. Only the Python that these files need is
translated; anything else stops with its line. Whole numbers become BigInts, which count as Python's do.
"""

from __future__ import annotations

import ast
import inspect
import json
from types import ModuleType

from tilewise.simulator.engine.shared import HAZARD_KINDS
from tilewise.simulator.results import async_findings, findings, hazards, table

_LEFT_OUT = {"__init__", "hazard"}
"""Methods that the page has in its own way."""
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.LShift: "<<",
    ast.Eq: "===",
    ast.NotEq: "!==",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "===",
    ast.IsNot: "!==",
    ast.And: "&&",
    ast.Or: "||",
    ast.USub: "-",
}
_CALLED = {ast.FloorDiv: "floorDiv", ast.Mod: "modulo", ast.Div: "ratio"}
_METHODS = {"find": "indexOf", "strip": "trim", "startswith": "startsWith", "append": "push"}
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


class _UntranslatableError(NotImplementedError):
    """Python that has no translation yet."""


def script() -> str:
    """The module: ``Describer``, ``cells``, ``COLUMNS``, ``HAZARD_KINDS``."""
    agents = {name: getattr(findings, name) for name in ("BY_BULK", "BY_GROUP", "BY_OBJECT")}
    kinds = {str(number): name for number, name in HAZARD_KINDS.items()}
    parts = [
        _HELPERS,
        *(f"const {name} = {value}n;" for name, value in agents.items()),
        *(f"const {name} = {json.dumps(getattr(findings, name))};" for name in ("_USES", "_ABSENT")),
        f"const REPAIRS = {json.dumps({kind: hazards.repair_of(kind) for kind in kinds.values()})};",
        'const repair_of = (kind) => REPAIRS[kind] ?? "";',
        _function(_named(findings, "_place")),
        _function(_named(findings, "_signed")),
        _class(_named(findings, "Findings")),
        _class(_named(async_findings, "Describer")),
        *(_function(_named(table, name)) for name in table.CELLS.values()),
        f"export const cells = {{ {', '.join(f'{form}: {name}' for form, name in table.CELLS.items())} }};",
        f"export const COLUMNS = {json.dumps(table.columns())};",
        "export { grouped };",
        f"export const HAZARD_KINDS = {json.dumps(kinds)};",
        "export { Describer };",
    ]
    return "\n".join(parts) + "\n"


def _named(module: ModuleType, name: str) -> ast.ClassDef | ast.FunctionDef:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module.__name__} has no {name}")


def _class(node: ast.AST) -> str:
    assert isinstance(node, ast.ClassDef)
    base = f" extends {ast.unparse(node.bases[0])}" if node.bases else ""
    begin = "" if base else "constructor(given) { Object.assign(this, given); }"
    methods = [
        f"{one.name}({', '.join(argument.arg for argument in one.args.args[1:])}) {{\n{_body(one)}\n}}"
        for one in node.body
        if isinstance(one, ast.FunctionDef) and one.name not in _LEFT_OUT
    ]
    return "\n".join([f"class {node.name}{base} {{", begin, *methods, "}"])


def _function(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef)
    names = ", ".join(argument.arg for argument in node.args.args)
    return f"function {node.name}({names}) {{\n{_body(node)}\n}}"


def _body(node: ast.FunctionDef) -> str:
    bound = sorted(
        {
            name.id
            for one in ast.walk(node)
            if isinstance(one, ast.Assign)
            for target in one.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
    )
    declared = [f"let {', '.join(bound)};"] if bound else []
    return "\n".join([*declared, *map(_statement, node.body)])


def _statement(node: ast.stmt) -> str:
    match node:
        case ast.Return(value=ast.expr() as value):
            return f"return {_of(value)};"
        case ast.Assign(targets=[target], value=value):
            return f"{_target(target)} = {_of(value)};"
        case ast.If(test=test, body=body, orelse=orelse):
            otherwise = f" else {{ {' '.join(map(_statement, orelse))} }}" if orelse else ""
            return f"if (truly({_of(test)})) {{ {' '.join(map(_statement, body))} }}{otherwise}"
        case ast.For(target=target, iter=values, body=body, orelse=[]):
            inside = " ".join(map(_statement, body))
            return f"for (const {_target(target)} of {_of(values)}) {{ {inside} }}"
        case ast.Expr(value=ast.Constant(value=str())):
            return ""  # a docstring
        case ast.Expr(value=value):
            return f"{_of(value)};"
    raise _UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")


def _target(node: ast.expr) -> str:
    if isinstance(node, ast.Tuple):
        return f"[{', '.join(map(_target, node.elts))}]"
    return ast.unparse(node)


def _of(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or value is None:
                return {True: "true", False: "false", None: "null"}[value]
            return f"{value}n" if isinstance(value, int) else json.dumps(value)
        case ast.Name(id=name):
            return "this" if name == "self" else name
        case ast.JoinedStr(values=values):
            return " + ".join(['""', *(_formatted(one) for one in values)])
        case ast.Attribute(value=value, attr=name):
            return f"{_of(value)}.{name}"
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper)):
            first = _of(lower) if lower else "0n"
            return f"cut({_of(value)}, {first}{f', {_of(upper)}' if upper else ''})"
        case ast.Subscript(value=value, slice=at):
            return f"{_of(value)}[{_of(at)}]"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"(truly({_of(test)}) ? {_of(body)} : {_of(orelse)})"
        case ast.BoolOp(op=operator, values=values):
            return f"({f' {_OPERATORS[type(operator)]} '.join(map(_of, values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"!truly({_of(operand)})"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"(-{_of(operand)})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _CALLED:
            return f"{_CALLED[type(operator)]}({_of(left)}, {_of(right)})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return f"({_of(left)} {_OPERATORS[type(operator)]} {_of(right)})"
        case ast.Compare(left=left, ops=operators, comparators=others):
            pairs = zip([left, *others[:-1]], operators, others, strict=True)
            return f"({' && '.join(_compared(*pair) for pair in pairs)})"
        case ast.Dict(keys=keys, values=values) if None not in keys:
            entries = zip(keys, values, strict=True)
            return f"({{ {', '.join(f'[{_of(key)}]: {_of(value)}' for key, value in entries if key)} }})"
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return f"[{', '.join(map(_of, elements))}]"
        case ast.ListComp(elt=element, generators=[one]) | ast.GeneratorExp(elt=element, generators=[one]):
            name = _target(one.target)
            kept = "".join(f".filter(({name}) => truly({_of(test)}))" for test in one.ifs)
            return f"{_of(one.iter)}{kept}.map(({name}) => {_of(element)})"
        case ast.Lambda(args=arguments, body=body):
            return f"(({', '.join(one.arg for one in arguments.args)}) => {_of(body)})"
        case ast.Call():
            return _call(node)
    raise _UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
    if type(operator) not in _OPERATORS:
        raise _UntranslatableError(f"line {left.lineno}: {ast.unparse(left)}")
    return f"{_of(left)} {_OPERATORS[type(operator)]} {_of(right)}"


def _call(node: ast.Call) -> str:
    named = {one.arg: _of(one.value) for one in node.keywords}
    given = [_of(one) for one in node.args]
    match node.func:
        case ast.Name(id="min") if set(named) == {"key", "default"}:
            return f"leastBy({given[0]}, {named['key']}, {named['default']})"
        case ast.Name(id="max") if set(named) == {"default"}:
            return f"mostOf({given[0]}, {named['default']})"
        case ast.Name(id="Cell") if set(named) <= {"mark"}:
            left = ["null"] * (2 - len(given)) if named else []
            return f"Cell({', '.join([*given, *left, *named.values()])})"
        case ast.Attribute(value=value, attr="join") if not named:
            return f"{given[0]}.join({_of(value)})"
        case ast.Attribute(value=value, attr="removesuffix"):
            return f"removesuffix({_of(value)}, {given[0]})"
        case ast.Attribute(value=value, attr=name) if not named:
            return f"{_of(value)}.{_METHODS.get(name, name)}({', '.join(given)})"
        case ast.Name(id=name) if not named:
            return f"{name}({', '.join(given)})"
    raise _UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")


_FORMATS = {"": "str", ",": "grouped", "#x": "hex", "#010x": "hex8", ".1f": "fixed1"}


def _formatted(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return json.dumps(node.value)
    assert isinstance(node, ast.FormattedValue)
    spec = "".join(one.value for one in node.format_spec.values) if node.format_spec else ""  # type: ignore[attr-defined]
    if spec not in _FORMATS or node.conversion != -1:
        raise _UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")
    return f"{_FORMATS[spec]}({_of(node.value)})"
