"""Questions that readers ask: folds, which the page of questions gathers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewise.errors import LessonError
from tilewise.lesson import Lesson
from tilewise.rules.model import LessonRule

_QUESTION = re.compile(
    r'^\?\?\? question "(?P<asked>.*)"\n(?P<answer>(?:    .*\n?|\n(?=    ))*)', re.MULTILINE
)
_NO_SENTENCE = re.compile(r"\{\{.*?\}\}|\(\S*\)|^    \|.*$", re.MULTILINE)
"""Numbers, targets of links and rows of tables, whose dots end nothing."""


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    for cell in lesson.cells:
        for found in _QUESTION.finditer(cell.source) if cell.kind == "markdown" else ():
            asked, line = found["asked"], cell.source_line + cell.source.count("\n", 0, found.start())
            if not asked.endswith("?"):
                message = f'"{asked}" has no question mark.'
                yield LessonError(lesson.path, line, message, "Word it as a question.")
            sentences = len(re.findall(r"[.?!](?=\s|$)", _NO_SENTENCE.sub("", found["answer"])))
            if not 2 <= sentences <= 6:
                message = f'the answer to "{asked}" has {sentences} sentences.'
                repair = "Answer in two to six, and link to what says more."
                yield LessonError(lesson.path, line, message, repair)


_ASKED = '# %% [markdown]\n# ??? question "Why warps?"\n#     They save control.'
QUESTIONS = LessonRule(
    "questions",
    'A fold ??? question "...?" has two to six sentences in it.',
    f"{_ASKED} Others split.\n",
    f"{_ASKED}\n",
    _faults,
    stops=False,
)
