"""Recorded numbers that know where they were taken, for tables and charts that lessons build themselves.

In: a recorded time with the id of its record's facts and its path. Out: a float that a table shows with its
provenance and a chart with its path. In another unit it is still that number, and the work of its row divided
by it is the recorded rate; whatever else is computed with it is a plain number, and no record's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_RATES = {"gb_per_s": 1e3, "tflop_per_s": 1e6}
"""Recorded rates, and what a microsecond's worth of each comes to in bytes or operations."""


class Recorded(float):
    """A recorded number.

    Args:
        value: the number.
        origin: the id of the list of its record's facts; None where the page has no such list.
        spread: its spread in words.
        mark: the role for the styles, ``measured`` or ``stale``.
        path: where look-ups find it, ``experiment.variant.case.value``.
        scale: what the value there was multiplied with, for another unit.
        work: of a median, by the rate that a record gives, the bytes or operations of its row.
    """

    origin: str | None
    spread: str
    mark: str
    path: str
    scale: float
    work: Mapping[str, float]

    def __new__(
        cls,
        value: float,
        origin: str | None,
        spread: str,
        mark: str = "measured",
        path: str = "",
        scale: float = 1.0,
        work: Mapping[str, float] | None = None,
    ) -> Recorded:
        """The number with its provenance."""
        made = super().__new__(cls, value)
        made.origin, made.spread, made.mark = origin, spread, mark
        made.path, made.scale, made.work = path, scale, work or {}
        return made

    def __mul__(self, other: Any) -> Any:
        return self._in_unit(super().__mul__(other), other)

    def __rmul__(self, other: Any) -> Any:
        return self._in_unit(super().__rmul__(other), other)

    def __truediv__(self, other: Any) -> Any:
        return self._in_unit(super().__truediv__(other), other, -1)

    def __rtruediv__(self, other: Any) -> Any:
        value = super().__rtruediv__(other)
        if value is NotImplemented or isinstance(other, Recorded) or not isinstance(other, int | float):
            return value
        for rate, amount in self.work.items():
            if (power := _power_of_ten(other / amount)) is not None:
                path = f"{self.path.rpartition('.')[0]}.{rate}"
                scale = 10.0**power * _RATES[rate] / self.scale
                return Recorded(value, self.origin, self.spread, self.mark, path, scale)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.origin, self.spread, self.mark, self.path, self.scale, self.work)
        return Recorded, (float(self), *given)

    def _in_unit(self, value: Any, factor: Any, sign: int = 1) -> Any:
        """The value with this provenance where the factor is a power of ten, as between units."""
        if value is NotImplemented or isinstance(factor, Recorded) or not isinstance(factor, int | float):
            return value
        if (power := _power_of_ten(factor)) is None:
            return value
        scale = self.scale * 10.0 ** (sign * power)
        return Recorded(value, self.origin, self.spread, self.mark, self.path, scale, self.work)


def _power_of_ten(factor: float) -> int | None:
    """Which power of ten a number is; None for every other number."""
    if not math.isfinite(factor) or factor <= 0:
        return None
    power = math.log10(factor)
    return round(power) if abs(power - round(power)) < 1e-12 else None
