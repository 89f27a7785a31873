"""Recorded numbers with their provenance, for tables and charts that lessons build themselves.

In: a recorded time with the id of its record's facts and its experiment. Out: a float that carries both for
tables and charts. Unit conversions keep them, and so does the rate, its row's work divided by the time; the
result of any other computation is a plain number.
"""

from __future__ import annotations

import math
from typing import Any


class Recorded(float):
    """A recorded number.

    Args:
        value: the number.
        origin: the id of the list of its record's facts; None if the page has no such list.
        spread: its spread as text.
        mark: the role for the styles, ``measured`` or ``stale``.
        experiment: the experiment of its record.
        work: for a median, the bytes and the operations of its row.
    """

    origin: str | None
    spread: str
    mark: str
    experiment: str
    work: tuple[float, ...]

    def __new__(
        cls,
        value: float,
        origin: str | None,
        spread: str,
        mark: str = "measured",
        experiment: str = "",
        work: tuple[float, ...] = (),
    ) -> Recorded:
        """The number with its provenance."""
        number = super().__new__(cls, value)
        number.origin, number.spread, number.mark = origin, spread, mark
        number.experiment, number.work = experiment, work
        return number

    def __mul__(self, other: Any) -> Any:
        return self._in_unit(super().__mul__(other), other)

    def __rmul__(self, other: Any) -> Any:
        return self._in_unit(super().__rmul__(other), other)

    def __truediv__(self, other: Any) -> Any:
        return self._in_unit(super().__truediv__(other), other)

    def __rtruediv__(self, other: Any) -> Any:
        value = super().__rtruediv__(other)
        if _is_plain(other) and any(_is_power_of_ten(other / amount) for amount in self.work):
            return Recorded(value, self.origin, self.spread, self.mark, self.experiment)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return Recorded, (float(self), self.origin, self.spread, self.mark, self.experiment, self.work)

    def _in_unit(self, value: Any, factor: Any) -> Any:
        """The value with this provenance if the factor is a power of ten, as between units."""
        if _is_plain(factor) and _is_power_of_ten(factor):
            return Recorded(value, self.origin, self.spread, self.mark, self.experiment, self.work)
        return value


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, Recorded)


def _is_power_of_ten(factor: float) -> bool:
    if not math.isfinite(factor) or factor <= 0:
        return False
    power = math.log10(factor)
    return abs(power - round(power)) < 1e-12
