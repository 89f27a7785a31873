"""Pseudocode that runs: the three words a lesson uses for "all at once", "one warp" and "piece by piece".

In: extents. Out: indices, in shuffled order where the hardware promises none, so that pseudocode which leans
on an order fails.
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
    """Every index once, in no particular order: `parallel(n)` gives i, `parallel(n, m)` gives (i, j).

    The order is shuffled, since nothing promises one on a GPU; a step that needs another step's result
    therefore comes out wrong here, as it would there.
    """
    if not extents:
        raise TypeError("parallel() needs at least one extent, such as parallel(n) or parallel(rows, cols).")
    return _shuffled(extents)


def lanes(n: int = 32) -> Iterator[int]:
    """The lanes of one warp, 0 to n - 1, in shuffled order."""
    if not 1 <= n <= 32:
        raise ValueError(f"lanes({n}): a warp has 32 lanes, so n lies between 1 and 32.")
    return parallel(n)


def tiles(n: int, size: int) -> Iterator[range]:
    """Consecutive pieces of 0 to n - 1, each a `range` of at most `size`; the last one may be shorter."""
    if size <= 0:
        raise ValueError(f"tiles({n}, {size}): a tile holds at least one element.")
    return (range(start, min(start + size, n)) for start in range(0, n, size))


@contextlib.contextmanager
def shuffle_seed(seed: int) -> Iterator[None]:
    """Within this block, `parallel` and `lanes` shuffle by `seed`: run again, the order is the same."""
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
