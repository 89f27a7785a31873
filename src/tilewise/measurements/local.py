"""The reader's own GPU compared with the recorded one: clocks and times.

In: both devices' names and clocks, and the rows of both. Out: sentences to show below a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.measurements.record import Record, Row
from tilewise.measurements.rounds import expected
from tilewise.measurements.slugs import case_text

NEAR = 0.05
"""A relative difference that a restart, or another GPU of the same model, can cause."""


def difference(name: str, clock_mhz: float | None, record: Record | None) -> str:
    """The devices and clocks, here and of the record, in one sentence.

    Args:
        name: the local GPU, as its driver names it.
        clock_mhz: its SM clock under load.
        record: the record to compare with.
    """
    local = f"Here: {_at(name, clock_mhz)}"
    if record is None:
        return f"{local}."
    origin = record.provenance
    return f"{local}; recorded on {_at(origin['device'], origin.get('sm_clock_mhz'))}."


def _at(name: str, clock_mhz: float | None) -> str:
    return f"{name} at {clock_mhz:,.0f} MHz" if clock_mhz else name


def _agree(here: Row, recorded: Row) -> bool:
    interval = expected(recorded)
    if interval is None or here.p20 is None or here.p80 is None:
        return True
    return interval.meets(here.p20, here.p80)


def agreement(timed: Sequence[Row], recorded: Sequence[Row]) -> str | None:
    """How many rows agree with the recorded ones, and which is farthest off; None without pairs.

    A row agrees if its interval from the 20th to the 80th percentile overlaps the one in which the record
    expects another run; see ``rounds.expected``.
    """
    pairs = [
        (here, there)
        for here in timed
        for there in recorded
        if (here.variant, dict(here.case)) == (there.variant, dict(there.case))
        and here.median
        and there.median
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
