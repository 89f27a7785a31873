"""The instructions on bits: logic, shifts, fields, counts, permutations, byte products.

In: parsed instructions. Out: rows of the program. They are carried out in ``engine/integer_cases.h``.
"""

from __future__ import annotations

from .operands import Operands
from .ptx import type_bytes


class Bits(Operands):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _logic(self, name: str) -> None:
        kind = self.instruction.opcode[-1]
        target, left, right = self._operands()
        wide = type_bytes(kind) == 8
        self._emit(
            f"{name}_{64 if wide else 32}",
            d0=self._slot(target),
            a=self._value(left, kind),
            b=self._value(right, kind),
        )

    def _op_and(self) -> None:
        self._logic("and")

    def _op_or(self) -> None:
        self._logic("or")

    def _op_xor(self) -> None:
        self._logic("xor")

    def _op_not(self) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        bits = 1 if kind == "pred" else 8 * type_bytes(kind)
        self._emit(f"not_{bits}", d0=self._slot(target), a=self._value(source, kind))

    def _op_shl(self) -> None:
        self._shift("shl", "")

    def _op_shr(self) -> None:
        kind = self.instruction.opcode[-1]
        self._shift("shr", "s" if kind.startswith("s") else "u")

    def _shift(self, name: str, sign: str) -> None:
        kind = self.instruction.opcode[-1]
        target, value, by = self._operands()
        self._emit(
            f"{name}_{sign}{8 * type_bytes(kind)}",
            d0=self._slot(target),
            a=self._value(value, kind),
            b=self._value(by, "u32"),
        )

    def _op_shf(self) -> None:
        parts = self.instruction.opcode
        target, low, high, by = self._operands()
        self._emit(
            f"shf_{parts[1]}",
            sub=int("wrap" in parts),
            d0=self._slot(target),
            a=self._value(low, "b32"),
            b=self._value(high, "b32"),
            c=self._value(by, "u32"),
        )

    def _op_lop3(self) -> None:
        target, *sources = self._operands()
        a, b, c = (self._value(part, "b32") for part in sources[:3])
        self._emit("lop3", d0=self._slot(target), a=a, b=b, c=c, imm=int(sources[3], 0))

    def _op_prmt(self) -> None:
        if len(self.instruction.opcode) != 2:
            raise self._unknown()
        target, *sources = self._operands()
        a, b, c = (self._value(part, "b32") for part in sources)
        self._emit("prmt", d0=self._slot(target), a=a, b=b, c=c)

    def _count_bits(self, name: str) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        self._emit(f"{name}_{8 * type_bytes(kind)}", d0=self._slot(target), a=self._value(source, kind))

    def _op_popc(self) -> None:
        self._count_bits("popc")

    def _op_clz(self) -> None:
        self._count_bits("clz")

    def _op_brev(self) -> None:
        self._count_bits("brev")

    def _op_bfind(self) -> None:
        if self.instruction.opcode != ("bfind", "u32"):
            raise self._unknown()
        target, source = self._operands()
        self._emit("bfind_u32", d0=self._slot(target), a=self._value(source, "u32"))

    def _op_bfe(self) -> None:
        kind = self.instruction.opcode[-1]
        target, *sources = self._operands()
        self._emit(
            f"bfe_{kind}",
            d0=self._slot(target),
            a=self._value(sources[0], kind),
            b=self._value(sources[1], "u32"),
            c=self._value(sources[2], "u32"),
        )

    def _op_bfi(self) -> None:
        target, *sources = self._operands()
        kind = self.instruction.opcode[-1]
        kinds = (kind, kind, "b32", "b32")
        a, b, c, e = (self._value(part, one) for part, one in zip(sources, kinds, strict=True))
        self._emit(
            f"bfi_{8 * type_bytes(self.instruction.opcode[-1])}", d0=self._slot(target), a=a, b=b, c=c, e=e
        )

    def _op_dp4a(self) -> None:
        _, first, second = self.instruction.opcode
        target, *sources = self._operands()
        a, b, c = (self._value(part, "b32") for part in sources)
        self._emit(
            "dp4a", type=self.types[first], type2=self.types[second], d0=self._slot(target), a=a, b=b, c=c
        )
