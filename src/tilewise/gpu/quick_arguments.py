"""Arguments of plain types, written for the driver's launch without a full check.

In: a kernel's parameters, then each launch's arguments. Out: words in memory if every argument is a CuPy
array, a number or a tensor map of the right type; else nothing, and the full check in `cuda.arguments`
converts it or says what is wrong.
"""

from __future__ import annotations

import ctypes
import importlib
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.cuda.kernel_source import Parameter
from tilewise.cuda.tensor_map import TensorMap, encoded

_C_TYPES: dict[str, Any] = {
    **{f"int{8 * size}": getattr(ctypes, f"c_int{8 * size}") for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": getattr(ctypes, f"c_uint{8 * size}") for size in (1, 2, 4, 8)},
    **{"float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool},
}


_UNFIT = object()
"""Marks a value that needs the full check; also the dtype of a parameter that is no array."""


class QuickLaunch:
    """A kernel's arguments in memory that the driver reads, one word each: a launch allocates no objects.

    Args:
        parameters: the kernel's.
        times: how often modules had been reset when this was created.
    """

    def __init__(self, parameters: Sequence[Parameter], times: int) -> None:
        cuda = importlib.import_module("cupy").cuda
        self.times = times
        self.heads: dict[tuple[Any, ...], tuple[int, ...]] = {}
        """By GPU and launch shape: the function's handle, grid, block and shared memory."""
        self.launch, self.device, self.stream = (
            cuda.driver.launchKernel,
            cuda.runtime.getDevice,
            cuda.get_current_stream,
        )
        many = max(len(parameters), 1)
        self._words, self._places = (ctypes.c_uint64 * many)(), (ctypes.c_uint64 * many)()
        self._maps: list[Any] = [None] * many
        first = ctypes.addressof(self._words)
        for at in range(many):
            self._places[at] = first + 8 * at
        self.address = ctypes.addressof(self._places)
        """The address of the array of the arguments' addresses."""
        self.lock = threading.Lock()
        """Acquired from writing to launching: other threads write to the same words."""
        self._dtypes: list[Any] = [param.dtype if param.is_pointer else _UNFIT for param in parameters]
        kind = importlib.import_module("cupy").ndarray
        # where it exists, the attribute takes a fifth of the time of CuPy's public one
        private = "_c_contiguous" if hasattr(kind, "_c_contiguous") else "flags.c_contiguous"
        self._kind, self._contiguous = kind, operator.attrgetter(private)
        self._writers = [self._writer(at, param) for at, param in enumerate(parameters)]

    def write(self, arguments: Sequence[Any]) -> bool:
        """Write a launch's arguments; False if they need the full check."""
        if len(arguments) != len(self._writers):
            return False
        words, kind, contiguous = self._words, self._kind, self._contiguous
        for at, (value, dtype) in enumerate(zip(arguments, self._dtypes, strict=True)):
            if type(value) is kind:
                fits = value.dtype is dtype or dtype is None or (dtype is not _UNFIT and value.dtype == dtype)
                if not (fits and contiguous(value)):
                    return False
                words[at] = value.data.ptr
            elif not self._writers[at](value):
                return False
        return True

    def _writer(self, at: int, param: Parameter) -> Callable[[Any], bool]:
        words, places, maps, kind = self._words, self._places, self._maps, self._kind
        if param.is_pointer:

            def null(value: Any) -> bool:
                words[at] = 0
                return value is None

            return null
        if param.dtype is None:

            def tensor_map(value: Any) -> bool:
                if type(value) is not TensorMap or type(value.source) is not kind:
                    return False
                pointer, layout = value.source.data.ptr, value.layout
                last = maps[at]
                if last is None or last[0] is not layout or last[1] != pointer:
                    encoding = encoded(pointer, layout)
                    maps[at] = (layout, pointer, encoding)  # not the map, which would keep its array alive
                    places[at] = encoding.address
                return True

            return tensor_map
        plain = _C_TYPES.get(param.dtype.name) if param.width == 1 and not param.ctype.endswith("&") else None
        if plain is None:
            return lambda value: False
        cell, take = plain.from_buffer(words, 8 * at), _taker(param.dtype)

        def number(value: Any) -> bool:
            converted = take(value)
            if converted is _UNFIT:
                return False
            cell.value = converted
            return True

        return number


def _taker(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """A function that checks a number and converts it to Python's; `_UNFIT` if it doesn't fit."""
    scalar_type = dtype.type
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)

        def take_float(value: Any) -> Any:
            if type(value) is float:
                return value if -most <= value <= most else _UNFIT
            return value.item() if type(value) is scalar_type else _UNFIT

        return take_float
    low, high = (1, 0) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))

    def take_whole(value: Any) -> Any:
        if type(value) is int:
            return value if low <= value <= high else _UNFIT
        return value.item() if type(value) is scalar_type else _UNFIT

    return take_whole
