"""A parsed PTX module: functions, variables and instructions with their source lines.

In and out: frozen dataclasses, with names as text. ``ptx_parser`` creates them, and ``program`` decodes the
instructions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache


class PtxError(Exception):
    """PTX that the parser does not know; includes the PTX line."""


@dataclass(frozen=True)
class Variable:
    """A variable in some state space, or a parameter."""

    name: str
    """Its name in the PTX."""
    space: str
    """``global``, ``shared``, ``const``, ``local`` or ``param``."""
    type: str
    """Element type, such as ``b8`` or ``f32``."""
    count: int
    """Elements; 1 for a scalar and 0 for an array of unknown length (dynamic shared memory)."""
    align: int
    """Alignment in bytes."""
    initial: tuple[int | str, ...] = ()
    """Initial elements as integers, or ``name+8`` for an address; missing ones are zero."""

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
        return self.count * type_bytes(self.type)


@dataclass(frozen=True)
class Instruction:
    """An instruction, ``@!p opcode operands``, and its source line."""

    opcode: tuple[str, ...]
    """The mnemonic split at its dots: ``("ld", "global", "v2", "f32")``."""
    operands: tuple[str, ...]
    """Operand texts; a vector ``{a, b}`` or an address ``[r+4]`` is one operand."""
    predicate: str
    """The guarding predicate register, or empty."""
    negated: bool
    """Whether the guard is negated."""
    line: int
    """Line in the user's source; 0 if the compiler gives none."""
    text: str
    """The instruction as printed, for messages."""
    calls: tuple[int, ...] = ()
    """If its function was inlined: the lines of the calls, innermost first."""
    header: str = ""
    """Its place in a header of the source, ``helper.cuh:12``; ``line`` is then the call's."""
    is_near: bool = False
    """Whether the compiler moved or merged it without a line: ``line`` is then a nearby line."""

    @property
    def caller(self) -> int:
        """The kernel's line that called the inlined function of this instruction; else 0."""
        return self.calls[-1] if self.calls else 0


@dataclass(frozen=True)
class Function:
    """An entry point or a device function."""

    name: str
    """Its name as written."""
    is_entry: bool
    """Whether it can be launched."""
    parameters: tuple[Variable, ...]
    """In order."""
    results: tuple[Variable, ...]
    """Return values (device functions only)."""
    registers: dict[str, str]
    """Register prefix or name to type: ``{"%r": "b32"}``."""
    variables: tuple[Variable, ...]
    """Variables declared in the body."""
    instructions: tuple[Instruction, ...]
    """In order."""
    labels: dict[str, int]
    """Label to the index of the instruction after it."""
    targets: dict[str, tuple[str, ...]]
    """Branch tables of ``brx.idx``."""


@dataclass(frozen=True)
class Ptx:
    """A module."""

    functions: dict[str, Function] = field(default_factory=dict)
    """Functions with a body, by name."""
    externs: frozenset[str] = frozenset()
    """Functions declared but not defined, which the machine implements."""
    variables: tuple[Variable, ...] = ()
    """Variables of the module."""


_BYTES = {"pred": 1, "8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@cache
def type_bytes(name: str) -> int:
    """Bytes of a PTX type such as ``f32``, ``bf16x2`` or ``b64``."""
    if name == "pred":
        return 1
    if name.endswith("x2"):
        return 2 * type_bytes(name[:-2])
    digits = re.search(r"\d+$", name)
    if not digits or digits[0] not in _BYTES:
        raise PtxError(f"unknown type .{name}")
    return _BYTES[digits[0]]
