"""Index arithmetic of a launch: which thread stands where, in CUDA's order.

In: grid and block sizes in x, y, z. Out: block, thread, warp, lane and global index of every thread, as
arrays in linear order. ``web/figures/launch.js`` says the same to the browser and is tested against this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Dims = tuple[int, int, int]
WARP = 32
MAX_BLOCK_THREADS = 1024


@dataclass(frozen=True)
class Threads:
    """Every thread of a launch, in linear order: block after block, x fastest within each."""

    block: Ints
    """``(threads, 3)``: blockIdx.x, .y, .z."""
    thread: Ints
    """``(threads, 3)``: threadIdx.x, .y, .z."""
    position: Ints
    """``(threads, 3)``: blockIdx * blockDim + threadIdx."""
    linear_block: Ints
    """``(threads,)``: number of the block."""
    linear_thread: Ints
    """``(threads,)``: number of the thread within its block."""
    warp: Ints
    """``(threads,)``: number of the warp within its block."""
    lane: Ints
    """``(threads,)``: 0 to 31."""


def dims(value: int | Sequence[int], name: str) -> Dims:
    """Return a size as x, y, z.

    Raises:
        ValueError: it is not one to three whole numbers from 1 on.
    """
    given = tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,)
    whole = all(isinstance(part, int | np.integer) and part >= 1 for part in given)
    if not (1 <= len(given) <= 3 and whole):
        raise ValueError(f"{name} is a whole number or up to three of them, each at least 1, not {value!r}")
    x, y, z = (*(int(part) for part in given), 1, 1)[:3]
    return x, y, z


def total(size: Dims) -> int:
    """Return how many there are of a size."""
    return size[0] * size[1] * size[2]


def unravel(number: Ints, size: Dims) -> Ints:
    """Return x, y, z of linear numbers, x fastest."""
    return np.stack([number % size[0], number // size[0] % size[1], number // (size[0] * size[1])], axis=-1)


def threads(grid: Dims, block: Dims, first: int | None = None) -> Threads:
    """Return every thread of a launch, or the ``first`` ones."""
    per_block = total(block)
    count = total(grid) * per_block
    number = np.arange(count if first is None else min(first, count), dtype=np.int64)
    linear_block, linear_thread = number // per_block, number % per_block
    block_xyz, thread_xyz = unravel(linear_block, grid), unravel(linear_thread, block)
    return Threads(
        block=block_xyz,
        thread=thread_xyz,
        position=block_xyz * np.array(block) + thread_xyz,
        linear_block=linear_block,
        linear_thread=linear_thread,
        warp=linear_thread // WARP,
        lane=linear_thread % WARP,
    )


def works(position: Ints, extent: Dims) -> npt.NDArray[np.bool_]:
    """Return which threads stand inside the problem; the others are stopped by the bounds guard."""
    return np.asarray((position < np.array(extent)).all(axis=-1))
