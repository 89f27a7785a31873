"""The variables that a CUDA source keeps on the device: `__device__`, `__constant__`, `__managed__`.

In: source text. Out: what it declares, with element type and shape where the text says them. What a name is
called in PTX is here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tilewise.cuda.c_types import c_type
from tilewise.cuda.host_values import Scope, scope_of
from tilewise.cuda.kernel_source import known_types, split, without_comments
from tilewise.cuda.top_level import Piece, pieces

_WORDS = re.compile(r"__(?:device|constant|managed)__")
_QUALIFIERS = re.compile(
    r"\b(?:static|extern|const|constexpr|volatile|inline|struct|alignas\s*\([^)]*\)|__align__\s*\([^)]*\)|"
    r'__\w+__)(?!\w)|"[^"]*"'
)
_TO_SYMBOL = re.compile(r"\bcudaMemcpyToSymbol(?:Async)?\s*\(\s*&?\s*((?:\w+::)*\w+)")


@dataclass(frozen=True)
class DeviceVariable:
    """A variable at the top level of a source, for the device."""

    name: str
    """As one asks for it: `counter`, `ns::table`."""
    is_constant: bool
    """Whether it is `__constant__`, so that kernels cannot write it."""
    is_initialised: bool
    """Whether the source gives it a value."""
    is_copied_to: bool
    """Whether host code of the same source copies to it."""
    dtype: np.dtype[np.generic] | None
    """The element's NumPy type; None for structs and pointers, whose bytes are seen."""
    shape: tuple[int, ...] | None
    """Its extents, that of a vector type last; -1 for one that the text does not say as a number, () for a
    single value, None where two are unknown."""

    @property
    def needs_a_value(self) -> bool:
        """Whether it has to be given one before a kernel reads it.

        C++ makes each of them zero. But nothing except a copy from the host can fill a constant, and where
        the source's host code copies to a variable, zeros are not what its kernels expect.
        """
        return not self.is_initialised and (self.is_constant or self.is_copied_to)


def device_variables(source: str, compiled: str = "") -> dict[str, DeviceVariable]:
    """What a source declares, by name.

    Args:
        source: as it is written, with its host code.
        compiled: the same with its headers in place; the source itself by default.
    """
    text = without_comments(compiled or source)
    if not _WORDS.search(text):
        return {}
    aliases, scope = known_types(text), scope_of(text)
    copied = {one[1].rpartition("::")[2] for one in _TO_SYMBOL.finditer(without_comments(source))}
    found = {}
    for piece in pieces(text):
        if not _is_variable(piece):
            continue
        for name, dimensions, base, is_initialised in _declarators(piece.text, aliases):
            known = c_type(base)
            extents = _extents(dimensions, scope)
            vector = (known.width,) if known and known.width > 1 else ()
            whole = "::".join([*piece.spaces, name])
            found[whole] = DeviceVariable(
                whole,
                "__constant__" in piece.head,
                is_initialised,
                name in copied,
                known.dtype if known else None,
                None if extents is None else extents + vector,
            )
    return found


def _is_variable(piece: Piece) -> bool:
    bare = re.sub(r"\balignas\s*\(|__align__\s*\(", "", _declared(piece.text))
    return bool(_WORDS.search(piece.text)) and "(" not in bare


def _declared(text: str) -> str:
    """A declaration without the value that it gives."""
    return re.split(r"[={]", text, maxsplit=1)[0]


def _declarators(text: str, aliases: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...], str, bool]]:
    """Name, extents, element type and whether it has a value, of each variable of a declaration."""
    first, *rest = split(" ".join(text.strip().rstrip(";").split()))
    words = _QUALIFIERS.sub(" ", _declared(first))
    match = re.fullmatch(r"\s*(?P<type>.*?[\s>*&])(?P<name>\w+)\s*(?P<dims>(?:\[[^\]]*\]\s*)*)", words)
    if not match or _WORDS.search(match["name"]):
        return
    base = " ".join(match["type"].split())
    for _ in range(8):
        if base not in aliases or aliases[base] == base:
            break
        base = " ".join(_QUALIFIERS.sub(" ", aliases[base]).split())
    for one, what in ((first, match["name"] + match["dims"]), *((part, _declared(part)) for part in rest)):
        named = re.fullmatch(r"\s*(\**)\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)", what)
        if named:
            dimensions = tuple(re.findall(r"\[([^\]]*)\]", named[3]))
            yield named[2], dimensions, base + named[1], len(_declared(one)) < len(one)


def _extents(dimensions: tuple[str, ...], scope: Scope) -> tuple[int, ...] | None:
    """Extents as numbers; -1 for one that the text does not say, which the size in bytes then says."""
    values = [scope.value(one) for one in dimensions]
    found = [one if isinstance(one, int) else -1 for one in values]
    return tuple(found) if found.count(-1) < 2 else None


def reachable(source: str) -> str:
    """A source whose variables are not static; every line and column stays.

    Else a compiler takes a variable that only a host writes for zero.
    """
    text = without_comments(source, in_columns=True)
    if not re.search(r"\bstatic\b", text) or not _WORDS.search(text):
        return source
    made = source
    for piece in pieces(text):
        if not _is_variable(piece) or not re.search(r"\bstatic\b", piece.head):
            continue
        word = re.compile(r"\bstatic\b").search(made, piece.begin)
        if word and word.start() < piece.begin + len(piece.head):
            made = f"{made[: word.start()]}      {made[word.end() :]}"
    return made


def shown_name(symbol: str) -> str:
    """What a variable is called in the source, by its name in the PTX: ``_ZN2ns1qE`` is ``ns::q``."""
    found = re.fullmatch(r"_Z(?:N(?P<nested>(?:L?\d+\w+?)+)E|L(?P<own>\d+\w+))", symbol)
    if not found:
        return symbol
    rest, parts = found["nested"] or found["own"], []
    while head := re.match(r"L?(\d+)", rest):
        end = head.end() + int(head[1])
        parts.append(rest[head.end() : end])
        rest = rest[end:]
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) if not rest else symbol


def symbols(name: str) -> tuple[str, ...]:
    """What a variable may be called in the PTX, by its name in the source."""
    *spaces, own = name.split("::")
    last = f"{len(own)}{own}"
    if not spaces:
        return name, f"_ZL{last}", f"_ZN12_GLOBAL__N_1{last}E"
    outer = "".join(f"{len(part)}{part}" for part in spaces)
    return f"_ZN{outer}{last}E", f"_ZN{outer}L{last}E"
