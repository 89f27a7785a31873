"""How long a lesson takes: reading, and working through its exercises or puzzles.

In: a lesson and its outputs. Out: minutes. The page *How to read* explains the estimate; a test checks that
it agrees with the constants below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewise.build.page.code import open_lines
from tilewise.course.lesson import Lesson
from tilewise.outputs import Output

WORDS_A_MINUTE = 170
CODE_LINES_A_MINUTE = 18
MINUTES = {"exercise": 5, "puzzle": 15}
"""Minutes per task, by the kind of output."""


@dataclass(frozen=True)
class ReadingTime:
    """Minutes that a lesson takes."""

    reading: int
    """Its prose, and the code that is not folded."""
    working: int
    """Its exercises and puzzles."""
    tasks: str
    """The tasks' name: ``exercises``, ``puzzles``; empty if there are none."""

    @property
    def text(self) -> str:
        """Both in words: ``12 min read · about 30 min with the exercises``."""
        read = f"{self.reading} min read"
        total = _rounded(self.reading + self.working)
        return f"{read} · about {total} min with the {self.tasks}" if self.tasks else read


def reading_time(lesson: Lesson, outputs: Iterable[Output] = ()) -> ReadingTime:
    """How long a lesson takes."""
    kinds = [output.kind for output in outputs if output.kind in MINUTES]
    words = sorted({f"{kind}s" if kinds.count(kind) > 1 else kind for kind in kinds})
    working = sum(MINUTES[kind] for kind in kinds)
    return ReadingTime(minutes(lesson), working, " and ".join(words))


def minutes(lesson: Lesson) -> int:
    """The reading time in minutes: prose at a calm pace, unfolded code more slowly."""
    code_lines = sum(open_lines(cell) for cell in lesson.code)
    return max(1, round(lesson.prose.word_count / WORDS_A_MINUTE + code_lines / CODE_LINES_A_MINUTE))


def _rounded(total: int) -> int:
    """Round up to five minutes, because the estimate is not more precise."""
    return -(-total // 5) * 5
