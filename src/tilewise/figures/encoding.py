"""Short forms of long lists: whole numbers as runs, values as far as they are read.

In: arrays. Out: what JSON can hold, in a few bytes where threads and elements follow each other. The page's
script undoes it in ``web/figures/moments.js``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def runs(numbers: npt.NDArray[np.int64]) -> list[Any]:
    """Return whole numbers; of runs with a common difference, ``["r", first, difference, count, ...]``."""
    made: list[Any] = ["r"]
    at, size = 0, len(numbers)
    change = np.diff(numbers)
    while at < size:
        apart = int(change[at]) if at < size - 1 else 0
        stop = at + 1
        while stop < size and change[stop - 1] == apart:
            stop += 1
        made += [int(numbers[at]), apart, stop - at]
        at = stop
    return made if len(made) - 1 < size else [int(number) for number in numbers]


def short(values: npt.NDArray[np.float64]) -> list[Any]:
    """Return values to six digits; equal ones as ``["c", value]``; those that are not finite by name."""
    written = [_one(value) for value in values.tolist()]
    return ["c", written[0]] if len(written) > 1 and len(set(map(str, written))) == 1 else written


def _one(value: float) -> float | int | str:
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == round(value) and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.6g}")
