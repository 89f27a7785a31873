"""The instructions beside the warps' own: mbarriers, bulk and tensor copies, clusters, proxy fences.

In: parsed instructions. Out: rows of the program. What they do, and their hazards, stands in
``engine/barrier_objects.h``, ``async.h``, ``tensor.h`` and ``cluster.h``.
"""

from __future__ import annotations

import numpy as np

from .accesses import MemoryInstructions
from .names import NO_SLOT, numbers
from .operands import RELAXED
from .ptx import type_bytes

_HINTS = ("L2::cache_hint",)
_REDUCED = ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")


class Asynchronous(MemoryInstructions):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _op_mbarrier(self) -> None:
        self.agents = True
        parts = self.instruction.opcode
        operands = list(self._operands())
        relaxed = RELAXED if "relaxed" in parts else 0
        if parts[1] in ("test_wait", "try_wait"):
            self._wait(operands, parts, relaxed)
            return
        if parts[1] == "pending_count":
            state = self._value(operands[1], "b64")
            self._emit("mbarrier", sub=numbers("B")["pending"], d0=self._slot(operands[0]), a=state)
            return
        action = {"expect_tx": "expect", "complete_tx": "complete", "arrive_drop": "drop"}.get(
            parts[1], parts[1]
        )
        if action in ("arrive", "drop") and "expect_tx" in parts:
            action += "_expect"
        if action not in numbers("B"):
            raise self._unknown()
        state = NO_SLOT
        if parts[1] in ("arrive", "arrive_drop") and not operands[0].startswith("["):
            state = self._target(operands.pop(0))
        base, offset = self._address(operands[0])
        count = self._value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
        self._emit("mbarrier", sub=numbers("B")[action], flags=relaxed, d0=state, a=base, imm=offset, b=count)

    def _wait(self, operands: list[str], parts: tuple[str, ...], relaxed: int) -> None:
        parity = "parity" in parts
        base, offset = self._address(operands[1])
        self._emit(
            "mbarrier_wait",
            sub=int(parity) | 2 * int(parts[1] == "try_wait"),
            flags=relaxed,
            d0=self._slot(operands[0]),
            a=base,
            imm=offset,
            b=self._value(operands[2], "u32" if parity else "b64"),
        )

    def _op_cp(self) -> None:
        parts = self.instruction.opcode
        if parts[1:3] == ("async", "mbarrier"):
            self.agents = True
            base, offset = self._address(self._operands()[0])
            action = "copies_noinc" if "noinc" in parts else "copies"
            self._emit("mbarrier", sub=numbers("B")[action], a=base, imm=offset)
        elif parts[1:3] == ("async", "bulk") or parts[1:4] == ("reduce", "async", "bulk"):
            self._bulk()
        else:
            super()._op_cp()

    def _op_st(self) -> None:
        parts = self.instruction.opcode
        if parts[1] != "async":
            super()._op_st()
            return
        size = type_bytes(parts[-1])
        if "mbarrier::complete_tx::bytes" not in parts or "v2" in parts or "v4" in parts:
            raise self._unknown()
        self.agents = True
        self.grain = min(self.grain, size)
        target, value, signal = self._operands()
        to, to_offset = self._address(target)
        barrier, barrier_offset = self._address(signal)
        where = {"a": to, "e": to_offset, "d0": barrier, "target": barrier_offset, "d1": NO_SLOT}
        self._emit("st_async", b=self._value(value, f"b{8 * size}"), imm=size, **where)

    def _bulk(self) -> None:
        self.agents = True
        parts = self.instruction.opcode
        if "commit_group" in parts:
            self._emit("bulk_commit")
        elif "wait_group" in parts:
            self._emit("bulk_wait", sub=int("read" in parts), imm=int(self._operands()[0], 0))
        elif "prefetch" in parts:
            self._emit("nop")
        elif "tensor" in parts:
            self._tensor()
        else:
            self._plain()

    def _spaces(self) -> list[str]:
        return [part for part in self.instruction.opcode if part.split("::")[0] in ("global", "shared")]

    def _extras(self, given: list[str]) -> int:
        """The slot of a multicast mask; a cache policy is left aside."""
        parts = self.instruction.opcode
        many = "multicast::cluster" in parts
        if len(given) != int(many) + sum(part in _HINTS for part in parts):
            raise self._unknown()
        return self._value(given[0], "b16") if many else NO_SLOT

    def _reduction(self, kinds: tuple[str, ...]) -> int:
        """The number of the operation by which a copy is added to what is there, ``NO_SLOT`` for a copy."""
        parts = self.instruction.opcode
        if parts[1] != "reduce":
            return NO_SLOT
        name = next((part for part in parts if part in numbers("A") and part not in ("exch", "cas")), None)
        unfit = kinds and (parts[-1] not in kinds or (parts[-1][0] in "fb" and name != "add"))
        if name is None or unfit:
            raise self._unknown()
        return numbers("A")[name]

    def _plain(self) -> None:
        parts = self.instruction.opcode
        spaces = self._spaces()
        target, source, size, *rest = self._operands()
        to, to_offset = self._address(target)
        at, at_offset = self._address(source)
        where = {"a": to, "e": to_offset, "b": at, "imm": at_offset, "c": self._value(size, "u32")}
        if spaces[0] == "global":
            if "bulk_group" not in parts or "cp_mask" in parts:
                raise self._unknown()
            self._extras(rest)
            how = self._reduction(_REDUCED)
            kind = self.types[parts[-1]] if how != NO_SLOT else NO_SLOT
            if how != NO_SLOT:
                self.global_grain = min(self.global_grain, type_bytes(parts[-1]))
            self._emit("bulk", sub=1, d2=how, d3=kind, **where)
            return
        if "mbarrier::complete_tx::bytes" not in parts or parts[1] == "reduce":
            raise self._unknown()
        barrier, barrier_offset = self._address(rest[0])
        self._emit(
            "bulk",
            sub=0 if spaces[1] == "global" else 2,
            d0=barrier,
            target=barrier_offset,
            d1=self._extras(rest[1:]),
            **where,
        )

    def _tensor(self) -> None:
        parts = self.instruction.opcode
        rank = next((int(part[0]) for part in parts if part in ("1d", "2d", "3d", "4d", "5d")), 0)
        out = self._spaces()[0] == "global"
        if not rank or any(part.startswith(("im2col", "tile::", "cta_group")) for part in parts):
            raise self._unknown()
        first, second, *rest = self._operands()
        described, shared = (first, second) if out else (second, first)
        place, _, coordinates = described.strip()[1:-1].partition(",")
        names = [name.strip() for name in coordinates.strip().strip("{}").split(",")]
        if len(names) != rank:
            raise self._unknown()
        table = np.array([self._value(name, "s32") for name in names], np.int32)
        self.tables.append(table)
        at, at_offset = self._address(f"[{place.strip()}]")
        tile, tile_offset = self._address(shared)
        fields = {"a": tile, "e": tile_offset, "b": at, "pad": at_offset, "imm": table.ctypes.data}
        if out:
            if "bulk_group" not in parts:
                raise self._unknown()
            self._extras(rest)
            self.global_grain = min(self.global_grain, 2)
            self._emit("tensor", sub=rank | 8, d2=self._reduction(()), **fields)
            return
        if "mbarrier::complete_tx::bytes" not in parts:
            raise self._unknown()
        barrier, barrier_offset = self._address(rest[0])
        mask = self._extras(rest[1:])
        self._emit("tensor", sub=rank, d0=barrier, target=barrier_offset, d1=mask, **fields)

    def _op_fence(self) -> None:
        parts = self.instruction.opcode
        if parts[1:3] == ("proxy", "async"):
            if "global" not in parts:
                self._emit("fence_proxy")
            else:
                self._emit("nop")
        elif parts[1] == "mbarrier_init":
            self._emit("fence_proxy", sub=1)
        else:
            super()._op_fence()

    def _op_barrier(self) -> None:
        parts = self.instruction.opcode
        if parts[1] != "cluster":
            super()._op_barrier()  # type: ignore[misc]  # Control, a base of the decoder too, has it
            return
        self.agents = True
        if parts[2] not in ("arrive", "wait"):
            raise self._unknown()
        self._emit(f"cluster_{parts[2]}", flags=RELAXED if "relaxed" in parts else 0)

    def _op_mapa(self) -> None:
        self.agents = True
        target, source, rank = self._operands()
        kind = self.instruction.opcode[-1]
        op = "mapa_64" if kind == "u64" else "mapa_32"
        at = self._value(source, "u64") if kind == "u64" else self._slot64_of(source)
        self._emit(op, d0=self._slot(target), a=at, b=self._value(rank, "u32"))

    def _slot64_of(self, text: str) -> int:
        """A 64-bit slot for an address that may be a 32-bit register or a variable."""
        base, offset = self._address(f"[{text}]")
        if offset:
            raise self._unknown()
        return base

    def _op_getctarank(self) -> None:
        target, source = self._operands()
        self._emit("getctarank", d0=self._slot(target), a=self._slot64_of(source))

    def _op_elect(self) -> None:
        target, names = self._operands()
        first, _, second = target.partition("|")
        self._emit(
            "elect",
            d0=self._target(first.strip()),
            d1=self._target(second.strip()),
            e=self._value(names, "b32"),
        )

    def _op_createpolicy(self) -> None:
        """A policy for caches, which the simulator does not have: whatever takes it leaves it aside."""
        self._emit("mov_64", d0=self._slot(self._operands()[0]), a=self._constant(0, 8))

    def _op_griddepcontrol(self) -> None:
        self._emit("nop")
