"""Checks of a launch: arguments against a kernel's parameters, grid and block against the limits.

In: what the caller passed. Out: NumPy values of exactly the declared types, or a one-line error that says
what does not fit. Both backends run the same checks.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tilewise.cuda.cases import Dim3, Extent, dim3
from tilewise.cuda.kernel_source import GlobalFunction, KernelError, Parameter
from tilewise.cuda.tensor_map import InnerPointer, TensorMap

Argument: TypeAlias = Any
"""A NumPy array or scalar, an array of another package with `__cuda_array_interface__`, None for null."""

GRID_LIMITS: Dim3 = (2**31 - 1, 65_535, 65_535)
BLOCK_LIMITS: Dim3 = (1024, 1024, 64)
THREADS_LIMIT = 1024
SHARED_BYTES_LIMIT = 232_448
"""227 KiB per block, the most that any GPU so far offers; the GPU in use may offer less and says so."""

STATIC_SHARED_LIMIT = 48 * 1024
"""Total bytes of all `__shared__` variables of a fixed size."""


def check_arguments(kernel: str, parameters: Sequence[Parameter], arguments: Sequence[Any]) -> list[Argument]:
    """Convert the arguments to values of the declared types.

    Args:
        kernel: the kernel's name, for messages.
        parameters: its declared parameters.
        arguments: what was passed, in order.

    Returns:
        Arrays unchanged, numbers as NumPy scalars of the declared type.

    Raises:
        KernelError: the count, a type, a layout or a value does not fit.
    """
    if len(arguments) != len(parameters):
        declared = ", ".join(f"{parameter.ctype} {parameter.name}" for parameter in parameters) or "nothing"
        raise KernelError(
            f'kernel "{kernel}" takes {len(parameters)} arguments and got {len(arguments)}. Pass: {declared}.'
        )
    checked = [
        _argument(kernel, parameter, value) for parameter, value in zip(parameters, arguments, strict=True)
    ]
    _check_overlap(kernel, parameters, checked)
    return checked


def check_launch(
    kernel: str, function: GlobalFunction, grid: Extent | None, block: Extent | None, shared_bytes: int
) -> tuple[Dim3, Dim3, int]:
    """Return grid and block as three extents each, within CUDA's limits, and the shared bytes.

    Raises:
        KernelError: an extent is missing, not an integer, zero or beyond its limit.
    """
    blocks = _extents(kernel, "grid", grid, GRID_LIMITS)
    threads = _extents(kernel, "block", block, BLOCK_LIMITS)
    total = threads[0] * threads[1] * threads[2]
    if total > THREADS_LIMIT:
        raise KernelError(
            f'kernel "{kernel}": block={_short(threads)} has {total} threads; a block holds at most '
            f"{THREADS_LIMIT}. Make the block smaller and the grid larger."
        )
    if function.max_threads is not None and total > function.max_threads:
        raise KernelError(
            f'kernel "{kernel}": block={_short(threads)} has {total} threads, and the kernel promises '
            f"at most {function.max_threads} by __launch_bounds__. Launch fewer or change the promise."
        )
    if function.cluster and any(many % few for many, few in zip(blocks, function.cluster, strict=True)):
        raise KernelError(
            f'kernel "{kernel}": grid={_short(blocks)} is not a whole number of clusters of '
            f"{_short(function.cluster)} blocks. Round the grid up."
        )
    try:
        size = operator.index(shared_bytes)
    except TypeError:
        raise KernelError(
            f'kernel "{kernel}": shared_bytes={shared_bytes!r} is not a whole number. Pass bytes as an int.'
        ) from None
    if not 0 <= size <= SHARED_BYTES_LIMIT:
        raise KernelError(
            f'kernel "{kernel}": shared_bytes={size} is outside 0 to {SHARED_BYTES_LIMIT}, '
            "the most that a block can have. Use a smaller tile."
        )
    return blocks, threads, size


def check_shared(kernel: str, static_bytes: int, dynamic_bytes: int, limit: int = SHARED_BYTES_LIMIT) -> None:
    """Check that a block's shared memory fits, once a compiler has reported the static part.

    Raises:
        KernelError: the static part or the total exceeds its limit.
    """
    if static_bytes > STATIC_SHARED_LIMIT:
        raise KernelError(
            f'kernel "{kernel}" declares {static_bytes} bytes of __shared__ variables; at most '
            f"{STATIC_SHARED_LIMIT} may be static. Use extern __shared__ and shared_bytes=."
        )
    if static_bytes + dynamic_bytes > limit:
        raise KernelError(
            f'kernel "{kernel}": shared_bytes={dynamic_bytes} and {static_bytes} bytes of __shared__ '
            f"variables are more than the {limit} that a block can have. Use a smaller tile."
        )


def is_device_array(value: object) -> bool:
    """Whether a value is another package's array in GPU memory."""
    return not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__")


def _extents(kernel: str, what: str, value: Extent | None, limits: Dim3) -> Dim3:
    if value is None:
        raise KernelError(
            f'kernel "{kernel}": no {what} was given. Pass {what}=, an int or up to three of them.'
        )
    try:
        extents = dim3(value, what)
    except ValueError as error:
        raise KernelError(f'kernel "{kernel}": {error}') from None
    for axis, extent, limit in zip("xyz", extents, limits, strict=True):
        if not 1 <= extent <= limit:
            raise KernelError(
                f'kernel "{kernel}": {what}={_short(extents)} has {extent} in {axis}; '
                f"it must lie between 1 and {limit}."
            )
    return extents


def _short(extents: Dim3) -> str:
    shown = extents[:1] if extents[1:] == (1, 1) else extents[:2] if extents[2] == 1 else extents
    return str(shown[0]) if len(shown) == 1 else str(shown)


def _argument(kernel: str, parameter: Parameter, value: Any) -> Argument:
    if isinstance(value, TensorMap):
        return _map(kernel, parameter, value)
    if parameter.ctype.endswith("&"):
        raise _wrong(
            kernel,
            parameter,
            f"is a reference, {parameter.ctype}",
            "Have the kernel take a value or a pointer instead",
        )
    if parameter.is_pointer:
        if value is not None:
            _check_array(kernel, parameter, value.source if isinstance(value, InnerPointer) else value)
        return value
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return _structure(kernel, parameter, value)
    structure = parameter.dtype is None or parameter.width > 1
    if (isinstance(value, np.ndarray) or is_device_array(value)) and not structure:
        raise _wrong(
            kernel,
            parameter,
            f"is an array, and {parameter.ctype} is one value",
            "Pass a number, such as x.item()",
        )
    if structure or parameter.dtype is None:
        raise _wrong(
            kernel,
            parameter,
            f"is of type {type(value).__name__}",
            "Pass a structured NumPy array of size 1 with its fields",
        )
    if isinstance(value, np.generic):
        if value.dtype != parameter.dtype:
            raise _wrong(
                kernel,
                parameter,
                f"is a NumPy {value.dtype}, and {parameter.ctype} is {parameter.dtype}",
                f"Pass np.{parameter.dtype}(...) or a Python number",
            )
        return value
    if isinstance(value, bool | int | float):
        return _number(kernel, parameter, parameter.dtype, value)
    raise _wrong(
        kernel,
        parameter,
        f"is of type {type(value).__name__}, and {parameter.ctype} is a number",
        "Pass a number",
    )


def _check_array(kernel: str, parameter: Parameter, value: Any) -> None:
    if isinstance(value, np.ndarray):
        dtype, contiguous, writable = value.dtype, value.flags.c_contiguous, value.flags.writeable
    elif is_device_array(value):
        interface = value.__cuda_array_interface__
        dtype = np.dtype(interface["typestr"])
        contiguous = _is_contiguous(interface["shape"], interface.get("strides"), dtype.itemsize)
        writable = not interface["data"][1]
    else:
        raise _wrong(
            kernel,
            parameter,
            f"is of type {type(value).__name__}, and {parameter.ctype} is a pointer",
            "Pass an array, or None for a null pointer",
        )
    if parameter.dtype is not None and dtype != parameter.dtype:
        bits = " (the bits of bf16)" if "bfloat16" in parameter.ctype else ""
        raise _wrong(
            kernel,
            parameter,
            f"has dtype {dtype}, and {parameter.ctype} takes {parameter.dtype}{bits}",
            f'Make the array with dtype="{parameter.dtype}" or convert it with .astype',
        )
    if not contiguous:
        raise _wrong(kernel, parameter, "is not C-contiguous", "Pass np.ascontiguousarray(...) of it")
    if not parameter.is_const and not writable:
        raise _wrong(
            kernel,
            parameter,
            "is read-only, and the parameter is not const",
            "Pass a copy or declare it const",
        )


def _is_contiguous(shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def _map(kernel: str, parameter: Parameter, value: TensorMap) -> Argument:
    if parameter.is_pointer or parameter.dtype is not None:
        raise _wrong(
            kernel,
            parameter,
            f"is {value}, and {parameter.ctype} is not a tensor map",
            f"Declare const __grid_constant__ TensorMap {parameter.name}, a struct of 128 bytes",
        )
    if value.name is not None:
        raise _wrong(
            kernel, parameter, f'names the array "{value.name}", as in a case', "Pass tensor_map(array, ...)"
        )
    return value


def _structure(kernel: str, parameter: Parameter, value: np.ndarray[Any, Any]) -> Argument:
    if value.size != 1:
        raise _wrong(
            kernel, parameter, f"holds {value.size} structures", "Pass a structured array of size 1 by value"
        )
    if parameter.dtype is not None and (
        parameter.width == 1 or value.dtype.itemsize != parameter.dtype.itemsize * parameter.width
    ):
        raise _wrong(
            kernel,
            parameter,
            f"is a structure of {value.dtype.itemsize} bytes, and {parameter.ctype} has "
            f"{parameter.dtype.itemsize * parameter.width}",
            "Pass a value of the declared type",
        )
    return np.ascontiguousarray(value)


def _number(kernel: str, parameter: Parameter, dtype: np.dtype[Any], value: bool | int | float) -> np.generic:
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            try:
                number: np.generic = dtype.type(value)
            except OverflowError:
                number = dtype.type(np.inf)
        if np.isinf(number) and abs(value) != float("inf"):
            raise _wrong(
                kernel,
                parameter,
                f"is {value}, which does not fit {parameter.ctype}",
                "Pass a smaller number",
            )
        if isinstance(value, int) and int(number.item()) != value:
            raise _wrong(
                kernel,
                parameter,
                f"is {value}, which {parameter.ctype} cannot hold exactly",
                "Pass float(...) of it to round, or declare an integer type",
            )
        return number
    if isinstance(value, float):
        raise _wrong(kernel, parameter, f"is {value!r}, and {parameter.ctype} is whole", "Pass an int")
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if not low <= value <= high:
        raise _wrong(
            kernel,
            parameter,
            f"is {value}, outside {low} to {high} of {parameter.ctype}",
            "Pass a smaller number or declare a wider type",
        )
    number = dtype.type(value)
    return number


def _check_overlap(kernel: str, parameters: Sequence[Parameter], values: Sequence[Argument]) -> None:
    """Partly overlapping views would diverge on a backend that copies; the same array twice is fine."""
    pairs = list(zip(parameters, values, strict=True))
    arrays = [
        (parameter, value)
        for parameter, value in pairs
        if isinstance(value, np.ndarray) and parameter.is_pointer
    ]
    for at, (first, left) in enumerate(arrays):
        for second, right in arrays[at + 1 :]:
            if first.is_const and second.is_const:
                continue
            if np.may_share_memory(left, right) and not same_memory(left, right):
                raise KernelError(
                    f'kernel "{kernel}": "{first.name}" and "{second.name}" share part of their memory. '
                    "Pass the same whole array to both, or copies."
                )


def same_memory(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays occupy the same bytes."""
    return left.ctypes.data == right.ctypes.data and left.nbytes == right.nbytes


def _wrong(kernel: str, parameter: Parameter, what: str, repair: str) -> KernelError:
    return KernelError(f'kernel "{kernel}": "{parameter.name}" {what}. {repair}.')
