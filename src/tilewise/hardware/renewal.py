"""``make records``: renew the records that need no GPU, in as many processes as there are cores.

In: the lessons, which run unless their last results still hold, and the records as they are. Out: the same
records, current; only what has changed by its key is compiled or simulated. An interrupt loses nothing that
is done.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, Self, TypeVar

from tilewise.errors import LessonError
from tilewise.gpu import compile_gate
from tilewise.gpu.kernel_source import KernelError
from tilewise.gpu.launches import decode
from tilewise.hardware import clangs
from tilewise.hardware.clangs import Clangs, Difference, differences, load_clangs, save_clangs, version
from tilewise.hardware.collection import OWN
from tilewise.hardware.comparison import (
    FOLDER,
    LESSONS,
    ComparisonRecord,
    SimulatedRow,
    load_comparison,
    save_comparison,
)
from tilewise.hardware.lessons import default_lessons, files, launches, of_lesson, title
from tilewise.hardware.record import CountsRecord, Row, recorded
from tilewise.hardware.resources import (
    FILE,
    ResourceRecord,
    ResourceRow,
    encoded_key,
    examine,
    load_resources,
    save_resources,
)
from tilewise.hardware.simulation import simulate, simulator_key
from tilewise.hardware.specimen import decode_specimen, encode_specimen
from tilewise.measurements.key import digest
from tilewise.simulator.toolchain import CLANG, ToolchainError

QUIET_S = 1.0
"""Seconds between two lines of progress, at least; twice as many at most."""

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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def each(self, what: str, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results of the tasks that do not fail, as they come."""
        left = {self._pool.submit(_attempt, work, task) for task in tasks}
        said = float("-inf")
        while left:
            if time.monotonic() - said >= QUIET_S:
                self._say(f"{what}: {len(tasks) - len(left)} of {len(tasks)}")
                said = time.monotonic()
            done, left = wait(left, timeout=QUIET_S, return_when=FIRST_COMPLETED)
            for future in done:
                failure, result = future.result()
                if not failure:
                    yield result
                elif failure not in self.failures:
                    self.failures.append(failure)
        self._say(f"{what}: {len(tasks)} of {len(tasks)}" if tasks else f"{what}: nothing has changed")


def _go_on() -> None:
    """Leave an interrupt to the parent; what this process starts is interrupted all the same."""
    signal.signal(signal.SIGINT, lambda *_: None)


def _attempt(work: Callable[[Task], Result], task: Task) -> tuple[str, Any]:
    """What went wrong, or the result; the errors themselves do not all survive the way between processes."""
    try:
        return "", work(task)
    except (LessonError, KernelError, ToolchainError) as error:
        return str(error), None


def renew(
    say: Callable[[str], None], folder: Path = Path(__file__).parent, root: Path | None = None
) -> list[str]:
    """Renew the record of compiled kernels, that of each comparison with a device, and that of two clangs.

    Args:
        say: gets lines of progress.
        folder: where the records are; this package where not given.
        root: the folder ``lessons``; the course's own where not given.

    Returns:
        What failed; what did not is recorded.
    """
    if missing := compile_gate.available():
        return [f"{missing} Install it: pip install nvidia-cuda-nvrtc."]
    with Workers(say) as workers:
        lessons = list(workers.each("Running lessons", _run, files(root or default_lessons())))
        if workers.failures:
            return workers.failures
        lessons.sort(key=lambda one: Path(f"{one[0]}.py"))
        _compile(workers, {lesson: kernels for lesson, kernels, _ in lessons}, folder / FILE.name)
        first: dict[str, Encoded] = {}
        for _, _, found in lessons:
            for key, one in found.items():
                first.setdefault(key, one)
        own = {group: {one.key: encode_specimen(one) for one in found} for group, found in OWN.items()}
        for counts in recorded():
            _simulate(workers, {LESSONS: first, **own}, counts, folder / FOLDER.name)
        specimens = {key: one for found in own.values() for key, one in found.items()}
        _compare_clangs(workers, specimens, folder / clangs.FILE.name)
        return workers.failures


def _run(file: Path) -> tuple[str, Sequence[Encoded], Mapping[str, Encoded]]:
    """A lesson's id, its kernels without their launches, and its specimens by key."""
    ((lesson, path, made),) = launches(file.parents[1], [file])
    specimens = of_lesson(lesson, [decode(one, path) for one in made])
    kernels = [{**one, "path": path, "launches": []} for one in made]
    return lesson, kernels, {one.key: encode_specimen(one) for one in specimens}


def _compile(workers: Workers, lessons: Mapping[str, Sequence[Encoded]], file: Path) -> None:
    """Renew the record of compiled kernels."""
    version = compile_gate.nvrtc_version()
    rows: dict[str, ResourceRow] = {}
    with suppress(LessonError):  # what cannot be read is made anew
        old = load_resources(file)
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
        save_resources(ResourceRecord(version, found), file)


def _examine(kernel: Encoded) -> ResourceRow:
    return examine(decode(kernel, kernel["path"]).kernel)


def _titled(row: ResourceRow, kernel: Encoded) -> ResourceRow:
    """A row with what its kernel says beside what the compiler is given."""
    spills = compile_gate.declared_spill(kernel["source"]) or ""
    return replace(row, title=title(kernel["name"], kernel["defines"]), spills=spills)


def _simulate(workers: Workers, groups: Specimens, counts: CountsRecord, folder: Path) -> None:
    """Renew the record of the comparison with a device."""
    head = (counts.device, simulator_key(), counts.checksum)
    rows: dict[str, SimulatedRow] = {}
    with suppress(LessonError):  # what cannot be read is made anew
        old = load_comparison(counts.device, folder)
        if (old.device, old.simulator, old.counters) == head:
            rows = {row.key: row for found in old.groups.values() for row in found if row.issued}
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
                    rows[key] = SimulatedRow(one["name"], key)
        whole = {group: tuple(rows[key] for key in found if key in rows) for group, found in groups.items()}
        save_comparison(ComparisonRecord(*head, whole), folder)


def _holds(row: SimulatedRow | None, one: Encoded) -> bool:
    """Whether a row of an earlier record is of this specimen, with the tolerance that it states."""
    if row is None or (row.name, row.idea) != (one["name"], one["idea"]):
        return False
    return one["stated"] is None or tuple(one["stated"]) == row.tolerance


def _simulated(task: tuple[Encoded, Row]) -> SimulatedRow:
    specimen, row = task
    return simulate(decode_specimen(specimen), row)


def clangs_key(other: str, keys: Iterable[str]) -> str:
    """A hash of what decides the differences between two clangs.

    Args:
        other: the version of the other clang.
        keys: those of the specimens.
    """
    return digest({"simulator": simulator_key(), "other": other, "specimens": list(keys)})


def _compare_clangs(workers: Workers, specimens: Mapping[str, Encoded], file: Path) -> None:
    """Renew the record of what two clangs make of the specimens, all of it: it is seldom out of date."""
    old, what = "", "Comparing two clangs"
    with suppress(LessonError):  # what cannot be read is made anew
        record = load_clangs(file)
        old = record.key if record.key == clangs_key(record.other, specimens) else ""
    if not clangs.OTHER.is_file():
        if not old:
            workers.failures.append(f"{what} needs a second one, which make other-clang installs.")
        return
    other = version(clangs.OTHER)
    key = clangs_key(other, specimens)
    tasks = [(one, clangs.OTHER) for one in specimens.values() if key != old]
    found = dict(workers.each(what, _differing, tasks))
    if tasks and len(found) == len(tasks):
        every = tuple(one for specimen in specimens.values() for one in found[specimen["name"]])
        save_clangs(Clangs(key, CLANG.rpartition("clang ")[2], other, len(tasks), every), file)


def _differing(task: tuple[Encoded, Path]) -> tuple[str, list[Difference]]:
    """A specimen's name, and what the other clang makes different of it."""
    specimen = decode_specimen(task[0])
    return specimen.name, differences({specimen.name: specimen.launch}, task[1])
