"""Python to JavaScript, so that the page's texts and drawings are written once.

In: classes, functions and modules as syntax trees. Out: JavaScript that calls helpers from the caller. Only
the Python that these files need is translated; anything else raises with its line.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from types import ModuleType

_LEFT_OUT = {"__init__", "hazard"}
"""Methods that the page implements itself."""
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
    """Python without a translation."""


def named(module: ModuleType, name: str) -> ast.ClassDef | ast.FunctionDef:
    """Return the class or function of a module by its name.

    Raises:
        LookupError: the module has no such name.
    """
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{module.__name__} has no {name}")


class Translation:
    """Translates Python into JavaScript with one type of integer."""

    def __init__(self, big: bool) -> None:
        self.big = big
        """Whether integers become BigInts; else they are below 2⁵³ and become plain numbers."""

    def module(self, module: ModuleType, module_names: Mapping[str, str]) -> str:
        """A module as an immediately called function that returns an object with its names.

        Args:
            module: constants, dataclasses and functions.
            module_names: JavaScript names of imported modules; other imports come from the caller's helpers.
        """
        parts, names = [], []
        for node in ast.parse(inspect.getsource(module)).body:
            match node:
                case ast.ImportFrom(module=str(origin), names=imported) if origin in module_names:
                    imported_names = [alias.name for alias in imported]
                    parts.append(f"const {{ {', '.join(imported_names)} }} = {module_names[origin]};")
                    names += imported_names
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
            f"{method.name}({_names(method.args.args[1:])}) {{\n{self._body(method)}\n}}"
            for method in node.body
            if isinstance(method, ast.FunctionDef) and method.name not in _LEFT_OUT
        ]
        return "\n".join([f"class {node.name}{base} {{", begin, *methods, "}"])

    def _fields(self, node: ast.ClassDef) -> str:
        """A dataclass, as a function of its fields in order."""
        fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
        names = [ast.unparse(field.target) for field in fields]
        parameters = [
            f"{name} = {self.of(field.value)}" if field.value is not None else name
            for name, field in zip(names, fields, strict=True)
        ]
        return f"const {node.name} = ({', '.join(parameters)}) => ({{ {', '.join(names)} }});"

    def function(self, node: ast.AST) -> str:
        """A function."""
        assert isinstance(node, ast.FunctionDef)
        return f"function {node.name}({_names(node.args.args)}) {{\n{self._body(node)}\n}}"

    def _body(self, node: ast.FunctionDef) -> str:
        bound = sorted(
            {
                name.id
                for part in ast.walk(node)
                if isinstance(part, ast.Assign | ast.AnnAssign)
                for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
                for name in ast.walk(target)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
            }
            - {argument.arg for argument in node.args.args}
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
                return " + ".join(['""', *(self._formatted(part) for part in values)])
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
        generator, *rest = parts
        name = self._target(generator.target)
        filters = "".join(f".filter(({name}) => truly({self.of(test)}))" for test in generator.ifs)
        if rest:
            return f"{self.of(generator.iter)}{filters}.flatMap(({name}) => {self._listed(element, rest)})"
        return f"{self.of(generator.iter)}{filters}.map(({name}) => {self.of(element)})"

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        if isinstance(operator, ast.In | ast.NotIn):
            return f"{'!' if isinstance(operator, ast.NotIn) else ''}has({self.of(right)}, {self.of(left)})"
        if type(operator) not in _OPERATORS:
            raise UntranslatableError(f"line {left.lineno}: {ast.unparse(left)}")
        return f"{self.of(left)} {_OPERATORS[type(operator)]} {self.of(right)}"

    def _call(self, node: ast.Call) -> str:
        named = {keyword.arg: self.of(keyword.value) for keyword in node.keywords}
        args = [self.of(argument) for argument in node.args]
        match node.func:
            case ast.Name(id="min") if set(named) == {"key", "default"}:
                return f"leastBy({args[0]}, {named['key']}, {named['default']})"
            case ast.Name(id="max") if set(named) == {"default"}:
                return f"mostOf({args[0]}, {named['default']})"
            case ast.Name(id="sorted") if set(named) == {"key"}:
                return f"sorted({args[0]}, {named['key']})"
            case ast.Name(id="zip") if set(named) == {"strict"}:
                return f"zip({', '.join(args)})"
            case ast.Name(id="isinstance") if args[1] == "int":
                return f"Number.isInteger({args[0]})"
            case ast.Name(id="Cell") if set(named) <= {"mark"}:
                left = ["null"] * (2 - len(args)) if named else []
                return f"Cell({', '.join([*args, *left, *named.values()])})"
            case ast.Attribute(value=value, attr="join") if not named:
                return f"{args[0]}.join({self.of(value)})"
            case ast.Attribute(value=value, attr="removesuffix"):
                return f"removesuffix({self.of(value)}, {args[0]})"
            case ast.Attribute(value=value, attr="get") if not named:
                return f"({self.of(value)}[{args[0]}] ?? {args[1] if len(args) > 1 else 'null'})"
            case ast.Attribute(value=value, attr="items" | "bit_length" as name) if not named and not args:
                return f"{name}({self.of(value)})"
            case ast.Attribute(value=value, attr=name) if not named:
                return f"{self.of(value)}.{_METHODS.get(name, name)}({', '.join(args)})"
            case ast.Name(id=name) if not named:
                return f"{name}({', '.join(args)})"
        raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")

    def _formatted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return json.dumps(node.value)
        assert isinstance(node, ast.FormattedValue)
        spec = "".join(part.value for part in node.format_spec.values) if node.format_spec else ""  # type: ignore[attr-defined]
        if spec not in _FORMATS or node.conversion != -1:
            raise UntranslatableError(f"line {node.lineno}: {ast.unparse(node)}")
        return f"{_FORMATS[spec]}({self.of(node.value)})"


def _names(arguments: list[ast.arg]) -> str:
    return ", ".join(argument.arg for argument in arguments)
