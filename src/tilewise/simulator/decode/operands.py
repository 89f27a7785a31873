"""The basis of the decoder: slots for registers and constants, operands, rows.

In: names and literals of a parsed instruction. Out: slot numbers in a warp's register file, and rows of the
program under construction.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tilewise.simulator.engine.shared import NO_SLOT, numbers, values
from tilewise.simulator.ptx.ptx import Function, Instruction, Ptx, Variable, type_bytes

NEGATED, FTZ, SATURATE, SIGNED, OTHER_NEGATED, SYNC, RELAXED, ONE_BIT, VOLATILE = (
    values("FLAG")[name]
    for name in (
        "NEGATED", "FTZ", "SATURATE", "SIGNED", "OTHER_NEGATED", "SYNC", "RELAXED", "ONE_BIT", "VOLATILE"
    )
)  # fmt: skip
_USES = {field: values("FLAG")[f"USES_{field.upper()}"] for field in "abce"}
_NEAR_LINE = values("FLAG")["NEAR_LINE"]
_USES_TARGETS = values("FLAG")["USES_D"]
_STORES = ("st", "stmatrix")
"""Operations whose result fields contain the stored values."""
SPACES = {name.lower(): number for name, number in numbers("SPACE").items()}
SPACES |= {"": SPACES["generic"], "param": SPACES["const"]}
"""State space numbers by PTX name; empty for a generic address."""


class UnknownInstructionError(Exception):
    """An instruction that the simulator does not support."""

    def __init__(self, text: str, line: int, what: str = "", repair: str = "") -> None:
        super().__init__(text)
        self.text, self.line = text, line
        self.what = what or f'the simulator does not carry out "{text}".'
        self.repair = repair or "Write it another way, or report it with this line and the kernel."


def source_name(symbol: str) -> str:
    """A function's name in the source, from its name in the PTX if possible."""
    match = re.match(r"_ZN?K?(\d+)(?=\D)", symbol)
    return symbol[match.end() : match.end() + int(match[1])] if match else symbol


def parts_of(operand: str) -> list[str]:
    """The registers of a vector ``{a, b}``; a scalar operand is its only part."""
    return [part.strip() for part in operand.strip("{}").split(",")]


class Register(int):
    """The slot of a register, unlike that of a constant or a plain number."""


class Assembler:
    """Registers, constants and rows of a program under construction; instruction handlers write to it."""

    function: Function
    instruction: Instruction
    jumps: list[tuple[int, str]]
    branch_tables: list[tuple[int, tuple[str, ...]]]

    def __init__(self, module: Ptx, entry: str, ftz: bool) -> None:
        self.module, self.entry, self.ftz = module, entry, ftz
        self.op, self.types, self.rounding = numbers("OP"), numbers("TYPE"), numbers("ROUNDING")
        self.rows: list[dict[str, int]] = []
        self.slots: dict[tuple[str, str], Register] = {}
        self.units = 0
        self.constants: list[np.ndarray] = []
        self.constant_slots: dict[tuple[int, int], int] = {}
        self.line_rows: dict[int, int] = {}
        self.header_rows = {"": 0}
        self.symbols: dict[str, int] = {}
        self.local_bytes = 0
        self.grain, self.global_grain = 4, 4
        self.fences = False
        self.agents = False
        self.grid_sync = False
        self.fixups: list[tuple[int, str]] = []
        self.starts: dict[str, int] = {}
        self.tables: list[np.ndarray] = []
        self.offsets: dict[str, int] = {}
        self.module_variables: list[Variable] = []

    def unknown(self) -> UnknownInstructionError:
        """The error for an unsupported instruction."""
        return UnknownInstructionError(self.instruction.text, self.instruction.line)

    def pointer_to_function(self) -> UnknownInstructionError:
        """The error for using a function's address."""
        return UnknownInstructionError(
            self.instruction.text,
            self.instruction.line,
            "the kernel uses a pointer to a device function, as a table of functions or a virtual function "
            "has it, and the simulator calls functions by name only.",
            "Choose the function with if or switch, or make it a template parameter.",
        )

    def _line(self) -> int:
        return self.line_rows.setdefault(self.instruction.line, len(self.line_rows))

    def emit(self, op: str, *, flags: int = 0, **fields: int) -> int:
        """Add a row and return its number; missing fields have no slot."""
        if op not in self.op:
            raise self.unknown()
        instruction = self.instruction
        row = {"op": self.op[op], "line": self._line(), "caller": instruction.caller, "pred": NO_SLOT}
        row["header"] = self.header_rows.setdefault(instruction.header, len(self.header_rows))
        row.update(dict.fromkeys(["d0", "d1", "d2", "d3", "a", "b", "c", "e"], NO_SLOT))
        if instruction.predicate:
            row["pred"] = self.slot(instruction.predicate)
            flags |= NEGATED if instruction.negated else 0
        row["e"] = 0
        row.update(fields)
        flags |= sum(flag for field, flag in _USES.items() if isinstance(row[field], Register))
        flags |= _NEAR_LINE if instruction.is_near else 0
        row["flags"] = flags | (_USES_TARGETS if op in _STORES else 0)
        self.rows.append(row)
        return len(self.rows) - 1

    def register_type(self, name: str) -> str:
        """The declared type of a register."""
        registers = self.function.registers
        if name in registers:
            return registers[name]
        prefix = re.sub(r"\d+$", "", name)
        if prefix in registers:
            return registers[prefix]
        scoped = re.match(r"(.*?)\d+(\.\d+)$", name)
        if scoped and scoped[1] + scoped[2] in registers:
            return registers[scoped[1] + scoped[2]]
        raise self.unknown()

    def slot(self, name: str, type_name: str | None = None) -> Register:
        """The slot of a register in the warp's register file."""
        key = (self.function.name, name)
        if key not in self.slots:
            kind = type_name or self.register_type(name)
            self.slots[key] = Register(self.units)
            self.units += 2 if type_bytes(kind) == 8 else 1
        return self.slots[key]

    def constant(self, bits: int, size: int) -> int:
        """The slot of a constant of 4 or 8 bytes."""
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
            return self.constant(bits, size)
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
            bits = int(match[1], 16)
            if size == 4:
                bits = struct.unpack(
                    "<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", bits))[0])
                )[0]
            return self.constant(bits, size)
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            value = int(text.rstrip("U"), 0)
            if size == 2:
                value &= 0xFFFF
            elif size == 1:
                value &= 0xFF
            return self.constant(value, size)
        return None

    def value(self, text: str, type_name: str) -> int:
        """The slot of a source operand of a type."""
        text = text.strip()
        if (slot := self.slots.get((self.function.name, text))) is not None:
            return slot
        literal = self._literal(text, type_name)
        if literal is not None:
            return literal
        if text in self.symbols:
            return self.constant(self.symbols[text], type_bytes(type_name))
        match = re.fullmatch(r"([\w$.]+)\s*\+\s*(-?\d+)", text)
        if match and match[1] in self.symbols:
            return self.constant(self.symbols[match[1]] + int(match[2]), type_bytes(type_name))
        if text in ("true", "false"):
            return self.constant(int(text == "true"), 4)
        if text in self.module.functions or text in self.module.externs:
            raise self.pointer_to_function()
        special = self._special(text)
        return special if special is not None else self.slot(text)

    def _special(self, text: str) -> int | None:
        name = text.lstrip("%").replace(".", "_")
        if text in ("WARP_SZ", "%WARP_SZ"):
            return self.constant(32, 4)
        if text.startswith("%") and name in numbers("SPECIAL") and name != "clock":
            slot = self.slot(f"special {name}", "u32")
            self.emit("special", sub=numbers("SPECIAL")[name], d0=slot)
            return slot
        if text in ("%clock", "%clock64", "%clock_hi"):
            slot = self.slot(f"special {name}", "u64" if text == "%clock64" else "u32")
            self.emit("clock", type=self.types["u64" if text == "%clock64" else "u32"], d0=slot)
            return slot
        if text in ("%globaltimer", "%globaltimer_lo", "%globaltimer_hi"):
            raise self.unknown()
        return None

    def table(self, numbers: Sequence[int]) -> int:
        """The address of a new table of numbers, which lives as long as the program."""
        self.tables.append(np.array(numbers, np.int32))
        return self.tables[-1].ctypes.data

    def target(self, text: str) -> int:
        """The slot of a target register; ``NO_SLOT`` for ``_``."""
        return NO_SLOT if text == "_" else self.slot(text.strip())

    @property
    def opcode(self) -> tuple[str, ...]:
        """The parts of the instruction's name: ``("ld", "global", "f32")``."""
        return self.instruction.opcode

    @property
    def operands(self) -> tuple[str, ...]:
        """The instruction's operands, the target first."""
        return self.instruction.operands

    def emit_operands(self, op: str, *kinds: str, **fields: int) -> None:
        """Emit a row with the first operand as target and the others, of the given types, as a, b, c, e."""
        target, *sources = self.operands
        row: dict[str, int] = {"d0": self.slot(target)}
        for field, source, kind in zip("abce", sources, kinds, strict=False):
            row[field] = self.value(source, kind)
        self.emit(op, **row, **fields)

    def flags(self) -> int:
        """The flags of ``.ftz`` and ``.sat``."""
        parts = self.opcode
        return (FTZ if "ftz" in parts else 0) | (SATURATE if "sat" in parts else 0)

    def address(self, text: str) -> tuple[int, int]:
        """The base slot and the offset of an address ``[register + offset]``."""
        inner = text.strip()[1:-1].strip()
        match = re.match(r"([\w%$.]+)\s*([+-]?)\s*(-?\w*)$", inner)
        if not match:
            raise self.unknown()
        base, sign, offset = match.groups()
        displacement = int(offset or "0", 0) * (-1 if sign == "-" else 1)
        if base in self.symbols:
            return self.constant(self.symbols[base], 8), displacement
        if re.fullmatch(r"\d+", base):
            return self.constant(int(base), 8), displacement
        return self.slot64(base), displacement

    def slot64(self, name: str) -> int:
        """The slot of a register as 64 bits."""
        if type_bytes(self.register_type(name)) == 8:
            return self.slot(name)
        wide = self.slot(f"wide {name}", "u64")
        self.emit("cvt_u64_u32", d0=wide, a=self.slot(name))
        return wide

    def space(self) -> str:
        """The instruction's state space; empty for a generic address."""
        parts = self.opcode
        return next((part.split("::")[0] for part in parts[1:] if part.split("::")[0] in SPACES), "")

    def parameter_slot(self, name: str, offset: int, kind: str, function: str | None = None) -> Register:
        """The slot of a part of a function's parameter."""
        key = (function or self.function.name, f"param {name} {offset}")
        if key not in self.slots:
            self.slots[key] = Register(self.units)
            self.units += 2
        return self.slots[key]


Handlers: TypeAlias = Mapping[str, Callable[[Assembler], object]]
"""Functions that add an instruction's rows to the program, by mnemonic."""
