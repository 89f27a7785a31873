"""``make records``: renew the records that need no GPU, in as many processes as there are cores.

In: the lessons, which run unless their last results still hold, and the records as they are. Out: the same
records, current; only what has changed by its key is compiled or simulated. An interrupt loses nothing that
is done.
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
"""By the title of their group and by their key: specimens as `encode_specimen` has them."""
Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers:
    """Processes that do tasks, and lines of progress while they do.

    Args:
        say: gets the lines.

    Attributes:
        failures: what the tasks said that failed.
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
        """The results of the tasks that do not fail, as they come."""
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
    """Leave an interrupt to the parent; what this process starts is interrupted all the same."""
    signal.signal(signal.SIGINT, lambda *_: None)


def _attempt(work: Callable[[Task], Result], task: Task) -> tuple[str, Any]:
    """What went wrong, or the result; the errors themselves do not all survive the way between processes."""
    try:
        return "", work(task)
    except (LessonError, KernelError, ToolchainError) as error:
        return str(error), None


def renew(say: Callable[[str], None], project: Path = PROJECT) -> list[str]:
    """Renew the record of compiled kernels, and that of each comparison with a device.

    Args:
        say: gets lines of progress.
        project: the folder that holds ``lessons/`` and the records.

    Returns:
        What failed; what did not is recorded.
    """
    if missing := nvrtc.available():
        return [f"{missing} Install it: pip install nvidia-cuda-nvrtc."]
    with Workers(say) as workers:
        lessons = list(workers.each("Running lessons", _run, files(project / "lessons")))
        if workers.failures:
            return workers.failures
        lessons.sort(key=lambda one: Path(f"{one[0]}.py"))
        _compile(workers, {lesson: kernels for lesson, kernels, _ in lessons}, project)
        first: dict[str, Encoded] = {}
        for _, _, found in lessons:
            for key, one in found.items():
                first.setdefault(key, one)
        own = {group: {one.key: encode_specimen(one) for one in found} for group, found in OWN.items()}
        for counts in counters():
            _simulate(workers, {LESSONS: first, **own}, counts, project)
        return workers.failures


def _run(file: Path) -> tuple[str, Sequence[Encoded], Mapping[str, Encoded]]:
    """A lesson's id, its kernels without their launches, and its specimens by key."""
    ((lesson, path, made),) = launches(file.parents[1], [file])
    specimens = of_lesson(lesson, [decode(one, path) for one in made])
    kernels = [{**one, "path": path, "launches": []} for one in made]
    return lesson, kernels, {one.key: encode_specimen(one) for one in specimens}


def _compile(workers: Workers, lessons: Mapping[str, Sequence[Encoded]], project: Path) -> None:
    """Renew the record of compiled kernels."""
    version = nvrtc.nvrtc_version()
    rows: dict[str, ResourceRow] = {}
    with suppress(LessonError):  # what cannot be read is made anew
        old = load_resources(project)
        rows = {row.key: row for found in old.lessons.values() for row in found if old.nvrtc == version}
    keyed = {lesson: [(encoded_key(one), one) for one in made] for lesson, made in lessons.items()}
    tasks = {key: one for made in keyed.values() for key, one in made if key not in rows}
    try:
        for row in workers.each("Compiling kernels", _examine, list(tasks.values())):
            rows[row.key] = row
    finally:
        found = {
            lesson: tuple(_titled(rows[key], one) for key, one in made if key in rows)
            for lesson, made in keyed.items()
        }
        save_resources(ResourceRecord(version, found), project)


def _examine(kernel: Encoded) -> ResourceRow:
    return examine(decode(kernel, kernel["path"]).kernel)


def _titled(row: ResourceRow, kernel: Encoded) -> ResourceRow:
    """A row with what its kernel says beside what the compiler is given."""
    spills = nvrtc.declared_spill(kernel["source"]) or ""
    return replace(row, title=title(kernel["name"], kernel["defines"]), spills=spills)


def _simulate(workers: Workers, groups: Specimens, counts: DeviceRecord[Counted], project: Path) -> None:
    """Renew the record of the comparison with a device."""
    simulator = simulator_key()
    rows: dict[str, Row] = {}
    with suppress(LessonError):  # what cannot be read is made anew
        old = load_comparison(project, file_name(counts.device))
        if (old.simulator, old.counters) == (simulator, counts.checksum):
            rows = {row.key: row for row in old.rows}
    counted = {(row.name, row.key): row for row in counts.rows}
    tasks = [
        (one, counted[one["name"], key])
        for found in groups.values()
        for key, one in found.items()
        if (one["name"], key) in counted and not _holds(rows.get(key), one)
    ]
    for _, row in tasks:
        rows.pop(row.key, None)
    try:
        for made in workers.each("Simulating kernels", _simulated, tasks):
            rows[made.key] = made
    finally:
        for found in groups.values():
            for key, one in found.items():
                if (one["name"], key) not in counted:
                    rows[key] = waiting(one["name"], key, counts)
        whole = {group: [rows[key] for key in found if key in rows] for group, found in groups.items()}
        save_comparison(assemble(whole, counts, simulator), project)


def _holds(row: Row | None, one: Encoded) -> bool:
    """Whether a row of an earlier record is of this specimen, with the tolerance that it states."""
    if row is None or (row.name, row.idea) != (one["name"], one["idea"]):
        return False
    return one["stated"] is None or tuple(one["stated"]) == row.tolerance


def _simulated(task: tuple[Encoded, Counted]) -> Row:
    specimen, counted = task
    return simulate(decode_specimen(specimen), counted)
