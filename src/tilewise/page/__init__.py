"""Pages: a lesson, what its cells showed and the course, as Markdown and files. Pure: no GPU, clock or disk.

In: a ``Lesson``, its ``LessonRun``, the ``Course``, the run. Out: a ``Page``. Needs these
Markdown extensions: attr_list, md_in_html, admonition, footnotes, pymdownx.details, .superfences, .highlight
(with ``linenums_style: pymdownx-inline`` and ``line_spans: __span``), .tabbed (``alternate_style``),
.blocks.html, and one for math, whose ``$...$`` and ``$$...$$`` are never touched.

What styles and scripts may rely on, besides what the outputs document:

- ``div.tw-lesson``: the head, with ``p.tw-question``, ``p.tw-meta``, ``p.tw-downloads``; at the end
  ``h2#terms.tw-terms``.
- ``a.tw-term[title]``: the first use of a term; ``em#term-<slug>.tw-term-title`` in the summary of
  ``details.definition``; ``div.tw-glossary-entry#term-<slug>`` in the glossary.
- ``span.tw-number``: a quoted number. ``[title]`` where the page computed it; ``[data-source]``: who states
  it, or what stands behind it in ``{from: ...}``. ``a.tw-number[data-born]``: a recorded one, with the id of
  the ``dl.tw-birth`` that says where it was taken, and ``[data-spread]``; ``.tw-stale`` if outdated.
- ``[data-line]``, once ``tell_lines`` has been applied to the HTML: a block of prose, and the line of the
  lesson's file that it begins on.
- ``div.highlight.tw-code[data-line]``: Python, and the line of its first line in the lesson's file;
  ``[data-dropped="2 4"]``: which of its lines only marked a region and are not shown.
- ``div.highlight.tw-kernel[data-kernel]``: CUDA; its line numbers are the kernel's own. ``[data-line]``:
  which line of the lesson's file its line 1 is, where it is written there. ``[data-region]`` on
  a region shown alone; ``[data-regions="name:first-last ..."]`` on code with regions, in its line numbers;
  ``[data-markers="2 4"]``: lines of a kernel that only marked a region; they stand blank until
  ``hide_marker_lines`` has been applied to the HTML.
- ``details.kernel``, ``.code``, ``.answer``, ``.hint``, ``.tests``, ``.terms``; ``div.exercise``, also
  ``div.exercise.puzzle``.
- ``div.tw-needs``: what a skipped cell needs. ``div.tw-output``: printed text, with a title where recorded.
- ``svg.tw-map``: see ``course_map``.
- ``div.tw-machines``: see ``by_machine``. ``.tw-number[data-on]``: as JSON, by further machine, what stands
  there with its records: ``text``, ``born``, ``spread``. A paragraph that names a GPU has that
  GPU's numbers, without it.
- ``div.tw-pending``: stands for the output of a cell that has not ended, or before what it showed the last
  time; ``p.tw-run-status`` at the top says that there are such cells. While serving only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilewise.course import Course
from tilewise.installation import Package
from tilewise.lesson import Lesson
from tilewise.measurements.births import birth_id, birth_list
from tilewise.measurements.output import Measurement
from tilewise.notebook import to_notebook
from tilewise.outputs import Context, Output, Task
from tilewise.page.code import code_cell, tab_set
from tilewise.page.course_map import course_map
from tilewise.page.frame import front_matter, glossary, hardware, head, minutes, terms
from tilewise.page.layout import asset, beside
from tilewise.page.markers import hide_marker_lines, tell_lines
from tilewise.page.prose import prose_cells, quoted_numbers, without_escapes
from tilewise.rules.terms import check_terms
from tilewise.run import LessonRun

__all__ = ["Page", "course_map", "glossary", "hide_marker_lines", "minutes", "render", "tell_lines"]

_RUNNING = "This lesson is running. Its outputs appear as soon as they are computed."
_STOPPED = "This lesson stopped with an error. Outputs below it are missing or are those of the last run."
FIGURES = "assets/figures"
"""The folder of the figures' data, relative to the site's root."""


@dataclass(frozen=True)
class Page:
    """A lesson as the site takes it."""

    markdown: str
    """The page, with its own YAML header."""
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
        run: what its cells showed.
        course: the course it belongs to.
        stale: experiments, or variants as ``experiment.variant``, that are no longer current, besides those
            that the run's own tables name; numbers from them are marked.
        package: what the lesson's notebook installs first.

    Raises:
        LessonError: prose quotes a number that is not known or does not fit its format, or an exercise uses a
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
    parts = [front_matter(lesson), head(lesson, course, runs_on)]
    if run.pending:
        parts.append(f'<p class="tw-run-status">{_STOPPED if run.stopped else _RUNNING}</p>')
    parts += _body(lesson, run, prose, files)
    quoted = [one.born for found in (numbers, *by_machine.values()) for one in found.values()]
    if births := _births(lesson, run, quoted):
        parts.append(births)
    if closing := terms(lesson, course):
        parts.append(closing)
    name = lesson.id.rsplit("/", 1)[-1]
    files[beside(lesson.id, f"{name}.py")] = lesson.text.encode()
    files[beside(lesson.id, f"{name}.ipynb")] = to_notebook(
        lesson, {mention: quoted.text for mention, quoted in numbers.items()}, package, runs_on
    )
    return Page("\n\n".join(parts) + "\n", files)


def _births(lesson: Lesson, run: LessonRun, quoted: Collection[str]) -> str:
    """Folded at the end: where the numbers were taken that the prose quotes from records of other lessons."""
    shown = {
        birth_id(output.name, output.provenance["device"])
        for outputs in run.outputs
        for output in outputs
        if isinstance(output, Measurement) and output.provenance
    }
    lists = [
        birth_list(name, record, lambda path: asset(lesson.id, path))
        for records in (run.records, *run.records_by.values())
        for name, record in records.items()
        if (birth := birth_id(name, str(record.get("device")))) in quoted and birth not in shown
    ]
    if not lists:
        return ""
    summary = "<summary>Where quoted numbers were recorded</summary>"
    return f'<details class="tw-provenance">{summary}{"".join(lists)}</details>'


def _check_tasks(lesson: Lesson, run: LessonRun, course: Course) -> None:
    """The terms that exercises and puzzles use must be known, like those of the prose."""
    for cell, outputs in zip(lesson.cells, run.outputs, strict=True):
        for output in outputs:
            if isinstance(output, Task):
                for text in output.texts():
                    check_terms(course, lesson.id, text, cell.first_line)


def _plain(output: Output) -> Output:
    """A task without the marks of everyday words; every other output as it is."""
    if not isinstance(output, Task):
        return output
    return output.with_texts([without_escapes(text) for text in output.texts()])


def _body(lesson: Lesson, run: LessonRun, prose: Mapping[int, str], files: dict[str, bytes]) -> list[str]:
    """The cells in order, neighbouring tabs as sets."""
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
        others = {machine: found[index] for machine, found in run.others.items() if index in found}
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
            text = tab_set([(lesson.cells[at].tab, shown(at, True)) for at in sets[index]], fresh=after_set)
        elif index in inside:
            continue
        else:
            text = shown(index, False)
        after_set = index in sets
        if text:
            parts.append(text)
    return parts
