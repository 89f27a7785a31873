"""Runs lessons, and keeps what they showed by their code and by the files they read.

In: a parsed lesson. Out: a ``LessonRun`` with the outputs of each cell, or a ``LessonError`` at the lesson's
own line; on request also what there is so far. An edit of prose never executes anything.
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
"""How many lessons keep the processes of their last runs."""


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
    """Each kernel that it made, with launches that went well; ``gpu.saved_launches.decode`` reads them."""
    machine: str = ""
    """Whose records all of it rests on: the folder of the first machine with records; empty without any."""
    others: Mapping[str, Mapping[int, tuple[Output, ...]]] = field(default_factory=dict)
    """By further machine and cell: the outputs with its records, where they differ."""
    published_by: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By further machine: values for the prose that differ."""
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The records that the lesson's prose names, by experiment."""
    records_by: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """By further machine: its records of these, where it has them."""
    digest: str = ""
    """A hash of all of this but the inputs: equal digests of one lesson render alike."""
    executed: bool = False
    """Whether cells were executed for it just now."""
    pending: frozenset[int] = frozenset()
    """The code cells that have not ended yet; what they showed the last time may stand in ``outputs``."""
    stopped: bool = False
    """Whether they never will: the lesson failed before their end."""

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """The tables of what it measures."""
        every = (output for outputs in self.outputs for output in outputs)
        return tuple(output for output in every if isinstance(output, Measurement))

    @property
    def machines(self) -> tuple[str, ...]:
        """The further machines of which anything differs."""
        return tuple(dict.fromkeys((*self.others, *self.published_by, *self.records_by)))

    def on(self, machine: str) -> LessonRun:
        """The same run with a further machine's records first, and this one's beside them."""
        theirs, own = dict(self.others.get(machine, {})), self.outputs
        values = dict(self.published_by.get(machine, {}))
        return replace(
            self,
            machine=machine,
            outputs=tuple(theirs.get(index, outputs) for index, outputs in enumerate(own)),
            published={**self.published, **values},
            records={**self.records, **self.records_by.get(machine, {})},
            others={**self.others, self.machine: {index: own[index] for index in theirs}} | {machine: {}},
            published_by={
                **self.published_by,
                self.machine: {name: self.published[name] for name in values if name in self.published},
                machine: {},
            },
            records_by={**self.records_by, self.machine: self.records, machine: {}},
        )

    def on_one_machine(self) -> LessonRun:
        """The run on the first machine on which every experiment of the page has a current record.

        Where there is none, the run is left as it is: each table says where its times come from.
        """
        runs = (self, *map(self.on, self.machines))
        return next((run for run in runs if run._is_whole()), self)

    def _is_whole(self) -> bool:
        return all(not one.stale and one.machine == self.machine for one in self.measurements)

    @property
    def stale(self) -> frozenset[str]:
        """What is no longer current in the lesson's own tables: ``experiment.variant``, as prose quotes."""
        return frozenset(
            f"{measurement.name}.{name_slug(row['variant'])}"
            for measurement in self.measurements
            for row in measurement.rows
            if measurement.stale and row["stale"]
        )


@dataclass(frozen=True, eq=False)
class _Latest:
    """What a lesson gave the last time that it was asked for."""

    lesson: Lesson
    result: Result
    run: LessonRun


class Runner:
    """Runs the lessons of one project and keeps what they showed.

    Args:
        root: the project's root; lessons' paths are relative to it.
        cache: the folder for caches, e.g. ``.cache/tilewise``; results go to ``runs`` below it.
        time_limit_s: after how long a lesson is stopped.
        output_limit: how many characters of printed text are kept of a lesson.
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
        """What the lesson shows: kept if its code and what it read are unchanged, else executed now.

        Args:
            lesson: the lesson.
            listen: is told of each cell that ends, where cells are executed; ``so_far`` reads it.
            stop: once it is set, the run is given up.
            snapshots: go on from the process of the last run where that was kept, and keep this one, so that
                the next edit of the lesson's code runs only what follows it.

        Raises:
            LessonError: a cell fails, takes too long, leaves Python, or a pair of tabs was not compared.
            Stopped: ``stop`` was set.
        """
        return self.kept(lesson) or self._execute(lesson, listen, stop, snapshots)

    def kept(self, lesson: Lesson) -> LessonRun | None:
        """What the lesson shows, where that is known without executing it.

        Raises:
            LessonError: a pair of tabs was not compared, or a record that the prose names cannot be believed.
        """
        known = self._latest.get(lesson.id)
        if known is not None and known.lesson is lesson and self._store.holds(known.result):
            return self._with_records(lesson, known.run)
        result = self._store.get(self._store.key(self._job(lesson)))
        return None if result is None else self._finished(lesson, result, executed=False)

    def so_far(self, lesson: Lesson, cells: Mapping[int, CellResult] | None = None) -> LessonRun:
        """What there is of a lesson that has not ended; where nothing new is there, what was there before.

        Args:
            lesson: the lesson.
            cells: what ended, by the cell's place among the code cells.
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
        if latest is not None:  # what a cell that has changed published is shown until it has ended
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
        """The snapshots of a lesson, for one run at a time; empty where what its cells read has changed."""
        with self._chains_lock:
            chain = self._chains.pop(lesson.id, None) or SnapshotChain()
            self._chains[lesson.id] = chain
            oldest = list(self._chains)[:-WARM_LESSONS]
            others = [self._chains.pop(name) for name in oldest]
        for other in others:
            with other.in_use:
                other.delete()
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
        """The run with the records that the prose names, which an edit of prose may have changed."""
        shown = {one.name: one.provenance["device"] for one in run.measurements if one.provenance}
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
        """The folders of the machines with records, the first one's first; only that which is asked for."""
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
        kernels[index] = {name: one for name, one in decoded.items() if isinstance(one, KernelOutput)}
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
