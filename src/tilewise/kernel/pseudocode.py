"""Executable pseudocode: a lesson's three functions for "in parallel", "one warp" and "tile by tile".

In: extents. Out: indices, shuffled where the hardware guarantees no order, so that pseudocode that relies on
an order fails.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import operator
from collections.abc import Iterator
from typing import overload

import numpy as np

_generator: contextvars.ContextVar[np.random.Generator | None] = contextvars.ContextVar(
    "shuffles", default=None
)


@overload
def parallel(n: int, /) -> Iterator[int]: ...
@overload
def parallel(n: int, m: int, /, *more: int) -> Iterator[tuple[int, ...]]: ...
def parallel(*extents: int) -> Iterator[int] | Iterator[tuple[int, ...]]:
    """Yield every index once, in no particular order: i for `parallel(n)`, (i, j) for `parallel(n, m)`.

    The order is shuffled because a GPU guarantees none; a step that needs another step's result is therefore
    wrong here, as on a GPU.
    """
    if not extents:
        raise TypeError("parallel() needs at least one extent, such as parallel(n) or parallel(rows, cols).")
    return _shuffled(extents)


def lanes(n: int = 32) -> Iterator[int]:
    """Yield the lanes of one warp, 0 to n - 1, in shuffled order."""
    if not 1 <= n <= 32:
        raise ValueError(f"lanes({n}): a warp has 32 lanes, so n lies between 1 and 32.")
    return parallel(n)


def tiles(n: int, size: int) -> Iterator[range]:
    """Yield consecutive tiles of 0 to n - 1, each a `range` of `size`; the last may be shorter."""
    if size <= 0:
        raise ValueError(f"tiles({n}, {size}): a tile holds at least one element.")
    return (range(start, min(start + size, n)) for start in range(0, n, size))


@contextlib.contextmanager
def shuffle_seed(seed: int) -> Iterator[None]:
    """Make `parallel` and `lanes` shuffle by `seed` in this block, reproducibly."""
    token = _generator.set(np.random.Generator(np.random.PCG64(seed)))
    try:
        yield
    finally:
        _generator.reset(token)


def _shuffled(extents: tuple[int, ...]) -> Iterator[int] | Iterator[tuple[int, ...]]:
    counts = [operator.index(extent) for extent in extents]
    if any(count < 0 for count in counts):
        raise ValueError(f"parallel{extents}: an extent is negative.")
    generator = _generator.get()
    if generator is None:
        generator = np.random.Generator(np.random.PCG64(0))
        _generator.set(generator)
    if len(counts) == 1:
        order: list[int] = generator.permutation(counts[0]).tolist()
        return iter(order)
    steps = list(itertools.product(*(range(count) for count in counts)))
    return (steps[at] for at in generator.permutation(len(steps)).tolist())
