"""Python as JavaScript, so that what the page says and draws is written once.

In: classes, functions and modules as syntax trees. Out: JavaScript, which calls helpers that the caller
gives. Only the Python that these files need is translated; anything else stops with its line.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from types import ModuleType

_LEFT_OUT = {"__init__", "hazard"}
"""Methods that the page has in its own way."""
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Pow: "**",
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
_METHODS = {
    "find": "indexOf",
    "strip": "trim",
    "startswith": "startsWith",
    "endswith": "endsWith",
    "append": "push",
}
_FORMATS = {"": "str", ",": "grouped", "#x": "hex", "#010x": "hex8", ".1f": "fixed1"}


class UntranslatableError(NotImplementedError):
    """Python that has no translation yet."""


def named(module: ModuleType, name: str) -> ast.ClassDef | ast.FunctionDef:
    """The class or function of a module that has this name.

    Raises:
        LookupError: there is none.
    """
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module.__name__} has no {name}")


class Translation:
    """Translates into one kind of whole numbers."""

    def __init__(self, big: bool) -> None:
        self.big = big
        """Whether whole numbers become BigInts; else they are below 2⁵³ and become plain numbers."""

    def module(self, module: ModuleType, others: Mapping[str, str]) -> str:
        """A module as a function's result: an object with all of its names.

        Args:
            module: constants, dataclasses and functions.
            others: what imported modules are called, by their names; others are left to the caller's helpers.
        """
        parts, names = [], []
        for node in ast.parse(inspect.getsource(module)).body:
            match node:
                case ast.ImportFrom(module=str(origin), names=imported) if origin in others:
                    taken = [one.name for one in imported]
                    parts.append(f"const {{ {', '.join(taken)} }} = {others[origin]};")
                    names += taken
                case ast.ImportFrom() | ast.Import() | ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    parts.append(f"const {name} = {self.of(value)};")
                    names.append(name)
                case ast.ClassDef(name=name):
                    parts.append(self._fields(node))
                    names.append(name)
                case ast.FunctionDef(name=name):
                    parts.append(self.function(node))
                    names.append(name)
                case _:
                    raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")
        return "\n".join(["(() => {", *parts, f"return {{ {', '.join(names)} }};", "})()"])

    def class_(self, node: ast.AST) -> str:
        """A class whose constructor takes an object with its attributes."""
        assert isinstance(node, ast.ClassDef)
        base = f" extends {ast.unparse(node.bases[0])}" if node.bases else ""
        begin = "" if base else "constructor(given) { Object.assign(this, given); }"
        methods = [
            f"{one.name}({_names(one.args.args[1:])}) {{\n{self._body(one)}\n}}"
            for one in node.body
            if isinstance(one, ast.FunctionDef) and one.name not in _LEFT_OUT
        ]
        return "\n".join([f"class {node.name}{base} {{", begin, *methods, "}"])

    def _fields(self, node: ast.ClassDef) -> str:
        """A dataclass: a function that takes its fields in their order."""
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
        names = [ast.unparse(one.target) for one in fields]
        taken = [
            f"{name} = {self.of(one.value)}" if one.value is not None else name
            for name, one in zip(names, fields, strict=True)
        ]
        return f"const {node.name} = ({', '.join(taken)}) => ({{ {', '.join(names)} }});"

    def function(self, node: ast.AST) -> str:
        """A function."""
        assert isinstance(node, ast.FunctionDef)
        return f"function {node.name}({_names(node.args.args)}) {{\n{self._body(node)}\n}}"

    def _body(self, node: ast.FunctionDef) -> str:
        bound = sorted(
            {
                name.id
                for one in ast.walk(node)
                if isinstance(one, ast.Assign | ast.AnnAssign)
                for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            - {one.arg for one in node.args.args}
        )
        declared = [f"let {', '.join(bound)};"] if bound else []
        return "\n".join([*declared, *map(self._statement, node.body)])

    def _statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Return(value=None):
                return "return;"
            case ast.Return(value=ast.expr() as value):
                return f"return {self.of(value)};"
            case ast.Assign(targets=[target], value=value):
                return f"{self._target(target)} = {self.of(value)};"
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return f"{self._target(target)} = {self.of(value)};"
            case ast.AugAssign(target=target, op=operator, value=value) if type(operator) in _OPERATORS:
                return f"{self._target(target)} {_OPERATORS[type(operator)]}= {self.of(value)};"
            case ast.If(test=test, body=body, orelse=orelse):
                otherwise = f" else {{ {self._block(orelse)} }}" if orelse else ""
                return f"if (truly({self.of(test)})) {{ {self._block(body)} }}{otherwise}"
            case ast.For(target=target, iter=values, body=body, orelse=[]):
                return f"for (const {self._target(target)} of {self.of(values)}) {{ {self._block(body)} }}"
            case ast.While(test=test, body=body, orelse=[]):
                return f"while ({self.of(test)}) {{ {self._block(body)} }}"
            case ast.Continue():
                return "continue;"
            case ast.FunctionDef():
                return self.function(node)
            case ast.Expr(value=ast.Constant(value=str())):
                return ""  # a docstring
            case ast.Expr(value=value):
                return f"{self.of(value)};"
        raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")

    def _block(self, body: list[ast.stmt]) -> str:
        return " ".join(map(self._statement, body))

    def _target(self, node: ast.expr) -> str:
        if isinstance(node, ast.Tuple):
            return f"[{', '.join(map(self._target, node.elts))}]"
        return self.of(node) if isinstance(node, ast.Subscript) else ast.unparse(node)

    def of(self, node: ast.expr) -> str:
        """An expression."""
        match node:
            case ast.Constant(value=value):
                if isinstance(value, bool) or value is None:
                    return {True: "true", False: "false", None: "null"}[value]
                return f"{value}n" if isinstance(value, int) and self.big else json.dumps(value)
            case ast.Name(id=name):
                return "this" if name == "self" else name
            case ast.JoinedStr(values=values):
                return " + ".join(['""', *(self._formatted(one) for one in values)])
            case ast.Attribute(value=value, attr=name):
                return f"{self.of(value)}.{name}"
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper)):
                first = self.of(lower) if lower else self.of(ast.Constant(0))
                return f"cut({self.of(value)}, {first}{f', {self.of(upper)}' if upper else ''})"
            case ast.Subscript(value=value, slice=ast.UnaryOp(op=ast.USub(), operand=at)):
                return f"{self.of(value)}.at(-{self.of(at)})"
            case ast.Subscript(value=value, slice=at):
                return f"{self.of(value)}[{self.of(at)}]"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"(truly({self.of(test)}) ? {self.of(body)} : {self.of(orelse)})"
            case ast.BoolOp(op=operator, values=values):
                return f"({f' {_OPERATORS[type(operator)]} '.join(map(self.of, values))})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!truly({self.of(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self.of(operand)})"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _CALLED:
                return f"{_CALLED[type(operator)]}({self.of(left)}, {self.of(right)})"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return f"({self.of(left)} {_OPERATORS[type(operator)]} {self.of(right)})"
            case ast.Compare(left=left, ops=operators, comparators=others):
                pairs = zip([left, *others[:-1]], operators, others, strict=True)
                return f"({' && '.join(self._compared(*pair) for pair in pairs)})"
            case ast.Dict(keys=keys, values=values) if None not in keys:
                entries = zip(keys, values, strict=True)
                parts = (f"[{self.of(key)}]: {self.of(value)}" for key, value in entries if key)
                return f"({{ {', '.join(parts)} }})"
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return f"[{', '.join(map(self.of, elements))}]"
            case ast.Starred(value=value):
                return f"...{self.of(value)}"
            case ast.ListComp() | ast.GeneratorExp():
                return self._listed(node.elt, node.generators)
            case ast.SetComp():
                return f"set({self._listed(node.elt, node.generators)})"
            case ast.Lambda(args=arguments, body=body):
                return f"(({_names(arguments.args)}) => {self.of(body)})"
            case ast.Call():
                return self._call(node)
        raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")

    def _listed(self, element: ast.expr, parts: list[ast.comprehension]) -> str:
        one, *rest = parts
        name = self._target(one.target)
        kept = "".join(f".filter(({name}) => truly({self.of(test)}))" for test in one.ifs)
        if rest:
            return f"{self.of(one.iter)}{kept}.flatMap(({name}) => {self._listed(element, rest)})"
        return f"{self.of(one.iter)}{kept}.map(({name}) => {self.of(element)})"

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        if isinstance(operator, ast.In | ast.NotIn):
            return f"{'!' if isinstance(operator, ast.NotIn) else ''}has({self.of(right)}, {self.of(left)})"
        if type(operator) not in _OPERATORS:
            raise UntranslatableError(f"line {left.lineno}: {ast.unparse(left)}")
        return f"{self.of(left)} {_OPERATORS[type(operator)]} {self.of(right)}"

    def _call(self, node: ast.Call) -> str:
        named = {one.arg: self.of(one.value) for one in node.keywords}
        given = [self.of(one) for one in node.args]
        match node.func:
            case ast.Name(id="min") if set(named) == {"key", "default"}:
                return f"leastBy({given[0]}, {named['key']}, {named['default']})"
            case ast.Name(id="max") if set(named) == {"default"}:
                return f"mostOf({given[0]}, {named['default']})"
            case ast.Name(id="sorted") if set(named) == {"key"}:
                return f"sorted({given[0]}, {named['key']})"
            case ast.Name(id="zip") if set(named) == {"strict"}:
                return f"zip({', '.join(given)})"
            case ast.Name(id="isinstance") if given[1] == "int":
                return f"Number.isInteger({given[0]})"
            case ast.Name(id="Cell") if set(named) <= {"mark"}:
                left = ["null"] * (2 - len(given)) if named else []
                return f"Cell({', '.join([*given, *left, *named.values()])})"
            case ast.Attribute(value=value, attr="join") if not named:
                return f"{given[0]}.join({self.of(value)})"
            case ast.Attribute(value=value, attr="removesuffix"):
                return f"removesuffix({self.of(value)}, {given[0]})"
            case ast.Attribute(value=value, attr="get") if not named:
                return f"({self.of(value)}[{given[0]}] ?? {given[1] if len(given) > 1 else 'null'})"
            case ast.Attribute(value=value, attr="items" | "bit_length" as name) if not named and not given:
                return f"{name}({self.of(value)})"
            case ast.Attribute(value=value, attr=name) if not named:
                return f"{self.of(value)}.{_METHODS.get(name, name)}({', '.join(given)})"
            case ast.Name(id=name) if not named:
                return f"{name}({', '.join(given)})"
        raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")

    def _formatted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return json.dumps(node.value)
        assert isinstance(node, ast.FormattedValue)
        spec = "".join(one.value for one in node.format_spec.values) if node.format_spec else ""  # type: ignore[attr-defined]
        if spec not in _FORMATS or node.conversion != -1:
            raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")
        return f"{_FORMATS[spec]}({self.of(node.value)})"


def _names(arguments: list[ast.arg]) -> str:
    return ", ".join(one.arg for one in arguments)
