"""The course's own kernels, as its lessons made and launched them when they ran.

In: the project's folder. Out: ``noted``, every kernel of every lesson, and ``specimens``, the launches of
those that are right. Nothing is listed by hand: a new lesson's kernels come by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewise.cases import Dim3
from tilewise.gpu.launch import Launch
from tilewise.gpu.launches import Noted, decode
from tilewise.hardware.specimen import Specimen, decode_specimen, encode_specimen
from tilewise.measurements.archive import lesson_root

COURSE = Path(__file__).parents[3] / "lessons"
"""The lessons that the records of this package are about: those beside these sources."""
_LAUNCHES = 2
"""Launches compared of a kernel, with different blocks."""


def default_lessons() -> Path:
    """The lessons beside these sources, else those of the folder that this runs in."""
    return COURSE if COURSE.is_dir() else lesson_root()


def files(root: Path) -> tuple[Path, ...]:
    """The file of every lesson.

    Args:
        root: the folder ``lessons``.
    """
    return tuple(
        file
        for file in sorted(root.glob("*/*.py"))
        if not file.name.startswith((".", "_", "#")) and file.parent.name != "measurements"
    )


def launches(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, str, Sequence[Mapping[str, Any]]]]:
    """Each lesson's id, its path, and its kernels with their launches as its run encoded them.

    Args:
        root: the folder ``lessons``.
        files: the lessons; one runs unless the result of its last run still holds.

    Raises:
        LessonError: a lesson fails.
    """
    from tilewise.lesson import read
    from tilewise.run import Runner
    from tilewise.simulator.toolchain import cache_folder

    project = root.resolve().parent
    with Runner(project, cache_folder()) as runner:
        for file in files:
            lesson = read(file, project)
            yield lesson.id, lesson.path, runner.run(lesson).launches


def noted(root: Path) -> Mapping[str, tuple[Noted, ...]]:
    """Every kernel of every lesson by the lesson's id; lessons run unless what they gave is kept.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson fails.
    """
    return _noted(root, tuple((file, file.stat().st_mtime_ns) for file in files(root)))


@lru_cache(maxsize=4)
def _noted(root: Path, stamped: tuple[tuple[Path, int], ...]) -> Mapping[str, tuple[Noted, ...]]:
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
    for lesson, kernels in noted(root).items():
        for one in of_lesson(lesson, kernels):
            first.setdefault(one.key, one)
    return tuple(first.values())


def of_lesson(lesson: str, kernels: Sequence[Noted]) -> list[Specimen]:
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


def title(name: str, defines: Mapping[str, int | float | str]) -> str:
    """A kernel's name, and its defines where it has some."""
    values = ", ".join(f"{macro}={value}" for macro, value in defines.items())
    return f"{name} with {values}" if values else name


def _blocks(launch: Launch) -> str:
    extents = [extent for extent in launch.block if extent > 1] or [1]
    return f"blocks of {' x '.join(map(str, extents))}"


def save_specimens(found: Sequence[Specimen], file: Path) -> None:
    """Write specimens into a file, for a machine that cannot run the lessons because it lacks clang."""
    rows = [encode_specimen(replace(one, stated=one.tolerance)) for one in found]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows), encoding="utf-8")


def load_specimens(file: Path) -> tuple[Specimen, ...]:
    """The specimens that `save_specimens` put into a file."""
    return tuple(decode_specimen(row) for row in json.loads(file.read_text(encoding="utf-8")))
