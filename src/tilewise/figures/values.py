"""Numbers as figures hold and write them.

In: Python and NumPy values. Out: what JSON can hold, and numbers as a reader wants them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_MOST_NAMES = 6
_NUMERIC = re.compile(r"[−-]?[\d.∞]")


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; a number that is not finite becomes None.

    Raises:
        TypeError: the value is of a type that a figure cannot hold.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return _rounded(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(entry) for entry in value]
    raise TypeError(f"a figure cannot hold a {type(value).__name__}: give numbers, text, lists or arrays")


def recorded_experiments(data: Sequence[Mapping[str, Any]]) -> list[str]:
    """The experiments whose recorded numbers a chart draws, by traces with lists of them."""
    lists = [trace.get(axis) for trace in data if isinstance(trace, Mapping) for axis in ("x", "y")]
    found = [
        [getattr(value, "experiment", "") for value in values] for values in lists if isinstance(values, list)
    ]
    return list(dict.fromkeys(name for names in found if all(names) for name in names))


def with_origins(values: Any) -> Any:
    """Values as a list where they are recorded numbers, which an array would make plain; else as an array."""
    listed = isinstance(values, list | tuple) and any(getattr(value, "experiment", "") for value in values)
    return list(values) if listed else np.atleast_1d(np.asarray(values, float))


def number(value: float) -> str:
    """Return a number as a reader wants it: whole ones in full, others with four digits, thousands apart."""
    if not math.isfinite(value):
        return str(value)
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    size = math.floor(math.log10(abs(value)))
    if not -4 <= size < 9:
        return f"{value:.3e}"
    digits = max(0, 3 - size)
    written = f"{round(value, 3 - size):,.{digits}f}"
    return written.rstrip("0").rstrip(".") if digits else written


def six_digits(value: float) -> float | int | str:
    """Return a value to six digits; a whole one in full, and one that is not finite by its name."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == round(value) and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.6g}")


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.7g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short


def are_names(texts: Sequence[str]) -> bool:
    """Whether a control's values are names, which have no order: buttons then, and no slider."""
    return 1 < len(texts) <= _MOST_NAMES and any(not _NUMERIC.match(text) for text in texts)


def control_height(texts: Sequence[str], slider: int, narrow: bool = False) -> int:
    """Height in px of the control for some values.

    Args:
        texts: the values as the page writes them.
        slider: the height where it is a slider.
        narrow: on a narrow screen, where buttons take several lines.
    """
    if not are_names(texts):
        return slider
    rows, used, room = 1, 0, 296 if narrow else 440
    for text in texts:
        wide = 34 + 7 * len(text)
        if used and used + wide > room:
            rows, used = rows + 1, 0
        used += wide
    return 36 * rows + (24 if narrow else 4)
