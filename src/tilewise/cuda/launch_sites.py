"""The launches that a CUDA file makes itself: ``sgemm<BM, BN><<<grid, block, bytes>>>(a, b, n)``.

In: a file's text. Out: for each launch its template arguments, its grid, block and shared memory, and what it
passes, as far as the text alone says; sizes too large for a first look are made smaller together, so that
grid, arrays and numbers still fit each other.
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
"""Of a launch that is proposed as the file makes it: its threads, bytes of each of its arrays, and how often
all threads together go through its loops."""

_LAUNCH = re.compile(r"\b(?P<name>\w+)\s*(?P<template><[^;<>]*(?:<[^<>;]*>[^;<>]*)*>)?\s*<<<")
_TEMPLATE = re.compile(r"\s*template\s*<(?P<taken>[^{}]*?)>\s*(?=\w)")
_MADE = re.compile(
    r"\b(?:struct|class|union|enum(?:\s+class)?|using|namespace)\s+(\w+)\s*(?=[{:=]|\Z)"
    r"|\b(\w+)\s*(?:=(?!=)|\{|(?:\[[^][]*\]\s*)?;\s*\Z)"
)
"""Types and constants that a piece makes."""
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_ALLOCATION = re.compile(r"\bcuda(?:Malloc(?:Managed|Host|Async)?|HostAlloc)\s*\(")
_INNER = re.compile(r"(\w+)\s*\+\s*(.+)|&\s*(\w+)\s*\[([^][]+)\]", re.S)
"""A pointer into an array: ``x + 3``, ``&x[3]``."""
_MEMBER = re.compile(r"\b([A-Za-z_]\w*)[ \t]*(?:\.|->)[ \t]*(?![xyz]\b)([A-Za-z_]\w*)(?:[ \t]*\([ \t]*\))?")
"""``image.width``, ``image->width()``: one name for what is said of it."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_WHOLE = re.compile(
    r"(?:(?:const|unsigned|signed|long|std::|static)\s*)*(?:int|size_t|unsigned|long|uint|u?int\d+_t|[ius]\d+)\b[^*]*"
)
"""A parameter that is a whole number."""
_WHOLE_TYPE = r"\b(?:int|size_t|unsigned|long|auto|uint|u?int\d+_t)\s+"
_INITIAL = r"(?:[^;,(){}]|\((?:[^(){};]|\([^(){};]*\))*\))*"
"""What a declaration gives a name."""
_POWER = re.compile(r"\(*\s*1[uUlL]*\s*<<\s*([A-Za-z_]\w*)\s*\)*")
_LINE = 64
"""Bytes that a share of an array is a multiple of, whatever its elements are."""
_UNDER = re.compile(
    r"\bif\s*\(\s*(?P<name>\w+)\s*==\s*(?P<value>\w+)\s*\)\s*(?:\{[^{}]*)?\Z"
    r"|\bcase\s+(?P<label>\w+)\s*:[^{}:]*\Z"
)
"""Behind it, a name has a value."""
_SWITCH = re.compile(r"\bswitch\s*\(\s*(\w+)\s*\)")
_MOST_CALLS, _DEEPEST_CALL = 8, 4
_Passed: TypeAlias = tuple[dict[str, str], dict[str, str]]
"""What a call passes a host function, by parameter, and the bytes of the arrays among it."""
_KNOWN = frozenset(
    {"float", "double", "int", "unsigned", "char", "short", "long", "bool", "half", "half2", "size_t"}
    | {"nv_bfloat16", "__half", "__nv_bfloat16", "uint", "uchar", "true", "false", "std", "const"}
    | {f"{kind}{n}" for kind in ("float", "double", "int", "uint", "uchar") for n in (2, 3, 4)}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""What template arguments may name in any file."""


@dataclass(frozen=True)
class LaunchSite:
    """A launch in a file's host code."""

    kernel: str
    """Without its namespace."""
    template: str
    """Its template arguments, ``<32, float>``, with values for what only the host names; empty without."""
    config: tuple[str, ...]
    """Grid, block, bytes of shared memory and stream, as written."""
    arguments: tuple[str, ...]
    """What it passes, as written."""
    allocated: Mapping[str, str]
    """Bytes of the arrays that the function allocates, by their names, as written."""
    scope: Scope
    """What names stand for there."""
    fixed: frozenset[str]
    """Names that the device's code uses, too, and that the host's function does not define itself; and those
    that the template arguments follow from."""

    def small(self, loops: int = 0, most_threads: int = MOST_THREADS) -> Scope:
        """The scope with its large sizes divided until the launch is one for a first look.

        Where even then its threads are too many, they stay as the file has them if its arrays are not huge.

        Args:
            loops: how many loops of the kernel, one inside another, run to a number that it is passed.
            most_threads: of the launch; where no size changes them, they stay as many as they are.
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
                {name: sizes[name] for name in names & sizes.keys() if sizes[name] >= one}
                for names, one in floors
            )
            large = next(filter(None, above), None)
            if not large and is_wide and self._threads(scope) == self._threads(self.scope):
                return self.small(loops, self._threads(scope))
            if not large:
                return self.scope if is_wide and self._bytes(self.scope) <= 128 * MOST_BYTES else scope
            most = max(large.values())
            sizes.update({name: value // 2 for name, value in large.items() if value == most})
            smaller = self.scope.having(sizes)
            if self.extents(smaller)[0] is None:  # it has no block any more
                break
            scope = smaller
        return scope

    def extents(self, scope: Scope) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, int | None]:
        """Grid, block and bytes of shared memory, each None where the text does not say."""
        grid, block, shared = (*(_value(scope, one) for one in self.config[:3]), None, None, None)[:3]
        if len(self.config) < 3:
            shared = 0
        return _extents(grid), _extents(block), shared if isinstance(shared, int) else None

    def passed(self, at: int, scope: Scope) -> Value | None:
        """The number that it passes as argument ``at``."""
        return _value(scope, self._argument(at))

    def bytes_of(self, at: int, scope: Scope) -> int | None:
        """The bytes of the array that it passes as argument ``at``."""
        written = next(iter(self._allocated(at)), "")
        value = scope.value(written)
        if not isinstance(value, int | float) or value <= 0:
            return None
        return max(int(value), self._share(written, int(value), scope))

    def first(self, at: int, scope: Scope) -> int:
        """The element of its array that argument ``at`` points to: 3 of ``x + 3``; 0 if nothing says it."""
        inner = _INNER.fullmatch(self._argument(at))
        found = scope.value(inner[2] or inner[4]) if inner and (inner[1] or inner[3]) in self.allocated else 0
        return found if isinstance(found, int) else 0

    def _share(self, written: str, bytes_: int, scope: Scope) -> int:
        """The bytes that an array must keep where it became small by a size that nothing else follows from.

        ``N = 100 * 100`` may be a comment only, with ``nx = 100, ny = 100`` beside it: then the array has as
        many bytes for each thread as at first.
        """
        changed = {name for name, one in scope.values.items() if self.scope.values.get(name) != one}
        rest = _names_behind([*self.config[:1], *self.arguments], self.scope) & changed
        behind = _names_behind([written], self.scope) & changed
        first = self.scope.value(written)
        if not rest or not behind or behind & rest or not isinstance(first, int | float):
            return bytes_
        share = int(first) * self._threads(scope) // max(self._threads(self.scope), 1)
        return -(-share // _LINE) * _LINE

    def says(self, at: int, scope: Scope) -> bool:
        """Whether the text says the number, or how large the array is, that it passes as argument ``at``."""
        if self.passed(at, scope) is None and self.bytes_of(at, scope) is None:
            return False
        behind = _names_behind([self._argument(at), *self._allocated(at)], self.scope)
        return not behind & self._assumed

    def says_length(self, at: int, scope: Scope) -> bool:
        """Whether an array is as long as the text says: it has the length of what else the launch says.

        A size that is assumed says nothing, unless grid or numbers follow from the same one.
        """
        if self.bytes_of(at, scope) is None:
            return False
        behind = _names_behind(self._allocated(at), self.scope)
        numbers = [one for at, one in enumerate(self.arguments) if self.passed(at, scope) is not None]
        rest = _names_behind([*self.config, *numbers], self.scope)
        return not (behind - rest) & self._assumed

    def random_below(self, at: int, text: str, scope: Scope) -> int | None:
        """The number that all elements of the array ``at`` are below, where the host draws them."""
        name = _last_word(self._argument(at))
        copied = name and re.search(rf"\bcudaMemcpy(?:Async)?\s*\(\s*{name}\s*,\s*&?\s*(\w+)", text)
        host = f"(?:{name}|{copied[1]})" if copied else name
        drawn = r"=[\s(]*(?:[a-z_\d]+\)[\s(]*)?rand\s*\(\s*\)\s*%([^;]+)"
        made = name and re.search(rf"\b{host}\s*\[[^;=]*\]\s*{drawn}", text)
        below = scope.value(made[1].strip(" )")) if made else None
        return below if isinstance(below, int) and below > 0 else None

    def is_zeroed(self, at: int, text: str) -> bool:
        """Whether the host fills the array ``at`` with zeros, and copies nothing there."""
        name = _last_word(self._argument(at))
        zeros = rf"\bcudaMemset(?:Async)?\s*\(\s*(?:\([\w\s*]+\)\s*)?{name}\s*,\s*0\s*,"
        copied = rf"\bcudaMemcpy(?:Async)?\s*\(\s*{name}\s*,"
        return bool(name and re.search(zeros, text) and not re.search(copied, text))

    def _argument(self, at: int) -> str:
        return self.arguments[at] if at < len(self.arguments) else ""

    def _allocated(self, at: int) -> list[str]:
        """The bytes of the arrays that argument ``at`` names; with an offset those of the whole array."""
        words = _WORD.findall(self._argument(at))
        return [self.allocated[word] for word in words if word in self.allocated]

    @cached_property
    def _assumed(self) -> set[str]:
        """The names of sizes that the text does not say."""
        return {name for name, text in self.scope.values.items() if ASSUMED.fullmatch(text)}

    def _powers(self) -> dict[str, int]:
        """Sizes like ``1 << bits``, where nothing else of the launch goes by the exponent."""
        powers = {name: _POWER.fullmatch(one) for name, one in self.scope.values.items()}
        words = {word for one in (*self.config, *self.arguments) for word in _WORD.findall(one)}
        values = {name: self.scope.value(name) for name, one in powers.items() if one and one[1] not in words}
        return {name: one for name, one in values.items() if isinstance(one, int)}

    def _bytes(self, scope: Scope) -> int:
        return max((self.bytes_of(at, scope) or 0 for at in range(len(self.arguments))), default=0)

    def _is_quick(self, scope: Scope, used: set[str], loops: int) -> bool:
        passed = [_value(scope, one) for one in self.arguments if used & _names_behind([one], scope)]
        turns = max((one for one in passed if isinstance(one, int)), default=1)
        return bool(self._threads(scope) * max(turns, 1) ** loops <= MOST_TURNS)

    def _threads(self, scope: Scope) -> int:
        grid, block, _ = self.extents(scope)
        return prod(grid or (1,)) * prod(block or (1,))

    def _used(self) -> set[str]:
        """Every name that grid, arrays and numbers follow from, but not those that the block follows from."""
        behind, extents = _names_behind(self.config[1:3], self.scope), self.extents(self.scope)[1:]
        smaller = {name: self.scope.having({name: one // 2}) for name, one in self.scope.roots.items()}
        free = {name for name in behind & smaller.keys() if self.extents(smaller[name])[1:] == extents}
        block = {name for name in behind if not _names_behind([name], self.scope) & free}  # not min(256, n)
        block |= set(_WORD.findall(self.template))
        rest = (*self.config[:1], *self.arguments, *self.allocated.values())
        return _names_behind(rest, self.scope) - block - self.fixed


@lru_cache(maxsize=16)
def launch_sites(text: str) -> tuple[LaunchSite, ...]:
    """The launches of a file's text, its own headers in place."""
    text = without_inactive(without_comments(text, in_columns=True))
    plain = _MEMBER.sub(r"\1" + INSIDE + r"\2", _STRING.sub('""', text))
    every = pieces(text)
    known = _top_level(plain, every)
    device = device_macros(text)
    bodies = {one[1]: one[2] for one in MACRO.finditer(plain.replace("\\\n", "  "))}
    for_device = [one for one in every if device.search(one.text)]
    texts = [one.text for one in for_device]
    fixed = frozenset(word for one in for_device for word in {*_WORD.findall(one.text)} - _parameters(one))
    fixed |= _names_behind(texts, Scope(bodies)) | {
        word for name in _names_behind(texts, Scope(bodies)) for word in _WORD.findall(bodies[name])
    }
    functions = _Functions(plain, every)
    found: list[LaunchSite] = []
    for piece, own in functions.sources:
        if "<<<" in own:
            for match in _LAUNCH.finditer(own):
                found += _site(match, plain, piece, functions, known, fixed)
    return tuple(found)


def _parameters(piece: Piece) -> set[str]:
    """The names of a function's parameters, which hide those outside."""
    return {_taken(one) for one in _split(piece.taken)} if piece.is_function else set()


def _top_level(plain: str, every: Sequence[Piece]) -> frozenset[str]:
    """Every name that template arguments may use as it is."""
    made = {one[1] for one in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", plain, re.M)}
    for piece in every:
        if not piece.is_function:
            made |= {one[1] or one[2] for one in _MADE.finditer(piece.text)}
    return _KNOWN | made


class _Functions:
    """The functions of a file, and what its calls pass each: found once, as many launches ask for them."""

    def __init__(self, plain: str, every: Sequence[Piece]) -> None:
        lines = plain.split("\n")
        self.sources = [(one, _source_of(lines, one)) for one in every if one.is_function]
        self.whole_numbers = _whole_numbers(plain)
        self._calls: dict[tuple[int, int], list[_Passed]] = {}
        self._allocators = [one for piece, own in self.sources for one in _allocators(piece, own)]

    def allocations(self, own: str) -> Iterator[tuple[str, str]]:
        """The arrays that a function's text allocates, itself or by a function that it passes a pointer."""
        yield from _allocations(own)
        for called, taken, name, bytes_ in self._allocators:
            for call in re.finditer(rf"\b{called}\s*(?:<[^;<>()]*>)?\s*\(", own) if called in own else ():
                given, _ = _list(own, call.end(), ")")
                passed = dict(zip(taken, given, strict=False))
                if array := _last_word(passed.get(name, "")):
                    of_type = re.sub(r"\bsizeof\s*\(\s*T\w*\s*\)", f"sizeof(*{array})", bytes_)
                    yield array, _replaced(of_type, passed)

    def calls(self, piece: Piece, depth: int = 0) -> list[_Passed]:
        """What the calls of a function pass it, as ``_calls`` says."""
        key = piece.begin, depth
        if key not in self._calls:
            self._calls[key] = [*_calls(piece, self, depth)]
        return self._calls[key]


def _allocators(piece: Piece, own: str) -> Iterator[tuple[str, list[str], str, str]]:
    """Of a function that allocates for a pointer that it takes: its name, parameters, this one, and bytes."""
    taken = [_taken(one) for one in _split(piece.taken)]
    for name, bytes_ in _allocations(own):
        if name in taken:
            whole = bytes_
            for _ in range(_DEEPEST_CALL):
                whole = _replaced(whole, scope_of("", own).own)
            yield piece.name, taken, name, whole


def _replaced(text: str, values: Mapping[str, str]) -> str:
    """An expression with others instead of some of its names."""
    return re.sub(_WORD, lambda one: f"({values[one[0]]})" if one[0] in values else one[0], text)


def _source_of(lines: Sequence[str], piece: Piece) -> str:
    """A function's text; some editors put a space into the brackets of a launch."""
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
    scope = replace(scope, values={**scope.values, **_defined_anew(plain, piece.first), **scope.own})
    allocated = dict(functions.allocations(own)) or dict(functions.allocations(plain))
    written = " ".join((match["template"] or "").split())
    for passed, sizes in functions.calls(piece):
        kernel = _last_word(passed.get(match["name"], match["name"]))
        for bound in _instances(piece, plain):
            here = scope.having({**passed, **scope.own, **bound, **_under(before)})
            here = _completed(
                here, [*config, *arguments, *allocated.values(), *sizes.values()], functions.whole_numbers
            )
            template = _resolved(written, here, known)
            unchanged = (free - passed.keys()) | _names_behind([written], here)
            yield LaunchSite(kernel, template, config, arguments, {**allocated, **sizes}, here, unchanged)


def _completed(scope: Scope, texts: Sequence[str], whole: frozenset[str]) -> Scope:
    """The scope with assumed sizes for whole numbers in some expressions of which the text says no value.

    ``int n = count(file)`` is such a number, ``image.width`` is one, and ``int n;`` that a call sets.
    """
    for _ in range(_MOST_CALLS):
        names = _names_behind(texts, scope)
        words = {
            word for one in (*texts, *map(scope.values.__getitem__, names)) for word in _WORD.findall(one)
        }
        free = words - scope.values.keys() - scope.functions.keys()
        found = {one for one in free if INSIDE in one or one in whole}
        unknown = {one for one in names if one in whole and scope.value(one) is None}
        for one in unknown:
            text = scope.values[one]
            behind = {*_WORD.findall(text), *_names_behind([text], scope)}
            if "sizeof" not in text and not behind & (found | unknown - {one}):
                found.add(one)
        if not found:
            break
        scope = scope.having({one: assumed_size(one) for one in found})
    return scope


def _whole_numbers(plain: str) -> frozenset[str]:
    """The names that a text declares as whole numbers somewhere."""
    each, found = rf"\w+\s*(?:={_INITIAL})?", set()
    for several in re.finditer(rf"{_WHOLE_TYPE}((?:{each},\s*)*\w+)\s*[=;,)]", plain):
        found |= {name[1] for name in re.finditer(rf"(\w+)\s*(?:={_INITIAL})?(?:,|\Z)", several[1])}
    return frozenset(found)


def _defined_anew(plain: str, line: int) -> dict[str, str]:
    """What macros that ``#undef`` ends somewhere stand for at a line."""
    ended = {*re.findall(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", plain, re.M)}
    above = "\n".join(plain.split("\n")[:line]) if ended else ""
    return {one[1]: one[2].strip() for one in MACRO.finditer(above) if one[1] in ended and one[2].strip()}


def _under(before: str) -> dict[str, str]:
    """The values of names that a condition right before a launch gives: ``if (block_size == 16) {``."""
    found = _UNDER.search(before)
    if not found:
        return {}
    if found["name"]:
        return {found["name"]: found["value"]}
    switches = _SWITCH.findall(before[: found.start()])
    return {switches[-1]: found["label"]} if switches else {}


def _calls(piece: Piece, functions: _Functions, depth: int) -> list[_Passed]:
    """What the file's calls of a host function pass it, by parameter, and the bytes of the arrays among it.

    The caller's own names get an ending. A size that no call gives is an assumed one.
    """
    parts = _split(piece.taken)
    taken = [_taken(one) for one in parts]
    found: list[_Passed] = []
    if not piece.name or depth >= _DEEPEST_CALL:
        return [({}, {})]
    for caller, own in functions.sources:
        if not taken or piece.name not in own or caller is piece or len(found) >= _MOST_CALLS:
            continue
        for call in re.finditer(rf"\b{piece.name}\s*(?:<[^;<>()]*>)?\s*\(", own):
            given, _ = _list(own, call.end(), ")")
            outer, bytes_ = functions.calls(caller, depth + 1)[0]
            values = {**outer, **scope_of("", own[: call.start()]).values}
            bytes_ = {**bytes_, **dict(functions.allocations(own))}
            ending = "_" * 2 * (depth + 1)
            inner = {name + ending: _marked(text, values, ending) for name, text in values.items()}
            passed = dict(reversed([*zip(taken, given, strict=False)]))
            inner |= {name: _marked(text, values, ending) for name, text in passed.items()}
            words = {name: _last_word(text) for name, text in passed.items()}
            sizes = {n: _marked(bytes_[word], values, ending) for n, word in words.items() if word in bytes_}
            found.append((inner, sizes))
    if found:
        return found
    declared = [*zip(taken, parts, strict=True)]
    sizes = {name: assumed_size(name) for name, one in declared if _WHOLE.fullmatch(one)}
    for name, one in declared:
        if re.match(r"(?:const\s+)?dim3\b", one):
            sizes |= {name: f"dim3({name}_size, {name}_size)", f"{name}_size": assumed_size(name)}
    return [(sizes, {})]


def _taken(parameter: str) -> str:
    """The name of a parameter."""
    pointer = re.search(r"\(\s*[*&]+\s*(\w+)\s*\)\s*\(", parameter)
    return pointer[1] if pointer else _last_word(re.sub(r"=.*|\[.*", "", parameter, flags=re.S))


def _marked(text: str, names: Mapping[str, str], ending: str) -> str:
    """An expression with an ending at some of its names."""
    return re.sub(r"(?<![.\w])[A-Za-z_]\w*", lambda one: one[0] + ending if one[0] in names else one[0], text)


def _instances(piece: Piece, plain: str) -> list[dict[str, str]]:
    """The template arguments that a file gives a host function itself; one empty dict without."""
    head = _TEMPLATE.match(piece.head)
    if not head or not piece.name:
        return [{}]
    taken = [re.sub(r"=.*", "", one).split()[-1] for one in head["taken"].split(",") if one.split()]
    calls = re.findall(rf"\b{piece.name}\s*<([^<>;()]*)>\s*\(", plain)
    found = [dict(zip(taken, map(str.strip, one.split(",")), strict=False)) for one in calls]
    return [one for at, one in enumerate(found) if one not in found[:at]] or [{}]


def _resolved(template: str, scope: Scope, known: frozenset[str]) -> str:
    """Template arguments with values for names that only the host's function knows; empty if unknown."""
    if not template:
        return ""
    parts = []
    for one in _split(template[1:-1]):
        name = one if _is_known(one, known) else scope.values.get(one, one)
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
    """Names of arrays, and their bytes; what Thrust's vectors hold has the name of a pointer to it, too."""
    for one in re.finditer(r"\bdevice_vector\s*<\s*(?:unsigned\s+)?(\w+)\s*>\s+([^;&]*);", text):
        for name in re.findall(r"\b(\w+)\s*(?=[({=])", one[2]):
            yield from (
                (each, f"{name}{INSIDE}size * sizeof({one[1]})") for each in (name, f"{name}{INSIDE}data")
            )
    for found in _ALLOCATION.finditer(text):
        parts, _ = _list(text, found.end(), ")")
        if len(parts) >= 2 and (name := _last_word(parts[0])):
            yield name, parts[1]


def _last_word(text: str) -> str:
    words = _WORD.findall(re.sub(r"\[[^][]*\]", "", text))
    return words[-1] if words else ""


def _list(text: str, at: int, end: str) -> tuple[tuple[str, ...], int]:
    """The parts of a list that begins at ``at``, and the place behind its end."""
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


def _names_behind(texts: Sequence[str], scope: Scope) -> set[str]:
    """Names in some expressions, and in what these stand for."""
    found: set[str] = set()
    waiting = [word for one in texts for word in _WORD.findall(one)]
    while waiting:
        word = waiting.pop()
        if word not in found and word in scope.values:
            found.add(word)
            waiting += _WORD.findall(scope.values[word])
    return found


def _value(scope: Scope, text: str) -> Value | None:
    inner = re.fullmatch(r"\{(.*)\}", text.strip(), re.S)
    return scope.value(f"dim3({inner[1]})" if inner else text)


def _extents(value: Value | None) -> tuple[int, ...] | None:
    made = tuple(int(one) for one in value) if isinstance(value, tuple) else None
    if isinstance(value, int | float):
        made = (int(value),)
    return made if made and all(one > 0 for one in made) else None
