"""``make records``: renew the records that need no GPU, with one process per core.

In: the lessons, which run unless their cached results are valid, and the existing records. Out: the same
records, current; only entries whose keys changed are compiled or simulated. After an interrupt, finished work
is kept.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self, TypeVar

from tilewise.cuda.kernel_source import KernelError
from tilewise.errors import LessonError
from tilewise.kernel import nvrtc
from tilewise.kernel.saved_launches import decode
from tilewise.measurements.compiled_kernels import (
    ResourceRecord,
    ResourceRow,
    encoded_key,
    load_resources,
    title,
)
from tilewise.measurements.validation import LESSONS, Row, load_comparison
from tilewise.simulator.compile.toolchain import ToolchainError
from validation.collection import files, launches, of_lesson
from validation.comparison import assemble, file_name, save_comparison, waiting
from validation.kernels import OWN
from validation.record import PROJECT, Counted, DeviceRecord, counters
from validation.resources import examine, save_resources
from validation.simulation import simulate, simulator_key
from validation.specimen import decode_specimen, encode_specimen

Encoded = Mapping[str, Any]
Specimens = Mapping[str, Mapping[str, Encoded]]
"""Encoded specimens, by title of their group and by key."""
Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers:
    """A process pool that reports its progress.

    Args:
        say: prints a line of progress.

    Attributes:
        failures: the errors of failed tasks.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.failures: list[str] = []
        self._say = say
        self._pool = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_go_on)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def each(self, what: str, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results of successful tasks, as they complete."""
        self._say(f"{what}: {len(tasks)}" if tasks else f"{what}: nothing has changed")
        futures = [self._pool.submit(_attempt, work, task) for task in tasks]
        for done, future in enumerate(as_completed(futures), 1):
            failure, result = future.result()
            if not failure:
                yield result
            elif failure not in self.failures:
                self.failures.append(failure)
            self._say(f"{what}: {done} of {len(tasks)}")


def _go_on() -> None:
    """Ignore interrupts, which the parent handles; child processes still receive them."""
    signal.signal(signal.SIGINT, lambda *_: None)


def _attempt(work: Callable[[Task], Result], task: Task) -> tuple[str, Any]:
    """The error as text, or the result; not all of these errors can be pickled."""
    try:
        return "", work(task)
    except (LessonError, KernelError, ToolchainError) as error:
        return str(error), None


def renew(say: Callable[[str], None], project: Path = PROJECT) -> list[str]:
    """Renew the record of compiled kernels, and the record of each comparison with a device.

    Args:
        say: prints a line of progress.
        project: the folder of ``lessons/`` and the records.

    Returns:
        The errors; everything else is recorded.
    """
    if missing := nvrtc.available():
        return [f"{missing} Install it: pip install nvidia-cuda-nvrtc."]
    with Workers(say) as workers:
        lessons = list(workers.each("Running lessons", _run, files(project / "lessons")))
        if workers.failures:
            return workers.failures
        lessons.sort(key=lambda lesson: Path(f"{lesson[0]}.py"))
        _compile(workers, {lesson: kernels for lesson, kernels, _ in lessons}, project)
        first: dict[str, Encoded] = {}
        for _, _, specimens in lessons:
            for key, specimen in specimens.items():
                first.setdefault(key, specimen)
        own = {group: {s.key: encode_specimen(s) for s in members} for group, members in OWN.items()}
        for counts in counters():
            _simulate(workers, {LESSONS: first, **own}, counts, project)
        return workers.failures


def _run(file: Path) -> tuple[str, Sequence[Encoded], Mapping[str, Encoded]]:
    """A lesson's id, its kernels without their launches, and its specimens by key."""
    ((lesson, path, encoded),) = launches(file.parents[1], [file])
    specimens = of_lesson(lesson, [decode(kernel, path) for kernel in encoded])
    kernels = [{**kernel, "path": path, "launches": []} for kernel in encoded]
    return lesson, kernels, {specimen.key: encode_specimen(specimen) for specimen in specimens}


def _compile(workers: Workers, lessons: Mapping[str, Sequence[Encoded]], project: Path) -> None:
    """Renew the record of compiled kernels."""
    version = nvrtc.nvrtc_version()
    rows: dict[str, ResourceRow] = {}
    with suppress(LessonError):  # an unreadable record is replaced
        old = load_resources(project)
        rows = {row.key: row for kernels in old.lessons.values() for row in kernels if old.nvrtc == version}
    keyed = {name: [(encoded_key(kernel), kernel) for kernel in kernels] for name, kernels in lessons.items()}
    tasks = {key: kernel for pairs in keyed.values() for key, kernel in pairs if key not in rows}
    try:
        for row in workers.each("Compiling kernels", _examine, list(tasks.values())):
            rows[row.key] = row
    finally:
        by_lesson = {
            lesson: tuple(_titled(rows[key], kernel) for key, kernel in pairs if key in rows)
            for lesson, pairs in keyed.items()
        }
        save_resources(ResourceRecord(version, by_lesson), project)


def _examine(kernel: Encoded) -> ResourceRow:
    return examine(decode(kernel, kernel["path"]).kernel)


def _titled(row: ResourceRow, kernel: Encoded) -> ResourceRow:
    """A row with its kernel's title and declared spills, which the compiler does not know."""
    spills = nvrtc.declared_spill(kernel["source"]) or ""
    return replace(row, title=title(kernel["name"], kernel["defines"]), spills=spills)


def _simulate(workers: Workers, groups: Specimens, counts: DeviceRecord[Counted], project: Path) -> None:
    """Renew the record of the comparison with a device."""
    simulator = simulator_key()
    rows: dict[str, Row] = {}
    with suppress(LessonError):  # an unreadable record is replaced
        old = load_comparison(project, file_name(counts.device))
        if (old.simulator, old.counters) == (simulator, counts.checksum):
            rows = {row.key: row for row in old.rows}
    counted = {(row.name, row.key): row for row in counts.rows}
    tasks = [
        (specimen, counted[specimen["name"], key])
        for specimens in groups.values()
        for key, specimen in specimens.items()
        if (specimen["name"], key) in counted and not _is_current(rows.get(key), specimen)
    ]
    for _, row in tasks:
        rows.pop(row.key, None)
    try:
        for result in workers.each("Simulating kernels", _simulated, tasks):
            rows[result.key] = result
    finally:
        for specimens in groups.values():
            for key, specimen in specimens.items():
                if (specimen["name"], key) not in counted:
                    rows[key] = waiting(specimen["name"], key, counts)
        whole = {
            group: [rows[key] for key in specimens if key in rows] for group, specimens in groups.items()
        }
        save_comparison(assemble(whole, counts, simulator), project)


def _is_current(row: Row | None, specimen: Encoded) -> bool:
    """Whether an earlier record's row is for this specimen, with its stated tolerance."""
    if row is None or (row.name, row.idea) != (specimen["name"], specimen["idea"]):
        return False
    return specimen["stated"] is None or tuple(specimen["stated"]) == row.tolerance


def _simulated(task: tuple[Encoded, Counted]) -> Row:
    specimen, counted = task
    return simulate(decode_specimen(specimen), counted)
