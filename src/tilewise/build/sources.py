"""The lessons' files, parsed and checked one by one; unchanged files are not read again.

In: the folder ``lessons``. Out: parsed lessons, and the faults of each by itself, cached on disk for the next
process.
"""

from __future__ import annotations

from pathlib import Path

from tilewise.build.file_cache import FileCache, key_of
from tilewise.build.page.layout import FOLDER
from tilewise.course.lesson import Lesson, lesson_files, read
from tilewise.course.rules import lesson_faults
from tilewise.errors import LessonError


class LessonSources:
    """Reads the lessons of one project; ``code`` is a hash of the rules."""

    def __init__(self, root: Path, cache: Path, code: str) -> None:
        self._root = root
        self._code = code
        self._cache = FileCache(cache / "faults", at_most=800)
        self._read: dict[Path, tuple[tuple[int, int], Lesson]] = {}

    def load(self) -> tuple[dict[str, Lesson], tuple[LessonError, ...]]:
        """The readable lessons on disk by id, and the errors of the others."""
        lessons: dict[str, Lesson] = {}
        errors: list[LessonError] = []
        for file in lesson_files(self._root / FOLDER):
            try:
                stat = file.stat()
                stamp = (stat.st_mtime_ns, stat.st_size)
                known = self._read.get(file)
                if known is None or known[0] != stamp:
                    lesson = read(file, self._root)
                    _ = lesson.prose  # parsed now: its errors count as the file's
                    known = self._read[file] = (stamp, lesson)
            except LessonError as error:
                errors += error.errors
                continue
            except FileNotFoundError:  # just deleted
                continue
            lessons[known[1].id] = known[1]
        return lessons, tuple(errors)

    def faults(self, lesson: Lesson, stops: bool = True) -> tuple[LessonError, ...]:
        """The faults of a lesson by itself: those that stop every build, or only a strict one."""
        key = key_of(self._code, lesson.path, lesson.text, stops)
        return self._cache.made(key, tuple, lambda: tuple(lesson_faults(lesson, stops)))

    def tidy(self) -> None:
        """Delete the least recently used cache entries."""
        self._cache.tidy()
