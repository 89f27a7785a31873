"""The reader's own GPU beside the recorded one: how their clocks differ, and how far the times agree.

In: both devices' names and clocks, and the rows of both. Out: sentences for below a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.measurements.record import Record, Row
from tilewise.measurements.rounds import expected
from tilewise.measurements.slugs import case_text

NEAR = 0.05
"""A difference that a restart, or another GPU of the same kind, can make."""


def difference(name: str, clock_mhz: float | None, record: Record | None) -> str:
    """What was timed here and what was recorded: devices and clocks, in one sentence.

    Args:
        name: the local GPU, as its driver names it.
        clock_mhz: its SM clock under load.
        record: the record beside it.
    """
    local = f"Here: {_at(name, clock_mhz)}"
    if record is None:
        return f"{local}."
    kept = record.provenance
    return f"{local}; recorded on {_at(kept['device'], kept.get('sm_clock_mhz'))}."


def _at(name: str, clock_mhz: float | None) -> str:
    return f"{name} at {clock_mhz:,.0f} MHz" if clock_mhz else name


def _agree(mine: Row, theirs: Row) -> bool:
    stretch = expected(theirs)
    if stretch is None or mine.p20 is None or mine.p80 is None:
        return True
    return stretch.meets(mine.p20, mine.p80)


def agreement(timed: Sequence[Row], recorded: Sequence[Row]) -> str | None:
    """How many rows lie within the spread of the recorded ones, and which is farthest; None without pairs.

    A row agrees where its stretch from the 20th to the 80th percentile meets the one in which the record
    expects another run; see ``rounds.expected``.
    """
    pairs = [
        (mine, theirs)
        for mine in timed
        for theirs in recorded
        if (mine.variant, dict(mine.case)) == (theirs.variant, dict(theirs.case))
        and mine.median
        and theirs.median
    ]
    if not pairs:
        return None
    alike = [pair for pair in pairs if _agree(*pair)]
    if len(alike) == len(pairs):
        return f"All {len(pairs)} rows here agree with the recorded ones within their spreads."

    def ratio(pair: tuple[Row, Row]) -> float:
        return (pair[0].median or 0.0) / (pair[1].median or 1.0)

    near = [pair for pair in pairs if abs(ratio(pair) - 1) <= NEAR]
    far = max(pairs, key=lambda pair: max(ratio(pair), 1 / ratio(pair)))
    return (
        f"{len(alike)} of {len(pairs)} rows here agree with the recorded ones within their spreads, "
        f"{len(near)} within {NEAR:.0%}; the farthest is {far[0].variant} at {case_text(far[0].case)}, "
        f"{ratio(far) - 1:+.1%} in time."
    )
