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
from tilewise.measurements.births import birth_id, birth_list, born, record_url
from tilewise.measurements.counting import total
from tilewise.measurements.output import Measurement
from tilewise.measurements.record import Record, Row
from tilewise.measurements.rounds import spread_of
from tilewise.measurements.slugs import case_text
from tilewise.models.devices import DEVICES
from tilewise.outputs.table import number

FRAGMENTS = ("all", "births", "comparison", "devices")
"""What ``fragment`` makes."""


@dataclass(frozen=True)
class Lessons:
    """What the page knows of the course."""

    measured: Mapping[str, Sequence[Measurement]]
    """The measurements of each lesson, by its id, in reading order."""
    titles: Mapping[str, str]
    """The lessons' titles."""
    urls: Mapping[str, str]
    """The URLs of their pages, relative to the site's root."""

    def simulated(self) -> dict[tuple[str, str], tuple[Mapping[str, Any], Mapping[str, float] | None]]:
        """The size at which was counted and the counts, by experiment and variant."""
        found: dict[tuple[str, str], tuple[Mapping[str, Any], Mapping[str, float] | None]] = {}
        for made in (one for several in self.measured.values() for one in several):
            for row in made.rows:
                if made.count_case is not None and row.get("simulated"):
                    found[made.name, row["variant"]] = (made.count_case, row["simulated"])
        return found


@dataclass(frozen=True)
class Line:
    """One row of the table of all measurements."""

    lesson: str
    experiment: str
    variant: str
    role: str
    case: Mapping[str, Any]
    predicted_us: float | None
    """The bound."""
    simulated: float | None
    """Sectors by the simulator, at this case."""
    counted: float | None
    """Sectors by the hardware's counters, at this case."""
    row: Row | None
    """The recorded times; None where nothing is recorded."""
    record: Record | None
    """The record that they are in."""
    stale: bool
    """Whether what was measured has changed since."""


def lines(lessons: Lessons, archive: Archive) -> Iterator[Line]:
    """Every row: of each record on each device, and what was simulated of experiments without one.

    Raises:
        RecordError: a record cannot be believed.
    """
    simulated = lessons.simulated()
    records = list(archive.records())
    stale = {made.name for several in lessons.measured.values() for made in several if made.stale}
    place = {made.name: lesson for lesson, several in lessons.measured.items() for made in several}
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
            yield Line(
                record.lesson, record.experiment, row.variant, row.role, row.case,
                least.time_us if least and row.median else None,
                total(found, "sectors") if here else None, total(row.counters, "sectors"),
                row, record, record.experiment in stale,
            )  # fmt: skip
    recorded = {(record.experiment) for record in known}
    for (experiment, variant), (case, found) in simulated.items():
        if experiment not in recorded:
            yield Line(
                place[experiment], experiment, variant, "variant", case, None, total(found, "sectors"),
                None, None, None, True,
            )  # fmt: skip


def fragment(name: str, lessons: Lessons, archive: Archive) -> str:
    """One of ``FRAGMENTS``, as HTML without blank lines."""
    if name == "devices":
        return _devices()
    if name == "births":
        return _births(archive)
    if name == "comparison":
        return comparison.fragment(archive)
    return _all(list(lines(lessons, archive)), lessons)


_HEADS = (
    "lesson", "experiment", "variant", "size", "predicted, µs", "sectors simulated", "sectors counted",
    "recorded, µs", "p20", "p80", "predicted / recorded, %", "device", "date", "library", "record",
)  # fmt: skip


def _all(found: Sequence[Line], lessons: Lessons) -> str:
    heads = "".join(
        f'<th scope="col"{_right(at in range(4, 11))}>{escape(head)}</th>' for at, head in enumerate(_HEADS)
    )
    named: set[str] = set()
    body = []
    for line in found:
        anchor = "" if line.experiment in named else f' id="{escape(line.experiment)}"'
        named.add(line.experiment)
        body.append(f"<tr{anchor}>{''.join(_cells(line, lessons))}</tr>")
    return "\n".join([
        '<div class="tw-table tw-all-rows" tabindex="0" role="group" aria-label="All measurements">',
        f'<table class="tw-sortable" data-filters="0 11"><thead><tr>{heads}</tr></thead>',
        "<tbody>", *body, "</tbody></table></div>",
    ])  # fmt: skip


def _cells(line: Line, lessons: Lessons) -> Iterator[str]:
    title, url = lessons.titles[line.lesson], f"../{lessons.urls[line.lesson]}"
    yield f'<td><a href="{escape(url)}">{escape(title)}</a></td>'
    yield f'<td><a href="{escape(url)}#{escape(line.experiment)}">{escape(line.experiment)}</a></td>'
    yield f"<td>{escape(line.variant)}</td><td>{escape(case_text(line.case))}</td>"
    median = line.row.median if line.row else None
    yield _number(line.predicted_us, "predicted")
    yield _number(line.simulated, "predicted") + _number(line.counted, "measured")
    if line.row is None or line.record is None or median is None:
        yield from ("<td></td>",) * 4
    else:
        mark = "tw-stale" if line.stale else ""
        spread = spread_of(line.row)
        birth = birth_id(line.experiment, line.record.provenance["device"])
        yield _number(median, "measured", born(_short(median), birth, spread, mark))
        yield _number(line.row.p20) + _number(line.row.p80)
        yield _number(100 * line.predicted_us / median if line.predicted_us else None)
    if line.record is None:
        yield "<td>not recorded</td><td></td><td></td><td></td>"
        return
    device, day = str(line.record.provenance["device"]), str(line.record.provenance["date"])
    file = record_url(line.experiment, device).removeprefix("measurements/")
    yield f"<td>{escape(device)}</td><td>{escape(day)}</td>"
    yield f"<td>{escape(line.variant) if line.role == 'library' else ''}</td>"
    yield f'<td><a href="{escape(file)}" data-birth-file>JSON</a></td>'


def _number(value: float | None, mark: str = "", shown: str = "") -> str:
    if value is None:
        return f"<td{_right(True)}></td>"
    role = f' data-mark="{mark}"' if mark else ""
    return f'<td{_right(True)}{role} data-value="{value:.9g}">{shown or _short(value)}</td>'


def _short(value: float) -> str:
    return number(int(value)) if value == int(value) else number(float(f"{value:.4g}"))


def _right(wanted: bool) -> str:
    return ' class="tw-right"' if wanted else ' class="tw-left"'


def _births(archive: Archive) -> str:
    lists = [
        f"<h3>{escape(record.experiment)}, {escape(str(record.provenance['device']))}</h3>"
        + birth_list(record.experiment, record.provenance, _beside)
        for record in archive.records()
    ]
    summary = "<summary>Device, clocks, versions and date of each record</summary>"
    return f'<details class="tw-provenance">{summary}{"".join(lists)}</details>'


def _beside(path: str) -> str:
    """A file of the site from the page of all measurements, which stands in a folder of its own."""
    return f"../{path}"


def _devices() -> str:
    kinds = (("fp32", "fp32"), ("fp16 matrix", "fp16_matrix"), ("bf16 matrix", "bf16_matrix"))
    heads = ["device", "SMs", "clock, MHz", "memory, GB", "memory, GB/s", "L2, MB"]
    heads += [f"{label}, TFLOP/s" for label, _ in kinds]
    top = "".join(f'<th scope="col"{_right(at > 0)}>{head}</th>' for at, head in enumerate(heads))
    body = []
    for entry in DEVICES:
        values: list[float | None] = [
            entry.sms, entry.boost_mhz, entry.memory_gb, entry.memory_gb_per_s, entry.l2_mb,
        ]  # fmt: skip
        for _, kind in kinds:
            known = kind in entry.fma_per_sm_clock
            values.append(float(f"{entry.peak_tflop_per_s(kind):.4g}") if known else None)
        cells = "".join(_number(value) for value in values)
        body.append(f"<tr><td>{escape(entry.name)}</td>{cells}<td>{escape(entry.source)}</td></tr>")
    return "\n".join([
        '<div class="tw-table" tabindex="0" role="group" aria-label="Devices">',
        f'<table class="tw-sortable"><thead><tr>{top}'
        '<th scope="col" class="tw-left">source</th></tr></thead>',
        "<tbody>", *body, "</tbody></table></div>",
    ])  # fmt: skip


def record_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Records and predictions that the site publishes: path relative to its root, and file."""
    for folder in ("measurements", "predictions"):
        for path in sorted((root / folder).rglob("*.json")):
            inside = path.relative_to(root / folder).as_posix()
            yield (
                f"measurements/{inside}"
                if folder == "measurements"
                else f"measurements/predictions/{inside}",
                path,
            )
