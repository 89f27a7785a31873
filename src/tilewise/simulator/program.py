"""PTX given a meaning: an entry point with all it calls, as rows of numbers that the machine runs.

In: a parsed module. Out: ``Program``, with instructions as an integer matrix, register slots, constants,
parameter layout, and the addresses of the module's variables. Nothing is guessed: an instruction that is
not known stops with its name and its source line.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .names import NO_SLOT, numbers
from .ptx import Function, Instruction, Ptx, Variable, type_bytes

NEGATED, FTZ, SATURATE, UNIFORM, SIGNED, OTHER_NEGATED = 1, 2, 4, 8, 16, 32
SPACES = {"global": 0, "shared": 1, "local": 2, "": 3, "const": 4, "param": 4}
GLOBAL_BASE, GLOBAL_SHIFT = 0x100000000000, 36

SHARED_GAP = 2048
"""Bytes between shared variables, so that an index beyond one does not land in the next.

A multiple of 128, which keeps every word in the bank that it has on a GPU."""

INSTRUCTION = np.dtype(
    [
        (name, np.int32)
        for name in [
            "op",
            "sub",
            "type",
            "type2",
            "flags",
            "pred",
            "line",
            "d0",
            "d1",
            "d2",
            "d3",
            "a",
            "b",
            "c",
            "e",
            "target",
            "pad",
            "pad2",
        ]
    ]
    + [("imm", np.int64)]
)


class UnknownInstructionError(Exception):
    """An instruction that the simulator does not carry out."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.text, self.line = text, line


@dataclass
class Program:
    """An entry point, ready to run."""

    name: str
    """Its name."""
    code: np.ndarray
    """Instructions, dtype ``INSTRUCTION``."""
    constants: np.ndarray
    """Constant registers, ``(units, 32)`` uint32."""
    units: int
    """Register file of a warp, in units of 32 words."""
    parameters: tuple[Variable, ...]
    """As the PTX declares them."""
    offsets: tuple[int, ...]
    """Byte offset of each in the parameter buffer."""
    shared_bytes: int
    """Static shared memory, as a GPU would count it."""
    dynamic_start: int
    """Where dynamic shared memory begins here: variables lie ``SHARED_GAP`` bytes further apart than on a
    GPU."""
    shared_variables: tuple[tuple[str, int, int], ...]
    """Name, offset and size of each shared variable; the dynamic one has size 0."""
    module_variables: tuple[Variable, ...]
    """Global and constant variables, in the order of their buffers, which come after the arguments'."""
    local_bytes: int
    """Local memory of a thread."""
    shared_grain: int
    """Smallest shared access, in bytes: 1, 2 or 4."""
    lines: tuple[int, ...]
    """Source line of each row of counters."""
    tables: list[np.ndarray] = field(default_factory=list)
    """Branch tables, kept alive for the machine."""


_FLOAT_MODIFIERS = frozenset(("rn", "rz", "rm", "rp", "ftz", "sat", "approx", "full"))
_MATH_ALIASES = {
    "__expf": "expf",
    "__exp2f": "exp2f",
    "__logf": "logf",
    "__log2f": "log2f",
    "__log10f": "log10f",
    "__sinf": "sinf",
    "__cosf": "cosf",
    "__tanf": "tanf",
    "__powf": "powf",
}


def decode(module: Ptx, entry: str, *, ftz: bool = True, first_module_buffer: int = 0) -> Program:
    """Give an entry point of a module its meaning.

    Args:
        module: the parsed module.
        entry: the entry point's name.
        ftz: whether subnormal results of the math functions are flushed, as CuPy compiles.
        first_module_buffer: number of the buffer that holds the module's first variable.

    Raises:
        UnknownInstructionError: with the text and the line of the instruction.
    """
    return _Decoder(module, entry, ftz, first_module_buffer).program()


class _Decoder:
    def __init__(self, module: Ptx, entry: str, ftz: bool, first_module_buffer: int) -> None:
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
        self.grain = 4
        self.fixups: list[tuple[int, str]] = []
        self.starts: dict[str, int] = {}
        self.tables: list[np.ndarray] = []
        self.offsets: dict[str, int] = {}
        self.module_variables: list[Variable] = []
        self._lay_out(first_module_buffer)

    # ---- layout

    def _lay_out(self, first_module_buffer: int) -> None:
        shared: list[tuple[str, int, int]] = []
        real = 0
        dynamic: list[str] = []
        variables = [*self.module.variables]
        for function in self._reached():
            variables += function.variables
        for variable in variables:
            if variable.space == "shared":
                if variable.count == 0:
                    dynamic.append(variable.name)
                    continue
                real = -(-real // variable.align) * variable.align
                offset = real + SHARED_GAP * len(shared)
                self.symbols[variable.name] = offset
                shared.append((variable.name, offset, variable.size_bytes))
                real += variable.size_bytes
            elif variable.space in ("global", "const"):
                number = first_module_buffer + len(self.module_variables)
                self.symbols[variable.name] = GLOBAL_BASE + (number << GLOBAL_SHIFT)
                self.module_variables.append(variable)
        self.static_shared = real
        self.dynamic_start = -(-real // 16) * 16 + SHARED_GAP * len(shared)
        for name in dynamic:
            start = self.dynamic_start
            self.symbols[name] = start
            shared.append((name, start, 0))
        self.shared_variables = tuple(shared)
        at = 0
        function = self.module.functions[self.entry]
        offsets = []
        for parameter in function.parameters:
            align = max(parameter.align, type_bytes(parameter.type))
            at = -(-at // align) * align
            offsets.append(at)
            self.offsets[parameter.name] = at
            at += max(parameter.size_bytes, 1)
        self.parameter_offsets = tuple(offsets)
        # A parameter whose address is taken is memory too: the buffer after the module's variables.
        number = first_module_buffer + len(self.module_variables)
        base = GLOBAL_BASE + (number << GLOBAL_SHIFT)
        self.symbols.update({name: base + offset for name, offset in self.offsets.items()})

    def _reached(self) -> list[Function]:
        found = [self.entry]
        for name in found:
            for instruction in self.module.functions[name].instructions:
                if instruction.opcode[0] == "call":
                    callee = self._callee(instruction)
                    if callee in self.module.functions and callee not in found:
                        found.append(callee)
        return [self.module.functions[name] for name in found]

    @staticmethod
    def _callee(instruction: Instruction) -> str:
        return next(part for part in instruction.operands if not part.startswith("("))

    # ---- the program

    def program(self) -> Program:
        for function in self._reached():
            self._function(function)
        for row, name in self.fixups:
            self.rows[row]["target"] = self.starts[name]
        code = np.zeros(len(self.rows), INSTRUCTION)
        for number, fields in enumerate(self.rows):
            for key, value in fields.items():
                code[key][number] = value
        function = self.module.functions[self.entry]
        constants = np.stack(self.constants) if self.constants else np.zeros((1, 32), np.uint32)
        return Program(
            self.entry,
            code,
            constants,
            max(self.units, 1),
            function.parameters,
            self.parameter_offsets,
            self.static_shared,
            self.dynamic_start,
            self.shared_variables,
            tuple(self.module_variables),
            self.local_bytes,
            self.grain,
            tuple(self.line_rows),
            self.tables,
        )

    def _function(self, function: Function) -> None:
        self.function = function
        self.starts[function.name] = len(self.rows)
        self.local_base = -(-self.local_bytes // 16) * 16
        size = 0
        for variable in function.variables:
            if variable.space == "local":
                size = -(-size // variable.align) * variable.align
                self.symbols[variable.name] = self.local_base + size
                size += variable.size_bytes
        if size:
            self.local_bytes = self.local_base + size
        first_rows: list[int] = []
        jumps: list[tuple[int, str]] = []
        tables: list[tuple[int, tuple[str, ...]]] = []
        for instruction in function.instructions:
            first_rows.append(len(self.rows))
            self.instruction, self.jumps, self.branch_tables = instruction, jumps, tables
            handler: Callable[[], None] | None = getattr(self, f"_op_{instruction.opcode[0]}", None)
            if handler is None:
                raise self._unknown()
            handler()
        first_rows.append(len(self.rows))
        self._emit("ret" if not function.is_entry else "exit")
        at = {label: first_rows[index] for label, index in function.labels.items()}
        for row, label in jumps:
            self.rows[row]["target"] = at[label]
        for row, labels in tables:
            table = np.array([at[label] for label in labels], np.int32)
            self.tables.append(table)
            self.rows[row]["imm"] = table.ctypes.data
            self.rows[row]["sub"] = len(labels)

    def _unknown(self) -> UnknownInstructionError:
        return UnknownInstructionError(self.instruction.text, self.instruction.line)

    def _line(self) -> int:
        return self.line_rows.setdefault(self.instruction.line, len(self.line_rows))

    def _emit(self, op: str, *, flags: int = 0, **fields: int) -> int:
        if op not in self.op:
            raise self._unknown()
        instruction = self.instruction
        row = {"op": self.op[op], "line": self._line(), "pred": NO_SLOT}
        row.update(dict.fromkeys(["d0", "d1", "d2", "d3", "a", "b", "c", "e"], NO_SLOT))
        if instruction.predicate:
            row["pred"] = self._slot(instruction.predicate)
            flags |= NEGATED if instruction.negated else 0
        row["e"] = 0
        row["flags"] = flags
        row.update(fields)
        self.rows.append(row)
        return len(self.rows) - 1

    # ---- operands

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

    # ---- moving

    def _op_mov(self) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        size = type_bytes(kind)
        if source.startswith("{"):
            parts = [part.strip() for part in source.strip("{}").split(",")]
            if len(parts) != 2:
                raise self._unknown()
            half = {8: "b32", 4: "b16"}[size]
            self._emit(
                "pack_64" if size == 8 else "pack_32",
                d0=self._slot(target),
                a=self._value(parts[0], half),
                b=self._value(parts[1], half),
            )
            return
        if target.startswith("{"):
            parts = [part.strip() for part in target.strip("{}").split(",")]
            if len(parts) != 2:
                raise self._unknown()
            self._emit(
                "unpack_64" if size == 8 else "unpack_32",
                a=self._value(source, kind),
                d0=self._target(parts[0]),
                d1=self._target(parts[1]),
            )
            return
        value = self._value(source, kind)
        self._emit("mov_64" if size == 8 else "mov_32", d0=self._slot(target), a=value)

    def _op_cvta(self) -> None:
        parts = self.instruction.opcode
        target, source = self._operands()
        to = parts[1] == "to"
        space = parts[2] if to else parts[1]
        op = {
            "shared": "cvta_to_shared" if to else "cvta_shared",
            "local": "cvta_to_local" if to else "cvta_local",
        }.get(space, "mov_64")
        self._emit(op, d0=self._slot(target), a=self._value(source, "u64"))

    def _op_isspacep(self) -> None:
        target, source = self._operands()
        self._emit(
            "isspacep",
            sub=SPACES[self.instruction.opcode[1]],
            d0=self._slot(target),
            a=self._value(source, "u64"),
        )

    # ---- integers and bits

    def _binary(self, name: str, signed_matters: bool) -> None:
        kind = self.instruction.opcode[-1]
        target, left, right = self._operands()
        bits = 8 * type_bytes(kind)
        if kind.startswith(("f", "bf")):
            self._float(name, kind, (left, right))
            return
        suffix = f"{'s' if kind.startswith('s') else 'u'}{bits}" if signed_matters else str(bits)
        self._emit(
            f"{name}_{suffix}", d0=self._slot(target), a=self._value(left, kind), b=self._value(right, kind)
        )

    def _float(self, name: str, kind: str, sources: tuple[str, ...]) -> None:
        parts = self.instruction.opcode
        if not _FLOAT_MODIFIERS.issuperset(parts[1:-1]):
            raise self._unknown()
        directed = next((part for part in ("rz", "rm", "rp") if part in parts), "")
        op = f"{name}_{kind}"
        sub = 0
        if directed:
            if kind != "f32" or name not in ("add", "mul"):
                raise self._unknown()
            op, sub = f"{name}_rz_f32", self.rounding[directed]
        slots = dict(zip("abc", (self._value(part, kind) for part in sources), strict=False))
        self._emit(op, flags=self._flags(), sub=sub, d0=self._slot(self._operands()[0]), **slots)

    def _op_add(self) -> None:
        self._binary("add", False)

    def _op_sub(self) -> None:
        self._binary("sub", False)

    def _op_min(self) -> None:
        self._binary("min", True)

    def _op_max(self) -> None:
        self._binary("max", True)

    def _op_rem(self) -> None:
        self._binary("rem", True)

    def _op_div(self) -> None:
        self._binary("div", True)

    def _op_mul(self) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        target, left, right = self._operands()
        if parts[1] in ("wide", "hi"):
            op = "mulwide" if parts[1] == "wide" else "mulhi"
            self._emit(
                f"{op}_{kind}", d0=self._slot(target), a=self._value(left, kind), b=self._value(right, kind)
            )
            return
        self._binary("mul", False)

    def _op_mad(self) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        if kind.startswith("f"):
            self._op_fma()
            return
        target, left, right, addend = self._operands()
        bits = 8 * type_bytes(kind)
        if parts[1] == "wide":
            wide = {"s32": "s64", "u32": "u64"}[kind]
            self._emit(
                f"madwide_{kind}",
                d0=self._slot(target),
                a=self._value(left, kind),
                b=self._value(right, kind),
                c=self._value(addend, wide),
            )
        elif parts[1] == "lo":
            self._emit(
                f"mad_{bits}",
                d0=self._slot(target),
                a=self._value(left, kind),
                b=self._value(right, kind),
                c=self._value(addend, kind),
            )
        else:
            raise self._unknown()

    def _op_fma(self) -> None:
        self._float("fma", self.instruction.opcode[-1], self._operands()[1:])

    def _unary(self, name: str) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        if kind in ("f16", "bf16", "f16x2", "bf16x2") and name in ("neg", "abs"):
            self._emit(
                f"{name}_16f{'x2' if kind.endswith('x2') else ''}",
                d0=self._slot(target),
                a=self._value(source, kind),
            )
        elif kind.startswith("f"):
            self._float(name, kind, (source,))
        else:
            self._emit(f"{name}_{8 * type_bytes(kind)}", d0=self._slot(target), a=self._value(source, kind))

    def _op_neg(self) -> None:
        self._unary("neg")

    def _op_abs(self) -> None:
        self._unary("abs")

    def _op_sqrt(self) -> None:
        self._unary("sqrt")

    def _op_rcp(self) -> None:
        self._unary("rcp")

    def _op_rsqrt(self) -> None:
        self._unary("rsqrt")

    def _op_ex2(self) -> None:
        self._unary("ex2")

    def _op_lg2(self) -> None:
        self._unary("lg2")

    def _op_sin(self) -> None:
        self._unary("sin")

    def _op_cos(self) -> None:
        self._unary("cos")

    def _op_tanh(self) -> None:
        self._unary("tanh")

    def _op_copysign(self) -> None:
        kind = self.instruction.opcode[-1]
        target, sign, value = self._operands()
        self._emit(
            f"copysign_{kind}", d0=self._slot(target), a=self._value(sign, kind), b=self._value(value, kind)
        )

    def _logic(self, name: str) -> None:
        kind = self.instruction.opcode[-1]
        target, left, right = self._operands()
        wide = type_bytes(kind) == 8
        self._emit(
            f"{name}_{64 if wide else 32}",
            d0=self._slot(target),
            a=self._value(left, kind),
            b=self._value(right, kind),
        )

    def _op_and(self) -> None:
        self._logic("and")

    def _op_or(self) -> None:
        self._logic("or")

    def _op_xor(self) -> None:
        self._logic("xor")

    def _op_not(self) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        bits = 1 if kind == "pred" else 8 * type_bytes(kind)
        self._emit(f"not_{bits}", d0=self._slot(target), a=self._value(source, kind))

    def _op_shl(self) -> None:
        self._shift("shl", "")

    def _op_shr(self) -> None:
        kind = self.instruction.opcode[-1]
        self._shift("shr", "s" if kind.startswith("s") else "u")

    def _shift(self, name: str, sign: str) -> None:
        kind = self.instruction.opcode[-1]
        target, value, by = self._operands()
        self._emit(
            f"{name}_{sign}{8 * type_bytes(kind)}",
            d0=self._slot(target),
            a=self._value(value, kind),
            b=self._value(by, "u32"),
        )

    def _op_shf(self) -> None:
        parts = self.instruction.opcode
        target, low, high, by = self._operands()
        self._emit(
            f"shf_{parts[1]}",
            sub=int("wrap" in parts),
            d0=self._slot(target),
            a=self._value(low, "b32"),
            b=self._value(high, "b32"),
            c=self._value(by, "u32"),
        )

    def _op_lop3(self) -> None:
        target, *sources = self._operands()
        a, b, c = (self._value(part, "b32") for part in sources[:3])
        self._emit("lop3", d0=self._slot(target), a=a, b=b, c=c, imm=int(sources[3], 0))

    def _op_prmt(self) -> None:
        if len(self.instruction.opcode) != 2:
            raise self._unknown()
        target, *sources = self._operands()
        a, b, c = (self._value(part, "b32") for part in sources)
        self._emit("prmt", d0=self._slot(target), a=a, b=b, c=c)

    def _count_bits(self, name: str) -> None:
        kind = self.instruction.opcode[-1]
        target, source = self._operands()
        self._emit(f"{name}_{8 * type_bytes(kind)}", d0=self._slot(target), a=self._value(source, kind))

    def _op_popc(self) -> None:
        self._count_bits("popc")

    def _op_clz(self) -> None:
        self._count_bits("clz")

    def _op_brev(self) -> None:
        self._count_bits("brev")

    def _op_bfind(self) -> None:
        if self.instruction.opcode != ("bfind", "u32"):
            raise self._unknown()
        target, source = self._operands()
        self._emit("bfind_u32", d0=self._slot(target), a=self._value(source, "u32"))

    def _op_bfe(self) -> None:
        kind = self.instruction.opcode[-1]
        target, *sources = self._operands()
        self._emit(
            f"bfe_{kind}",
            d0=self._slot(target),
            a=self._value(sources[0], kind),
            b=self._value(sources[1], "u32"),
            c=self._value(sources[2], "u32"),
        )

    def _op_bfi(self) -> None:
        target, *sources = self._operands()
        a, b, c, e = (self._value(part, "b32") for part in sources)
        self._emit(
            f"bfi_{8 * type_bytes(self.instruction.opcode[-1])}", d0=self._slot(target), a=a, b=b, c=c, e=e
        )

    def _op_dp4a(self) -> None:
        _, first, second = self.instruction.opcode
        target, *sources = self._operands()
        a, b, c = (self._value(part, "b32") for part in sources)
        self._emit(
            "dp4a", type=self.types[first], type2=self.types[second], d0=self._slot(target), a=a, b=b, c=c
        )

    # ---- comparing and choosing

    def _op_setp(self) -> None:
        parts = self.instruction.opcode
        kind = parts[-1]
        combine = next(
            (number for number, name in enumerate(("and", "or", "xor"), 1) if name in parts[2:-1]), 0
        )
        targets, left, right, *rest = self._operands()
        first, _, second = targets.partition("|")
        flags = self._flags()
        fields: dict[str, int] = {}
        if combine:
            other = rest[0]
            if other.startswith("!"):
                flags |= OTHER_NEGATED
                other = other[1:]
            fields["c"] = self._value(other, "pred")
        plain = {"b16": "u16", "b32": "u32", "b64": "u64"}.get(kind, kind)
        self._emit(
            f"setp_{plain}",
            flags=flags,
            sub=numbers("C")[parts[1]],
            e=combine,
            d0=self._slot(first.strip()),
            d1=self._slot(second.strip()) if second else NO_SLOT,
            a=self._value(left, kind),
            b=self._value(right, kind),
            **fields,
        )

    def _op_selp(self) -> None:
        kind = self.instruction.opcode[-1]
        target, yes, no, predicate = self._operands()
        self._emit(
            "selp_64" if type_bytes(kind) == 8 else "selp_32",
            d0=self._slot(target),
            a=self._value(yes, kind),
            b=self._value(no, kind),
            c=self._value(predicate, "pred"),
        )

    def _op_testp(self) -> None:
        parts = self.instruction.opcode
        names = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
        if parts[-1] != "f32":
            raise self._unknown()
        target, source = self._operands()
        self._emit("testp", sub=names.index(parts[1]), d0=self._slot(target), a=self._value(source, "f32"))

    def _op_cvt(self) -> None:
        parts = self.instruction.opcode
        to, source_type = parts[-2], parts[-1]
        target, *sources = self._operands()
        if to in ("f16x2", "bf16x2"):
            if len(sources) != 2 or source_type != "f32":
                raise self._unknown()
            high, low = (self._value(part, "f32") for part in sources)
            self._emit(f"cvt_pack_{to[:-2]}", d0=self._slot(target), a=high, b=low)
            return
        if to not in self.types or source_type not in self.types:
            raise self._unknown()
        plain = f"cvt_{to}_{source_type}"
        value = self._value(sources[0], source_type)
        how = next((part for part in parts[1:-2] if part in self.rounding), "none")
        if plain in self.op and len(parts) == 3:
            self._emit(plain, d0=self._slot(target), a=value)
            return
        target_wide = type_bytes(self._register_type(target)) == 8
        self._emit(
            "cvt",
            flags=self._flags(),
            sub=self.rounding[how],
            type=self.types[to],
            type2=self.types[source_type],
            e=int(target_wide),
            d0=self._slot(target),
            a=value,
        )

    # ---- memory

    def _address(self, text: str) -> tuple[int, int]:
        inner = text.strip()[1:-1].strip()
        base, sign, offset = re.match(r"([\w%$.]+)\s*([+-]?)\s*(-?\w*)$", inner).groups()  # type: ignore[union-attr]
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
        if space in ("shared", ""):
            self.grain = min(self.grain, size)
        if loading:
            slots = [self._target(name) for name in names]
            wide = self._stored_width([name for name in names if name != "_"], size)
        else:
            slots = [self._value(name, kind) for name in names]
            wide = self._stored_width(names, size)
        self._emit(
            op,
            flags=SIGNED if kind.startswith("s") else 0,
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
        if operation is None or kind not in ("u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64"):
            raise self._unknown()
        operands = list(self._operands())
        target = self._target(operands.pop(0)) if returning else NO_SLOT
        base, offset = self._address(operands[0])
        size = type_bytes(kind)
        values = [self._value(part, kind) for part in operands[1:]]
        plain = {"b32": "u32", "b64": "u64"}.get(kind, kind)
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

    def _op_membar(self) -> None:
        self._emit("nop")

    def _op_fence(self) -> None:
        self._emit("nop")

    def _op_prefetch(self) -> None:
        self._emit("nop")

    def _op_prefetchu(self) -> None:
        self._emit("nop")

    # ---- warps and barriers

    def _op_bar(self) -> None:
        parts = self.instruction.opcode
        if parts[1] == "warp":
            self._emit("warp_sync", e=self._value(self._operands()[0], "u32"))
            return
        if "red" in parts:
            self._reducing_barrier()
            return
        if "arrive" in parts:
            number, _ = self._operands()
            self._emit("bar_arrive", a=self._value(number, "u32"))
            return
        if "sync" not in parts:
            raise self._unknown()
        operands = self._operands()
        count = self._value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
        self._emit("bar", a=self._value(operands[0], "u32"), b=count)

    def _reducing_barrier(self) -> None:
        """``__syncthreads_count``, ``_and``, ``_or``: every thread gets what the predicates make."""
        how = next(part for part in self.instruction.opcode if part in ("popc", "and", "or"))
        target, number, *count, predicate = self._operands()
        self._emit(
            "bar",
            sub=("", "popc", "and", "or").index(how),
            d0=self._slot(target),
            a=self._value(number, "u32"),
            b=self._value(count[0], "u32") if count else NO_SLOT,
            c=self._value(predicate.lstrip("!"), "pred"),
            flags=OTHER_NEGATED if predicate.startswith("!") else 0,
        )

    def _op_barrier(self) -> None:
        if "cluster" in self.instruction.opcode:
            raise self._unknown()
        self._op_bar()

    def _op_shfl(self) -> None:
        parts = self.instruction.opcode
        if parts[1] != "sync":
            raise self._unknown()
        targets, value, by, clamp, names = self._operands()
        first, _, second = targets.partition("|")
        self._emit(
            "shfl",
            sub=numbers("X")[parts[2]],
            d0=self._slot(first.strip()),
            d1=self._slot(second.strip()) if second else NO_SLOT,
            a=self._value(value, "b32"),
            b=self._value(by, "u32"),
            c=self._value(clamp, "u32"),
            e=self._value(names, "u32"),
        )

    def _op_vote(self) -> None:
        parts = self.instruction.opcode
        if parts[1] != "sync":
            raise self._unknown()
        target, predicate, names = self._operands()
        flags = OTHER_NEGATED if predicate.startswith("!") else 0
        self._emit(
            "vote",
            flags=flags,
            sub=("all", "any", "uni", "ballot").index(parts[2]),
            d0=self._slot(target),
            a=self._value(predicate.lstrip("!"), "pred"),
            e=self._value(names, "u32"),
        )

    def _op_activemask(self) -> None:
        self._emit("activemask", d0=self._slot(self._operands()[0]))

    def _op_match(self) -> None:
        if self.instruction.opcode[1:] != ("any", "sync", "b32"):
            raise self._unknown()
        target, value, names = self._operands()
        self._emit(
            "match_any", d0=self._slot(target), a=self._value(value, "b32"), e=self._value(names, "u32")
        )

    def _op_redux(self) -> None:
        parts = self.instruction.opcode
        target, value, names = self._operands()
        kind = {"b32": "u32"}.get(parts[-1], parts[-1])
        self._emit(
            "redux",
            sub=numbers("A")[parts[2]],
            type=self.types[kind],
            d0=self._slot(target),
            a=self._value(value, "b32"),
            e=self._value(names, "u32"),
        )

    # ---- control

    def _op_bra(self) -> None:
        row = self._emit("bra")
        self.jumps.append((row, self._operands()[0]))

    def _op_brx(self) -> None:
        index, table = self._operands()
        row = self._emit("brx", a=self._value(index, "u32"))
        self.branch_tables.append((row, self.function.targets[table]))

    def _op_ret(self) -> None:
        self._emit("exit" if self.function.is_entry else "ret")

    def _op_exit(self) -> None:
        self._emit("exit")

    def _op_tw(self) -> None:
        """``tw.watch.f32 number, value``: what the header's ``tw_watch`` leaves for a trace."""
        kind = self.instruction.opcode[-1]
        number, value = self._operands()
        self._emit(
            "watch",
            sub=int(number),
            type2=self.types[kind],
            e=type_bytes(kind),
            a=self._value(value, kind),
        )

    def _op_trap(self) -> None:
        self._emit("trap")

    def _op_brkpt(self) -> None:
        self._emit("nop")

    def _op_nanosleep(self) -> None:
        self._emit("nop")

    def _op_call(self) -> None:
        operands = list(self._operands())
        results = operands.pop(0) if operands[0].startswith("(") else "()"
        name = operands.pop(0)
        arguments = operands.pop(0) if operands else "()"
        given = [part.strip() for part in arguments.strip("()").split(",") if part.strip()]
        answers = [part.strip() for part in results.strip("()").split(",") if part.strip()]
        if name in self.module.functions:
            self._call_function(self.module.functions[name], given, answers)
        else:
            self._call_math(name, given, answers)

    def _parts(self, variable: Variable) -> list[int]:
        """Offsets at which a parameter's slots lie: every multiple of its smallest register."""
        return [0] if variable.count == 1 else list(range(variable.size_bytes))

    def _call_function(self, callee: Function, given: list[str], answers: list[str]) -> None:
        for name, parameter in zip(given, callee.parameters, strict=True):
            self._copy_parameter((self.function.name, name), (callee.name, parameter.name), parameter)
        row = self._emit("call")
        self.fixups.append((row, callee.name))
        for name, result in zip(answers, callee.results, strict=True):
            self._copy_parameter((callee.name, result.name), (self.function.name, name), result)

    def _copy_parameter(self, source: tuple[str, str], target: tuple[str, str], variable: Variable) -> None:
        """Move what was stored to a parameter: one register, or for structs each offset in use."""
        offsets = {0: variable.type} if variable.count == 1 else self._struct_offsets(source, target)
        for offset, kind in offsets.items():
            a = self._parameter_slot(source[1], offset, kind, source[0])
            d = self._parameter_slot(target[1], offset, kind, target[0])
            self._emit("mov_64" if type_bytes(kind) == 8 else "mov_32", d0=d, a=a)

    def _struct_offsets(self, *places: tuple[str, str]) -> dict[int, str]:
        found: dict[int, str] = {}
        for function_name, name in places:
            for instruction in self.module.functions[function_name].instructions:
                if instruction.opcode[0] in ("ld", "st") and "param" in instruction.opcode:
                    address = next(part for part in instruction.operands if part.startswith("["))
                    base, offset = self._parameter(address)
                    if base == name:
                        kind = instruction.opcode[-1]
                        other = next(part for part in instruction.operands if not part.startswith("["))
                        for number in range(len(other.strip("{}").split(","))):
                            found[offset + number * type_bytes(kind)] = kind
        return found

    def _call_math(self, name: str, given: list[str], answers: list[str]) -> None:
        plain = _MATH_ALIASES.get(name, name)
        single = plain.endswith("f") and plain[:-1] in numbers("M") and plain not in ("erf",)
        base = plain[:-1] if single else plain
        if base not in numbers("M") or len(answers) != 1:
            raise self._unknown()
        kind = "f32" if single else "f64"
        slots = [self._parameter_slot(part, 0, kind) for part in given]
        slots += [slots[0]] * (3 - len(slots))
        self._emit(
            f"math_{kind}",
            flags=FTZ if self.ftz else 0,
            sub=numbers("M")[base],
            d0=self._parameter_slot(answers[0], 0, kind),
            a=slots[0],
            b=slots[1],
            c=slots[2],
        )
