"""All kernels on one roofline: every recorded row with bytes and operations, under the roof of its device.

In: the archive. Out: a figure, the file that holds its data, and a table for a page at the site's root. A row
that says nothing of its bytes or operations, or whose time holds the host's work, has no place on a roof.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.figures import Figure, Series, line_chart
from tilewise.measurements.archive import Archive, ceilings_of
from tilewise.measurements.record import Record
from tilewise.measurements.slugs import case_text
from tilewise.models.devices import device
from tilewise.models.roofline import Ceilings, attainable_tflop_per_s, stated
from tilewise.outputs.table import Cell, Column, Table

FOLDER = "assets/figures"
"""Where the figure's data lie, from the site's root."""


@dataclass(frozen=True)
class Point:
    """A row of a record, placed under its roof."""

    lesson: str
    """The lesson's id."""
    experiment: str
    """The experiment's name."""
    label: str
    """The variant or library."""
    role: str
    """``variant`` or ``library``."""
    case: Mapping[str, Any]
    """Its parameters."""
    arithmetic: str
    """Which units do the operations."""
    intensity: float
    """FLOP per byte."""
    tflop_per_s: float
    """The rate recorded."""
    share: float
    """The rate as a share of the roof above its intensity."""


def first_device(archive: Archive) -> str:
    """The device whose records the course shows: the one of the first record found."""
    return next((record.provenance["device"] for record in archive.records()), "")


def points(archive: Archive) -> tuple[Point, ...]:
    """Every row that has a place under the roof of the course's device, by lesson and experiment."""
    chosen = first_device(archive)
    found: list[Point] = []
    for record in archive.records():
        if record.provenance["device"] != chosen or str(record.method.get("lead_in", "")).startswith("none"):
            continue
        ceilings = _roof(record)
        if record.arithmetic not in ceilings.tflop_per_s:
            continue
        for row in record.rows:
            if not (row.bytes and row.flop and row.median):
                continue
            intensity, rate = row.flop / row.bytes, row.flop / row.median / 1e6
            share = rate / attainable_tflop_per_s(ceilings, intensity, record.arithmetic)
            found.append(
                Point(
                    lesson=record.lesson,
                    experiment=record.experiment,
                    label=row.variant,
                    role=row.role,
                    case=row.case,
                    arithmetic=record.arithmetic,
                    intensity=intensity,
                    tflop_per_s=rate,
                    share=share,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.lesson, one.experiment)))


def _roof(record: Record) -> Ceilings:
    measured = ceilings_of(record.provenance)
    known = device(record.provenance["device"])
    if measured is not None or known is None:
        return measured or Ceilings(1.0, {})
    return stated(known)


def figure(archive: Archive, titles: Mapping[str, str]) -> Figure:
    """The points of all lessons under the roofs of the device that they were recorded on.

    Args:
        archive: the records.
        titles: the lessons' titles by their ids; rows of other lessons are left out.

    Raises:
        ValueError: no row has a place under a roof.
    """
    every = [one for one in points(archive) if one.lesson in titles]
    if not every:
        raise ValueError("no recorded row has both bytes and operations")
    low = min(one.intensity for one in every) / 2
    high = max(64.0, max(one.intensity for one in every) * 2)
    series: list[Series] = []
    chosen = next(one for one in archive.records() if one.provenance["device"] == first_device(archive))
    ceilings = _roof(chosen)
    for kind in sorted({one.arithmetic for one in every}):
        ridge = ceilings.ridge_flop_per_byte(kind)
        heights = [attainable_tflop_per_s(ceilings, x, kind) for x in (low, ridge, max(high, ridge * 2))]
        ends = [low, ridge, max(high, ridge * 2)]
        series.append(Series(f"peak (data sheet), {kind}", ends, heights, role="predicted", marks=False))
    for role, colour, label in (("variant", "block", "kernels"), ("library", "warp", "libraries")):
        mine = [one for one in every if one.role == role]
        if mine:
            x, y = [one.intensity for one in mine], [one.tflop_per_s for one in mine]
            series.append(Series(label, x, y, role=colour, line=False))
    where = first_device(archive)
    return line_chart(
        series,
        x="intensity [FLOP/B]",
        y="rate [TFLOP/s]",
        log_x=True,
        log_y=True,
        height=520,
        title="Every kernel of the course under the roof of the device that it was recorded on",
        caption=f"{len(every):,} rows of the course's records on an {where}: operations per byte by the "
        "lesson's own formulas, and the rate reached. The roofs are the peaks of its data sheet.",
    )


def data_files(archive: Archive, titles: Mapping[str, str]) -> dict[str, bytes]:
    """The figure's data by path from the site's root; nothing where no row has a place under a roof."""
    if not any(one.lesson in titles for one in points(archive)):
        return {}
    content = figure(archive, titles).json_bytes()
    return {f"{FOLDER}/{hashlib.sha256(content).hexdigest()[:16]}.json": content}


def fragment(archive: Archive, titles: Mapping[str, str], urls: Mapping[str, str]) -> str:
    """The figure and the table, as HTML for a page one level below the site's root.

    Args:
        archive: the records.
        titles: the lessons' titles by their ids.
        urls: the lessons' pages relative to the site's root, by their ids.
    """
    made = figure(archive, titles)
    [address] = data_files(archive, titles)
    rows = [_row(one, titles, urls) for one in points(archive) if one.lesson in titles]
    table = Table(
        [
            Column("lesson", "", "left"),
            Column("kernel or library", "", "left"),
            Column("size", "", "left"),
            Column("intensity", "FLOP/B", "right"),
            Column("rate", "TFLOP/s", "right"),
            Column("share of the roof", "%", "right"),
        ],
        rows,
        caption="How far each row reaches towards the roof above it.",
    )
    folded = (
        f'<details class="tw-rows"><summary>The {len(rows):,} rows as a table</summary>\n'
        f"{table.html()}\n</details>"
    )
    return f"{made.html(f'../{address}', 'every-kernel')}\n\n{folded}"


def _row(one: Point, titles: Mapping[str, str], urls: Mapping[str, str]) -> Sequence[Any]:
    label = Cell(one.label, "library") if one.role == "library" else one.label
    return [
        Cell(titles[one.lesson], None, f"../{urls[one.lesson]}#{one.experiment}"),
        label,
        case_text(one.case),
        float(f"{one.intensity:.3g}"),
        float(f"{one.tflop_per_s:.3g}"),
        float(f"{100 * one.share:.3g}"),
    ]
