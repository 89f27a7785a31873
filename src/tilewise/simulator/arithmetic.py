"""The instructions that work lane by lane: moves, integers, floats, comparisons, conversions.

In: parsed instructions. Out: rows of the program. How they are carried out stands in ``engine/warp.h``.
"""

from __future__ import annotations

from .names import NO_SLOT, numbers
from .operands import OTHER_NEGATED, SPACES, Operands, UnknownInstructionError
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
