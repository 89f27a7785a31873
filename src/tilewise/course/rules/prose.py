"""Prose: levels of headings, footnotes that are called, definitions that hold anywhere, takeaways."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError, nearest

_SIGNS = re.compile("#+")
_LIST = re.compile(r"^## Takeaways[^\S\n]*\n\n?(?P<list>(?:.+\n?)*)", re.MULTILINE)
_FACT = re.compile(r"^- ", re.MULTILINE)


def _heading_faults(lesson: Lesson) -> Iterator[LessonError]:
    above = 1
    for heading in lesson.prose.headings:
        signs = _SIGNS.match(lesson.cells[heading.place.cell].source, heading.place.start)
        level, text, line = len(signs[0]) if signs else 0, heading.text, heading.place.line
        if level == 1:
            message = f'the heading "{text}" has the level of the lesson\'s title.'
            yield LessonError(lesson.path, line, message, f"Write ## {text}.")
        elif level > above + 1:
            message = f'the heading "{text}" is of level {level}, and the one above it of level {above}.'
            yield LessonError(lesson.path, line, message, f"Write {'#' * (above + 1)} {text}.")
        above = level


HEADINGS = LessonRule(
    "headings",
    "Headings in the prose begin at the second level, and go down one level at a time.",
    "# %% [markdown]\n# ## Predict\n#\n# ### The bound\n",
    "# %% [markdown]\n# ## Predict\n#\n# #### The bound\n",
    _heading_faults,
)


def _footnote_faults(lesson: Lesson) -> Iterator[LessonError]:
    texts: dict[str, int] = {}
    for note in lesson.prose.note_texts:
        if note.text in texts:
            message = f"footnote [^{note.text}] has a second text; the first is on line {texts[note.text]}."
            yield LessonError(lesson.path, note.place.line, message, "Give one of them another name.")
        texts.setdefault(note.text, note.place.line)
        if definition := lesson.prose.definition_around(note.place):
            message = f'the text of footnote [^{note.text}] stands in the definition of "{definition.title}".'
            repair = "Move it below the definition, to the margin; the mark may stay."
            yield LessonError(lesson.path, note.place.line, message, repair)
    called = {note.text for note in lesson.prose.notes}
    for note in lesson.prose.notes:
        if note.text not in texts:
            repair = nearest(note.text, texts) if texts else ""
            message = f"footnote [^{note.text}] has no text."
            written = f"Write [^{note.text}]: ... on a line of its own."
            yield LessonError(lesson.path, note.place.line, message, f"{written} {repair}")
    for label, line in texts.items():
        if label not in called:
            message = f"footnote [^{label}] is never called."
            yield LessonError(lesson.path, line, message, f"Set [^{label}] where it belongs, or delete it.")


FOOTNOTES = LessonRule(
    "footnotes",
    "A footnote has one text, at the margin of the same lesson, and is called.",
    "# %% [markdown]\n# Words.[^a]\n#\n# [^a]: More of them.\n",
    "# %% [markdown]\n# Words.[^a]\n#\n# [^b]: More of them.\n",
    _footnote_faults,
)


def _definition_faults(lesson: Lesson) -> Iterator[LessonError]:
    for number in lesson.prose.numbers:
        if definition := lesson.prose.definition_around(number.place):
            message = f'the definition of "{definition.title}" quotes a measured number.'
            repair = "Define without it, and quote the number in the text."
            yield LessonError(lesson.path, number.place.line, message, repair)


DEFINITIONS = LessonRule(
    "definitions",
    "A definition quotes no measured number.",
    '# %% [markdown]\n# ??? definition "Warp"\n#     32 threads.\n',
    '# %% [markdown]\n# ??? definition "Warp"\n#     {{ x.y }} threads.\n',
    _definition_faults,
)


def _takeaway_faults(lesson: Lesson) -> Iterator[LessonError]:
    repair = "Close with a heading ## Takeaways and, below it, a list of three to six facts."
    for cell in lesson.cells:
        found = _LIST.search(cell.source) if cell.kind == "markdown" else None
        if found is not None:
            facts = len(_FACT.findall(found["list"]))
            if not 3 <= facts <= 6:
                line = cell.source_line + cell.source.count("\n", 0, found.start())
                yield LessonError(lesson.path, line, f"the takeaways are a list of {facts} facts.", repair)
            return
    yield LessonError(lesson.path, lesson.cells[-1].last_line, "the lesson has no takeaways.", repair)


TAKEAWAYS = LessonRule(
    "takeaways",
    "A lesson closes with ## Takeaways and a list of three to six facts; the recap gathers them.",
    "# %% [markdown]\n# ## Takeaways\n#\n# - One fact.\n# - Another,\n#   longer one.\n# - A third.\n",
    "# %% [markdown]\n# ## Takeaways\n#\n# - One fact.\n# - Another one.\n",
    _takeaway_faults,
    stops=False,
)
