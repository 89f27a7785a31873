"""Readings: recorded numbers for computations in lessons.

In: a measurement, a record, or the text that a recorded cell printed. Out: numbers by key; NaN for one that
is not recorded, so that its page can still be built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tilewise.measurements.archive import lookup, text_record
from tilewise.measurements.output import Measurement


class Numbers(dict[Any, Any]):
    """Numbers by key; NaN for a key that is missing."""

    def __missing__(self, key: Any) -> float:
        """NaN."""
        return math.nan


def recorded_us(row: Mapping[str, Any]) -> float:
    """A row's median in microseconds: the recorded one, else the one timed here, else NaN."""
    times = row["recorded"] or row["here"]
    return times["median"] if times else math.nan


def medians_us(measurement: Measurement, *parameters: str) -> Numbers:
    """Every row's median in microseconds.

    Args:
        measurement: what ``measure`` returned.
        parameters: names of parameters that distinguish the rows of a variant.

    Returns:
        By variant or, with parameters, by a tuple of the variant and their values.
    """
    numbers = Numbers()
    for row in measurement.rows:
        key = (row["variant"], *(row["parameters"][name] for name in parameters))
        numbers[key if parameters else row["variant"]] = recorded_us(row)
    return numbers


def rates(measurement: Measurement, flop: Callable[..., float]) -> Numbers:
    """TFLOP/s from the same medians, by a tuple of the variant and all parameters' values.

    Args:
        measurement: what ``measure`` returned.
        flop: ``flop(**parameters)``, the operations of a case.
    """
    return Numbers(
        {
            (row["variant"], *row["parameters"].values()): flop(**row["parameters"]) / recorded_us(row) / 1e6
            for row in measurement.rows
        }
    )


def step_times(names: Sequence[str], measured: Measurement | str) -> Numbers:
    """The time of each step in microseconds, as differences between runs that end with successive steps.

    Args:
        names: the steps' names, in order.
        measured: what ``measure`` returned, or the name of the recorded experiment: its first variant runs
            the first step, its second the first two, and so on, at one size.

    Returns:
        By the steps' names.
    """
    if isinstance(measured, str):
        rows = recorded(measured, missing={}).values()
        medians = [row["median"] for row in rows if isinstance(row, Mapping) and "median" in row]
    else:
        medians = [recorded_us(row) for row in measured.rows]
    ends = [0.0, *(medians or [math.nan] * len(names))]
    return Numbers(zip(names, (after - before for before, after in pairwise(ends)), strict=True))


def memory_latency_ns() -> float:
    """Nanoseconds from one load of device memory to the next dependent one, as ``machine/chip`` recorded."""
    loads = 65_536
    chased = f"one_thread_one_load_after_another.kilobytes_1048576_loads_{loads}"
    return 1000 * float(recorded(f"pointer_chase.{chased}.median")) / loads


def two_digits(value: float) -> float:
    """A number rounded to two significant digits, for sentences."""
    return float(f"{value:.2g}")


def recorded(path: str, missing: Any = math.nan, device: str | None = None) -> Any:
    """A recorded value, e.g. ``recorded("sums.torch_sum.median")``.

    Args:
        path: spelt as in prose, ``experiment.variant.case.value``; ``archive`` lists the values.
        missing: returned if there is none.
        device: the preferred GPU, e.g. ``"NVIDIA H200"``; by default the page's.
    """
    experiment, *names = path.split(".")
    value: Any = lookup(experiment, device=device)
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return missing if value is None else value


def printed(lesson: str, name: str, device: str | None = None) -> str:
    """What a recorded cell printed; empty if it is not recorded.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
        device: the preferred GPU, as in ``recorded``.
    """
    record = text_record(lesson, name, device=device)
    return record.text if record else ""


def printed_rows(lesson: str, name: str, pattern: str, device: str | None = None) -> list[tuple[Any, ...]]:
    """The groups of each match in what a recorded cell printed, with numbers as ``int`` or ``float``.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
        pattern: a regular expression; ``^`` and ``$`` match at each line.
        device: the preferred GPU, as in ``recorded``.
    """
    matches = re.finditer(pattern, printed(lesson, name, device), re.M)
    return [tuple(_number(group) for group in match.groups()) for match in matches]


def printed_numbers(lesson: str, name: str, pattern: str, device: str | None = None) -> Numbers:
    """The same as numbers by key: the last group is the number, the groups before it are the key."""
    numbers = Numbers()
    for *keys, number in printed_rows(lesson, name, pattern, device):
        numbers[tuple(keys) if len(keys) > 1 else keys[0]] = number
    return numbers


def printed_errors(lesson: str, other: str, name: str = "errors") -> dict[str, float]:
    """The errors that a recorded cell printed as ``off by 1e-6, torch by 2e-6``.

    Args:
        lesson: the lesson's id.
        other: the library whose errors follow ours, e.g. ``torch``.
        name: the cell's ``record="..."``.

    Returns:
        ``most``, our largest error, ``other``, the library's, and ``worst_times``, the worst ratio; NaN
        without a record.
    """
    pairs = printed_rows(lesson, name, rf"off by (\S+), {other} by (\S+)$")
    return {
        "most": max((ours for ours, _ in pairs), default=math.nan),
        "other": max((library for _, library in pairs), default=math.nan),
        "worst_times": max((ours / library for ours, library in pairs), default=math.nan),
    }


def complete(*numbers: float | Mapping[Any, float]) -> bool:
    """Whether all numbers, including values of mappings, are finite; an empty mapping counts as missing."""
    for entry in numbers:
        values = list(entry.values()) if isinstance(entry, Mapping) else [entry]
        if not values or not all(map(math.isfinite, values)):
            return False
    return bool(numbers)


def _number(group: str | None) -> Any:
    if group is None or not re.fullmatch(r"[-+]?[\d.]+(?:e[-+]?\d+)?", group):
        return group
    return int(group) if group.isdecimal() else float(group)
