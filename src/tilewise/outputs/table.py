"""Tables: columns with units, cells with a title or a link, as aligned text or as HTML.

In: strings and numbers. Out: a ``Table`` output. This is the only module that rounds numbers for readers; a
cell that needs another format is passed as a string.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, Self

from tilewise.outputs.base import Context, Output, with_code


@dataclass(frozen=True)
class Column:
    """A column's heading."""

    name: str
    """The text above it."""
    unit: str = ""
    """The unit of its numbers, e.g. ``GB/s``; printed small next to the name."""
    align: str = ""
    """``left``, ``right`` or ``center``; empty: right if all cells are numbers, otherwise left."""


@dataclass(frozen=True)
class Cell:
    """A cell with more than its text."""

    text: str | int | float
    """The text shown."""
    title: str | None = None
    """A sentence for the tooltip and for screen readers."""
    href: str | None = None
    """The link's target, relative to the page or to a lesson's file."""
    mark: str | None = None
    """A role for the styles: ``measured``, ``predicted``, ``waste``, ``hazard``, ``best``, ``stale``."""
    origin: str | None = None
    """The id of a recorded number's provenance list; ``title`` is then its spread."""


_WRITTEN = re.compile(r"[≈<>]?\s?[+−-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?\s?[%×]?")
"""A number written as a string: `73%`, `1.3×`."""

Entry = str | int | float | None | Cell


@dataclass(frozen=True, init=False)
class Table(Output):
    """A table.

    Args:
        columns: names or ``Column`` objects.
        rows: one sequence per row, with one entry per column; ``None`` is an empty cell.
        caption: a self-contained sentence below the table.

    Raises:
        ValueError: a row is longer or shorter than the columns.
    """

    kind: ClassVar[str] = "table"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str | None
    numeric: tuple[bool, ...]

    def __init__(
        self, columns: Iterable[str | Column], rows: Iterable[Sequence[Any]], caption: str | None = None
    ) -> None:
        heads = tuple(column if isinstance(column, Column) else Column(str(column)) for column in columns)
        body = [tuple(row) for row in rows]
        for number, row in enumerate(body, start=1):
            if len(row) != len(heads):
                raise ValueError(
                    f"row {number} of the table has {len(row)} cells and the table has {len(heads)} columns"
                )
        numeric = tuple(
            any(_is_number(row[at]) for row in body)
            and all(_is_number(row[at]) or _is_empty(row[at]) for row in body)
            for at in range(len(heads))
        )
        object.__setattr__(self, "columns", heads)
        object.__setattr__(self, "rows", tuple(tuple(_cell(entry) for entry in row) for row in body))
        object.__setattr__(self, "caption", caption)
        object.__setattr__(self, "numeric", numeric)

    def to_dict(self) -> dict[str, Any]:
        """Columns, rows and caption as JSON values."""
        return {
            "columns": [[column.name, column.unit, column.align] for column in self.columns],
            "rows": [
                [[cell.text, cell.title, cell.href, cell.mark, cell.origin] for cell in row]
                for row in self.rows
            ],
            "caption": self.caption,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The table whose ``to_dict`` returned ``data``."""
        rows = [[Cell(*cell) for cell in row] for row in data["rows"]]
        return cls([Column(*column) for column in data["columns"]], rows, data["caption"])

    def text(self) -> str:
        """The table with aligned columns."""
        heads = [f"{column.name} [{column.unit}]" if column.unit else column.name for column in self.columns]
        lines = [heads, *([_shown(cell.text) for cell in row] for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
        ruled = [self._line(lines[0], widths), "  ".join("-" * width for width in widths)]
        ruled += [self._line(line, widths) for line in lines[1:]]
        return "\n".join([*ruled, *([self.caption] if self.caption else [])])

    def _line(self, entries: Sequence[str], widths: Sequence[int]) -> str:
        fitted = [
            {"right": entry.rjust, "center": entry.center, "left": entry.ljust}[self._align(at)](widths[at])
            for at, entry in enumerate(entries)
        ]
        return "  ".join(fitted).rstrip()

    def _align(self, at: int) -> str:
        return self.columns[at].align or ("right" if self.numeric[at] else "left")

    def markdown(self, context: Context) -> str:
        """A ``div.tw-table`` around the table, so that a wide one scrolls."""
        return context.html_block(self.html())

    def html(self, classes: str = "") -> str:
        """The table as HTML, one row per line."""
        box = f"tw-table {classes}".strip()
        style = ""
        if len(self.columns) > 3:  # styles/lesson.css: on a phone the first column is on a separate line
            box, style = f"{box} tw-many", f' style="--columns:{len(self.columns) - 1}"'
        lines = [f'<div class="{box}"{style} tabindex="0" role="group"><table>']
        if self.caption:
            lines.append(f"<caption>{escape(self.caption, quote=False)}</caption>")
        heads = "".join(self._head(at, column) for at, column in enumerate(self.columns))
        lines.append(f"<thead><tr>{heads}</tr></thead>")
        lines.append("<tbody>")
        for row in self.rows:
            cells = "".join(self._body(at, cell) for at, cell in enumerate(row))
            lines.append(f"<tr>{cells}</tr>")
        lines.append("</tbody>")
        lines.append("</table></div>")
        return "\n".join(lines)

    def _head(self, at: int, column: Column) -> str:
        unit = f' <span class="tw-unit">{escape(column.unit, quote=False)}</span>' if column.unit else ""
        shown = f"{escape(column.name, quote=False)}{unit}"
        return f'<th scope="col" class="tw-{self._align(at)}">{shown}</th>'

    def _body(self, at: int, cell: Cell) -> str:
        shown = with_code(_shown(cell.text))
        if cell.href:
            shown = f'<a href="{escape(cell.href)}">{shown}</a>'
        if cell.origin:
            shown = (
                f'<a class="tw-number" href="#{escape(cell.origin)}" data-provenance="{escape(cell.origin)}"'
                f' data-spread="{escape(cell.title or "")}">{shown}</a>'
            )
        elif cell.title:
            shown = f'<span title="{escape(cell.title)}">{shown}</span>'
        if cell.mark == "code":
            shown = re.sub(r"(?<=[._])(?=\w)", "<wbr>", shown)  # lets long names wrap
        mark = f' data-mark="{escape(cell.mark)}"' if cell.mark else ""
        return f'<td class="tw-{self._align(at)}"{mark}>{shown}</td>'


def number(value: float) -> str:
    """A number for readers: thousands separators, four significant digits, ``∞`` and ``NaN``.

    >>> number(1048576), number(0.000123456), number(1979.0)
    ('1,048,576', '0.0001235', '1,979')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    whole = value == round(value) or abs(value) >= 1000
    return f"{value:,.0f}" if whole and abs(value) < 1e15 else f"{value:.4g}"


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else number(value)


def _cell(entry: Any) -> Cell:
    if isinstance(entry, Cell):
        return Cell(_scalar(entry.text), entry.title, entry.href, entry.mark, entry.origin)
    if (origin := getattr(entry, "origin", None)) is not None:  # a recorded number that a lesson passes on
        return Cell(float(entry), entry.spread, None, entry.mark, origin)
    return Cell("" if entry is None else _scalar(entry))


def _scalar(value: Any) -> str | int | float:
    """A NumPy scalar as a Python number; anything but a number as a string."""
    plain = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    return plain if isinstance(plain, str | int | float) else str(plain)


def _is_number(entry: Any) -> bool:
    value = _cell(entry).text
    if isinstance(value, str):
        return _WRITTEN.fullmatch(value) is not None
    return not isinstance(value, bool)


def _is_empty(entry: Any) -> bool:
    return _cell(entry).text in ("", "–", "—")
