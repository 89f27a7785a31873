"""The measurement as an output: a table of bounds, recorded and local times, and one of counts.

In: rows of plain values. Out: text for a terminal, Markdown for a page; nothing is run or read here. Empty
columns are left out. Counts have their own size and therefore their own table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from tilewise.measurements.counting import COUNTS, total
from tilewise.measurements.guess import asked_html, asked_text
from tilewise.measurements.machines import driver_name
from tilewise.measurements.provenance_links import (
    provenance_facts,
    provenance_id,
    provenance_list,
    spread_text,
)
from tilewise.measurements.slugs import case_text, device_slug, heading_slug
from tilewise.outputs import Cell, Column, Context, Output, Table

_SCATTER = re.compile(r"p20 and p80 lie (\d+)\s?% of the median apart\.")
"""The note on spread in records, in statistical terms."""
_Values = tuple[Column, Sequence[Any]]
"""A column and its cells."""
_UNITS = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))
WITHIN = 2.0
"""The factor by which a variant may miss its bound before the lesson has to explain it."""
EVERY = "*"
"""Matches every variant."""


@dataclass(frozen=True)
class Measurement(Output):
    """The result of ``measure``."""

    kind: ClassVar[str] = "measurement"
    name: str
    lesson: str
    count_case: Mapping[str, Any] | None
    """The simulated and counted size."""
    counts: tuple[str, ...]
    """The counts that the table shows."""
    rows: tuple[Mapping[str, Any], ...]
    """One mapping per row: variant, role, parameters, bound, limited_by, simulated, counted, stale, recorded
    (median, p20, p80; for several rounds also rounds, their medians, and low and high, the interval for
    another run), here (median, p20, p80), device, share, gb_per_s, tflop_per_s."""
    provenance: Mapping[str, Any] | None
    """The record's provenance; None without a record."""
    stale: str
    """Why the recorded figures are not current, with the repair; empty if they are."""
    notes: tuple[str, ...]
    inputs: tuple[str, ...]
    """Files that this output depends on: the path of the record, existing or not."""
    fold: str = ""
    """The title under which the page folds the table; empty: not folded."""
    within: float = WITHIN
    """The factor by which a variant may miss its bound without a reason."""
    reasons: tuple[tuple[str, str], ...] = ()
    """Variant (``*``: all) and the heading of the lesson under which its miss is explained."""
    pending: str = ""
    """The page's sentence instead of ``stale`` if the experiment is listed as pending."""
    elsewhere: str = ""
    """A sentence if the figures are from another machine, because the selected one has no current record."""
    outdated: tuple[tuple[str, str], ...] = ()
    """Device and variant of each stale row, in the records of all machines."""
    asked: Mapping[str, Any] | None = None
    """The reader's guess before the table, from ``guess.asked``; None without one."""

    @property
    def machine(self) -> str:
        """The folder of the machine that it was recorded on; empty if not recorded."""
        return device_slug(self.provenance["device"]) if self.provenance else ""

    def table(self, spreads: bool = False) -> Table:
        """The rows as a table, with units in the headings.

        Args:
            spreads: add columns for the spread of the times, which a page shows in the cells' titles.
        """
        rows, same = self.rows, self.same()
        origin = provenance_id(self.name, self.provenance["device"]) if self.provenance else None
        labels = [
            Cell(row["variant"], "library") if row["role"] == "library" else row["variant"] for row in rows
        ]
        columns: list[_Values] = [(Column("variant", "", "left"), labels)]
        for name in dict.fromkeys(name for row in rows for name in row["parameters"]):
            if name not in same:
                columns.append((Column(name, "", "right"), [row["parameters"].get(name) for row in rows]))
        limits = [f"set by {row['limited_by']}" if row.get("limited_by") else None for row in rows]
        bounds = [row.get("bound") for row in rows]
        columns.append(_times("bound", bounds, limits, ["predicted"] * len(rows)))
        marks = ["stale" if self.stale and row.get("stale", True) else "measured" for row in rows]
        columns += _measured("recorded", rows, marks, spreads, origin)
        shares = [_rounded(100 * row["share"], 3) if row.get("share") else None for row in rows]
        columns.append((Column("bound / recorded", "%", "right"), shares))
        rate, unit = "tflop_per_s", "TFLOP/s"
        if any(row.get("limited_by") == "memory" for row in rows):
            rate, unit = "gb_per_s", "GB/s"
        columns.append((Column("rate", unit, "right"), [_rounded(row.get(rate), 4) for row in rows]))
        columns += _measured("here", rows, ["measured"] * len(rows), spreads)
        return _table(columns, f"All rows: {case_text(same)}." if same else None)

    def same(self) -> dict[str, Any]:
        """The parameters with one value in all of several rows; the caption states them once."""
        cases = [row["parameters"] for row in self.rows]
        if len(cases) < 2:
            return {}
        return {
            name: value for name, value in cases[0].items() if all(case.get(name) == value for case in cases)
        }

    def counted(self) -> Table | None:
        """Each variant's simulated and hardware counts at the count case; None if there are none."""
        first: dict[str, Mapping[str, Any]] = {}
        for row in self.rows:
            first.setdefault(row["variant"], row)
        counts = [
            (Column(f"{COUNTS[name].title} {source}", "", "right"), source, name, mark)
            for name in self.counts
            for source, mark in (("simulated", "predicted"), ("counted", "measured"))
        ]
        rows = [
            row
            for row in first.values()
            if any(total(row.get(source), name) is not None for _, source, name, _ in counts)
        ]
        if not rows:
            return None
        columns: list[_Values] = [(Column("variant", "", "left"), [row["variant"] for row in rows])]
        for column, source, name, mark in counts:
            values = [total(row.get(source), name) for row in rows]
            cells = [None if value is None else Cell(int(value), None, None, mark) for value in values]
            columns.append((column, cells))
        at = f" at {case_text(self.count_case)}" if self.count_case else ""
        return _table(columns, f"Counted{at}, over all threads.")

    def text(self) -> str:
        """The table and the sentences below it."""
        question = [asked_text(self.asked)] if self.asked else []
        tables = [table.text() for table in (self.table(spreads=True), self.counted()) if table]
        return "\n".join([*question, f"{self.name}", *tables, *self._lines()])

    def markdown(self, context: Context) -> str:
        """The table, its notes and, folded, the provenance of the recorded figures."""
        counted = self.counted()
        table = self.table().html() + (f"\n{counted.html()}" if counted else "")
        name = context.unique(self.name)
        panel = [asked_html(self.asked, name)] if self.asked and not self.stale else []
        machine = f' data-machine="{self.machine}"' if self.provenance else ""
        parts = [f'<div class="tw-measurement" id="{escape(name)}"{machine}>', *panel]
        folds = []
        if self.fold:
            folds.append(_entry("tw-rows", self.fold, f"\n{table}\n"))
        else:
            parts.append(table)
        if self.stale:
            parts.append(f'<p class="tw-stale">{escape(self.pending or self.stale)}</p>')
        if self.elsewhere:
            parts.append(note_html(self.elsewhere))
        if self.provenance is not None:
            title = f"Recorded on NVIDIA {driver_name(self.provenance['device'])}, {self.provenance['date']}"
            facts = provenance_list(self.name, self.provenance, context.link)
            folds.append(_entry("tw-provenance", title, facts))
        if notes := self._notes(context):
            folds.append(_entry("tw-notes", "Notes", "".join(notes)))
        if folds:
            parts.append(f'<div class="tw-folds">{"".join(folds)}</div>')
        return context.html_block("\n".join([*parts, "</div>"]))

    def _notes(self, context: Context) -> list[str]:
        """The legend, the notes and the reasons for slow rows, as HTML."""
        notes = [_SCATTER.sub(_in_words, note) for note in self.notes]
        legend = [self._legend(context)] if context.unique("columns") == "columns" else []  # once per page
        return [*legend, *map(note_html, notes), *self._reasons()]

    def _legend(self, context: Context) -> str:
        """The meaning of the columns, as HTML."""
        page = escape(f"{context.link('conventions/').rstrip('/')}/#where-a-number-comes-from")
        launch = ", or the time of an empty launch if that is longer" if self.provenance else ""
        return (
            '<p class="tw-measurement-note">Bound: the shortest time that the roofline model allows'
            f'{launch}. Recorded: the median of many runs. <a href="{page}">What each column means</a></p>'
        )

    def _reasons(self) -> list[str]:
        """Links to the lesson's explanations of missed bounds, as HTML with one paragraph per heading."""
        headings: dict[str, list[str]] = {}
        for variant, heading in self.reasons:
            if named := self._all_that_missed() if variant == EVERY else [variant]:
                headings.setdefault(heading, []).extend(named)
        return [
            f'<p class="tw-measurement-note tw-reasons">More than {self.within:g}× the bound: '
            f"{escape(', '.join(variants))}. Explained under "
            f'<a href="#{escape(heading_slug(heading))}">{escape(heading)}</a>.</p>'
            for heading, variants in headings.items()
        ]

    def missed(self) -> dict[str, float]:
        """The variants that missed their bound by more than the factor ``within``, either way.

        Returns:
            By variant, the recorded time over the bound of its farthest row.
        """
        farthest: dict[str, float] = {}
        for row in self.rows:
            if row["role"] != "variant" or not row.get("share"):
                continue
            ratio, previous = 1 / row["share"], farthest.get(row["variant"], 1)
            if max(ratio, 1 / ratio) > max(self.within, previous, 1 / previous):
                farthest[row["variant"]] = ratio
        return farthest

    def _all_that_missed(self) -> list[str]:
        """The labels of variants that missed their bound, or "every variant"."""
        far = self.missed()
        variants = {row["variant"] for row in self.rows if row["role"] == "variant"}
        return ["every variant"] if far and far.keys() == variants else list(far)

    def _lines(self) -> list[str]:
        lines = [self.pending or self.stale] if self.stale else []
        if self.provenance is not None:
            facts = provenance_facts(self.provenance)
            shown = (value if name == "device" else f"{name} {value}" for name, value in facts)
            lines.append(f"recorded on {', '.join(shown)}")
            lines += [self.elsewhere] if self.elsewhere else []
        return [*lines, *self.notes]


def _entry(kind: str, title: str, body: str) -> str:
    """A fold in the line below a table."""
    return f'<details class="{kind}"><summary>{escape(title)}</summary>{body}</details>'


def note_html(note: str) -> str:
    """A sentence below a table."""
    return f'<p class="tw-measurement-note">{escape(note)}</p>'


def _in_words(match: re.Match[str]) -> str:
    return (
        f"times vary from run to run: the middle 60 % of runs span {match[1]} % of the median. "
        "Ignore smaller differences between rows."
    )


def _distance(times: Mapping[str, Any]) -> float:
    low, high = times.get("low", times["p20"]), times.get("high", times["p80"])
    return (high - low) / times["median"] if times["median"] else 0.0


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def _spread(times: Mapping[str, Any]) -> str:
    further = (times["low"], times["high"]) if "low" in times else ()
    return spread_text(times["p20"], times["median"], times["p80"], times.get("rounds", ()), further)


def _table(columns: Sequence[_Values], caption: str | None) -> Table:
    """A table without its empty columns."""
    shown = [(column, values) for column, values in columns if any(value is not None for value in values)]
    rows = zip(*(values for _, values in shown), strict=True)
    return Table([column for column, _ in shown], [list(row) for row in rows], caption)


def _measured(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    marks: Sequence[str],
    spreads: bool,
    origin: str | None = None,
) -> Iterator[_Values]:
    """The medians of ``recorded`` or ``here`` and, with ``spreads``, their spread in %."""
    all_times = [row.get(name) for row in rows]
    titles = [_spread(times) if times else None for times in all_times]
    yield _times(name, [times["median"] if times else None for times in all_times], titles, marks, origin)
    if spreads:
        label = "spread" if name == "recorded" else "spread here"
        distances = [_rounded(100 * _distance(times), 2) if times else None for times in all_times]
        yield Column(label, "%", "right"), distances


def _times(
    label: str,
    values: Sequence[float | None],
    titles: Sequence[str | None],
    marks: Sequence[str],
    origin: str | None = None,
) -> _Values:
    """Times in a unit that suits their median."""
    known = sorted(value for value in values if value is not None)
    middle = known[len(known) // 2] if known else 0.0
    unit, scale = next((pair for pair in reversed(_UNITS) if middle >= pair[1]), _UNITS[0])
    cells = [
        None if value is None else Cell(_rounded(value / scale, 4) or 0.0, title, None, mark, origin)
        for value, title, mark in zip(values, titles, marks, strict=True)
    ]
    return Column(label, unit, "right"), cells
