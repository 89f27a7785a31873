"""A parsed lesson: its header, its cells, and their positions in the file.

Frozen data without behaviour, apart from ``str(cell)``: ``lessons/kernels/grids.py:14``, the id of its test.
Line numbers count from 1 in the lesson's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tilewise.course.prose import Prose

Kind = Literal["markdown", "code"]


@dataclass(frozen=True)
class Header:
    """The YAML block at the top of a lesson."""

    title: str
    """The lesson's title, in sentence case."""
    needs: tuple[str, ...] = ()
    """Ids of the lessons that a reader should know; direct needs only."""
    further: str = ""
    """Id of the lesson that this page extends; empty for a lesson of the core track."""
    summary: str = ""
    """The lesson's question, one sentence."""
    description: str = ""
    """A sentence for search engines and link previews; if empty, the summary."""
    date: str = ""
    """The date of its last revision, ``2026-11-21``."""
    tags: tuple[str, ...] = ()
    """Keywords."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Each key's line in the file; a need's line as ``needs[0]``."""

    def line(self, key: str) -> int:
        """The line of a key, or of the header if the key is absent."""
        return self.lines.get(key, 1)


@dataclass(frozen=True)
class Cell:
    """The part of a lesson between two ``# %%`` lines."""

    path: str
    """The lesson's file, as named in messages."""
    first_line: int
    """The line of its ``# %%``."""
    last_line: int
    """The last line of its source."""
    kind: Kind
    """``markdown`` or ``code``."""
    source: str
    """Code as written, or prose without comment signs; without blank lines around it."""
    source_line: int
    """The line of the source's first line."""
    tab: str = ""
    """The tab's title; adjacent cells with tabs form one set."""
    needs: tuple[str, ...] = ()
    """Packages (or ``gpu``) without which the cell is skipped."""
    record: str = ""
    """The text record that replaces the cell's output if it is skipped."""
    title: str = ""
    """A line above the code on the page."""
    fold: str = ""
    """The title of the fold around the cell's code on the page; empty if not folded."""

    def __str__(self) -> str:
        return f"{self.path}:{self.first_line}"


@dataclass(frozen=True)
class Lesson:
    """A parsed lesson."""

    id: str
    """``<part>/<lesson>``, e.g. ``kernels/grids``."""
    path: str
    """The file, as named in messages, e.g. ``lessons/kernels/grids.py``."""
    header: Header
    """Title, needs and the rest of the YAML block."""
    cells: tuple[Cell, ...]
    """In the order of the file."""
    text: str
    """The whole file."""

    def __str__(self) -> str:
        return self.path

    @property
    def code(self) -> tuple[Cell, ...]:
        """The code cells."""
        return tuple(cell for cell in self.cells if cell.kind == "code")

    @cached_property
    def tab_sets(self) -> tuple[tuple[int, ...], ...]:
        """The indices of adjacent cells with tabs, set by set."""
        sets: list[list[int]] = []
        for index, cell in enumerate(self.cells):
            if not cell.tab:
                continue
            if sets and sets[-1][-1] == index - 1:
                sets[-1].append(index)
            else:
                sets.append([index])
        return tuple(tuple(members) for members in sets)

    @cached_property
    def prose(self) -> Prose:
        """What the lesson's prose defines, uses, links and quotes; computed once."""
        from tilewise.course.prose import Prose

        return Prose.of(self)
