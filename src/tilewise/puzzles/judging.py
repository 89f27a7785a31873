"""Judges an answer to a puzzle: compiles it, runs it on the simulator at every size, looks at the budget.

In: a puzzle and the text of an answer. Out: a `Verdict`, or a `LessonError` that says what is wrong, where in
the answer, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.kernel_source import tokens
from tilewise.errors import LONGEST_LINE, LessonError
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import without_logging
from tilewise.puzzles.model import COUNTERS, TO_DO, Limit, Puzzle, Trial, Values
from tilewise.puzzles.wrong_values import first_wrong, marked
from tilewise.simulator import HazardError

if TYPE_CHECKING:
    from tilewise.cuda.cases import Case
    from tilewise.simulator import Run

_REPAIRS = {
    "out of bounds": "Add a bounds check, or correct the index.",
    "steps": "Check the loop's condition and its increment.",
    "mbarrier": "Compare the arrivals of a phase with the number that init set, and wait for a phase to end "
    "before you arrive for the next one.",
    "tensor map": "Give coordinates in elements, x first; x is a multiple of 16 bytes.",
}
"""What to do about a hazard, where the usual words offer what a puzzle does not."""
_TWICE = (
    "Two copies write to the same place. Check the destinations and the mask, or wait for the first copy."
)
"""What to do where a copy writes over one that is in flight."""
MAX_STEPS = 2_000_000
"""Warp instructions after which an answer counts as endless; every solution needs far fewer."""


@dataclass(frozen=True)
class Spent:
    """What an answer spent of one part of its budget in the first launch."""

    what: str
    """In a word or two."""
    counted: int
    """What it counted."""
    most: int
    """The limit."""
    because: str
    """Why the limit is what it is."""


@dataclass(frozen=True)
class Verdict:
    """An answer that is right everywhere and within its budget."""

    label: str
    """The sizes that `spent` is counted at."""
    spent: tuple[Spent, ...]
    """The budget, part by part."""
    launches: int
    """How many sizes it was tried at."""


def judge(puzzle: Puzzle, text: str, path: str) -> Verdict:
    """Judge an answer.

    Args:
        puzzle: what it answers.
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
    """What a right kernel spends in the first launch, whether that is within the budget or not.

    Raises:
        LessonError: it is not right.
    """
    with without_logging():
        runs = _right(puzzle, read(puzzle, text, puzzle.file))
    _, values, run = runs[0]
    return spent(puzzle, values, run)


def spent(puzzle: Puzzle, values: Values, run: Run) -> tuple[Spent, ...]:
    """The budget of a launch beside what a run of it counted."""
    return tuple(
        Spent(COUNTERS[limit.counter].short, _count(run.counts, limit), limit.most(values), limit.because)
        for limit in puzzle.limits
    )


def read(puzzle: Puzzle, text: str, path: str) -> Kernel:
    """The kernel of an answer.

    Raises:
        LessonError: the file holds nothing new, or its kernel is not the puzzle's.
    """
    options = ("-arch=sm_90a",) if '#include "hopper.cuh"' in puzzle.solution else ()
    wanted = Kernel(puzzle.solution, options=options)
    repair = f"The puzzle launches `{_signature(wanted)}`; keep that line as it was in the original file."
    if tokens(text) == tokens(puzzle.gaps):
        line = next(at for at, one in enumerate(text.split("\n"), start=1) if f"// {TO_DO}" in one)
        message = "the gaps are still empty."
        raise LessonError(path, line, message, "Write your code here, save the file and run the check again.")
    try:
        kernel = Kernel(text, name=wanted.name, options=options)
    except (ValueError, TypeError) as error:
        raise LessonError(path, 0, f"{_end(str(error))}", repair) from None
    kernel.origin = (path, 1 + next(at for at, line in enumerate(text.split("\n")) if line.strip()))
    if _signature(kernel) != _signature(wanted):
        line = kernel.origin[1] + kernel.function.line - 1
        raise LessonError(path, line, f"the kernel is now `{_signature(kernel)}`.", repair)
    return kernel


def _signature(kernel: Kernel) -> str:
    return f"{kernel.name}({', '.join(f'{one.ctype} {one.name}' for one in kernel.parameters)})"


def _right(puzzle: Puzzle, kernel: Kernel) -> list[tuple[Trial, Values, Run]]:
    """Every launch with its inputs and its run, all of them with the right outputs."""
    path, _ = kernel.origin
    runs: list[tuple[Trial, Values, Run]] = []
    for trial in puzzle.trials:
        values = marked(trial.case.make())
        arrays: dict[str, Any] = {name: _copy(value) for name, value in values.items()}
        at = f"Launched with {trial.label}{_shape(trial.case)}."
        try:
            run = kernel.on(trial.case).simulate(arrays=arrays, max_steps=MAX_STEPS)
        except HazardError as error:
            raise LessonError(error.path, _line(error), *_said(error, at)) from None
        except (ValueError, TypeError) as error:
            raise LessonError(path, 0, f"{_end(str(error))} {at}") from None
        for name, right in puzzle.expected(values).items():
            wrong = first_wrong(name, arrays[name], right, values, puzzle.rtol, puzzle.atol)
            if wrong:
                message, repair = wrong
                raise LessonError(path, 0, f"wrong value: {message} {at}", repair)
        runs.append((trial, values, run))
    return runs


def _line(error: HazardError) -> int:
    """The line of the kernel itself: where a hazard is in a function that it calls, that of the call."""
    return error.line - error.hazard.line + error.hazard.caller if error.hazard.caller else error.line


def _said(error: HazardError, at: str) -> tuple[str, str]:
    """A hazard in words that fit a line; and the launch that met it, with what to do about it."""
    repair = _REPAIRS.get(error.hazard.kind, error.repair)
    if error.hazard.kind == "undelivered" and " writes " in error.hazard.message:
        repair = _TWICE
    caller = error.hazard.caller_line.strip()
    message = f"{error.hazard}, in `{caller}`." if caller else error.message
    whole = message if len(message) <= LONGEST_LINE else f"{error.hazard}."
    return whole, f"{at} {repair}"


def _within_budget(puzzle: Puzzle, kernel: Kernel, trial: Trial, values: Values, run: Run) -> None:
    path, first_line = kernel.origin
    for limit in puzzle.limits:
        count, most = _count(run.counts, limit), limit.most(values)
        if count <= most:
            continue
        by_line: Mapping[int, int] = {line: _count(one, limit) for line, one in run.lines.items() if line}
        line = max(by_line, key=lambda one: by_line[one], default=0)
        counter = COUNTERS[limit.counter]
        at = f"with {trial.label}{_shape(trial.case)}"
        message = f"over budget by {count - most:,}: {count:,} {counter.words} {at}; the budget is {most:,}."
        if not line:
            raise LessonError(path, 0, message, _repair(limit, most))
        message += f" This line accounts for {by_line[line]:,} of them."
        raise LessonError(path, first_line + line - 1, message, _repair(limit, most))


def _repair(limit: Limit, most: int) -> str:
    return f"{COUNTERS[limit.counter].repair} Why {most:,} is enough: {limit.because}."


def _count(counts: Any, limit: Limit) -> int:
    return int(attrgetter(limit.counter)(counts))


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _shape(case: Case) -> str:
    """The launch in a few words, behind a comma."""
    blocks, threads = (" x ".join(str(one) for one in _used(extents)) for extents in (case.grid, case.block))
    return f", {blocks} block{'' if blocks == '1' else 's'} of {threads} threads"


def _used(extents: tuple[int, int, int] | None) -> tuple[int, ...]:
    assert extents is not None, "a puzzle's case has its launch"
    last = max((at for at, extent in enumerate(extents) if extent > 1), default=0)
    return extents[: last + 1]


def _end(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
