"""All specimens: our own small kernels, and the lessons' kernels as they were launched when the lessons ran.

In: the lessons' folder. Out: ``collect``, in one order, and ``groups``, for tables; ``lesson_kernels``, every
kernel of every lesson. No kernel of a lesson is listed by hand: a new lesson's come by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewise.build.playback import project_lessons
from tilewise.build.run.runner import Runner
from tilewise.course.lesson import read
from tilewise.cuda.cases import Dim3
from tilewise.kernel.launch import Launch
from tilewise.kernel.launches import LoggedKernel
from tilewise.kernel.saved_launches import decode
from tilewise.measurements.compiled_kernels import title
from tilewise.measurements.validation import LESSONS
from tilewise.simulator.compile.toolchain import cache_folder
from validation.kernels import OWN
from validation.record import PROJECT
from validation.specimen import Specimen, decode_specimen, encode_specimen

COURSE = PROJECT / "lessons"
"""The course's own lessons."""
_LAUNCHES = 2
"""Launches compared of a kernel, with different blocks."""


def files(root: Path) -> tuple[Path, ...]:
    """The file of every lesson.

    Args:
        root: the folder ``lessons``.
    """
    return tuple(root.resolve() / f"{name}.py" for name in project_lessons(root))


def launches(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, str, Sequence[Mapping[str, Any]]]]:
    """Each lesson's id, its path, and its kernels with their launches as its run encoded them.

    Args:
        root: the folder ``lessons``.
        files: the lessons; one runs unless the result of its last run still holds.

    Raises:
        LessonError: a lesson fails.
    """
    project = root.resolve().parent
    with Runner(project, cache_folder()) as runner:
        for file in files:
            lesson = read(file, project)
            yield lesson.id, lesson.path, runner.run(lesson).launches


def lesson_kernels(root: Path) -> Mapping[str, tuple[LoggedKernel, ...]]:
    """Every kernel of every lesson by the lesson's id; lessons run unless what they gave is kept.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson fails.
    """
    return _lesson_kernels(root, tuple((file, file.stat().st_mtime_ns) for file in files(root)))


@lru_cache(maxsize=4)
def _lesson_kernels(
    root: Path, stamped: tuple[tuple[Path, int], ...]
) -> Mapping[str, tuple[LoggedKernel, ...]]:
    runs = launches(root, (file for file, _ in stamped))
    return {lesson: tuple(decode(one, path) for one in made) for lesson, path, made in runs}


def specimens(root: Path) -> tuple[Specimen, ...]:
    """The kernels of the lessons that ran without a fault, each with its launches; the same launch once.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson fails.
    """
    first: dict[str, Specimen] = {}
    for lesson, kernels in lesson_kernels(root).items():
        for one in of_lesson(lesson, kernels):
            first.setdefault(one.key, one)
    return tuple(first.values())


def of_lesson(lesson: str, kernels: Sequence[LoggedKernel]) -> list[Specimen]:
    """The specimens that one lesson's kernels make."""
    made: list[Specimen] = []
    seen: dict[str, int] = {}
    for one in kernels:
        for launch in _apart(one.launches):
            name = f"{lesson}: {title(one.kernel.name, one.kernel.defines)}, {_blocks(launch)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f", number {seen[name]}"
            made.append(Specimen(name, f"{one.kernel.name} of {lesson}", launch, None))
    return made


def _apart(launches: tuple[Launch, ...]) -> list[Launch]:
    """The first of each shape of block."""
    first: dict[Dim3, Launch] = {}
    for launch in launches:
        first.setdefault(launch.block, launch)
    return list(first.values())[:_LAUNCHES]


def _blocks(launch: Launch) -> str:
    extents = [extent for extent in launch.block if extent > 1] or [1]
    return f"blocks of {' x '.join(map(str, extents))}"


def save_specimens(found: Sequence[Specimen], file: Path) -> None:
    """Write specimens into a file, for processes that only launch them."""
    rows = [encode_specimen(replace(one, stated=one.tolerance)) for one in found]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows), encoding="utf-8")


def load_specimens(file: Path) -> tuple[Specimen, ...]:
    """The specimens that `save_specimens` put into a file."""
    return tuple(decode_specimen(row) for row in json.loads(file.read_text(encoding="utf-8")))


def groups() -> Mapping[str, tuple[Specimen, ...]]:
    """Specimens by the title of their group."""
    return {LESSONS: specimens(COURSE), **OWN}


def collect(lessons: Path | None = None) -> tuple[Specimen, ...]:
    """Every specimen; as `groups`.

    Args:
        lessons: a file of `save_specimens` with those of the lessons, which run where it is not given.
    """
    found = groups() if lessons is None else {LESSONS: load_specimens(lessons), **OWN}
    return tuple(one for group in found.values() for one in group)
