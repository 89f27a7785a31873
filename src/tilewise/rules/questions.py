"""Questions that readers ask: folds, which the page of questions gathers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewise.course import Course
from tilewise.errors import LessonError
from tilewise.lesson import Lesson
from tilewise.rules.model import CourseRule, LessonRule

_QUESTION = re.compile(
    r'^\?\?\? question "(?P<asked>.*)"\n(?P<answer>(?:    .*\n?|\n(?=    ))*)', re.MULTILINE
)
_NO_SENTENCE = re.compile(r"\{\{.*?\}\}|\(\S*\)|^    \|.*$", re.MULTILINE)
"""Numbers, targets of links and rows of tables, whose dots end nothing."""


def _questions(lesson: Lesson) -> Iterator[tuple[str, str, int]]:
    """Each question with its answer and its line."""
    for cell in lesson.cells:
        for found in _QUESTION.finditer(cell.source) if cell.kind == "markdown" else ():
            line = cell.source_line + cell.source.count("\n", 0, found.start())
            yield found["asked"], found["answer"], line


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    for asked, answer, line in _questions(lesson):
        if not asked.endswith("?"):
            yield LessonError(lesson.path, line, f'"{asked}" has no question mark.', "Word it as a question.")
        sentences = len(re.findall(r"[.?!](?=\s|$)", _NO_SENTENCE.sub("", answer)))
        if not 2 <= sentences <= 6:
            message = f'the answer to "{asked}" has {sentences} sentences.'
            yield LessonError(lesson.path, line, message, "Answer in two to six, and link to what says more.")


def _twice(course: Course) -> Iterator[LessonError]:
    seen: dict[str, str] = {}
    for lesson in course.lessons:
        for asked, _, line in _questions(lesson):
            if asked in seen:
                message = f'"{asked}" is asked here and in {seen[asked]}.'
                yield LessonError(lesson.path, line, message, "Keep one, or word one of them otherwise.")
            seen.setdefault(asked, f"{lesson.path}:{line}")


_ASKED = '# %% [markdown]\n# ??? question "Why warps?"\n#     They save control.'
QUESTIONS = LessonRule(
    "questions",
    'A fold ??? question "...?" has two to six sentences in it.',
    f"{_ASKED} Others split.\n",
    f"{_ASKED}\n",
    _faults,
    stops=False,
)
ASKED_ONCE = CourseRule(
    "asked once",
    "A question is asked by one lesson.",
    f"{_ASKED}\n",
    f"{_ASKED}\n=== part/two\n{_ASKED}\n",
    _twice,
    stops=False,
)
