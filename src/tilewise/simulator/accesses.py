"""The instructions that touch memory: loads, stores, atomics, parameters, fences.

In: parsed instructions. Out: rows of the program. Checks and counts stand in ``engine/memory.h``.
"""

from __future__ import annotations

import re

from .names import NO_SLOT, numbers
from .operands import SIGNED, SPACES, SYNC, Operands
from .ptx import type_bytes

_ORDERING = frozenset(("volatile", "relaxed", "acquire", "release", "mmio"))
"""Modifiers of loads and stores that other threads may rely on: these count as atomics."""


_ATOMIC = ("u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64")


class MemoryInstructions(Operands):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _address(self, text: str) -> tuple[int, int]:
        inner = text.strip()[1:-1].strip()
        found = re.match(r"([\w%$.]+)\s*([+-]?)\s*(-?\w*)$", inner)
        if not found:
            raise self._unknown()
        base, sign, offset = found.groups()
        displacement = int(offset or "0", 0) * (-1 if sign == "-" else 1)
        if base in self.symbols:
            return self._constant(self.symbols[base], 8), displacement
        if re.fullmatch(r"\d+", base):
            return self._constant(int(base), 8), displacement
        return self._slot64(base), displacement

    def _slot64(self, name: str) -> int:
        if type_bytes(self._register_type(name)) == 8:
            return self._slot(name)
        wide = self._slot(f"wide {name}", "u64")
        self._emit("cvt_u64_u32", d0=wide, a=self._slot(name))
        return wide

    def _space(self) -> str:
        parts = self.instruction.opcode
        space = next((part.split("::")[0] for part in parts[1:] if part.split("::")[0] in SPACES), "")
        return space

    def _shape(self) -> tuple[str, int]:
        parts = self.instruction.opcode
        vector = next((int(part[1:]) for part in parts if re.fullmatch(r"v[248]", part)), 1)
        return parts[-1], vector

    def _op_ld(self) -> None:
        if "param" in {part.split("::")[0] for part in self.instruction.opcode}:
            self._load_parameter()
            return
        kind, vector = self._shape()
        target, address = self._operands()
        names = [part.strip() for part in target.strip("{}").split(",")]
        self._memory("ld", kind, vector, names, address, loading=True)

    def _op_ldu(self) -> None:
        self._op_ld()

    def _op_st(self) -> None:
        if "param" in {part.split("::")[0] for part in self.instruction.opcode}:
            self._store_parameter()
            return
        kind, vector = self._shape()
        address, source = self._operands()
        names = [part.strip() for part in source.strip("{}").split(",")]
        self._memory("st", kind, vector, names, address, loading=False)

    def _memory(
        self, op: str, kind: str, vector: int, names: list[str], address: str, *, loading: bool
    ) -> None:
        if len(names) != vector or vector > 4:
            raise self._unknown()
        size = type_bytes(kind)
        base, offset = self._address(address)
        space = self._space()
        self.agents |= "shared::cluster" in self.instruction.opcode
        if space in ("shared", ""):
            self.grain = min(self.grain, size)
        if space in ("global", ""):
            self.global_grain = min(self.global_grain, size)
        if not _ORDERING.isdisjoint(self.instruction.opcode):
            self.fences = True
        if "release" in self.instruction.opcode:
            self._emit("fence")
        if loading:
            slots = [self._target(name) for name in names]
            wide = self._stored_width([name for name in names if name != "_"], size)
        else:
            slots = [self._value(name, kind) for name in names]
            wide = self._stored_width(names, size)
        self._emit(
            op,
            flags=(SIGNED if kind.startswith("s") else 0)
            | (0 if _ORDERING.isdisjoint(self.instruction.opcode) else SYNC),
            sub=vector,
            type=SPACES[space],
            type2=size,
            a=base,
            imm=offset,
            c=wide,
            **{f"d{number}": slot for number, slot in enumerate(slots)},
        )

    def _stored_width(self, names: list[str], size: int) -> int:
        """Bytes of the registers in an access; clang may move 4 bytes through registers of 8."""
        found = {
            8 if type_bytes(self._register_type(name)) == 8 else 4 for name in names if name.startswith("%")
        }
        if len(found) > 1:
            raise self._unknown()
        return found.pop() if found else size

    def _load_parameter(self) -> None:
        kind, vector = self._shape()
        target, address = self._operands()
        names = [part.strip() for part in target.strip("{}").split(",")]
        base, offset = self._parameter(address)
        size = type_bytes(kind)
        if base.startswith("%"):
            self._memory("ld", kind, vector, names, address, loading=True)
            return
        for number, name in enumerate(names):
            wide = type_bytes(self._register_type(name)) == 8
            at = offset + number * size
            if base in self.offsets and self.function.is_entry:
                self._emit(
                    "param_64" if wide else "param_32",
                    flags=SIGNED if kind.startswith("s") else 0,
                    type2=size,
                    imm=self.offsets[base] + at,
                    d0=self._slot(name),
                )
            else:
                self._emit(
                    "mov_32" if not wide else "mov_64" if size == 8 else "cvt_u64_u32",
                    d0=self._slot(name),
                    a=self._parameter_slot(base, at, kind),
                )

    def _store_parameter(self) -> None:
        kind, _ = self._shape()
        address, source = self._operands()
        base, offset = self._parameter(address)
        size = type_bytes(kind)
        for number, name in enumerate(part.strip() for part in source.strip("{}").split(",")):
            slot = self._parameter_slot(base, offset + number * size, kind)
            narrow = size < 8 and name.startswith("%") and type_bytes(self._register_type(name)) == 8
            op = "cvt_u32_u64" if narrow else "mov_64" if size == 8 else "mov_32"
            self._emit(op, d0=slot, a=self._value(name, kind))

    @staticmethod
    def _parameter(address: str) -> tuple[str, int]:
        inner = address.strip()[1:-1]
        base, _, offset = inner.partition("+")
        return base.strip(), int(offset or "0", 0)

    def _parameter_slot(self, name: str, offset: int, kind: str, function: str | None = None) -> int:
        key = (function or self.function.name, f"param {name} {offset}")
        if key not in self.slots:
            self.slots[key] = self.units
            self.units += 2
        return self.slots[key]

    def _atomic(self, returning: bool) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        operation = next((part for part in parts[1:] if part in numbers("A")), None)
        short = kind in ("f16", "bf16", "f16x2", "bf16x2")
        if operation is None or not (short or kind in _ATOMIC) or (short and operation != "add"):
            raise self._unknown()
        if not {"release", "acq_rel"}.isdisjoint(parts):
            self._op_fence()
        operands = list(self._operands())
        target = self._target(operands.pop(0)) if returning else NO_SLOT
        base, offset = self._address(operands[0])
        self.agents |= "shared::cluster" in parts
        size = type_bytes(kind)
        values = [self._value(part, kind) for part in operands[1:]]
        plain = {"b32": "u32", "b64": "u64"}.get(kind, kind.removesuffix("x2"))
        self._emit(
            "atom",
            sub=numbers("A")[operation],
            type=SPACES[self._space()],
            type2=self.types[plain],
            d0=target,
            a=base,
            b=values[0],
            c=values[1] if len(values) > 1 else values[0],
            e=size,
            imm=offset,
        )

    def _op_atom(self) -> None:
        self._atomic(True)

    def _op_red(self) -> None:
        self._atomic(False)

    def _op_cp(self) -> None:
        """``cp.async`` with its groups and waits."""
        parts = self.instruction.opcode
        if parts[1] != "async":
            raise self._unknown()
        if parts[2] == "commit_group":
            self._emit("cp_commit")
        elif parts[2] == "wait_all":
            self._emit("cp_wait", sub=0)
        elif parts[2] == "wait_group":
            self._emit("cp_wait", sub=1, imm=int(self._operands()[0], 0))
        else:
            self._begin_copy()

    def _begin_copy(self) -> None:
        parts = [part.split("::")[0] for part in self.instruction.opcode[2:]]
        target, source, size, *read = self._operands()
        if parts[0] not in ("ca", "cg") or parts[1:3] != ["shared", "global"] or len(read) > 1:
            raise self._unknown()
        allowed = {"ca": ("4", "8", "16"), "cg": ("16",)}[parts[0]]
        if (
            size not in allowed
            or not {"L2"}.issuperset(parts[3:])
            or "L2::cache_hint" in self.instruction.text
        ):
            raise self._unknown()
        if read and self._is_predicate(read[0]):  # ignore-src
            raise self._unknown()
        to, to_offset = self._address(target)
        at, at_offset = self._address(source)
        self._emit(
            "cp_async",
            type2=int(size),
            a=to,
            e=to_offset,
            b=at,
            imm=at_offset,
            c=self._value(read[0] if read else size, "u32"),
        )

    def _is_predicate(self, name: str) -> bool:
        return name.startswith("%") and self._register_type(name) == "pred"

    def _op_membar(self) -> None:
        self._op_fence()

    def _op_fence(self) -> None:
        self.fences = True
        self._emit("fence")

    def _op_prefetch(self) -> None:
        self._emit("nop")

    def _op_prefetchu(self) -> None:
        self._emit("nop")
