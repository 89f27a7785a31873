"""The lessons' files, read and looked over; what did not change is not read again, nor by the next process.

In: the folder ``lessons``. Out: parsed lessons, and what is wrong with each by itself. How they fit together
is for ``tilewise.rules``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewise.errors import LessonError
from tilewise.lesson import Lesson, lesson_files, read
from tilewise.mkdocs_plugin.file_cache import FileCache, key_of
from tilewise.page.layout import FOLDER
from tilewise.rules import lesson_faults


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
        cache: the folder for caches.
        code: a hash of the modules that read lessons.
    """

    def __init__(self, root: Path, cache: Path, code: str) -> None:
        self._root = root
        self._code = code
        self._kept = FileCache(cache / "lessons", at_most=400)
        self._read: dict[Path, tuple[tuple[int, int], Lesson]] = {}
        self._faults: dict[str, tuple[Lesson, tuple[LessonError, ...]]] = {}

    def load(self) -> LessonFiles:
        """Read what has changed since the last time."""
        found: dict[str, Lesson] = {}
        errors: list[LessonError] = []
        for file in lesson_files(self._root / FOLDER):
            try:
                stat = file.stat()
                stamp = (stat.st_mtime_ns, stat.st_size)
                known = self._read.get(file)
                if known is None or known[0] != stamp:
                    known = self._read[file] = (stamp, self._lesson(file))
            except LessonError as error:
                errors += error.errors
                continue
            except FileNotFoundError:  # deleted just now
                continue
            found[known[1].id] = known[1]
        self._kept.tidy()
        return LessonFiles(found, tuple(errors))

    def faults(self, lesson: Lesson) -> tuple[LessonError, ...]:
        """What is wrong with a lesson by itself."""
        known = self._faults.get(lesson.id)
        if known is None or known[0] is not lesson:
            key = key_of("faults", self._code, lesson.path, lesson.text)
            found = self._kept.load(key, tuple)
            if found is None:
                found = tuple(lesson_faults(lesson))
                self._kept.store(key, found)
            known = self._faults[lesson.id] = (lesson, found)
        return known[1]

    def is_looked_over(self, lesson: Lesson) -> bool:
        """Whether the faults of a lesson are known."""
        known = self._faults.get(lesson.id)
        return known is not None and known[0] is lesson

    def known_faults(self, lesson: Lesson) -> tuple[LessonError, ...]:
        """The faults of a lesson as far as they are known."""
        return self._faults[lesson.id][1] if self.is_looked_over(lesson) else ()

    def _lesson(self, file: Path) -> Lesson:
        key = key_of("lesson", self._code, file.relative_to(self._root), file.read_bytes())
        lesson = self._kept.load(key, Lesson)
        if lesson is None:
            lesson = read(file, self._root)
            _ = lesson.prose, lesson.tab_sets  # found once, and kept with the lesson
            self._kept.store(key, lesson)
        assert isinstance(lesson, Lesson)
        return lesson
