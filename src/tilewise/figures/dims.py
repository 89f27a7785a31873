"""Sizes of a launch in x, y and z.

In: a grid or a block as a lesson passes it. Out: three integers. ``site/web/figures/launch.js`` computes
thread indices.
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
        ValueError: it is not one to three positive integers.
    """
    parts = tuple(value) if isinstance(value, Sequence | np.ndarray) else (value,)
    valid = all(isinstance(part, int | np.integer) and part >= 1 for part in parts)
    if not (1 <= len(parts) <= 3 and valid):
        raise ValueError(f"{name} is a whole number or up to three of them, each at least 1, not {value!r}")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    return x, y, z


def total(size: Dims) -> int:
    """Return the number of elements of a size."""
    return math.prod(size)
