"""What every instruction needs of the decoder: slots for registers and constants, operands, rows.

In: names and literals of a parsed instruction. Out: slot numbers in a warp's register file, and rows of the
program under construction. What an instruction means is left to the classes built on this one.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from .names import NO_SLOT, numbers
from .ptx import Function, Instruction, Ptx, Variable, type_bytes

NEGATED, FTZ, SATURATE, UNIFORM, SIGNED, OTHER_NEGATED, SYNC, RELAXED = 1, 2, 4, 8, 16, 32, 64, 128
SPACES = {"global": 0, "shared": 1, "local": 2, "": 3, "const": 4, "param": 4}
GLOBAL_BASE, GLOBAL_SHIFT = 0x100000000000, 36


class UnknownInstructionError(Exception):
    """An instruction that the simulator does not carry out."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.text, self.line = text, line


class Operands:
    """Registers, constants and rows of a program under construction."""

    function: Function
    instruction: Instruction
    jumps: list[tuple[int, str]]
    branch_tables: list[tuple[int, tuple[str, ...]]]

    def __init__(self, module: Ptx, entry: str, ftz: bool) -> None:
        self.module, self.entry, self.ftz = module, entry, ftz
        self.op, self.types, self.rounding = numbers("OP"), numbers("T"), numbers("R")
        self.rows: list[dict[str, int]] = []
        self.slots: dict[tuple[str, str], int] = {}
        self.units = 0
        self.constants: list[np.ndarray] = []
        self.constant_slots: dict[tuple[int, int], int] = {}
        self.line_rows: dict[int, int] = {}
        self.symbols: dict[str, int] = {}
        self.local_bytes = 0
        self.grain, self.global_grain = 4, 4
        self.fences = False
        self.agents = False
        self.fixups: list[tuple[int, str]] = []
        self.starts: dict[str, int] = {}
        self.tables: list[np.ndarray] = []
        self.offsets: dict[str, int] = {}
        self.module_variables: list[Variable] = []

    def _unknown(self) -> UnknownInstructionError:
        return UnknownInstructionError(self.instruction.text, self.instruction.line)

    def _line(self) -> int:
        return self.line_rows.setdefault(self.instruction.line, len(self.line_rows))

    def _emit(self, op: str, *, flags: int = 0, **fields: int) -> int:
        if op not in self.op:
            raise self._unknown()
        instruction = self.instruction
        row = {"op": self.op[op], "line": self._line(), "caller": instruction.caller, "pred": NO_SLOT}
        row.update(dict.fromkeys(["d0", "d1", "d2", "d3", "a", "b", "c", "e"], NO_SLOT))
        if instruction.predicate:
            row["pred"] = self._slot(instruction.predicate)
            flags |= NEGATED if instruction.negated else 0
        row["e"] = 0
        row["flags"] = flags
        row.update(fields)
        self.rows.append(row)
        return len(self.rows) - 1

    def _register_type(self, name: str) -> str:
        registers = self.function.registers
        if name in registers:
            return registers[name]
        prefix = re.sub(r"\d+$", "", name)
        if prefix in registers:
            return registers[prefix]
        scoped = re.match(r"(.*?)\d+(\.\d+)$", name)
        if scoped and scoped[1] + scoped[2] in registers:
            return registers[scoped[1] + scoped[2]]
        raise self._unknown()

    def _slot(self, name: str, type_name: str | None = None) -> int:
        key = (self.function.name, name)
        if key not in self.slots:
            kind = type_name or self._register_type(name)
            self.slots[key] = self.units
            self.units += 2 if type_bytes(kind) == 8 else 1
        return self.slots[key]

    def _constant(self, bits: int, size: int) -> int:
        wide = size == 8
        bits &= (1 << (64 if wide else 32)) - 1
        key = (bits, 8 if wide else 4)
        if key not in self.constant_slots:
            self.constant_slots[key] = -len(self.constants) - 1
            if wide:
                words = np.full(32, bits, np.uint64).view(np.uint32).reshape(2, 32)
                self.constants += [words[0], words[1]]
            else:
                self.constants.append(np.full(32, bits, np.uint32))
        return self.constant_slots[key]

    def _literal(self, text: str, type_name: str) -> int | None:
        size = type_bytes(type_name)
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            bits = int(match[1], 16)
            if type_name == "f64":
                bits = struct.unpack(
                    "<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0])
                )[0]
            return self._constant(bits, size)
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
            bits = int(match[1], 16)
            if size == 4:
                bits = struct.unpack(
                    "<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", bits))[0])
                )[0]
            return self._constant(bits, size)
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            value = int(text.rstrip("U"), 0)
            if size == 2:
                value &= 0xFFFF
            elif size == 1:
                value &= 0xFF
            return self._constant(value, size)
        return None

    def _value(self, text: str, type_name: str) -> int:
        """The slot of a source operand of a type."""
        text = text.strip()
        literal = self._literal(text, type_name)
        if literal is not None:
            return literal
        if text in self.symbols:
            return self._constant(self.symbols[text], type_bytes(type_name))
        match = re.fullmatch(r"([\w$.]+)\s*\+\s*(-?\d+)", text)
        if match and match[1] in self.symbols:
            return self._constant(self.symbols[match[1]] + int(match[2]), type_bytes(type_name))
        if text in ("true", "false"):
            return self._constant(int(text == "true"), 4)
        special = self._special(text)
        return special if special is not None else self._slot(text)

    def _special(self, text: str) -> int | None:
        name = text.lstrip("%").replace(".", "_")
        if text in ("WARP_SZ", "%WARP_SZ"):
            return self._constant(32, 4)
        if text.startswith("%") and name in numbers("S") and name != "clock":
            slot = self._slot(f"special {name}", "u32")
            self._emit("special", sub=numbers("S")[name], d0=slot)
            return slot
        if text in ("%clock", "%clock64", "%clock_hi"):
            slot = self._slot(f"special {name}", "u64" if text == "%clock64" else "u32")
            self._emit("clock", type=self.types["u64" if text == "%clock64" else "u32"], d0=slot)
            return slot
        if text in ("%globaltimer", "%globaltimer_lo", "%globaltimer_hi"):
            raise self._unknown()
        return None

    def _target(self, text: str, type_name: str | None = None) -> int:
        return NO_SLOT if text == "_" else self._slot(text.strip(), None)

    def _operands(self) -> tuple[str, ...]:
        return self.instruction.operands

    def _flags(self) -> int:
        parts = self.instruction.opcode
        return (FTZ if "ftz" in parts else 0) | (SATURATE if "sat" in parts else 0)
