"""A puzzle on a page: its task, budget, file, hints in stages, and a judged solution.

In: a puzzle and its solution's verdict. Out: an `Output`. Lessons call `puzzle`, which judges the solution,
so that a wrong one stops the build at that line.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, ClassVar, Self

from tilewise.outputs.base import Context, Task, sink
from tilewise.outputs.kinds import attribute, fence, folded
from tilewise.outputs.table import Column, Table
from tilewise.puzzles.model import plain_text

NAIVE = " The naive kernel is correct too, but over budget."
"""A note on the column of the naive kernel."""


@dataclass(frozen=True)
class PuzzleOutput(Task):
    """A puzzle with its solution, judged."""

    kind: ClassVar[str] = "puzzle"
    name: str
    """Such as ``kernels/guard``."""
    title: str
    """A few words."""
    task: str
    """What to do, in Markdown."""
    launch: str
    """How it is launched, in Markdown."""
    label: str
    """The sizes that the budget is for."""
    budget: tuple[tuple[str, int, int, int], ...]
    """What is limited, the limit, the solution's count, the plain kernel's count (-1: none)."""
    reasons: tuple[str, ...]
    """Why each limit is enough, clauses in Markdown."""
    launches: int
    """The number of sizes it was tried at."""
    start: str
    """The kernel with its gaps."""
    hints: tuple[str, ...]
    """In Markdown."""
    solution: str
    """CUDA C."""
    after: str
    """The text next to the solution, in Markdown."""
    lesson: str
    """The page that explains how, a link in Markdown."""
    following: str
    """The next puzzle; empty for the last."""
    data: dict[str, Any]
    """The page's data to judge an answer, from ``puzzles/browser.py``."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The output whose ``to_dict`` gave ``data``."""
        return replace(super().from_dict({**data, "data": None}), data=data["data"])

    def texts(self) -> tuple[str, ...]:
        """Everything in Markdown, in a fixed order."""
        return (self.task, self.launch, self.after, *self.hints, *self.reasons)

    def with_texts(self, texts: Sequence[str]) -> Self:
        """The same with other texts."""
        task, launch, after, *others = texts
        hints, reasons = others[: len(self.hints)], others[len(self.hints) :]
        return replace(
            self, task=task, launch=launch, after=after, hints=tuple(hints), reasons=tuple(reasons)
        )

    def text(self) -> str:
        """Its name, the task, and that the solution is correct."""
        lines = [f"puzzle {self.name}: {self.title}", textwrap.indent(_unmarked(self.task), "  ")]
        lines.append(f"  [the solution is correct at {self.launches} sizes and within the budget]")
        lines.append(f"  tilewise puzzle start {self.name}")
        return "\n".join(lines)

    def markdown(self, context: Context) -> str:
        """A ``!!! exercise puzzle`` block with the budget, the file, and folds for hints and solution."""
        nested = replace(context, nested=True)
        commands = f"tilewise puzzle start {self.name}\ntilewise puzzle {self.name}"
        parts = [
            self.task,
            f"**Launch:** {self.launch}",
            self._table().markdown(nested),
            f"Why this budget is enough: {'; '.join(dict.fromkeys(self.reasons))}.",
            fence(self.start, ".cuda .tw-puzzle"),
            nested.html_block(self.panel(context)),
            f"Helpful lesson: {self.lesson}.",
            fence(commands, ".sh"),
        ]
        parts += [
            folded(f"Hint {at} of {len(self.hints)}", "hint", hint)
            for at, hint in enumerate(self.hints, start=1)
        ]
        answer = f"{self.after}\n\n{fence(self.solution, '.cuda')}"
        parts.append(folded("Solution", "answer", answer))
        inside = textwrap.indent("\n\n".join(parts), "    ", lambda line: bool(line.strip()))
        return f'!!! exercise puzzle "{escape(attribute(self.name), quote=False)}"\n\n{inside}'

    def panel(self, context: Context) -> str:
        """The panel for ``site/web/site/solve.js``; its data are a separate file."""
        url = context.add_file(".json", json.dumps(self.data, separators=(",", ":")).encode())
        after = ""
        if self.following:
            page = f"lessons/{self.following.partition('/')[0]}/puzzles/"
            here = "" if page == f"lessons/{context.lesson_id}/" else f"{context.link(page).rstrip('/')}/"
            at = escape(f"{here}#{_anchor(self.following)}")
            after = f' data-next="{escape(self.following)}" data-next-at="{at}"'
        return (
            f'<div class="tw-solve" id="{_anchor(self.name)}" data-puzzle="{escape(self.name)}" '
            f'data-offer="{escape(url)}"{after}></div>'
        )

    def _table(self) -> Table:
        is_plain = any(plain >= 0 for *_, plain in self.budget)
        columns = [
            Column("metric"),
            *([Column("naive")] if is_plain else []),
            Column("budget"),
            Column("solution"),
        ]
        rows = [
            (what, *([plain] if is_plain else []), most, solved) for what, most, solved, plain in self.budget
        ]
        return Table(columns, rows, f"Counted by the simulator for {self.label}.{NAIVE if is_plain else ''}")


def _anchor(name: str) -> str:
    return f"solve-{name.replace('/', '-')}"


def _unmarked(text: str) -> str:
    """Without the marks of everyday words, lines as they are."""
    return "\n".join(plain_text(line) for line in text.split("\n"))


def puzzle(name: str) -> None:
    """Show a puzzle: its task, budget, file and hints, and a solution, which is judged now.

    Args:
        name: such as ``kernels/guard``; ``tilewise puzzle`` lists them.

    Raises:
        LessonError: there is no such puzzle, or its solution is wrong or over budget.
    """
    import inspect

    from tilewise.puzzles.browser import page_data
    from tilewise.puzzles.catalogue import following, named
    from tilewise.puzzles.judging import counted, judge

    chosen = named(name)
    verdict = judge(chosen, chosen.solution, chosen.file)
    plain = (
        [spent.counted for spent in counted(chosen, chosen.plain)]
        if chosen.plain
        else [-1] * len(verdict.spent)
    )
    sink().add(
        PuzzleOutput(
            name=chosen.name,
            title=chosen.title,
            task=inspect.cleandoc(chosen.task),
            launch=chosen.launch,
            label=verdict.label,
            budget=tuple(
                (spent.what, spent.most, spent.counted, plain_count)
                for spent, plain_count in zip(verdict.spent, plain, strict=True)
            ),
            reasons=tuple(spent.because for spent in verdict.spent),
            launches=verdict.launches,
            start=chosen.gaps,
            hints=chosen.hint_list,
            solution=chosen.solution,
            after=inspect.cleandoc(chosen.after),
            lesson=chosen.lesson,
            following=following(chosen.name),
            data=page_data(chosen),
        )
    )
