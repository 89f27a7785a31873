"""Readings: recorded numbers as lessons compute with them.

In: a measurement's rows, a record's values, or the text of a record. Out: numbers by key; one that nobody has
recorded is NaN, so that a page without it can be made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from tilewise.measurements.archive import lookup, text_record
from tilewise.measurements.output import Measurement


class Numbers(dict[Any, Any]):
    """Numbers by key; NaN for a key that is missing."""

    def __missing__(self, key: Any) -> float:
        """NaN."""
        return math.nan


def medians(*measured: Measurement, by: str = "") -> Numbers:
    """Medians in microseconds: recorded or, without a record, timed here.

    Args:
        *measured: what ``measure`` returned.
        by: names of the parameters that tell the cases apart, with blanks between.

    Returns:
        By variant, or with parameters by a tuple of the variant and their values.
    """
    found = Numbers()
    for row in (row for one in measured for row in one.rows):
        key = (row["variant"], *(row["parameters"][name] for name in by.split()))
        times = row["recorded"] or row["here"]
        found[key if by else row["variant"]] = times["median"] if times else math.nan
    return found


def rates(measured: Measurement, flop: Callable[..., float]) -> Numbers:
    """TFLOP/s from the same medians, by a tuple of the variant and all parameters' values.

    Args:
        measured: what ``measure`` returned.
        flop: ``flop(**parameters)``, the operations of a case.
    """
    found = Numbers()
    for row in measured.rows:
        times, parameters = row["recorded"] or row["here"], row["parameters"]
        rate = flop(**parameters) / times["median"] / 1e6 if times else math.nan
        found[row["variant"], *parameters.values()] = rate
    return found


def recorded_value(path: str) -> Any:
    """A recorded value as prose names it, e.g. ``reads.ceilings.memory_gb_per_s``; NaN where there is none.

    Args:
        path: ``experiment.variant.case.value``; ``tilewise.measurements.archive`` lists the values.
    """
    experiment, *names = path.split(".")
    value: Any = lookup(experiment)
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return math.nan if value is None else value


def printed(lesson: str, name: str, pattern: str) -> list[tuple[Any, ...]]:
    """What a recorded cell printed, taken apart; empty where it is not recorded.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
        pattern: a regular expression; ``^`` and ``$`` match at each line.

    Returns:
        For each match its groups; those that are numbers as floats.
    """
    found = text_record(lesson, name)
    matches = re.finditer(pattern, found.text if found else "", re.M)
    return [tuple(_number(group) for group in match.groups()) for match in matches]


def printed_numbers(lesson: str, name: str, pattern: str) -> Numbers:
    """The same as numbers by key: a pattern's first group is the key, its second the number."""
    return Numbers(dict(printed(lesson, name, pattern)))


def printed_errors(lesson: str, other: str, name: str = "errors") -> dict[str, float]:
    """The errors that a recorded cell printed as ``off by 1e-6, torch by 2e-6``.

    Args:
        lesson: the lesson's id.
        other: whose errors stand beside ours, ``torch``.
        name: the cell's ``record="..."``.

    Returns:
        ``most``, our largest error, ``other``, theirs, and ``worst_times``, the worst ratio; NaN where there
        is no record.
    """
    pairs = printed(lesson, name, rf"off by (\S+), {other} by (\S+)$")
    return {
        "most": max((ours for ours, _ in pairs), default=math.nan),
        "other": max((theirs for _, theirs in pairs), default=math.nan),
        "worst_times": max((ours / theirs for ours, theirs in pairs), default=math.nan),
    }


def complete(*numbers: float) -> bool:
    """Whether there are numbers and none of them is missing."""
    return bool(numbers) and all(map(math.isfinite, numbers))


def _number(group: str) -> float | str:
    try:
        return float(group)
    except ValueError:
        return group
