"""What the simulator counted in one launch, by line of the kernel's source, as text and as HTML.

In: counts by line, as plain data. Out: ``RunOutput``. Here is decided how they stand side by side, and which
of them cost more than they had to.
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
"""Characters of a line of source that a terminal shows."""
LEGEND = "Marked: less than half of the bytes moved were requested, or bank conflicts cost extra wavefronts."


@dataclass(frozen=True)
class RunColumn:
    """One count."""

    group: str
    """What it belongs to, e.g. ``global loads``; empty for counts that stand alone."""
    name: str
    """Its name, e.g. ``sectors``."""
    meaning: str
    """A sentence for who points at it."""


@dataclass(frozen=True)
class RunLine:
    """The counts of one line of source."""

    line: int
    """Its number, from 1; 0 for the whole launch."""
    source: str
    """Its text, indented as written."""
    cells: tuple[Cell, ...]
    """One for each column; empty text where nothing was counted."""


@dataclass(frozen=True)
class RunOutput(Output):
    """What the simulator counted in one launch."""

    kind: ClassVar[str] = "run"
    title: str
    """The launch in a few words, e.g. ``copy<<<4, 256>>>``."""
    columns: tuple[RunColumn, ...]
    """The counts that occur."""
    lines: tuple[RunLine, ...]
    """The lines at which something was counted, in order."""
    total: RunLine
    """The whole launch."""
    notes: tuple[str, ...] = ()
    """What is worth knowing and no fault, a sentence or two each."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON holds it."""
        return {
            "title": self.title,
            "columns": [[one.group, one.name, one.meaning] for one in self.columns],
            "lines": [_packed(one) for one in (*self.lines, self.total)],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Any) -> RunOutput:
        """The output whose ``to_dict`` gave ``data``."""
        lines = tuple(
            RunLine(line, source, tuple(Cell(text, title, None, mark) for text, title, mark in cells))
            for line, source, cells in data["lines"]
        )
        columns = tuple(RunColumn(*one) for one in data["columns"])
        return cls(data["title"], columns, lines[:-1], lines[-1], tuple(data.get("notes", ())))

    @property
    def marked(self) -> bool:
        """Whether some count is more than it had to be."""
        return any(cell.mark for line in self.lines for cell in line.cells)

    def table(self) -> Table:
        """The same without groups: line, source and counts, the whole launch last."""
        heads = (Column(one.group, one.name) for one in self.columns)
        rows = [[one.line, one.source.strip(), *one.cells] for one in self.lines]
        return Table([Column("line"), Column("source"), *heads], [*rows, ["", "in all", *self.total.cells]])

    def text(self) -> str:
        """Title and table, each group of counts under its heading; a star at what is marked."""
        rows = [_printed(one) for one in (*self.lines, self.total)]
        heads = ["line", "source", *(one.name for one in self.columns)]
        widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
        groups = [" " * widths[0], " " * widths[1]]
        at = 2
        for group, members in groupby(self.columns, key=lambda one: one.group):
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
        """The table, under its title; it scrolls by itself where it is wider than the page."""
        return context.html_block(self.html())

    def html(self) -> str:
        """The table as HTML, one row a line."""
        heads = "".join(
            f'<th scope="col" class="tw-right" title="{escape(one.meaning)}">{escape(one.name)}</th>'
            for one in self.columns
        )
        groups = "".join(
            f'<th scope="colgroup" colspan="{len(list(members))}">{escape(group)}</th>'
            for group, members in groupby(self.columns, key=lambda one: one.group)
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
                *(_row(one, self.columns) for one in self.lines),
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
        if shown:  # what a cell is where the screen has no room for columns
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
