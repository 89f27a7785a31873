"""Takeaways: a lesson ends with a few facts, which the recap page gathers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError

_LIST = re.compile(r"^## Takeaways[^\S\n]*\n\n?(?P<list>(?:.+\n?)*)", re.MULTILINE)
_FACT = re.compile(r"^- ", re.MULTILINE)


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    repair = "Close with a heading ## Takeaways and, below it, a list of three to six facts."
    for cell in lesson.cells:
        match = _LIST.search(cell.source) if cell.kind == "markdown" else None
        if match is not None:
            facts = len(_FACT.findall(match["list"]))
            if not 3 <= facts <= 6:
                line = cell.source_line + cell.source.count("\n", 0, match.start())
                yield LessonError(lesson.path, line, f"the takeaways are a list of {facts} facts.", repair)
            return
    yield LessonError(lesson.path, lesson.cells[-1].last_line, "the lesson has no takeaways.", repair)


TAKEAWAYS = LessonRule(
    "takeaways",
    "A lesson closes with ## Takeaways and a list of three to six facts; the recap gathers them.",
    "# %% [markdown]\n# ## Takeaways\n#\n# - One fact.\n# - Another,\n#   longer one.\n# - A third.\n",
    "# %% [markdown]\n# ## Takeaways\n#\n# - One fact.\n# - Another one.\n",
    _faults,
    stops=False,
)
