"""The lessons' files, read and held to the rules for one lesson; what did not change is not read again.

In: the folder ``lessons``. Out: parsed lessons, and what is wrong with each by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewise.build.page.layout import FOLDER
from tilewise.course.lesson import Lesson, lesson_files, read
from tilewise.course.rules import lesson_faults
from tilewise.errors import LessonError


@dataclass(frozen=True, eq=False)
class LessonFiles:
    """Every lesson as it is on disk now."""

    lessons: dict[str, Lesson]
    """Those that can be read, by id."""
    errors: tuple[LessonError, ...]
    """What is wrong with the others."""


class LessonSources:
    """Reads the lessons of one project.

    Args:
        root: the project's folder, which holds ``lessons/``.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[Path, tuple[tuple[int, int], Lesson]] = {}
        self._faults: dict[str, tuple[Lesson, tuple[LessonError, ...]]] = {}

    def load(self) -> LessonFiles:
        """Read what has changed since the last time."""
        lessons: dict[str, Lesson] = {}
        errors: list[LessonError] = []
        for file in lesson_files(self._root / FOLDER):
            try:
                stat = file.stat()
                stamp = (stat.st_mtime_ns, stat.st_size)
                known = self._read.get(file)
                if known is None or known[0] != stamp:
                    lesson = read(file, self._root)
                    _ = lesson.prose  # whose faults count as the file's
                    known = self._read[file] = (stamp, lesson)
            except LessonError as error:
                errors += error.errors
                continue
            except FileNotFoundError:  # deleted just now
                continue
            lessons[known[1].id] = known[1]
        return LessonFiles(lessons, tuple(errors))

    def faults(self, lesson: Lesson) -> tuple[LessonError, ...]:
        """What is wrong with a lesson by itself."""
        known = self._faults.get(lesson.id)
        if known is None or known[0] is not lesson:
            known = self._faults[lesson.id] = (lesson, tuple(lesson_faults(lesson)))
        return known[1]
