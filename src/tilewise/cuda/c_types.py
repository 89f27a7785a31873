"""The NumPy types of CUDA C's types: one table for all checks and conversions of arguments.

In: the name of a type, without qualifiers. Out: `CType`, or None for a type that the source defines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class CType(NamedTuple):
    """A scalar or vector type."""

    dtype: np.dtype[Any] | None
    """Its element's NumPy type; None for void, which matches any."""
    width: int = 1
    """Elements: 4 for float4."""


_SCALARS = {
    "bool": ("bool",),
    "int8": ("char", "signed char", "int8_t"),
    "uint8": ("unsigned char", "uint8_t", "uchar"),
    "int16": ("short", "int16_t"),
    "uint16": ("unsigned short", "uint16_t", "ushort", "__nv_bfloat16", "nv_bfloat16"),
    "int32": ("int", "int32_t"),
    "uint32": ("unsigned int", "uint32_t", "uint"),
    "int64": ("long", "long long", "longlong", "int64_t", "ptrdiff_t", "ssize_t", "intptr_t"),
    "uint64": (
        "unsigned long",
        "unsigned long long",
        "ulonglong",
        "uint64_t",
        "size_t",
        "uintptr_t",
        "ulong",
    ),
    "float16": ("half", "__half"),
    "float32": ("float",),
    "float64": ("double",),
}
"""bf16 has no NumPy type: its arrays are the bits as uint16. `long` has 64 bits, as on Linux."""
_VECTORS = (
    *("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong"),
    *("float", "double"),
)
"""Types with vectors of 1 to 4 elements, such as float4."""


def _table() -> dict[str, CType]:
    table = {name: CType(np.dtype(dtype)) for dtype, names in _SCALARS.items() for name in names}
    table |= {
        f"{name}{width}": CType(table[name].dtype, width) for name in _VECTORS for width in (1, 2, 3, 4)
    }
    pairs = {"half2": "half", "__half2": "half"}
    pairs |= {"nv_bfloat162": "nv_bfloat16", "__nv_bfloat162": "nv_bfloat16"}
    table |= {name: CType(table[element].dtype, 2) for name, element in pairs.items()}
    return {**table, "void": CType(None)}


_TYPES = _table()


def c_type(name: str) -> CType | None:
    """Look up a type; the words of integer types may be in any order, and `int` may be omitted."""
    words = name.replace("std::", "").split()
    if len(words) == 1:
        return _TYPES.get({"unsigned": "unsigned int", "signed": "int"}.get(words[0], words[0]))
    if not words or not set(words) <= {"unsigned", "signed", "char", "short", "int", "long"}:
        return None
    kind = next((word for word in ("char", "short") if word in words), "")
    kind = kind or " ".join(["long"] * words.count("long")) or "int"
    is_signed_char = kind == "char" and "signed" in words
    sign = "unsigned " if "unsigned" in words else "signed " if is_signed_char else ""
    return _TYPES.get(sign + kind)
