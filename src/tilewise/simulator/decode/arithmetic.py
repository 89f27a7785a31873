"""Arithmetic instructions: moves, additions and multiplications, functions of floats.

In: parsed instructions. Out: rows of the program. ``engine/*_cases.h`` implements them.
"""

from __future__ import annotations

from functools import partial

from tilewise.simulator.decode.operands import SPACES, Assembler, Handlers, parts_of
from tilewise.simulator.ptx.ptx import type_bytes

_FLOAT_MODIFIERS = frozenset(("rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full", "NaN"))
_DIRECTED = ("add", "sub", "mul", "div", "fma", "sqrt", "rcp")


def _move(asm: Assembler) -> None:
    """``mov``, including packing two halves into a register and unpacking."""
    kind = asm.opcode[-1]
    target, source = asm.operands
    bits = 64 if type_bytes(kind) == 8 else 32
    pair = next((text for text in (source, target) if text.startswith("{")), "")
    parts = parts_of(pair)
    if pair and len(parts) != 2:
        raise asm.unknown()
    if source.startswith("{"):
        half = {8: "b32", 4: "b16"}[type_bytes(kind)]
        a, b = parts
        asm.emit(f"pack_{bits}", d0=asm.slot(target), a=asm.value(a, half), b=asm.value(b, half))
    elif target.startswith("{"):
        a, b = parts
        asm.emit(f"unpack_{bits}", a=asm.value(source, kind), d0=asm.target(a), d1=asm.target(b))
    else:
        value = asm.value(source, kind)
        asm.emit(f"mov_{bits}", d0=asm.slot(target), a=value)


def _convert_address(asm: Assembler) -> None:
    to = asm.opcode[1] == "to"
    space = asm.opcode[2] if to else asm.opcode[1]
    windowed = f"cvta_{'to_' if to else ''}{space}"
    asm.emit_operands(windowed if space in ("shared", "local") else "mov_64", "u64")


def _is_space(asm: Assembler) -> None:
    asm.emit_operands("isspacep", "u64", sub=SPACES[asm.opcode[1]])


def _binary(asm: Assembler, name: str, signed_matters: bool = False) -> None:
    kind = asm.opcode[-1]
    if kind.startswith(("f", "bf")):
        _float(asm, name)
        return
    bits = 8 * type_bytes(kind)
    suffix = f"{'s' if kind.startswith('s') else 'u'}{bits}" if signed_matters else str(bits)
    asm.emit_operands(f"{name}_{suffix}", kind, kind)


def _float(asm: Assembler, name: str) -> None:
    parts, kind = asm.opcode, asm.opcode[-1]
    sources = asm.operands[1:]
    if not _FLOAT_MODIFIERS.issuperset(parts[1:-1]):
        raise asm.unknown()
    if "NaN" in parts:
        name += "nan"
    directed = next((part for part in ("rz", "rm", "rp") if part in parts), "")
    op, sub = f"{name}_{kind}", 0
    if directed:
        sub = asm.rounding[directed]
        if kind == "f32" and name in ("add", "mul"):
            op = f"{name}_rz_f32"
        elif kind in ("f32", "f64") and name in _DIRECTED:
            _directed(asm, name, kind, sub)
            return
        else:
            raise asm.unknown()
    slots = dict(zip("abc", (asm.value(part, kind) for part in sources), strict=False))
    asm.emit(op, flags=asm.flags(), sub=sub, d0=asm.slot(asm.operands[0]), **slots)


def _directed(asm: Assembler, name: str, kind: str, rounding: int) -> None:
    """A row for operations with directed rounding, for which the machine sets the host's rounding mode."""
    values = [asm.value(part, kind) for part in asm.operands[1:]]
    a, b, c = (*values, values[0], values[0])[:3]
    asm.emit(
        "directed",
        flags=asm.flags(),
        sub=rounding,
        type=asm.types[kind],
        d0=asm.slot(asm.operands[0]),
        a=a,
        b=b,
        c=c,
        e=_DIRECTED.index(name) + 1,
    )


def _multiply(asm: Assembler) -> None:
    if asm.opcode[1] in ("wide", "hi"):
        kind = asm.opcode[-1]
        asm.emit_operands(f"mul{asm.opcode[1]}_{kind}", kind, kind)
    else:
        _binary(asm, "mul")


def _multiply_add(asm: Assembler) -> None:
    kind = asm.opcode[-1]
    if kind.startswith("f"):
        _float(asm, "fma")
    elif asm.opcode[1] == "wide":
        asm.emit_operands(f"madwide_{kind}", kind, kind, {"s32": "s64", "u32": "u64"}[kind])
    elif asm.opcode[1] == "lo":
        asm.emit_operands(f"mad_{8 * type_bytes(kind)}", kind, kind, kind)
    else:
        raise asm.unknown()


def _unary(asm: Assembler, name: str) -> None:
    kind = asm.opcode[-1]
    if kind in ("f16", "bf16", "f16x2", "bf16x2"):
        asm.emit_operands(f"{name}_16f{'x2' if kind.endswith('x2') else ''}", kind)
    elif kind.startswith("f"):
        _float(asm, name)
    else:
        asm.emit_operands(f"{name}_{8 * type_bytes(kind)}", kind)


HANDLERS: Handlers = {
    "mov": _move,
    "cvta": _convert_address,
    "isspacep": _is_space,
    "mul": _multiply,
    "mad": _multiply_add,
    **{name: partial(_binary, name=name) for name in ("add", "sub")},
    **{name: partial(_binary, name=name, signed_matters=True) for name in ("min", "max", "rem", "div")},
    **{name: partial(_unary, name=name) for name in ("neg", "abs")},
    **{
        name: partial(_float, name=name)
        for name in ("fma", "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
    },
}
