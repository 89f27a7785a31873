"""Checks arrays of NumPy, CuPy and PyTorch for the functions, and makes results of the same library.

In: what a caller passed. Out: a `Tensor`: a NumPy or CuPy array with its element type and location, or an
error that names the wrong argument and the repair. No kernel is chosen or launched here.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewise.cuda.kernel_source import KernelError
from tilewise.kernel.backend import backend
from tilewise.kernels.calls.plans import recorder

FLOATS = ("float32", "bfloat16", "float16")
"""Element types that functions compute with."""
STORED: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
}
"""The dtype of NumPy and CuPy that holds an element type; BF16 is stored as its bits."""
C_TYPES = {"float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
"""CUDA C names of the element types."""
_ON_HOST, _ON_GPU = (1, 3), (2, 13)


@dataclass(frozen=True, eq=False)
class Tensor:
    """An argument, a result or a workspace of a function."""

    name: str
    """The argument's name, for messages."""
    data: Any
    """A NumPy array, or a CuPy array on a GPU; BF16 as uint16."""
    kind: str
    """Element type, such as `bfloat16`."""
    sort: str
    """The library of the caller's array: `NumPy`, `CuPy` or `PyTorch`."""
    given: Any = None
    """The caller's own object, if a result is to be written into it."""
    moved: bool = False
    """Whether this is a copy on the GPU of an array in host memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return tuple(self.data.shape)

    @property
    def steps(self) -> tuple[int, ...]:
        """Its strides, in elements."""
        return tuple(stride // self.data.itemsize for stride in self.data.strides)

    @property
    def device(self) -> int | None:
        """The GPU's number; None for host memory."""
        return None if isinstance(self.data, np.ndarray) else int(self.data.device.id)

    @property
    def contiguous(self) -> bool:
        """Whether its elements are in C order without gaps."""
        return bool(self.data.flags.c_contiguous)

    @property
    def home(self) -> int | None:
        """The GPU that the caller's array is on; None for host memory."""
        return None if self.moved else self.device

    def aligned(self, to: int = 16, behind: int = 0) -> bool:
        """Whether its address is `behind` bytes past a multiple of `to` bytes, up to 16."""
        if not isinstance(self.data, np.ndarray):
            return int(self.data.data.ptr) % to == behind
        from tilewise.simulator.engine.memory import skew

        return skew(self.data) % to == behind

    def past(self) -> int:
        """Elements between the preceding multiple of 16 bytes and its first one."""
        size = int(self.data.itemsize)
        return next(count for count in range(16 // size) if self.aligned(16, count * size))

    def of(self, data: Any, kind: str | None = None) -> Tensor:
        """The same tensor with other data."""
        return replace(self, data=data, kind=kind or self.kind, given=None)

    def flat(self) -> Any:
        """A one-dimensional view from its first element to its last, for a kernel's pointer."""
        if self.contiguous:
            return self.data.reshape(-1)
        span = 1 + sum((extent - 1) * step for extent, step in zip(self.shape, self.steps, strict=True))
        module = np if isinstance(self.data, np.ndarray) else importlib.import_module("cupy")
        return module.lib.stride_tricks.as_strided(self.data, (span,), (self.data.itemsize,))


def wrong(call: str, name: str, what: str, repair: str) -> KernelError:
    """The error for an argument: the function, the argument, the fault and the repair."""
    return KernelError(f'{call}: "{name}" {what}. {repair}.')


def taken(
    call: str,
    name: str,
    value: Any,
    *,
    dtype: str | None = None,
    kinds: Sequence[str] = FLOATS,
) -> Tensor:
    """Check one array.

    Args:
        call: the function's name, for messages.
        name: the argument's name.
        value: the value passed.
        dtype: `bfloat16`, if a uint16 array of NumPy or CuPy holds BF16.
        kinds: element types that the function takes; empty for every type of 1, 2, 4 or 8 bytes.

    Raises:
        KernelError: it is no array, or the function does not take its type or strides.
    """
    data, kind, sort = _read(call, name, value)
    if dtype is not None:
        if dtype != "bfloat16":
            raise KernelError(f'{call}: dtype is {dtype!r}. Pass "bfloat16" for BF16 in uint16, or nothing.')
        if kind == "uint16":
            kind = dtype
    if kinds and kind not in kinds:
        repair = (
            'Pass dtype="bfloat16" if it holds the bits of BF16'
            if kind == "uint16" and "bfloat16" in kinds
            else f"Convert it with .astype to {kinds[0]}"
        )
        raise wrong(call, name, f"has dtype {kind}; {call} takes {', '.join(kinds)}", repair)
    if not kinds and (data.dtype.kind not in "fiub" or data.itemsize > 8):
        raise wrong(call, name, f"has dtype {kind}", "Pass numbers of 1, 2, 4 or 8 bytes")
    if not data.dtype.isnative:
        raise wrong(call, name, "has the other byte order", "Convert it with .astype('=f4')")
    for axis, step in enumerate(data.strides):
        if step < 0 and data.shape[axis] > 1:
            raise wrong(
                call,
                name,
                f"runs backwards along axis {axis}, a stride of {step} bytes",
                "Pass np.ascontiguousarray(...) of it",
            )
        if step % data.itemsize:
            raise wrong(
                call,
                name,
                f"has a stride of {step} bytes, no multiple of its {data.itemsize}-byte elements",
                "Pass np.ascontiguousarray(...) of it",
            )
    if isinstance(data, np.ndarray):
        if data.ctypes.data % data.itemsize:
            raise wrong(call, name, "begins in the middle of an element's alignment", "Pass a copy of it")
        if backend() == "gpu":
            return Tensor(name, importlib.import_module("cupy").asarray(data), kind, sort, moved=True)
    elif (recording := recorder()) is not None:
        data = recording.took(name, data)
    return Tensor(name, data, kind, sort)


def all_taken(call: str, named: Mapping[str, Any], dtype: str | None, out: Any = None) -> list[Tensor]:
    """Check arrays by name: one element type, one location, and no overlap with `out`.

    Raises:
        KernelError: the function does not take one of them, or they do not fit together.
    """
    tensors = [taken(call, name, value, dtype=dtype) for name, value in named.items()]
    same_place(call, *tensors)
    same_kind(call, *tensors)
    apart(call, out, named)
    return tensors


def same_place(call: str, *tensors: Tensor) -> None:
    """Check that arrays are all on the host or all on one GPU.

    Raises:
        KernelError: they are not; the message names two.
    """
    first = tensors[0]
    for tensor in tensors[1:]:
        if (first.sort == "NumPy") != (tensor.sort == "NumPy") or first.home != tensor.home:
            raise wrong(
                call,
                tensor.name,
                f'is {_place(tensor)}, and "{first.name}" is {_place(first)}',
                "Move one of them: kernels take all arrays from one place",
            )


def same_kind(call: str, *tensors: Tensor) -> None:
    """Check that arrays have the same element type.

    Raises:
        KernelError: they do not.
    """
    first = tensors[0]
    for tensor in tensors[1:]:
        if first.kind != tensor.kind:
            raise wrong(
                call,
                tensor.name,
                f'has dtype {tensor.kind}, and "{first.name}" has {first.kind}',
                "Convert one of them with .astype",
            )


def result(call: str, like: Tensor, shape: Sequence[int], kind: str, out: Any = None) -> Tensor:
    """An array for a result: a new one of the caller's library, or the caller's `out`.

    Args:
        call: the function's name, for messages.
        like: an argument; the result has its location and library.
        shape: the result's extents.
        kind: its element type.
        out: the caller's array, or None.

    Raises:
        KernelError: `out` does not fit, or there is not enough memory.
    """
    if out is None:
        with at(like):
            data = workspace(call, like, shape, kind)
        if (recording := recorder()) is not None:
            recording.result(data, kind, like.sort)
        return Tensor("the result", data, kind, like.sort, moved=like.moved)
    target = taken(call, "out", out, dtype="bfloat16" if kind == "bfloat16" else None, kinds=(kind,))
    same_place(call, like, target)
    if target.shape != tuple(shape):
        raise wrong(call, "out", f"has shape {target.shape}", f"Pass one of shape {tuple(shape)}")
    if not target.contiguous or (isinstance(out, np.ndarray) and not out.flags.c_contiguous):
        raise wrong(call, "out", "is not C-contiguous", "Pass a contiguous array, and copy from it")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise wrong(call, "out", "is read-only", "Pass an array that may be written")
    return replace(target, given=out)


def apart(call: str, out: Any, inputs: Mapping[str, Any]) -> None:
    """Check that the caller's `out` shares no memory with an input.

    Raises:
        KernelError: it does.
    """
    if out is None:
        return
    begin, end = _span(call, "out", out)
    for name, value in inputs.items():
        first, last = _span(call, name, value)
        if begin < last and first < end:
            raise wrong(call, "out", f'shares memory with "{name}"', "Pass another array, or omit out=")


def workspace(call: str, like: Tensor, shape: Sequence[int], kind: str) -> Any:
    """Memory in the location of an argument: from NumPy, or from CuPy's pool.

    Raises:
        KernelError: there is not enough memory; nothing has been written.
    """
    module = np if like.device is None else importlib.import_module("cupy")
    dtype = STORED[kind] if kind in STORED else np.dtype(kind)
    failures = (MemoryError, ValueError) if module is np else (module.cuda.memory.OutOfMemoryError,)
    try:
        array = module.empty(tuple(shape), dtype)
    except failures:
        bytes_wanted = dtype.itemsize * math.prod(int(extent) for extent in shape)
        raise KernelError(
            f"{call}: no memory for {bytes_wanted:,} bytes, an array of shape {tuple(shape)}; nothing was "
            "written. Free other arrays, or pass fewer rows at a time."
        ) from None
    if (recording := recorder()) is not None:
        recording.made(array)
    return array


def constant(like: Tensor, host: np.ndarray[Any, Any]) -> Any:
    """A constant array in the location of an argument."""
    if like.device is None:
        return host
    array = importlib.import_module("cupy").asarray(host)
    if (recording := recorder()) is not None:
        recording.made(array, "constant")
    return array


def returned(tensor: Tensor) -> Any:
    """A result as an array of the caller's library; an `out` is returned itself."""
    data, out = tensor.data, tensor.given
    if (recording := recorder()) is not None:
        recording.returns(data, out)
    if tensor.moved:
        data = data.get()
        if out is not None:
            _read("", "out", out)[0][...] = data
    if out is not None:
        return out
    if tensor.sort != "PyTorch":
        return data
    torch = sys.modules["torch"]
    bits = tensor.kind == "bfloat16"
    array = torch.from_dlpack(data.view(np.int16) if bits else data)
    return array.view(torch.bfloat16) if bits else array


@contextmanager
def at(*tensors: Tensor) -> Iterator[None]:
    """Enter the GPU of the arrays and the caller's current stream."""
    like = tensors[0]
    with ExitStack() as entered:
        if like.device is not None:
            cuda = importlib.import_module("cupy").cuda
            entered.enter_context(cuda.Device(like.device))
            if like.sort == "PyTorch" and not like.moved:
                stream = sys.modules["torch"].cuda.current_stream(like.device).cuda_stream
                if hasattr(cuda.Stream, "from_external"):  # since CuPy 14
                    entered.enter_context(cuda.Stream.from_external(_Stream(stream)))
                else:
                    entered.enter_context(cuda.ExternalStream(stream, like.device))
        yield


class _Stream:
    """A PyTorch stream as an object of the CUDA stream protocol."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _read(call: str, name: str, value: Any) -> tuple[Any, str, str]:
    """The NumPy or CuPy array of a value, its element type and its library."""
    owner = type(value).__module__.partition(".")[0]
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value), value.dtype.name, "NumPy"
    if owner == "torch":
        return _of_torch(call, name, value)
    if hasattr(value, "__cuda_array_interface__"):
        array = _cupy(call, name).asarray(value)
        return array, array.dtype.name, "CuPy"
    if hasattr(value, "__dlpack__"):
        device = int(value.__dlpack_device__()[0])
        if device in _ON_HOST:
            array = np.from_dlpack(value)
            return array, array.dtype.name, "NumPy"
        if device in _ON_GPU:
            array = _cupy(call, name).from_dlpack(value)
            return array, array.dtype.name, "CuPy"
    raise wrong(call, name, f"is of type {type(value).__name__}", "Pass an array of NumPy, CuPy or PyTorch")


def _of_torch(call: str, name: str, value: Any) -> tuple[Any, str, str]:
    torch = sys.modules["torch"]
    value = value.detach()
    kind = str(value.dtype).removeprefix("torch.")
    bits = kind == "bfloat16"
    stored = value.view(torch.int16) if bits else value
    if value.device.type == "cpu":
        array = stored.numpy()
    elif value.device.type == "cuda":
        array = _cupy(call, name).from_dlpack(stored)
    else:
        raise wrong(call, name, f"is on the device {value.device}", "Move it to the CPU or to a CUDA device")
    return (array.view(np.uint16) if bits else array), kind, "PyTorch"


def _cupy(call: str, name: str) -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise wrong(
            call,
            name,
            f"is in a GPU's memory, and CuPy does not import: {error}",
            "Install CuPy for your CUDA",
        ) from error


def _place(tensor: Tensor) -> str:
    if tensor.sort == "NumPy":
        return "a NumPy array"
    return f"on GPU {tensor.home}" if tensor.home is not None else "in host memory"


def _span(call: str, name: str, value: Any) -> tuple[int, int]:
    """The address range of an array's elements."""
    data = _read(call, name, value)[0]
    begin = int(data.ctypes.data if isinstance(data, np.ndarray) else data.data.ptr)
    if 0 in data.shape:
        return begin, begin
    reach = sum((extent - 1) * step for extent, step in zip(data.shape, data.strides, strict=True))
    return begin, begin + int(reach) + int(data.itemsize)
