"""Runs lessons, and caches their outputs by their code and the files they read.

In: a parsed lesson. Out: a ``LessonRun`` with the outputs of each cell, or a ``LessonError`` with its line in
the lesson; on request also the outputs so far. An edit of prose never executes anything.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tilewise.build.numbers import Records
from tilewise.build.run.job import CellResult, CodeCell, Job, Result
from tilewise.build.run.process import Listener, run_job
from tilewise.build.run.snapshots import SnapshotChain
from tilewise.build.run.store import Store
from tilewise.course.lesson import Lesson
from tilewise.course.rules import run_faults
from tilewise.errors import raise_all
from tilewise.measurements.archive import MACHINES, Archive, wanted_machine
from tilewise.measurements.output import Measurement
from tilewise.measurements.slugs import device_slug, name_slug
from tilewise.outputs import KernelOutput, Output, decode

WARM_LESSONS = 2
"""The number of lessons whose last runs are kept as snapshots."""


@dataclass(frozen=True, eq=False)
class LessonRun:
    """What a lesson's cells showed."""

    outputs: tuple[tuple[Output, ...], ...]
    """One entry per cell of the lesson; empty for prose."""
    published: Mapping[str, Any]
    """Values that the lesson's prose may quote."""
    inputs: tuple[Path, ...]
    """Files and folders that the cells read: project modules, records. Absolute."""
    skipped: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By cell: the needs that the building machine lacks."""
    kernels: Mapping[int, Mapping[str, KernelOutput]] = field(default_factory=dict)
    """By cell: the kernels that it bound to names."""
    launches: tuple[Mapping[str, Any], ...] = ()
    """Each kernel that it built, with its successful launches; ``kernel.saved_launches`` decodes them."""
    machine: str = ""
    """The folder of the machine whose records it uses; empty if there are no records."""
    others: Mapping[str, Mapping[int, tuple[Output, ...]]] = field(default_factory=dict)
    """By further machine and cell: the outputs with its records, where they differ."""
    published_by: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By further machine: the values for prose that differ."""
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The records that the lesson's prose names, by experiment."""
    records_by: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """By further machine: its records of the same experiments, if any."""
    digest: str = ""
    """A hash of all other fields except the inputs: equal digests of a lesson render equally."""
    executed: bool = False
    """Whether cells were executed for this run."""
    pending: frozenset[int] = frozenset()
    """The code cells that have not ended yet; ``outputs`` may have their outputs of the last run."""
    stopped: bool = False
    """Whether the lesson failed before the pending cells ended."""

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """The lesson's measurement tables."""
        every = (output for outputs in self.outputs for output in outputs)
        return tuple(output for output in every if isinstance(output, Measurement))

    @property
    def machines(self) -> tuple[str, ...]:
        """The further machines with any difference."""
        return tuple(dict.fromkeys((*self.others, *self.published_by, *self.records_by)))

    def on(self, machine: str) -> LessonRun:
        """The same run with a further machine's records first, and this machine's as a further one."""
        differing, own = dict(self.others.get(machine, {})), self.outputs
        values = dict(self.published_by.get(machine, {}))
        return replace(
            self,
            machine=machine,
            outputs=tuple(differing.get(index, outputs) for index, outputs in enumerate(own)),
            published={**self.published, **values},
            records={**self.records, **self.records_by.get(machine, {})},
            others={**self.others, self.machine: {index: own[index] for index in differing}} | {machine: {}},
            published_by={
                **self.published_by,
                self.machine: {name: self.published[name] for name in values if name in self.published},
                machine: {},
            },
            records_by={**self.records_by, self.machine: self.records, machine: {}},
        )

    def on_one_machine(self) -> LessonRun:
        """The run on the first machine on which every experiment of the page has a current record.

        If there is none, the run is returned unchanged: each table names the source of its times.
        """
        runs = (self, *map(self.on, self.machines))
        return next((run for run in runs if run._is_whole()), self)

    def _is_whole(self) -> bool:
        return all(not table.stale and table.machine == self.machine for table in self.measurements)

    @property
    def stale(self) -> frozenset[str]:
        """The variants in the lesson's tables that are no longer current, as ``experiment.variant``."""
        return frozenset(
            f"{measurement.name}.{name_slug(row['variant'])}"
            for measurement in self.measurements
            for row in measurement.rows
            if measurement.stale and row["stale"]
        )


@dataclass(frozen=True, eq=False)
class _Latest:
    """A lesson's latest result."""

    lesson: Lesson
    result: Result
    run: LessonRun


class Runner:
    """Runs the lessons of one project and caches their outputs.

    Args:
        root: the project's root; lessons' paths are relative to it.
        cache: the folder for caches, e.g. ``.cache/tilewise``; results go to ``runs`` below it.
        time_limit_s: the time after which a lesson is stopped.
        output_limit: the limit on printed characters per lesson.
    """

    def __init__(
        self,
        root: Path,
        cache: Path,
        time_limit_s: float = 300,
        output_limit: int = 1_000_000,
    ) -> None:
        self._root = root.resolve()
        self._store = Store(self._root, cache.resolve() / "runs")
        self._records = Records(self._root)
        self._time_limit_s = time_limit_s
        self._output_limit = output_limit
        self._latest: dict[str, _Latest] = {}
        self._chains: dict[str, SnapshotChain] = {}
        self._chains_lock = threading.Lock()

    def run(
        self,
        lesson: Lesson,
        listen: Listener | None = None,
        stop: threading.Event | None = None,
        snapshots: bool = False,
    ) -> LessonRun:
        """A lesson's outputs: cached if its code and inputs are unchanged, otherwise executed now.

        Args:
            lesson: the lesson.
            listen: called with the results so far after each executed cell; ``so_far`` reads them.
            stop: once it is set, the run is abandoned.
            snapshots: resume from the last run's snapshots if there are any, and take new ones, so that the
                next edit of the lesson's code runs only the cells below it.

        Raises:
            LessonError: a cell fails, takes too long, leaves Python, or a pair of tabs was not compared.
            Stopped: ``stop`` was set.
        """
        return self.kept(lesson) or self._execute(lesson, listen, stop, snapshots)

    def kept(self, lesson: Lesson) -> LessonRun | None:
        """A lesson's cached outputs; None if it has to be executed.

        Raises:
            LessonError: a pair of tabs was not compared, or a record that the prose names is invalid.
        """
        known = self._latest.get(lesson.id)
        if known is not None and known.lesson is lesson and self._store.holds(known.result):
            return self._with_records(lesson, known.run)
        result = self._store.get(self._store.key(self._job(lesson)))
        return None if result is None else self._finished(lesson, result, executed=False)

    def so_far(self, lesson: Lesson, cells: Mapping[int, CellResult] | None = None) -> LessonRun:
        """The outputs so far of a lesson that has not ended; for pending cells, those of the last run.

        Args:
            lesson: the lesson.
            cells: the results of the ended cells, by index among the code cells.
        """
        done = dict(cells or {})
        places = _code(lesson)
        pending = frozenset(index for ordinal, index in enumerate(places) if ordinal not in done)
        latest = self._latest.get(lesson.id)
        if latest is not None:
            before = [latest.lesson.cells[index] for index in _code(latest.lesson)]
            known = {(cell.source, cell.tab): ordinal for ordinal, cell in reversed(list(enumerate(before)))}
            for ordinal, index in enumerate(places):
                cell = lesson.cells[index]
                if ordinal not in done and (cell.source, cell.tab) in known:
                    done[ordinal] = latest.result.cells[known[cell.source, cell.tab]]
        result = Result(dict(sorted(done.items())))
        run = replace(_lesson_run(lesson, result, self._root, executed=True), pending=pending)
        if latest is not None:  # values that a changed cell published stay until it has ended
            published = {**latest.run.published, **run.published}
            run = replace(run, published=published, digest=run.digest + latest.run.digest)
        return self._with_records(lesson, run)

    def _execute(
        self,
        lesson: Lesson,
        listen: Listener | None,
        stop: threading.Event | None,
        snapshots: bool,
    ) -> LessonRun:
        job = self._job(lesson)
        if not job.cells:
            result = Result()
        else:
            with self._chain(lesson) if snapshots else nullcontext() as chain:
                result = run_job(job, listen, chain, stop)
        self._store.put(self._store.key(job), result)
        return self._finished(lesson, result, executed=True)

    def _finished(self, lesson: Lesson, result: Result, executed: bool) -> LessonRun:
        run = _lesson_run(lesson, result, self._root, executed)
        raise_all(list(run_faults(lesson, run, stops=True)))
        self._latest[lesson.id] = _Latest(lesson, result, replace(run, executed=False))
        return self._with_records(lesson, run)

    @contextmanager
    def _chain(self, lesson: Lesson) -> Iterator[SnapshotChain]:
        """The snapshots of a lesson, for one run at a time; empty if an input of its cells has changed."""
        with self._chains_lock:
            chain = self._chains.pop(lesson.id, None) or SnapshotChain()
            self._chains[lesson.id] = chain
            oldest = list(self._chains)[:-WARM_LESSONS]
            expired = [self._chains.pop(name) for name in oldest]
        for old_chain in expired:
            with old_chain.in_use:
                old_chain.delete()
        with chain.in_use:
            known = self._latest.get(lesson.id)
            if known is None or not self._store.holds(known.result):
                chain.close()
            yield chain

    def close(self) -> None:
        """End every snapshot."""
        while self._chains:
            self._chains.popitem()[1].delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _with_records(self, lesson: Lesson, run: LessonRun) -> LessonRun:
        """The run with the records that the prose names, because an edit of prose may change them."""
        shown = {table.name: table.provenance["device"] for table in run.measurements if table.provenance}
        records = self._records.named_by(lesson, run.published, shown)
        if not records and not run.pending and not run.others:
            return run
        by_machine = self._records.by_machine(lesson, run.published)
        content = json.dumps(
            [run.digest, sorted(run.pending), records, by_machine], sort_keys=True, default=str
        )
        digest = hashlib.sha256(content.encode()).hexdigest()[:24]
        machine = next(iter(self._machines()), "")
        run = replace(run, records=records, records_by=by_machine, digest=digest, machine=machine)
        return run.on_one_machine()

    def _machines(self) -> tuple[str, ...]:
        """The folders of the machines with records, the default first; or only the one that is requested."""
        wanted = wanted_machine()
        return (wanted,) if wanted else Archive(self._root / "lessons").devices

    def _job(self, lesson: Lesson) -> Job:
        machines = self._machines()
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
            records=str(self._root / "lessons" / "measurements"),
            machines=machines[1:],
            course_machines=tuple(map(device_slug, MACHINES)),
        )


def _lesson_run(lesson: Lesson, result: Result, root: Path, executed: bool) -> LessonRun:
    places = _code(lesson)
    cells = {places[ordinal]: cell for ordinal, cell in result.cells.items()}
    shown: list[tuple[Output, ...]] = [()] * len(lesson.cells)
    published: dict[str, Any] = {}
    others: dict[str, dict[int, tuple[Output, ...]]] = {}
    published_by: dict[str, dict[str, Any]] = {}
    kernels: dict[int, dict[str, KernelOutput]] = {}
    for index, cell in cells.items():
        shown[index] = tuple(map(decode, cell.outputs))
        published |= cell.published
        for machine, outputs in cell.others.items():
            others.setdefault(machine, {})[index] = tuple(map(decode, outputs))
        for machine, values in cell.published_by.items():
            published_by.setdefault(machine, {}).update(values)
        decoded = {name: decode(kernel) for name, kernel in cell.kernels.items()}
        kernels[index] = {name: each for name, each in decoded.items() if isinstance(each, KernelOutput)}
    return LessonRun(
        outputs=tuple(shown),
        published=published,
        others=others,
        published_by=published_by,
        inputs=tuple(root / path for path in result.inputs),
        skipped={index: tuple(cell.skipped) for index, cell in cells.items() if cell.skipped},
        kernels=kernels,
        launches=tuple(result.launches),
        digest=result.digest,
        executed=executed,
    )


def _code(lesson: Lesson) -> list[int]:
    """The indices of the code cells among all cells."""
    return [index for index, cell in enumerate(lesson.cells) if cell.kind == "code"]
