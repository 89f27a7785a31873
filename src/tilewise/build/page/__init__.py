"""Pages: renders a lesson and its outputs as Markdown and files. Pure: no GPU, clock or disk.

In: a ``Lesson``, its ``LessonRun``, the ``Course``. Out: a ``Page``. Needs these
Markdown extensions: attr_list, md_in_html, admonition, footnotes, pymdownx.details, .superfences, .highlight
(with ``linenums_style: pymdownx-inline`` and ``line_spans: __span``), .tabbed (``alternate_style``),
.blocks.html, and one for math, whose ``$...$`` and ``$$...$$`` are never touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilewise.build.installation import Package
from tilewise.build.notebook import to_notebook
from tilewise.build.page.code import code_cell, tab_set
from tilewise.build.page.course_map import course_map
from tilewise.build.page.frame import front_matter, further, glossary, hardware, head, terms
from tilewise.build.page.layout import asset, beside
from tilewise.build.page.markers import hide_marker_lines, tell_lines
from tilewise.build.page.prose import prose_cells, quoted_numbers
from tilewise.build.page.reading_time import minutes
from tilewise.build.run.runner import LessonRun
from tilewise.course.lesson import Lesson
from tilewise.course.order import Course
from tilewise.course.prose import without_escapes
from tilewise.course.rules.terms import check_terms
from tilewise.measurements.output import Measurement
from tilewise.measurements.provenance_links import provenance_id, provenance_list
from tilewise.outputs import Context, Output, Task

__all__ = ["Page", "course_map", "glossary", "hide_marker_lines", "minutes", "render", "tell_lines"]

_RUNNING = "This lesson is running. Its outputs appear as soon as they are computed."
_STOPPED = "This lesson stopped with an error. Outputs below it are missing or are those of the last run."
FIRST_TAB = "CUDA C"
"""The start of the title of the tab shown first, whatever its position in the lesson's file."""
FIGURES = "assets/figures"
"""The folder of the figures' data, relative to the site's root."""


@dataclass(frozen=True)
class Page:
    """A lesson's page for the site."""

    markdown: str
    """The page, with its YAML header."""
    files: Mapping[str, bytes]
    """Files by path relative to the site's root: figures' data, the lesson as ``.py`` and ``.ipynb``."""


def render(
    lesson: Lesson,
    run: LessonRun,
    course: Course,
    *,
    stale: Collection[str] = (),
    package: Package | None = None,
) -> Page:
    """Render a lesson.

    Args:
        lesson: the lesson.
        run: the outputs of its cells.
        course: the course it belongs to.
        stale: experiments, or variants as ``experiment.variant``, that are no longer current, in addition to
            those of the run's tables; numbers from them are marked.
        package: what the lesson's notebook installs first.

    Raises:
        LessonError: prose quotes a number that is unknown or does not fit its format, or an exercise uses a
            term that the lesson does not reach.
    """
    files: dict[str, bytes] = {}
    old = {*stale, *run.stale}
    pending = bool(run.pending)
    numbers = quoted_numbers(lesson, run.published, run.records, pending)
    by_machine = {
        machine: quoted_numbers(
            lesson,
            {**run.published, **run.published_by.get(machine, {})},
            {**run.records, **run.records_by.get(machine, {})},
            pending,
        )
        for machine in run.machines
    }
    _check_tasks(lesson, run, course)
    prose = prose_cells(lesson, course, numbers, old, by_machine)
    runs_on = hardware(run)
    shown = [output for outputs in run.outputs for output in outputs]
    parts = [front_matter(lesson), head(lesson, course, runs_on, shown, package)]
    if run.pending:
        parts.append(f'<p class="tw-run-status">{_STOPPED if run.stopped else _RUNNING}</p>')
    parts += _body(lesson, run, prose, files)
    quoted = [number.origin for values in (numbers, *by_machine.values()) for number in values.values()]
    if line := further(lesson, course):
        parts.append(line)
    if lists := _provenance_lists(lesson, run, quoted):
        parts.append(lists)
    if closing := terms(lesson, course):
        parts.append(closing)
    name = lesson.id.rsplit("/", 1)[-1]
    files[beside(lesson.id, f"{name}.py")] = lesson.text.encode()
    files[beside(lesson.id, f"{name}.ipynb")] = to_notebook(
        lesson, {mention: quoted.text for mention, quoted in numbers.items()}, package, runs_on
    )
    return Page("\n\n".join(parts) + "\n", files)


def _provenance_lists(lesson: Lesson, run: LessonRun, quoted: Collection[str]) -> str:
    """A fold at the end with the provenance of numbers quoted from records of other lessons."""
    shown = {
        provenance_id(output.name, output.provenance["device"])
        for outputs in run.outputs
        for output in outputs
        if isinstance(output, Measurement) and output.provenance
    }
    lists = [
        provenance_list(name, record, lambda path: asset(lesson.id, path))
        for records in (run.records, *run.records_by.values())
        for name, record in records.items()
        if (target := provenance_id(name, str(record.get("device")))) in quoted and target not in shown
    ]
    if not lists:
        return ""
    summary = "<summary>Sources of quoted measurements</summary>"
    return f'<details class="tw-provenance">{summary}{"".join(lists)}</details>'


def _check_tasks(lesson: Lesson, run: LessonRun, course: Course) -> None:
    """Check that the lesson reaches the terms of its exercises and puzzles, like those of its prose."""
    for cell, outputs in zip(lesson.cells, run.outputs, strict=True):
        for output in outputs:
            if isinstance(output, Task):
                for text in output.texts():
                    check_terms(course, lesson.id, text, cell.first_line)


def _plain(output: Output) -> Output:
    """A task without the escapes of everyday words; any other output unchanged."""
    if not isinstance(output, Task):
        return output
    return output.with_texts([without_escapes(text) for text in output.texts()])


def _body(lesson: Lesson, run: LessonRun, prose: Mapping[int, str], files: dict[str, bytes]) -> list[str]:
    """The cells in order, with adjacent tabs as sets."""
    taken: dict[str, int] = {}

    def unique(wanted: str) -> str:
        taken[wanted] = taken.get(wanted, 0) + 1
        return wanted if taken[wanted] == 1 else f"{wanted}-{taken[wanted]}"

    def add_file(suffix: str, content: bytes) -> str:
        path = f"{FIGURES}/{hashlib.sha256(content).hexdigest()[:16]}{suffix}"
        files[path] = content
        return asset(lesson.id, path)

    def link(path: str) -> str:
        return asset(lesson.id, path)

    def shown(index: int, nested: bool) -> str:
        cell = lesson.cells[index]
        context = Context(lesson.id, cell.first_line, add_file, unique, nested, link)
        missing = run.skipped.get(index, ())
        outputs = [_plain(output) for output in run.outputs[index]]
        others = {machine: cells[index] for machine, cells in run.others.items() if index in cells}
        note = ("No output" if run.stopped else "Running") if index in run.pending else ""
        return code_cell(
            cell, outputs, run.kernels.get(index, {}), missing, context, note, others, run.machine
        )

    sets = {members[0]: members for members in lesson.tab_sets}
    inside = {index for members in lesson.tab_sets for index in members}
    parts: list[str] = []
    after_set = False
    for index, cell in enumerate(lesson.cells):
        if cell.kind == "markdown":
            text = prose[index]
        elif index in sets:
            members = sorted(sets[index], key=lambda at: not lesson.cells[at].tab.startswith(FIRST_TAB))
            text = tab_set([(lesson.cells[at].tab, shown(at, True)) for at in members], fresh=after_set)
        elif index in inside:
            continue
        else:
            text = shown(index, False)
        after_set = index in sets
        if text:
            parts.append(text)
    return parts
