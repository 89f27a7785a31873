"""The table of all measurements: a row's name, then what was recorded of it, predicted and counted.

In: lines of the page, by lesson. Out: one table as HTML, a ``tbody`` a lesson. What is asked for less often
stands in a fold behind a row's name. The site's script sorts, folds and chooses; without it all rows show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tilewise.measurements.counting import COUNTS
from tilewise.measurements.provenance_links import provenance_id, provenance_link, record_url
from tilewise.measurements.rounds import spread_of
from tilewise.measurements.slugs import case_text
from tilewise.models.devices import device
from tilewise.outputs.table import number

if TYPE_CHECKING:
    from tilewise.measurements.page import Lessons, Line

HEADS = (
    ("variant", ""), ("recorded", "µs"), ("bound", "µs"), ("recorded - bound", "µs"),
    ("bound / recorded", "%"), ("simulated", ""), ("counted", ""),
)  # fmt: skip
"""The columns, each with its unit."""


def every_row(found: Sequence[Line], lessons: Lessons, own: str) -> str:
    """The table.

    Args:
        found: its lines, those of a lesson side by side.
        lessons: what their lessons are called and where their pages are.
        own: the device whose rows are shown first; the others by the reader's choice.
    """
    heads = "".join(
        f'<th scope="col"{side(at > 0)}>{escape(name)}{unit_of(unit)}</th>'
        for at, (name, unit) in enumerate(HEADS)
    )
    named: set[str] = set()
    bodies = []
    for lesson, several in groupby(found, lambda line: line.lesson):
        title, url = escape(lessons.titles[lesson]), escape(f"../{lessons.urls[lesson]}")
        bodies.append(
            f'<tbody data-group="{title}"><tr class="tw-group"><th colspan="{len(HEADS)}" scope="rowgroup">'
            f'<span class="tw-stay"><a href="{url}">{title}</a></span></th></tr>'
        )
        for line in several:
            anchor = "" if line.experiment in named else f' id="{escape(line.experiment)}"'
            named.add(line.experiment)
            of = device_of(line)
            fold, tag = _fold(line, url), _tag(line, own)
            place = f'<a class="tw-row-lesson" href="{url}">{title}</a>'
            head = row_head(line.variant, line.experiment, line.case, fold, tag, after=place)
            bodies.append(
                f'<tr{anchor} data-lesson="{title}" data-device="{escape(of)}">'
                f"{head}{''.join(_cells(line))}</tr>"
            )
        bodies.append("</tbody>")
    chosen = f' data-first-device="{escape(own)}"' if own else ""
    if found:  # one lesson at a time, until the reader asks for more
        chosen += f' data-first-lesson="{escape(lessons.titles[found[0].lesson])}"'
    return "\n".join([
        '<div class="tw-search-in" data-search="measurements">',
        '<div class="tw-table tw-all-rows" tabindex="0" role="group" aria-label="All measurements">',
        f'<table class="tw-sortable" data-filters="lesson device"{chosen}><thead><tr>{heads}</tr></thead>',
        *bodies, "</table></div></div>",
    ])  # fmt: skip


def row_head(
    variant: str,
    experiment: str,
    case: Mapping[str, Any],
    fold: str = "",
    tag: str = "",
    after: str = "",
) -> str:
    """The first cell of a row: its variant over its experiment and size.

    Args:
        variant: the row's label.
        experiment: the experiment's name.
        case: the size.
        fold: HTML of what opens behind the name; nothing opens without it.
        tag: a word beside the name, as HTML.
        after: HTML below the name.
    """
    size = escape(case_text(case))
    of = f"{escape(experiment)}{', ' if size else ''}{size}"
    shown = f"<b>{escape(variant)}</b>{tag}<small>{of}</small>"
    key = escape(f"{variant} {experiment} {case_text(case)}")
    inner = f"<details><summary>{shown}</summary>{fold}</details>" if fold else shown
    return f'<th scope="row" class="tw-row-head" data-key="{key}">{inner}{after}</th>'


def device_of(line: Line) -> str:
    """The device of a row; empty where nothing is recorded."""
    return str(line.record.provenance["device"]) if line.record else ""


def _tag(line: Line, own: str) -> str:
    """What sets a row apart: a library's, another device's, or not recorded."""
    words = ["library"] if line.role == "library" else []
    if line.record is None:
        words.append("not recorded")
    elif (name := device_of(line)) != own:
        entry = device(name)
        words.append(entry.name if entry else name)
    return "".join(f" <i>{escape(word)}</i>" for word in words)


def _fold(line: Line, url: str) -> str:
    """The row's experiment, its other counts and its record, as a list of facts."""
    facts = [("experiment", f'<a href="{url}#{escape(line.experiment)}">{escape(line.experiment)}</a>')]
    for name, (simulated, counted) in line.counts.items():
        if name != line.count and (simulated or counted):
            told = [f"{short(value)} {how}" for how, value in (("simulated", simulated), ("counted", counted))
                    if value is not None]  # fmt: skip
            facts.append((COUNTS[name].title, ", ".join(told)))
    if line.record is not None:
        file = record_url(line.experiment, device_of(line)).removeprefix("measurements/")
        facts.append(
            ("record", f'<a href="{escape(file)}" data-record-file>{escape(line.experiment)}.json</a>')
        )
    members = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<dl class="tw-provenance-list">{members}</dl>'


def _cells(line: Line) -> Iterator[str]:
    median = line.row.median if line.row else None
    if line.row is None or line.record is None or median is None:
        yield cell(None)
    else:
        target = provenance_id(line.experiment, device_of(line))
        mark = "tw-stale" if line.stale else ""
        yield cell(median, "measured", provenance_link(short(median), target, spread_of(line.row), mark))
    bound = line.predicted_us
    both = bound is not None and median is not None
    yield cell(bound, "predicted")
    yield cell(median - bound if both and median and bound else None)
    share = 100 * bound / median if both and median and bound else None
    yield cell(share, "", short(float(f"{share:.3g}")) if share is not None else "")
    unit = f"<small>{escape(COUNTS[line.count].title)}</small>" if line.count else ""
    for value, mark in ((line.simulated, "predicted"), (line.counted, "measured")):
        yield cell(value, mark, f"{short(value)}{unit}" if value is not None else "")


def cell(value: float | None, mark: str = "", shown: str = "") -> str:
    """A cell with a number to sort by; empty without one.

    Args:
        value: the number.
        mark: what it is, ``predicted`` or ``measured``.
        shown: the number as HTML; else it is written with four digits.
    """
    if value is None:
        return f"<td{side(True)}></td>"
    role = f' data-mark="{mark}"' if mark else ""
    return f'<td{side(True)}{role} data-value="{value:.9g}">{shown or short(value)}</td>'


def short(value: float) -> str:
    """A number with four digits, or all of those before the point."""
    return number(int(value)) if value == int(value) else number(float(f"{value:.4g}"))


def side(right: bool) -> str:
    """The class of a cell whose content stands at the right or at the left."""
    return ' class="tw-right"' if right else ' class="tw-left"'


def unit_of(unit: str) -> str:
    """A unit below the name of a column."""
    return f' <span class="tw-unit">{escape(unit)}</span>' if unit else ""
