"""What a kernel's source says about its shared arrays: element type and shape.

In: CUDA C. Out: a shape and a dtype by name, as far as both can be read off.
An array whose size cannot be, such as dynamic shared memory, is left out.
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
_ONE = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)")
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
    """Empty where it cannot be read off."""
    dtype: np.dtype[np.generic] | None
    """None for a type that has no NumPy twin."""


def shared_arrays(source: str) -> dict[str, Shared]:
    """Return the shared arrays that a source declares.

    Args:
        source: CUDA C, with the ``#define`` lines that its sizes hang on.
    """
    plain = without_comments(source)
    values = {one[1] or one[3]: (one[2] or one[4]).strip() for one in _NAMED.finditer(plain)}
    scope = Scope(values)
    declared = {}
    for found in _SHARED.finditer(plain):
        name = " ".join(found["type"].replace("volatile", "").split())
        known = c_type(name) if name in _NUMBERS else None
        for one in _ONE.finditer(found["declared"]):
            extents = [scope.value(part) for part in re.findall(r"\[([^\]]*)\]", one[2])]
            sizes = tuple(extent for extent in extents if isinstance(extent, int) and extent > 0)
            shape = sizes if len(sizes) == len(extents) else ()
            declared[one[1]] = Shared(shape, known.dtype if known else None)
    return declared
