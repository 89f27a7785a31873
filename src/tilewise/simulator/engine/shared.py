"""What Python and the compiled machine share: numbers by name, and the layout of rows and structures.

In: ``engine/shared.def``, which the machine's C includes too. Out: the same tables for Python: a number or a
field stands in one place.
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
"""The types of fields that are no pointers."""


@cache
def _definitions() -> str:
    return re.sub(r"^(//|#).*$", "", (ENGINE / "shared.def").read_text(), flags=re.M)


@cache
def _entries(macro: str) -> tuple[tuple[str, ...], ...]:
    """The arguments of each entry of a macro, in order."""
    found = re.findall(rf"\b{macro}\(([^()]*)\)", _definitions())
    return tuple(tuple(part.strip() for part in entry.split(",")) for entry in found)


@cache
def numbers(macro: str) -> dict[str, int]:
    """Name to number of ``OP``, ``TYPE``, ``MATH``, ``ATOMIC`` and so on, as the C enum counts them."""
    return {name: number for number, (name, *_) in enumerate(_entries(macro))}


@cache
def values(macro: str) -> dict[str, int]:
    """Name to value of ``CONSTANT``, ``FLAG`` or ``WGMMA_FLAG``."""
    return {name: int(value, 0) for name, value in _entries(macro)}


def fields(macro: str) -> list[tuple[str, str, int]]:
    """The fields of a structure: C type, name, and how many, of an array more than 1."""
    found = []
    for kind, declared in _entries(macro):
        name, _, count = declared.partition("[")
        found.append((kind, name, int(count.rstrip("]") or 1)))
    return found


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
"""What a hazard is called, by the machine's number."""
COUNTERS = tuple(numbers("COUNTER"))
"""The columns of a row of counters."""
INSTRUCTION, HAZARD, ACCESS = (_row(f"{name}_FIELD") for name in ("INS", "HAZARD", "ACCESS"))
WORD_BYTES = _row("WORD_FIELD").itemsize
"""Bytes that the machine keeps for each word of a global array that it watches for races."""


class Buffer(ctypes.Structure):
    """One array of global memory."""

    _fields_ = _members("BUFFER_FIELD")


class Launch(ctypes.Structure):
    """Everything that ``tw_run`` reads and writes."""

    _fields_ = _members("LAUNCH_FIELD")
