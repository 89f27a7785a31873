"""A first launch of a kernel that nobody has described: arrays and numbers that fit each other.

In: a kernel's declaration, and the text around it. Out: a ``Proposal``, which the Playground shows; the
sizes are small, and the reader's to change. ``tilewise trace`` reads a file's own launches first
(``cli.trace_plan``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewise.cuda.arguments import Parameter, parameters_of
from tilewise.cuda.kernel_source import GlobalFunction, without_comments
from tilewise.cuda.variables import DeviceVariable, device_variables

ELEMENTS = 1024
"""Elements of each array that is proposed: 32 rows of 32 where a kernel has several sizes."""
BLOCK = 256
_EDGE = 32
_PLANE = 16
"""Threads of a block along x and y, where a kernel has threads along y."""
_SHARED_BYTES = 16_384
"""Of ``extern __shared__`` arrays, whose size only the launch says."""
_STRUCT_BYTES = 64
_SIZE = re.compile(
    r"(?i)^(?:n|m|k|h|w|b|t|c|d|nx|ny|nz|\w*(?:size|len|length|num|count|rows?|cols?|width|height|dim|elem)\w*)$"
)


@dataclass(frozen=True)
class ProposedArray:
    """An array for a pointer, or the bytes of a struct."""

    name: str
    ctype: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    length: str
    """How many elements it has, as a formula of sizes: ``4 * n``."""
    is_written: bool
    """Whether the kernel may write it."""
    is_struct: bool = False


@dataclass(frozen=True)
class ProposedNumber:
    """A value for a parameter that is a number."""

    name: str
    ctype: str
    dtype: np.dtype[np.generic]
    value: float | int | bool
    is_size: bool
    """Whether it says how large arrays are."""


@dataclass(frozen=True)
class Proposal:
    """A launch."""

    arguments: tuple[ProposedArray | ProposedNumber, ...]
    """By parameter."""
    variables: tuple[ProposedArray, ...]
    """Variables of the source that have no value yet."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    grid_formulas: tuple[str, str, str]
    """The grid as formulas of sizes and of ``blockDim``."""
    shared_bytes: int


def proposal(function: GlobalFunction, text: str, variables: Sequence[DeviceVariable] = ()) -> Proposal:
    """A launch on small inputs.

    Args:
        function: what the kernel declares; its line is one of the text's.
        text: the source.
        variables: those that need a value.
    """
    parameters = parameters_of(function)
    sizes = [one.name for one in parameters if _is_size(one)]
    body = _body(function, text)
    is_plane = bool(re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b", body))
    size = _EDGE if len(sizes) > 1 or is_plane else ELEMENTS
    limit = function.max_threads or 1024
    block = (_PLANE, _PLANE, 1) if is_plane and limit >= _PLANE**2 else (min(BLOCK, limit), 1, 1)
    grid, formulas = _grid(sizes, block, is_plane)
    return Proposal(
        arguments=tuple(_argument(one, sizes, size, is_plane) for one in parameters),
        variables=tuple(made for one in variables if (made := _variable(one))),
        grid=grid,
        block=block,
        grid_formulas=formulas,
        shared_bytes=_SHARED_BYTES if re.search(r"\bextern\s+__shared__\b", body) else 0,
    )


def unset_variables(source: str, compiled: str) -> list[DeviceVariable]:
    """The variables that a source uses and that need a value before a kernel reads them."""
    plain = without_comments(compiled)
    return [
        one
        for one in device_variables(source, compiled).values()
        if one.needs_a_value and len(re.findall(rf"\b{one.name.rpartition('::')[2]}\b", plain)) > 1
    ]


def _is_size(one: Parameter) -> bool:
    whole = one.dtype is not None and one.dtype.kind in "iu"
    return not one.is_pointer and whole and bool(_SIZE.fullmatch(one.name))


def _body(function: GlobalFunction, text: str) -> str:
    """The kernel's own text, up to the next kernel."""
    lines = without_comments(text).split("\n")[max(function.line - 1, 0) :]
    first, *rest = "\n".join(lines).split("__global__")
    return (
        first
        if rest and function.name.rpartition("::")[2].partition("<")[0] in first
        else "".join([first, *rest[:1]])
    )


def _grid(
    sizes: Sequence[str], block: tuple[int, int, int], is_plane: bool
) -> tuple[tuple[int, int, int], tuple[str, str, str]]:
    if is_plane:
        along = [-(-_EDGE // extent) if extent > 1 else 1 for extent in block[:2]]
        said = [
            f"ceil_div({sizes[0]}, blockDim.{axis})" if len(sizes) == 1 else str(many)
            for axis, many in zip("xy", along, strict=True)
        ]
        return (along[0], along[1], 1), (said[0], said[1], "1")
    elements = _length(sizes, is_plane) if sizes else str(ELEMENTS)
    return (-(-ELEMENTS // block[0]), 1, 1), (f"ceil_div({elements}, blockDim.x)", "1", "1")


def _length(sizes: Sequence[str], is_plane: bool) -> str:
    """How many elements an array has, which are ``ELEMENTS`` at first."""
    if len(sizes) == 1:
        return f"{sizes[0]} * {sizes[0]}" if is_plane else sizes[0]
    return " * ".join(sizes) if len(sizes) == 2 else str(ELEMENTS)


def _argument(
    one: Parameter, sizes: Sequence[str], size: int, is_plane: bool
) -> ProposedArray | ProposedNumber:
    if one.is_pointer:
        dtype = one.dtype if one.dtype is not None else np.dtype(np.uint8)
        length = _length(sizes, is_plane)
        if one.width > 1:
            length = f"{one.width} * {length}"
        return ProposedArray(
            one.name, one.ctype, dtype, (ELEMENTS * max(one.width, 1),), length, not one.is_const
        )
    if one.dtype is None or one.width > 1:
        raw = one.width * one.dtype.itemsize if one.dtype is not None else _STRUCT_BYTES
        return ProposedArray(
            one.name, one.ctype, np.dtype(np.uint8), (raw,), str(raw), is_written=False, is_struct=True
        )
    if one.dtype.kind == "f":
        return ProposedNumber(one.name, one.ctype, one.dtype, 0.5, is_size=False)
    if one.dtype.kind == "b":
        return ProposedNumber(one.name, one.ctype, one.dtype, True, is_size=False)
    value = size if one.name in sizes else 1
    return ProposedNumber(one.name, one.ctype, one.dtype, value, is_size=one.name in sizes)


def _variable(one: DeviceVariable) -> ProposedArray | None:
    if one.dtype is None or one.shape is None or -1 in one.shape:
        return None
    shape = one.shape or (1,)
    length = str(math.prod(shape))
    return ProposedArray(one.name, str(one.dtype), one.dtype, shape, length, is_written=not one.is_constant)
