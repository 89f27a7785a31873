"""Decodes PTX: an entry point and all it calls, as rows of numbers that the machine runs.

In: a parsed module. Out: ``Program``, with instructions as an integer matrix, register slots, constants,
parameter layout, and the addresses of the module's variables. An unknown instruction raises with its name
and source line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tilewise.simulator.decode import (
    accesses,
    arithmetic,
    asynchronous,
    bits,
    comparisons,
    control,
    matrices,
    warpgroups,
)
from tilewise.simulator.decode.operands import Assembler, Handlers, UnknownInstructionError, source_name
from tilewise.simulator.engine.shared import GLOBAL_BASE, GLOBAL_SHIFT, INSTRUCTION, numbers, values
from tilewise.simulator.ptx.ptx import Function, Instruction, Ptx, Variable, type_bytes

HANDLERS: Handlers = {
    **arithmetic.HANDLERS,
    **bits.HANDLERS,
    **comparisons.HANDLERS,
    **accesses.HANDLERS,
    **control.HANDLERS,
    **matrices.HANDLERS,
    **asynchronous.HANDLERS,  # these handle their forms of cp, st, fence and barrier, and delegate the rest
    **warpgroups.HANDLERS,
}
"""The handlers of supported instructions, by mnemonic."""

SHARED_GAP = 2048
"""Bytes between shared variables, so that an index out of bounds does not reach the next variable.

A multiple of 128, so that every word is in the same bank as on a GPU."""

_TARGETS = ("d0", "d1", "d2", "d3")
"""The fields of a row that are stored in an instruction's array ``d``."""


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
    """Its parameters, as the PTX declares them."""
    offsets: tuple[int, ...]
    """Byte offset of each parameter in the parameter buffer."""
    shared_bytes: int
    """Size of static shared memory on a GPU."""
    dynamic_start: int
    """Start of dynamic shared memory; variables are ``SHARED_GAP`` bytes further apart than on a GPU."""
    shared_variables: tuple[tuple[str, int, int], ...]
    """Name, offset and size of each shared variable; the dynamic one has size 0."""
    module_variables: tuple[Variable, ...]
    """Global and constant variables, in the order of their buffers, which follow the arguments'."""
    local_bytes: int
    """Local memory per thread."""
    shared_grain: int
    """Smallest shared access, in bytes: 1, 2 or 4."""
    global_grain: int
    """Smallest access to global memory, in bytes: 1, 2 or 4."""
    fences: bool
    """Whether it has fences, or loads and stores that imply one."""
    agents: bool
    """Whether shared memory is accessed by other agents than warps, or by other blocks."""
    grid_sync: bool
    """Whether all blocks of the grid synchronise, so that they must run together."""
    lines: tuple[int, ...]
    """Source line of each row of counters."""
    headers: tuple[str, ...]
    """Places in headers of the source, ``helper.cuh:12``; the first is empty."""
    tables: list[np.ndarray] = field(default_factory=list)
    """Branch tables, kept alive for the machine."""

    @property
    def waits(self) -> bool:
        """Whether it has accesses by which blocks can communicate."""
        return bool(
            (self.code["op"] == numbers("OP")["atom"]).any()
            or (self.code["flags"] & values("FLAG")["SYNC"]).any()
        )

    @cached_property
    def has_order(self) -> bool:
        """Whether the order of its blocks is visible: by communication, printing, or a clock.

        A generic atomic does not count, because it may access shared memory.
        """
        operations, spaces = numbers("OP"), numbers("SPACE")
        op, space = self.code["op"], self.code["type"]
        in_order = (op == operations["print"]) | (op == operations["clock"])
        atomic = (op == operations["atom"]) & (space == spaces["GLOBAL"])
        signal = (self.code["flags"] & values("FLAG")["SYNC"] != 0) & (space != spaces["SHARED"])
        return bool((in_order | atomic | signal).any())

    @property
    def is_architecture_specific(self) -> bool:
        """Whether it has instructions of ``sm_90a``, which ``sm_90`` lacks."""
        ops = numbers("OP")
        own = [ops[name] for name in ("wgmma", "wgmma_fence", "wgmma_commit", "wgmma_wait", "setmaxnreg")]
        return bool(np.isin(self.code["op"], own).any())


def decode(module: Ptx, entry: str, *, ftz: bool = True, first_module_buffer: int = 0) -> Program:
    """Decode an entry point of a module.

    Args:
        module: the parsed module.
        entry: the entry point's name.
        ftz: whether subnormal results of math functions are flushed, as by CuPy's default.
        first_module_buffer: number of the buffer of the module's first variable.

    Raises:
        UnknownInstructionError: with the text and the line of the instruction.
    """
    return _Decoder(module, entry, ftz, first_module_buffer).program()


class _Decoder(Assembler):
    def __init__(self, module: Ptx, entry: str, ftz: bool, first_module_buffer: int) -> None:
        super().__init__(module, entry, ftz)
        self._lay_out(first_module_buffer)

    def _lay_out(self, first_module_buffer: int) -> None:
        shared: list[tuple[str, int, int]] = []
        real = 0
        dynamic: list[str] = []
        dynamic_align = 16
        variables = [*self.module.variables]
        for function in self._reached():
            variables += function.variables
        for variable in variables:
            if variable.space == "shared":
                if variable.count == 0:
                    dynamic.append(variable.name)
                    dynamic_align = max(dynamic_align, variable.align)
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
        self.dynamic_start = -(-real // dynamic_align) * dynamic_align + SHARED_GAP * len(shared)
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
        # A parameter whose address is taken is also memory: the buffer after the module's variables.
        number = first_module_buffer + len(self.module_variables)
        base = GLOBAL_BASE + (number << GLOBAL_SHIFT)
        self.symbols.update({name: base + offset for name, offset in self.offsets.items()})

    def _reached(self) -> list[Function]:
        names = [self.entry]
        for name in names:
            for instruction in self.module.functions[name].instructions:
                if instruction.opcode[0] == "call":
                    callee = self._callee(instruction)
                    if callee in self.module.functions and callee not in names:
                        names.append(callee)
        self._refuse_recursion(self.entry, ())
        return [self.module.functions[name] for name in names]

    def _refuse_recursion(self, name: str, callers: tuple[str, ...]) -> None:
        """Raise if a function calls itself, because its registers exist only once."""
        for instruction in self.module.functions[name].instructions:
            callee = self._callee(instruction) if instruction.opcode[0] == "call" else ""
            if callee in (*callers, name):
                raise UnknownInstructionError(
                    instruction.text,
                    instruction.line,
                    f"{source_name(callee)} calls itself, and the simulator keeps one set of registers for "
                    "each function.",
                    "Write it as a loop, with a stack of its own in a local array.",
                )
            if callee in self.module.functions:
                self._refuse_recursion(callee, (*callers, name))

    @staticmethod
    def _callee(instruction: Instruction) -> str:
        return next(part for part in instruction.operands if not part.startswith("("))

    def program(self) -> Program:
        for function in self._reached():
            self._function(function)
        for row, name in self.fixups:
            self.rows[row]["target"] = self.starts[name]
        code = np.zeros(len(self.rows), INSTRUCTION)
        for name in dict.fromkeys(name for row in self.rows for name in row):
            column = [row.get(name, 0) for row in self.rows]
            if name in _TARGETS:
                code["d"][:, _TARGETS.index(name)] = column
            else:
                code[name][:] = column
        function = self.module.functions[self.entry]
        constants = np.stack(self.constants) if self.constants else np.zeros((1, 32), np.uint32)
        return Program(
            name=self.entry,
            code=code,
            constants=constants,
            units=max(self.units, 1),
            parameters=function.parameters,
            offsets=self.parameter_offsets,
            shared_bytes=self.static_shared,
            dynamic_start=self.dynamic_start,
            shared_variables=self.shared_variables,
            module_variables=tuple(self.module_variables),
            local_bytes=self.local_bytes,
            shared_grain=self.grain,
            global_grain=self.global_grain,
            fences=self.fences,
            agents=self.agents,
            grid_sync=self.grid_sync,
            lines=tuple(self.line_rows),
            headers=tuple(self.header_rows),
            tables=self.tables,
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
            handler = HANDLERS.get(instruction.opcode[0])
            if handler is None:
                raise self.unknown()
            handler(self)
        first_rows.append(len(self.rows))
        self.emit("ret" if not function.is_entry else "exit")
        at = {label: first_rows[index] for label, index in function.labels.items()}
        for row, label in jumps:
            self.rows[row]["target"] = at[label]
        for row, labels in tables:
            self.rows[row]["imm"] = self.table([at[label] for label in labels])
            self.rows[row]["sub"] = len(labels)
