"""Tensor core instructions: ``mma.sync``, ``ldmatrix``, ``stmatrix``.

In: parsed instructions. Out: rows of the program. The fragment layouts are in ``engine/matrix.h``.
"""

from __future__ import annotations

import re

from tilewise.simulator.decode.operands import SATURATE, SPACES, Assembler, Handlers, parts_of

_SHAPES = {
    ("f16", 8), ("f16", 16), ("bf16", 8), ("bf16", 16), ("tf32", 4), ("tf32", 8),
    ("s8", 16), ("s8", 32), ("u8", 16), ("u8", 32),
}  # fmt: skip
"""Input type and columns of A, for a result of 16 rows and 8 columns."""
_PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}


def _mma(asm: Assembler) -> None:
    parts = [part for part in asm.opcode if part != "satfinite"]
    if len(parts) != 10 or parts[1:3] + parts[4:6] != ["sync", "aligned", "row", "col"]:
        raise asm.unknown()
    d, a, b, c = parts[6:]
    shape = re.fullmatch(r"m16n8k(\d+)", parts[3])
    if not shape or (a, int(shape[1])) not in _SHAPES:
        raise asm.unknown()
    k = int(shape[1])
    integer = a in ("s8", "u8")
    pairs = {"s8": ("s8", "u8"), "u8": ("s8", "u8")}.get(a, (a,))
    results = ("s32",) if integer else ("f16", "f32") if a == "f16" else ("f32",)
    if b not in pairs or d not in results or c not in results:
        raise asm.unknown()
    per = _PER_REGISTER[a]
    widths = (2 if d == "f16" else 4, k // (2 * per), k // (4 * per), 2 if c == "f16" else 4)
    slots: list[int] = []
    for text, width, kind in zip(asm.operands, widths, (d, a, b, c), strict=True):
        names = parts_of(text)
        if len(names) != width:
            raise asm.unknown()
        plain = kind if kind in ("f32", "s32") else "b32"
        slots += [asm.value(name, plain) for name in names]
    asm.emit(
        "mma",
        flags=SATURATE if "satfinite" in asm.opcode else 0,
        sub=k,
        type=asm.types["f32" if a == "tf32" else a],
        type2=asm.types["f32" if b == "tf32" else b],
        c=asm.types[d],
        b=asm.types[c],
        e=asm.constant(0xFFFFFFFF, 4),
        imm=asm.table(slots),
    )


def _ldmatrix(asm: Assembler) -> None:
    _matrices(asm, asm.operands[0], asm.operands[1], "ldmatrix")


def _stmatrix(asm: Assembler) -> None:
    _matrices(asm, asm.operands[1], asm.operands[0], "stmatrix")


def _matrices(asm: Assembler, registers: str, address: str, op: str) -> None:
    parts = asm.opcode
    names = parts_of(registers)
    count = next((int(part[1:]) for part in parts if part in ("x1", "x2", "x4")), 0)
    if "m8n8" not in parts or parts[-1] != "b16" or len(names) != count:
        raise asm.unknown()
    slots = [asm.slot(name) if op == "ldmatrix" else asm.value(name, "b32") for name in names]
    base, offset = asm.address(address)
    asm.grain = min(asm.grain, 4)
    asm.emit(
        op,
        sub=count,
        type=SPACES[asm.space()],
        type2=int("trans" in parts),
        a=base,
        e=asm.constant(0xFFFFFFFF, 4),
        imm=offset,
        **{f"d{number}": slot for number, slot in enumerate(slots)},
    )


HANDLERS: Handlers = {
    "mma": _mma,
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
}
