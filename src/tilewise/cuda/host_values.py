"""Numbers that a file's host code gives names to: ``const int N = 1 << 20; dim3 block(16, 16);``.

In: C text of macros, globals and a function. Out: a scope that evaluates whole expressions of them. Nothing
is run but loops like ``while (p < n) p *= 2;``: what depends on input, on another loop or on a call that is
not one ``return`` has no value here.
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
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\((?P<taken>[\w, \t]*)\))?[ \t]+(?P<body>[^\n]+)$", re.M
)
_BALANCED = r"[^;={}(),]"
for _ in range(3):
    _BALANCED = rf"[^;={{}}(),]|\((?:,|{_BALANCED})*\)"
_DEFINED = re.compile(
    rf"\b(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?P<body>(?:{_BALANCED})+?|[^;={{}}]+?)\s*(?=[;,])"
)
"""Commas within parentheses are the expression's: ``n = min(a, b), m = 4;``."""
_CHAIN = re.compile(r"(?<![.\w>])(?P<name>[A-Za-z_]\w*)\s*=(?!=)\s*(?=(?P<same>[A-Za-z_]\w*)\s*=(?!=))")
"""The beginning of ``n = m = 4``."""
_BRACED = re.compile(
    r"\b(?:const\w*\s[^;(){}=]*?|(?:int|size_t|unsigned|auto|long|u?int\d+_t)\s+)"
    r"\b(?P<name>\w+)\s*\{(?P<body>[^;{}]+)\}\s*;"
)
_EXTENTS = re.compile(r"\bdim3\s+(?P<name>\w+)\s*(?:=\s*(?:dim3\s*)?)?[({](?P<body>[^;]*)[)}]\s*;")
_AXIS = re.compile(r"(?<![.>])\b(?P<name>\w+)\s*\.\s*(?P<axis>[xyz])\s*=(?!=)\s*(?P<body>[^;={}]+?)\s*;")
_RETURNS = re.compile(r"\b(?P<name>\w+)\s*\((?P<taken>[^(){};]*)\)\s*\{\s*return\s+(?P<body>[^;{}]+);\s*\}")
_CAST = re.compile(
    r"\(\s*(?:(?:unsigned|signed|long|short|const)\s+)*"
    r"(?:int|size_t|unsigned|long|uint|u?int\d+_t)\s*\)"
)
_LITERAL = re.compile(r"\(*\s*\d[\d\s*()<uUlL]*\)*")
_EMPTY = re.compile(r"\(*\s*(?:0[uUlL]*|-\s*1)\s*\)*")
_INPUT = re.compile(r"\bargv\b|\b(?:ato[il]+|std\s*::\s*sto\w+|strto\w+|getenv)\s*\(")
"""What only a run of the program knows."""
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
    r"\bwhile\s*\((?P<test>(?:[^(){};]|\([^(){};]*\))+)\)\s*(?:\{(?P<body>[^{}]*)\}|(?P<one>[^{};]+);)"
)
_STEP = re.compile(
    r"(?P<name>[A-Za-z_]\w*)\s*(?:(?P<op>[-+*/]|<<|>>)=\s*(?P<by>[^=;]+)|(?P<after>\+\+|--)|=(?!=)\s*(?P<to>[^=;]+))"
    r"|(?P<before>\+\+|--)\s*(?P<other>[A-Za-z_]\w*)"
)
_MOST_TURNS = 64
_DEEPEST = 24
_MOST_EVALUATIONS = 1000
"""Of expressions for one value: a hostile file's would not end."""
_LARGEST = 2**63
INSIDE = "__of__"
"""Between the names of a structure and of a number in it, which are one name here."""
ASSUMED = re.compile(r"\(\(\d+\)\)")
"""A size that ``assumed_size`` gave: in two pairs of parentheses, so that it is known again."""


@dataclass(frozen=True)
class Loop:
    """A loop that does nothing but calculate: ``while (rest > 1) { bits++; rest >>= 1; }``."""

    test: str
    """Whether it goes on."""
    steps: tuple[tuple[str, str], ...]
    """Names, and what each becomes, in order."""


@dataclass(frozen=True)
class Scope:
    """What names stand for at one place of a file."""

    values: Mapping[str, str] = field(default_factory=dict)
    """Their expressions."""
    functions: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """Macros and one-line functions: what they take, and what they return."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Those of the values that the function itself defines."""
    loops: Mapping[str, Loop] = field(default_factory=dict)
    """What changes the values of names before they are used."""
    _spent: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)
    """Evaluations for the present value."""

    @property
    def roots(self) -> dict[str, int]:
        """The names that are given a plain number, from which others follow."""
        texts = {name: text for name, text in self.values.items() if name not in self.loops}
        plain = {name: text for name, text in texts.items() if _LITERAL.fullmatch(text)}
        found = {name: self.value(text) for name, text in plain.items()}
        return {name: value for name, value in found.items() if isinstance(value, int)}

    def having(self, changed: Mapping[str, object]) -> Scope:
        """The scope with other values for some names."""
        return replace(self, values={**self.values, **{name: str(value) for name, value in changed.items()}})

    def value(self, text: str) -> Value | None:
        """What an expression evaluates to; None where that cannot be seen from the text."""
        self._spent[0] = 0
        try:
            return self._evaluate(text, {}, 0)
        except (ValueError, SyntaxError, TypeError, ArithmeticError, KeyError, RecursionError):
            return None

    def _evaluate(self, text: str, taken: Mapping[str, Value], depth: int) -> Value:
        self._spent[0] += 1
        if depth > _DEEPEST or self._spent[0] > _MOST_EVALUATIONS:
            raise ValueError(text)
        text = _SIZEOF_ELEMENT.sub(lambda one: f"sizeof({self._element(one[1] or one[2] or one[3])})", text)
        text = _SIZEOF.sub(lambda one: f"sizeof({self._type(one[1])}{one[2]})", text)
        tree = ast.parse(_as_python(text), mode="eval").body
        return self._node(tree, taken, depth)

    def _type(self, name: str) -> str:
        """What a macro, an alias or a template's argument for a type stands for."""
        for _ in range(_DEEPEST):
            name = self.values.get(name, name)
        return name

    def _element(self, name: str) -> str:
        """The type of an array's or a pointer's elements."""
        return self._type(self.values.get(f"{name}{INSIDE}element", name))

    def _node(self, node: ast.expr, taken: Mapping[str, Value], depth: int) -> Value:
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name):
                if name in taken:
                    return taken[name]
                if name in self.loops:
                    return self._behind(self.loops[name], depth)[name]
                return self._evaluate(self.values[name], {}, depth + 1)
            case ast.Attribute(value=inner, attr=("x" | "y" | "z") as axis):
                extents = self._node(inner, taken, depth)
                return (*extents, 1, 1)["xyz".index(axis)] if isinstance(extents, tuple) else extents
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -_number(self._node(inner, taken, depth))
            case ast.BinOp(left=left, op=op, right=right):
                a, b = (_number(self._node(one, taken, depth)) for one in (left, right))
                return _calculated(op, a, b)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._node(body if self._node(test, taken, depth) else other, taken, depth)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = (_number(self._node(one, taken, depth)) for one in (left, right))
                return int(_COMPARED[type(op)](a, b))
            case ast.BoolOp(op=op, values=parts):
                truths = (bool(self._node(one, taken, depth)) for one in parts)
                return int(any(truths) if isinstance(op, ast.Or) else all(truths))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, [self._node(one, taken, depth) for one in arguments], depth)
        raise ValueError(ast.dump(node))

    def _behind(self, loop: Loop, depth: int) -> dict[str, Value]:
        """What a loop leaves."""
        now = {name: self._evaluate(self.values[name], {}, depth + 1) for name, _ in loop.steps}
        for _ in range(_MOST_TURNS):
            if not self._evaluate(loop.test, now, depth + 1):
                return now
            for name, text in loop.steps:
                now[name] = self._evaluate(text, now, depth + 1)
        raise ValueError(loop.test)

    def _call(self, name: str, given: list[Value], depth: int) -> Value:
        if name in _CALLS:
            return _CALLS[name](*map(_number, given))
        if name == "dim3":
            return tuple(int(_number(one)) for one in given)
        wanted, body = self.functions[name]
        return self._evaluate(body, dict(zip(wanted, given, strict=True)), depth + 1)


def scope_of(outside: str, function: str = "") -> Scope:
    """The scope of a function.

    Args:
        outside: the file without comments: its macros, constants and short functions.
        function: the function's text as far as it matters; what it defines hides what is outside.
    """
    values: dict[str, str] = {}
    functions: dict[str, tuple[tuple[str, ...], str]] = {}
    for one in _MACRO.finditer(outside.replace("\\\n", "  ")):
        if one["taken"] is None:
            values.setdefault(one["name"], one["body"].strip())
        else:
            functions[one["name"]] = (_names(one["taken"]), one["body"])
    for one in _RETURNS.finditer(outside):
        functions.setdefault(one["name"], (_names(one["taken"]), one["body"]))
    kinds = r"\bconst\w*\s|^(?:static\s+)?(?:int|unsigned|size_t|long)\s"
    for declared in re.finditer(rf"(?m:{kinds})[^;(){{}}=]*=[^;{{}}]*;", outside):
        for one in _DEFINED.finditer(declared[0]):
            values.setdefault(one["name"], one["body"])
    for one in _BRACED.finditer(outside):
        values.setdefault(one["name"], one["body"])
    for one in _ALIAS.finditer(outside + function):
        values.setdefault(one[1] or one[4], one[2] or one[3])
    own: dict[str, str] = {}
    read = [one[1] or one[2] for one in _READ.finditer(function)]
    for pattern, form in ((_EXTENTS, "dim3({})"), (_DEFINED, "{}"), (_BRACED, "{}")):
        for one in pattern.finditer(function):
            body = one["body"]
            if _INPUT.search(body):
                read.append(one["name"])
                body = body.rpartition(":")[2].strip() if "?" in body else ""
            if body and not _INPUT.search(body):
                text, name = form.format(body), one["name"]
                is_empty = _EMPTY.fullmatch(own.get(name, ""))  # declared with 0, and given its value later
                if name not in own or (is_empty and not re.search(rf"\b{name}\b", text)):
                    own[name] = text
    for one in _POINTERS.finditer(function):
        for name in re.findall(r"(?<!\*)\*\s*(\w+)", one["names"]) if one["type"] in _SIZES else ():
            values.setdefault(name, one["type"])  # what its elements are, for sizeof alone
    values |= _array_sizes(outside) | _array_sizes(function)
    axes: dict[str, dict[str, str]] = {}
    for one in _AXIS.finditer(function):
        axes.setdefault(one["name"], {})[one["axis"]] = one["body"]
    for name, given in axes.items():
        own.setdefault(name, f"dim3({', '.join(given.get(axis, '1') for axis in 'xyz')})")
    own = {name: text for name, text in own.items() if name not in read or not _EMPTY.fullmatch(text)}
    chained = {one["name"]: one["same"] for one in _CHAIN.finditer(function)}
    own = {**{name: assumed_size(name) for name in read}, **chained, **own}
    return Scope({**values, **own}, functions, own, _loops(function, own))


def _array_sizes(text: str) -> dict[str, str]:
    """How many elements vectors have, and bytes arrays, as far as their declarations say it."""
    found = {}
    for declared in _VECTORS.finditer(text):
        for one in _VECTOR.finditer(declared["names"]):
            begin = re.match(rf"(\w+){INSIDE}c?begin\b", one["count"] or "")
            same = begin[1] if begin else one["same"]
            found[f"{one['name']}{INSIDE}size"] = f"{same}{INSIDE}size" if same else one["count"]
            found[f"{one['name']}{INSIDE}element"] = declared["type"]
    for one in re.finditer(rf"\b(\w+){INSIDE}resize\s*\(\s*({_INNER})[,)]", text):
        found[f"{one[1]}{INSIDE}size"] = one[2]
    for declared in _ARRAYS.finditer(text):
        for one in _ARRAY.finditer(declared["names"]):
            extents = re.findall(r"\[([^][]*)\]", one["extents"])
            if not extents[0].strip() and one["items"]:
                extents[0] = str(len(one["items"].split(",")))
            whole = [f"sizeof({declared['type']})", *(f"({extent})" for extent in extents)]
            found[f"sizeof_{one['name']}"] = " * ".join(whole)
            found[f"{one['name']}{INSIDE}element"] = declared["type"]
    return found


def _loops(function: str, own: Mapping[str, str]) -> dict[str, Loop]:
    """Of a function's loops those that only calculate, by the names that they change."""
    found: dict[str, Loop] = {}
    for one in _WHILE.finditer(function):
        steps = [
            _STEP.fullmatch(part.strip()) for part in (one["body"] or one["one"]).split(";") if part.strip()
        ]
        changed = {(step["name"] or step["other"]): _becomes(step) for step in steps if step}
        if len(changed) == len(steps) and changed.keys() <= own.keys() - found.keys():
            found |= dict.fromkeys(changed, Loop(one["test"], tuple(changed.items())))
    return found


def _becomes(step: re.Match[str]) -> str:
    """What a name becomes in a step of a loop."""
    name = step["name"] or step["other"]
    if step["to"]:
        return step["to"]
    sign = step["op"] or (step["after"] or step["before"])[0]
    return f"{name} {sign} ({step['by'] or 1})"


def assumed_size(name: str) -> str:
    """A size of which the text does not say anything, by its name."""
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
    """A C expression in Python's spelling."""
    text = _SIZEOF.sub(lambda one: "8" if one[2] else str(_SIZES.get(one[1], f"sizeof_{one[1]}")), text)
    text = re.sub(r"\b(?:static_cast|reinterpret_cast)\s*<[^<>]*>", "", text)
    text = re.sub(r"\(\s*(?:float|double)\s*\)", "1.0 * ", text)
    text = _CAST.sub("", text)
    text = re.sub(r"\b\w+\s*::\s*", "", text)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"(\d\.?\d*(?:[eE][-+]?\d+)?)[fF]\b", r"\1", text)
    held: list[str] = []
    while "?" in text and (inner := re.search(r"\(([^()]*)\)", text)):  # what is in parentheses is put aside
        held.append(f"({','.join(map(_conditional, inner[1].split(',')))})")
        text = f"{text[: inner.start()]}@{len(held) - 1}@{text[inner.end() :]}"
    text = _conditional(text)
    while "@" in text:
        text = re.sub(r"@(\d+)@", lambda one: held[int(one[1])], text)
    text = text.replace("true", "1").replace("false", "0").replace("&&", " and ").replace("||", " or ")
    return " ".join(text.split())


def _conditional(text: str) -> str:
    """``a ? b : c``, in which no parentheses are, in Python's spelling."""
    test, asked, rest = text.partition("?")
    yes, _, no = rest.partition(":")
    return f"(({yes}) if ({test}) else ({_conditional(no)}))" if asked else text


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
