"""The simulator's counts of one launch, by line of the kernel's source, as text and as HTML.

In: counts by line, as plain data. Out: ``RunOutput``. This module decides their layout, and which of them are
marked as wasteful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, ClassVar

from tilewise.outputs.base import Context, Output
from tilewise.outputs.table import Cell, Column, Table, number

WIDEST_SOURCE = 44
"""The maximum characters of a source line on a terminal."""
LEGEND = "Marked: less than half of the bytes moved were requested, or bank conflicts cost extra wavefronts."


@dataclass(frozen=True)
class RunColumn:
    """One counter."""

    group: str
    """Its group, e.g. ``global loads``; empty if it has none."""
    name: str
    """Its name, e.g. ``sectors``."""
    meaning: str
    """A sentence for the tooltip."""


@dataclass(frozen=True)
class RunLine:
    """The counts of one line of source."""

    line: int
    """Its number, from 1; 0 for the whole launch."""
    source: str
    """Its text, indented as written."""
    cells: tuple[Cell, ...]
    """One per column; empty text if nothing was counted."""


@dataclass(frozen=True)
class RunOutput(Output):
    """The simulator's counts of one launch."""

    kind: ClassVar[str] = "run"
    title: str
    """The launch in a few words, e.g. ``copy<<<4, 256>>>``."""
    columns: tuple[RunColumn, ...]
    """The counts that occur."""
    lines: tuple[RunLine, ...]
    """The lines with counts, in order."""
    total: RunLine
    """The whole launch."""
    notes: tuple[str, ...] = ()
    """Remarks that are not faults, one or two sentences each."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "title": self.title,
            "columns": [[column.group, column.name, column.meaning] for column in self.columns],
            "lines": [_packed(line) for line in (*self.lines, self.total)],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Any) -> RunOutput:
        """The output whose ``to_dict`` returned ``data``."""
        lines = tuple(
            RunLine(line, source, tuple(Cell(text, title, None, mark) for text, title, mark in cells))
            for line, source, cells in data["lines"]
        )
        columns = tuple(RunColumn(*fields) for fields in data["columns"])
        return cls(data["title"], columns, lines[:-1], lines[-1], tuple(data.get("notes", ())))

    @property
    def marked(self) -> bool:
        """Whether any count is marked as wasteful."""
        return any(cell.mark for line in self.lines for cell in line.cells)

    def table(self) -> Table:
        """The counts without groups: line, source and counts, with the whole launch last."""
        heads = (Column(column.group, column.name) for column in self.columns)
        rows = [[line.line, line.source.strip(), *line.cells] for line in self.lines]
        return Table([Column("line"), Column("source"), *heads], [*rows, ["", "in all", *self.total.cells]])

    def text(self) -> str:
        """Title and table, with each group of counts below its heading and stars at marked counts."""
        rows = [_printed(line) for line in (*self.lines, self.total)]
        heads = ["line", "source", *(column.name for column in self.columns)]
        widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
        groups = [" " * widths[0], " " * widths[1]]
        at = 2
        for group, members in groupby(self.columns, key=lambda column: column.group):
            many = len(list(members))
            room = sum(widths[at : at + many]) + 2 * (many - 1)
            if len(group) > room:  # a wide heading widens the last column below it
                widths[at + many - 1] += len(group) - room
                room = len(group)
            groups.append(group.ljust(room))
            at += many
        ruled = ["  ".join("-" * width for width in widths)]
        body = [_line(row, widths) for row in rows]
        parts = [self.title, "  ".join(groups).rstrip(), _line(heads, widths), *ruled, *body[:-1]]
        legend = [f"* {LEGEND}"] if self.marked else []
        return "\n".join([*parts, *ruled, body[-1], *legend, *(f"Note: {note}" for note in self.notes)])

    def markdown(self, context: Context) -> str:
        """The table below its title; it scrolls if it is wider than the page."""
        return context.html_block(self.html())

    def html(self) -> str:
        """The table as HTML, one row per line."""
        heads = "".join(
            f'<th scope="col" class="tw-right" title="{escape(column.meaning)}">{escape(column.name)}</th>'
            for column in self.columns
        )
        groups = "".join(
            f'<th scope="colgroup" colspan="{len(list(members))}">{escape(group)}</th>'
            for group, members in groupby(self.columns, key=lambda column: column.group)
        )
        legend = f"<caption>{LEGEND}</caption>" if self.marked else ""
        title = f"<code>{escape(self.title, quote=False)}</code> on the simulator, by line of the kernel"
        first = (
            '<th scope="col" rowspan="2" class="tw-right">line</th><th scope="col" rowspan="2">source</th>'
        )
        return "\n".join(
            [
                f'<div class="tw-run"><div class="tw-run-title">{title}</div>',
                f'<div class="tw-table" tabindex="0" role="group"><table>{legend}',
                f"<thead><tr>{first}{groups}</tr>",
                f"<tr>{heads}</tr></thead>",
                "<tbody>",
                *(_row(line, self.columns) for line in self.lines),
                "</tbody>",
                f"<tfoot>{_row(self.total, self.columns)}</tfoot>",
                "</table></div>",
                *(f"<p>Note: {escape(note, quote=False)}</p>" for note in self.notes),
                "</div>",
            ]
        )


def _packed(line: RunLine) -> list[Any]:
    return [line.line, line.source, [[cell.text, cell.title, cell.mark] for cell in line.cells]]


def _printed(line: RunLine) -> list[str]:
    source = line.source.strip() if line.line else "in all"
    if len(source) > WIDEST_SOURCE:
        source = source[: WIDEST_SOURCE - 1] + "…"
    cells = [f"{_shown(cell)}{'*' if cell.mark else ''}" for cell in line.cells]
    return [str(line.line) if line.line else "", source, *cells]


def _line(row: list[str], widths: list[int]) -> str:
    fitted = [entry.ljust(width) if at == 1 else entry.rjust(width) for at, (entry, width) in
              enumerate(zip(row, widths, strict=True))]  # fmt: skip
    return "  ".join(fitted).rstrip()


def _shown(cell: Cell) -> str:
    return cell.text if isinstance(cell.text, str) else number(cell.text)


def _row(line: RunLine, columns: Sequence[RunColumn]) -> str:
    cells = []
    group = "instructions"
    for cell, column in zip(line.cells, columns, strict=True):
        shown = escape(_shown(cell), quote=False)
        if cell.title:
            shown = f'<span title="{escape(cell.title)}">{shown}</span>'
        mark = f' data-mark="{escape(cell.mark)}"' if cell.mark else ""
        name = ""
        if shown:  # labels the cell on screens too narrow for columns
            name = (
                f' data-name="{column.name if column.group == group else f"{column.group}: {column.name}"}"'
            )
            group = column.group
        cells.append(f'<td class="tw-right"{mark}{name}>{shown}</td>')
    if not line.line:
        return f'<tr><td></td><th scope="row">in all</th>{"".join(cells)}</tr>'
    source = f"<code>{escape(line.source.strip(), quote=False)}</code>"
    return (
        f'<tr><td class="tw-right">{line.line}</td><td class="tw-source">{source}</td>{"".join(cells)}</tr>'
    )
