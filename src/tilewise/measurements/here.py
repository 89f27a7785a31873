"""Here: one sentence on how the reader's GPU differs from the recorded one, and how far its times agree.

In: both devices' names, clocks and SMs, and the rows of both. Out: sentences for below a table. What makers
state comes from the device table; a device that is not in it is described by what it says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.measurements.record import Row
from tilewise.measurements.rounds import expected
from tilewise.measurements.slugs import case_text
from tilewise.models.devices import device

NEAR = 0.05
"""A difference that a restart, or another GPU of the same kind, can make."""


@dataclass(frozen=True)
class Machine:
    """A GPU at a moment."""

    name: str
    """As its driver names it."""
    sms: int | None = None
    """Streaming multiprocessors."""
    sm_clock_mhz: float | None = None
    """Its clock under load."""

    @staticmethod
    def of(provenance: Mapping[str, Any]) -> Machine:
        """The machine of a record."""
        return Machine(str(provenance["device"]), provenance.get("sm_count"), provenance.get("sm_clock_mhz"))


def difference(here: Machine, recorded: Machine | None) -> str:
    """Why times here may differ from the recorded ones: bandwidth, SM count, clock, in one sentence."""
    if recorded is None:
        return f"Here: {here.name}."
    if recorded.name == here.name:
        return f"Here: {here.name}, the device of the record, {_clock(here, recorded)}."
    own, other = device(here.name), device(recorded.name)
    sms, theirs = here.sms or (own and own.sms), recorded.sms or (other and other.sms)
    count = f"{sms} SMs instead of {theirs}" if sms != theirs else f"as many SMs, {sms}"
    if own is None or other is None:
        unknown = here.name if own is None else recorded.name
        return (
            f"Here: {here.name}, with {count}, {_clock(here, recorded)}; recorded on {recorded.name}. The "
            f"device table has no {unknown}: tilewise doctor --probe measures what it reaches."
        )
    memory = own.memory_gb_per_s / other.memory_gb_per_s
    return (
        f"Here: {here.name}, which by its maker has {memory:.2f} times the memory bandwidth of "
        f"{recorded.name}, {count}, {_clock(here, recorded)}: {_meaning(memory, here, recorded)}."
    )


def _clock(here: Machine, recorded: Machine) -> str:
    if not here.sm_clock_mhz or not recorded.sm_clock_mhz:
        return "at a clock that could not be read"
    if abs(here.sm_clock_mhz / recorded.sm_clock_mhz - 1) < 0.01:
        return f"at the same clock, {here.sm_clock_mhz:,.0f} MHz"
    return f"at {here.sm_clock_mhz:,.0f} MHz instead of {recorded.sm_clock_mhz:,.0f}"


def _meaning(memory: float, here: Machine, recorded: Machine) -> str:
    """What that means for rows that wait for memory and for the others."""
    chip = 1.0
    if here.sms and recorded.sms:
        chip = here.sms / recorded.sms
        if here.sm_clock_mhz and recorded.sm_clock_mhz:
            chip *= here.sm_clock_mhz / recorded.sm_clock_mhz
    waiting, others = (_direction(ratio) for ratio in (memory, chip))
    if waiting == others:
        return f"all rows should be {waiting} here"
    return f"rows that wait for device memory should be {waiting} here, the others {others}"


def _direction(ratio: float) -> str:
    return "faster" if ratio > 1.03 else "slower" if ratio < 0.97 else "alike"


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
