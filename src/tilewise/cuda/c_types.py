"""CUDA C's types beside NumPy's: one table, used wherever an argument is checked or converted.

In: the name of a type, without qualifiers. Out: `CType`, or None for a type that the source defines itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class CType:
    """A scalar type, or a vector of a few of them."""

    name: str
    """As CUDA C writes it."""
    dtype: np.dtype[Any] | None
    """Its element's NumPy type; None for void, which fits any."""
    width: int = 1
    """Elements: 4 for float4."""

    @property
    def size(self) -> int:
        """Bytes that one value takes, padding of three-element vectors included only where CUDA has it."""
        return 0 if self.dtype is None else self.dtype.itemsize * self.width


_SCALARS = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "int8_t": "int8",
    "unsigned char": "uint8",
    "uint8_t": "uint8",
    "short": "int16",
    "int16_t": "int16",
    "unsigned short": "uint16",
    "uint16_t": "uint16",
    "int": "int32",
    "int32_t": "int32",
    "unsigned int": "uint32",
    "uint32_t": "uint32",
    "long": "int64",
    "long long": "int64",
    "int64_t": "int64",
    "ptrdiff_t": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "uint64_t": "uint64",
    "size_t": "uint64",
    "ssize_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "uint16",
    "nv_bfloat16": "uint16",
    "float": "float32",
    "double": "float64",
}
"""bf16 has no NumPy type: its arrays are the bits, as uint16. `long` is 64 bits wide, as on Linux."""

_VECTORS = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
}


def _table() -> dict[str, CType]:
    table = {name: CType(name, np.dtype(dtype)) for name, dtype in _SCALARS.items()}
    table["void"] = CType("void", None)
    for prefix, dtype in _VECTORS.items():
        for width in (1, 2, 3, 4):
            table[f"{prefix}{width}"] = CType(f"{prefix}{width}", np.dtype(dtype), width)
    for name in ("half2", "__half2"):
        table[name] = CType(name, np.dtype("float16"), 2)
    for name in ("nv_bfloat162", "__nv_bfloat162"):
        table[name] = CType(name, np.dtype("uint16"), 2)
    return table


_TYPES = _table()


def c_type(name: str) -> CType | None:
    """Look a type up; the words of integer types may come in any order, `int` may be left out."""
    words = name.replace("std::", "").split()
    if len(words) == 1:
        return _TYPES.get({"unsigned": "unsigned int", "signed": "int"}.get(words[0], words[0]))
    if words and set(words) <= {"unsigned", "signed", "char", "short", "int", "long"}:
        sign = (
            "unsigned" if "unsigned" in words else "signed" if "char" in words and "signed" in words else ""
        )
        kind = (
            "char"
            if "char" in words
            else "short"
            if "short" in words
            else " ".join(["long"] * words.count("long"))
        )
        return _TYPES.get(f"{sign} {kind or 'int'}".strip())
    return None
