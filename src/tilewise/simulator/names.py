"""The numbers that the decoder and the machine share: one for each operation, type, comparison and function.

They are read from the machine's C sources, where each is spelled ``OP_add_f32``, ``T_f32``, ``M_exp`` and so
on; the same numbers go into the header that they include, so that the two cannot disagree.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("engine") / "machine.c"

_ENUMS = {
    "OP": "op",
    "T": "type",
    "R": "rounding",
    "M": "math",
    "A": "atomic",
    "C": "compare",
    "S": "special",
    "X": "shuffle",
    "B": "mbarrier",
}
_FIXED = {
    "T": ("pred", "u8", "s8", "u16", "s16", "f16", "bf16", "u32", "s32", "f32", "u64", "s64", "f64"),
    "R": ("none", "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"),
}
NO_SLOT = 0x7FFFFFFF


@cache
def machine_text() -> str:
    """All of the machine's C."""
    return "\n".join(path.read_text() for path in sorted(SOURCE.parent.glob("*.[ch]")))


@cache
def numbers(prefix: str) -> dict[str, int]:
    """Name to number for one of the prefixes ``OP T R M A C S X B``."""
    if prefix in _FIXED:
        names = list(_FIXED[prefix])
    else:
        text = machine_text()
        names = list(dict.fromkeys(re.findall(rf"\bcase {prefix}_(\w+):", text)))
    return {name: number for number, name in enumerate(names)}


def header() -> str:
    """The text of ``ops.h``."""
    parts = [f"#define NO_SLOT {NO_SLOT}"]
    for prefix, kind in _ENUMS.items():
        entries = ", ".join(f"{prefix}_{name} = {number}" for name, number in numbers(prefix).items())
        parts.append(f"enum {kind} {{ {entries} }};")
    return "\n".join(parts) + "\n"
