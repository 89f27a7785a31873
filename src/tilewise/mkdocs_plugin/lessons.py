"""The project's lessons, from disk to pages, keeping whatever an edit does not touch.

In: the project's folder and the order of the navigation. Out: a ``Shelf`` with the course, a page for each
lesson and the course's own fragments. What a page means to MkDocs is left to the plugin.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tilewise.course import Course
from tilewise.errors import LessonError, raise_all
from tilewise.hardware.resources import kernel_faults
from tilewise.installation import Package
from tilewise.lesson import Lesson, read
from tilewise.measurements import every_kernel
from tilewise.measurements import page as measured_page
from tilewise.measurements.archive import Archive
from tilewise.measurements.output import Measurement
from tilewise.measurements.reasons import faults as reason_faults
from tilewise.mkdocs_plugin.fragments import COURSE, Quoted
from tilewise.outputs.kinds import NOT_CURRENT, Text
from tilewise.page import Layout, Page, render
from tilewise.page.gathered import Part
from tilewise.page.prose import FENCED
from tilewise.run import LessonRun, Runner

LAYOUT = Layout()
_PLACEHOLDER = re.compile(r"\{\{\s*(course|hardware|measurements)\.(\w+)\s*\}\}")
_AT_ONCE = 2
"""How many lessons run side by side; more would only make a slow one miss its time limit."""


@dataclass(frozen=True, eq=False)
class Shelf:
    """The course as the site takes it."""

    course: Course
    """The lessons, in reading order, drafts included."""
    pages: Mapping[str, Page]
    """The page of every lesson, by the lesson's source path."""
    executed: tuple[str, ...]
    """The lessons whose cells were executed just now."""
    measured: Mapping[str, tuple[Measurement, ...]]
    """What each lesson measures, by its id, in reading order."""
    root: Path
    """The lessons' folder."""
    warnings: tuple[LessonError, ...]
    """What does not stop a build, and fails a strict one: stale records, misses and undeclared spills."""
    parts: tuple[Part, ...]
    """The sections of the navigation that hold lessons."""

    def fill(self, markdown: str, path: str, text: str) -> str:
        """Put fragments in place of ``{{ course.map }}`` and ``{{ hardware.table }}``, outside fences.

        Args:
            markdown: a page of docs/, without its header.
            path: the page's file, for messages.
            text: the whole file, to count lines in.

        Raises:
            LessonError: there is no such fragment.
        """
        if "{{" not in markdown:
            return markdown
        fenced = [match.span() for match in FENCED.finditer(markdown)]

        def replace(match: re.Match[str]) -> str:
            if any(start <= match.start() < end for start, end in fenced):
                return match[0]
            line = text.count(
                "\n", 0, text.find(markdown[: match.end()].strip()) + len(markdown[: match.end()].strip())
            )
            made = self._fragment(match[1], match[2], path, line + 1)
            before = markdown[markdown.rfind("\n", 0, match.start()) + 1 : match.start()]
            if "\n" in made and before.isspace():
                message = f"{match[0]} is more than one line, and indented: what is indented would end in it."
                repair = "Start the line with it; a fold around it is written as <details> and </details>."
                raise LessonError(path, line + 1, message, repair)
            return made

        return _PLACEHOLDER.sub(replace, markdown)

    def _fragment(self, family: str, name: str, path: str, line: int) -> str:
        if family == "hardware":
            return _hardware(name, path, line)
        if family == "measurements":
            return self._measurements(name, path, line)
        if name in COURSE:
            return COURSE[name](Quoted(self.course, self.parts, self.pages, LAYOUT))
        message = f'there is no "course.{name}".'
        raise LessonError(path, line, message, f"There is {', '.join(COURSE)}.")

    def _measurements(self, name: str, path: str, line: int) -> str:
        """A part of the pages of all measurements and of all kernels."""
        if name == "roofline":
            return every_kernel.fragment(Archive(self.root), *self._named())
        if name not in measured_page.FRAGMENTS:
            have = ", ".join((*measured_page.FRAGMENTS, "roofline"))
            raise LessonError(path, line, f'there is no "measurements.{name}".', f"There is {have}.")
        known = measured_page.Lessons(self.measured, *self._named())
        return measured_page.fragment(name, known, Archive(self.root))

    def _named(self) -> tuple[dict[str, str], dict[str, str]]:
        """The titles of all lessons and the URLs of their pages, by id."""
        titles = {lesson.id: lesson.header.title for lesson in self.course.lessons}
        return titles, {lesson.id: LAYOUT.url(lesson.id) for lesson in self.course.lessons}

    def figure_files(self) -> dict[str, bytes]:
        """The data of figures on pages that are no lessons, by path from the site's root."""
        return every_kernel.data_files(Archive(self.root), self._named()[0])


class Lessons:
    """Reads, orders, runs and renders the lessons of one project; keeps what is unchanged.

    Args:
        root: the project's folder, which holds ``lessons/``.
        cache: the folder for caches.
        warm: run lessons in forks of a server with imports loaded, as serving wants.
        time_limit_s: after how long a lesson is stopped.
    """

    def __init__(self, root: Path, cache: Path, warm: bool, time_limit_s: float = 120) -> None:
        self.root = root
        self.package: Package | None = None
        self._runner = Runner(root, cache, time_limit_s=time_limit_s, warm=warm)
        self._parsed: dict[Path, tuple[tuple[int, int], Lesson]] = {}
        self._rendered: dict[str, tuple[str, Page]] = {}
        self._ordered: tuple[tuple[object, ...], Course] | None = None

    def files(self) -> list[Path]:
        """Every lesson's file, drafts included."""
        return sorted(
            path
            for path in (self.root / LAYOUT.folder).glob("*/*.py")
            if not path.name.startswith((".", "_", "#")) and path.parent.name != "measurements"
        )

    def load(
        self, nav: Sequence[str], nav_path: str, nav_lines: Mapping[str, int], parts: Sequence[Part] = ()
    ) -> Shelf:
        """Bring everything up to date.

        Args:
            nav: the lessons' ids in reading order.
            nav_path: the file of the navigation, for messages.
            nav_lines: the line of each id in that file.
            parts: the sections of the navigation that hold lessons.

        Raises:
            LessonError: a fault in a lesson, a record or the navigation; ``LessonErrors`` for more.
        """
        found = self._parse()
        course = self._order(nav, found, nav_path, nav_lines)
        runs = self._run(course)
        shared = course.signature
        pages: dict[str, Page] = {}
        errors: list[LessonError] = []
        for lesson in course.lessons:
            run = runs[lesson.id]
            stale = sorted(run.stale)
            key = _hash(shared, lesson.path, lesson.text, run.digest, repr(stale), repr(self.package))
            kept = self._rendered.get(lesson.id)
            if kept is None or kept[0] != key:
                try:
                    page = render(lesson, run, course, stale=stale, layout=LAYOUT, package=self.package)
                    kept = (key, page)
                except LessonError as error:
                    errors += error.errors
                    continue
                self._rendered[lesson.id] = kept
            pages[LAYOUT.source_path(lesson.id)] = kept[1]
        raise_all(errors)
        executed = tuple(name for name, run in runs.items() if run.executed)
        measured = {
            lesson.id: tuple(
                output for outputs in runs[lesson.id].outputs for output in outputs
                if isinstance(output, Measurement)
            )
            for lesson in course.lessons
            if not lesson.header.draft
        }  # fmt: skip
        warnings = tuple(
            fault
            for lesson in course.lessons
            if not lesson.header.draft
            for fault in measured_faults(lesson, runs[lesson.id])
        )
        root = self.root / LAYOUT.folder
        made = {lesson.id: runs[lesson.id].launches for lesson in course.lessons if not lesson.header.draft}
        warnings += tuple(kernel_faults(root, made))
        return Shelf(course, pages, executed, measured, root, warnings, tuple(parts))

    def close(self) -> None:
        """Stop what runs lessons."""
        self._runner.close()

    def _parse(self) -> dict[str, Lesson]:
        found: dict[str, Lesson] = {}
        errors: list[LessonError] = []
        for file in self.files():
            stat = file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            kept = self._parsed.get(file)
            if kept is None or kept[0] != stamp:
                try:
                    kept = (stamp, read(file, self.root))
                except LessonError as error:
                    errors += error.errors
                    continue
                self._parsed[file] = kept
            found[kept[1].id] = kept[1]
        raise_all(errors)
        return found

    def _order(
        self, nav: Sequence[str], found: Mapping[str, Lesson], nav_path: str, nav_lines: Mapping[str, int]
    ) -> Course:
        state = (tuple(nav), *(found[name] for name in sorted(found)))
        kept = self._ordered
        if (
            kept is None
            or len(kept[0]) != len(state)
            or any(a is not b and a != b for a, b in zip(kept[0], state, strict=True))
        ):
            kept = (state, Course.from_nav(nav, found, nav_path, nav_lines))
            self._ordered = kept
        return kept[1]

    def _run(self, course: Course) -> dict[str, LessonRun]:
        def run(lesson: Lesson) -> LessonRun | LessonError:
            try:
                return self._runner.run(lesson)
            except LessonError as error:
                return error

        lessons = course.lessons
        if len(self._rendered) < len(lessons) / 2:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                results = list(pool.map(run, lessons))
        else:
            results = [run(lesson) for lesson in lessons]
        raise_all([fault for result in results if isinstance(result, LessonError) for fault in result.errors])
        return {
            lesson.id: result
            for lesson, result in zip(lessons, results, strict=True)
            if isinstance(result, LessonRun)
        }


def measured_faults(lesson: Lesson, run: LessonRun) -> Iterator[LessonError]:
    """Stale records of a lesson, and rows that missed their bound without a reason, each with its line."""
    headings = [mention.text for mention in lesson.prose.headings]
    for cell, outputs in zip(lesson.cells, run.outputs, strict=True):
        for output in outputs:
            if isinstance(output, Measurement):
                if output.stale:
                    yield LessonError(lesson.path, cell.first_line, output.stale)
                else:
                    yield from reason_faults(output, headings, lesson.path, cell.first_line)
            elif isinstance(output, Text) and output.source == NOT_CURRENT:
                message = f'the recorded output "{cell.record}" is missing or stale.'
                repair = f"Record it on a GPU: tilewise record {lesson.id}"
                yield LessonError(lesson.path, cell.first_line, message, repair)


def _hardware(name: str, path: str, line: int) -> str:
    """A part of the comparison of the simulator with a GPU's counters."""
    from tilewise.hardware import page

    if name in page.FRAGMENTS or name in page.PLAIN:
        return page.fragment(name)
    have = ", ".join([*page.FRAGMENTS, *page.PLAIN])
    raise LessonError(path, line, f'there is no "hardware.{name}".', f"There is {have}.")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
