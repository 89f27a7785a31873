"""All specimens: our own small kernels, and the lessons' kernels with the launches of the lessons' runs.

In: the lessons' folder. Out: ``collect``, all in order; ``groups``, for tables; ``lesson_kernels``, every
kernel of every lesson. No kernel of a lesson is listed by hand: new lessons are found automatically.
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
"""Most launches compared per kernel, with different blocks."""


def files(root: Path) -> tuple[Path, ...]:
    """The file of every lesson.

    Args:
        root: the folder ``lessons``.
    """
    return tuple(root.resolve() / f"{name}.py" for name in project_lessons(root))


def launches(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, str, Sequence[Mapping[str, Any]]]]:
    """Each lesson's id, its path, and its kernels with their launches, as encoded by its run.

    Args:
        root: the folder ``lessons``.
        files: the lessons; each runs unless its cached result is valid.

    Raises:
        LessonError: a lesson fails.
    """
    project = root.resolve().parent
    with Runner(project, cache_folder()) as runner:
        for file in files:
            lesson = read(file, project)
            yield lesson.id, lesson.path, runner.run(lesson).launches


def lesson_kernels(root: Path) -> Mapping[str, tuple[LoggedKernel, ...]]:
    """Every kernel of every lesson, by the lesson's id; lessons run unless their cached results are valid.

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
    return {lesson: tuple(decode(kernel, path) for kernel in kernels) for lesson, path, kernels in runs}


def specimens(root: Path) -> tuple[Specimen, ...]:
    """The kernels of the lessons that ran without a fault, each with its distinct launches.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson fails.
    """
    first: dict[str, Specimen] = {}
    for lesson, kernels in lesson_kernels(root).items():
        for specimen in of_lesson(lesson, kernels):
            first.setdefault(specimen.key, specimen)
    return tuple(first.values())


def of_lesson(lesson: str, kernels: Sequence[LoggedKernel]) -> list[Specimen]:
    """The specimens of one lesson's kernels."""
    result: list[Specimen] = []
    seen: dict[str, int] = {}
    for logged in kernels:
        for launch in _by_block(logged.launches):
            name = f"{lesson}: {title(logged.kernel.name, logged.kernel.defines)}, {_blocks(launch)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f", number {seen[name]}"
            result.append(Specimen(name, f"{logged.kernel.name} of {lesson}", launch, None))
    return result


def _by_block(launches: tuple[Launch, ...]) -> list[Launch]:
    """The first launch of each block shape."""
    first: dict[Dim3, Launch] = {}
    for launch in launches:
        first.setdefault(launch.block, launch)
    return list(first.values())[:_LAUNCHES]


def _blocks(launch: Launch) -> str:
    extents = [extent for extent in launch.block if extent > 1] or [1]
    return f"blocks of {' x '.join(map(str, extents))}"


def save_specimens(specimens: Sequence[Specimen], file: Path) -> None:
    """Write specimens to a file, for processes that only launch them."""
    rows = [encode_specimen(replace(specimen, stated=specimen.tolerance)) for specimen in specimens]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows), encoding="utf-8")


def load_specimens(file: Path) -> tuple[Specimen, ...]:
    """Read the specimens from a file of `save_specimens`."""
    return tuple(decode_specimen(row) for row in json.loads(file.read_text(encoding="utf-8")))


def groups() -> Mapping[str, tuple[Specimen, ...]]:
    """Specimens by the title of their group."""
    return {LESSONS: specimens(COURSE), **OWN}


def collect(lessons: Path | None = None) -> tuple[Specimen, ...]:
    """Every specimen, in the order of `groups`.

    Args:
        lessons: a file of `save_specimens` with those of the lessons; without it, the lessons run.
    """
    by_title = groups() if lessons is None else {LESSONS: load_specimens(lessons), **OWN}
    return tuple(specimen for group in by_title.values() for specimen in group)
