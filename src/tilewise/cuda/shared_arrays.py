"""Element type and shape of a kernel's shared arrays, read from its source.

In: CUDA C. Out: a shape and a dtype by name, if the text determines them; the shape of dynamic shared
memory is empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tilewise.cuda.c_types import c_type
from tilewise.cuda.host_values import Scope
from tilewise.cuda.kernel_source import without_comments

_SHARED = re.compile(
    r"__shared__\s+(?:__align__\s*\([^)]*\)\s*)?(?P<type>[A-Za-z_][\w ]*?)\s+"
    r"(?P<declared>\w+\s*(?:\[[^\]]*\]\s*)*(?:,\s*\w+\s*(?:\[[^\]]*\]\s*)*)*);"
)
_DECLARATOR = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)")
_NAMED = re.compile(
    r"^\s*#\s*define\s+(\w+)\s+([^\n/]+)|\bconst(?:expr)?\s+(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([^;,]+)",
    re.M,
)
_NUMBERS = {"float", "double", "int", "unsigned", "unsigned int", "half", "__half", "long long"}
_NUMBERS |= {"unsigned long long"}
"""Types whose values are shown."""


@dataclass(frozen=True)
class Shared:
    """A declaration in shared memory."""

    shape: tuple[int, ...]
    """Empty if unknown."""
    dtype: np.dtype[np.generic] | None
    """None for a type without a NumPy equivalent."""


def shared_arrays(source: str) -> dict[str, Shared]:
    """Return the shared arrays that a source declares.

    Args:
        source: CUDA C, with the ``#define`` lines that its sizes depend on.
    """
    plain = without_comments(source)
    values = {match[1] or match[3]: (match[2] or match[4]).strip() for match in _NAMED.finditer(plain)}
    scope = Scope(values)
    declared = {}
    for declaration in _SHARED.finditer(plain):
        name = " ".join(declaration["type"].replace("volatile", "").split())
        known = c_type(name) if name in _NUMBERS else None
        for declarator in _DECLARATOR.finditer(declaration["declared"]):
            extents = [scope.value(part) for part in re.findall(r"\[([^\]]*)\]", declarator[2])]
            sizes = tuple(extent for extent in extents if isinstance(extent, int) and extent > 0)
            shape = sizes if len(sizes) == len(extents) else ()
            declared[declarator[1]] = Shared(shape, known.dtype if known else None)
    return declared
