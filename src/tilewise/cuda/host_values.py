"""Named numbers in a file's host code: ``const int N = 1 << 20; dim3 block(16, 16);``.

In: C text of macros, globals and a function. Out: a scope that evaluates expressions of their names. Only
loops like ``while (p < n) p *= 2;`` are run: anything that depends on input, on other loops or on functions
longer than one ``return`` has no value here.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Value: TypeAlias = int | float | tuple[int, ...]

_SIZES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "half": 2, "__half": 2, "int": 4, "float": 4,
    "unsigned": 4, "int32_t": 4, "uint32_t": 4, "double": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8,
    "float2": 8, "int2": 8, "float3": 12, "float4": 16, "int4": 16, "uchar4": 4,
}  # fmt: skip
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\((?P<parameters>[\w, \t]*)\))?[ \t]+(?P<body>[^\n]+)$", re.M
)
_BALANCED = r"[^;={}(),]"
for _ in range(3):
    _BALANCED = rf"[^;={{}}(),]|\((?:,|{_BALANCED})*\)"
_DEFINED = re.compile(
    rf"\b(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<body>(?:{_BALANCED})+?|[^;={{}}]+?)\s*(?=[;,])"
)
"""Commas in parentheses belong to the expression: ``n = min(a, b), m = 4;``."""
_CHAIN = re.compile(r"(?<![.\w>])(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?=(?P<same>[A-Za-z_]\w*)\s*=(?!=))")
"""The start of ``n = m = 4``."""
_BRACED = re.compile(
    r"\b(?:const\w*\s[^;(){}=]*?|(?:int|size_t|unsigned|auto|long|u?int\d+_t)\s+)"
    r"\b(?P<name>\w+)\s*\{(?P<body>[^;{}]+)\}\s*;"
)
_EXTENTS = re.compile(r"\bdim3\s+(?P<name>\w+)\s*(?:=\s*(?:dim3\s*)?)?[({](?P<body>[^;]*)[)}]\s*;")
_AXIS = re.compile(r"(?<![.>])\b(?P<name>\w+)\s*\.\s*(?P<axis>[xyz])\s*=(?!=)\s*(?P<body>[^;={}]+?)\s*;")
_RETURNS = re.compile(
    r"\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*)\)\s*\{\s*return\s+(?P<body>[^;{}]+);\s*\}"
)
_CAST = re.compile(
    r"\(\s*(?:(?:unsigned|signed|long|short|const)\s+)*"
    r"(?:int|size_t|unsigned|long|uint|u?int\d+_t)\s*\)"
)
_LITERAL = re.compile(r"\(*\s*\d[\d\s*()<uUlL]*\)*")
_EMPTY = re.compile(r"\(*\s*(?:0[uUlL]*|-\s*1)\s*\)*")
_INPUT = re.compile(r"\bargv\b|\b(?:ato[il]+|std\s*::\s*sto\w+|strto\w+|getenv)\s*\(")
"""Values known only at run time."""
_READ = re.compile(r"\bcin\s*>>\s*(\w+)|\bscanf\s*\([^;]*?&\s*(\w+)")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*(?:unsigned\s+)?(\w+)\s*(\*?)\s*\)")
_SIZEOF_ELEMENT = re.compile(r"\bsizeof\s*(?:\(\s*(?:\*\s*(\w+)|(\w+)\s*\[\s*0\s*\])\s*\)|\*\s*(\w+))")
"""``sizeof(x[0])`` and ``sizeof(*x)``."""
_POINTERS = re.compile(
    r"\b(?P<type>[A-Za-z_]\w*)\s*(?P<names>(?:\*+\s*\w+\s*(?:=[^,;(){}]*)?,?\s*)+)(?=[;)])"
)
_INNER = r"(?:[^;,(){}]|\((?:[^(){};]|\([^(){};]*\))*\))+"
_VECTORS = re.compile(r"vector\s*<\s*(?:unsigned\s+)?(?P<type>\w+)\s*>\s+(?P<names>[^;&]*);")
_VECTOR = re.compile(
    rf"\b(?P<name>\w+)\s*(?:[({{]\s*(?P<count>{_INNER})(?:,[^;]*?)?[)}}]|=\s*(?P<same>\w+)\s*(?=[,;]|\Z))"
)
"""``std::vector<float> x(n), y(x.begin(), x.end()), z = x;``"""
_ARRAYS = re.compile(
    r"\b(?!(?:return|else|new|delete)\b)(?P<type>[A-Za-z_]\w*)\s+(?P<names>\w+\s*\[[^;()]*);"
)
_ARRAY = re.compile(
    r"\b(?P<name>\w+)\s*(?P<extents>(?:\[[^][]*\]\s*)+)(?:=\s*\{(?P<items>[^{}]*)\})?\s*(?=,|\Z)"
)
"""``float x[4][N], y[] = {1, 2, 3};``"""
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*(\w+)\s*;|\btypedef\s+(?:unsigned\s+)?(\w+)\s+(\w+)\s*;")
_WHILE = re.compile(
    r"\bwhile\s*\((?P<test>(?:[^(){};]|\([^(){};]*\))+)\)\s*(?:\{(?P<body>[^{}]*)\}|(?P<single>[^{};]+);)"
)
_STEP = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s*(?:(?P<op>[-+*/]|<<|>>)=\s*(?P<by>[^=;]+)|(?P<after>\+\+|--)|=(?!=)\s*(?P<to>[^=;]+))"
    r"|(?P<before>\+\+|--)\s*(?P<other>[A-Za-z_]\w*)"
)
_MOST_TURNS = 64
_DEEPEST = 24
_MOST_EVALUATIONS = 1000
"""Expressions per value; a hostile file could go on forever."""
_LARGEST = 2**63
INSIDE = "__of__"
"""Joins the names of a structure and its member into one name."""
ASSUMED = re.compile(r"\(\(\d+\)\)")
"""A result of ``assumed_size``, recognisable by its two pairs of parentheses."""


@dataclass(frozen=True)
class Loop:
    """A loop that only calculates: ``while (rest > 1) { bits++; rest >>= 1; }``."""

    test: str
    """The condition to continue."""
    steps: tuple[tuple[str, str], ...]
    """Names and their new values, in order."""


@dataclass(frozen=True)
class Scope:
    """The values of names at one position in a file."""

    values: Mapping[str, str] = field(default_factory=dict)
    """Their expressions."""
    functions: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Macros and one-line functions: parameters and result."""
    own: Mapping[str, str] = field(default_factory=dict)
    """The values that the function itself defines."""
    loops: Mapping[str, Loop] = field(default_factory=dict)
    """Loops that change a name before it is used, by name."""
    _spent: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)
    """Evaluations for the current value."""

    @property
    def roots(self) -> dict[str, int]:
        """The names defined as plain numbers, on which others depend."""
        texts = {name: text for name, text in self.values.items() if name not in self.loops}
        plain = {name: text for name, text in texts.items() if _LITERAL.fullmatch(text)}
        values = {name: self.value(text) for name, text in plain.items()}
        return {name: value for name, value in values.items() if isinstance(value, int)}

    def having(self, changed: Mapping[str, object]) -> Scope:
        """The scope with other values for some names."""
        return replace(self, values={**self.values, **{name: str(value) for name, value in changed.items()}})

    def value(self, text: str) -> Value | None:
        """The value of an expression; None if the text does not determine it."""
        self._spent[0] = 0
        try:
            return self._evaluate(text, {}, 0)
        except (ValueError, SyntaxError, TypeError, ArithmeticError, KeyError, RecursionError):
            return None

    def _evaluate(self, text: str, bound: Mapping[str, Value], depth: int) -> Value:
        self._spent[0] += 1
        if depth > _DEEPEST or self._spent[0] > _MOST_EVALUATIONS:
            raise ValueError(text)
        text = _SIZEOF_ELEMENT.sub(
            lambda match: f"sizeof({self._element(match[1] or match[2] or match[3])})", text
        )
        text = _SIZEOF.sub(lambda match: f"sizeof({self._type(match[1])}{match[2]})", text)
        tree = ast.parse(_as_python(text), mode="eval").body
        return self._node(tree, bound, depth)

    def _type(self, name: str) -> str:
        """The type that a macro, an alias or a template argument names."""
        for _ in range(_DEEPEST):
            name = self.values.get(name, name)
        return name

    def _element(self, name: str) -> str:
        """The type of an array's or a pointer's elements."""
        return self._type(self.values.get(f"{name}{INSIDE}element", name))

    def _node(self, node: ast.expr, bound: Mapping[str, Value], depth: int) -> Value:
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name):
                if name in bound:
                    return bound[name]
                if name in self.loops:
                    return self._after(self.loops[name], depth)[name]
                return self._evaluate(self.values[name], {}, depth + 1)
            case ast.Attribute(value=inner, attr=("x" | "y" | "z") as axis):
                extents = self._node(inner, bound, depth)
                return (*extents, 1, 1)["xyz".index(axis)] if isinstance(extents, tuple) else extents
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -_number(self._node(inner, bound, depth))
            case ast.BinOp(left=left, op=op, right=right):
                a, b = (_number(self._node(side, bound, depth)) for side in (left, right))
                return _calculated(op, a, b)
            case ast.IfExp(test=test, body=body, orelse=alternative):
                return self._node(body if self._node(test, bound, depth) else alternative, bound, depth)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = (_number(self._node(side, bound, depth)) for side in (left, right))
                return int(_COMPARED[type(op)](a, b))
            case ast.BoolOp(op=op, values=parts):
                truths = (bool(self._node(part, bound, depth)) for part in parts)
                return int(any(truths) if isinstance(op, ast.Or) else all(truths))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, [self._node(argument, bound, depth) for argument in arguments], depth)
        raise ValueError(ast.dump(node))

    def _after(self, loop: Loop, depth: int) -> dict[str, Value]:
        """The values of a loop's names after it."""
        values = {name: self._evaluate(self.values[name], {}, depth + 1) for name, _ in loop.steps}
        for _ in range(_MOST_TURNS):
            if not self._evaluate(loop.test, values, depth + 1):
                return values
            for name, text in loop.steps:
                values[name] = self._evaluate(text, values, depth + 1)
        raise ValueError(loop.test)

    def _call(self, name: str, arguments: list[Value], depth: int) -> Value:
        if name in _CALLS:
            return _CALLS[name](*map(_number, arguments))
        if name == "dim3":
            return tuple(int(_number(argument)) for argument in arguments)
        parameters, body = self.functions[name]
        return self._evaluate(body, dict(zip(parameters, arguments, strict=True)), depth + 1)


def scope_of(outside: str, function: str = "") -> Scope:
    """The scope of a function.

    Args:
        outside: the file without comments: its macros, constants and short functions.
        function: the relevant part of the function's text; its definitions shadow those outside.
    """
    values: dict[str, str] = {}
    functions: dict[str, tuple[tuple[str, ...], str]] = {}
    for match in _MACRO.finditer(outside.replace("\\\n", "  ")):
        if match["parameters"] is None:
            values.setdefault(match["name"], match["body"].strip())
        else:
            functions[match["name"]] = (_names(match["parameters"]), match["body"])
    for match in _RETURNS.finditer(outside):
        functions.setdefault(match["name"], (_names(match["parameters"]), match["body"]))
    kinds = r"\bconst\w*\s|^(?:static\s+)?(?:int|unsigned|size_t|long)\s"
    for declaration in re.finditer(rf"(?m:{kinds})[^;(){{}}=]*=[^;{{}}]*;", outside):
        for match in _DEFINED.finditer(declaration[0]):
            values.setdefault(match["name"], match["body"])
    for match in _BRACED.finditer(outside):
        values.setdefault(match["name"], match["body"])
    for match in _ALIAS.finditer(outside + function):
        values.setdefault(match[1] or match[4], match[2] or match[3])
    own: dict[str, str] = {}
    read = [match[1] or match[2] for match in _READ.finditer(function)]
    for pattern, form in ((_EXTENTS, "dim3({})"), (_DEFINED, "{}"), (_BRACED, "{}")):
        for match in pattern.finditer(function):
            body = match["body"]
            if _INPUT.search(body):
                read.append(match["name"])
                body = body.rpartition(":")[2].strip() if "?" in body else ""
            if body and not _INPUT.search(body):
                text, name = form.format(body), match["name"]
                is_empty = _EMPTY.fullmatch(own.get(name, ""))  # declared as 0 and assigned later
                if name not in own or (is_empty and not re.search(rf"\b{name}\b", text)):
                    own[name] = text
    for match in _POINTERS.finditer(function):
        for name in re.findall(r"(?<!\*)\*\s*(\w+)", match["names"]) if match["type"] in _SIZES else ():
            values.setdefault(name, match["type"])  # its element type, only for sizeof
    values |= _array_sizes(outside) | _array_sizes(function)
    axes: dict[str, dict[str, str]] = {}
    for match in _AXIS.finditer(function):
        axes.setdefault(match["name"], {})[match["axis"]] = match["body"]
    for name, extents in axes.items():
        own.setdefault(name, f"dim3({', '.join(extents.get(axis, '1') for axis in 'xyz')})")
    own = {name: text for name, text in own.items() if name not in read or not _EMPTY.fullmatch(text)}
    chained = {match["name"]: match["same"] for match in _CHAIN.finditer(function)}
    own = {**{name: assumed_size(name) for name in read}, **chained, **own}
    return Scope({**values, **own}, functions, own, _loops(function, own))


def _array_sizes(text: str) -> dict[str, str]:
    """Element counts of vectors and sizes in bytes of arrays, as far as their declarations show them."""
    sizes = {}
    for declaration in _VECTORS.finditer(text):
        for match in _VECTOR.finditer(declaration["names"]):
            begin = re.match(rf"(\w+){INSIDE}c?begin\b", match["count"] or "")
            same = begin[1] if begin else match["same"]
            sizes[f"{match['name']}{INSIDE}size"] = f"{same}{INSIDE}size" if same else match["count"]
            sizes[f"{match['name']}{INSIDE}element"] = declaration["type"]
    for match in re.finditer(rf"\b(\w+){INSIDE}resize\s*\(\s*({_INNER})[,)]", text):
        sizes[f"{match[1]}{INSIDE}size"] = match[2]
    for declaration in _ARRAYS.finditer(text):
        for match in _ARRAY.finditer(declaration["names"]):
            extents = re.findall(r"\[([^][]*)\]", match["extents"])
            if not extents[0].strip() and match["items"]:
                extents[0] = str(len(match["items"].split(",")))
            whole = [f"sizeof({declaration['type']})", *(f"({extent})" for extent in extents)]
            sizes[f"sizeof_{match['name']}"] = " * ".join(whole)
            sizes[f"{match['name']}{INSIDE}element"] = declaration["type"]
    return sizes


def _loops(function: str, own: Mapping[str, str]) -> dict[str, Loop]:
    """The loops of a function that only calculate, by the names that they change."""
    loops: dict[str, Loop] = {}
    for match in _WHILE.finditer(function):
        steps = [
            _STEP.fullmatch(part.strip())
            for part in (match["body"] or match["single"]).split(";")
            if part.strip()
        ]
        changed = {(step["name"] or step["other"]): _new_value(step) for step in steps if step}
        if len(changed) == len(steps) and changed.keys() <= own.keys() - loops.keys():
            loops |= dict.fromkeys(changed, Loop(match["test"], tuple(changed.items())))
    return loops


def _new_value(step: re.Match[str]) -> str:
    """The new value of a name after one step of a loop."""
    name = step["name"] or step["other"]
    if step["to"]:
        return step["to"]
    sign = step["op"] or (step["after"] or step["before"])[0]
    return f"{name} {sign} ({step['by'] or 1})"


def assumed_size(name: str) -> str:
    """A guess, by its name, of a size that the text does not determine."""
    if re.search(r"(?i)multi_?proc|num_?sms?\b|sm_?count", name):
        return "((8))"
    if re.search(r"(?i)warp_?size", name):
        return "((32))"
    if re.search(r"(?i)channel", name):
        return "((3))"
    if re.search(r"(?i)radius|halo|repeat|iter", name):
        return "((2))"
    return "((256))" if re.search(r"(?i)block|thread|tpb|wg|group", name) else "((1024))"


def _names(text: str) -> tuple[str, ...]:
    return tuple(re.sub(r".*?(\w+)\s*$", r"\1", part.strip()) for part in text.split(",") if part.strip())


def _as_python(text: str) -> str:
    """A C expression in Python syntax."""
    text = _SIZEOF.sub(
        lambda match: "8" if match[2] else str(_SIZES.get(match[1], f"sizeof_{match[1]}")), text
    )
    text = re.sub(r"\b(?:static_cast|reinterpret_cast)\s*<[^<>]*>", "", text)
    text = re.sub(r"\(\s*(?:float|double)\s*\)", "1.0 * ", text)
    text = _CAST.sub("", text)
    text = re.sub(r"\b\w+\s*::\s*", "", text)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"(\d\.?\d*(?:[eE][-+]?\d+)?)[fF]\b", r"\1", text)
    groups: list[str] = []
    while "?" in text and (inner := re.search(r"\(([^()]*)\)", text)):  # set parentheses aside
        groups.append(f"({','.join(map(_conditional, inner[1].split(',')))})")
        text = f"{text[: inner.start()]}@{len(groups) - 1}@{text[inner.end() :]}"
    text = _conditional(text)
    while "@" in text:
        text = re.sub(r"@(\d+)@", lambda match: groups[int(match[1])], text)
    text = text.replace("true", "1").replace("false", "0").replace("&&", " and ").replace("||", " or ")
    return " ".join(text.split())


def _conditional(text: str) -> str:
    """``a ? b : c`` without parentheses, in Python syntax."""
    test, mark, rest = text.partition("?")
    yes, _, no = rest.partition(":")
    return f"(({yes}) if ({test}) else ({_conditional(no)}))" if mark else text


def _number(value: Value) -> int | float:
    if isinstance(value, tuple):
        raise TypeError("extents are no number")
    return value


def _calculated(op: ast.operator, a: float, b: float) -> int | float:
    whole = isinstance(a, int) and isinstance(b, int)
    if isinstance(op, ast.Div):
        return int(a / b) if whole else a / b
    if isinstance(op, ast.Mod) and whole:
        return int(math.fmod(a, b))
    if isinstance(op, ast.LShift) and not 0 <= b < 48:
        raise ValueError("a shift")
    result: int | float = _OPERATORS[type(op)](a, b)
    if abs(result) > _LARGEST:
        raise ValueError("more than 64 bits")
    return result


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_CALLS: dict[str, Callable[..., int | float]] = {
    "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor, "sqrt": math.sqrt,
    "sqrtf": math.sqrt, "log2": math.log2, "log2f": math.log2, "pow": math.pow, "powf": math.pow,
    "exp": math.exp, "expf": math.exp, "min": min, "max": max, "abs": abs,
    "int": int, "unsigned": int, "size_t": int, "uint32_t": int, "float": float, "double": float,
}  # fmt: skip
