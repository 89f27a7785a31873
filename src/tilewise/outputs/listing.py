"""SASS and PTX on a page: a single listing, and the CUDA C, PTX and SASS of one kernel side by side.

In: lines of compiler output. Out: fences for the lexers of CUDA C, PTX and SASS.
``tilewise.kernel.machine_code`` decides what to show; the colours are the site's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from tilewise.outputs.base import Context, Output
from tilewise.outputs.kinds import LONGEST_TEXT, attribute, fence, folded

SASS, PTX = "nvidia-sass", "nvidia-ptx"
"""The names of the SASS and PTX lexers in ``tilewise.site.lexers``."""


@dataclass(frozen=True)
class Listing(Output):
    """A listing of SASS, folded if it is long."""

    kind: ClassVar[str] = "listing"
    content: str
    """The lines."""
    title: str = ""
    """The title above them."""

    def text(self) -> str:
        """The lines, below the title."""
        return f"{self.title}\n{self.content}" if self.title else self.content

    def markdown(self, context: Context) -> str:
        """A fence; one of more than ``LONGEST_TEXT`` lines is folded."""
        title = f' title="{attribute(self.title)}"' if self.title else ""
        lines = len(self.content.splitlines())
        if lines <= LONGEST_TEXT:
            return fence(self.content, f".{SASS} .tw-listing{title}")
        heading = f"{self.title or 'Machine code'}: {lines} lines"
        return folded(heading, "code", fence(self.content, f".{SASS} .tw-listing"))


@dataclass(frozen=True)
class Pair(Output):
    """Two listings next to each other, if there is room."""

    kind: ClassVar[str] = "pair"
    left: Listing
    """The listing on the left, or above."""
    right: Listing
    """The listing on the right, or below."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The output whose ``to_dict`` returned ``data``."""
        return cls(Listing(**data["left"]), Listing(**data["right"]))

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"left": self.left.to_dict(), "right": self.right.to_dict()}

    def text(self) -> str:
        """The right listing below the left one."""
        return f"{self.left.text()}\n\n{self.right.text()}"

    def markdown(self, context: Context) -> str:
        """A ``div.tw-translated-pair``."""
        both = f"{self.left.markdown(context)}\n\n{self.right.markdown(context)}"
        return _div("tw-translated-pair", both, 4)


@dataclass(frozen=True)
class Row:
    """The translation of one line of CUDA C."""

    line: int
    """Its number in the kernel, counted from 1."""
    source: str
    """The line."""
    ptx: tuple[str, ...]
    """Its PTX instructions."""
    machine_code: tuple[str, ...]
    """Its SASS instructions."""


@dataclass(frozen=True)
class Beside(Output):
    """CUDA C, with each line's PTX and SASS side by side below it."""

    kind: ClassVar[str] = "beside"
    rows: tuple[Row, ...]
    """One for each line of CUDA C that has instructions."""
    architecture: str
    """The target architecture, such as sm_90."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The output whose ``to_dict`` returned ``data``."""
        rows = tuple(
            Row(row["line"], row["source"], tuple(row["ptx"]), tuple(row["machine_code"]))
            for row in data["rows"]
        )
        return cls(rows, data["architecture"])

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        rows = [
            {"line": row.line, "source": row.source, "ptx": [*row.ptx], "machine_code": [*row.machine_code]}
            for row in self.rows
        ]
        return {"rows": rows, "architecture": self.architecture}

    def text(self) -> str:
        """Line by line, PTX before SASS."""
        lines = []
        for row in self.rows:
            lines += [f"{row.line:4}  {row.source}"]
            lines += [f"      PTX   {instruction}" for instruction in row.ptx]
            lines += [f"      SASS  {instruction}" for instruction in row.machine_code]
        return "\n".join(lines)

    def markdown(self, context: Context) -> str:
        """A ``div.tw-translated`` with a fence for each line, followed by a pair of fences."""
        return _div("tw-translated", "\n\n".join(self._row(row) for row in self.rows), 5)

    def _row(self, row: Row) -> str:
        head = fence(row.source, f'.cuda .no-copy linenums="{row.line}"')
        ptx = _half("PTX", f".{PTX} .no-copy", row.ptx)
        code = _half(f"SASS, {self.architecture}", f".{SASS} .no-copy", row.machine_code)
        return "\n\n".join([head, _div("tw-translated-pair", f"{ptx}\n\n{code}", 4)])


def _half(name: str, attributes: str, lines: tuple[str, ...]) -> str:
    """One side of a pair; a note if there are no instructions."""
    if not lines:
        return _div("tw-translated-none", f"no {name.split(',', maxsplit=1)[0]}", 3)
    return fence("\n".join(lines), f'{attributes} title="{name}"')


def _div(kind: str, inside: str, depth: int) -> str:
    """A ``div`` with Markdown inside; an outer ``div`` needs more slashes than a nested one."""
    marks = "/" * depth
    return f"{marks} html | div.{kind}\n\n{inside}\n\n{marks}"
