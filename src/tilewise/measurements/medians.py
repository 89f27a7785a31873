"""Times for a lesson's own charts and numbers: a row's median, all medians by variant, a value by its path.

In: a ``Measurement`` or a path as prose spells it. Out: microseconds, and NaN where nothing is recorded yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilewise.measurements.archive import lookup
from tilewise.measurements.output import Measurement


def recorded_us(row: Mapping[str, Any]) -> float:
    """A row's median in microseconds: the recorded one, else the one timed here; NaN where there is none."""
    times = row["recorded"] or row["here"]
    return times["median"] if times else math.nan


def medians_us(measurement: Measurement, *parameters: str) -> dict[Any, float]:
    """Every row's median in microseconds.

    Args:
        measurement: what ``measure`` returned.
        parameters: names of parameters that tell the rows of a variant apart.

    Returns:
        By variant or, with parameters, by a tuple of the variant and their values.
    """
    return {
        (row["variant"], *(row["parameters"][name] for name in parameters))
        if parameters
        else row["variant"]: recorded_us(row)
        for row in measurement.rows
    }


def recorded(path: str, missing: Any = math.nan) -> Any:
    """A recorded value, e.g. ``recorded("sums.torch_sum.median")``.

    Args:
        path: spelt as in prose, ``experiment.variant.case.value``; ``archive`` lists the values.
        missing: what to return where there is none.
    """
    experiment, *names = path.split(".")
    value: Any = lookup(experiment)
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return missing if value is None else value
