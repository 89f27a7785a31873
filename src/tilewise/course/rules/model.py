"""A rule for lessons: one sentence, a function that returns the faults, and two examples.

In: nothing. Out: the kinds of rules, by what they check. An example is the text after a lesson's header; a
line ``=== part/two; needs: [part/one]`` begins another lesson, with lines of its header.
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


def on_lines(
    path: str, line: int, text: str, faults: Iterable[tuple[int, str, str]]
) -> Iterator[LessonError]:
    """Errors for the faults (place, message, repair) of a text that begins on a line of a file."""
    for at, message, repair in faults:
        yield LessonError(path, line + text.count("\n", 0, at), message, repair)


@dataclass(frozen=True)
class Rule:
    """A rule that lessons have to follow."""

    name: str
    """Its subject, in a word or two."""
    sentence: str
    """The rule, as ``tilewise check --rules`` prints it."""
    accepts: str
    """An example without a fault."""
    rejects: str
    """The same example with a fault."""
    _: KW_ONLY
    stops: bool = True
    """Whether a fault stops every build; otherwise it fails ``tilewise check`` and strict builds."""


@dataclass(frozen=True)
class LessonRule(Rule):
    """A rule for single lessons."""

    faults: Callable[[Lesson], Faults]


@dataclass(frozen=True)
class CourseRule(Rule):
    """A rule for all lessons together, in reading order and with their needs as written."""

    faults: Callable[[Course], Faults]
    last: bool = False
    """Whether its faults may be consequences of others, so that it is checked only if there are none."""


@dataclass(frozen=True)
class NavigationRule(Rule):
    """A rule for the navigation and the lessons by id."""

    faults: Callable[[Navigation, Mapping[str, Lesson]], Faults]


@dataclass(frozen=True)
class RunRule(Rule):
    """A rule for a lesson that has run."""

    faults: Callable[[Lesson, LessonRun], Faults]
