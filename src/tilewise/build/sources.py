"""The lessons' files, read and held to the rules for one lesson; what did not change is not read again.

In: the folder ``lessons``. Out: parsed lessons, and what is wrong with each by itself, which is kept for the
next process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewise.build.file_cache import FileCache, key_of
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
        cache: the folder for caches; None: nothing is kept for the next process.
        code: a hash of the rules.
    """

    def __init__(self, root: Path, cache: Path | None = None, code: str = "") -> None:
        self._root = root
        self._code = code
        self._kept = FileCache(cache / "faults", at_most=800) if cache is not None else None
        self._read: dict[Path, tuple[tuple[int, int], Lesson]] = {}
        self._faults: dict[tuple[str, bool], tuple[Lesson, tuple[LessonError, ...]]] = {}

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

    def faults(self, lesson: Lesson, stops: bool = True) -> tuple[LessonError, ...]:
        """What is wrong with a lesson by itself: what stops every build, or what stops a strict one."""
        known = self._faults.get((lesson.id, stops))
        if known is None or known[0] is not lesson:
            known = self._faults[lesson.id, stops] = (lesson, self._found(lesson, stops))
        return known[1]

    def form_faults(self, lesson: Lesson) -> tuple[LessonError, ...]:
        """What a lesson lacks by itself, which stops a strict build."""
        return self.faults(lesson, stops=False)

    def tidy(self) -> None:
        """Delete what was kept and has not been used for long."""
        if self._kept is not None:
            self._kept.tidy()

    def _found(self, lesson: Lesson, stops: bool) -> tuple[LessonError, ...]:
        if self._kept is None:
            return tuple(lesson_faults(lesson, stops))
        key = key_of(self._code, lesson.path, lesson.text, stops)
        return self._kept.made(key, tuple, lambda: tuple(lesson_faults(lesson, stops)))
