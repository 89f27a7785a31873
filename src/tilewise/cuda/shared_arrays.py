"""What a kernel's source says about its shared arrays: element type and shape.

In: CUDA C. Out: a shape and a dtype by name, as far as both can be read off.
An array whose size cannot be, such as dynamic shared memory, is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tilewise.cuda.host_values import Scope

_SHARED = re.compile(
    r"__shared__\s+(?:__align__\s*\([^)]*\)\s*)?(?P<type>[A-Za-z_][\w ]*?)\s+"
    r"(?P<declared>\w+\s*(?:\[[^\]]*\]\s*)*(?:,\s*\w+\s*(?:\[[^\]]*\]\s*)*)*);"
)
_ONE = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)")
_NAMED = re.compile(
    r"^\s*#\s*define\s+(\w+)\s+([^\n/]+)|\bconst(?:expr)?\s+(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([^;,]+)",
    re.M,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_DTYPES = {
    "float": "f4",
    "double": "f8",
    "int": "i4",
    "unsigned": "u4",
    "unsigned int": "u4",
    "half": "f2",
    "__half": "f2",
    "long long": "i8",
    "unsigned long long": "u8",
}


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
    plain = _COMMENT.sub("", source)
    known: dict[str, str] = {}
    for found in _NAMED.finditer(plain):
        known[found[1] or found[3]] = (found[2] or found[4]).strip()
    scope = Scope(known)
    declared = {}
    for found in _SHARED.finditer(plain):
        kind = _DTYPES.get(" ".join(found["type"].replace("volatile", "").split()))
        for one in _ONE.finditer(found["declared"]):
            values = [scope.value(part) for part in re.findall(r"\[([^\]]*)\]", one[2])]
            sizes = tuple(value for value in values if isinstance(value, int) and value > 0)
            shape = sizes if len(sizes) == len(values) else ()
            declared[one[1]] = Shared(shape, np.dtype(kind) if kind else None)
    return declared
