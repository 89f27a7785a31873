"""Recorded numbers that know where they were born, for tables and charts that lessons build themselves.

In: a recorded time with the id of its record's facts and its path. Out: a float that a table shows with its
birth and a chart with its path. In another unit it is still that number; whatever else is reckoned with it
is a plain number, and no record's.
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
        path: where look-ups find it, ``experiment.variant.case.value``.
        scale: what the value there was multiplied with, for another unit.
    """

    born: str
    spread: str
    mark: str
    path: str
    scale: float

    def __new__(
        cls, value: float, born: str, spread: str, mark: str = "measured", path: str = "", scale: float = 1.0
    ) -> Recorded:
        """The number with its birth."""
        made = super().__new__(cls, value)
        made.born, made.spread, made.mark, made.path, made.scale = born, spread, mark, path, scale
        return made

    def __mul__(self, other: Any) -> Any:
        return self._in_unit(super().__mul__(other), other)

    def __rmul__(self, other: Any) -> Any:
        return self._in_unit(super().__rmul__(other), other)

    def __truediv__(self, other: Any) -> Any:
        return self._in_unit(super().__truediv__(other), other, -1)

    def __reduce__(self) -> tuple[Any, ...]:
        return Recorded, (float(self), self.born, self.spread, self.mark, self.path, self.scale)

    def _in_unit(self, value: Any, factor: Any, sign: int = 1) -> Any:
        """The value with this birth where the factor is a power of ten, as between units."""
        plain = isinstance(factor, int | float) and not isinstance(factor, Recorded) and factor > 0
        if value is NotImplemented or not plain or not math.isfinite(factor):
            return value
        power = math.log10(factor)
        if abs(power - round(power)) >= 1e-12:
            return value
        scale = self.scale * 10.0 ** (sign * round(power))
        return Recorded(value, self.born, self.spread, self.mark, self.path, scale)
