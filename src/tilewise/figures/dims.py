"""Sizes of a launch in x, y and z.

In: what a lesson gives as a grid or a block. Out: three whole numbers. Which thread stands where is computed
by ``site/web/figures/launch.js``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Dims = tuple[int, int, int]
WARP = 32
MAX_BLOCK_THREADS = 1024


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
    return math.prod(size)
