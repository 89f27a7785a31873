"""Bit instructions: logic, shifts, fields, counts, permutations, signs, byte products.

In: parsed instructions. Out: rows of the program. ``engine/integer_cases.h`` implements them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tilewise.simulator.decode.operands import ONE_BIT, Assembler, Handlers
from tilewise.simulator.ptx.ptx import type_bytes


def _logic(asm: Assembler, name: str) -> None:
    kind = asm.opcode[-1]
    flags = ONE_BIT if kind == "pred" else 0
    asm.emit_operands(f"{name}_{64 if type_bytes(kind) == 8 else 32}", kind, kind, flags=flags)


def _not(asm: Assembler) -> None:
    kind = asm.opcode[-1]
    asm.emit_operands(f"not_{1 if kind == 'pred' else 8 * type_bytes(kind)}", kind)


def _funnel_shift(asm: Assembler) -> None:
    asm.emit_operands(f"shf_{asm.opcode[1]}", "b32", "b32", "u32", sub=int("wrap" in asm.opcode))


def _any_logic(asm: Assembler) -> None:
    asm.emit_operands("lop3", "b32", "b32", "b32", imm=int(asm.operands[4], 0))


def _dot(asm: Assembler) -> None:
    _, first, second = asm.opcode
    asm.emit_operands("dp4a", "b32", "b32", "b32", type=asm.types[first], type2=asm.types[second])


_PLAIN: Mapping[str, tuple[str, ...]] = {
    "shl": ("shl_{bits}", "", "u32"),
    "shr": ("shr_{sign}{bits}", "", "u32"),
    "prmt": ("prmt", "b32", "b32", "b32"),
    "popc": ("popc_{bits}", ""),
    "clz": ("clz_{bits}", ""),
    "brev": ("brev_{bits}", ""),
    "bfind": ("bfind_{kind}", ""),
    "bfe": ("bfe_{kind}", "", "u32", "u32"),
    "bfi": ("bfi_{bits}", "", "", "b32", "b32"),
    "copysign": ("copysign_{kind}", "", ""),
}
"""The operations of instructions whose only modifier is a type, and their source types; '' is that type."""


def _plain(asm: Assembler, op: str, sources: Sequence[str]) -> None:
    if len(asm.opcode) != 2:
        raise asm.unknown()
    kind = asm.opcode[1]
    sign = "s" if kind.startswith("s") else "u"
    named = op.format(kind=kind, sign=sign, bits=8 * type_bytes(kind))
    asm.emit_operands(named, *(source or kind for source in sources))


HANDLERS: Handlers = {
    **{name: partial(_logic, name=name) for name in ("and", "or", "xor")},
    **{name: partial(_plain, op=op, sources=sources) for name, (op, *sources) in _PLAIN.items()},
    "not": _not,
    "shf": _funnel_shift,
    "lop3": _any_logic,
    "dp4a": _dot,
}
