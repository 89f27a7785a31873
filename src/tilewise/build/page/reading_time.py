"""How long a lesson takes: reading, and working through its exercises or puzzles.

In: a lesson and what its cells showed. Out: minutes. The page *How to read* says how they are estimated; a
test holds it to the constants below.
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
"""What one takes, by the kind of output."""


@dataclass(frozen=True)
class ReadingTime:
    """Minutes that a lesson takes."""

    reading: int
    """Its prose, and the code in view."""
    working: int
    """Its exercises and puzzles besides."""
    tasks: str
    """What they are called: ``exercises``, ``puzzles``; empty without any."""

    @property
    def text(self) -> str:
        """Both in words, ``12 min read · about 30 min with the exercises``."""
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
    """How long reading takes, in minutes: prose at a calm pace, code in view slower."""
    code_lines = sum(open_lines(cell) for cell in lesson.code)
    return max(1, round(lesson.prose.word_count / WORDS_A_MINUTE + code_lines / CODE_LINES_A_MINUTE))


def _rounded(total: int) -> int:
    """To the next five minutes: an estimate claims no more."""
    return -(-total // 5) * 5
