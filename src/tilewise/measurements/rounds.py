"""Rounds: the same experiment timed several times over, and what another run may be expected to take.

In: rows of one or more rounds. Out: rows that hold all samples, and the stretch in which the median of a
further run should lie. A round is one process, with arrays, modules and a warm-up of its own; what differs
between processes no number of repetitions inside one of them shows.
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
"""A distance from p20 to p80 above this share of the median is worth a note."""
SURE = 0.95
"""The share of further runs whose median the stretch should hold."""
ENOUGH = 3
"""Rounds from which on their medians say how far another one may lie; two would allow anything."""
_STUDENT = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t at ``SURE``, both sides, for ``ENOUGH`` rounds and each one more; the last for all above."""


@dataclass(frozen=True)
class Stretch:
    """Where the time of another run should lie, in microseconds."""

    low: float
    high: float

    def meets(self, low: float, high: float) -> bool:
        """Whether a stretch has a part in common with this one."""
        return low <= self.high and self.low <= high


def parts(row: Row) -> tuple[Timing, ...]:
    """The rounds of a row, each with its samples and percentiles; one where the row does not tell them."""
    if not row.rounds:
        return (_whole(row),) if row.samples_us else ()
    ends = [0, *accumulate(row.rounds)]
    return tuple(summary(row.variant, row.samples_us[start:stop]) for start, stop in pairwise(ends))


def expected(row: Row) -> Stretch | None:
    """Where the median of another run should lie; None for a row without times.

    From one round or two that is what lies between their outer percentiles, p20 of the lower to p80 of the
    higher; from three on it also holds Student's prediction interval for the median of one more round.
    """
    taken = parts(row)
    if row.p20 is None or row.p80 is None or not taken:
        return None
    low, high = min(part.p20 for part in taken), max(part.p80 for part in taken)
    medians = [part.median for part in taken]
    if len(medians) >= ENOUGH:
        student = _STUDENT[min(len(medians) - ENOUGH, len(_STUDENT) - 1)]
        reach = student * stdev(medians) * sqrt(1 + 1 / len(medians))
        low, high = min(low, max(mean(medians) - reach, 0.0)), max(high, mean(medians) + reach)
    return Stretch(low, high)


def apart(one: Row, other: Row) -> bool:
    """Whether two rows of a record differ by more than their spread.

    Their stretches from p20 to p80 do not overlap: in each round, where both have the same number of them,
    since contenders take turns inside one; else over all samples.
    """
    if None in (one.p20, one.p80, other.p20, other.p80):
        return False
    pairs = list(zip(parts(one), parts(other), strict=False))
    if len(one.rounds) != len(other.rounds) or not pairs:
        pairs = [(_whole(one), _whole(other))]
    return all(mine.p80 < theirs.p20 for mine, theirs in pairs) or all(
        theirs.p80 < mine.p20 for mine, theirs in pairs
    )


def _whole(row: Row) -> Timing:
    return Timing(row.variant, row.samples_us, row.p20 or 0.0, row.median or 0.0, row.p80 or 0.0)


def pooled(rounds: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """Rows that hold the samples of several rounds, in the order of the first.

    A contender that a round lacks, a library that was not there, has the samples of the others.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    for rows in rounds:
        for row in rows:
            found.setdefault((row.variant, repr(sorted(row.case.items()))), []).append(row)
    return tuple(_joined(several) for several in found.values())


def _joined(several: Sequence[Row]) -> Row:
    timed = [row for row in several if row.samples_us]
    counters = next((row.counters for row in several if row.counters), None)
    if len(timed) < 2:
        return replace(timed[0] if timed else several[0], counters=counters)
    samples = tuple(sample for row in timed for sample in row.samples_us)
    of_all = summary(several[0].variant, samples)
    return replace(
        timed[0],
        samples_us=of_all.samples_us,
        p20=of_all.p20,
        median=of_all.median,
        p80=of_all.p80,
        counters=counters,
        rounds=tuple(len(row.samples_us) for row in timed),
        sm_clock_mhz=tuple(one for row in timed for one in row.sm_clock_mhz),
        power_w=tuple(one for row in timed for one in row.power_w),
    )


def spread_of(row: Row) -> str:
    """The spread of a row for a reader; empty for one without times."""
    stretch = expected(row)
    if row.median is None or row.p20 is None or row.p80 is None or stretch is None:
        return ""
    further = (stretch.low, stretch.high) if row.rounds else ()
    return spread_text(row.p20, row.median, row.p80, [part.median for part in parts(row)], further)


def round_facts(state: Mapping[str, Any], day: str) -> dict[str, Any]:
    """What a record keeps of one round beside its samples.

    Args:
        state: the GPU's state right after it.
        day: the UTC day as ``2026-11-21``.
    """
    names = ("driver", "sm_clock_mhz", "memory_clock_mhz", "temperature_c")
    return {"date": day, **{name: state.get(name) for name in names}}


def spread_notes(rows: Sequence[Row]) -> Iterator[str]:
    """A sentence for each row whose samples lie far apart."""
    for row in rows:
        if not row.median or row.p20 is None or row.p80 is None:
            continue
        distance = (row.p80 - row.p20) / row.median
        if distance > SPREAD:
            at = f"{row.variant} at {case_text(row.case)}"
            yield f"{at}: p20 and p80 lie {distance:.0%} of the median apart."
