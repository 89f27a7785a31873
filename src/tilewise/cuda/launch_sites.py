"""The launches that a CUDA file makes itself: ``sgemm<BM, BN><<<grid, block, bytes>>>(a, b, n)``.

In: a file's text. Out: for each launch its template arguments, grid, block, shared memory and arguments, as
far as the text alone determines them; sizes too large for a first look shrink together, so that grid, arrays
and numbers still match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TypeAlias

from tilewise.cuda.host_values import ASSUMED, INSIDE, Scope, Value, assumed_size, scope_of
from tilewise.cuda.kernel_source import without_comments
from tilewise.cuda.top_level import MACRO, Piece, device_macros, pieces, without_inactive

MOST_THREADS = 1 << 13
MOST_BYTES = 1 << 20
MOST_TURNS = 1 << 23
"""Limits of a launch that is proposed as in the file: threads, bytes per array, and loop iterations of all
threads together."""

_LAUNCH = re.compile(r"\b(?P<name>\w+)\s*(?P<template><[^;<>]*(?:<[^<>;]*>[^;<>]*)*>)?\s*<<<")
_TEMPLATE = re.compile(r"\s*template\s*<(?P<taken>[^{}]*?)>\s*(?=\w)")
_DEFINITION = re.compile(
    r"\b(?:struct|class|union|enum(?:\s+class)?|using|namespace)\s+(\w+)\s*(?=[{:=]|\Z)"
    r"|\b(\w+)\s*(?:=(?!=)|\{|(?:\[[^][]*\]\s*)?;\s*\Z)"
)
"""Types and constants that a piece defines."""
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_ALLOCATION = re.compile(r"\bcuda(?:Malloc(?:Managed|Host|Async)?|HostAlloc)\s*\(")
_INNER = re.compile(r"(\w+)\s*\+\s*(.+)|&\s*(\w+)\s*\[([^][]+)\]", re.S)
"""A pointer into an array: ``x + 3``, ``&x[3]``."""
_MEMBER = re.compile(r"\b([A-Za-z_]\w*)[ \t]*(?:\.|->)[ \t]*(?![xyz]\b)([A-Za-z_]\w*)(?:[ \t]*\([ \t]*\))?")
"""``image.width``, ``image->width()``: treated as one name."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_WHOLE = re.compile(
    r"(?:(?:const|unsigned|signed|long|std::|static)\s*)*(?:int|size_t|unsigned|long|uint|u?int\d+_t|[ius]\d+)\b[^*]*"
)
"""An integer parameter."""
_WHOLE_TYPE = r"\b(?:int|size_t|unsigned|long|auto|uint|u?int\d+_t)\s+"
_INITIAL = r"(?:[^;,(){}]|\((?:[^(){};]|\([^(){};]*\))*\))*"
"""The initialiser of a declaration."""
_POWER = re.compile(r"\(*\s*1[uUlL]*\s*<<\s*([A-Za-z_]\w*)\s*\)*")
_ALIGNMENT = 64
"""The size in bytes of part of an array is a multiple of this, whatever its element type."""
_CONDITION = re.compile(
    r"\bif\s*\(\s*(?P<name>\w+)\s*==\s*(?P<value>\w+)\s*\)\s*(?:\{[^{}]*)?\Z"
    r"|\bcase\s+(?P<label>\w+)\s*:[^{}:]*\Z"
)
"""A condition after which a name has a known value."""
_SWITCH = re.compile(r"\bswitch\s*\(\s*(\w+)\s*\)")
_MOST_CALLS, _DEEPEST_CALL = 8, 4
_Passed: TypeAlias = tuple[dict[str, str], dict[str, str]]
"""A call's arguments to a host function, by parameter, and the bytes of its arrays."""
_KNOWN = frozenset(
    {"float", "double", "int", "unsigned", "char", "short", "long", "bool", "half", "half2", "size_t"}
    | {"nv_bfloat16", "__half", "__nv_bfloat16", "uint", "uchar", "true", "false", "std", "const"}
    | {f"{kind}{n}" for kind in ("float", "double", "int", "uint", "uchar") for n in (2, 3, 4)}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Names that template arguments may use in any file."""


@dataclass(frozen=True)
class LaunchSite:
    """A launch in a file's host code."""

    kernel: str
    """Without its namespace."""
    template: str
    """Its template arguments, ``<32, float>``, with the host's names replaced by values; may be empty."""
    config: tuple[str, ...]
    """Grid, block, bytes of shared memory and stream, as written."""
    arguments: tuple[str, ...]
    """Its arguments, as written."""
    allocated: Mapping[str, str]
    """Bytes of the arrays that the function allocates, by name, as written."""
    scope: Scope
    """The values of names there."""
    fixed: frozenset[str]
    """Names that device code uses as well and the host function does not define itself, and those that the
    template arguments depend on."""

    def small(self, loops: int = 0, most_threads: int = MOST_THREADS) -> Scope:
        """The scope with its large sizes halved until the launch is small enough for a first look.

        If there are still too many threads, the file's sizes stay unless its arrays are huge.

        Args:
            loops: the depth of the kernel's nested loops that are bounded by an argument.
            most_threads: the limit for the launch; raised to the launch's own count if no size changes it.
        """
        scope, sizes = self.scope, {**self.scope.roots, **self._powers()}
        used, threads = self._used(), max(prod(self.extents(scope)[1] or (1,)), 64)
        for _ in range(64):
            fits = self._threads(scope) <= most_threads and self._bytes(scope) <= MOST_BYTES
            if fits and self._is_quick(scope, used, loops):
                break
            is_wide = self._threads(scope) > most_threads
            floors = [(used, 2 * threads), *[(used, 65)] * (not fits), *[(used, 17)] * is_wide]
            floors += [(used & self._assumed, 5)] * (not fits)
            above = (
                {name: sizes[name] for name in names & sizes.keys() if sizes[name] >= floor}
                for names, floor in floors
            )
            large = next(filter(None, above), None)
            if not large and is_wide and self._threads(scope) == self._threads(self.scope):
                return self.small(loops, self._threads(scope))
            if not large:
                return self.scope if is_wide and self._bytes(self.scope) <= 128 * MOST_BYTES else scope
            most = max(large.values())
            sizes.update({name: value // 2 for name, value in large.items() if value == most})
            smaller = self.scope.having(sizes)
            if self.extents(smaller)[0] is None:  # the block has become empty
                break
            scope = smaller
        return scope

    def extents(self, scope: Scope) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, int | None]:
        """Grid, block and bytes of shared memory, each None if the text does not determine it."""
        grid, block, shared = (*(_value(scope, text) for text in self.config[:3]), None, None, None)[:3]
        if len(self.config) < 3:
            shared = 0
        return _extents(grid), _extents(block), shared if isinstance(shared, int) else None

    def passed(self, at: int, scope: Scope) -> Value | None:
        """The value of argument ``at``, if it is a number."""
        return _value(scope, self._argument(at))

    def bytes_of(self, at: int, scope: Scope) -> int | None:
        """The size in bytes of the array that is argument ``at``."""
        size_text = next(iter(self._allocated(at)), "")
        value = scope.value(size_text)
        if not isinstance(value, int | float) or value <= 0:
            return None
        return max(int(value), self._share(size_text, int(value), scope))

    def first(self, at: int, scope: Scope) -> int:
        """The element of its array that argument ``at`` points to: 3 for ``x + 3``; 0 if unknown."""
        inner = _INNER.fullmatch(self._argument(at))
        element = (
            scope.value(inner[2] or inner[4]) if inner and (inner[1] or inner[3]) in self.allocated else 0
        )
        return element if isinstance(element, int) else 0

    def _share(self, size_text: str, bytes_: int, scope: Scope) -> int:
        """The least bytes of an array whose size has shrunk with a name that nothing else depends on.

        ``N = 100 * 100`` may be independent of ``nx = 100, ny = 100`` next to it: then the array keeps its
        original bytes per thread.
        """
        changed = {name for name, text in scope.values.items() if self.scope.values.get(name) != text}
        rest = _dependencies([*self.config[:1], *self.arguments], self.scope) & changed
        names = _dependencies([size_text], self.scope) & changed
        first = self.scope.value(size_text)
        if not rest or not names or names & rest or not isinstance(first, int | float):
            return bytes_
        share = int(first) * self._threads(scope) // max(self._threads(self.scope), 1)
        return -(-share // _ALIGNMENT) * _ALIGNMENT

    def says(self, at: int, scope: Scope) -> bool:
        """Whether the text determines argument ``at``: its value, or the size of its array."""
        if self.passed(at, scope) is None and self.bytes_of(at, scope) is None:
            return False
        names = _dependencies([self._argument(at), *self._allocated(at)], self.scope)
        return not names & self._assumed

    def says_length(self, at: int, scope: Scope) -> bool:
        """Whether the text determines an array's length, consistently with the rest of the launch.

        An assumed size does not count, unless the grid or numbers depend on the same one.
        """
        if self.bytes_of(at, scope) is None:
            return False
        names = _dependencies(self._allocated(at), self.scope)
        numbers = [text for at, text in enumerate(self.arguments) if self.passed(at, scope) is not None]
        rest = _dependencies([*self.config, *numbers], self.scope)
        return not (names - rest) & self._assumed

    def random_below(self, at: int, text: str, scope: Scope) -> int | None:
        """The exclusive upper bound of the random integers that the host fills array ``at`` with."""
        name = _last_word(self._argument(at))
        copied = name and re.search(rf"\bcudaMemcpy(?:Async)?\s*\(\s*{name}\s*,\s*&?\s*(\w+)", text)
        host = f"(?:{name}|{copied[1]})" if copied else name
        drawn = r"=[\s(]*(?:[a-z_\d]+\)[\s(]*)?rand\s*\(\s*\)\s*%([^;]+)"
        match = name and re.search(rf"\b{host}\s*\[[^;=]*\]\s*{drawn}", text)
        below = scope.value(match[1].strip(" )")) if match else None
        return below if isinstance(below, int) and below > 0 else None

    def is_zeroed(self, at: int, text: str) -> bool:
        """Whether the host fills the array ``at`` with zeros, and copies nothing into it."""
        name = _last_word(self._argument(at))
        zeros = rf"\bcudaMemset(?:Async)?\s*\(\s*(?:\([\w\s*]+\)\s*)?{name}\s*,\s*0\s*,"
        copied = rf"\bcudaMemcpy(?:Async)?\s*\(\s*{name}\s*,"
        return bool(name and re.search(zeros, text) and not re.search(copied, text))

    def _argument(self, at: int) -> str:
        return self.arguments[at] if at < len(self.arguments) else ""

    def _allocated(self, at: int) -> list[str]:
        """The bytes of the arrays that argument ``at`` names; the whole array even with an offset."""
        words = _WORD.findall(self._argument(at))
        return [self.allocated[word] for word in words if word in self.allocated]

    @cached_property
    def _assumed(self) -> set[str]:
        """The names of sizes that the text does not determine."""
        return {name for name, text in self.scope.values.items() if ASSUMED.fullmatch(text)}

    def _powers(self) -> dict[str, int]:
        """Sizes like ``1 << bits`` whose exponent the launch does not use otherwise."""
        powers = {name: _POWER.fullmatch(text) for name, text in self.scope.values.items()}
        words = {word for text in (*self.config, *self.arguments) for word in _WORD.findall(text)}
        values = {
            name: self.scope.value(name) for name, power in powers.items() if power and power[1] not in words
        }
        return {name: value for name, value in values.items() if isinstance(value, int)}

    def _bytes(self, scope: Scope) -> int:
        return max((self.bytes_of(at, scope) or 0 for at in range(len(self.arguments))), default=0)

    def _is_quick(self, scope: Scope, used: set[str], loops: int) -> bool:
        passed = [_value(scope, text) for text in self.arguments if used & _dependencies([text], scope)]
        turns = max((value for value in passed if isinstance(value, int)), default=1)
        return bool(self._threads(scope) * max(turns, 1) ** loops <= MOST_TURNS)

    def _threads(self, scope: Scope) -> int:
        grid, block, _ = self.extents(scope)
        return prod(grid or (1,)) * prod(block or (1,))

    def _used(self) -> set[str]:
        """Every name that grid, arrays and numbers depend on, except those that the block depends on."""
        names, extents = _dependencies(self.config[1:3], self.scope), self.extents(self.scope)[1:]
        smaller = {name: self.scope.having({name: value // 2}) for name, value in self.scope.roots.items()}
        free = {name for name in names & smaller.keys() if self.extents(smaller[name])[1:] == extents}
        block = {name for name in names if not _dependencies([name], self.scope) & free}  # not min(256, n)
        block |= set(_WORD.findall(self.template))
        rest = (*self.config[:1], *self.arguments, *self.allocated.values())
        return _dependencies(rest, self.scope) - block - self.fixed


@lru_cache(maxsize=16)
def launch_sites(text: str) -> tuple[LaunchSite, ...]:
    """Return the launches in a file's text, whose own headers are included inline."""
    text = without_inactive(without_comments(text, in_columns=True))
    plain = _MEMBER.sub(r"\1" + INSIDE + r"\2", _STRING.sub('""', text))
    every = pieces(text)
    known = _top_level(plain, every)
    device = device_macros(text)
    bodies = {macro[1]: macro[2] for macro in MACRO.finditer(plain.replace("\\\n", "  "))}
    for_device = [piece for piece in every if device.search(piece.text)]
    texts = [piece.text for piece in for_device]
    fixed = frozenset(
        word for piece in for_device for word in {*_WORD.findall(piece.text)} - _parameters(piece)
    )
    fixed |= _dependencies(texts, Scope(bodies)) | {
        word for name in _dependencies(texts, Scope(bodies)) for word in _WORD.findall(bodies[name])
    }
    functions = _Functions(plain, every)
    sites: list[LaunchSite] = []
    for piece, own in functions.sources:
        if "<<<" in own:
            for match in _LAUNCH.finditer(own):
                sites += _site(match, plain, piece, functions, known, fixed)
    return tuple(sites)


def _parameters(piece: Piece) -> set[str]:
    """The names of a function's parameters, which shadow outer names."""
    return {_parameter_name(text) for text in _split(piece.taken)} if piece.is_function else set()


def _top_level(plain: str, every: Sequence[Piece]) -> frozenset[str]:
    """Every name that template arguments may use unchanged."""
    defined = {macro[1] for macro in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", plain, re.M)}
    for piece in every:
        if not piece.is_function:
            defined |= {match[1] or match[2] for match in _DEFINITION.finditer(piece.text)}
    return _KNOWN | defined


class _Functions:
    """The functions of a file and the arguments of their calls, cached because many launches need them."""

    def __init__(self, plain: str, every: Sequence[Piece]) -> None:
        lines = plain.split("\n")
        self.sources = [(piece, _source_of(lines, piece)) for piece in every if piece.is_function]
        self.whole_numbers = _whole_numbers(plain)
        self._calls: dict[tuple[int, int], list[_Passed]] = {}
        self._allocators = [allocator for piece, own in self.sources for allocator in _allocators(piece, own)]

    def allocations(self, own: str) -> Iterator[tuple[str, str]]:
        """Names and bytes of the arrays that a function allocates, directly or through its calls."""
        yield from _allocations(own)
        for called, parameters, name, bytes_ in self._allocators:
            for call in re.finditer(rf"\b{called}\s*(?:<[^;<>()]*>)?\s*\(", own) if called in own else ():
                arguments, _ = _list(own, call.end(), ")")
                passed = dict(zip(parameters, arguments, strict=False))
                if array := _last_word(passed.get(name, "")):
                    of_type = re.sub(r"\bsizeof\s*\(\s*T\w*\s*\)", f"sizeof(*{array})", bytes_)
                    yield array, _replaced(of_type, passed)

    def calls(self, piece: Piece, depth: int = 0) -> list[_Passed]:
        """The cached result of ``_calls``."""
        key = piece.begin, depth
        if key not in self._calls:
            self._calls[key] = [*_calls(piece, self, depth)]
        return self._calls[key]


def _allocators(piece: Piece, own: str) -> Iterator[tuple[str, list[str], str, str]]:
    """Name, parameters, allocated parameter and bytes of functions that allocate for a pointer parameter."""
    parameters = [_parameter_name(text) for text in _split(piece.taken)]
    for name, bytes_ in _allocations(own):
        if name in parameters:
            whole = bytes_
            for _ in range(_DEEPEST_CALL):
                whole = _replaced(whole, scope_of("", own).own)
            yield piece.name, parameters, name, whole


def _replaced(text: str, values: Mapping[str, str]) -> str:
    """An expression with some of its names replaced by expressions."""
    return re.sub(_WORD, lambda match: f"({values[match[0]]})" if match[0] in values else match[0], text)


def _source_of(lines: Sequence[str], piece: Piece) -> str:
    """A function's text, without the spaces that some editors put into a launch's brackets."""
    own = "\n".join(lines[piece.first - 1 : piece.last])
    return re.sub(r">>\s*>", ">>>", re.sub(r"<<\s*<", "<<<", own))


def _site(
    match: re.Match[str],
    plain: str,
    piece: Piece,
    functions: _Functions,
    known: frozenset[str],
    fixed: frozenset[str],
) -> Iterator[LaunchSite]:
    own = match.string
    config, after = _list(own, match.end(), ">>>")
    opened = re.compile(r"\s*\(").match(own, after)
    arguments, _ = _list(own, opened.end(), ")") if opened else ((), after)
    before = own[: match.start()]
    scope, free = scope_of(plain, before), fixed - scope_of("", before).values.keys()
    scope = replace(scope, values={**scope.values, **_redefined(plain, piece.first), **scope.own})
    allocated = dict(functions.allocations(own)) or dict(functions.allocations(plain))
    template_text = " ".join((match["template"] or "").split())
    for passed, sizes in functions.calls(piece):
        kernel = _last_word(passed.get(match["name"], match["name"]))
        for bound in _instances(piece, plain):
            here = scope.having({**passed, **scope.own, **bound, **_condition_values(before)})
            here = _completed(
                here, [*config, *arguments, *allocated.values(), *sizes.values()], functions.whole_numbers
            )
            template = _resolved(template_text, here, known)
            unchanged = (free - passed.keys()) | _dependencies([template_text], here)
            yield LaunchSite(kernel, template, config, arguments, {**allocated, **sizes}, here, unchanged)


def _completed(scope: Scope, texts: Sequence[str], whole: frozenset[str]) -> Scope:
    """The scope with assumed sizes for integers in some expressions whose value the text does not determine.

    Examples are ``int n = count(file)``, ``image.width``, and ``int n;`` that a call sets.
    """
    for _ in range(_MOST_CALLS):
        names = _dependencies(texts, scope)
        words = {
            word for text in (*texts, *map(scope.values.__getitem__, names)) for word in _WORD.findall(text)
        }
        free = words - scope.values.keys() - scope.functions.keys()
        assumed = {name for name in free if INSIDE in name or name in whole}
        unknown = {name for name in names if name in whole and scope.value(name) is None}
        for name in unknown:
            text = scope.values[name]
            used = {*_WORD.findall(text), *_dependencies([text], scope)}
            if "sizeof" not in text and not used & (assumed | unknown - {name}):
                assumed.add(name)
        if not assumed:
            break
        scope = scope.having({name: assumed_size(name) for name in assumed})
    return scope


def _whole_numbers(plain: str) -> frozenset[str]:
    """The names that a text declares as integers anywhere."""
    each, names = rf"\w+\s*(?:={_INITIAL})?", set()
    for several in re.finditer(rf"{_WHOLE_TYPE}((?:{each},\s*)*\w+)\s*[=;,)]", plain):
        names |= {name[1] for name in re.finditer(rf"(\w+)\s*(?:={_INITIAL})?(?:,|\Z)", several[1])}
    return frozenset(names)


def _redefined(plain: str, line: int) -> dict[str, str]:
    """The values, at a line, of macros that are undefined with ``#undef`` anywhere."""
    undefined = {*re.findall(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", plain, re.M)}
    above = "\n".join(plain.split("\n")[:line]) if undefined else ""
    return {
        macro[1]: macro[2].strip()
        for macro in MACRO.finditer(above)
        if macro[1] in undefined and macro[2].strip()
    }


def _condition_values(before: str) -> dict[str, str]:
    """The values of names that a condition right before a launch implies: ``if (block_size == 16) {``."""
    match = _CONDITION.search(before)
    if not match:
        return {}
    if match["name"]:
        return {match["name"]: match["value"]}
    switches = _SWITCH.findall(before[: match.start()])
    return {switches[-1]: match["label"]} if switches else {}


def _calls(piece: Piece, functions: _Functions, depth: int) -> list[_Passed]:
    """The arguments of a file's calls of a host function, by parameter, and the bytes of its arrays.

    The caller's names get a suffix. Sizes that no call passes are assumed.
    """
    parts = _split(piece.taken)
    names = [_parameter_name(text) for text in parts]
    calls: list[_Passed] = []
    if not piece.name or depth >= _DEEPEST_CALL:
        return [({}, {})]
    for caller, own in functions.sources:
        if not names or piece.name not in own or caller is piece or len(calls) >= _MOST_CALLS:
            continue
        for call in re.finditer(rf"\b{piece.name}\s*(?:<[^;<>()]*>)?\s*\(", own):
            arguments, _ = _list(own, call.end(), ")")
            outer, bytes_ = functions.calls(caller, depth + 1)[0]
            values = {**outer, **scope_of("", own[: call.start()]).values}
            bytes_ = {**bytes_, **dict(functions.allocations(own))}
            suffix = "_" * 2 * (depth + 1)
            inner = {name + suffix: _with_suffix(text, values, suffix) for name, text in values.items()}
            passed = dict(reversed([*zip(names, arguments, strict=False)]))
            inner |= {name: _with_suffix(text, values, suffix) for name, text in passed.items()}
            words = {name: _last_word(text) for name, text in passed.items()}
            sizes = {
                n: _with_suffix(bytes_[word], values, suffix) for n, word in words.items() if word in bytes_
            }
            calls.append((inner, sizes))
    if calls:
        return calls
    declared = [*zip(names, parts, strict=True)]
    sizes = {name: assumed_size(name) for name, parameter in declared if _WHOLE.fullmatch(parameter)}
    for name, parameter in declared:
        if re.match(r"(?:const\s+)?dim3\b", parameter):
            sizes |= {name: f"dim3({name}_size, {name}_size)", f"{name}_size": assumed_size(name)}
    return [(sizes, {})]


def _parameter_name(parameter: str) -> str:
    pointer = re.search(r"\(\s*[*&]+\s*(\w+)\s*\)\s*\(", parameter)
    return pointer[1] if pointer else _last_word(re.sub(r"=.*|\[.*", "", parameter, flags=re.S))


def _with_suffix(text: str, names: Mapping[str, str], suffix: str) -> str:
    """An expression with a suffix on some of its names."""
    return re.sub(
        r"(?<![.\w])[A-Za-z_]\w*", lambda match: match[0] + suffix if match[0] in names else match[0], text
    )


def _instances(piece: Piece, plain: str) -> list[dict[str, str]]:
    """The template arguments of a file's calls of a host function; one empty dict if there are none."""
    head = _TEMPLATE.match(piece.head)
    if not head or not piece.name:
        return [{}]
    parameters = [re.sub(r"=.*", "", text).split()[-1] for text in head["taken"].split(",") if text.split()]
    calls = re.findall(rf"\b{piece.name}\s*<([^<>;()]*)>\s*\(", plain)
    instances = [dict(zip(parameters, map(str.strip, text.split(",")), strict=False)) for text in calls]
    return [instance for at, instance in enumerate(instances) if instance not in instances[:at]] or [{}]


def _resolved(template: str, scope: Scope, known: frozenset[str]) -> str:
    """Template arguments with the host function's own names replaced by values; empty if any is unknown."""
    if not template:
        return ""
    parts = []
    for argument in _split(template[1:-1]):
        name = argument if _is_known(argument, known) else scope.values.get(argument, argument)
        value = None if _is_known(name, known) else scope.value(name)
        if isinstance(value, int | float):
            name = str(value)
        elif not _is_known(name, known):
            return ""
        parts.append(name)
    return f"<{', '.join(parts)}>"


def _is_known(text: str, known: frozenset[str]) -> bool:
    return known.issuperset(_WORD.findall(re.sub(r"\b\d\w*", "", text)))


def _allocations(text: str) -> Iterator[tuple[str, str]]:
    """Names and bytes of arrays; a Thrust vector also has the name of its data pointer."""
    for vector in re.finditer(r"\bdevice_vector\s*<\s*(?:unsigned\s+)?(\w+)\s*>\s+([^;&]*);", text):
        for name in re.findall(r"\b(\w+)\s*(?=[({=])", vector[2]):
            yield from (
                (alias, f"{name}{INSIDE}size * sizeof({vector[1]})")
                for alias in (name, f"{name}{INSIDE}data")
            )
    for call in _ALLOCATION.finditer(text):
        parts, _ = _list(text, call.end(), ")")
        if len(parts) >= 2 and (name := _last_word(parts[0])):
            yield name, parts[1]


def _last_word(text: str) -> str:
    words = _WORD.findall(re.sub(r"\[[^][]*\]", "", text))
    return words[-1] if words else ""


def _list(text: str, at: int, end: str) -> tuple[tuple[str, ...], int]:
    """The parts of a list that begins at ``at``, and the position after its end."""
    depth, begin = 0, at
    while at < len(text):
        if depth == 0 and text.startswith(end, at):
            return tuple(_split(text[begin:at])), at + len(end)
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return (), len(text)


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _dependencies(texts: Sequence[str], scope: Scope) -> set[str]:
    """All names that some expressions depend on, directly or through other names."""
    names: set[str] = set()
    waiting = [word for text in texts for word in _WORD.findall(text)]
    while waiting:
        word = waiting.pop()
        if word not in names and word in scope.values:
            names.add(word)
            waiting += _WORD.findall(scope.values[word])
    return names


def _value(scope: Scope, text: str) -> Value | None:
    inner = re.fullmatch(r"\{(.*)\}", text.strip(), re.S)
    return scope.value(f"dim3({inner[1]})" if inner else text)


def _extents(value: Value | None) -> tuple[int, ...] | None:
    extents = tuple(int(extent) for extent in value) if isinstance(value, tuple) else None
    if isinstance(value, int | float):
        extents = (int(value),)
    return extents if extents and all(extent > 0 for extent in extents) else None
