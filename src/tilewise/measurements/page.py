"""The page of all measurements: every row of every record, what was predicted of it, and other devices.

In: the lessons' measurements, the archive and its predictions. Out: fragments of HTML for a page at the
site's root; the site's script makes their tables sortable. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tilewise.measurements import comparison
from tilewise.measurements.archive import Archive, bound_of
from tilewise.measurements.counting import COUNTS, total
from tilewise.measurements.every_row import device_of, every_row
from tilewise.measurements.output import Measurement
from tilewise.measurements.provenance_links import provenance_list
from tilewise.measurements.record import Record, Row
from tilewise.measurements.slugs import device_slug
from tilewise.models.devices import DEVICES
from tilewise.outputs.table import Column, Table

FRAGMENTS = ("all", "provenance", "comparison", "devices")
"""What ``fragment`` makes, besides ``MISS`` with an experiment's name behind it."""
MISS = "miss_"
"""Begins the name of a sentence on an experiment's prediction and what came of it."""


@dataclass(frozen=True)
class Lessons:
    """What the page knows of the course."""

    measured: Mapping[str, Sequence[Measurement]]
    """The measurements of each lesson, by its id, in reading order."""
    titles: Mapping[str, str]
    """The lessons' titles."""
    urls: Mapping[str, str]
    """The URLs of their pages, relative to the site's root."""

    def every(self) -> Iterator[tuple[str, Measurement]]:
        """Each measurement after its lesson's id."""
        return ((lesson, made) for lesson, several in self.measured.items() for made in several)

    def simulated(self) -> dict[tuple[str, str], tuple[Mapping[str, Any], Mapping[str, float] | None]]:
        """The size at which was counted and the counts, by experiment and variant."""
        return {
            (made.name, row["variant"]): (made.count_case, row["simulated"])
            for _, made in self.every()
            for row in made.rows
            if made.count_case is not None and row.get("simulated")
        }


@dataclass(frozen=True)
class Line:
    """One row of the table of all measurements."""

    lesson: str
    experiment: str
    variant: str
    role: str
    case: Mapping[str, Any]
    counts: Mapping[str, tuple[float | None, float | None]]
    """What the simulator and the hardware's counters say at this case, by the names of ``COUNTS``."""
    count: str
    """The count that the table shows: the first of the lesson's own that is there; empty for none."""
    predicted_us: float | None = None
    """The bound."""
    row: Row | None = None
    """The recorded times; None where nothing is recorded."""
    record: Record | None = None
    """The record that they are in."""
    stale: bool = False
    """Whether what was measured has changed since."""

    @property
    def simulated(self) -> float | None:
        """The count that is shown, by the simulator."""
        return self.counts[self.count][0] if self.count else None

    @property
    def counted(self) -> float | None:
        """The count that is shown, by the hardware's counters."""
        return self.counts[self.count][1] if self.count else None


def lines(lessons: Lessons, archive: Archive) -> Iterator[Line]:
    """Every row: of each record on each device, and what was simulated of experiments without one.

    Raises:
        RecordError: a record cannot be believed.
    """
    simulated = lessons.simulated()
    records = list(archive.records())
    stale = {(made.name, *each) for _, made in lessons.every() for each in made.outdated}
    place = {made.name: lesson for lesson, made in lessons.every()}
    wanted = {made.name: made.counts for _, made in lessons.every()}
    order = list(place)
    known = [record for record in records if record.experiment in place]
    known.sort(key=lambda record: order.index(record.experiment))
    for record in known:
        counts = dict(simulated)
        for row in record.rows:
            case, found = counts.get((record.experiment, row.variant), ({}, None))
            here = found is not None and dict(case) == dict(row.case)
            if here:
                del counts[record.experiment, row.variant]
            least = bound_of(row, record)
            both = _counts(found if here else None, row.counters)
            yield Line(
                lesson=record.lesson,
                experiment=record.experiment,
                variant=row.variant,
                role=row.role,
                case=row.case,
                predicted_us=least.time_us if least and row.median else None,
                counts=both,
                count=_shown(both, wanted[record.experiment]),
                row=row,
                record=record,
                stale=(record.experiment, record.provenance["device"], row.variant) in stale,
            )
    recorded = {(record.experiment) for record in known}
    for (experiment, variant), (case, found) in simulated.items():
        if experiment not in recorded:
            both = _counts(found, None)
            yield Line(
                lesson=place[experiment],
                experiment=experiment,
                variant=variant,
                role="variant",
                case=case,
                counts=both,
                count=_shown(both, wanted[experiment]),
            )


def _counts(
    simulated: Mapping[str, float] | None, counted: Mapping[str, float] | None
) -> dict[str, tuple[float | None, float | None]]:
    both = {name: (total(simulated, name), total(counted, name)) for name in COUNTS}
    return {name: pair for name, pair in both.items() if pair != (None, None)}


def _shown(counts: Mapping[str, tuple[float | None, float | None]], wanted: Sequence[str]) -> str:
    return next((name for name in (*wanted, *COUNTS) if name in counts), "")


def fragment(name: str, lessons: Lessons, archive: Archive) -> str:
    """One of ``FRAGMENTS``, or one with ``MISS``, as HTML without blank lines.

    Raises:
        KeyError: an experiment with ``MISS`` was not predicted, or not recorded since.
    """
    if name.startswith(MISS):
        return escape(comparison.facts(archive, name.removeprefix(MISS)))
    if name == "devices":
        return _devices()
    if name == "provenance":
        return _provenance_lists(archive)
    if name == "comparison":
        return comparison.fragment(archive)
    found = sorted(lines(lessons, archive), key=lambda line: list(lessons.titles).index(line.lesson))
    return every_row(found, lessons, _own(found, archive))


def _own(found: Sequence[Line], archive: Archive) -> str:
    """The name of the course's own device; empty where nothing is recorded."""
    devices = dict.fromkeys(device_of(line) for line in found if line.record)
    return next((name for name in devices if device_slug(name) == archive.home), next(iter(devices), ""))


def _provenance_lists(archive: Archive) -> str:
    lists = [
        f"<h3>{escape(record.experiment)}, {escape(str(record.provenance['device']))}</h3>"
        + provenance_list(record.experiment, record.provenance, _beside)
        for record in archive.records()
    ]
    summary = "<summary>Device, clocks, versions and date of each record</summary>"
    return f'<details class="tw-provenance">{summary}{"".join(lists)}</details>'


def _beside(path: str) -> str:
    """A file of the site from the page of all measurements, which stands in a folder of its own."""
    return f"../{path}"


def _devices() -> str:
    kinds = {"fp32": "fp32", "fp16 matrix": "fp16_matrix", "bf16 matrix": "bf16_matrix"}
    columns: list[str | Column] = [
        "device",
        Column("SMs", "", "right"),
        Column("clock", "MHz", "right"),
        Column("memory", "GB", "right"),
        Column("memory", "GB/s", "right"),
        Column("L2", "MB", "right"),
        *(Column(label, "TFLOP/s", "right") for label in kinds),
        "source",
    ]
    rows = [
        [
            *(one.name, one.sms, one.boost_mhz, one.memory_gb, one.memory_gb_per_s, one.l2_mb),
            *(one.peak_tflop_per_s.get(kind) for kind in kinds.values()),
            one.source,
        ]
        for one in DEVICES
    ]
    return Table(columns, rows).html()


def record_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Records and predictions that the site publishes: path relative to its root, and file."""
    for path in sorted((root / "measurements").glob("*/*.json")):
        yield path.relative_to(root).as_posix(), path
    for path in sorted((root / "predictions").glob("*.json")):
        yield f"measurements/{path.relative_to(root).as_posix()}", path
