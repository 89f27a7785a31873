"""Numbers in figures, as JSON and as text.

In: Python and NumPy values. Out: JSON types, and numbers formatted for readers.
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
    """Return a value as JSON types; a number that is not finite becomes None.

    Raises:
        TypeError: the value's type is not supported.
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
    """Return the experiments whose recorded numbers a chart's traces draw."""
    lists = [trace.get(axis) for trace in data if isinstance(trace, Mapping) for axis in ("x", "y")]
    origins = [
        [getattr(value, "experiment", "") for value in values] for values in lists if isinstance(values, list)
    ]
    return list(dict.fromkeys(name for names in origins if all(names) for name in names))


def with_origins(values: Any) -> Any:
    """Return recorded numbers as a list, which preserves their origin, and other values as an array."""
    listed = isinstance(values, list | tuple) and any(getattr(value, "experiment", "") for value in values)
    return list(values) if listed else np.atleast_1d(np.asarray(values, float))


def number(value: float) -> str:
    """Format a number: integers in full, others to four digits, with thousands separators."""
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
    """Return a value to six digits; an integer in full, and one that is not finite by its name."""
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
    """Return whether a control's values are names without an order, which get buttons, not a slider."""
    return 1 < len(texts) <= _MOST_NAMES and any(not _NUMERIC.match(text) for text in texts)


def control_height(texts: Sequence[str], slider: int, narrow: bool = False) -> int:
    """Return the height in px of the control for some values.

    Args:
        texts: the values as shown on the page.
        slider: the height of a slider.
        narrow: whether the screen is narrow, so that buttons need more lines.
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
