"""The device variables of a CUDA source: `__device__`, `__constant__`, `__managed__`.

In: source text. Out: its declarations, with element type and shape if the text determines them. Names in PTX
are here too.
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
    """A device variable at the top level of a source."""

    name: str
    """Its qualified name: `counter`, `ns::table`."""
    is_constant: bool
    """Whether it is `__constant__`, so kernels cannot write it."""
    is_initialised: bool
    """Whether the source initialises it."""
    is_copied_to: bool
    """Whether host code of the same source copies to it."""
    dtype: np.dtype[np.generic] | None
    """The element's NumPy type; None for structs and pointers, which are shown as bytes."""
    shape: tuple[int, ...] | None
    """Its extents, that of a vector type last; -1 for an unknown one, () for a single value, None if two are
    unknown."""

    @property
    def needs_a_value(self) -> bool:
        """Whether it must be set before a kernel reads it.

        C++ initialises all variables to zero. But only a copy from the host can set a constant, and if the
        source's host code copies to a variable, its kernels do not expect zeros.
        """
        return not self.is_initialised and (self.is_constant or self.is_copied_to)


def device_variables(source: str, compiled: str = "") -> dict[str, DeviceVariable]:
    """Return the variables that a source declares, by name.

    Args:
        source: the original source with its host code.
        compiled: the same with its headers inserted; by default the source itself.
    """
    text = without_comments(compiled or source)
    if not _WORDS.search(text):
        return {}
    aliases, scope = known_types(text), scope_of(text)
    copied = {match[1].rpartition("::")[2] for match in _TO_SYMBOL.finditer(without_comments(source))}
    variables = {}
    for piece in pieces(text):
        if not _is_variable(piece):
            continue
        for name, dimensions, base, is_initialised in _declarators(piece.text, aliases):
            known = c_type(base)
            extents = _extents(dimensions, scope)
            vector = (known.width,) if known and known.width > 1 else ()
            whole = "::".join([*piece.spaces, name])
            variables[whole] = DeviceVariable(
                whole,
                "__constant__" in piece.head,
                is_initialised,
                name in copied,
                known.dtype if known else None,
                None if extents is None else extents + vector,
            )
    return variables


def _is_variable(piece: Piece) -> bool:
    bare = re.sub(r"\balignas\s*\(|__align__\s*\(", "", _declared(piece.text))
    return bool(_WORDS.search(piece.text)) and "(" not in bare


def _declared(text: str) -> str:
    """A declaration without its initialiser."""
    return re.split(r"[={]", text, maxsplit=1)[0]


def _declarators(text: str, aliases: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...], str, bool]]:
    """Name, extents, element type and whether it is initialised, for each variable of a declaration."""
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
    for declarator, declared in (
        (first, match["name"] + match["dims"]),
        *((part, _declared(part)) for part in rest),
    ):
        named = re.fullmatch(r"\s*(\**)\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)", declared)
        if named:
            dimensions = tuple(re.findall(r"\[([^\]]*)\]", named[3]))
            yield named[2], dimensions, base + named[1], len(_declared(declarator)) < len(declarator)


def _extents(dimensions: tuple[str, ...], scope: Scope) -> tuple[int, ...] | None:
    """Extents as numbers; -1 for an unknown one, which follows from the size in bytes."""
    values = [scope.value(dimension) for dimension in dimensions]
    extents = [value if isinstance(value, int) else -1 for value in values]
    return tuple(extents) if extents.count(-1) < 2 else None


def reachable(source: str) -> str:
    """Return a source without `static` on its variables; every line and column stays.

    Otherwise a compiler assumes that a variable that only the host writes is zero.
    """
    text = without_comments(source, in_columns=True)
    if not re.search(r"\bstatic\b", text) or not _WORDS.search(text):
        return source
    result = source
    for piece in pieces(text):
        if not _is_variable(piece) or not re.search(r"\bstatic\b", piece.head):
            continue
        word = re.compile(r"\bstatic\b").search(result, piece.begin)
        if word and word.start() < piece.begin + len(piece.head):
            result = f"{result[: word.start()]}      {result[word.end() :]}"
    return result


def shown_name(symbol: str) -> str:
    """Return a variable's name in the source from its name in PTX: ``_ZN2ns1qE`` is ``ns::q``."""
    match = re.fullmatch(r"_Z(?:N(?P<nested>(?:L?\d+\w+?)+)E|L(?P<own>\d+\w+))", symbol)
    if not match:
        return symbol
    rest, parts = match["nested"] or match["own"], []
    while head := re.match(r"L?(\d+)", rest):
        end = head.end() + int(head[1])
        parts.append(rest[head.end() : end])
        rest = rest[end:]
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) if not rest else symbol


def symbols(name: str) -> tuple[str, ...]:
    """Return a variable's possible names in PTX from its name in the source."""
    *spaces, own = name.split("::")
    last = f"{len(own)}{own}"
    if not spaces:
        return name, f"_ZL{last}", f"_ZN12_GLOBAL__N_1{last}E"
    outer = "".join(f"{len(part)}{part}" for part in spaces)
    return f"_ZN{outer}{last}E", f"_ZN{outer}L{last}E"
