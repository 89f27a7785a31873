"""The instructions of a warpgroup: ``wgmma`` with its fences and waits, ``setmaxnreg``.

In: parsed instructions. Out: rows of the program. Layouts and hazards are in ``engine/wgmma.h``.
"""

from __future__ import annotations

import re

from tilewise.simulator.decode.operands import SATURATE, Assembler, Handlers, parts_of
from tilewise.simulator.engine.shared import values

_COLUMNS_OF_A = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32}
_RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "s8": ("s32",), "u8": ("s32",)}
_A_REGISTERS, _TRANSPOSE_A, _TRANSPOSE_B, _NEGATE_A, _NEGATE_B = values("WGMMA_FLAG").values()


def _wgmma(asm: Assembler) -> None:
    asm.agents = True
    parts = [part for part in asm.opcode if part not in ("sync", "aligned", "satfinite")]
    all_lanes = asm.constant(0xFFFFFFFF, 4)
    if parts[1:] == ["fence"]:
        asm.emit("wgmma_fence", e=all_lanes)
    elif parts[1:] == ["commit_group"]:
        asm.emit("wgmma_commit", e=all_lanes)
    elif parts[1:] == ["wait_group"]:
        asm.emit("wgmma_wait", e=all_lanes, imm=int(asm.operands[0], 0))
    elif parts[1] == "mma_async" and len(parts) == 6:
        _mma(asm, *parts[2:])
    else:
        raise asm.unknown()


def _mma(asm: Assembler, shape_text: str, d: str, a: str, b: str) -> None:
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", shape_text)
    pairs = {"s8": ("s8", "u8"), "u8": ("s8", "u8")}.get(a, (a,))
    if not shape or d not in _RESULTS.get(a, ()) or b not in pairs:
        raise asm.unknown()
    n, k = int(shape[1]), int(shape[2])
    if k != _COLUMNS_OF_A[a] or n % 8 or not 8 <= n <= 256:
        raise asm.unknown()
    result, first, second, scale, *immediates = asm.operands
    results = parts_of(result)
    in_registers = first.startswith("{")
    fragments = parts_of(first)
    if len(results) != n // 8 * (2 if d == "f16" else 4) or len(fragments) != (4 if in_registers else 1):
        raise asm.unknown()
    how = _immediates(asm, [int(part, 0) for part in immediates], a, in_registers)
    slots: list[int] = [asm.slot(name) for name in results]
    slots += [asm.value(name, "b32" if in_registers else "b64") for name in fragments]
    slots += [asm.value(second, "b64"), asm.value(scale, "pred")]
    asm.grain = min(asm.grain, 4)
    plain = {"tf32": "f32"}
    asm.emit(
        "wgmma",
        flags=SATURATE if "satfinite" in asm.opcode else 0,
        sub=n,
        type=asm.types[plain.get(a, a)],
        pad=asm.types[plain.get(b, b)],
        type2=asm.types[d],
        c=how,
        e=asm.constant(0xFFFFFFFF, 4),
        imm=asm.table(slots),
    )


def _immediates(asm: Assembler, immediates: list[int], a: str, in_registers: bool) -> int:
    """Negations and transposes: integer types have none, and only 16-bit types can be transposed."""
    how = _A_REGISTERS if in_registers else 0
    if a in ("s8", "u8"):
        if immediates:
            raise asm.unknown()
        return how
    wanted = 2 if a == "tf32" else 3 if in_registers else 4
    if len(immediates) != wanted or any(value not in (1, -1) for value in immediates[:2]):
        raise asm.unknown()
    if any(value not in (0, 1) for value in immediates[2:]):
        raise asm.unknown()
    how |= (_NEGATE_A if immediates[0] < 0 else 0) | (_NEGATE_B if immediates[1] < 0 else 0)
    if wanted == 3:
        return how | (_TRANSPOSE_B if immediates[2] else 0)
    if wanted == 4:
        return how | (_TRANSPOSE_A if immediates[2] else 0) | (_TRANSPOSE_B if immediates[3] else 0)
    return how


def _setmaxnreg(asm: Assembler) -> None:
    asm.agents = True
    count = int(asm.operands[0], 0)
    if not 24 <= count <= 256 or count % 8:
        raise asm.unknown()
    asm.emit("setmaxnreg", e=asm.constant(0xFFFFFFFF, 4), imm=count)


HANDLERS: Handlers = {
    "wgmma": _wgmma,
    "setmaxnreg": _setmaxnreg,
}
