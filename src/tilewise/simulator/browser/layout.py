"""The layout of the machine's structures in WebAssembly, whose pointers have 32 bits.

In: ``engine/shared.def``. Out: a table for ``site/web/run/machine.js``: offsets, sizes and numbers by name.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tilewise.simulator.engine import shared
from tilewise.simulator.engine.memory import MOST_WATCHED, NUMPY_TYPES

_STRUCTURES = {
    "Launch": "LAUNCH_FIELD",
    "Buffer": "BUFFER_FIELD",
    "Ins": "INS_FIELD",
    "Hazard": "HAZARD_FIELD",
    "Access": "ACCESS_FIELD",
}
_KINDS = {"u8": "u8", "u16": "u16", "s32": "i32", "u32": "u32", "s64": "i64", "u64": "u64"}


def layout() -> dict[str, Any]:
    """The table, as JSON data.

    ``structures``: each with its ``size`` in bytes and its ``fields``, ``[offset, type, count]`` by name; a
    pointer is a ``u32``. ``counters``: the columns of a row of 64-bit counters. ``status`` and ``constants``:
    numbers by name. ``word_bytes`` and ``most_watched``: as in ``engine/memory.py``. ``spaces``, and
    ``watch``, the kind of a row for a watched variable: as in a trace. ``watched``: NumPy's types by number.
    """
    return {
        "structures": {name: _structure(macro) for name, macro in _STRUCTURES.items()},
        "counters": list(shared.COUNTERS),
        "status": shared.numbers("STATUS"),
        "constants": {name: str(value) for name, value in shared.values("CONSTANT").items()},
        "word_bytes": shared.WORD_BYTES,
        "most_watched": MOST_WATCHED,
        "spaces": shared.numbers("SPACE"),
        "watch": shared.numbers("KIND")["WATCH"],
        "watched": {shared.numbers("TYPE")[name]: numpy for name, numpy in NUMPY_TYPES.items()},
    }


def _structure(macro: str) -> dict[str, Any]:
    fields: dict[str, list[Any]] = {}
    at, align = 0, 1
    for kind, name, count in shared.fields(macro):
        size = 4 if "*" in kind else ctypes.sizeof(shared.SCALARS[kind])
        at = -(-at // size) * size
        fields[name] = [at, "u32" if "*" in kind else _KINDS[kind], count]
        at += size * count
        align = max(align, size)
    return {"size": -(-at // align) * align, "fields": fields}
