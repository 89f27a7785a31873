"""The difference between two arrays.

In: two arrays of one shape and a tolerance. Out: a `Difference`, with the index of the largest error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.cuda.cases import Array


@dataclass(frozen=True)
class Difference:
    """The difference between two arrays of one shape."""

    count: int
    """Elements compared."""
    wrong: int
    """Elements outside the tolerance."""
    largest_error: float
    """Largest absolute difference; infinite if only one value is NaN."""
    index: tuple[int, ...]
    """Index of the largest error."""
    actual: Any
    """The value there."""
    expected: Any
    """The reference's value there."""


def difference(actual: Array, expected: Array, rtol: float, atol: float) -> Difference:
    """Compare two arrays of one shape; NaN equals NaN, an infinity equals itself."""
    left, right = np.asarray(actual), np.asarray(expected)
    if left.size == 0:
        return Difference(0, 0, 0.0, (), None, None)
    same = alike(left, right)
    with np.errstate(invalid="ignore", over="ignore"):
        wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
        error = np.where(same, 0.0, np.abs(wide_left - wide_right))
        error = np.where(np.isnan(error), np.inf, error)
        allowed = rtol * np.abs(wide_right) + atol
    good = same if rtol == 0 and atol == 0 else same | ((error <= allowed) & np.isfinite(error))
    ranked = np.where(good, -1.0, error) if not good.all() else error
    index = tuple(int(at) for at in np.unravel_index(int(np.argmax(ranked)), left.shape))
    return Difference(
        int(left.size),
        int((~good).sum()),
        float(error[index]),
        index,
        left[index].item(),
        right[index].item(),
    )


def alike(left: Any, right: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return where two arrays or numbers are equal, element by element; NaN equals NaN."""
    same = left == right
    if left.dtype.kind == "f" and right.dtype.kind == "f":
        same = same | (np.isnan(left) & np.isnan(right))
    return np.asarray(same)


def index_text(index: tuple[int, ...]) -> str:
    """Return an index in Python syntax: [2, 3]."""
    return f"[{', '.join(map(str, index))}]"


def tolerance_text(rtol: float, atol: float) -> str:
    """Return a tolerance as text: rtol 0.001 + atol 1e-06."""
    parts = [f"{label} {value:g}" for label, value in (("rtol", rtol), ("atol", atol)) if value]
    return " + ".join(parts) or "nothing (exact)"
