"""Instructions that access memory: loads, stores, atomics, parameters, fences.

In: parsed instructions. Out: rows of the program. Checks and counts are in ``engine/memory.h``.
"""

from __future__ import annotations

import re
from functools import partial

from tilewise.simulator.decode.operands import SIGNED, SPACES, SYNC, VOLATILE, Assembler, Handlers, parts_of
from tilewise.simulator.engine.shared import NO_SLOT, numbers
from tilewise.simulator.ptx.ptx import type_bytes

_ORDERING = frozenset(("volatile", "relaxed", "acquire", "release", "mmio"))
"""Modifiers of loads and stores that order threads: such accesses count as atomics."""


_ATOMIC = ("u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64")


def _shape(asm: Assembler) -> tuple[str, int]:
    parts = asm.opcode
    vector = next((int(part[1:]) for part in parts if re.fullmatch(r"v[248]", part)), 1)
    return parts[-1], vector


def load(asm: Assembler) -> None:
    """``ld``, including parameters."""
    if "param" in {part.split("::")[0] for part in asm.opcode}:
        _load_parameter(asm)
        return
    kind, vector = _shape(asm)
    target, address = asm.operands
    names = parts_of(target)
    _memory(asm, "ld", kind, vector, names, address, loading=True)


def store(asm: Assembler) -> None:
    """``st``, including parameters."""
    if "param" in {part.split("::")[0] for part in asm.opcode}:
        _store_parameter(asm)
        return
    kind, vector = _shape(asm)
    address, source = asm.operands
    names = parts_of(source)
    _memory(asm, "st", kind, vector, names, address, loading=False)


def _memory(
    asm: Assembler, op: str, kind: str, vector: int, names: list[str], address: str, *, loading: bool
) -> None:
    if len(names) != vector or vector > 4:
        raise asm.unknown()
    size = type_bytes(kind)
    base, offset = asm.address(address)
    space = asm.space()
    asm.agents |= "shared::cluster" in asm.opcode
    if space in ("shared", ""):
        asm.grain = min(asm.grain, size)
    if space in ("global", ""):
        asm.global_grain = min(asm.global_grain, size)
    if not _ORDERING.isdisjoint(asm.opcode):
        asm.fences = True
    if "release" in asm.opcode:
        asm.emit("fence")
    if loading:
        slots = [asm.target(name) for name in names]
        wide = _stored_width(asm, [name for name in names if name != "_"], size)
    else:
        slots = [asm.value(name, kind) for name in names]
        wide = _stored_width(asm, names, size)
    asm.emit(
        op,
        flags=(SIGNED if kind.startswith("s") else 0)
        | (0 if _ORDERING.isdisjoint(asm.opcode) else SYNC)
        | (VOLATILE if "volatile" in asm.opcode else 0),
        sub=vector,
        type=SPACES[space],
        type2=size,
        a=base,
        imm=offset,
        c=wide,
        **{f"d{number}": slot for number, slot in enumerate(slots)},
    )


def _stored_width(asm: Assembler, names: list[str], size: int) -> int:
    """Bytes of the registers in an access; clang may move 4 bytes through registers of 8."""
    widths = {8 if type_bytes(asm.register_type(name)) == 8 else 4 for name in names if name.startswith("%")}
    if len(widths) > 1:
        raise asm.unknown()
    return widths.pop() if widths else size


def _load_parameter(asm: Assembler) -> None:
    kind, vector = _shape(asm)
    target, address = asm.operands
    names = parts_of(target)
    base, offset = parameter_of(address)
    size = type_bytes(kind)
    if base.startswith("%"):
        _memory(asm, "ld", kind, vector, names, address, loading=True)
        return
    for number, name in enumerate(names):
        wide = type_bytes(asm.register_type(name)) == 8
        at = offset + number * size
        if base in asm.offsets and asm.function.is_entry:
            asm.emit(
                "param_64" if wide else "param_32",
                flags=SIGNED if kind.startswith("s") else 0,
                type2=size,
                imm=asm.offsets[base] + at,
                d0=asm.slot(name),
            )
        else:
            asm.emit(
                "mov_32" if not wide else "mov_64" if size == 8 else "cvt_u64_u32",
                d0=asm.slot(name),
                a=asm.parameter_slot(base, at, kind),
            )


def _store_parameter(asm: Assembler) -> None:
    kind, _ = _shape(asm)
    address, source = asm.operands
    base, offset = parameter_of(address)
    size = type_bytes(kind)
    for number, name in enumerate(parts_of(source)):
        slot = asm.parameter_slot(base, offset + number * size, kind)
        narrow = size < 8 and name.startswith("%") and type_bytes(asm.register_type(name)) == 8
        op = "cvt_u32_u64" if narrow else "mov_64" if size == 8 else "mov_32"
        asm.emit(op, d0=slot, a=asm.value(name, kind))


def parameter_of(address: str) -> tuple[str, int]:
    """The parameter and the offset of an address such as ``[param0+4]``."""
    inner = address.strip()[1:-1]
    base, _, offset = inner.partition("+")
    return base.strip(), int(offset or "0", 0)


def _atomic(asm: Assembler, returning: bool) -> None:
    parts = asm.opcode
    kind = parts[-1]
    operation = next((part for part in parts[1:] if part in numbers("ATOMIC")), None)
    short = kind in ("f16", "bf16", "f16x2", "bf16x2")
    if operation is None or not (short or kind in _ATOMIC) or (short and operation != "add"):
        raise asm.unknown()
    if not {"release", "acq_rel"}.isdisjoint(parts):
        fence(asm)
    operands = list(asm.operands)
    target = asm.target(operands.pop(0)) if returning else NO_SLOT
    base, offset = asm.address(operands[0])
    asm.agents |= "shared::cluster" in parts
    size = type_bytes(kind)
    values = [asm.value(part, kind) for part in operands[1:]]
    plain = {"b32": "u32", "b64": "u64"}.get(kind, kind.removesuffix("x2"))
    asm.emit(
        "atom",
        sub=numbers("ATOMIC")[operation],
        type=SPACES[asm.space()],
        type2=asm.types[plain],
        d0=target,
        a=base,
        b=values[0],
        c=values[1] if len(values) > 1 else values[0],
        e=size,
        imm=offset,
    )


def copy_async(asm: Assembler) -> None:
    """``cp.async`` with its groups and waits."""
    parts = asm.opcode
    if parts[1] != "async":
        raise asm.unknown()
    if parts[2] == "commit_group":
        asm.emit("cp_commit")
    elif parts[2] == "wait_all":
        asm.emit("cp_wait", sub=0)
    elif parts[2] == "wait_group":
        asm.emit("cp_wait", sub=1, imm=int(asm.operands[0], 0))
    else:
        _begin_copy(asm)


def _begin_copy(asm: Assembler) -> None:
    parts = [part.split("::")[0] for part in asm.opcode[2:]]
    target, source, size, *read = asm.operands
    if parts[0] not in ("ca", "cg") or parts[1:3] != ["shared", "global"] or len(read) > 1:
        raise asm.unknown()
    allowed = {"ca": ("4", "8", "16"), "cg": ("16",)}[parts[0]]
    if size not in allowed or not {"L2"}.issuperset(parts[3:]) or "L2::cache_hint" in asm.instruction.text:
        raise asm.unknown()
    if read and _is_predicate(asm, read[0]):  # ignore-src
        raise asm.unknown()
    to, to_offset = asm.address(target)
    at, at_offset = asm.address(source)
    asm.emit(
        "cp_async",
        type2=int(size),
        a=to,
        e=to_offset,
        b=at,
        imm=at_offset,
        c=asm.value(read[0] if read else size, "u32"),
    )


def _is_predicate(asm: Assembler, name: str) -> bool:
    return name.startswith("%") and asm.register_type(name) == "pred"


def fence(asm: Assembler) -> None:
    """``fence`` and ``membar`` of every scope."""
    asm.fences = True
    asm.emit("fence")


HANDLERS: Handlers = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": partial(_atomic, returning=True),
    "red": partial(_atomic, returning=False),
    "cp": copy_async,
    "membar": fence,
    "fence": fence,
    "prefetch": lambda asm: asm.emit("nop"),
    "prefetchu": lambda asm: asm.emit("nop"),
}
