"""A launch on the simulated machine.

In: a compiled kernel, its arguments (checked and converted by ``Kernel``) and a launch shape. Out: a
``Run``. Arrays are written only if the run ends without a hazard, or with ``hazards="collect"``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewise.cuda.shared_arrays import shared_arrays
from tilewise.errors import LessonError
from tilewise.simulator.engine import cores, machine
from tilewise.simulator.engine.machine import Findings
from tilewise.simulator.engine.memory import Memory, shared_owners, watched_values
from tilewise.simulator.engine.shared import ACCESS, HAZARD_KINDS, Launch
from tilewise.simulator.engine.state import State
from tilewise.simulator.engine.trace import WATCH, Accesses, Trace, Watched
from tilewise.simulator.frontend import Entry
from tilewise.simulator.results.async_findings import Describer
from tilewise.simulator.results.counts import Counts
from tilewise.simulator.results.hazards import Hazard, HazardError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewise.outputs import RunOutput, Table

MAX_STEPS = 80_000_000
"""Warp instructions after which a launch counts as endless: about ten seconds."""
SM_COUNT = 132
_MOST_TOGETHER = 128
IGNORABLE = ("uninitialised", "race", "shuffle", "undelivered", "overwritten", "proxy")
"""Kinds of hazards that a launch can ignore: those about values, not about control flow."""


@dataclass(frozen=True, eq=False)
class Run:
    """The results of a launch on the simulator."""

    kernel: str
    """The kernel's name."""
    grid: tuple[int, int, int]
    """Blocks in x, y, z."""
    block: tuple[int, int, int]
    """Threads per block in x, y, z."""
    counts: Counts
    """Totals."""
    lines: Mapping[int, Counts]
    """By line of the source, from 1; 0 is for instructions without a line."""
    hazards: tuple[Hazard, ...]
    """Empty unless the run collected them."""
    accesses: Accesses
    """Empty unless the run was traced."""
    buffers: tuple[str, ...]
    """Names for the indices in ``accesses.buffer``: parameters, module variables, shared variables."""
    clock_is_not_time: bool
    """Whether the kernel read a clock: the values are instruction counts, not times."""
    source: str
    """The kernel's source, for quoting lines."""
    watched: Mapping[str, Watched] = field(default_factory=dict)
    """For a traced run: the values of the variables in ``// watch:`` comments, by name."""
    notes: tuple[str, ...] = ()
    """Notes that aren't faults: barriers that completed without exited threads."""
    printed: str = ""
    """The output of ``printf``, block by block; also written to stdout."""
    dtypes: tuple[np.dtype[Any] | None, ...] = ()
    """For a traced run: element types in the order of ``buffers``; None if unknown."""
    shared_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For a traced run: the shapes of shared arrays by name, if the source declares them."""
    launch: Any = None
    """The simulated launch, ``kernel.on(case)``; None if the kernel was called with arguments."""

    @cached_property
    def title(self) -> str:
        """The launch as ``kernel<<<grid, block>>>``."""
        return f"{self.kernel}<<<{_shape(self.grid)}, {_shape(self.block)}>>>"

    def as_output(self) -> RunOutput:
        """The output of ``show(run)``: the counts by source line, and totals."""
        from tilewise.simulator.results.table import table

        return table(self)

    def table(self) -> Table:
        """The counts by source line, and totals; only columns with counts."""
        return self.as_output().table()

    def text(self) -> str:
        """The table for a terminal."""
        return self.as_output().text()

    def __str__(self) -> str:
        return self.text()


def launch(
    entry: Entry,
    arguments: Sequence[Any],
    *,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int = 0,
    hazards: Literal["raise", "collect"] = "raise",
    trace: Trace | None = None,
    max_steps: int = MAX_STEPS,
    ignore: Sequence[str] = (),
    state: State | None = None,
) -> Run:
    """Run a kernel on the simulator.

    Args:
        entry: the kernel.
        arguments: C-contiguous NumPy arrays for pointers; NumPy scalars or one-element arrays for values.
        grid: blocks in x, y, z.
        block: threads per block in x, y, z.
        shared_bytes: dynamic shared memory per block.
        hazards: ``raise`` stops at the first; ``collect`` continues with this schedule's values.
        trace: which accesses to record; none by default.
        max_steps: warp instructions after which the kernel counts as endless.
        ignore: kinds of hazards to ignore, from ``IGNORABLE``.
        state: the values of the source's variables; by default the module's own.

    Raises:
        HazardError: with ``hazards="raise"``; arrays keep their contents.
        ValueError: ``hazards``, ``max_steps`` or ``ignore`` is invalid.
        LessonError: the kernel uses an unsupported feature, or the launch runs out of memory.
    """
    if hazards not in ("raise", "collect"):
        raise ValueError(f'hazards is {hazards!r}; it can be "raise" or "collect".')
    if not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps is {max_steps!r}; it is a whole number from 1.")
    if isinstance(ignore, str) or not set(ignore) <= set(IGNORABLE):
        kinds = ", ".join(IGNORABLE)
        raise ValueError(f'ignore is {ignore!r}; it can have {kinds}, as in ignore=("uninitialised",).')
    compiled = entry
    watched_names: tuple[str, ...] = ()
    if trace is not None:
        module, watched_names = entry.module.watched
        compiled = replace(module.kernels[entry.name], function=entry.function)
    program = compiled.program
    state = state or entry.module.state
    blocks = _marked(trace.blocks, grid[0] * grid[1] * grid[2]) if trace else None
    warps = _marked(trace.warps, 32) if trace else None
    releases = np.zeros(grid[0] * grid[1] * grid[2], np.uint16) if program.fences else None
    owners = shared_owners(program, shared_bytes)
    cluster = _together(compiled, grid) if program.grid_sync else compiled.cluster
    shape = Launch(
        code=program.code.ctypes.data,
        n_code=len(program.code),
        consts=program.constants.ctypes.data,
        units=program.units,
        grid=(ctypes.c_int32 * 3)(*grid),
        block=(ctypes.c_int32 * 3)(*block),
        shared_bytes=len(owners),
        owners=owners.ctypes.data,
        local_bytes=program.local_bytes,
        shared_grain=program.shared_grain,
        global_grain=program.global_grain,
        releases=None if releases is None else releases.ctypes.data,
        entry=0,
        collect=int(hazards == "collect"),
        tracing=int(trace is not None),
        max_steps=max_steps,
        trace_blocks=None if blocks is None else blocks.ctypes.data,
        trace_warps=None if warps is None else warps.ctypes.data,
        max_trace_steps=trace.max_steps if trace else 0,
        sm_count=SM_COUNT,
        cluster=(ctypes.c_int32 * 3)(*cluster),
        ignored=sum(1 << number for number, kind in HAZARD_KINDS.items() if kind in ignore),
        agents=int(program.agents or cluster != (1, 1, 1)),
    )

    def prepared() -> tuple[Launch, Memory, Findings]:
        try:
            memory = Memory(
                program, entry.parameters, arguments, entry.parameter_names, entry.read_only, state
            )
        except MemoryError:
            raise _no_memory(entry) from None
        if releases is not None:
            releases.fill(0)
        description, findings = Launch.from_buffer_copy(shape), Findings(len(program.lines))
        memory.write_into(description)
        findings.write_into(description)
        return description, memory, findings

    description, memory, findings = prepared()
    status, accesses, printed = machine.DONE, np.zeros(0, ACCESS), ""
    is_several = trace is None and grid != cluster
    many = cores.count() if is_several and cores.may_spread(program, memory) else 1
    if many == 1 or not cores.run(description, memory, findings, many):
        if many > 1:
            description, memory, findings = prepared()
        status, accesses, printed = machine.run(description)
    print(printed, end="", flush=bool(printed))
    if status == machine.NO_MEMORY:
        raise _no_memory(entry)
    declared = shared_arrays(entry.module.compiled) if trace else {}
    describer = Describer(entry, program, memory, grid, block, max_steps, shared_bytes)
    run = Run(
        kernel=entry.title,
        grid=grid,
        block=block,
        counts=Counts.of(findings.counts.sum(axis=0)),
        lines={line: Counts.of(row) for line, row in zip(program.lines, findings.counts, strict=False)},
        hazards=tuple(map(describer.hazard, _rows(findings.hazards, description.n_hazards))),
        accesses=memory.accesses(accesses[accesses["kind"] != WATCH], program.lines),
        buffers=memory.names,
        clock_is_not_time=bool(description.used_clock),
        source=entry.module.source,
        watched=watched_values(accesses[accesses["kind"] == WATCH], watched_names, program.lines),
        notes=tuple(map(describer.note, _rows(findings.notes, description.n_notes))),
        printed=printed,
        dtypes=memory.dtypes(declared) if trace else (),
        shared_shapes={name: array.shape for name, array in declared.items() if array.shape},
    )
    if status in (machine.STOPPED, machine.TOO_MANY_STEPS):
        hazard = run.hazards[-1]
        raise HazardError(*entry.module.place(hazard.line), hazard, run)
    memory.write_back()
    return run


def _rows(table: NDArray[np.void], count: int) -> list[dict[str, int]]:
    """The first ``count`` rows of a table, with Python integers."""
    return [dict(zip(table.dtype.names or (), row, strict=True)) for row in table[:count].tolist()]


def _together(entry: Entry, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The cluster of a grid with ``grid.sync()``: all of its blocks."""
    path, line = entry.module.place(1)
    if entry.cluster != (1, 1, 1):
        raise LessonError(
            path,
            line,
            f'kernel "{entry.title}" has clusters and waits for the whole grid, too.',
            "The simulator does either: take one of them out.",
        )
    blocks = grid[0] * grid[1] * grid[2]
    if blocks > _MOST_TOGETHER:
        raise LessonError(
            path,
            line,
            f'kernel "{entry.title}" waits for the whole grid, which has {blocks} blocks.',
            f"The simulator runs up to {_MOST_TOGETHER} blocks at once: launch a smaller grid.",
        )
    return grid


def _no_memory(entry: Entry) -> LessonError:
    return LessonError(
        *entry.module.place(1),
        "the simulator has not enough memory for this launch.",
        "Launch smaller blocks, or declare smaller arrays.",
    )


def _marked(numbers: Sequence[int] | None, size: int) -> NDArray[np.uint8] | None:
    if numbers is None:
        return None
    marks = np.zeros(size, np.uint8)
    marks[[number for number in numbers if 0 <= number < size]] = 1
    return marks


def _shape(dims: tuple[int, int, int]) -> str:
    last = max((axis for axis in range(3) if dims[axis] != 1), default=0)
    return str(dims[0]) if last == 0 else f"({', '.join(map(str, dims[: last + 1]))})"
