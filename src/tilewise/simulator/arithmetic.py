"""The instructions that calculate lane by lane: moves, sums and products, functions of floats.

In: parsed instructions. Out: rows of the program. They are carried out in ``engine/*_cases.h``.
"""

from __future__ import annotations

from .operands import SPACES, Operands
from .ptx import type_bytes

_FLOAT_MODIFIERS = frozenset(("rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN"))
_DIRECTED = ("add", "sub", "mul", "div", "fma", "sqrt", "rcp")


class Arithmetic(Operands):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _op_mov(self) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        size = type_bytes(kind)
        if source.startswith("{"):
            parts = [part.strip() for part in source.strip("{}").split(",")]
            if len(parts) != 2:
                raise self._unknown()
            half = {8: "b32", 4: "b16"}[size]
            self._emit(
                "pack_64" if size == 8 else "pack_32",
                d0=self._slot(target),
                a=self._value(parts[0], half),
                b=self._value(parts[1], half),
            )
            return
        if target.startswith("{"):
            parts = [part.strip() for part in target.strip("{}").split(",")]
            if len(parts) != 2:
                raise self._unknown()
            self._emit(
                "unpack_64" if size == 8 else "unpack_32",
                a=self._value(source, kind),
                d0=self._target(parts[0]),
                d1=self._target(parts[1]),
            )
            return
        value = self._value(source, kind)
        self._emit("mov_64" if size == 8 else "mov_32", d0=self._slot(target), a=value)

    def _op_cvta(self) -> None:
        parts = self.instruction.opcode
        target, source = self._operands()
        to = parts[1] == "to"
        space = parts[2] if to else parts[1]
        op = {
            "shared": "cvta_to_shared" if to else "cvta_shared",
            "local": "cvta_to_local" if to else "cvta_local",
        }.get(space, "mov_64")
        self._emit(op, d0=self._slot(target), a=self._value(source, "u64"))

    def _op_isspacep(self) -> None:
        target, source = self._operands()
        self._emit(
            "isspacep",
            sub=SPACES[self.instruction.opcode[1]],
            d0=self._slot(target),
            a=self._value(source, "u64"),
        )

    def _binary(self, name: str, signed_matters: bool) -> None:
        kind = self.instruction.opcode[-1]
        target, left, right = self._operands()
        bits = 8 * type_bytes(kind)
        if kind.startswith(("f", "bf")):
            self._float(name, kind, (left, right))
            return
        suffix = f"{'s' if kind.startswith('s') else 'u'}{bits}" if signed_matters else str(bits)
        self._emit(
            f"{name}_{suffix}", d0=self._slot(target), a=self._value(left, kind), b=self._value(right, kind)
        )

    def _float(self, name: str, kind: str, sources: tuple[str, ...]) -> None:
        parts = self.instruction.opcode
        if not _FLOAT_MODIFIERS.issuperset(parts[1:-1]):
            raise self._unknown()
        if "NaN" in parts:
            name += "nan"
        directed = next((part for part in ("rz", "rm", "rp") if part in parts), "")
        op = f"{name}_{kind}"
        sub = 0
        if directed:
            sub = self.rounding[directed]
            if kind == "f32" and name in ("add", "mul"):
                op = f"{name}_rz_f32"
            elif kind in ("f32", "f64") and name in _DIRECTED:
                self._directed(name, kind, sources, sub)
                return
            else:
                raise self._unknown()
        slots = dict(zip("abc", (self._value(part, kind) for part in sources), strict=False))
        self._emit(op, flags=self._flags(), sub=sub, d0=self._slot(self._operands()[0]), **slots)

    def _directed(self, name: str, kind: str, sources: tuple[str, ...], rounding: int) -> None:
        values = [self._value(part, kind) for part in sources]
        a, b, c = (*values, values[0], values[0])[:3]
        self._emit(
            "directed",
            flags=self._flags(),
            sub=rounding,
            type=self.types[kind],
            d0=self._slot(self._operands()[0]),
            a=a,
            b=b,
            c=c,
            e=_DIRECTED.index(name) + 1,
        )

    def _op_add(self) -> None:
        self._binary("add", False)

    def _op_sub(self) -> None:
        self._binary("sub", False)

    def _op_min(self) -> None:
        self._binary("min", True)

    def _op_max(self) -> None:
        self._binary("max", True)

    def _op_rem(self) -> None:
        self._binary("rem", True)

    def _op_div(self) -> None:
        self._binary("div", True)

    def _op_mul(self) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        target, left, right = self._operands()
        if parts[1] in ("wide", "hi"):
            op = "mulwide" if parts[1] == "wide" else "mulhi"
            self._emit(
                f"{op}_{kind}", d0=self._slot(target), a=self._value(left, kind), b=self._value(right, kind)
            )
            return
        self._binary("mul", False)

    def _op_mad(self) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        if kind.startswith("f"):
            self._op_fma()
            return
        target, left, right, addend = self._operands()
        bits = 8 * type_bytes(kind)
        if parts[1] == "wide":
            wide = {"s32": "s64", "u32": "u64"}[kind]
            self._emit(
                f"madwide_{kind}",
                d0=self._slot(target),
                a=self._value(left, kind),
                b=self._value(right, kind),
                c=self._value(addend, wide),
            )
        elif parts[1] == "lo":
            self._emit(
                f"mad_{bits}",
                d0=self._slot(target),
                a=self._value(left, kind),
                b=self._value(right, kind),
                c=self._value(addend, kind),
            )
        else:
            raise self._unknown()

    def _op_fma(self) -> None:
        self._float("fma", self.instruction.opcode[-1], self._operands()[1:])

    def _unary(self, name: str) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        if kind in ("f16", "bf16", "f16x2", "bf16x2") and name in ("neg", "abs"):
            self._emit(
                f"{name}_16f{'x2' if kind.endswith('x2') else ''}",
                d0=self._slot(target),
                a=self._value(source, kind),
            )
        elif kind.startswith("f"):
            self._float(name, kind, (source,))
        else:
            self._emit(f"{name}_{8 * type_bytes(kind)}", d0=self._slot(target), a=self._value(source, kind))

    def _op_neg(self) -> None:
        self._unary("neg")

    def _op_abs(self) -> None:
        self._unary("abs")

    def _op_sqrt(self) -> None:
        self._unary("sqrt")

    def _op_rcp(self) -> None:
        self._unary("rcp")

    def _op_rsqrt(self) -> None:
        self._unary("rsqrt")

    def _op_ex2(self) -> None:
        self._unary("ex2")

    def _op_lg2(self) -> None:
        self._unary("lg2")

    def _op_sin(self) -> None:
        self._unary("sin")

    def _op_cos(self) -> None:
        self._unary("cos")

    def _op_tanh(self) -> None:
        self._unary("tanh")

    def _op_copysign(self) -> None:
        kind = self.instruction.opcode[-1]
        target, sign, value = self._operands()
        self._emit(
            f"copysign_{kind}", d0=self._slot(target), a=self._value(sign, kind), b=self._value(value, kind)
        )
