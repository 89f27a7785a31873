"""A kernel as a file for the page: its decoded program, and the names and source for messages.

In: an ``Entry``. Out: plain data. Host pointers become table numbers; a constant register, which
has one value for all lanes, becomes that value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.cuda.shared_arrays import shared_arrays
from tilewise.cuda.variables import shown_name
from tilewise.simulator.engine.memory import initial_elements, places_of, short_name
from tilewise.simulator.engine.shared import INSTRUCTION
from tilewise.simulator.engine.state import State
from tilewise.simulator.frontend import Entry
from tilewise.simulator.ptx.ptx import Variable, type_bytes

_EXACT = 1 << 53
"""Integers from here on are written as text, because JavaScript's numbers can't represent them."""


def program_data(entry: Entry) -> dict[str, Any]:
    """The program of an entry point as JSON data; ``site/web/run/machine.js`` reads it."""
    program = entry.program
    places = places_of(program.module_variables, len(entry.parameters))
    first = State(entry.module.state.declared)
    code = program.code.copy()
    numbers = {table.ctypes.data: number for number, table in enumerate(program.tables)}
    table_rows = [[row, numbers[imm]] for row, imm in enumerate(code["imm"].tolist()) if imm in numbers]
    for row, _ in table_rows:
        code["imm"][row] = 0
    return {
        "name": entry.title,
        "source": entry.module.source,
        "code": {name: _column(code[name]) for name in INSTRUCTION.names or ()},
        "tables": [table.tolist() for table in program.tables],
        "table_rows": table_rows,
        "constants": _constants(program.constants),
        "units": program.units,
        "parameters": [
            [name, offset, variable.size_bytes]
            for name, offset, variable in zip(
                entry.parameter_names or [f"argument {number}" for number in range(len(entry.parameters))],
                program.offsets,
                entry.parameters,
                strict=True,
            )
        ],
        "read_only": list(entry.read_only),
        "variables": [
            _variable(variable, [_number(element) for element in initial_elements(variable, places)], first)
            for variable in program.module_variables
        ],
        "declared": {
            name: {"shape": list(array.shape), "type": array.dtype.str[1:] if array.dtype is not None else ""}
            for name, array in shared_arrays(entry.module.compiled).items()
        },
        "shared": [[short_name(name), start, size] for name, start, size in program.shared_variables],
        "dynamic_start": program.dynamic_start,
        "static_shared": program.shared_bytes,
        "local_bytes": program.local_bytes,
        "shared_grain": program.shared_grain,
        "global_grain": program.global_grain,
        "fences": program.fences,
        "waits": program.waits,
        "agents": program.agents,
        "grid_sync": program.grid_sync,
        "cluster": list(entry.cluster),
        "lines": list(program.lines),
    }


def watched_data(entry: Entry) -> dict[str, Any] | None:
    """The program for a trace if it differs: it reports variables, whose names come with it.

    None if the source has no ``// watch:`` comment.
    """
    module, names = entry.module.watched
    if not names:
        return None
    return {
        "names": list(names),
        "program": program_data(replace(module.kernels[entry.name], function=entry.function)),
    }


def _variable(variable: Variable, initial: list[int | str], state: State) -> dict[str, Any]:
    name = shown_name(variable.name)
    dtype = state.declared[name].dtype if name in state.declared else None
    return {
        "name": name,
        "space": variable.space,
        "writable": variable.space == "global",
        "bytes": max(variable.size_bytes, 1),
        "width": type_bytes(variable.type),
        "initial": initial,
        "element_bytes": dtype.itemsize if dtype is not None else 0,
        "type": dtype.str[1:] if dtype is not None else "",
        "unset": state.needs_a_value(variable),
    }


def _number(value: int) -> int | str:
    return value if -_EXACT < value < _EXACT else str(value)


def _column(values: np.ndarray) -> Any:
    """A column of the code; a list of columns if the field is an array; 0 if all values are 0."""
    if values.ndim > 1:
        return [_column(values[:, at]) for at in range(values.shape[1])]
    return [_number(value) for value in values.tolist()] if values.any() else 0


def _constants(registers: np.ndarray) -> list[int]:
    """The two words of each constant register, which alternate over its 32 words."""
    pairs = registers[:, :2]
    if not (registers.reshape(len(registers), 16, 2) == pairs[:, None]).all():
        raise AssertionError("a constant register differs between lanes")
    words: list[int] = pairs.reshape(-1).tolist()
    return words
