"""One launch on the simulated machine.

In: a compiled kernel, its arguments (checked and converted by ``Kernel``) and a launch shape. Out: a
``Run``. Arrays are written only if the run ends without a hazard, or with ``hazards="collect"``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tilewise.errors import LessonError

from . import machine
from .counts import Counts
from .frontend import Entry
from .hazards import KINDS, Hazard, HazardError
from .names import numbers
from .program import Program
from .ptx import Variable, type_bytes
from .trace import GLOBAL, SHARED, WATCH, Accesses, Trace, Watched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewise.outputs import Table

MAX_STEPS = 2_000_000_000
SM_COUNT = 132
_MAX_HAZARDS = 64
_STOPPED, _NO_MEMORY, _TOO_MANY_STEPS = 1, 2, 3


@dataclass(frozen=True, eq=False)
class Run:
    """What a launch did on the simulator."""

    kernel: str
    """The kernel's name."""
    grid: tuple[int, int, int]
    """Blocks in x, y, z."""
    block: tuple[int, int, int]
    """Threads of a block in x, y, z."""
    counts: Counts
    """In all."""
    lines: Mapping[int, Counts]
    """By line of the source, from 1; 0 holds what the compiler gives no line."""
    hazards: tuple[Hazard, ...]
    """Empty unless the run was told to collect them."""
    accesses: Accesses
    """Empty unless the run was traced."""
    buffers: tuple[str, ...]
    """Names by the numbers in ``accesses.buffer``: parameters, module variables, shared variables."""
    clock_is_not_time: bool
    """Whether the kernel read a clock: its values are counts of instructions, not times."""
    source: str
    """The kernel's source, for quoting lines."""
    watched: Mapping[str, Watched] = field(default_factory=dict)
    """Of a traced run, the values of the variables in ``// watch:`` comments, by name."""

    @cached_property
    def title(self) -> str:
        """The launch in a few words."""
        return f"{self.kernel}<<<{_shape(self.grid)}, {_shape(self.block)}>>>"

    def table(self) -> Table:
        """The counts by source line, and in all; only the columns in which something was counted."""
        from tilewise.outputs import Column, Table

        getters: list[tuple[str, str, Any]] = [
            ("issued", "warp instructions", lambda c: c.issued),
            ("load requests", "", lambda c: c.global_load.requests),
            ("load sectors", "32 B", lambda c: c.global_load.sectors),
            ("store requests", "", lambda c: c.global_store.requests),
            ("store sectors", "32 B", lambda c: c.global_store.sectors),
            ("atomic requests", "", lambda c: c.global_atomic.requests),
            ("shared loads", "wavefronts", lambda c: c.shared_load.wavefronts),
            ("shared stores", "wavefronts", lambda c: c.shared_store.wavefronts),
            ("barriers", "", lambda c: c.barriers),
            ("divergent", "branches", lambda c: c.divergent_branches),
        ]
        used = [getter for getter in getters if getter[2](self.counts)]
        text = self.source.splitlines()
        rows: list[list[Any]] = []
        for line, counts in sorted(self.lines.items()):
            if line and any(getter[2](counts) for getter in used):
                rows.append(
                    [line, text[line - 1].strip() if line <= len(text) else "", *(g[2](counts) for g in used)]
                )
        rows.append(["", "in all", *(getter[2](self.counts) for getter in used)])
        return Table(
            [Column("line"), Column("source"), *(Column(name, unit) for name, unit, _ in used)], rows
        )

    def text(self) -> str:
        """The table as a terminal shows it."""
        return f"{self.title}\n{self.table().text()}"

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
    options: tuple[str, ...] = (),
    max_steps: int = MAX_STEPS,
    source: str = "",
) -> Run:
    """Run a kernel on the simulator.

    Args:
        entry: the kernel.
        arguments: C-contiguous NumPy arrays for pointers; for values NumPy scalars, or arrays of one
            element.
        grid: blocks in x, y, z.
        block: threads of a block in x, y, z.
        shared_bytes: dynamic shared memory of a block.
        hazards: ``raise`` stops at the first; ``collect`` goes on with what this schedule gives.
        trace: which accesses to keep; none by default.
        options: compiler options, unused here beyond compiling.
        max_steps: warp instructions after which the kernel counts as endless.
        source: the kernel's text, for quoting lines; by default that of the compiled module.

    Raises:
        HazardError: with ``hazards="raise"``; arrays keep their contents.
        LessonError: the kernel uses something that the simulator does not carry out, or runs out of memory.
    """
    del options
    compiled = entry
    watched_names: tuple[str, ...] = ()
    if trace is not None:
        module, watched_names = entry.module.watched
        compiled = module.kernels[entry.name]
    program = compiled.program
    memory = _Memory(program, entry.parameters, arguments, entry.parameter_names)
    counts = np.zeros((len(program.lines) or 1, len(machine.COUNTERS)), np.uint64)
    found = np.zeros(_MAX_HAZARDS, machine.HAZARD)
    blocks = _marked(trace.blocks, grid[0] * grid[1] * grid[2]) if trace else None
    warps = _marked(trace.warps, 32) if trace else None
    owners = _owners(program, shared_bytes)
    description = machine.Launch(
        code=program.code.ctypes.data,
        n_code=len(program.code),
        consts=program.constants.ctypes.data,
        units=program.units,
        params=memory.parameters.ctypes.data,
        buffers=ctypes.cast(memory.table, ctypes.c_void_p),
        n_buffers=len(memory.table),
        grid=(ctypes.c_int32 * 3)(*grid),
        block=(ctypes.c_int32 * 3)(*block),
        shared_bytes=len(owners),
        owners=owners.ctypes.data,
        local_bytes=program.local_bytes,
        shared_grain=program.shared_grain,
        entry=0,
        counts=counts.ctypes.data,
        n_lines=len(counts),
        hazards=found.ctypes.data,
        max_hazards=_MAX_HAZARDS,
        collect=int(hazards == "collect"),
        tracing=int(trace is not None),
        max_steps=max_steps,
        trace_blocks=None if blocks is None else blocks.ctypes.data,
        trace_warps=None if warps is None else warps.ctypes.data,
        max_trace_steps=trace.max_steps if trace else 0,
        sm_count=SM_COUNT,
    )
    status, accesses = machine.run(description)
    if status == _NO_MEMORY:
        raise LessonError(
            *entry.module.place(1),
            "the simulator has not enough memory for this launch.",
            "Launch smaller blocks.",
        )
    text = source or entry.module.source
    names = memory.names
    said = _Describer(entry, program, memory, grid, block, text, max_steps, shared_bytes)
    run = Run(
        entry.name,
        grid,
        block,
        Counts.of(counts.sum(axis=0)),
        {line: Counts.of(row) for line, row in zip(program.lines, counts, strict=False)},
        tuple(said.hazard(row) for row in found[: description.n_hazards]),
        memory.accesses(accesses[accesses["kind"] != WATCH], program.lines),
        names,
        bool(description.used_clock),
        text,
        _watched(accesses[accesses["kind"] == WATCH], watched_names, program.lines),
    )
    if status in (_STOPPED, _TOO_MANY_STEPS):
        hazard = run.hazards[-1]
        raise HazardError(*entry.module.place(hazard.line), hazard, run)
    memory.write_back()
    return run


def _watched(rows: NDArray[np.void], names: Sequence[str], lines: Sequence[int]) -> dict[str, Watched]:
    types = {number: name for name, number in numbers("T").items()}
    found = {}
    for number, name in enumerate(names):
        here = rows[rows["buffer"] == number]
        value = np.zeros(len(here))
        for kind in np.unique(here["index"]):
            of_kind = here["index"] == kind
            value[of_kind] = _values(here["bits"][of_kind], np.dtype(_NUMPY[types[int(kind)]]))
        line = np.asarray(lines or [0], np.int32)[here["line"]]
        found[name] = Watched(here["step"], here["block"], here["warp"], here["lane"], line, value)
    return found


_NUMPY = {"f32": "f4", "f64": "f8", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8"}


def _owners(program: Program, shared_bytes: int) -> NDArray[np.uint8]:
    """Which shared variable, counted from 1, each byte belongs to; 0 for the gaps between them."""
    size = max((start + length for _, start, length in program.shared_variables), default=0)
    owners = np.zeros(max(size, program.dynamic_start + shared_bytes if shared_bytes else 0), np.uint8)
    for number, (_, start, length) in enumerate(program.shared_variables, 1):
        owners[start : start + (length or shared_bytes)] = min(number, 255)
    return owners


def _marked(numbers: Sequence[int] | None, size: int) -> NDArray[np.uint8] | None:
    if numbers is None:
        return None
    marks = np.zeros(size, np.uint8)
    marks[[number for number in numbers if 0 <= number < size]] = 1
    return marks


def _shape(dims: tuple[int, int, int]) -> str:
    last = max((axis for axis in range(3) if dims[axis] != 1), default=0)
    return str(dims[0]) if last == 0 else f"({', '.join(map(str, dims[: last + 1]))})"


class _Memory:
    """A launch's arguments and module variables, as the machine sees them."""

    def __init__(
        self,
        program: Program,
        declared: Sequence[Variable],
        arguments: Sequence[Any],
        parameter_names: Sequence[str] = (),
    ) -> None:
        self.program = program
        self.arrays: list[Any] = list(arguments)
        self.copies: dict[int, NDArray[np.uint8]] = {}
        self.shown: list[np.dtype[Any] | None] = []
        size = max(
            (at + one.size_bytes for at, one in zip(program.offsets, declared, strict=True)), default=0
        )
        self.parameters = np.zeros(size + 8, np.uint8)
        entries: list[tuple[int, int | None, int]] = []
        by_pointer: dict[tuple[int, int], NDArray[np.uint8]] = {}
        for number, (at, value) in enumerate(zip(program.offsets, arguments, strict=True)):
            if _is_pointer(value):
                key = (value.ctypes.data, value.nbytes)
                if key not in by_pointer:
                    by_pointer[key] = np.frombuffer(value.tobytes(), np.uint8).copy()
                self.copies[number] = by_pointer[key]
                address = np.uint64(0x100000000000 + (number << 36))
                self.parameters[at : at + 8] = np.frombuffer(address.tobytes(), np.uint8)
                entries.append((value.nbytes, self.copies[number].ctypes.data, int(value.flags.writeable)))
                self.shown.append(value.dtype)
            else:
                raw = np.frombuffer(np.asarray(value).tobytes(), np.uint8)
                self.parameters[at : at + len(raw)] = raw
                entries.append((0, None, 0))
                self.shown.append(None)
        self.variables: list[NDArray[np.uint8]] = []
        for variable in program.module_variables:
            data = _initial(variable)
            self.variables.append(data)
            entries.append((len(data), data.ctypes.data, int(variable.space == "global")))
            self.shown.append(None)
        self.table = (machine.Buffer * (len(entries) + 1))()
        for number, (length, pointer, writable) in enumerate(entries):
            self.table[number] = machine.Buffer(length, pointer, writable, number)
        self.table[len(entries)] = machine.Buffer(size, self.parameters.ctypes.data, 0, -1)
        given = parameter_names or [f"argument {number}" for number in range(len(declared))]
        self.global_names = tuple(given) + tuple(one.name for one in program.module_variables)
        self.names = self.global_names + tuple(_short_name(name) for name, _, _ in program.shared_variables)

    def write_back(self) -> None:
        """Copy what the kernel left into the arrays given."""
        for number, copy in self.copies.items():
            array = self.arrays[number]
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[...] = copy

    def accesses(self, rows: NDArray[np.void], lines: Sequence[int]) -> Accesses:
        """The machine's rows with source lines, buffers, elements and values."""
        line = np.asarray(lines or [0], np.int32)[rows["line"]] if len(rows) else rows["line"]
        buffer, index = rows["buffer"].copy(), rows["index"].copy()
        value = np.zeros(len(rows), np.float64)
        for number, dtype in enumerate(self.shown):
            here = (rows["space"] == GLOBAL) & (buffer == number)
            if here.any():
                plain = np.dtype(dtype) if dtype is not None else np.dtype(np.float32)
                index[here] //= plain.itemsize
                value[here] = _values(rows["bits"][here], plain)
        shared = rows["space"] == SHARED
        if shared.any():
            self._place_shared(rows, shared, buffer, index, value)
        buffer[(rows["space"] != GLOBAL) & ~shared] = -1
        return Accesses(
            rows["step"],
            rows["block"],
            rows["warp"],
            rows["lane"],
            line,
            rows["space"],
            rows["kind"],
            rows["size"],
            buffer,
            rows["interval"],
            rows["address"],
            index,
            value,
        )

    def _place_shared(self, rows: Any, shared: Any, buffer: Any, index: Any, value: Any) -> None:
        first = len(self.global_names)
        variables = self.program.shared_variables
        for number, (_, start, size) in enumerate(variables):
            here = shared & (rows["address"] >= start) & ((rows["address"] < start + size) | (size == 0))
            buffer[here] = first + number
            index[here] = (rows["address"][here].astype(np.int64) - start) // rows["size"][here]
        for size, kind in ((1, "u1"), (2, "f2"), (4, "f4"), (8, "f8")):
            here = shared & (rows["size"] == size)
            if here.any():
                value[here] = _values(rows["bits"][here], np.dtype(kind))


def _values(bits: NDArray[np.uint64], dtype: np.dtype[Any]) -> NDArray[np.float64]:
    whole = np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), 8)
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        return np.asarray(bits, np.float64)
    return np.ascontiguousarray(whole[:, : dtype.itemsize]).view(dtype).reshape(-1).astype(np.float64)


def _is_pointer(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and not (value.dtype.names is not None and value.size == 1)
        and value.ndim != 0
    )


def _initial(variable: Variable) -> NDArray[np.uint8]:
    data = np.zeros(max(variable.size_bytes, 1), np.uint8)
    size = type_bytes(variable.type)
    for number, element in enumerate(variable.initial):
        raw = (element & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        data[number * size : (number + 1) * size] = np.frombuffer(raw, np.uint8)
    return data


def _short_name(name: str) -> str:
    """The name in the source of a shared variable, which the compiler mangles: ``_ZZ4tileE1s`` is ``s``."""
    import re

    if not name.startswith("_ZZ"):
        return name
    found = re.search(r"E(\d+)", name)
    if not found:
        return name
    tail = name[found.end() :]
    return tail[: int(found[1])]


class _Describer:
    """Turns the machine's findings into sentences."""

    def __init__(
        self,
        entry: Entry,
        program: Program,
        memory: _Memory,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        source: str,
        max_steps: int,
        shared_bytes: int,
    ) -> None:
        self.entry, self.program, self.memory = entry, program, memory
        self.grid, self.block, self.lines = grid, block, source.splitlines()
        self.max_steps, self.shared_bytes = max_steps, shared_bytes

    def hazard(self, row: Any) -> Hazard:
        """The hazard of one row of the machine."""
        line = self.program.lines[row["line"]] if self.program.lines else 0
        kind = KINDS[int(row["kind"])]
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return Hazard(
            kind,
            line,
            getattr(self, f"_{kind.replace(' ', '_').replace('-', '_')}")(row),
            int(row["count"]),
            text,
        )

    def _who(self, row: Any) -> str:
        return f"{self._thread(int(row['thread']))} of {self._block(int(row['block']))}"

    def _thread(self, number: int) -> str:
        x, y, _ = self.block
        place = (number % x, number // x % y, number // (x * y))
        return f"thread {_place(place, self.block)}"

    def _block(self, number: int) -> str:
        x, y, _ = self.grid
        return f"block {_place((number % x, number // x % y, number // (x * y)), self.grid)}"

    def _what(self, row: Any) -> str:
        number, size = int(row["buffer"]), int(row["size"])
        if number >= 0 and number < len(self.memory.shown):
            dtype = self.memory.shown[number]
            step = dtype.itemsize if dtype is not None else size
            return f"{self.memory.names[number]}[{int(row['index']) // step}]"
        if number == -2:
            return self._shared(int(row["address"]), size)
        if number == -3:
            return f"byte {int(row['address'])} of local memory"
        return f"address {int(row['address']):#x}"

    def _verb(self, row: Any) -> str:
        return "writes" if row["write"] else "reads"

    def _out_of_bounds(self, row: Any) -> str:
        number = int(row["buffer"])
        if number >= 0 and self.memory.shown[number] is not None:
            held = self.memory.arrays[number].size
            extent = f"; {self.memory.names[number]} has {held} element{'s' if held != 1 else ''}"
        elif number == -2:
            extent = self._extent(int(row["address"]), int(row["size"]))
        else:
            extent = ", which belongs to no array"
        return f"{self._who(row)} {self._verb(row)} {self._what(row)}{extent}"

    def _misaligned(self, row: Any) -> str:
        size = int(row["size"])
        return f"{self._who(row)} {self._verb(row)} {size} bytes at an address that is no multiple of {size}"

    def _barrier(self, row: Any) -> str:
        total = self.block[0] * self.block[1] * self.block[2]
        if row["size"] < 0:
            other = self.program.lines[int(row["other_line"])]
            return (
                f"{self._who(row)} waits here and {self._thread(int(row['index']))} at line {other}: "
                "a barrier must be the same one for all threads of a block"
            )
        return (
            f"{int(row['size'])} of the {total} threads of {self._block(int(row['block']))} wait here, and "
            f"{self._thread(int(row['index']))} never comes"
        )

    def _shuffle(self, row: Any) -> str:
        lane = int(row["lane"])
        return f"{self._who(row)} and the lanes named in the mask are not those that are there (lane {lane})"

    def _race(self, row: Any) -> str:
        other = self.program.lines[int(row["other_line"])]
        quoted = f" (`{self.lines[other - 1].strip()}`)" if 0 < other <= len(self.lines) else ""
        return (
            f"{self._who(row)} {self._verb(row)} {self._shared(int(row['address']), int(row['size']))}, "
            f"which warp {int(row['other_warp'])} "
            f"touched at line {other}{quoted} with no barrier in between"
        )

    def _nearest(self, address: int) -> tuple[str, int, int] | None:
        """The shared variable that an address is in or just beside: name, start and size."""
        whole = [
            (name, start, length or self.shared_bytes)
            for name, start, length in self.program.shared_variables
        ]
        signed = address - (1 << 64) if address >= 1 << 63 else address
        return min(whole, key=lambda one: max(one[1] - signed, signed - one[1] - one[2] + 1, 0), default=None)

    def _shared(self, address: int, size: int) -> str:
        found = self._nearest(address)
        if found is None:
            return f"byte {address} of shared memory"
        signed = address - (1 << 64) if address >= 1 << 63 else address
        return f"{_short_name(found[0])}[{(signed - found[1]) // size}]"

    def _extent(self, address: int, size: int) -> str:
        found = self._nearest(address)
        if found is None:
            return "; the block has none"
        count = found[2] // size
        return f"; {_short_name(found[0])} has {count} element{'s' if count != 1 else ''} of that size"

    def _uninitialised(self, row: Any) -> str:
        word = self._shared(int(row["address"]), int(row["size"]))
        return f"{self._who(row)} reads {word}, which nobody wrote"

    def _steps(self, row: Any) -> str:
        block = self._block(int(row["block"]))
        return f"{block} is still running after {self.max_steps} warp instructions of the launch"

    def _trap(self, row: Any) -> str:
        return f"{self._who(row)} reached a trap"

    def _read_only(self, row: Any) -> str:
        return f"{self._who(row)} writes {self._what(row)}, which is read-only"


def _place(place: tuple[int, int, int], dims: tuple[int, int, int]) -> str:
    last = max((axis for axis in range(3) if dims[axis] != 1), default=0)
    return str(place[0]) if last == 0 else f"({', '.join(map(str, place[: last + 1]))})"
