"""Running lessons: cells in order, in a process of their own, kept by code and by what they read.

In: a parsed lesson. Out: a ``LessonRun`` with the outputs of each cell, or a ``LessonError`` at the
lesson's own line. An edit of prose never executes anything. Nothing is rendered here.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tilewise.errors import LessonError, raise_all
from tilewise.gpu.front_ends import FRONT_ENDS, PSEUDOCODE
from tilewise.lesson import Cell, Lesson
from tilewise.numbers import Records
from tilewise.outputs import AgreeOutput, KernelOutput, Output, decode
from tilewise.run.job import CodeCell, Job, Result
from tilewise.run.process import Server, run_fresh
from tilewise.run.store import Store

__all__ = ["LessonRun", "Runner"]


@dataclass(frozen=True, eq=False)
class LessonRun:
    """What a lesson's cells showed."""

    outputs: tuple[tuple[Output, ...], ...]
    """One entry for each cell of the lesson; empty for prose."""
    published: Mapping[str, Any]
    """Values that the lesson's prose may quote."""
    inputs: tuple[Path, ...]
    """Files and folders that the cells read: project modules, records. Absolute."""
    skipped: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By cell: what it needs and the building machine lacks."""
    kernels: Mapping[int, Mapping[str, KernelOutput]] = field(default_factory=dict)
    """By cell: the kernels that it bound to names."""
    launches: tuple[Mapping[str, Any], ...] = ()
    """Each kernel that it made, with launches that went well; ``gpu.launches.decode`` reads them."""
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The records that the lesson's prose names, by experiment."""
    digest: str = ""
    """A hash of all of this but the inputs: equal digests of one lesson render alike."""
    executed: bool = False
    """Whether cells were executed for it just now."""

    @property
    def stale(self) -> frozenset[str]:
        """The experiments whose records are no longer current, as the lesson's own tables say."""
        return frozenset(
            str(getattr(output, "name", ""))
            for outputs in self.outputs
            for output in outputs
            if output.kind == "measurement" and bool(getattr(output, "stale", False))
        )


@dataclass(frozen=True, eq=False)
class _Latest:
    """What a lesson gave the last time that it was asked for."""

    lesson: Lesson
    key: str
    result: Result
    made: LessonRun


class Runner:
    """Runs the lessons of one project and keeps what they showed.

    Args:
        root: the project's root; lessons' paths are relative to it.
        cache: the folder for caches, e.g. ``.cache/tilewise``; results go to ``runs`` below it.
        time_limit_s: after how long a lesson is stopped.
        output_limit: how many characters of printed text are kept of a lesson.
        warm: fork children from a server with imports loaded, for a short wait while serving.
    """

    def __init__(
        self,
        root: Path,
        cache: Path,
        time_limit_s: float = 120,
        output_limit: int = 1_000_000,
        warm: bool = False,
    ) -> None:
        self._root = root.resolve()
        self._store = Store(self._root, cache.resolve() / "runs")
        self._records = Records(self._root)
        self._time_limit_s = time_limit_s
        self._output_limit = output_limit
        self._server = Server() if warm and sys.platform != "win32" else None
        self._latest: dict[str, _Latest] = {}

    def run(self, lesson: Lesson) -> LessonRun:
        """What the lesson shows: kept if its code and what it read are unchanged, else executed now.

        Raises:
            LessonError: a cell fails, takes too long, leaves Python, or a pair of tabs was not compared.
        """
        known = self._latest.get(lesson.id)
        if known is not None and known.lesson is lesson and self._store.holds(known.result):
            return self._with_records(lesson, known.made)
        job = self._job(lesson)
        key = self._store.key(job)
        if known is not None and known.key == key and self._store.holds(known.result):
            result, executed = known.result, False
        else:
            kept = self._store.get(key)
            result, executed = kept or self._execute(job), kept is None
            if executed:
                self._store.put(key, result)
        made = _lesson_run(lesson, result, self._root, executed)
        _check_pairs(lesson, result, made)
        self._latest[lesson.id] = _Latest(lesson, key, result, replace(made, executed=False))
        return self._with_records(lesson, made)

    def start(self) -> None:
        """Start the warm server ahead of the first lesson; nothing without one."""
        if self._server is not None:
            self._server.start()

    def close(self) -> None:
        """Stop the warm server, if there is one."""
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _with_records(self, lesson: Lesson, made: LessonRun) -> LessonRun:
        """The run with the records that the prose names, which an edit of prose may have changed."""
        records = self._records.named_by(lesson, made.published)
        if not records:
            return made
        content = json.dumps([made.digest, records], sort_keys=True, default=str)
        return replace(made, records=records, digest=hashlib.sha256(content.encode()).hexdigest()[:24])

    def _execute(self, job: Job) -> Result:
        if not job.cells:
            return Result()
        return self._server.run(job) if self._server is not None else run_fresh(job)

    def _job(self, lesson: Lesson) -> Job:
        sets = {index: number for number, members in enumerate(lesson.tab_sets) for index in members}
        cells = tuple(
            CodeCell(
                index=ordinal,
                line=lesson.cells[index].first_line,
                source_line=lesson.cells[index].source_line,
                source=lesson.cells[index].source,
                tab=lesson.cells[index].tab,
                tab_set=sets.get(index, -1),
                needs=lesson.cells[index].needs,
                record=lesson.cells[index].record,
            )
            for ordinal, index in enumerate(_code(lesson))
        )
        return Job(
            root=str(self._root),
            path=lesson.path,
            lesson_id=lesson.id,
            lines=tuple(lesson.text.split("\n")),
            cells=cells,
            time_limit_s=self._time_limit_s,
            output_limit=self._output_limit,
        )


def _lesson_run(lesson: Lesson, result: Result, root: Path, executed: bool) -> LessonRun:
    places = _code(lesson)
    shown: list[tuple[Output, ...]] = [()] * len(lesson.cells)
    for ordinal, encoded in result.outputs.items():
        shown[places[ordinal]] = tuple(decode(entry) for entry in encoded)
    kernels: dict[int, dict[str, KernelOutput]] = {}
    for ordinal, found in result.kernels.items():
        decoded = {name: decode(encoded) for name, encoded in found.items()}
        kernels[places[ordinal]] = {
            name: output for name, output in decoded.items() if isinstance(output, KernelOutput)
        }
    content = result.to_dict()
    del content["inputs"], content["launches"]
    return LessonRun(
        outputs=tuple(shown),
        published=result.published,
        inputs=tuple(root / path for path in result.inputs),
        skipped={places[ordinal]: tuple(names) for ordinal, names in result.skipped.items()},
        kernels=kernels,
        launches=tuple(result.launches),
        digest=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24],
        executed=executed,
    )


def _check_pairs(lesson: Lesson, result: Result, made: LessonRun) -> None:
    """Every pseudocode or other front end beside a CUDA tab must have been compared with it by ``agree``.

    Raises:
        LessonError: a pair was not; the cell of the pseudocode or the front end is named.
    """
    agreed = {
        (output.by, output.function, output.kernel)
        for outputs in made.outputs
        for output in outputs
        if isinstance(output, AgreeOutput)
    }
    ordinals = {index: ordinal for ordinal, index in enumerate(_code(lesson))}
    by_title = {name.casefold(): name for name in FRONT_ENDS}
    errors = []
    for members in lesson.tab_sets:
        others = [index for index in members if lesson.cells[index].tab.casefold() in by_title]
        cuda = [index for index in members if lesson.cells[index].tab.casefold().startswith("cuda")]
        for left in others:
            by = by_title[lesson.cells[left].tab.casefold()]
            for right in cuda:
                if right in made.skipped or left in made.skipped:
                    continue
                functions = result.functions.get(ordinals[left], [])
                kernels = {kernel.name: name for name, kernel in made.kernels[right].items()}
                if not any((by, one, kernel) in agreed for one in functions for kernel in kernels):
                    errors.append(
                        _not_agreed(lesson.cells[left], lesson.cells[right], by, functions, kernels)
                    )
    raise_all(errors)


def _not_agreed(
    left: Cell, right: Cell, by: str, functions: Sequence[str], kernels: Mapping[str, str]
) -> LessonError:
    if not functions:
        message = f'the tab "{left.tab}" defines no function that could be compared with "{right.tab}".'
        return LessonError(left.path, left.first_line, message, "Write it as one function.")
    if not kernels:
        message = f'the tab "{right.tab}" defines no Kernel that could be compared with "{left.tab}".'
        return LessonError(right.path, right.first_line, message, 'Write NAME = Kernel(r"""...""").')
    pair = f"{functions[-1]}, {next(iter(kernels.values()))}"
    message = f'the tabs "{left.tab}" and "{right.tab}" were not compared.'
    said = "" if by == PSEUDOCODE else f', by="{by}"'
    repair = f"Add agree({pair}, cases, rtol=...{said}) in a cell below them."
    return LessonError(left.path, left.first_line, message, repair)


def _code(lesson: Lesson) -> list[int]:
    """The indices of the code cells among all cells."""
    return [index for index, cell in enumerate(lesson.cells) if cell.kind == "code"]
