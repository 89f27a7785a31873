"""Arguments of the plain kinds, made ready for CuPy's launch without the work of a full check.

In: a kernel's parameters, then what each launch is given. Out: a tuple for the launch where every argument is
a CuPy array, a number or a tensor map of one that fits; None where one is anything else, so that the full
check in `cuda.arguments` converts it or says what is wrong.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewise.cuda.arguments import Parameter
from tilewise.cuda.tensor_map import TensorMap, encoded

_Taker: TypeAlias = Callable[[Any, Any], Any]
_NULL = np.uint64(0)
_C_TYPES: dict[str, Any] = {
    **{f"int{8 * size}": getattr(ctypes, f"c_int{8 * size}") for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": getattr(ctypes, f"c_uint{8 * size}") for size in (1, 2, 4, 8)},
    **{"float32": ctypes.c_float, "float64": ctypes.c_double, "bool": ctypes.c_bool},
}


class _Unfit:
    """What no quick way fits."""


_UNFIT = _Unfit()


class QuickArguments:
    """The quick way for one kernel: what a parameter takes is worked out once.

    Args:
        parameters: the kernel's.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._takers = [_taker(one) for one in parameters]

    def passed(self, given: Sequence[Any]) -> tuple[Any, ...] | None:
        """What CuPy's launch takes; None where the full check must see to it."""
        cupy = sys.modules.get("cupy")
        if cupy is None or len(given) != len(self._takers):
            return None
        kind = cupy.ndarray
        made = []
        for take, value in zip(self._takers, given, strict=True):
            one = take(value, kind)
            if one is _UNFIT:  # by "is": never ==, which CuPy would compute on the GPU
                return None
            made.append(one)
        return tuple(made)


class PackedArguments:
    """The same in memory that the driver reads, a word for each argument: no object is made for a launch.

    Args:
        parameters: the kernel's.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
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
        self._writers = [self._writer(at, one) for at, one in enumerate(parameters)]

    def write(self, given: Sequence[Any]) -> bool:
        """Write what a launch is given; False where the full check must see to it."""
        if len(given) != len(self._writers):
            return False
        return all(write(value) for write, value in zip(self._writers, given, strict=True))

    def _writer(self, at: int, one: Parameter) -> Callable[[Any], bool]:
        words, places, held = self._words, self._places, self._held
        if one.is_pointer:
            dtype, kind = one.dtype, sys.modules["cupy"].ndarray

            def pointer(value: Any) -> bool:
                if type(value) is kind:
                    if (
                        value.dtype is dtype or dtype is None or value.dtype == dtype
                    ) and value.flags.c_contiguous:
                        words[at] = value.data.ptr
                        return True
                    return False
                words[at] = 0
                return value is None

            return pointer
        if one.dtype is None:

            def tensor_map(value: Any) -> bool:
                if type(value) is not TensorMap or type(value.source) is not sys.modules["cupy"].ndarray:
                    return False
                held[at] = made = encoded(value.source.data.ptr, value.layout)
                places[at] = made.address
                return True

            return tensor_map
        plain = _C_TYPES.get(one.dtype.name) if one.width == 1 and not one.ctype.endswith("&") else None
        if plain is None:
            return lambda value: False
        cell, take = plain.from_buffer(words, 8 * at), _taker(one)

        def number(value: Any) -> bool:
            made = take(value, None)
            if made is _UNFIT:
                return False
            cell.value = made.item()
            return True

        return number


def _taker(one: Parameter) -> _Taker:
    """How a parameter takes a value of a plain kind; the second argument is CuPy's class of arrays."""
    if one.is_pointer:
        return _pointer(one.dtype)
    if one.ctype.endswith("&") or (one.dtype is not None and one.width > 1):
        return lambda value, kind: _UNFIT
    if one.dtype is None:
        return _map
    return _float(one.dtype) if one.dtype.kind == "f" else _whole(one.dtype)


def _pointer(dtype: np.dtype[Any] | None) -> _Taker:
    def take(value: Any, kind: Any) -> Any:
        if type(value) is kind:
            fits = dtype is None or value.dtype is dtype or value.dtype == dtype
            return value if fits and value.flags.c_contiguous else _UNFIT
        return _NULL if value is None else _UNFIT

    return take


def _map(value: Any, kind: Any) -> Any:
    if type(value) is TensorMap and type(value.source) is kind:
        return value.encoded(value.source.data.ptr)
    return _UNFIT


def _float(dtype: np.dtype[Any]) -> _Taker:
    made, most = dtype.type, float(np.finfo(dtype).max)

    def take(value: Any, kind: Any) -> Any:
        if type(value) is float and -most <= value <= most:
            return made(value)
        return value if type(value) is made else _UNFIT

    return take


def _whole(dtype: np.dtype[Any]) -> _Taker:
    made = dtype.type
    low, high = (1, 0) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))

    def take(value: Any, kind: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return made(value)
        return value if type(value) is made else _UNFIT

    return take
