"""Arguments of the plain kinds, written for the driver's launch without the work of a full check.

In: a kernel's parameters, then what each launch is given. Out: words in memory where every argument is a CuPy
array, a number or a tensor map of one that fits; else nothing, so that the full check in `cuda.arguments`
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
"""What no quick way fits; the dtype of what is no array."""


class QuickLaunch:
    """A kernel's arguments in memory that the driver reads, a word for each: no object is made for a launch.

    Args:
        parameters: the kernel's.
        times: how often modules were reset when this was made.
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
        self._held: list[Any] = [None] * many
        first = ctypes.addressof(self._words)
        for at in range(many):
            self._places[at] = first + 8 * at
        self.address = ctypes.addressof(self._places)
        """Where the addresses of all arguments are."""
        self.lock = threading.Lock()
        """Held from writing to the launch: another thread would write to the same words."""
        self._dtypes: list[Any] = [one.dtype if one.is_pointer else _UNFIT for one in parameters]
        kind = importlib.import_module("cupy").ndarray
        # the attribute takes a fifth of the time of CuPy's public way, where it is there
        private = "_c_contiguous" if hasattr(kind, "_c_contiguous") else "flags.c_contiguous"
        self._kind, self._contiguous = kind, operator.attrgetter(private)
        self._writers = [self._writer(at, one) for at, one in enumerate(parameters)]

    def write(self, given: Sequence[Any]) -> bool:
        """Write what a launch is given; False where the full check must see to it."""
        if len(given) != len(self._writers):
            return False
        words, kind, contiguous = self._words, self._kind, self._contiguous
        for at, (value, dtype) in enumerate(zip(given, self._dtypes, strict=True)):
            if type(value) is kind:
                fits = value.dtype is dtype or dtype is None or (dtype is not _UNFIT and value.dtype == dtype)
                if not (fits and contiguous(value)):
                    return False
                words[at] = value.data.ptr
            elif not self._writers[at](value):
                return False
        return True

    def _writer(self, at: int, one: Parameter) -> Callable[[Any], bool]:
        words, places, held, kind = self._words, self._places, self._held, self._kind
        if one.is_pointer:

            def null(value: Any) -> bool:
                words[at] = 0
                return value is None

            return null
        if one.dtype is None:

            def tensor_map(value: Any) -> bool:
                if type(value) is not TensorMap or type(value.source) is not kind:
                    return False
                pointer, layout = value.source.data.ptr, value.layout
                last = held[at]
                if last is None or last[0] is not layout or last[1] != pointer:
                    made = encoded(pointer, layout)
                    held[at] = (layout, pointer, made)  # not the map, which would keep its array
                    places[at] = made.address
                return True

            return tensor_map
        plain = _C_TYPES.get(one.dtype.name) if one.width == 1 and not one.ctype.endswith("&") else None
        if plain is None:
            return lambda value: False
        cell, take = plain.from_buffer(words, 8 * at), _taker(one.dtype)

        def number(value: Any) -> bool:
            made = take(value)
            if made is _UNFIT:
                return False
            cell.value = made
            return True

        return number


def _taker(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """What checks a number of a plain kind, and gives it as one of Python; `_UNFIT` where it does not fit."""
    made = dtype.type
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)

        def take_float(value: Any) -> Any:
            if type(value) is float:
                return value if -most <= value <= most else _UNFIT
            return value.item() if type(value) is made else _UNFIT

        return take_float
    low, high = (1, 0) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))

    def take_whole(value: Any) -> Any:
        if type(value) is int:
            return value if low <= value <= high else _UNFIT
        return value.item() if type(value) is made else _UNFIT

    return take_whole
