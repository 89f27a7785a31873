"""The comparison: every specimen on the simulator, beside what a device's own counters said.

In: a record. Out: ``Compared`` with a row for each specimen that the record has as it is now: counts of both,
differences with their reasons, how far outputs lie apart; the others are named. ``page`` and ``said`` print.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewise.cases import Array
from tilewise.gpu.kernel import Kernel
from tilewise.hardware.collection import groups
from tilewise.hardware.differences import KNOWN, REWRITTEN, Reason
from tilewise.hardware.record import FOLDER, CountsRecord, Row, array_of, recorded
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
    """Why that difference is known."""

    @property
    def why(self) -> Reason | None:
        """Why they differ; None where that is unknown, or was known for another number."""
        return self.reason if self.residual == self.expected else None

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
    why: Reason | None = None
    """Why they differ where the same bits were asked for, shown by a rewritten source that leaves these."""


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
    uncounted: tuple[Specimen, ...] = ()
    """Specimens without a row: newer than the record."""
    changed: tuple[Specimen, ...] = ()
    """Specimens whose kernel, inputs or launch have changed since their row was counted."""
    gone: tuple[str, ...] = ()
    """The names of rows without a specimen: kernels that are launched no more."""


def compare_all(folder: Path = FOLDER, root: Path | None = None) -> tuple[Compared, ...]:
    """Compare with every device that has a record."""
    found = groups(root)
    return tuple(compare(record, found) for record in recorded(folder))


def compare(record: CountsRecord, found: Mapping[str, Sequence[Specimen]]) -> Compared:
    """Run every specimen that a record has as it is now on the simulator, and hold it against its row.

    Args:
        record: what a device counted.
        found: specimens by the title of their group.

    Raises:
        HazardError: a specimen has a hazard.
    """
    rows: list[ComparedRow] = []
    uncounted: list[Specimen] = []
    changed: list[Specimen] = []
    kept = {row.name: row for row in record.rows}
    for group, specimens in found.items():
        for specimen in specimens:
            row = kept.pop(specimen.name, None)
            if row is None:
                uncounted.append(specimen)
            elif row.key != specimen.key:
                changed.append(specimen)
            else:
                rows.append(compare_one(specimen, group, row))
    return Compared(record, tuple(rows), tuple(uncounted), tuple(changed), tuple(kept))


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
    if same:
        return Distance(True, True, 0.0)
    if kept.bits is None:
        return _rewritten(specimen, name, ours, kept.sha256)
    theirs = array_of(kept, ours)
    fits = np.allclose(ours, theirs, rtol=specimen.rtol, atol=specimen.atol, equal_nan=True)
    return Distance(False, bool(fits), _largest(ours, theirs))


def _rewritten(specimen: Specimen, name: str, ours: Array, sha256: str) -> Distance:
    """The distance to what the rewritten source leaves, where that has the hardware's bits."""
    edits, reason = REWRITTEN.get(specimen.name, ({}, None))
    kernel = specimen.launch.kernel
    source = kernel.source
    for before, after in edits.items():
        source = source.replace(before, after)
    if source == kernel.source:
        return Distance(False, False)
    rewritten = Kernel(source, kernel.name, kernel.defines, kernel.options)
    arrays = specimen.launch.case.make()
    rewritten.on(specimen.launch.case).simulate(arrays=arrays)
    theirs = np.asarray(arrays[name])
    if hashlib.sha256(theirs.tobytes()).hexdigest() != sha256:
        return Distance(False, False)
    return Distance(False, True, _largest(ours, theirs), reason)


def _largest(ours: Array, theirs: Array) -> float:
    """The largest absolute difference; equal infinities, and what is no number on either side, have none."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    return float(np.fmax.reduce(apart, axis=None, initial=0.0))
