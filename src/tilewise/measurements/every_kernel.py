"""All kernels on one roofline: every recorded row with bytes and operations, under the roof of its device.

In: the archive. Out: for each device a figure, its data file, and a table for a page at the site's root. Rows
without bytes or operations, copies, and rows whose time includes host work are left out.
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
"""The folder of the figure's data, relative to the site's root."""

COPIES = ("copy", "a copy")
"""Labels of kernels that only copy, a baseline without the operations that their experiment counts."""

Measured = Mapping[str, Sequence[Measurement]]
"""Each lesson's measurements, by its id."""


@dataclass(frozen=True)
class Point:
    """A row of a record under its roof."""

    record: Record
    row: Row
    intensity: float
    """FLOP per byte."""
    tflop_per_s: float
    share: float
    """The rate as a fraction of the roof at its intensity."""


def points(
    archive: Archive, titles: Mapping[str, str], measured: Measured | None = None
) -> dict[str, tuple[Point, ...]]:
    """Every row that can be placed under the roof of its device, by lesson and experiment.

    Args:
        archive: the records.
        titles: the lessons' titles by their ids; rows of other lessons are left out.
        measured: what the lessons measure now; stale rows are left out.

    Returns:
        The points of each device that has any, by its folder of records, the course's own device first.
    """
    on_devices = {
        machine["id"]: _points_on(archive, machine["id"], titles, measured) for machine in machines(archive)
    }
    return {folder: points_on_device for folder, points_on_device in on_devices.items() if points_on_device}


def _points_on(
    archive: Archive, folder: str, titles: Mapping[str, str], measured: Measured | None
) -> tuple[Point, ...]:
    points_on_device: list[Point] = []
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
            points_on_device.append(Point(record, row, intensity, rate, share))
    return tuple(sorted(points_on_device, key=lambda point: (point.record.lesson, point.record.experiment)))


def _current(measured: Measured, chosen: str) -> set[tuple[str, str]]:
    """Experiments and labels whose rows on a device are current."""
    return {
        (measurement.name, row["variant"])
        for measurements in measured.values()
        for measurement in measurements
        for row in measurement.rows
        if (chosen, row["variant"]) not in measurement.outdated
    }


def best_of_lessons(all_points: Sequence[Point]) -> tuple[Point, ...]:
    """The kernel of each lesson that comes closest to its roof, without libraries."""
    best: dict[str, Point] = {}
    for point in all_points:
        lesson = point.record.lesson
        if point.row.role == "variant" and (lesson not in best or point.share > best[lesson].share):
            best[lesson] = point
    return tuple(best.values())


def _roof(record: Record) -> Ceilings:
    return ceilings_of(record.provenance) or Ceilings(1.0, {})


def figure(titles: Mapping[str, str], all_points: Sequence[Point]) -> Figure:
    """Points, at least one and all from one device, under its roofs."""
    low = min(point.intensity for point in all_points) / 2
    high = max(64.0, max(point.intensity for point in all_points) * 2)
    series: list[Series] = []
    device = all_points[0].record.provenance["device"]
    ceilings = _roof(all_points[0].record)
    for kind in sorted({point.record.arithmetic for point in all_points}):
        ridge = ceilings.ridge_flop_per_byte(kind)
        ends = [low, ridge, max(high, ridge * 2)]
        heights = [attainable_tflop_per_s(ceilings, x, kind) for x in ends]
        series.append(Series(_roof_name(kind), ends, heights, role="predicted", marks=False))
    best = best_of_lessons(all_points)
    others = [point for point in all_points if point.row.role == "variant" and point not in best]
    libraries = [point for point in all_points if point.row.role == "library"]
    for label, role, group, size in (
        ("other kernels", "waste", others, 6),
        ("libraries", "lane", libraries, 6),
        ("best of each lesson", "block", best, 11),
    ):
        if group:
            x, y = [point.intensity for point in group], [point.tflop_per_s for point in group]
            names = [_name(point, titles) for point in group]
            series.append(Series(label, x, y, role=role, line=False, names=names, size=size))
    return line_chart(
        series,
        x="intensity [FLOP/B]",
        y="rate [TFLOP/s]",
        log_x=True,
        log_y=True,
        height=520,
        title="The best kernel of each lesson, and all others, under one roof",
        caption=f"{len(all_points):,} rows recorded on an {device}: operations per byte by the lessons' "
        "formulas and the rate reached. The roofs are the peaks of its data sheet. Point at a mark or tap "
        "it to see which kernel it is.",
    )


def _roof_name(kind: str) -> str:
    """``BF16 tensor cores`` for ``bf16_matrix``."""
    name, _, unit = kind.partition("_")
    return f"{name.upper()}{' tensor cores' if unit == 'matrix' else ''}"


def _name(point: Point, titles: Mapping[str, str]) -> str:
    """The kernel, its size and its lesson, in lines short enough for a phone."""
    size = case_text(point.row.case)
    lines = [
        f"{point.row.variant}{', ' if size else ''}{size}",
        titles[point.record.lesson],
        f"{point.share:.0%} of the roof",
    ]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, 38))


def data_files(
    archive: Archive, titles: Mapping[str, str], measured: Measured | None = None
) -> dict[str, bytes]:
    """The figures' data by path from the site's root; empty if there are no points."""
    contents = [
        figure(titles, all_points).json_bytes() for all_points in points(archive, titles, measured).values()
    ]
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
        HTML without blank lines, with all devices next to each other; empty if there are no points.
    """
    return beside_each_other(
        {
            folder: _on_one_device(titles, urls, all_points)
            for folder, all_points in points(archive, titles, measured).items()
        }
    )


def _on_one_device(titles: Mapping[str, str], urls: Mapping[str, str], all_points: Sequence[Point]) -> str:
    roofline = figure(titles, all_points)
    address = _path(roofline.json_bytes())
    order = list(titles)
    best = sorted(best_of_lessons(all_points), key=lambda point: order.index(point.record.lesson))
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
        [_row(point, titles, urls) for point in all_points],
        caption="How close each row comes to the roof above it.",
    )
    folded = (
        f'<details class="tw-rows"><summary>The {len(all_points):,} rows as a table</summary>\n'
        f"{table.html()}\n</details>"
    )
    closest = Table(
        [columns[0], Column("best kernel", "", "left"), *columns[2:]],
        [_row(point, titles, urls) for point in best],
        caption="The kernel of each lesson that comes closest to the roof above it.",
    )
    return f"{roofline.html(f'../{address}', 'every-kernel')}\n{closest.html()}\n{folded}"


def _row(point: Point, titles: Mapping[str, str], urls: Mapping[str, str]) -> Sequence[Any]:
    lesson, label = point.record.lesson, point.row.variant
    return [
        Cell(titles[lesson], None, f"../{urls[lesson]}#{point.record.experiment}"),
        Cell(label, "library") if point.row.role == "library" else label,
        float(f"{100 * point.share:.3g}"),
        float(f"{point.tflop_per_s:.3g}"),
        float(f"{point.intensity:.3g}"),
        case_text(point.row.case),
    ]
