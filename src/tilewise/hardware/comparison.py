"""The comparison: what the simulator counted of each specimen, beside what a device's own counters say.

In: the record of simulated counts, which ``simulation`` makes, and the record of a device's counters. Out:
``Compared`` with a row for each specimen that both have as it is now: counts of both, differences with their
reasons, how far apart outputs are; the others are named. Nothing is simulated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewise.hardware.differences import KNOWN, REWRITTEN, UNEXPLAINED, Reason
from tilewise.hardware.json_files import load, save
from tilewise.hardware.record import CountsRecord, Row, recorded
from tilewise.measurements.slugs import device_slug

FORM = ("comparison", 1)
"""What kind of record it is, and the version of its schema."""
FOLDER = Path(__file__).parent / "compared"
"""Where records are, one file for each device whose counters are recorded."""
LESSONS = "Kernels of the lessons"
"""The title of the group that the course itself fills."""


@dataclass(frozen=True)
class Count:
    """A count that both sides have."""

    simulated: str
    """Its name among the simulator's counts, such as ``global_load.sectors``."""
    counters: tuple[str, ...]
    """The hardware counters that it is the sum of."""


COUNTS: Mapping[str, Count] = {
    "global load requests": Count("global_load.requests", ("global_load_requests",)),
    "global load sectors": Count("global_load.sectors", ("global_load_sectors",)),
    "global store requests": Count("global_store.requests", ("global_store_requests",)),
    "global store sectors": Count("global_store.sectors", ("global_store_sectors",)),
    "global atomic requests": Count(
        "global_atomic.requests", ("global_atom_requests", "global_red_requests")
    ),
    "global atomic sectors": Count("global_atomic.sectors", ("global_atom_sectors", "global_red_sectors")),
    "local requests": Count("local_requests", ("local_load_requests", "local_store_requests")),
    "shared load requests": Count("shared_load.requests", ("shared_load_requests", "matrix_load_requests")),
    "shared load wavefronts": Count("shared_load.wavefronts", ("shared_load_wavefronts",)),
    "shared store requests": Count("shared_store.requests", ("shared_store_requests",)),
    "shared store wavefronts": Count("shared_store.wavefronts", ("shared_store_wavefronts",)),
    "shared atomic requests": Count("shared_atomic.requests", ("shared_atomic_requests",)),
    "shared atomic wavefronts": Count("shared_atomic.wavefronts", ("shared_atomic_wavefronts",)),
}
"""What is compared. Instructions are not: PTX and machine code are different languages."""


@dataclass(frozen=True)
class Distance:
    """How far an output of the simulator is from the hardware's."""

    same_bits: bool
    """Whether all bytes are equal."""
    allowed: bool
    """Whether the specimen allows this difference."""
    largest: float | None = None
    """The largest absolute difference, to four digits; None where only a hash was kept."""


@dataclass(frozen=True)
class SimulatedRow:
    """What the simulator made of one specimen, for one device's counters."""

    name: str
    """The specimen's name."""
    key: str
    """The specimen's key when it ran."""
    idea: str = ""
    """The one thing it is there for; this and all that follows is empty where no counters wait for it."""
    tolerance: tuple[float, float] = (0.0, 0.0)
    """How far outputs may be apart: relative to the value, and absolute; zeros ask for the same bits."""
    issued: int = 0
    """Warp instructions of PTX."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By the names of ``COUNTS``; those that are not zero."""
    outputs: Mapping[str, Distance] = field(default_factory=dict)
    """By the name of the parameter."""


@dataclass(frozen=True)
class ComparisonRecord:
    """What the simulator made of every specimen, for one device's counters."""

    device: str
    """The device, as its counters name it."""
    simulator: str
    """A hash of the simulator, and of all else that decides its counts."""
    counters: str
    """The checksum of the device's counters."""
    groups: Mapping[str, tuple[SimulatedRow, ...]]
    """Specimens by the title of their group."""

    def keys(self, group: str) -> dict[str, str]:
        """The keys of a group's specimens, by name."""
        return {row.name: row.key for row in self.groups.get(group, ())}


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
class ComparedRow:
    """One specimen on both sides."""

    group: str
    """The title of its group."""
    simulated: SimulatedRow
    """What the simulator made of it."""
    counts: Mapping[str, Pair]
    """By name; only those in which either side counted something."""
    instructions: Pair
    """Warp instructions: of PTX, and of machine code."""

    @property
    def name(self) -> str:
        """The specimen's name."""
        return self.simulated.name

    @property
    def exact(self) -> bool:
        """Whether the outputs must be equal bit for bit."""
        return not any(self.simulated.tolerance)

    def why(self, output: str) -> Reason | None:
        """Why an output has other bits though the same were asked for: a rewritten source leaves these."""
        distance = self.simulated.outputs[output]
        other = self.exact and distance.allowed and not distance.same_bits
        return REWRITTEN.get(self.name, ({}, UNEXPLAINED))[1] if other else None


@dataclass(frozen=True)
class Compared:
    """The simulator against one device."""

    record: CountsRecord
    """What the device counted."""
    rows: tuple[ComparedRow, ...]
    """In the order of the specimens."""
    uncounted: tuple[str, ...] = ()
    """The names of specimens without a row: newer than the counters."""
    changed: tuple[str, ...] = ()
    """The names of specimens whose kernel, inputs or launch have changed since their row was counted."""
    gone: tuple[str, ...] = ()
    """The names of rows without a specimen: kernels that are launched no more."""


def compared() -> tuple[Compared, ...]:
    """The comparison with every device that has counters.

    Raises:
        LessonError: a record cannot be read.
    """
    return tuple(compare(load_comparison(counts.device), counts) for counts in recorded())


def compare(record: ComparisonRecord, counts: CountsRecord) -> Compared:
    """Put what the simulator counted beside what a device counted, for each specimen that both have."""
    rows: list[ComparedRow] = []
    uncounted: list[str] = []
    changed: list[str] = []
    left = {row.name: row for row in counts.rows}
    for group, found in record.groups.items():
        for simulated in found:
            row = left.pop(simulated.name, None)
            if row is not None and row.key != simulated.key:
                changed.append(simulated.name)
            elif row is None or not simulated.issued:
                uncounted.append(simulated.name)
            else:
                rows.append(_compared(group, simulated, row))
    return Compared(counts, tuple(rows), tuple(uncounted), tuple(changed), tuple(left))


def _compared(group: str, simulated: SimulatedRow, row: Row) -> ComparedRow:
    known = KNOWN.get(simulated.name, {})
    pairs: dict[str, Pair] = {}
    for name, count in COUNTS.items():
        if all(part in row.counters for part in count.counters):
            ours, theirs = simulated.counts.get(name, 0), sum(row.counters[part] for part in count.counters)
            if ours or theirs:
                pairs[name] = Pair(ours, theirs, *known.get(name, ()))
    return ComparedRow(group, simulated, pairs, Pair(simulated.issued, row.counters["instructions"]))


def path_of(device: str, folder: Path = FOLDER) -> Path:
    """The file of a device's comparison."""
    return folder / f"{device_slug(device)}.json"


def load_comparison(device: str, folder: Path = FOLDER) -> ComparisonRecord:
    """The record of the comparison with a device.

    Raises:
        LessonError: it is missing or malformed.
    """
    return load(path_of(device, folder), FORM, _parsed)


def _parsed(body: dict[str, Any]) -> ComparisonRecord:
    groups = {group: tuple(map(_row, rows)) for group, rows in body["rows"].items()}
    return ComparisonRecord(body["device"], body["simulator"], body["counters"], groups)


def _row(data: dict[str, Any]) -> SimulatedRow:
    relative, absolute = data.get("tolerance", (0, 0))
    return SimulatedRow(
        str(data["name"]),
        str(data["key"]),
        str(data.get("idea", "")),
        (float(relative), float(absolute)),
        int(data.get("issued", 0)),
        {name: int(count) for name, count in data.get("counts", {}).items()},
        {name: Distance(*distance) for name, distance in data.get("outputs", {}).items()},
    )


def save_comparison(record: ComparisonRecord, folder: Path = FOLDER) -> None:
    """Write a record into its device's file; what is empty is left out."""
    head = {"device": record.device, "simulator": record.simulator, "counters": record.counters}
    rows = {group: [_data(row) for row in found] for group, found in record.groups.items()}
    save(path_of(record.device, folder), FORM, head, rows)


def _data(row: SimulatedRow) -> dict[str, Any]:
    outputs = {name: [one.same_bits, one.allowed, one.largest] for name, one in row.outputs.items()}
    whole = {**vars(row), "tolerance": row.tolerance if any(row.tolerance) else None, "outputs": outputs}
    return {name: value for name, value in whole.items() if value}
