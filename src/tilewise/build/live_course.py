"""The course while it is served: the lessons on disk, run in the background, with their errors.

In: the project's folder, the navigation, and notifications of changed files. Out: a ``CourseView`` whose
pages are rendered on demand, with the outputs so far; and the errors of each file. An author's mistake
raises nothing here: the rest of the course stays readable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tilewise.build.page import Page
from tilewise.build.page.layout import FOLDER, lesson_id_of, source_path
from tilewise.build.pipeline import CourseView, PageRenderer, course_mark, quoted_stale
from tilewise.build.run.background import BackgroundRuns
from tilewise.build.sources import LessonSources
from tilewise.course.lesson import Cell, Header, Lesson
from tilewise.course.order import Course, Navigation
from tilewise.course.rules import course_faults, navigation_faults
from tilewise.errors import LessonError
from tilewise.measurements.output import Measurement

T = TypeVar("T")


class LiveCourse:
    """The course of one project while it is served."""

    def __init__(
        self, root: Path, sources: LessonSources, renderer: PageRenderer, runs: BackgroundRuns
    ) -> None:
        self._root = root
        self._sources = sources
        self._renderer = renderer
        self.runs = runs
        """The background runs of the lessons."""
        self._nav = Navigation()
        self._lessons: dict[str, Lesson] = {}
        self._ordered: tuple[tuple[Lesson, ...], Course] | None = None
        self._pages: dict[str, Page] = {}
        self._faults: tuple[LessonError, ...] = ()
        self._course_faults: tuple[LessonError, ...] = ()
        self._page_faults: dict[str, tuple[LessonError, ...]] = {}
        self._lock = threading.RLock()

    @property
    def view(self) -> CourseView:
        """The course as pages see it; pages are rendered on lookup."""
        course = self.course
        pages = _Lazy(
            [source_path(lesson.id) for lesson in course.lessons], lambda path: self.page(lesson_id_of(path))
        )
        measured = _Lazy(list(course.by_id), self._measured)
        return CourseView(course, pages, measured, self._root / FOLDER, self._nav.parts, self.course_mark)

    @property
    def course(self) -> Course:
        """The lessons in reading order."""
        with self._lock:
            assert self._ordered is not None
            return self._ordered[1]

    def configure(self, nav: Navigation) -> None:
        """Set the navigation and reload the lessons."""
        with self._lock:
            self._nav = nav
        self.refresh()

    def refresh(self, changed: Collection[Path] | None = None) -> None:
        """Reload changed lessons, and rerun what depends on them.

        Args:
            changed: the files that may have changed, and their folders; None for any.
        """
        with self._lock:
            readable, errors = self._sources.load()
            lessons = {**self._last_read(errors), **readable}
            order = [name for name in dict.fromkeys(self._nav.order) if name in lessons]
            ordered = tuple(lessons[name] for name in order)
            faults = [*errors, *navigation_faults(self._nav, lessons)]
            before = self._ordered
            if (
                before is None
                or len(before[0]) != len(ordered)
                or any(old is not new for old, new in zip(before[0], ordered, strict=True))
            ):
                self._ordered = (ordered, Course.of(ordered))
                self._course_faults = tuple(course_faults(ordered, lambda *_: ()))
            self._lessons = lessons
            self._faults = tuple(faults) or self._course_faults  # which may only follow from ``faults``
            self.runs.update(self.course.lessons, changed)

    def page(self, lesson_id: str) -> Page:
        """A lesson's page with its outputs so far; the last good one if rendering fails."""
        lesson = self.course.lesson(lesson_id)
        try:
            run = self.runs.run(lesson_id)
            stale = quoted_stale(run, self.runs.runs().values())
            page = self._renderer.page(lesson, run, self.course, stale)
        except LessonError as error:
            self._page_faults[lesson_id] = error.errors
            return self._pages.get(lesson_id) or _unreadable(lesson)
        self._page_faults.pop(lesson_id, None)
        self._pages[lesson_id] = page
        return page

    def mark(self, lesson_id: str) -> object:
        """A value that changes when the lesson's page may have changed."""
        try:
            run = self.runs.run(lesson_id)
        except LessonError as error:
            return str(error)
        stale = quoted_stale(run, self.runs.runs().values())
        return (self.course.lesson(lesson_id).text, run.digest, self.course.signature, stale)

    def course_mark(self) -> object:
        """A value that changes when a page that quotes the course may have changed."""
        return course_mark(self.course, self.runs.runs())

    def faults(self, path: str) -> tuple[LessonError, ...]:
        """The errors, those of the file at ``path`` first.

        The rules for single lessons are checked only for the lesson at ``path``, or for all if it is empty.
        """
        faults = list(self._faults)
        for error in self.runs.failures().values():
            faults += error.errors
        for errors in list(self._page_faults.values()):
            faults += errors
        for lesson in self.course.lessons:
            if path in ("", lesson.path):
                faults += self._sources.faults(lesson)
        return tuple(sorted(dict.fromkeys(faults), key=lambda fault: fault.path != path))

    def is_settled(self) -> bool:
        """Whether every lesson has run."""
        ended, total, _ = self.runs.progress()
        return ended == total

    def rendered(self, lesson_id: str) -> Page | None:
        """The last rendered page of a lesson."""
        return self._pages.get(lesson_id)

    def _last_read(self, errors: Sequence[LessonError]) -> dict[str, Lesson]:
        """For each unreadable file, the lesson last read from it, or a placeholder."""
        lessons = {}
        for path in dict.fromkeys(error.path for error in errors):
            lesson_id = lesson_id_of(path)
            lessons[lesson_id] = self._lessons.get(lesson_id) or _placeholder(path, lesson_id)
        return lessons

    def _measured(self, lesson_id: str) -> Sequence[Measurement]:
        run = self.runs.runs().get(lesson_id)
        return run.measurements if run is not None else ()


class _Lazy(Mapping[str, T]):
    def __init__(self, keys: Sequence[str], make: Callable[[str], T]) -> None:
        self._keys = dict.fromkeys(keys)
        self._make = make

    def __getitem__(self, key: str) -> T:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _placeholder(path: str, lesson_id: str) -> Lesson:
    """A placeholder for a lesson that was never readable."""
    title = lesson_id.rsplit("/", 1)[-1].replace("_", " ").capitalize()
    cell = Cell(path, 1, 1, "markdown", "This lesson cannot be read yet.", 1)
    return Lesson(lesson_id, path, Header(title=title), (cell,), "")


def _unreadable(lesson: Lesson) -> Page:
    """The page of a lesson that was never rendered."""
    return Page(f"# {lesson.header.title}\n\nThis lesson cannot be shown yet.\n", {})
