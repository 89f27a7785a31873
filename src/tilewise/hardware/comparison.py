"""The comparison: every specimen on the simulator, beside what a device's own counters said.

In: a record. Out: ``Compared`` with a row for each specimen: counts of both, differences with their
reasons, and how far the outputs lie apart. Printing is ``report``'s and ``page``'s affair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewise.cases import Array
from tilewise.errors import LessonError
from tilewise.hardware.collection import groups
from tilewise.hardware.differences import KNOWN, Reason
from tilewise.hardware.record import FOLDER, REPAIR, CountsRecord, Row, array_of, recorded
from tilewise.hardware.specimen import Specimen
from tilewise.simulator import Counts


@dataclass(frozen=True)
class Count:
    """A count that both sides have."""

    simulated: Callable[[Counts], int]
    """Takes it from the simulator's counts."""
    counters: tuple[str, ...]
    """The hardware counters that it is the sum of."""


COUNTS: Mapping[str, Count] = {
    "global load requests": Count(lambda c: c.global_load.requests, ("global_load_requests",)),
    "global load sectors": Count(lambda c: c.global_load.sectors, ("global_load_sectors",)),
    "global store requests": Count(lambda c: c.global_store.requests, ("global_store_requests",)),
    "global store sectors": Count(lambda c: c.global_store.sectors, ("global_store_sectors",)),
    "global atomic requests": Count(
        lambda c: c.global_atomic.requests, ("global_atom_requests", "global_red_requests")
    ),
    "global atomic sectors": Count(
        lambda c: c.global_atomic.sectors, ("global_atom_sectors", "global_red_sectors")
    ),
    "local requests": Count(lambda c: c.local_requests, ("local_load_requests", "local_store_requests")),
    "shared load requests": Count(
        lambda c: c.shared_load.requests, ("shared_load_requests", "matrix_load_requests")
    ),
    "shared load wavefronts": Count(lambda c: c.shared_load.wavefronts, ("shared_load_wavefronts",)),
    "shared store requests": Count(lambda c: c.shared_store.requests, ("shared_store_requests",)),
    "shared store wavefronts": Count(lambda c: c.shared_store.wavefronts, ("shared_store_wavefronts",)),
    "shared atomic requests": Count(lambda c: c.shared_atomic.requests, ("shared_atomic_requests",)),
    "shared atomic wavefronts": Count(lambda c: c.shared_atomic.wavefronts, ("shared_atomic_wavefronts",)),
}
"""What is compared. Instructions are not: PTX and machine code are different languages."""


@dataclass(frozen=True)
class Pair:
    """One count of one specimen on both sides."""

    simulated: int
    """By the simulator."""
    counted: int
    """By the hardware."""
    expected: int = 0
    """The known difference, hardware less simulator."""
    reason: Reason | None = None
    """Why they differ."""

    @property
    def residual(self) -> int:
        """Hardware less simulator."""
        return self.counted - self.simulated


@dataclass(frozen=True)
class Distance:
    """How far an output of the simulator lies from the hardware's."""

    same_bits: bool
    """Whether all bytes are equal."""
    allowed: bool
    """Whether the specimen allows this difference."""
    largest: float | None = None
    """The largest absolute difference; None where only a hash was kept."""


@dataclass(frozen=True)
class ComparedRow:
    """One specimen."""

    specimen: Specimen
    """What ran."""
    group: str
    """The title of its group."""
    counts: Mapping[str, Pair]
    """By name; only those in which either side counted something."""
    outputs: Mapping[str, Distance]
    """By the name of the parameter."""
    instructions: Pair
    """Warp instructions: of PTX, and of machine code."""


@dataclass(frozen=True)
class Compared:
    """The simulator against one device."""

    record: CountsRecord
    """What the device counted."""
    rows: tuple[ComparedRow, ...]
    """In the order of the specimens."""
    stale: tuple[Specimen, ...] = ()
    """Specimens that have changed since they were counted, where these were to be kept apart."""


def compare_all(folder: Path = FOLDER, root: Path | None = None) -> tuple[Compared, ...]:
    """Compare with every device that has a record."""
    found = groups(root)
    return tuple(compare(record, found) for record in recorded(folder))


def compare(
    record: CountsRecord, found: Mapping[str, Sequence[Specimen]], keep_stale: bool = False
) -> Compared:
    """Run every specimen on the simulator and hold it against a record.

    Args:
        record: what a device counted.
        found: specimens by the title of their group.
        keep_stale: put specimens without a current row aside instead of raising.

    Raises:
        LessonError: a specimen was not counted, or has changed since.
        HazardError: a specimen has a hazard.
    """
    rows: list[ComparedRow] = []
    stale: list[Specimen] = []
    for group, specimens in found.items():
        for specimen in specimens:
            try:
                row = current_row(record, specimen)
            except LessonError:
                if not keep_stale:
                    raise
                stale.append(specimen)
            else:
                rows.append(compare_one(specimen, group, row))
    return Compared(record, tuple(rows), tuple(stale))


def current_row(record: CountsRecord, specimen: Specimen) -> Row:
    """What a record says of a specimen as it is now.

    Raises:
        LessonError: it was not counted, or has changed since.
    """
    row = record.row(specimen.name)
    if row is None or row.key != specimen.key:
        path, line = specimen.launch.kernel.origin
        what = "was not counted" if row is None else "has changed since it was counted"
        raise LessonError(path, line, f'"{specimen.name}" {what} on {record.device}.', REPAIR)
    return row


def compare_one(specimen: Specimen, group: str, row: Row) -> ComparedRow:
    """Run one specimen on the simulator and hold it against its row."""
    arrays = specimen.launch.case.make()
    counts = specimen.launch.simulate(arrays=arrays).counts
    known = KNOWN.get(specimen.name, {})
    pairs: dict[str, Pair] = {}
    for name, count in COUNTS.items():
        if not all(part in row.counters for part in count.counters):
            continue
        simulated, counted = count.simulated(counts), sum(row.counters[part] for part in count.counters)
        if simulated or counted:
            pairs[name] = Pair(simulated, counted, *known.get(name, ()))
    outputs = {name: _distance(specimen, row, name, np.asarray(arrays[name])) for name in specimen.written}
    return ComparedRow(specimen, group, pairs, outputs, Pair(counts.issued, row.counters["instructions"]))


def _distance(specimen: Specimen, row: Row, name: str, ours: Array) -> Distance:
    kept = row.outputs[name]
    same = hashlib.sha256(ours.tobytes()).hexdigest() == kept.sha256
    if same or kept.bits is None:
        return Distance(same, same, 0.0 if same else None)
    theirs = array_of(kept, ours)
    fits = np.allclose(ours, theirs, rtol=specimen.rtol, atol=specimen.atol, equal_nan=True)
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return Distance(False, bool(fits), float(np.nanmax(apart)))


def report(compared: Compared) -> str:
    """Every residual in plain text, with its reason or the word that there is none."""
    lines = [f"{compared.record.device}, {compared.record.provenance['date']}: {len(compared.rows)} kernels"]
    equal = 0
    for row in compared.rows:
        for name, pair in row.counts.items():
            if pair.residual == 0 == pair.expected:
                equal += 1
                continue
            why = pair.reason.title if pair.reason and pair.residual == pair.expected else "NOT EXPLAINED"
            lines.append(
                f"  {row.specimen}: {name}: simulator {pair.simulated:,}, hardware {pair.counted:,}, "
                f"residual {pair.residual:+,}: {why}"
            )
        for output, distance in row.outputs.items():
            if not distance.same_bits:
                bound = "within its bound" if distance.allowed else "NOT ALLOWED"
                lines.append(f"  {row.specimen}: {output} differs by up to {distance.largest}, {bound}")
    lines.append(f"  {equal} other counts are equal")
    return "\n".join(lines)
