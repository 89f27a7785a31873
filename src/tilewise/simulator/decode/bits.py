"""The instructions on bits: logic, shifts, fields, counts, permutations, byte products.

In: parsed instructions. Out: rows of the program. They are carried out in ``engine/integer_cases.h``.
"""

from __future__ import annotations

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


def _shift(asm: Assembler) -> None:
    name, kind = asm.opcode[0], asm.opcode[-1]
    sign = "" if name == "shl" else "s" if kind.startswith("s") else "u"
    asm.emit_operands(f"{name}_{sign}{8 * type_bytes(kind)}", kind, "u32")


def _funnel_shift(asm: Assembler) -> None:
    asm.emit_operands(f"shf_{asm.opcode[1]}", "b32", "b32", "u32", sub=int("wrap" in asm.opcode))


def _any_logic(asm: Assembler) -> None:
    asm.emit_operands("lop3", "b32", "b32", "b32", imm=int(asm.operands[4], 0))


def _permute(asm: Assembler) -> None:
    if len(asm.opcode) != 2:
        raise asm.unknown()
    asm.emit_operands("prmt", "b32", "b32", "b32")


def _count_bits(asm: Assembler) -> None:
    asm.emit_operands(f"{asm.opcode[0]}_{8 * type_bytes(asm.opcode[-1])}", asm.opcode[-1])


def _find(asm: Assembler) -> None:
    if asm.opcode != ("bfind", "u32"):
        raise asm.unknown()
    asm.emit_operands("bfind_u32", "u32")


def _extract(asm: Assembler) -> None:
    kind = asm.opcode[-1]
    asm.emit_operands(f"bfe_{kind}", kind, "u32", "u32")


def _insert(asm: Assembler) -> None:
    kind = asm.opcode[-1]
    asm.emit_operands(f"bfi_{8 * type_bytes(kind)}", kind, kind, "b32", "b32")


def _dot(asm: Assembler) -> None:
    _, first, second = asm.opcode
    asm.emit_operands("dp4a", "b32", "b32", "b32", type=asm.types[first], type2=asm.types[second])


HANDLERS: Handlers = {
    **{name: partial(_logic, name=name) for name in ("and", "or", "xor")},
    "not": _not,
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel_shift,
    "lop3": _any_logic,
    "prmt": _permute,
    "popc": _count_bits,
    "clz": _count_bits,
    "brev": _count_bits,
    "bfind": _find,
    "bfe": _extract,
    "bfi": _insert,
    "dp4a": _dot,
}
