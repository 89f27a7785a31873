"""Recorded numbers that know where they were born, for tables that lessons build themselves.

In: a recorded time with the id of its record's facts. Out: a float that a table shows with its birth. In
another unit it is still that number; whatever else is reckoned with it is a plain number, and no record's.
"""

from __future__ import annotations

import math
from typing import Any


class Recorded(float):
    """A recorded number.

    Args:
        value: the number.
        born: the id of the list of its record's facts.
        spread: its spread in words.
        mark: the role for the styles, ``measured`` or ``stale``.
    """

    born: str
    spread: str
    mark: str

    def __new__(cls, value: float, born: str, spread: str, mark: str = "measured") -> Recorded:
        """The number with its birth."""
        made = super().__new__(cls, value)
        made.born, made.spread, made.mark = born, spread, mark
        return made

    def __mul__(self, other: Any) -> Any:
        return self._in_unit(super().__mul__(other), other)

    def __rmul__(self, other: Any) -> Any:
        return self._in_unit(super().__rmul__(other), other)

    def __truediv__(self, other: Any) -> Any:
        return self._in_unit(super().__truediv__(other), other)

    def __reduce__(self) -> tuple[Any, ...]:
        return Recorded, (float(self), self.born, self.spread, self.mark)

    def _in_unit(self, value: Any, factor: Any) -> Any:
        """The value with this birth where the factor is a power of ten, as between units."""
        plain = isinstance(factor, int | float) and not isinstance(factor, Recorded) and factor > 0
        if value is NotImplemented or not plain or not math.isfinite(factor):
            return value
        power = math.log10(factor)
        same = abs(power - round(power)) < 1e-12
        return Recorded(value, self.born, self.spread, self.mark) if same else value
