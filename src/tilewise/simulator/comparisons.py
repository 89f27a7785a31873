"""Comparisons, selections and conversions.

In: parsed instructions. Out: rows of the program. They are carried out in ``engine/integer_cases.h``.
"""

from __future__ import annotations

from .names import NO_SLOT, numbers
from .operands import OTHER_NEGATED, Operands, UnknownInstructionError
from .ptx import type_bytes


class Comparisons(Operands):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _op_setp(self) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        combine = next(
            (number for number, name in enumerate(("and", "or", "xor"), 1) if name in parts[2:-1]), 0
        )
        targets, left, right, *rest = self._operands()
        first, _, second = targets.partition("|")
        flags = self._flags()
        fields: dict[str, int] = {}
        if combine:
            other = rest[0]
            if other.startswith("!"):
                flags |= OTHER_NEGATED
                other = other[1:]
            fields["c"] = self._value(other, "pred")
        plain = {"b16": "u16", "b32": "u32", "b64": "u64"}.get(kind, kind)
        self._emit(
            f"setp_{plain}",
            flags=flags,
            sub=numbers("C")[parts[1]],
            e=combine,
            d0=self._slot(first.strip()),
            d1=self._slot(second.strip()) if second else NO_SLOT,
            a=self._value(left, kind),
            b=self._value(right, kind),
            **fields,
        )

    def _op_selp(self) -> None:
        kind = self.instruction.opcode[-1]
        target, yes, no, predicate = self._operands()
        self._emit(
            "selp_64" if type_bytes(kind) == 8 else "selp_32",
            d0=self._slot(target),
            a=self._value(yes, kind),
            b=self._value(no, kind),
            c=self._value(predicate, "pred"),
        )

    def _op_testp(self) -> None:
        parts = self.instruction.opcode
        names = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
        if parts[-1] != "f32":
            raise self._unknown()
        target, source = self._operands()
        self._emit("testp", sub=names.index(parts[1]), d0=self._slot(target), a=self._value(source, "f32"))

    def _is_wide(self, source: str) -> bool:
        """Whether an operand is a register of 64 bits, and no number or special register."""
        try:
            return type_bytes(self._register_type(source)) == 8
        except UnknownInstructionError:
            return False

    def _op_cvt(self) -> None:
        parts = self.instruction.opcode
        to, source_type = parts[-2], parts[-1]
        target, *sources = self._operands()
        if to in ("f16x2", "bf16x2"):
            if len(sources) != 2 or source_type != "f32":
                raise self._unknown()
            high, low = (self._value(part, "f32") for part in sources)
            self._emit(f"cvt_pack_{to[:-2]}", d0=self._slot(target), a=high, b=low)
            return
        if to == "tf32" and source_type == "f32" and len(parts) == 4 and parts[1] in ("rna", "rn", "rz"):
            ties = ("rna", "rn", "rz").index(parts[1])
            self._emit("cvt_tf32", sub=ties, d0=self._slot(target), a=self._value(sources[0], "f32"))
            return
        if to not in self.types or source_type not in self.types:
            raise self._unknown()
        plain = f"cvt_{to}_{source_type}"
        value = self._value(sources[0], source_type)
        how = next((part for part in parts[1:-2] if part in self.rounding), "none")
        # A register may be wider than the type that is read from it: cvt.s64.s8 %rd2, %rd1.
        source_wide = self._is_wide(sources[0])
        if plain in self.op and len(parts) == 3 and (not source_wide or type_bytes(source_type) == 8):
            self._emit(plain, d0=self._slot(target), a=value)
            return
        target_wide = type_bytes(self._register_type(target)) == 8
        self._emit(
            "cvt",
            flags=self._flags(),
            sub=self.rounding[how],
            type=self.types[to],
            type2=self.types[source_type],
            e=int(target_wide) | 2 * int(source_wide),
            d0=self._slot(target),
            a=value,
        )
