"""Caches the launches of a call for later calls with the same signature.

In: a function on arrays. Out: the same function, with less host overhead from its second call on. The first
call with a signature (element types, shapes, strides, alignment, GPU, other arguments) runs the function's
checks and choices while a `Recorder` records memory and launches; later calls only fill in addresses. NumPy
arrays and calls on the simulator have no plans.
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
"""Most plans in the cache; beyond it, the oldest is evicted."""
MOST_MAPS = 64
"""Tensor maps that a plan caches per argument, by address."""
_APART = 256
"""Alignment of the parts of a workspace, in bytes."""
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
    """For a result: allocates one for the caller."""

    def offset(self, array: Any) -> int | None:
        """The offset of an array in this memory, in bytes; None if it is elsewhere."""
        return int(array.data.ptr) - int(self.data.data.ptr) if array.data.mem is self.data.data.mem else None


@dataclass
class Recorder:
    """Records the arrays, memory and launches of one call."""

    given: Mapping[str, Any]
    """The caller's arrays by the names of their parameters."""
    buffers: list[Buffer] = field(default_factory=list)
    """Its memory, inputs first."""
    inputs: dict[str, int] = field(default_factory=dict)
    """Indices of the parameters' buffers."""
    steps: list[Any] = field(default_factory=list)
    """Its launches."""
    returned: list[int] = field(default_factory=list)
    """Buffers of the returned results, in order; -1 for the caller's `out`."""

    def took(self, name: str, data: Any) -> Any:
        """Record an argument; the view returned has a memory object of its own, to tell it from aliases."""
        cupy = importlib.import_module("cupy")
        memory = cupy.cuda.UnownedMemory(int(data.data.ptr), _span(data), data)
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        view = cupy.ndarray(data.shape, data.dtype, pointer, data.strides)
        self.inputs[name] = len(self.buffers)
        self.buffers.append(Buffer(view, "input"))
        return view

    def made(self, data: Any, role: str = "workspace") -> None:
        """Record memory that the call allocated."""
        self.buffers.append(Buffer(data, role))

    def result(self, data: Any, kind: str, sort: str) -> None:
        """Mark the last memory recorded as a result."""
        buffer = self.buffers[-1]
        buffer.role, shape = "result", tuple(data.shape)
        if sort == "PyTorch":
            torch = sys.modules["torch"]
            strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
            place = torch.device("cuda", int(data.device.id))
            buffer.make = functools.partial(
                torch.empty_strided, shape, strides, dtype=getattr(torch, kind), device=place
            )
        else:
            buffer.make = functools.partial(importlib.import_module("cupy").ndarray, shape, data.dtype)

    def returns(self, data: Any, out: Any) -> None:
        """Record a returned array."""
        at = next((i for i, buffer in enumerate(self.buffers) if buffer.data is data), -1)
        self.returned.append(-1 if out is not None else at)

    def place(self, array: Any) -> tuple[int, int] | None:
        """The buffer that contains an array, and the offset in it; None if there is none."""
        for at, buffer in enumerate(self.buffers):
            offset = buffer.offset(array)
            if offset is not None:
                return at, offset
        return None


def recorder() -> Recorder | None:
    """The recorder of this thread's current call."""
    return getattr(_local, "recorder", None)


class Plan:
    """The launches of a call, complete except for addresses.

    Args:
        recording: of the first call.
        order: the names of its arrays, in the order of the signature.
        device: the GPU.
        torch: whether the arrays are PyTorch's.

    Raises:
        LookupError: a launch uses memory that was not recorded.
    """

    def __init__(self, recording: Recorder, order: Sequence[str], device: int, torch: bool) -> None:
        self._lock = threading.Lock()
        self._device, self._torch = device, torch
        buffers = recording.buffers
        self._inputs = [
            (at, recording.inputs[name]) for at, name in enumerate(order) if name in recording.inputs
        ]
        self._results = [(at, buffer.make) for at, buffer in enumerate(buffers) if buffer.make is not None]
        self._fixed = [buffer.data for buffer in buffers if buffer.role == "constant"]
        self._addresses = [
            int(buffer.data.data.ptr) if buffer.role == "constant" else 0 for buffer in buffers
        ]
        self._rooms: list[tuple[int, int]] = []
        self._room_bytes = 0
        for at, buffer in enumerate(buffers):
            if buffer.role == "workspace":
                self._rooms.append((at, self._room_bytes))
                self._room_bytes += -(-int(buffer.data.nbytes) // _APART) * _APART
        self._out = recording.inputs.get("out")
        self._spans = {at: _span(buffers[at].data) for at in recording.inputs.values()}
        self._returned = [at if at >= 0 else None for at in recording.returned]
        self._outs = order.index("out") if "out" in order else None
        self._fill(recording)
        cupy = importlib.import_module("cupy")
        self._launch, self._runtime = cupy.cuda.driver.launchKernel, cupy.cuda.runtime
        self._alloc, self._cuda = cupy.cuda.alloc, cupy.cuda
        if torch:
            empty, kind = sys.modules["torch"].empty_strided, sys.modules["torch"].uint8
            place = sys.modules["torch"].device("cuda", device)
            self._room = functools.partial(empty, (self._room_bytes,), (1,), dtype=kind, device=place)
            self._stream = functools.partial(_torch_stream(), device)

    def _fill(self, recording: Recorder) -> None:
        """Lay out all arguments in one block of memory, one word each."""
        many = sum(len(step.arguments) for step in recording.steps)
        self._cells = (ctypes.c_uint64 * max(many, 1))()
        self._places = (ctypes.c_uint64 * max(many, 1))()
        first, word = ctypes.addressof(self._cells), 8
        self._pointers: list[tuple[int, int, int]] = []
        self._maps: list[tuple[int, int, int, Layout, dict[int, Encoded]]] = []
        self._launches: list[tuple[Any, ...]] = []
        self._names: list[tuple[str, tuple[str, int]]] = []
        self._functions = []
        at = 0
        for step in recording.steps:
            kernel, begun = step.kernel, at
            for value in check_arguments(kernel.name, kernel.parameters, step.arguments):
                self._places[at] = first + word * at
                if isinstance(value, TensorMap):
                    self._maps.append((at, *self._where(recording, value.source), value.layout, {}))
                elif isinstance(value, np.generic):
                    raw = value.tobytes()
                    ctypes.memmove(first + word * at, raw, len(raw))
                elif value is not None and math.prod(value.shape):
                    self._pointers.append((at, *self._where(recording, value)))
                at += 1
            function = kernel.compiled()
            self._functions.append(function)
            self._names.append((kernel.name, kernel.origin))
            arguments = ctypes.addressof(self._places) + word * begun
            shape = kernel.checked_shape(step.grid, step.block, step.shared_bytes)
            head = (cupy_backend.handle(function), *shape[0], *shape[1], shape[2])
            self._launches.append((head, arguments))

    @staticmethod
    def _where(recording: Recorder, array: Any) -> tuple[int, int]:
        place = recording.place(array)
        if place is None:
            raise LookupError("a launch uses memory that the plan doesn't know")
        return place

    def run(self, values: Sequence[Any]) -> Any:
        """Launch for these arrays; return the result, or `NotImplemented` to let the function handle it."""
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
        results = {}
        try:
            for at, make in self._results:
                results[at] = array = make()
                addresses[at] = array.data_ptr() if self._torch else array.data.ptr
            if self._room_bytes:
                workspace = self._room() if self._torch else self._alloc(self._room_bytes)
                begin = workspace.data_ptr() if self._torch else workspace.ptr
                for at, offset in self._rooms:
                    addresses[at] = begin + offset
        except Exception as error:
            if "OutOfMemory" in type(error).__name__:
                return NotImplemented  # the function raises our own error
            raise
        cells = self._cells
        with self._lock:
            for at, buffer, offset in self._pointers:
                cells[at] = addresses[buffer] + offset
            for at, buffer, offset, layout, known in self._maps:
                address = addresses[buffer] + offset
                tensor_map = known.get(address)
                if tensor_map is None:
                    if len(known) > MOST_MAPS:
                        known.clear()
                    known[address] = tensor_map = encoded(address, layout)
                self._places[at] = tensor_map.address
            for number, (head, arguments) in enumerate(self._launches):
                try:
                    self._launch(*head, stream, arguments, 0)
                except Exception as error:
                    self._again(error, number, stream)
        outputs = [values[cast("int", self._outs)] if at is None else results[at] for at in self._returned]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _again(self, error: Exception, number: int, stream: int) -> None:
        """Retry a launch that failed because the thread had no context; raise any other failure."""
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
    """Cache a plan per signature of a function on arrays."""
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
            result = plan.run(values)
            return function(*args, **how) if result is NotImplemented else result
        if key in _plans:
            return function(*args, **how)
        order = [name for name, value in zip(names, args, strict=False) if not isinstance(value, _PLAIN)]
        order += [name for name, value in how.items() if not isinstance(value, _PLAIN)]
        recording = _local.recorder = Recorder(dict(zip(order, values, strict=True)))
        try:
            result = function(*args, **how)
        finally:
            _local.recorder = None
        _keep(key, recording, order, values[0])
        return result

    return cast("Function", call)


def _keep(key: Any, recording: Recorder, order: Sequence[str], first: Any) -> None:
    torch = hasattr(first, "data_ptr")
    try:
        device = first.get_device() if torch else first.device.id
        plan: Plan | None = Plan(recording, order, device, torch)
    except LookupError:
        plan = None
    if len(_plans) >= MOST_PLANS:
        _plans.pop(next(iter(_plans)), None)
    _plans[key] = plan


def _signature(function: Any, args: Any, how: Any, values: list[Any]) -> tuple[Any, ...] | None:
    """The key of a call's plan; its arrays are appended to `values`. None if it cannot have a plan."""
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
    if not values or any(isinstance(value, torch) is not isinstance(values[0], torch) for value in values):
        return None
    return tuple(key)


def _span(array: Any) -> int:
    """Bytes from an array's first element to its last."""
    if 0 in array.shape:
        return 0
    reach = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True))
    return int(reach) + int(array.itemsize)


def _torch_stream() -> Callable[[int], int]:
    """A function that returns the handle of PyTorch's current stream on a GPU."""
    torch = sys.modules["torch"]
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return quick or (lambda device: torch.cuda.current_stream(device).cuda_stream)
