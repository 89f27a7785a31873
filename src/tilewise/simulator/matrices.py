"""The instructions of the matrix units: ``mma.sync``, ``ldmatrix``, ``stmatrix``.

In: parsed instructions. Out: rows of the program. The layouts of fragments stand in ``engine/matrix.h``.
"""

from __future__ import annotations

import re

import numpy as np

from .accesses import MemoryInstructions
from .operands import SATURATE, SPACES

_SHAPES = {
    ("f16", 8), ("f16", 16), ("bf16", 8), ("bf16", 16), ("tf32", 4), ("tf32", 8),
    ("s8", 16), ("s8", 32), ("u8", 16), ("u8", 32),
}  # fmt: skip
"""Type of the multiplicands and columns of A, for 16 rows and 8 columns of the result."""
_PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}


class Matrices(MemoryInstructions):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _op_mma(self) -> None:
        parts = [part for part in self.instruction.opcode if part != "satfinite"]
        if len(parts) != 10 or parts[1:3] + parts[4:6] != ["sync", "aligned", "row", "col"]:
            raise self._unknown()
        d, a, b, c = parts[6:]
        shape = re.fullmatch(r"m16n8k(\d+)", parts[3])
        if not shape or (a, int(shape[1])) not in _SHAPES:
            raise self._unknown()
        k = int(shape[1])
        integer = a in ("s8", "u8")
        pairs = {"s8": ("s8", "u8"), "u8": ("s8", "u8")}.get(a, (a,))
        results = ("s32",) if integer else ("f16", "f32") if a == "f16" else ("f32",)
        if b not in pairs or d not in results or c not in results:
            raise self._unknown()
        per = _PER_REGISTER[a]
        widths = (2 if d == "f16" else 4, k // (2 * per), k // (4 * per), 2 if c == "f16" else 4)
        slots: list[int] = []
        for text, width, kind in zip(self._operands(), widths, (d, a, b, c), strict=True):
            names = [part.strip() for part in text.strip("{}").split(",")]
            if len(names) != width:
                raise self._unknown()
            plain = kind if kind in ("f32", "s32") else "b32"
            slots += [self._value(name, plain) for name in names]
        table = np.array(slots, np.int32)
        self.tables.append(table)
        self._emit(
            "mma",
            flags=SATURATE if "satfinite" in self.instruction.opcode else 0,
            sub=k,
            type=self.types["f32" if a == "tf32" else a],
            type2=self.types["f32" if b == "tf32" else b],
            c=self.types[d],
            b=self.types[c],
            e=self._constant(0xFFFFFFFF, 4),
            imm=table.ctypes.data,
        )

    def _op_ldmatrix(self) -> None:
        self._matrices(self._operands()[0], self._operands()[1], "ldmatrix")

    def _op_stmatrix(self) -> None:
        self._matrices(self._operands()[1], self._operands()[0], "stmatrix")

    def _matrices(self, registers: str, address: str, op: str) -> None:
        parts = self.instruction.opcode
        names = [part.strip() for part in registers.strip("{}").split(",")]
        count = next((int(part[1:]) for part in parts if part in ("x1", "x2", "x4")), 0)
        if "m8n8" not in parts or parts[-1] != "b16" or len(names) != count:
            raise self._unknown()
        slots = [self._slot(name) if op == "ldmatrix" else self._value(name, "b32") for name in names]
        base, offset = self._address(address)
        self.grain = min(self.grain, 4)
        self._emit(
            op,
            sub=count,
            type=SPACES[self._space()],
            type2=int("trans" in parts),
            a=base,
            e=self._constant(0xFFFFFFFF, 4),
            imm=offset,
            **{f"d{number}": slot for number, slot in enumerate(slots)},
        )
