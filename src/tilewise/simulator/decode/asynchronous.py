"""Asynchronous instructions: mbarriers, bulk and tensor copies, clusters, proxy fences.

In: parsed instructions. Out: rows of the program. Their effects and hazards are in
``engine/barrier_objects.h``, ``async.h``, ``tensor.h`` and ``cluster.h``.
"""

from __future__ import annotations

from tilewise.simulator.decode.accesses import copy_async, fence, store
from tilewise.simulator.decode.control import barrier
from tilewise.simulator.decode.operands import RELAXED, Assembler, Handlers, parts_of
from tilewise.simulator.engine.shared import NO_SLOT, numbers
from tilewise.simulator.ptx.ptx import type_bytes

_HINTS = ("L2::cache_hint",)
_REDUCED = ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")


def _mbarrier(asm: Assembler) -> None:
    asm.agents = True
    parts = asm.opcode
    operands = list(asm.operands)
    relaxed = RELAXED if "relaxed" in parts else 0
    if parts[1] in ("test_wait", "try_wait"):
        _wait(asm, operands, parts, relaxed)
        return
    if parts[1] == "pending_count":
        state = asm.value(operands[1], "b64")
        asm.emit("mbarrier", sub=numbers("MBARRIER")["pending"], d0=asm.slot(operands[0]), a=state)
        return
    action = {"expect_tx": "expect", "complete_tx": "complete", "arrive_drop": "drop"}.get(parts[1], parts[1])
    if action in ("arrive", "drop") and "expect_tx" in parts:
        action += "_expect"
    if action not in numbers("MBARRIER"):
        raise asm.unknown()
    state = NO_SLOT
    if parts[1] in ("arrive", "arrive_drop") and not operands[0].startswith("["):
        state = asm.target(operands.pop(0))
    base, offset = asm.address(operands[0])
    count = asm.value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
    asm.emit(
        "mbarrier", sub=numbers("MBARRIER")[action], flags=relaxed, d0=state, a=base, imm=offset, b=count
    )


def _wait(asm: Assembler, operands: list[str], parts: tuple[str, ...], relaxed: int) -> None:
    parity = "parity" in parts
    base, offset = asm.address(operands[1])
    asm.emit(
        "mbarrier_wait",
        sub=int(parity) | 2 * int(parts[1] == "try_wait"),
        flags=relaxed,
        d0=asm.slot(operands[0]),
        a=base,
        imm=offset,
        b=asm.value(operands[2], "u32" if parity else "b64"),
    )


def _cp(asm: Assembler) -> None:
    parts = asm.opcode
    if parts[1:3] == ("async", "mbarrier"):
        asm.agents = True
        base, offset = asm.address(asm.operands[0])
        action = "copies_noinc" if "noinc" in parts else "copies"
        asm.emit("mbarrier", sub=numbers("MBARRIER")[action], a=base, imm=offset)
    elif parts[1:3] == ("async", "bulk") or parts[1:4] == ("reduce", "async", "bulk"):
        _bulk(asm)
    else:
        copy_async(asm)


def _st(asm: Assembler) -> None:
    parts = asm.opcode
    if parts[1] != "async":
        store(asm)
        return
    size = type_bytes(parts[-1])
    if "mbarrier::complete_tx::bytes" not in parts or "v2" in parts or "v4" in parts:
        raise asm.unknown()
    asm.agents = True
    asm.grain = min(asm.grain, size)
    target, value, signal = asm.operands
    to, to_offset = asm.address(target)
    barrier, barrier_offset = asm.address(signal)
    where = {"a": to, "e": to_offset, "d0": barrier, "target": barrier_offset, "d1": NO_SLOT}
    asm.emit("st_async", b=asm.value(value, f"b{8 * size}"), imm=size, **where)


def _bulk(asm: Assembler) -> None:
    asm.agents = True
    parts = asm.opcode
    if "commit_group" in parts:
        asm.emit("bulk_commit")
    elif "wait_group" in parts:
        asm.emit("bulk_wait", sub=int("read" in parts), imm=int(asm.operands[0], 0))
    elif "prefetch" in parts:
        asm.emit("nop")
    elif "tensor" in parts:
        _tensor(asm)
    else:
        _plain(asm)


def _spaces(asm: Assembler) -> list[str]:
    return [part for part in asm.opcode if part.split("::")[0] in ("global", "shared")]


def _extras(asm: Assembler, operands: list[str]) -> int:
    """The slot of a multicast mask; a cache policy is ignored."""
    parts = asm.opcode
    many = "multicast::cluster" in parts
    if len(operands) != int(many) + sum(part in _HINTS for part in parts):
        raise asm.unknown()
    return asm.value(operands[0], "b16") if many else NO_SLOT


def _reduction(asm: Assembler, kinds: tuple[str, ...]) -> int:
    """The number of the reduction operation of a copy; ``NO_SLOT`` for a plain copy."""
    parts = asm.opcode
    if parts[1] != "reduce":
        return NO_SLOT
    name = next((part for part in parts if part in numbers("ATOMIC") and part not in ("exch", "cas")), None)
    unfit = kinds and (parts[-1] not in kinds or (parts[-1][0] in "fb" and name != "add"))
    if name is None or unfit:
        raise asm.unknown()
    return numbers("ATOMIC")[name]


def _plain(asm: Assembler) -> None:
    parts = asm.opcode
    spaces = _spaces(asm)
    target, source, size, *rest = asm.operands
    to, to_offset = asm.address(target)
    at, at_offset = asm.address(source)
    where = {"a": to, "e": to_offset, "b": at, "imm": at_offset, "c": asm.value(size, "u32")}
    if spaces[0] == "global":
        if "bulk_group" not in parts or "cp_mask" in parts:
            raise asm.unknown()
        _extras(asm, rest)
        how = _reduction(asm, _REDUCED)
        kind = asm.types[parts[-1]] if how != NO_SLOT else NO_SLOT
        if how != NO_SLOT:
            asm.global_grain = min(asm.global_grain, type_bytes(parts[-1]))
        asm.emit("bulk", sub=1, d2=how, d3=kind, **where)
        return
    if "mbarrier::complete_tx::bytes" not in parts or parts[1] == "reduce":
        raise asm.unknown()
    barrier, barrier_offset = asm.address(rest[0])
    asm.emit(
        "bulk",
        sub=0 if spaces[1] == "global" else 2,
        d0=barrier,
        target=barrier_offset,
        d1=_extras(asm, rest[1:]),
        **where,
    )


def _tensor(asm: Assembler) -> None:
    parts = asm.opcode
    rank = next((int(part[0]) for part in parts if part in ("1d", "2d", "3d", "4d", "5d")), 0)
    out = _spaces(asm)[0] == "global"
    if not rank or any(part.startswith(("im2col", "tile::", "cta_group")) for part in parts):
        raise asm.unknown()
    first, second, *rest = asm.operands
    described, shared = (first, second) if out else (second, first)
    place, _, coordinates = described.strip()[1:-1].partition(",")
    names = parts_of(coordinates.strip())
    if len(names) != rank:
        raise asm.unknown()
    table = asm.table([asm.value(name, "s32") for name in names])
    at, at_offset = asm.address(f"[{place.strip()}]")
    tile, tile_offset = asm.address(shared)
    fields = {"a": tile, "e": tile_offset, "b": at, "pad": at_offset, "imm": table}
    if out:
        if "bulk_group" not in parts:
            raise asm.unknown()
        _extras(asm, rest)
        asm.global_grain = min(asm.global_grain, 2)
        asm.emit("tensor", sub=rank | 8, d2=_reduction(asm, ()), **fields)
        return
    if "mbarrier::complete_tx::bytes" not in parts:
        raise asm.unknown()
    barrier, barrier_offset = asm.address(rest[0])
    mask = _extras(asm, rest[1:])
    asm.emit("tensor", sub=rank, d0=barrier, target=barrier_offset, d1=mask, **fields)


def _fence(asm: Assembler) -> None:
    parts = asm.opcode
    if parts[1:3] == ("proxy", "async"):
        if "global" not in parts:
            asm.emit("fence_proxy")
        else:
            asm.emit("nop")
    elif parts[1] == "mbarrier_init":
        asm.emit("fence_proxy", sub=1)
    else:
        fence(asm)


def _barrier(asm: Assembler) -> None:
    parts = asm.opcode
    if parts[1] != "cluster":
        barrier(asm)
        return
    asm.agents = True
    if parts[2] not in ("arrive", "wait"):
        raise asm.unknown()
    asm.emit(f"cluster_{parts[2]}", flags=RELAXED if "relaxed" in parts else 0)


def _mapa(asm: Assembler) -> None:
    asm.agents = True
    target, source, rank = asm.operands
    kind = asm.opcode[-1]
    op = "mapa_64" if kind == "u64" else "mapa_32"
    at = asm.value(source, "u64") if kind == "u64" else _slot64_of(asm, source)
    asm.emit(op, d0=asm.slot(target), a=at, b=asm.value(rank, "u32"))


def _slot64_of(asm: Assembler, text: str) -> int:
    """A 64-bit slot for an address that may be a 32-bit register or a variable."""
    base, offset = asm.address(f"[{text}]")
    if offset:
        raise asm.unknown()
    return base


def _getctarank(asm: Assembler) -> None:
    target, source = asm.operands
    asm.emit("getctarank", d0=asm.slot(target), a=_slot64_of(asm, source))


def _elect(asm: Assembler) -> None:
    target, names = asm.operands
    first, _, second = target.partition("|")
    asm.emit(
        "elect",
        d0=asm.target(first.strip()),
        d1=asm.target(second.strip()),
        e=asm.value(names, "b32"),
    )


def _createpolicy(asm: Assembler) -> None:
    """A cache policy, which is ignored because the simulator has no caches."""
    asm.emit("mov_64", d0=asm.slot(asm.operands[0]), a=asm.constant(0, 8))


HANDLERS: Handlers = {
    "mbarrier": _mbarrier,
    "cp": _cp,
    "st": _st,
    "fence": _fence,
    "barrier": _barrier,
    "mapa": _mapa,
    "getctarank": _getctarank,
    "elect": _elect,
    "createpolicy": _createpolicy,
    "griddepcontrol": lambda asm: asm.emit("nop"),
}
