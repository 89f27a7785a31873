"""What a rule for lessons is: one sentence, a function that finds the faults, and two examples.

In: nothing. Out: the kinds of rules, by what they look at. An example is what follows the header of a lesson;
a line ``=== part/two; needs: [part/one]`` begins another lesson, with lines of its header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from tilewise.course.lesson import Lesson
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.build.run.runner import LessonRun
    from tilewise.course.order import Course, Navigation

Faults = Iterable[LessonError]


def on_lines(path: str, line: int, text: str, found: Iterable[tuple[int, str, str]]) -> Iterator[LessonError]:
    """Faults in a text that begins on a line of a file; each is given by its place, message and repair."""
    for at, message, repair in found:
        yield LessonError(path, line + text.count("\n", 0, at), message, repair)


@dataclass(frozen=True)
class Rule:
    """Something that lessons are held to."""

    name: str
    """What it is about, in a word or two."""
    sentence: str
    """The rule, as ``tilewise check --rules`` prints it."""
    accepts: str
    """An example without a fault."""
    rejects: str
    """The same with one."""
    _: KW_ONLY
    stops: bool = True
    """Whether a fault stops every build; otherwise it fails ``tilewise check`` and strict builds."""


@dataclass(frozen=True)
class LessonRule(Rule):
    """What can be seen in one lesson."""

    faults: Callable[[Lesson], Faults]


@dataclass(frozen=True)
class CourseRule(Rule):
    """What holds between lessons, here in reading order and with their needs as written."""

    faults: Callable[[Course], Faults]
    last: bool = False
    """Whether its faults may follow from others, and are looked for where there are none."""


@dataclass(frozen=True)
class NavigationRule(Rule):
    """What the navigation and the lessons by id have to do with each other."""

    faults: Callable[[Navigation, Mapping[str, Lesson]], Faults]


@dataclass(frozen=True)
class RunRule(Rule):
    """What can be seen once a lesson has run."""

    faults: Callable[[Lesson, LessonRun], Faults]
