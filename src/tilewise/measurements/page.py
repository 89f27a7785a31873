"""The page of all measurements: every row of every record, its bound, and other devices.

In: the lessons' measurements, the archive and its predictions. Out: HTML fragments for a page at the site's
root; the site's script makes their tables sortable. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from tilewise.measurements import comparison
from tilewise.measurements.archive import Archive, bound_of
from tilewise.measurements.counting import COUNTS, total
from tilewise.measurements.output import Measurement
from tilewise.measurements.provenance_links import (
    provenance_id,
    provenance_link,
    provenance_list,
    record_url,
)
from tilewise.measurements.record import Record, Row
from tilewise.measurements.rounds import spread_of
from tilewise.measurements.slugs import case_text, device_slug
from tilewise.models.devices import DEVICES, device
from tilewise.outputs.table import Column, Table, number

FRAGMENTS = ("all", "provenance", "comparison", "devices")
"""Names for ``fragment``, besides ``MISS`` followed by an experiment's name."""
MISS = "miss_"
"""The prefix for a sentence on an experiment's prediction and its outcome."""
HEADS = (
    ("variant", ""), ("recorded", "µs"), ("bound", "µs"), ("recorded - bound", "µs"),
    ("bound / recorded", "%"), ("simulated", ""), ("counted", ""),
)  # fmt: skip
"""The columns of the table of all measurements, each with its unit."""


@dataclass(frozen=True)
class Lessons:
    """What the page needs from the course."""

    measured: Mapping[str, Sequence[Measurement]]
    """The measurements of each lesson, by its id, in reading order."""
    titles: Mapping[str, str]
    urls: Mapping[str, str]
    """The URLs of their pages, relative to the site's root."""

    def every(self) -> Iterator[tuple[str, Measurement]]:
        """Each measurement with its lesson's id."""
        return (
            (lesson, measurement)
            for lesson, measurements in self.measured.items()
            for measurement in measurements
        )

    def simulated(self) -> dict[tuple[str, str], tuple[Mapping[str, Any], Mapping[str, float] | None]]:
        """The size of the simulated case and its counts, by experiment and variant."""
        return {
            (measurement.name, row["variant"]): (measurement.count_case, row["simulated"])
            for _, measurement in self.every()
            for row in measurement.rows
            if measurement.count_case is not None and row.get("simulated")
        }


@dataclass(frozen=True)
class Line:
    """One row of the table of all measurements."""

    lesson: str
    experiment: str
    row: Row
    """The recorded row; one without times if it was only simulated."""
    counts: Mapping[str, tuple[float | None, float | None]]
    """The simulator's and the hardware's counts for this case, by the names of ``COUNTS``."""
    count: str
    """The count that the table shows: the first available of the lesson's own; empty for none."""
    predicted_us: float | None = None
    """The bound."""
    record: Record | None = None
    """The row's record; None if nothing is recorded."""
    stale: bool = False
    """Whether the measured code has changed since."""

    @property
    def device(self) -> str:
        """The device that it was recorded on; empty if nothing is recorded."""
        return str(self.record.provenance["device"]) if self.record else ""

    @property
    def shown(self) -> tuple[float | None, float | None]:
        """The count that the table shows, by the simulator and by the hardware."""
        return self.counts[self.count] if self.count else (None, None)


def lines(lessons: Lessons, archive: Archive) -> Iterator[Line]:
    """Every row of every record, and the simulated rows of experiments without a record.

    Raises:
        RecordError: a record is malformed.
    """
    simulated = lessons.simulated()
    stale = {(measurement.name, *row) for _, measurement in lessons.every() for row in measurement.outdated}
    place = {measurement.name: lesson for lesson, measurement in lessons.every()}
    wanted = {measurement.name: measurement.counts for _, measurement in lessons.every()}
    order = list(place)
    known = [record for record in archive.records() if record.experiment in place]
    known.sort(key=lambda record: order.index(record.experiment))
    for record in known:
        for row in record.rows:
            case, counts_by_name = simulated.get((record.experiment, row.variant), ({}, None))
            counts = _counts(counts_by_name if dict(case) == dict(row.case) else None, row.counters)
            lower_bound = bound_of(row, record)
            yield Line(
                lesson=record.lesson,
                experiment=record.experiment,
                row=row,
                predicted_us=lower_bound.time_us if lower_bound and row.median else None,
                counts=counts,
                count=_chosen(counts, wanted[record.experiment]),
                record=record,
                stale=(record.experiment, record.provenance["device"], row.variant) in stale,
            )
    recorded = {record.experiment for record in known}
    for (experiment, variant), (case, counts_by_name) in simulated.items():
        if experiment not in recorded:
            counts = _counts(counts_by_name, None)
            row = Row(variant, "variant", case)
            yield Line(place[experiment], experiment, row, counts, _chosen(counts, wanted[experiment]))


def _counts(
    simulated: Mapping[str, float] | None, counted: Mapping[str, float] | None
) -> dict[str, tuple[float | None, float | None]]:
    both = {name: (total(simulated, name), total(counted, name)) for name in COUNTS}
    return {name: pair for name, pair in both.items() if pair != (None, None)}


def _chosen(counts: Mapping[str, tuple[float | None, float | None]], wanted: Sequence[str]) -> str:
    return next((name for name in (*wanted, *COUNTS) if name in counts), "")


def fragment(name: str, lessons: Lessons, archive: Archive) -> str:
    """One of ``FRAGMENTS``, or ``MISS`` followed by an experiment, as HTML without blank lines.

    Raises:
        KeyError: the experiment after ``MISS`` was not predicted, or not recorded since.
    """
    if name.startswith(MISS):
        return escape(comparison.facts(archive, name.removeprefix(MISS)))
    if name == "devices":
        return _devices()
    if name == "provenance":
        return _provenance_lists(archive)
    if name == "comparison":
        return comparison.fragment(archive)
    all_lines = sorted(lines(lessons, archive), key=lambda line: list(lessons.titles).index(line.lesson))
    return _table(all_lines, lessons, _own(all_lines, archive))


def _own(all_lines: Sequence[Line], archive: Archive) -> str:
    """The name of the course's own device; empty if nothing is recorded."""
    devices = dict.fromkeys(line.device for line in all_lines if line.record)
    return next((name for name in devices if device_slug(name) == archive.home), next(iter(devices), ""))


def _table(all_lines: Sequence[Line], lessons: Lessons, own: str) -> str:
    """The table of all rows, with one ``tbody`` per lesson; without the site's script it shows all rows.

    Args:
        all_lines: its lines, grouped by lesson.
        lessons: titles and URLs of the lessons.
        own: the device whose rows are shown until the reader chooses another.
    """
    heads = ""
    for name, unit in HEADS:
        shown = f' <span class="tw-unit">{unit}</span>' if unit else ""
        heads += f'<th scope="col" class="tw-{"right" if heads else "left"}">{name}{shown}</th>'
    named: set[str] = set()
    bodies = []
    for lesson, lesson_lines in groupby(all_lines, lambda line: line.lesson):
        title, url = escape(lessons.titles[lesson]), escape(f"../{lessons.urls[lesson]}")
        bodies.append(
            f'<tbody data-group="{title}"><tr class="tw-group"><th colspan="{len(HEADS)}" scope="rowgroup">'
            f'<span class="tw-stay"><a href="{url}">{title}</a></span></th></tr>'
        )
        for line in lesson_lines:
            anchor = "" if line.experiment in named else f' id="{escape(line.experiment)}"'
            named.add(line.experiment)
            place = f'<a class="tw-row-lesson" href="{url}">{title}</a>'
            bodies.append(
                f'<tr{anchor} data-lesson="{title}" data-device="{escape(line.device)}">'
                f"{_head(line, own, url, place)}{''.join(_cells(line))}</tr>"
            )
        bodies.append("</tbody>")
    chosen = f' data-first-device="{escape(own)}"' if own else ""
    if all_lines:  # one lesson until the reader chooses more
        chosen += f' data-first-lesson="{escape(lessons.titles[all_lines[0].lesson])}"'
    return "\n".join([
        '<div class="tw-search-in" data-search="measurements">',
        '<div class="tw-table tw-all-rows" tabindex="0" role="group" aria-label="All measurements">',
        f'<table class="tw-sortable" data-filters="lesson device"{chosen}><thead><tr>{heads}</tr></thead>',
        *bodies, "</table></div></div>",
    ])  # fmt: skip


def _head(line: Line, own: str, url: str, place: str) -> str:
    """The first cell: the variant above its experiment and size, a fold with facts, and its lesson."""
    size = case_text(line.row.case)
    of = escape(f"{line.experiment}{', ' if size else ''}{size}")
    key = escape(f"{line.row.variant} {line.experiment} {size}")
    return (
        f'<th scope="row" class="tw-row-head" data-key="{key}"><details>'
        f"<summary><b>{escape(line.row.variant)}</b>{_tag(line, own)}<small>{of}</small></summary>"
        f"{_facts(line, url)}</details>{place}</th>"
    )


def _tag(line: Line, own: str) -> str:
    """A row's tags: a library, another device, not recorded."""
    words = ["library"] if line.row.role == "library" else []
    if line.record is None:
        words.append("not recorded")
    elif line.device != own:
        entry = device(line.device)
        words.append(entry.name if entry else line.device)
    return "".join(f" <i>{escape(word)}</i>" for word in words)


def _facts(line: Line, url: str) -> str:
    """The row's experiment, its other counts and its record, as a list of facts."""
    facts = [("experiment", f'<a href="{url}#{escape(line.experiment)}">{escape(line.experiment)}</a>')]
    for name, (simulated, counted) in line.counts.items():
        if name != line.count and (simulated or counted):
            values = (("simulated", simulated), ("counted", counted))
            shown = [f"{_short(value)} {how}" for how, value in values if value is not None]
            facts.append((COUNTS[name].title, ", ".join(shown)))
    if line.record is not None:
        file = escape(record_url(line.experiment, line.device).removeprefix("measurements/"))
        facts.append(("record", f'<a href="{file}" data-record-file>{escape(line.experiment)}.json</a>'))
    members = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<dl class="tw-provenance-list">{members}</dl>'


def _cells(line: Line) -> Iterator[str]:
    median, bound = line.row.median, line.predicted_us
    recorded = ""
    if median is not None:
        target = provenance_id(line.experiment, line.device)
        mark = "tw-stale" if line.stale else ""
        recorded = provenance_link(_short(median), target, spread_of(line.row), mark)
    share = 100 * bound / median if bound and median else None
    yield _cell(median, "measured", recorded)
    yield _cell(bound, "predicted")
    yield _cell(median - bound if bound and median else None)
    yield _cell(share, "", _short(float(f"{share:.3g}")) if share is not None else "")
    unit = f"<small>{escape(COUNTS[line.count].title)}</small>" if line.count else ""
    for value, mark in zip(line.shown, ("predicted", "measured"), strict=True):
        yield _cell(value, mark, f"{_short(value)}{unit}" if value is not None else "")


def _cell(value: float | None, mark: str = "", shown: str = "") -> str:
    """A cell with a number to sort by; empty without one. ``shown`` is the number as HTML."""
    if value is None:
        return '<td class="tw-right"></td>'
    role = f' data-mark="{mark}"' if mark else ""
    return f'<td class="tw-right"{role} data-value="{value:.9g}">{shown or _short(value)}</td>'


def _short(value: float) -> str:
    """A number with four digits, or all digits before the decimal point."""
    return number(int(value)) if value == int(value) else number(float(f"{value:.4g}"))


def _provenance_lists(archive: Archive) -> str:
    lists = [
        f"<h3>{escape(record.experiment)}, {escape(str(record.provenance['device']))}</h3>"
        + provenance_list(record.experiment, record.provenance, lambda path: f"../{path}")
        for record in archive.records()
    ]
    summary = "<summary>Device, clocks, versions and date of each record</summary>"
    return f'<details class="tw-provenance">{summary}{"".join(lists)}</details>'


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
            *(entry.name, entry.sms, entry.boost_mhz, entry.memory_gb, entry.memory_gb_per_s, entry.l2_mb),
            *(entry.peak_tflop_per_s.get(kind) for kind in kinds.values()),
            entry.source,
        ]
        for entry in DEVICES
    ]
    return Table(columns, rows).html()


def record_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Records and predictions that the site publishes, as a path relative to its root and a file."""
    for path in sorted((root / "measurements").glob("*/*.json")):
        yield path.relative_to(root).as_posix(), path
    for path in sorted((root / "predictions").glob("*.json")):
        yield f"measurements/{path.relative_to(root).as_posix()}", path
