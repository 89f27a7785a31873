"""The instructions of a warpgroup: ``wgmma`` with its fences and waits, ``setmaxnreg``.

In: parsed instructions. Out: rows of the program. Layouts and hazards stand in ``engine/wgmma.h``.
"""

from __future__ import annotations

import re

import numpy as np

from .accesses import MemoryInstructions
from .operands import SATURATE

_COLUMNS_OF_A = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32}
_RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",)}
_A_REGISTERS, _TURN_A, _TURN_B, _NEGATE_A, _NEGATE_B = 1, 2, 4, 8, 16


class Warpgroups(MemoryInstructions):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _op_wgmma(self) -> None:
        self.agents = True
        parts = [part for part in self.instruction.opcode if part not in ("sync", "aligned", "satfinite")]
        all_lanes = self._constant(0xFFFFFFFF, 4)
        if parts[1:] == ["fence"]:
            self._emit("wgmma_fence", e=all_lanes)
        elif parts[1:] == ["commit_group"]:
            self._emit("wgmma_commit", e=all_lanes)
        elif parts[1:] == ["wait_group"]:
            self._emit("wgmma_wait", e=all_lanes, imm=int(self._operands()[0], 0))
        elif parts[1] == "mma_async" and len(parts) == 6:
            self._product(*parts[2:])
        else:
            raise self._unknown()

    def _product(self, shape_text: str, d: str, a: str, b: str) -> None:
        shape = re.fullmatch(r"m64n(\d+)k(\d+)", shape_text)
        pairs = {"s8": ("s8", "u8"), "u8": ("s8", "u8")}.get(a, (a,))
        if not shape or d not in _RESULTS.get(a, ()) or b not in pairs:
            raise self._unknown()
        n, k = int(shape[1]), int(shape[2])
        if k != _COLUMNS_OF_A[a] or n % 8 or not 8 <= n <= 256:
            raise self._unknown()
        result, first, second, scale, *immediates = self._operands()
        results = [part.strip() for part in result.strip("{}").split(",")]
        in_registers = first.startswith("{")
        fragments = [part.strip() for part in first.strip("{}").split(",")]
        if len(results) != n // 8 * (2 if d == "f16" else 4) or len(fragments) != (4 if in_registers else 1):
            raise self._unknown()
        how = self._immediates([int(part, 0) for part in immediates], a, in_registers)
        slots = [self._slot(name) for name in results]
        slots += [self._value(name, "b32" if in_registers else "b64") for name in fragments]
        slots += [self._value(second, "b64"), self._value(scale, "pred")]
        table = np.array(slots, np.int32)
        self.tables.append(table)
        self.grain = min(self.grain, 4)
        plain = {"tf32": "f32"}
        self._emit(
            "wgmma",
            flags=SATURATE if "satfinite" in self.instruction.opcode else 0,
            sub=n,
            type=self.types[plain.get(a, a)],
            pad=self.types[plain.get(b, b)],
            type2=self.types[d],
            c=how,
            e=self._constant(0xFFFFFFFF, 4),
            imm=table.ctypes.data,
        )

    def _immediates(self, given: list[int], a: str, in_registers: bool) -> int:
        """Negations and transposes: whole numbers have none, and only 16-bit types may lie the other way."""
        how = _A_REGISTERS if in_registers else 0
        if a in ("s8", "u8"):
            if given:
                raise self._unknown()
            return how
        wanted = 2 if a == "tf32" else 3 if in_registers else 4
        if len(given) != wanted or any(one not in (1, -1) for one in given[:2]):
            raise self._unknown()
        if any(one not in (0, 1) for one in given[2:]):
            raise self._unknown()
        how |= (_NEGATE_A if given[0] < 0 else 0) | (_NEGATE_B if given[1] < 0 else 0)
        if wanted == 3:
            return how | (_TURN_B if given[2] else 0)
        if wanted == 4:
            return how | (_TURN_A if given[2] else 0) | (_TURN_B if given[3] else 0)
        return how

    def _op_setmaxnreg(self) -> None:
        count = int(self._operands()[0], 0)
        if not 24 <= count <= 256 or count % 8:
            raise self._unknown()
        self._emit("setmaxnreg", e=self._constant(0xFFFFFFFF, 4), imm=count)
