"""The lessons as the site uses them: their pages, and the fragments of the course on other pages.

In: lessons, the outputs of their cells, the navigation. Out: a ``CourseView``, which fills placeholders such
as ``{{ course.map }}`` in pages of docs/; and for a build, ``Lessons``, which runs and renders every lesson.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tilewise.build.file_cache import FileCache, key_of
from tilewise.build.installation import Package
from tilewise.build.page import Page, course_map, glossary, render
from tilewise.build.page.front import clone, first_run, notebooks
from tilewise.build.page.gathered import corrections, questions, recap
from tilewise.build.page.layout import FOLDER, lesson_url, source_path
from tilewise.build.progress import Progress, lessons_text
from tilewise.build.run.runner import LessonRun, Runner
from tilewise.build.sources import LessonSources
from tilewise.course.lesson import Lesson
from tilewise.course.mask import spans
from tilewise.course.order import Course, Navigation, Part
from tilewise.course.rules import checked_course, form_faults, run_faults
from tilewise.errors import LessonError, raise_all
from tilewise.measurements import compiled_kernels, every_kernel, ladder, random_shapes, validation
from tilewise.measurements import page as measured_page
from tilewise.measurements.archive import Archive
from tilewise.measurements.output import Measurement
from tilewise.measurements.pending import list_faults, read_pending, text_name
from tilewise.measurements.slugs import name_slug
from tilewise.outputs.kinds import NOT_CURRENT, PENDING, Text

_PLACEHOLDER = re.compile(r"\{\{\s*(course|hardware|measurements)\.(\w+)\s*\}\}")


@dataclass(frozen=True, eq=False)
class CourseView:
    """The course as pages see it."""

    course: Course
    """The lessons, in reading order."""
    pages: Mapping[str, Page]
    """The page of every lesson, by the lesson's source path."""
    measured: Mapping[str, Sequence[Measurement]]
    """The measurements of each lesson by its id, in reading order."""
    root: Path
    """The lessons' folder."""
    parts: Sequence[Part]
    """The sections of the navigation with lessons."""
    mark: Callable[[], object] = tuple
    """Returns a value that changes when a page that quotes the course may have changed."""

    def fill(self, markdown: str, path: str, text: str, package: Package | None = None) -> str:
        """Replace placeholders such as ``{{ course.map }}`` outside fences by their fragments.

        Args:
            markdown: a page of docs/, without its header.
            path: the page's file, for messages.
            text: the whole file, to count lines in.
            package: where readers get the course from.

        Raises:
            LessonError: there is no such fragment.
        """
        if "{{" not in markdown:
            return markdown
        fenced = [(span.start, span.end) for span in spans(markdown, ["fence"])]

        def replace(match: re.Match[str]) -> str:
            if any(start <= match.start() < end for start, end in fenced):
                return match[0]
            line = text.count(
                "\n", 0, text.find(markdown[: match.end()].strip()) + len(markdown[: match.end()].strip())
            )
            fragment = self._fragment(match[1], match[2], path, line + 1, package)
            before = markdown[markdown.rfind("\n", 0, match.start()) + 1 : match.start()]
            if "\n" in fragment and before.isspace():
                message = f"{match[0]} is more than one line, and indented: what is indented would end in it."
                repair = "Start the line with it; a fold around it is written as <details> and </details>."
                raise LessonError(path, line + 1, message, repair)
            return fragment

        return _PLACEHOLDER.sub(replace, markdown)

    def _fragment(self, family: str, name: str, path: str, line: int, package: Package | None) -> str:
        archive = Archive(self.root)
        have = {
            "course": list(_COURSE),
            "hardware": ["resources", *validation.FRAGMENTS, *validation.PLAIN, *random_shapes.FRAGMENTS],
            "measurements": [*measured_page.FRAGMENTS, "roofline", "ladder", "ladder_sketch"],
        }[family]
        if name not in have and not (family == "measurements" and name.startswith(measured_page.MISS)):
            message = f'there is no "{family}.{name}".'
            raise LessonError(path, line, message, f"There is {', '.join(have)}.")
        if family == "course":
            return _COURSE[name](self, package)
        if name == "resources":
            return compiled_kernels.page_table(self.root.parent, *self._named())
        if name in random_shapes.FRAGMENTS:
            return random_shapes.fragment(name, self.root.parent)
        if family == "hardware":
            return validation.fragment(name, self.root.parent)
        if name == "ladder_sketch":
            return ladder.sketch(archive)
        if name == "ladder":
            return ladder.fragment(archive, self._named()[1])
        if name == "roofline":
            return every_kernel.fragment(archive, *self._named(), self.measured)
        try:
            return measured_page.fragment(name, measured_page.Lessons(self.measured, *self._named()), archive)
        except KeyError as error:
            message = f"the experiment {error.args[0]} was not predicted, or not recorded since."
            raise LessonError(path, line, message, "Name one of the table of predictions.") from None

    def _named(self) -> tuple[dict[str, str], dict[str, str]]:
        """The titles of all lessons and the URLs of their pages, by id."""
        titles = {lesson.id: lesson.header.title for lesson in self.course.lessons}
        return titles, {lesson.id: lesson_url(lesson.id) for lesson in self.course.lessons}

    def figure_files(self) -> dict[str, bytes]:
        """The figure data of pages that are not lessons, by path from the site's root."""
        return every_kernel.data_files(Archive(self.root), self._named()[0], self.measured)


_COURSE: Mapping[str, Callable[[CourseView, Package | None], str]] = {
    "map": lambda view, _: course_map(view.course, view.parts),
    "first_run": lambda view, _: first_run(view.course, view.pages),
    "clone": lambda _, package: clone(package),
    "notebooks": lambda view, package: notebooks(view.course, package),
    "glossary": lambda view, _: glossary(view.course).removeprefix("# Glossary").strip(),
    "corrections": lambda view, _: corrections(view.course, view.pages),
    "questions": lambda view, _: questions(view.course, view.parts, view.pages),
    "recap": lambda view, _: recap(view.course, view.parts, view.pages),
}
"""Every fragment of the family ``course``, by the name after the dot."""


class PageRenderer:
    """Renders lessons and caches pages until an input changes; ``code`` is a hash of the modules."""

    def __init__(self, cache: Path, code: str) -> None:
        self._code = code
        self._cache = FileCache(cache / "rendered", at_most=400)
        self._latest: dict[str, tuple[tuple[object, ...], Page]] = {}
        self.package: Package | None = None

    def page(
        self, lesson: Lesson, run: LessonRun, course: Course, stale: frozenset[str] = frozenset()
    ) -> Page:
        """The page of a lesson; ``stale`` is a result of ``quoted_stale``.

        Raises:
            LessonError: its prose quotes an unknown number, or an exercise uses a term that
                the lesson does not reach.
        """
        mark = (lesson, run.digest, course.signature, repr(self.package), stale)
        known = self._latest.get(lesson.id)
        if known is None or known[0] != mark:
            decided = (course.signature, lesson.path, lesson.text, run.digest, self.package, sorted(stale))
            key = key_of(self._code, *decided)
            page = None if run.pending else self._cache.load(key, Page)
            if page is None:
                page = render(lesson, run, course, stale=stale, package=self.package)
                if not run.pending:
                    self._cache.store(key, page)
            known = self._latest[lesson.id] = (mark, page)
        return known[1]

    def tidy(self) -> None:
        """Delete pages that have not been used for long."""
        self._cache.tidy()


@dataclass(frozen=True, eq=False)
class BuiltCourse:
    """Every lesson, run and rendered."""

    view: CourseView
    """The course and its pages."""
    executed: tuple[str, ...]
    """The lessons whose cells were executed in this build."""
    warnings: tuple[LessonError, ...]
    """Errors only for a strict build: missing parts of lessons, stale records, spills."""


class Lessons:
    """Reads, orders, runs and renders the lessons of one project, for a build."""

    def __init__(
        self, root: Path, sources: LessonSources, renderer: PageRenderer, runner: Runner, at_once: int
    ) -> None:
        self._root = root
        self._sources = sources
        self._renderer = renderer
        self._runner = runner
        self._at_once = at_once

    def load(self, nav: Navigation, progress: Progress) -> BuiltCourse:
        """Run the changed lessons, and render all.

        Raises:
            LessonError: a fault in a lesson, a record or the navigation; ``LessonErrors`` for several.
        """
        lessons, faults = self._sources.load()
        raise_all(faults)
        course = checked_course(nav, lessons, self._sources.faults)
        runs = self._run(course, progress)
        pages: dict[str, Page] = {}
        errors: list[LessonError] = []
        for lesson in course.lessons:
            run = runs[lesson.id]
            try:
                page = self._renderer.page(lesson, run, course, quoted_stale(run, runs.values()))
                pages[source_path(lesson.id)] = page
            except LessonError as error:
                errors += error.errors
        raise_all(errors)
        self._renderer.tidy()
        self._sources.tidy()
        measured = {lesson.id: runs[lesson.id].measurements for lesson in course.lessons}
        view = CourseView(
            course, pages, measured, self._root / FOLDER, nav.parts, lambda: course_mark(course, runs)
        )
        executed = tuple(name for name, run in runs.items() if run.executed)
        warnings = form_faults(nav, course, self._sources.faults)
        for lesson in course.lessons:
            warnings += run_faults(lesson, runs[lesson.id], stops=False)
        warnings += pending_faults(view.root, course.lessons, runs)
        warnings += compiled_kernels.kernel_faults(
            view.root, {lesson.id: runs[lesson.id].launches for lesson in course.lessons}
        )
        return BuiltCourse(view, executed, tuple(warnings))

    def _run(self, course: Course, progress: Progress) -> dict[str, LessonRun]:
        runs: dict[str, LessonRun] = {}
        errors: dict[str, LessonError] = {}
        running: dict[str, None] = {}

        def is_cached(lesson: Lesson) -> bool:
            try:
                run = self._runner.kept(lesson)
            except LessonError as error:
                errors[lesson.id] = error
                return True
            if run is not None:
                runs[lesson.id] = run
            return run is not None

        def execute(lesson: Lesson) -> None:
            running[lesson.id] = None
            try:
                runs[lesson.id] = self._runner.run(lesson)
            except LessonError as error:
                errors[lesson.id] = error
            del running[lesson.id]

        def text() -> str:
            return lessons_text(len(runs) + len(errors), len(course.lessons), tuple(running))

        with progress.during(text), ThreadPoolExecutor(self._at_once) as pool:
            list(pool.map(execute, [lesson for lesson in course.lessons if not is_cached(lesson)]))
        failed = [errors[lesson.id] for lesson in course.lessons if lesson.id in errors]
        raise_all([fault for error in failed for fault in error.errors])
        return runs


def course_mark(course: Course, runs: Mapping[str, LessonRun]) -> object:
    """A value that changes when a page that quotes the course may have changed."""
    digests = sorted((name, run.digest) for name, run in runs.items())
    return (course.signature, tuple(lesson.text for lesson in course.lessons), digests)


def quoted_stale(run: LessonRun, runs: Iterable[LessonRun]) -> frozenset[str]:
    """The ``experiment.variant`` that a lesson's prose quotes and that are stale in any of the runs."""
    return frozenset(
        f"{table.name}.{name_slug(variant)}"
        for table in (table for each in runs for table in each.measurements if table.name in run.records)
        for device, variant in table.outdated
        if device == run.records[table.name].get("device")
    )


def pending_faults(
    root: Path, lessons: Sequence[Lesson], runs: Mapping[str, LessonRun]
) -> Iterator[LessonError]:
    """The entries of the pending list that contradict the runs of the lessons."""
    archive, is_current = Archive(root), dict[str, bool]()
    for lesson in lessons:
        run = runs[lesson.id]
        is_current |= {table.name: not table.stale for table in run.measurements}
        for index, (cell, outputs) in enumerate(zip(lesson.cells, run.outputs, strict=True)):
            if cell.record:
                sources = [output.source for output in outputs if isinstance(output, Text)]
                old = any(source == NOT_CURRENT or source.endswith(PENDING) for source in sources)
                is_current[text_name(lesson.id, cell.record)] = index in run.skipped and not old
    return list_faults(archive, read_pending(archive), is_current, unseen=())
