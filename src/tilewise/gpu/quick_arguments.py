"""Arguments of the plain kinds, made ready for CuPy's launch without the work of a full check.

In: a kernel's parameters, then what each launch is given. Out: a tuple for the launch where every argument is
a CuPy array, a number or a tensor map of one that fits; None where one is anything else, so that the full
check in `cuda.arguments` converts it or says what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewise.cuda.arguments import Parameter
from tilewise.cuda.tensor_map import TensorMap

_Taker: TypeAlias = Callable[[Any, Any], Any]
_NULL = np.uint64(0)


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
