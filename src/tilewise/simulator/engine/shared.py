"""Definitions shared by Python and the compiled machine: named numbers, layouts of rows and structures.

In: ``engine/shared.def``, which the machine's C includes too. Out: the same tables for Python, so each number
and field is defined once.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ENGINE = Path(__file__).parent
"""The machine's sources."""
SCALARS: dict[str, Any] = {
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "s32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "s64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
}
"""The types of fields that are not pointers."""


@cache
def _definitions() -> str:
    return re.sub(r"^(//|#).*$", "", (ENGINE / "shared.def").read_text(), flags=re.M)


@cache
def _entries(macro: str) -> tuple[tuple[str, ...], ...]:
    """The arguments of each entry of a macro, in order."""
    entries = re.findall(rf"\b{macro}\(([^()]*)\)", _definitions())
    return tuple(tuple(part.strip() for part in entry.split(",")) for entry in entries)


@cache
def numbers(macro: str) -> dict[str, int]:
    """Name to number of ``OP``, ``TYPE``, ``MATH``, ``ATOMIC`` and so on, as the C enum counts them."""
    return {name: number for number, (name, *_) in enumerate(_entries(macro))}


@cache
def values(macro: str) -> dict[str, int]:
    """Name to value of ``CONSTANT``, ``FLAG`` or ``WGMMA_FLAG``."""
    return {name: int(value, 0) for name, value in _entries(macro)}


def fields(macro: str) -> list[tuple[str, str, int]]:
    """The fields of a structure: C type, name, and count, which is more than 1 for an array."""
    result = []
    for kind, declared in _entries(macro):
        name, _, count = declared.partition("[")
        result.append((kind, name, int(count.rstrip("]") or 1)))
    return result


def _members(macro: str) -> list[tuple[str, Any]]:
    """The fields of a structure with their ctypes."""
    members = []
    for kind, name, count in fields(macro):
        scalar = ctypes.c_void_p if "*" in kind else SCALARS[kind]
        members.append((name, scalar * count if count > 1 else scalar))
    return members


def _row(macro: str) -> np.dtype[np.void]:
    """A structure as a NumPy dtype, padded as C pads it."""
    return np.dtype([(name, np.dtype(kind)) for name, kind in _members(macro)], align=True)


NO_SLOT, GLOBAL_BASE, GLOBAL_SHIFT = (
    values("CONSTANT")[name] for name in ("NO_SLOT", "GLOBAL_BASE", "GLOBAL_SHIFT")
)
HAZARD_KINDS = {number: words for number, (_, words) in enumerate(_entries("HAZARD"), 1)}
"""The names of hazards, by the machine's number."""
COUNTERS = tuple(numbers("COUNTER"))
"""The columns of a row of counters."""
INSTRUCTION, HAZARD, ACCESS = (_row(f"{name}_FIELD") for name in ("INS", "HAZARD", "ACCESS"))
WORD_BYTES = _row("WORD_FIELD").itemsize
"""Bytes of race history per watched word of a global array."""


class Buffer(ctypes.Structure):
    """An array in global memory."""

    _fields_ = _members("BUFFER_FIELD")


class Launch(ctypes.Structure):
    """Everything that ``tw_run`` reads and writes."""

    _fields_ = _members("LAUNCH_FIELD")
