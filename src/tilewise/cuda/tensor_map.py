"""Tensor maps: descriptions of arrays with which Hopper's TMA copies boxes to and from shared memory.

In: an array, or its name in a case, and the box. Out: a `TensorMap`, for a parameter `const __grid_constant__
TensorMap` of `struct __align__(128) TensorMap { unsigned long long opaque[16]; };`. On a GPU the driver fills
its 128 bytes; the simulator reads the layout of `simulator/engine/tensor.h`.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from tilewise.cuda.kernel_source import KernelError

Layout: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]
"""A tensor map's arguments for the driver: element type, extents, strides, box, swizzle, promotion.

The fastest axis is first; strides are in bytes and omit the fastest axis.
"""

MAP_BYTES = 128
"""A tensor map's size; a kernel's parameter must also be aligned to it."""

_MAGIC = 0x70614D54
_KINDS = {
    "uint8": (0, "u8"), "uint16": (1, "u16"), "uint32": (2, "u32"), "int32": (3, "s32"), "uint64": (4, "u64"),
    "int64": (5, "s64"), "float16": (6, "f16"), "float32": (7, "f32"), "float64": (8, "f64"),
    "bfloat16": (9, "bf16"), "int8": (0, "s8"), "int16": (1, "s16"),
}  # fmt: skip
"""Element type: the driver's number, and the simulator's name. Signs of narrow integers don't matter."""
_SWIZZLES = {0: (0, 0), 32: (1, 0x10), 64: (2, 0x30), 128: (3, 0x70)}
"""Swizzle span in bytes: the driver's number, and the address bits that it changes."""
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_MOST_AXES, _LONGEST_BOX = 5, 256


@dataclass(frozen=True, eq=False, repr=False)
class TensorMap:
    """A view of an array in boxes; created by `tensor_map`."""

    source: Any
    """The array, or its name in a case."""
    box: tuple[int, ...]
    """Extents of a box, slowest axis first, like the array's shape."""
    swizzle: int
    """Bytes of a row within which 16-byte chunks are permuted in shared memory; 0 for none."""
    shape: tuple[int, ...] | None
    """Extents that count as in bounds; None takes the array's."""
    kind: str | None
    """Element type, such as `bfloat16`; None takes the array's dtype."""
    promotion: int
    """Bytes that the L2 cache fetches at once, on a GPU."""

    @property
    def name(self) -> str | None:
        """The name of its array in a case; None if it has the array itself."""
        return self.source if isinstance(self.source, str) else None

    def named(self, name: str) -> TensorMap:
        """Return the same map of a named array in a case."""
        return replace(self, source=name)

    def of(self, array: Any) -> TensorMap:
        """Return the same map of an array.

        Raises:
            KernelError: the TMA cannot copy such boxes of it.
        """
        tensor_map = replace(self, source=array)
        _ = tensor_map.layout
        return tensor_map

    def described(self, address: int, types: Mapping[str, int]) -> bytes:
        """Return the 128 bytes that the simulator reads.

        Args:
            address: the array's address in the simulator's memory.
            types: the simulator's number for each PTX type.
        """
        _, extents, strides, box, _, _ = self.layout
        dtype = np.dtype(_interface(self.source)[1])
        head = struct.pack(
            "<IBBBBQ",
            _MAGIC,
            len(box),
            dtype.itemsize,
            _SWIZZLES[self.swizzle][1],
            types.get(_KINDS[self.kind or dtype.name][1], 0),
            address,
        )
        body = struct.pack("<5I5I4Q", *_five(extents, 1), *_five(box, 1), *_five(strides, 0)[:4])
        return (head + body).ljust(MAP_BYTES, b"\0")

    @cached_property
    def layout(self) -> Layout:
        """The driver's arguments except the address, cached for arrays of equal shape.

        Raises:
            KernelError: the TMA cannot copy such boxes of the array.
        """
        return _layout(
            *_interface(self.source), self.box, self.swizzle, self.shape, self.kind, self.promotion
        )

    def _check_box(self) -> None:
        if not 1 <= len(self.box) <= _MOST_AXES or any(
            not 1 <= extent <= _LONGEST_BOX for extent in self.box
        ):
            raise self._wrong(
                f"box={self.box} is not possible", f"Give 1 to {_MOST_AXES} extents from 1 to {_LONGEST_BOX}"
            )
        if self.swizzle not in _SWIZZLES:
            raise self._wrong(f"swizzle={self.swizzle} is not possible", "Give 0, 32, 64 or 128")
        if self.promotion not in _PROMOTIONS:
            raise self._wrong(f"l2_promotion={self.promotion} is not possible", "Give 0, 64, 128 or 256")

    def _wrong(self, what: str, repair: str) -> KernelError:
        return KernelError(f"{self}: {what}. {repair}.")

    def __repr__(self) -> str:
        source = (
            repr(self.source) if isinstance(self.source, str) else f"<array {_interface(self.source)[0]}>"
        )
        more = "" if self.shape is None else f", shape={self.shape}"
        more += "" if self.kind is None else f", dtype={self.kind!r}"
        more += "" if self.promotion == 128 else f", l2_promotion={self.promotion}"
        return f"tensor_map({source}, box={self.box}, swizzle={self.swizzle}{more})"


def tensor_map(
    array: Any,
    box: Sequence[int],
    swizzle: int = 0,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    l2_promotion: int = 128,
) -> TensorMap:
    """Describe an array for tensor copies (`cp.async.bulk.tensor`), the same on a GPU and on the simulator.

    Extents have the slowest axis first, like NumPy's shapes; a kernel's coordinates have the fastest first,
    as in PTX. Elements outside the array read as zero and are not written.

    Args:
        array: a C-contiguous array of NumPy or in GPU memory; in a `case`, the name of one of its arrays.
        box: elements copied at once along each axis, one to five axes, each at most 256.
        swizzle: 0, 32, 64 or 128: bytes of a row of the box, within which 16-byte chunks are permuted.
        shape: extents that count as in bounds, if the array's rows are padded.
        dtype: element type if it differs from the array's: `bfloat16` for uint16.
        l2_promotion: 0, 64, 128 or 256 bytes that the L2 cache fetches at once; the simulator has no caches.

    Raises:
        KernelError: the TMA cannot copy such boxes.
    """
    inside = None if shape is None else tuple(map(operator.index, shape))
    result = TensorMap(array, tuple(map(operator.index, box)), swizzle, inside, dtype, l2_promotion)
    if isinstance(array, str):
        result._check_box()
    else:
        _ = result.layout  # cached if an equal layout has been checked
    return result


@dataclass(frozen=True, eq=False)
class InnerPointer:
    """A pointer to an element of an array other than its first, such as ``x + 3``."""

    source: Any
    """The array, or its name in a case."""
    first: int
    """The element at index 0."""

    @property
    def name(self) -> str | None:
        """The name of its array in a case; None if it has the array itself."""
        return self.source if isinstance(self.source, str) else None

    def of(self, array: Any) -> InnerPointer:
        """Return the same pointer into an array."""
        return replace(self, source=array)


def with_array(value: Any, values: Any) -> Any:
    """Return a value; maps of named arrays and pointers into them get the array from `values`.

    Raises:
        KernelError: there is no array of that name.
    """
    if not isinstance(value, TensorMap | InnerPointer) or value.name is None:
        return value
    if value.name not in values:
        raise KernelError(
            f'{value}: the case has no "{value.name}". Name one of its arrays: {", ".join(values)}.'
        )
    return value.of(values[value.name])


@dataclass(frozen=True)
class Encoded:
    """A tensor map encoded by the driver."""

    data: np.ndarray[Any, Any]
    """Its 128 bytes, an aligned structured array of size 1."""
    address: int
    """Their address in host memory."""


@dataclass(frozen=True)
class _Described:
    """A shape and element type with the interface of an array."""

    shape: tuple[int, ...]
    typestr: str

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.typestr}


@lru_cache(maxsize=1024)
def _layout(
    shape: tuple[int, ...],
    typestr: str,
    box: tuple[int, ...],
    swizzle: int,
    inside: tuple[int, ...] | None,
    kind: str | None,
    promotion: int,
) -> Layout:
    described = TensorMap(_Described(shape, typestr), box, swizzle, inside, kind, promotion)
    described._check_box()
    if len(shape) != len(box):
        raise described._wrong(
            f"the array has {len(shape)} axes and the box {len(box)}", "Give one extent an axis"
        )
    dtype = np.dtype(typestr)
    name = kind or dtype.name
    if name not in _KINDS or np.dtype("uint16" if name == "bfloat16" else name).itemsize != dtype.itemsize:
        raise described._wrong(
            f"elements of {dtype} cannot be taken as {name}", f"Use one of {', '.join(_KINDS)}"
        )
    extents = inside or shape
    if len(extents) != len(shape) or any(
        not 0 < few <= many for few, many in zip(extents, shape, strict=True)
    ):
        raise described._wrong(
            f"shape={extents} does not lie within the array's {shape}", "Give a part of it"
        )
    row = box[-1] * dtype.itemsize
    if row % 16:
        raise described._wrong(
            f"a row of the box has {row} bytes, no multiple of 16", "Make the last extent larger"
        )
    if swizzle and row != swizzle:
        fits = swizzle // dtype.itemsize
        raise described._wrong(
            f"a row of the box has {row} bytes and swizzle={swizzle}", f"Make the last extent {fits}"
        )
    steps = [dtype.itemsize]
    for extent in shape[:0:-1]:
        steps.append(steps[-1] * extent)
    for step in steps[1:]:
        if step % 16 or step >= 1 << 40:
            raise described._wrong(
                f"rows of the array are {step} bytes apart, and the TMA needs multiples of 16",
                "Copy it into an array with longer rows and give shape= for the part that counts",
            )
    return (
        _KINDS[name][0],
        extents[::-1],
        tuple(steps[1:]),
        box[::-1],
        _SWIZZLES[swizzle][0],
        _PROMOTIONS[promotion],
    )


@lru_cache(maxsize=4096)
def encoded(pointer: int, layout: Layout) -> Encoded:
    """Return the driver's map of an array at a device address, cached.

    Raises:
        KernelError: there is no driver, or it rejects the map; the message has its error number.
    """
    kind, extents, strides, box, swizzle, promotion = layout
    rank = len(box)
    data = _aligned()
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(data.ctypes.data),
        ctypes.c_int(kind),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(pointer),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * max(rank - 1, 1))(*strides),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*([1] * rank)),
        ctypes.c_int(0),  # no interleaving
        ctypes.c_int(swizzle),
        ctypes.c_int(promotion),
        ctypes.c_int(0),  # zeros outside
    )
    if status:
        raise KernelError(
            f"tensor_map: cuTensorMapEncodeTiled failed with CUDA error {status} for an array of extents "
            f"{list(extents)} at {pointer:#x}. Check that the GPU is a Hopper or later and has the array."
        )
    return Encoded(data, data.ctypes.data)


def _interface(array: Any) -> tuple[tuple[int, ...], str]:
    """Shape and element type of a C-contiguous array."""
    if isinstance(array, np.ndarray):
        if not array.flags.c_contiguous:
            raise KernelError(
                "tensor_map: the array is not C-contiguous. Pass np.ascontiguousarray(...) of it."
            )
        return array.shape, array.dtype.str
    if hasattr(array, "__cuda_array_interface__"):
        described = array.__cuda_array_interface__
        return tuple(described["shape"]), described["typestr"]
    raise KernelError(
        f"tensor_map: {type(array).__name__} is no array. Pass an array or, in a case, the name of one."
    )


def _five(values: Sequence[int], fill: int) -> list[int]:
    return [*values, *[fill] * (5 - len(values))]


def _aligned() -> np.ndarray[Any, Any]:
    """128 bytes at an address that is a multiple of 128, as a structured array of size 1."""
    room = np.zeros(2 * MAP_BYTES, np.uint8)
    start = -room.ctypes.data % MAP_BYTES
    return room[start : start + MAP_BYTES].view(np.dtype([("opaque", np.uint64, (16,))]))


@cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KernelError(
            f"tensor_map: NVIDIA's driver is not there: {error}. Run on the simulator."
        ) from None
