"""Judges an answer to a puzzle: compiles it, runs it on the simulator at every size, checks the budget.

In: a puzzle and the text of an answer. Out: a `Verdict`, or a `LessonError` with the fault, its line in the
answer, and the repair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.kernel_source import tokens
from tilewise.errors import LessonError
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import without_logging
from tilewise.puzzles import wording
from tilewise.puzzles.model import COUNTERS, TO_DO, Limit, Puzzle, Trial, Values
from tilewise.puzzles.wrong_values import first_wrong, marked
from tilewise.simulator import HazardError

if TYPE_CHECKING:
    from tilewise.cuda.cases import Case
    from tilewise.simulator import Run

MAX_STEPS = 2_000_000
"""Warp instructions after which an answer counts as endless; every solution needs far fewer."""


@dataclass(frozen=True)
class Spent:
    """An answer's use of one part of the budget in the first launch."""

    what: str
    """A word or two."""
    counted: int
    """The answer's count."""
    most: int
    """The limit."""
    because: str
    """Why the limit is what it is."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on an answer that is right for all sizes and within the budget."""

    label: str
    """The sizes for which `spent` is counted."""
    spent: tuple[Spent, ...]
    """The budget, part by part."""
    launches: int
    """The number of sizes it was tried at."""


def judge(puzzle: Puzzle, text: str, path: str) -> Verdict:
    """Judge an answer.

    Args:
        puzzle: the puzzle.
        text: the whole file.
        path: its name, for messages.

    Raises:
        LessonError: the answer has a gap left, does not compile, has another signature, runs into a hazard,
            gives a wrong value, or is over budget.
    """
    with without_logging():
        kernel = read(puzzle, text, path)
        runs = _right(puzzle, kernel)
        for trial, values, run in runs:
            _within_budget(puzzle, kernel, trial, values, run)
    first, values, run = runs[0]
    return Verdict(first.label, spent(puzzle, values, run), len(runs))


def counted(puzzle: Puzzle, text: str) -> tuple[Spent, ...]:
    """What a correct kernel spends in the first launch, within the budget or not.

    Raises:
        LessonError: it is not correct.
    """
    with without_logging():
        runs = _right(puzzle, read(puzzle, text, puzzle.file))
    _, values, run = runs[0]
    return spent(puzzle, values, run)


def spent(puzzle: Puzzle, values: Values, run: Run) -> tuple[Spent, ...]:
    """The budget of a launch, with the counts of its run."""
    return tuple(
        Spent(COUNTERS[limit.counter].short, _count(run.counts, limit), limit.most(values), limit.because)
        for limit in puzzle.limits
    )


def read(puzzle: Puzzle, text: str, path: str) -> Kernel:
    """The kernel of an answer.

    Raises:
        LessonError: the gaps are still empty, or the kernel is not the puzzle's.
    """
    wanted = Kernel(puzzle.solution, options=puzzle.options)
    repair = wording.keep_kernel(signature(wanted))
    if tokens(text) == tokens(puzzle.gaps):
        line = next(at for at, code in enumerate(text.split("\n"), start=1) if f"// {TO_DO}" in code)
        raise LessonError(path, line, wording.EMPTY, wording.FILL_IN)
    try:
        kernel = Kernel(text, name=wanted.name, options=puzzle.options)
    except (ValueError, TypeError) as error:
        raise LessonError(path, 0, f"{_end(str(error))}", repair) from None
    kernel.origin = (path, 1 + next(at for at, line in enumerate(text.split("\n")) if line.strip()))
    if signature(kernel) != signature(wanted):
        line = kernel.origin[1] + kernel.function.line - 1
        raise LessonError(path, line, wording.other_kernel(signature(kernel)), repair)
    return kernel


def signature(kernel: Kernel) -> str:
    """A kernel's name and parameters, for messages."""
    return wording.signature(
        kernel.name, [(parameter.ctype, parameter.name) for parameter in kernel.parameters]
    )


def _right(puzzle: Puzzle, kernel: Kernel) -> list[tuple[Trial, Values, Run]]:
    """Every launch with its inputs and its run; raises if an output is wrong."""
    path, _ = kernel.origin
    runs: list[tuple[Trial, Values, Run]] = []
    for trial in puzzle.trials:
        values = marked(trial.case.make())
        arrays: dict[str, Any] = {name: _copy(value) for name, value in values.items()}
        at = wording.launched(trial.label, _shape(trial.case))
        try:
            run = kernel.on(trial.case).simulate(arrays=arrays, max_steps=MAX_STEPS)
        except HazardError as error:
            hazard = error.hazard
            line = error.line - hazard.line + wording.hazard_line(hazard)
            message = wording.hazard_message(hazard, error.message)
            raise LessonError(path, line, message, f"{at} {wording.hazard_repair(hazard)}") from None
        except (ValueError, TypeError) as error:
            raise LessonError(path, 0, f"{_end(str(error))} {at}") from None
        for name, right in puzzle.expected(values).items():
            wrong = first_wrong(name, arrays[name], right, values, puzzle.rtol, puzzle.atol)
            if wrong:
                message, repair = wrong
                raise LessonError(path, 0, f"wrong value: {message} {at}", repair)
        runs.append((trial, values, run))
    return runs


def _within_budget(puzzle: Puzzle, kernel: Kernel, trial: Trial, values: Values, run: Run) -> None:
    path, first_line = kernel.origin
    for limit in puzzle.limits:
        count, most = _count(run.counts, limit), limit.most(values)
        if count <= most:
            continue
        by_line: Mapping[int, int] = {
            line: _count(counts, limit) for line, counts in run.lines.items() if line
        }
        line = max(by_line, key=lambda number: by_line[number], default=0)
        counter = COUNTERS[limit.counter]
        worst = by_line[line] if line else 0
        message = wording.over_budget(count, most, counter.words, trial.label, _shape(trial.case), worst)
        repair = wording.budget_repair(counter.repair, most, limit.because)
        raise LessonError(path, first_line + line - 1 if line else 0, message, repair)


def _count(counts: Any, limit: Limit) -> int:
    return int(attrgetter(limit.counter)(counts))


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _shape(case: Case) -> str:
    assert case.grid is not None and case.block is not None, "a puzzle's case has its launch"
    return wording.shape(case.grid, case.block)


def _end(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
