"""A launch's memory: arguments, module variables and shared memory as the machine sees them.

In: a ``Program`` and the launch's arguments. Out: buffers for the machine, arrays written back, and the
machine's access rows as elements and values. Bounds are checked in ``engine/memory.h``.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.shared_arrays import Shared
from tilewise.cuda.tensor_map import MAP_BYTES, InnerPointer, TensorMap
from tilewise.cuda.variables import shown_name
from tilewise.simulator.decode.program import Program
from tilewise.simulator.engine.shared import GLOBAL_BASE, GLOBAL_SHIFT, WORD_BYTES, Buffer, Launch, numbers
from tilewise.simulator.engine.state import State
from tilewise.simulator.engine.trace import GLOBAL, SHARED, Accesses, Watched
from tilewise.simulator.ptx.ptx import Variable, type_bytes

_WITHIN_BLOCK = np.uint64((1 << 24) - 1)
"""Bits of a shared memory address within its block; higher bits are the block's rank in the cluster."""

MOST_WATCHED = 1 << 23
"""Arrays with more words than this are not watched for races, to save memory."""


class Memory:
    """A launch's arguments and module variables, as the machine sees them."""

    def __init__(
        self,
        program: Program,
        declared: Sequence[Variable],
        arguments: Sequence[Any],
        parameter_names: Sequence[str] = (),
        read_only: Sequence[bool] = (),
        state: State | None = None,
    ) -> None:
        self.program = program
        self.state = state or State({})
        self.arrays: list[Any] = list(arguments)
        self.copies: dict[int, NDArray[np.uint8]] = {}
        self.shown: list[np.dtype[Any] | None] = []
        size = max(
            (at + param.size_bytes for at, param in zip(program.offsets, declared, strict=True)), default=0
        )
        self.parameters = np.zeros(size + 8, np.uint8)
        self._entries: list[tuple[int, int | None, int]] = []
        self._by_pointer: dict[tuple[int, int], NDArray[np.uint8]] = {}
        self._before = [0] * len(arguments)
        for number, argument in enumerate(arguments):
            if isinstance(argument, InnerPointer):
                self._before[number] = argument.first * argument.source.dtype.itemsize
                self.arrays[number] = argument.source
        for number, (at, value) in enumerate(zip(program.offsets, list(self.arrays), strict=True)):
            if isinstance(value, TensorMap):
                raw = self._map(number, value, declared[number])
            elif value is None:
                raw = b""
            elif _is_pointer(value):
                self._copy(number, value)
                address = np.uint64(GLOBAL_BASE + (number << GLOBAL_SHIFT) + self._before[number])
                raw = address.tobytes()
            else:
                raw = np.asarray(value).tobytes()
            self.parameters[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
            if number not in self.copies:
                self._entries.append((0, None, 0))
                self.shown.append(None)
        self.variables: list[NDArray[np.uint8]] = []
        places = places_of(program.module_variables, len(arguments))
        self.initial = [initial_bytes(variable, places) for variable in program.module_variables]
        for variable, initial in zip(program.module_variables, self.initial, strict=True):
            data = self.state.begin(variable, initial.copy())
            self.variables.append(data)
            self._entries.append((len(data), data.ctypes.data, int(variable.space == "global")))
            declared_one = self.state.declared.get(shown_name(variable.name))
            self.shown.append(declared_one.dtype if declared_one else None)
        self.table = (Buffer * (len(self._entries) + 1))()
        for number, (length, pointer, writable) in enumerate(self._entries):
            self.table[number] = Buffer(length, pointer, writable, number)
            if number in self.copies:
                self.table[number].skew = skew(self.arrays[number])
        for number, variable in enumerate(program.module_variables, start=len(arguments)):
            self.table[number].unset = int(self.state.needs_a_value(variable))
        self._watch(len(arguments), read_only)
        self.table[len(self._entries)] = Buffer(size, self.parameters.ctypes.data, 0, -1)
        named = parameter_names or [f"argument {number}" for number in range(len(declared))]
        self.global_names = tuple(named) + tuple(
            shown_name(variable.name) for variable in program.module_variables
        )
        self.names = self.global_names + tuple(short_name(name) for name, _, _ in program.shared_variables)

    def _copy(self, number: int, array: NDArray[Any]) -> None:
        """Copy an argument's array; an array that is passed twice is copied once."""
        key = (array.ctypes.data, array.nbytes)
        if key not in self._by_pointer:
            self._by_pointer[key] = np.frombuffer(array.tobytes(), np.uint8).copy()
        self.copies[number] = self._by_pointer[key]
        self._entries.append((array.nbytes, self.copies[number].ctypes.data, int(array.flags.writeable)))
        self.shown.append(array.dtype)

    def _map(self, number: int, value: TensorMap, declared: Variable) -> bytes:
        """Copy the array of a tensor map, and return the bytes of the map for the kernel."""
        if declared.size_bytes != MAP_BYTES or declared.align < 64:
            raise KernelError(
                f"parameter {number} takes {declared.size_bytes} bytes, aligned to {declared.align}, and is "
                f"given {value}. Declare struct __align__(128) TensorMap with unsigned long long opaque[16]."
            )
        self.arrays[number] = value.source
        self._copy(number, value.source)
        return value.described(GLOBAL_BASE + (number << GLOBAL_SHIFT), numbers("TYPE"))

    def _watch(self, arguments: int, read_only: Sequence[bool]) -> None:
        """Allocate the machine's race history for the arrays that the kernel may write."""
        written: dict[int, NDArray[np.uint8]] = {}
        for number, buffer in enumerate(self.table):
            constant = number < arguments and number < len(read_only) and read_only[number]
            words = -(-buffer.size // self.program.global_grain)
            if buffer.data and buffer.writable and not constant and words <= MOST_WATCHED:
                written.setdefault(buffer.data, np.zeros(words * WORD_BYTES, np.uint8))
        for buffer in self.table:
            if buffer.data in written:
                buffer.words = written[buffer.data].ctypes.data
        self.watched = written

    def write_into(self, launch: Launch) -> None:
        """Point a launch to this memory."""
        launch.params = self.parameters.ctypes.data
        launch.buffers, launch.n_buffers = ctypes.cast(self.table, ctypes.c_void_p), len(self.table)

    def write_back(self) -> None:
        """Copy the results into the arguments' arrays, and keep the variables for the next launch."""
        every = zip(self.program.module_variables, self.variables, self.initial, strict=True)
        for variable, data, initial in every:
            self.state.keep(variable, data, initial)
        for number, copy in self.copies.items():
            array = self.arrays[number]
            if array.flags.writeable:
                array.reshape(-1).view(np.uint8)[...] = copy

    @property
    def pointers(self) -> list[str]:
        """Names of the arguments that may contain pointers: structures and addresses, else bytes."""
        arrays = [
            (name, value.dtype)
            for name, value in zip(self.names, self.arrays, strict=False)
            if isinstance(value, np.ndarray)
        ]
        likely = [name for name, dtype in arrays if dtype.names is not None or dtype == np.uint64]
        return likely or [name for name, dtype in arrays if dtype == np.uint8]

    @property
    def missing(self) -> list[str]:
        """Names of the arguments that were passed as None."""
        return [name for name, value in zip(self.names, self.arrays, strict=False) if value is None]

    def begins(self, number: int) -> int:
        """How many bytes past a multiple of 16 an argument begins; 0 if it is not an argument."""
        return int(self.table[number].skew) if 0 <= number < len(self.arrays) else 0

    def before(self, number: int) -> int:
        """How many bytes of an argument's array precede the element that the pointer refers to."""
        return self._before[number] if 0 <= number < len(self.arrays) else 0

    def elements(self, number: int) -> int:
        """How many elements an array or a variable has."""
        if number < len(self.arrays):
            return int(self.arrays[number].size)
        dtype = self.shown[number]
        return len(self.variables[number - len(self.arrays)]) // (dtype.itemsize if dtype is not None else 1)

    def dtypes(self, shared: Mapping[str, Shared]) -> tuple[np.dtype[Any] | None, ...]:
        """The element types of ``names``, from the source for shared arrays."""
        names = self.names[len(self.shown) :]
        return (*self.shown, *(shared[name].dtype if name in shared else None for name in names))

    def text_at(self, address: int) -> str:
        """The zero-terminated string at an address in a module variable."""
        number, offset = divmod(address - GLOBAL_BASE, 1 << GLOBAL_SHIFT)
        text = self.variables[number - len(self.arrays)][offset:]
        return text.tobytes().partition(b"\0")[0].decode(errors="replace")

    def accesses(self, rows: NDArray[np.void], lines: Sequence[int]) -> Accesses:
        """The machine's rows with source lines, buffers, elements and values."""
        line = np.asarray(lines, np.int32)[rows["line"]]
        buffer, index = rows["buffer"].copy(), rows["index"].copy()
        value = np.zeros(len(rows), np.float64)
        for number, dtype in enumerate(self.shown):
            here = (rows["space"] == GLOBAL) & (buffer == number)
            if here.any():
                plain = np.dtype(dtype) if dtype is not None else np.dtype(np.float32)
                index[here] //= plain.itemsize
                value[here] = Accesses.decoded(rows["bits"][here], plain)
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
            rows["bits"],
        )

    def _place_shared(self, rows: Any, shared: Any, buffer: Any, index: Any, value: Any) -> None:
        first = len(self.global_names)
        variables = self.program.shared_variables
        address = rows["address"] & _WITHIN_BLOCK
        for number, (_, start, size) in enumerate(variables):
            here = shared & (address >= start) & ((address < start + size) | (size == 0))
            buffer[here] = first + number
            index[here] = (address[here].astype(np.int64) - start) // rows["size"][here]
        for size, kind in ((1, "u1"), (2, "f2"), (4, "f4"), (8, "f8")):
            here = shared & (rows["size"] == size)
            if here.any():
                value[here] = Accesses.decoded(rows["bits"][here], np.dtype(kind))


def skew(array: Any) -> int:
    """Bytes past a multiple of 16 at which an array begins, for a kernel that gets its address.

    A view such as ``x[1:]`` has its offset in the array that it is taken from, which represents an
    allocation. If the host's address is a multiple of 16, the view counts as aligned.
    """
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if array.ctypes.data % 16 == 0:
        return 0
    return int(array.ctypes.data - whole.ctypes.data) % 16


def _is_pointer(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray)
        and not (value.dtype.names is not None and value.size == 1)
        and value.ndim != 0
    )


def places_of(variables: Sequence[Variable], arguments: int) -> dict[str, int]:
    """The addresses of module variables, which follow a launch's arguments."""
    return {
        variable.name: GLOBAL_BASE + (number << GLOBAL_SHIFT)
        for number, variable in enumerate(variables, start=arguments)
    }


def initial_bytes(variable: Variable, places: Mapping[str, int] = MappingProxyType({})) -> NDArray[np.uint8]:
    """A variable's bytes before the first launch, with the known addresses of other variables."""
    data = np.zeros(max(variable.size_bytes, 1), np.uint8)
    size = type_bytes(variable.type)
    for number, element in enumerate(initial_elements(variable, places)):
        data[number * size : (number + 1) * size] = np.frombuffer(element.to_bytes(size, "little"), np.uint8)
    return data


def initial_elements(variable: Variable, places: Mapping[str, int] = MappingProxyType({})) -> list[int]:
    """The bits of each initial element of a variable; further elements are 0."""
    ones = (1 << 8 * type_bytes(variable.type)) - 1
    return [ones & (_address(item, places) if isinstance(item, str) else item) for item in variable.initial]


def _address(written: str, places: Mapping[str, int]) -> int:
    name, _, offset = written.rpartition("+")
    return places[name] + int(offset) if name in places else 0


def short_name(name: str) -> str:
    """A shared variable's name in the source, from the mangled one: ``_ZZ4tileE1s`` is ``s``."""
    if not name.startswith("_ZZ"):
        return name
    match = re.search(r"E(\d+)", name)
    if not match:
        return name
    tail = name[match.end() :]
    return tail[: int(match[1])]


def watched_values(rows: NDArray[np.void], names: Sequence[str], lines: Sequence[int]) -> dict[str, Watched]:
    """The traced values of each watched variable."""
    types = {number: name for name, number in numbers("TYPE").items()}
    watched = {}
    for number, name in enumerate(names):
        here = rows[rows["buffer"] == number]
        value = np.zeros(len(here))
        for kind in np.unique(here["index"]):
            of_kind = here["index"] == kind
            value[of_kind] = Accesses.decoded(here["bits"][of_kind], np.dtype(NUMPY_TYPES[types[int(kind)]]))
        line = np.asarray(lines, np.int32)[here["line"]]
        watched[name] = Watched(
            here["step"], here["block"], here["warp"], here["lane"], line, value, here["interval"]
        )
    return watched


NUMPY_TYPES = {"f32": "f4", "f64": "f8", "s32": "i4", "u32": "u4", "s64": "i8", "u64": "u8"}
"""NumPy's types for the machine's types of watched variables."""


def shared_owners(program: Program, shared_bytes: int) -> NDArray[np.uint8]:
    """Which shared variable, counted from 1, each byte belongs to; 0 for the gaps between them."""
    size = max((start + length for _, start, length in program.shared_variables), default=0)
    owners = np.zeros(max(size, program.dynamic_start + shared_bytes if shared_bytes else 0), np.uint8)
    for number, (_, start, length) in enumerate(program.shared_variables, 1):
        owners[start : start + (length or shared_bytes)] = min(number, 255)
    return owners
