"""Rounds: an experiment timed several times, and the expected median of another run.

In: rows of one or more rounds. Out: rows with all samples, and the interval in which the median of another
run should be. Each round is a process with its own arrays, modules and warm-up, because repetitions inside
one process do not show how processes differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import sqrt
from statistics import mean, stdev
from typing import Any

from tilewise.gpu.timing import Timing, summary
from tilewise.measurements.provenance_links import spread_text
from tilewise.measurements.record import Row
from tilewise.measurements.slugs import case_text

SPREAD = 0.10
"""A distance from p20 to p80 above this fraction of the median gets a note."""
SURE = 0.95
"""The fraction of further runs whose median should be in the interval."""
ENOUGH = 3
"""The minimum number of rounds for a prediction interval; two would allow almost anything."""
_STUDENT = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Two-sided Student's t at ``SURE`` for ``ENOUGH`` rounds and up; the last is for all above."""


@dataclass(frozen=True)
class Stretch:
    """The interval in which the time of another run should be, in microseconds."""

    low: float
    high: float

    def meets(self, low: float, high: float) -> bool:
        """Whether an interval overlaps this one."""
        return low <= self.high and self.low <= high


def parts(row: Row) -> tuple[Timing, ...]:
    """The rounds of a row, each with samples and percentiles; one if the row does not separate them."""
    if not row.rounds:
        return (_whole(row),) if row.samples_us else ()
    bounds = [0, *accumulate(row.rounds)]
    return tuple(summary(row.variant, row.samples_us[start:stop]) for start, stop in pairwise(bounds))


def expected(row: Row) -> Stretch | None:
    """Where the median of another run should be; None for a row without times.

    For one or two rounds it is from their lowest p20 to their highest p80; for three or more it also covers
    Student's prediction interval for the median of one more round.
    """
    rounds = parts(row)
    if row.p20 is None or row.p80 is None or not rounds:
        return None
    low, high = min(part.p20 for part in rounds), max(part.p80 for part in rounds)
    medians = [part.median for part in rounds]
    if len(medians) >= ENOUGH:
        student = _STUDENT[min(len(medians) - ENOUGH, len(_STUDENT) - 1)]
        half_width = student * stdev(medians) * sqrt(1 + 1 / len(medians))
        low, high = min(low, max(mean(medians) - half_width, 0.0)), max(high, mean(medians) + half_width)
    return Stretch(low, high)


def apart(first: Row, second: Row) -> bool:
    """Whether two rows of a record differ by more than their spread.

    Their intervals from p20 to p80 must not overlap: in each round if both have equally many, because
    contenders alternate inside a round; else over all samples.
    """
    if None in (first.p20, first.p80, second.p20, second.p80):
        return False
    pairs = list(zip(parts(first), parts(second), strict=False))
    if len(first.rounds) != len(second.rounds) or not pairs:
        pairs = [(_whole(first), _whole(second))]
    return all(a.p80 < b.p20 for a, b in pairs) or all(b.p80 < a.p20 for a, b in pairs)


def _whole(row: Row) -> Timing:
    return Timing(row.variant, row.samples_us, row.p20 or 0.0, row.median or 0.0, row.p80 or 0.0)


def pooled(rounds: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """Rows with the samples of several rounds, in the order of the first.

    A contender that is missing in a round, such as a library, has the samples of the other rounds.
    """
    rows_by_place: dict[tuple[str, str], list[Row]] = {}
    for rows in rounds:
        for row in rows:
            rows_by_place.setdefault((row.variant, repr(sorted(row.case.items()))), []).append(row)
    return tuple(_joined(same_place) for same_place in rows_by_place.values())


def _joined(rows: Sequence[Row]) -> Row:
    timed = [row for row in rows if row.samples_us]
    counters = next((row.counters for row in rows if row.counters), None)
    if len(timed) < 2:
        return replace(timed[0] if timed else rows[0], counters=counters)
    samples = tuple(sample for row in timed for sample in row.samples_us)
    pooled_timing = summary(rows[0].variant, samples)
    return replace(
        timed[0],
        samples_us=pooled_timing.samples_us,
        p20=pooled_timing.p20,
        median=pooled_timing.median,
        p80=pooled_timing.p80,
        counters=counters,
        rounds=tuple(len(row.samples_us) for row in timed),
        sm_clock_mhz=tuple(reading for row in timed for reading in row.sm_clock_mhz),
        power_w=tuple(reading for row in timed for reading in row.power_w),
    )


def spread_of(row: Row) -> str:
    """The spread of a row as text; empty for one without times."""
    interval = expected(row)
    if row.median is None or row.p20 is None or row.p80 is None or interval is None:
        return ""
    further = (interval.low, interval.high) if row.rounds else ()
    return spread_text(row.p20, row.median, row.p80, [part.median for part in parts(row)], further)


def round_facts(state: Mapping[str, Any], day: str) -> dict[str, Any]:
    """What a record stores about a round besides its samples.

    Args:
        state: the GPU's state right after it.
        day: the UTC day as ``2026-11-21``.
    """
    names = ("driver", "sm_clock_mhz", "memory_clock_mhz", "temperature_c")
    return {"date": day, **{name: state.get(name) for name in names}}


def spread_notes(rows: Sequence[Row]) -> Iterator[str]:
    """A sentence for each row with a large spread."""
    for row in rows:
        if not row.median or row.p20 is None or row.p80 is None:
            continue
        distance = (row.p80 - row.p20) / row.median
        if distance > SPREAD:
            at = f"{row.variant} at {case_text(row.case)}"
            yield f"{at}: p20 and p80 lie {distance:.0%} of the median apart."
