"""All kernels on one roofline: every recorded row with bytes and operations, under the roof of its device.

In: the archive. Out: for each device a figure, the file that holds its data, and a table for a page at the
site's root. A row that says nothing of its bytes or operations, that is a copy, or whose time holds the
host's work, has no place on a roof.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.figures import Figure, Series, line_chart
from tilewise.measurements.archive import Archive, ceilings_of
from tilewise.measurements.machines import beside_each_other, machines
from tilewise.measurements.output import Measurement
from tilewise.measurements.record import Record, Row
from tilewise.measurements.slugs import case_text
from tilewise.models.roofline import Ceilings, attainable_tflop_per_s
from tilewise.outputs.table import Cell, Column, Table

FOLDER = "assets/figures"
"""Where the figure's data are, from the site's root."""

COPIES = ("copy", "a copy")
"""Labels of kernels that only copy: a yardstick without the operations that their experiment counts."""

Measured = Mapping[str, Sequence[Measurement]]
"""What each lesson measures, by its id."""


@dataclass(frozen=True)
class Point:
    """A row of a record, placed under its roof."""

    record: Record
    row: Row
    intensity: float
    """FLOP per byte."""
    tflop_per_s: float
    share: float
    """The rate as a share of the roof above its intensity."""


def points(
    archive: Archive, titles: Mapping[str, str], measured: Measured | None = None
) -> dict[str, tuple[Point, ...]]:
    """Every row that has a place under the roof of its device, by lesson and experiment.

    Args:
        archive: the records.
        titles: the lessons' titles by their ids; rows of other lessons are left out.
        measured: what the lessons measure now; rows that no longer hold are left out.

    Returns:
        The points of each device that has some, by the folder of its records, the course's own device first.
    """
    on_devices = {one["id"]: _points_on(archive, one["id"], titles, measured) for one in machines(archive)}
    return {folder: every for folder, every in on_devices.items() if every}


def _points_on(
    archive: Archive, folder: str, titles: Mapping[str, str], measured: Measured | None
) -> tuple[Point, ...]:
    every: list[Point] = []
    for record in archive.records(folder):
        if record.lesson not in titles or str(record.method.get("lead_in", "")).startswith("none"):
            continue
        current = None if measured is None else _current(measured, record.provenance["device"])
        ceilings = _roof(record)
        if record.arithmetic not in ceilings.tflop_per_s:
            continue
        for row in record.rows:
            if not (row.bytes and row.flop and row.median) or row.variant in COPIES:
                continue
            if current is not None and (record.experiment, row.variant) not in current:
                continue
            intensity, rate = row.flop / row.bytes, row.flop / row.median / 1e6
            share = rate / attainable_tflop_per_s(ceilings, intensity, record.arithmetic)
            every.append(Point(record, row, intensity, rate, share))
    return tuple(sorted(every, key=lambda point: (point.record.lesson, point.record.experiment)))


def _current(measured: Measured, chosen: str) -> set[tuple[str, str]]:
    """Experiments and labels whose rows on a device hold for the lessons as they are now."""
    return {
        (made.name, row["variant"])
        for several in measured.values()
        for made in several
        for row in made.rows
        if (chosen, row["variant"]) not in made.outdated
    }


def best_of_lessons(every: Sequence[Point]) -> tuple[Point, ...]:
    """Of each lesson the kernel that comes closest to its roof; libraries don't count."""
    best: dict[str, Point] = {}
    for point in every:
        lesson = point.record.lesson
        if point.row.role == "variant" and (lesson not in best or point.share > best[lesson].share):
            best[lesson] = point
    return tuple(best.values())


def _roof(record: Record) -> Ceilings:
    return ceilings_of(record.provenance) or Ceilings(1.0, {})


def figure(titles: Mapping[str, str], every: Sequence[Point]) -> Figure:
    """Points, at least one, under the roofs of the one device that they were recorded on."""
    low = min(one.intensity for one in every) / 2
    high = max(64.0, max(one.intensity for one in every) * 2)
    series: list[Series] = []
    where = every[0].record.provenance["device"]
    ceilings = _roof(every[0].record)
    for kind in sorted({one.record.arithmetic for one in every}):
        ridge = ceilings.ridge_flop_per_byte(kind)
        ends = [low, ridge, max(high, ridge * 2)]
        heights = [attainable_tflop_per_s(ceilings, x, kind) for x in ends]
        series.append(Series(_roof_name(kind), ends, heights, role="predicted", marks=False))
    best = best_of_lessons(every)
    others = [one for one in every if one.row.role == "variant" and one not in best]
    libraries = [one for one in every if one.row.role == "library"]
    for label, role, mine, size in (
        ("other kernels", "waste", others, 6),
        ("libraries", "lane", libraries, 6),
        ("best of each lesson", "block", best, 11),
    ):
        if mine:
            x, y = [one.intensity for one in mine], [one.tflop_per_s for one in mine]
            names = [_name(one, titles) for one in mine]
            series.append(Series(label, x, y, role=role, line=False, names=names, size=size))
    return line_chart(
        series,
        x="intensity [FLOP/B]",
        y="rate [TFLOP/s]",
        log_x=True,
        log_y=True,
        height=520,
        title="The best kernel of each lesson, and all others, under one roof",
        caption=f"{len(every):,} rows recorded on an {where}: operations per byte by the lessons' formulas "
        "and the rate reached. The roofs are the peaks of its data sheet. Point at a mark or tap it to see "
        "which kernel it is.",
    )


def _roof_name(kind: str) -> str:
    """``BF16 tensor cores`` for ``bf16_matrix``."""
    name, _, unit = kind.partition("_")
    return f"{name.upper()}{' tensor cores' if unit == 'matrix' else ''}"


def _name(one: Point, titles: Mapping[str, str]) -> str:
    """The kernel, its size and its lesson, in lines short enough for a phone."""
    size = case_text(one.row.case)
    lines = [
        f"{one.row.variant}{', ' if size else ''}{size}",
        titles[one.record.lesson],
        f"{one.share:.0%} of the roof",
    ]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, 38))


def data_files(
    archive: Archive, titles: Mapping[str, str], measured: Measured | None = None
) -> dict[str, bytes]:
    """The figures' data by path from the site's root; nothing where no row has a place under a roof."""
    contents = [figure(titles, every).json_bytes() for every in points(archive, titles, measured).values()]
    return {_path(content): content for content in contents}


def _path(content: bytes) -> str:
    return f"{FOLDER}/{hashlib.sha256(content).hexdigest()[:16]}.json"


def fragment(
    archive: Archive,
    titles: Mapping[str, str],
    urls: Mapping[str, str],
    measured: Measured | None = None,
) -> str:
    """The figure and the tables of each device, as HTML for a page one level below the site's root.

    Args:
        archive: the records.
        titles: the lessons' titles by their ids.
        urls: the lessons' pages relative to the site's root, by their ids.
        measured: what the lessons measure now, as in ``points``.

    Returns:
        HTML without blank lines, with what belongs to further devices beside the first one's; empty where no
        row has a place under a roof.
    """
    return beside_each_other(
        {
            folder: _on_one_device(titles, urls, every)
            for folder, every in points(archive, titles, measured).items()
        }
    )


def _on_one_device(titles: Mapping[str, str], urls: Mapping[str, str], every: Sequence[Point]) -> str:
    made = figure(titles, every)
    address = _path(made.json_bytes())
    order = list(titles)
    best = sorted(best_of_lessons(every), key=lambda one: order.index(one.record.lesson))
    columns = (
        Column("lesson", "", "left"),
        Column("kernel or library", "", "left"),
        Column("of the roof", "%", "right"),
        Column("rate", "TFLOP/s", "right"),
        Column("intensity", "FLOP/B", "right"),
        Column("size", "", "left"),
    )
    table = Table(
        columns,
        [_row(one, titles, urls) for one in every],
        caption="How close each row comes to the roof above it.",
    )
    folded = (
        f'<details class="tw-rows"><summary>The {len(every):,} rows as a table</summary>\n'
        f"{table.html()}\n</details>"
    )
    closest = Table(
        [columns[0], Column("best kernel", "", "left"), *columns[2:]],
        [_row(one, titles, urls) for one in best],
        caption="The kernel of each lesson that comes closest to the roof above it.",
    )
    return f"{made.html(f'../{address}', 'every-kernel')}\n{closest.html()}\n{folded}"


def _row(one: Point, titles: Mapping[str, str], urls: Mapping[str, str]) -> Sequence[Any]:
    lesson, label = one.record.lesson, one.row.variant
    return [
        Cell(titles[lesson], None, f"../{urls[lesson]}#{one.record.experiment}"),
        Cell(label, "library") if one.row.role == "library" else label,
        float(f"{100 * one.share:.3g}"),
        float(f"{one.tflop_per_s:.3g}"),
        float(f"{one.intensity:.3g}"),
        case_text(one.row.case),
    ]
