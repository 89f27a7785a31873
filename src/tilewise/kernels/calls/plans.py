"""What a call launches, kept for the next call whose arrays look the same.

In: a function on arrays. Out: the same function, which costs the host less from its second call on. The first
call with a signature (element types, shapes, strides, alignment, GPU, the other arguments) goes through the
function's own checks and choices, while a `Recorder` notes memory and launches; later calls only fill in
addresses. Arrays of NumPy, and calls on the simulator, have no plans.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np

from tilewise.cuda.arguments import check_arguments
from tilewise.cuda.tensor_map import Encoded, Layout, TensorMap, encoded
from tilewise.gpu import cupy_backend
from tilewise.kernel.backend import backend

MOST_PLANS = 4096
"""Signatures that are kept; beyond them the oldest goes."""
MOST_MAPS = 64
"""Tensor maps that a plan keeps for one argument, by address."""
_APART = 256
"""Parts of one workspace begin at multiples of so many bytes."""
_NO_CONTEXT = 201
_PLAIN = (type(None), bool, int, float, str)
_local = threading.local()

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class Buffer:
    """Memory that a call uses."""

    data: Any
    """The CuPy array that covers it."""
    role: str
    """`input`, `result`, `workspace` or `constant`."""
    make: Callable[[], Any] | None = None
    """Of a result: what makes another one for the caller."""

    def offset(self, array: Any) -> int | None:
        """Bytes from its beginning to that of an array in it; None for an array elsewhere."""
        return int(array.data.ptr) - int(self.data.data.ptr) if array.data.mem is self.data.data.mem else None


@dataclass
class Recorder:
    """What one call takes, makes and launches."""

    given: Mapping[str, Any]
    """The caller's arrays by the names of their parameters."""
    buffers: list[Buffer] = field(default_factory=list)
    """Its memory, inputs first."""
    inputs: dict[str, int] = field(default_factory=dict)
    """Where the buffer of a parameter is."""
    steps: list[Any] = field(default_factory=list)
    """Its launches."""
    returned: list[int] = field(default_factory=list)
    """The results that the caller gets, in order; -1 for its own `out`."""

    def took(self, name: str, data: Any) -> Any:
        """An array of the caller, under a memory of its own: others at its address are told from it."""
        cupy = importlib.import_module("cupy")
        room = cupy.cuda.UnownedMemory(int(data.data.ptr), _span(data), data)
        pointer = cupy.cuda.MemoryPointer(room, 0)
        seen = cupy.ndarray(data.shape, data.dtype, pointer, data.strides)
        self.inputs[name] = len(self.buffers)
        self.buffers.append(Buffer(seen, "input"))
        return seen

    def made(self, data: Any, role: str = "workspace") -> None:
        """Memory of the call's own."""
        self.buffers.append(Buffer(data, role))

    def result(self, data: Any, kind: str, sort: str) -> None:
        """The last memory made is a result."""
        one = self.buffers[-1]
        one.role, shape = "result", tuple(data.shape)
        if sort == "PyTorch":
            torch = sys.modules["torch"]
            strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
            place = torch.device("cuda", int(data.device.id))
            one.make = functools.partial(
                torch.empty_strided, shape, strides, dtype=getattr(torch, kind), device=place
            )
        else:
            one.make = functools.partial(importlib.import_module("cupy").ndarray, shape, data.dtype)

    def returns(self, data: Any, out: Any) -> None:
        """An array that the caller gets."""
        at = next((i for i, one in enumerate(self.buffers) if one.data is data), -1)
        self.returned.append(-1 if out is not None else at)

    def place(self, array: Any) -> tuple[int, int] | None:
        """The buffer that an array is in, and the offset there; None where it is in none."""
        for at, one in enumerate(self.buffers):
            offset = one.offset(array)
            if offset is not None:
                return at, offset
        return None


def recorder() -> Recorder | None:
    """The recorder of the call that this thread is in."""
    return getattr(_local, "recorder", None)


class Plan:
    """The launches of a call, ready but for the addresses.

    Args:
        noted: what the first call did.
        order: the names of its arrays, in the order of the signature.
        device: the GPU.
        torch: whether the arrays are PyTorch's.

    Raises:
        LookupError: a launch takes memory that is neither the caller's nor the call's.
    """

    def __init__(self, noted: Recorder, order: Sequence[str], device: int, torch: bool) -> None:
        self._lock = threading.Lock()
        self._device, self._torch = device, torch
        buffers = noted.buffers
        self._inputs = [(at, noted.inputs[name]) for at, name in enumerate(order) if name in noted.inputs]
        self._results = [(at, one.make) for at, one in enumerate(buffers) if one.make is not None]
        self._fixed = [one.data for one in buffers if one.role == "constant"]
        self._addresses = [int(one.data.data.ptr) if one.role == "constant" else 0 for one in buffers]
        self._rooms: list[tuple[int, int]] = []
        self._room_bytes = 0
        for at, one in enumerate(buffers):
            if one.role == "workspace":
                self._rooms.append((at, self._room_bytes))
                self._room_bytes += -(-int(one.data.nbytes) // _APART) * _APART
        self._out = noted.inputs.get("out")
        self._spans = {at: _span(buffers[at].data) for at in noted.inputs.values()}
        self._returned = [at if at >= 0 else None for at in noted.returned]
        self._outs = order.index("out") if "out" in order else None
        self._fill(noted)
        cupy = importlib.import_module("cupy")
        self._launch, self._runtime = cupy.cuda.driver.launchKernel, cupy.cuda.runtime
        self._alloc, self._cuda = cupy.cuda.alloc, cupy.cuda
        if torch:
            empty, kind = sys.modules["torch"].empty_strided, sys.modules["torch"].uint8
            place = sys.modules["torch"].device("cuda", device)
            self._room = functools.partial(empty, (self._room_bytes,), (1,), dtype=kind, device=place)
            self._stream = functools.partial(_torch_stream(), device)

    def _fill(self, noted: Recorder) -> None:
        """Lay out all arguments in one block of memory, a word each."""
        many = sum(len(step.arguments) for step in noted.steps)
        self._cells = (ctypes.c_uint64 * max(many, 1))()
        self._places = (ctypes.c_uint64 * max(many, 1))()
        first, word = ctypes.addressof(self._cells), 8
        self._pointers: list[tuple[int, int, int]] = []
        self._maps: list[tuple[int, int, int, Layout, dict[int, Encoded]]] = []
        self._launches: list[tuple[Any, ...]] = []
        self._names: list[tuple[str, tuple[str, int]]] = []
        self._functions = []
        at = 0
        for step in noted.steps:
            kernel, begun = step.kernel, at
            for value in check_arguments(kernel.name, kernel.parameters, step.arguments):
                self._places[at] = first + word * at
                if isinstance(value, TensorMap):
                    self._maps.append((at, *self._where(noted, value.source), value.layout, {}))
                elif isinstance(value, np.generic):
                    raw = value.tobytes()
                    ctypes.memmove(first + word * at, raw, len(raw))
                elif value is not None and math.prod(value.shape):
                    self._pointers.append((at, *self._where(noted, value)))
                at += 1
            function = kernel.compiled()
            self._functions.append(function)
            self._names.append((kernel.name, kernel.origin))
            arguments = ctypes.addressof(self._places) + word * begun
            shape = kernel.checked_shape(step.grid, step.block, step.shared_bytes)
            head = (cupy_backend.handle(function), *shape[0], *shape[1], shape[2])
            self._launches.append((head, arguments))

    @staticmethod
    def _where(noted: Recorder, array: Any) -> tuple[int, int]:
        found = noted.place(array)
        if found is None:
            raise LookupError("a launch takes memory that no one has told of")
        return found

    def run(self, values: Sequence[Any]) -> Any:
        """Launch for these arrays; the result, or `NotImplemented` where the function must see to it."""
        if self._runtime.getDevice() != self._device:
            with self._cuda.Device(self._device):
                return self.run(values)
        addresses = self._addresses.copy()
        if self._torch:
            for at, buffer in self._inputs:
                addresses[buffer] = values[at].data_ptr()
            stream = self._stream()
        else:
            for at, buffer in self._inputs:
                addresses[buffer] = values[at].data.ptr
            stream = self._cuda.get_current_stream().ptr
        if self._out is not None and self._overlap(addresses):
            return NotImplemented
        made = {}
        try:
            for at, make in self._results:
                made[at] = one = make()
                addresses[at] = one.data_ptr() if self._torch else one.data.ptr
            if self._room_bytes:
                room = self._room() if self._torch else self._alloc(self._room_bytes)
                begin = room.data_ptr() if self._torch else room.ptr
                for at, offset in self._rooms:
                    addresses[at] = begin + offset
        except Exception as error:
            if "OutOfMemory" in type(error).__name__:
                return NotImplemented  # the function says so in our words
            raise
        cells = self._cells
        with self._lock:
            for at, buffer, offset in self._pointers:
                cells[at] = addresses[buffer] + offset
            for at, buffer, offset, layout, known in self._maps:
                address = addresses[buffer] + offset
                one_map = known.get(address)
                if one_map is None:
                    if len(known) > MOST_MAPS:
                        known.clear()
                    known[address] = one_map = encoded(address, layout)
                self._places[at] = one_map.address
            for number, (head, arguments) in enumerate(self._launches):
                try:
                    self._launch(*head, stream, arguments, 0)
                except Exception as error:
                    self._again(error, number, stream)
        given = [values[cast("int", self._outs)] if at is None else made[at] for at in self._returned]
        return given[0] if len(given) == 1 else tuple(given)

    def _again(self, error: Exception, number: int, stream: int) -> None:
        """Launch once more in a thread that had no context yet; any other failure is raised."""
        head, arguments = self._launches[number]
        if getattr(error, "status", None) != _NO_CONTEXT:
            cupy_backend.explain(error, *self._names[number])
            raise error
        self._runtime.setDevice(self._device)
        self._launch(*head, stream, arguments, 0)

    def _overlap(self, addresses: Sequence[int]) -> bool:
        """Whether the caller's `out` shares memory with an input."""
        begin = addresses[cast("int", self._out)]
        end = begin + self._spans[cast("int", self._out)]
        return any(
            addresses[at] < end and begin < addresses[at] + span
            for at, span in self._spans.items()
            if at != self._out
        )


_plans: dict[Any, Plan | None] = {}


def planned(function: Function) -> Function:
    """A function on arrays that keeps what it launches for each signature."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    @functools.wraps(function)
    def call(*args: Any, **how: Any) -> Any:
        if backend() != "gpu" or recorder() is not None:
            return function(*args, **how)
        values: list[Any] = []
        key = _signature(function, args, how, values)
        if key is None:
            return function(*args, **how)
        plan = _plans.get(key)
        if plan is not None:
            made = plan.run(values)
            return function(*args, **how) if made is NotImplemented else made
        if key in _plans:
            return function(*args, **how)
        order = [name for name, one in zip(names, args, strict=False) if not isinstance(one, _PLAIN)]
        order += [name for name, one in how.items() if not isinstance(one, _PLAIN)]
        noted = _local.recorder = Recorder(dict(zip(order, values, strict=True)))
        try:
            made = function(*args, **how)
        finally:
            _local.recorder = None
        _keep(key, noted, order, values[0])
        return made

    return cast("Function", call)


def _keep(key: Any, noted: Recorder, order: Sequence[str], first: Any) -> None:
    torch = hasattr(first, "data_ptr")
    try:
        device = first.get_device() if torch else first.device.id
        plan: Plan | None = Plan(noted, order, device, torch)
    except LookupError:
        plan = None
    if len(_plans) >= MOST_PLANS:
        _plans.pop(next(iter(_plans)), None)
    _plans[key] = plan


def _signature(function: Any, args: Any, how: Any, values: list[Any]) -> tuple[Any, ...] | None:
    """What of a call decides on its launches; its arrays are added to `values`. None: it has no plan."""
    cupy = importlib.import_module("cupy").ndarray if "cupy" in sys.modules else None
    torch = sys.modules["torch"].Tensor if "torch" in sys.modules else ()
    key: list[Any] = [function]
    for value in (*args, *how.values()):
        kind = type(value)
        if kind in _PLAIN:
            key += (kind, value)
        elif kind is cupy:
            memory = value.data
            key += (value.shape, value.strides, value.dtype, memory.ptr & 15, memory.device_id)
            values.append(value)
        elif isinstance(value, torch) and value.is_cuda:
            key += (value.shape, value.stride(), value.dtype, value.data_ptr() & 15, value.get_device())
            values.append(value)
        else:
            return None
    key += how
    if not values or any(isinstance(one, torch) is not isinstance(values[0], torch) for one in values):
        return None
    return tuple(key)


def _span(array: Any) -> int:
    """Bytes from an array's first element to its last."""
    if 0 in array.shape:
        return 0
    reach = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True))
    return int(reach) + int(array.itemsize)


def _torch_stream() -> Callable[[int], int]:
    """What gives the number of PyTorch's current stream on a GPU."""
    torch = sys.modules["torch"]
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick or (lambda device: torch.cuda.current_stream(device).cuda_stream)
