"""A launch of a kernel for a first look: as the file makes it where its text says how, else of small sizes.

In: what a kernel takes, and a launch in the file's host code. Out: grid, block, shared memory, and arguments
as ``tilewise trace`` takes them. Arrays are large enough for every size that goes with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from tilewise.cli.trace_arguments import MOST_BYTES, TYPES
from tilewise.cuda.arguments import Parameter, parameters_of
from tilewise.cuda.host_values import Scope
from tilewise.cuda.kernel_source import GlobalFunction
from tilewise.cuda.launch_sites import LaunchSite

ELEMENTS = 1024
"""Elements of an array of which nothing is known."""
MOST_ELEMENTS = 1 << 20
MOST_BLOCKS = 256
SHARED_BYTES = 16_384
"""Dynamic shared memory where nothing says how much."""
SPELLED = {np.dtype(name): short for short, name in TYPES.items()}
_SIZE = re.compile(
    r"(?i)^(?:n|m|k|h|w|b|t|c|d|[nhi][xyzijklm]|"
    r"\w*(?:size|len|length|num|count|rows?|cols?|width|height|dim|elem|points|channels|batch)\w*)$"
)


@dataclass(frozen=True)
class Plan:
    """A launch."""

    grid: tuple[int, ...]
    """Blocks."""
    block: tuple[int, ...]
    """Threads of a block."""
    shared_bytes: int
    """Dynamic shared memory."""
    arguments: Mapping[str, str]
    """As ``tilewise trace`` takes them."""


def plan(
    function: GlobalFunction,
    site: LaunchSite | None = None,
    *,
    flat: bool = True,
    dynamic: bool = False,
    bytes_of: Mapping[str, int] = MappingProxyType({}),
) -> Plan:
    """A small launch.

    Args:
        function: the kernel.
        site: the file's own launch of it.
        flat: whether the kernel counts its threads along x only.
        dynamic: whether it has shared memory whose size is the launch's to say.
        bytes_of: the sizes of structures that it takes, by their names.
    """
    parameters = parameters_of(function)
    scope = site.small() if site else Scope()
    grid, block, shared = site.extents(scope) if site else (None, None, 0)
    most = function.max_threads or 1024
    if block is None or prod(block) > most:
        block = (min(256, most),) if flat else (min(16, most), max(min(16, most // 16), 1))
    numbers = _numbers(parameters, site, scope, grid, block, flat)
    sizes = [int(numbers[one.name]) for one in parameters if _is_size(one) and numbers[one.name] >= 1]
    if grid is None or prod(grid) > 4 * MOST_BLOCKS:
        grid = _grid(sizes or [ELEMENTS], block)
    threads = prod(grid) * prod(block)
    arguments = {
        one.name: _array(one, at, site, scope, max(_product(sizes, flat), threads))
        if one.is_pointer
        else _written(one, numbers[one.name], bytes_of.get(one.name, 64))
        for at, one in enumerate(parameters)
    }
    return Plan(grid, block, shared or (SHARED_BYTES if dynamic else 0), arguments)


def _is_size(one: Parameter) -> bool:
    whole = one.dtype is not None and one.dtype.kind in "iu" and one.width == 1
    return whole and not one.is_pointer and bool(_SIZE.fullmatch(one.name))


def _numbers(
    parameters: Sequence[Parameter],
    site: LaunchSite | None,
    scope: Scope,
    grid: tuple[int, ...] | None,
    block: tuple[int, ...],
    flat: bool,
) -> dict[str, float]:
    """A value for each parameter that is one number."""
    count = sum(map(_is_size, parameters))
    assumed = ELEMENTS if count < 2 and flat else 64 if count < 2 else 32 if count == 2 else 16
    if grid is not None and count < 2:
        assumed = grid[0] * block[0]
    found: dict[str, float] = {}
    for at, one in enumerate(parameters):
        said = site.passed(at, scope) if site else None
        if isinstance(said, int | float):
            found[one.name] = said
        elif _is_size(one):
            found[one.name] = assumed
        else:
            found[one.name] = 0.5 if one.dtype is not None and one.dtype.kind == "f" else 1
    return found


def _grid(sizes: Sequence[int], block: tuple[int, ...]) -> tuple[int, ...]:
    largest = sorted(sizes, reverse=True)
    wanted = [*largest[: len(block)], *[largest[0]] * len(block)][: len(block)]
    wanted = [one if threads > 1 else 1 for one, threads in zip(wanted, block, strict=True)]
    most = MOST_BLOCKS if len(block) == 1 else 16
    return tuple(min(-(-one // threads), most) for one, threads in zip(wanted, block, strict=True))


def _product(sizes: Sequence[int], flat: bool) -> int:
    """Elements of an array that any two or three of the sizes may stand for."""
    taken = sizes if len(sizes) != 1 or flat else [*sizes, *sizes]
    return min(max(prod(taken), ELEMENTS), MOST_ELEMENTS)


def _array(one: Parameter, at: int, site: LaunchSite | None, scope: Scope, elements: int) -> str:
    kind = SPELLED.get(one.dtype, "u8") if one.dtype is not None else "u8"
    width = max(one.width, 1)
    bytes_ = site.bytes_of(at, scope) if site else None
    bytes_ = bytes_ if bytes_ and bytes_ <= MOST_BYTES else None
    if bytes_ and one.dtype is not None and bytes_ % one.dtype.itemsize == 0:
        return f"{kind}[{bytes_ // one.dtype.itemsize}]"
    return f"{kind}[{bytes_ or elements * (width if one.dtype is not None else 16)}]"


def _written(one: Parameter, value: float, bytes_: int) -> str:
    if one.dtype is None:
        return f"zeros:u8[{bytes_}]"
    if one.width > 1:
        return f"{SPELLED.get(one.dtype, 'u8')}[{one.width}]"
    if one.dtype.kind == "f":
        return repr(float(value))
    if one.dtype.kind == "b":
        return "true" if value else "false"
    low, high = np.iinfo(one.dtype).min, np.iinfo(one.dtype).max
    return str(min(max(int(value), int(low)), int(high)))
