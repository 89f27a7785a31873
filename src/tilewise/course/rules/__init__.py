"""Rules for lessons and for the course as a whole; one rule per file.

In: lessons, the navigation, runs. Out: an error for each fault, with its line and its repair. Any rule in a
module of this package is discovered, so a new one changes no other file. ``tilewise check`` applies all of
them; some stop every build, the others only a strict one. Files that cannot be parsed are rejected by
``tilewise.course.lesson``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from tilewise.course.lesson import Lesson
from tilewise.course.order import Course, Navigation
from tilewise.course.rules.model import CourseRule, LessonRule, NavigationRule, Rule, RunRule
from tilewise.course.terms import Terms
from tilewise.errors import LessonError, raise_all

if TYPE_CHECKING:
    from tilewise.build.run.runner import LessonRun

LessonFaults = Callable[[Lesson, bool], Iterable[LessonError]]
"""Returns the faults of a lesson by itself, as ``lesson_faults`` does."""
Kind = TypeVar("Kind", bound=Rule)


@cache
def every_rule() -> tuple[Rule, ...]:
    """The rules of all modules of this package, by the modules' names."""
    modules = [import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Rule))


def _rules(kind: type[Kind], stops: bool) -> Iterator[Kind]:
    return (rule for rule in every_rule() if isinstance(rule, kind) and rule.stops is stops)


def lesson_faults(lesson: Lesson, stops: bool = True) -> Iterator[LessonError]:
    """The faults of one lesson: those that stop every build, or only a strict one."""
    for rule in _rules(LessonRule, stops):
        yield from rule.faults(lesson)


def course_faults(lessons: Sequence[Lesson], faults: LessonFaults = lesson_faults) -> list[LessonError]:
    """The faults that stop a build of these lessons, in reading order."""
    course = Course(tuple(lessons), Terms.of(lessons))
    rules = list(_rules(CourseRule, stops=True))
    errors = [fault for rule in rules if not rule.last for fault in rule.faults(course)]
    errors += [fault for lesson in lessons for fault in faults(lesson, True)]
    return errors or [fault for rule in rules if rule.last for fault in rule.faults(course)]


def navigation_faults(nav: Navigation, lessons: Mapping[str, Lesson]) -> list[LessonError]:
    """The faults of the navigation; the lessons are by id."""
    return [fault for rule in _rules(NavigationRule, stops=True) for fault in rule.faults(nav, lessons)]


def checked_course(
    nav: Navigation, lessons: Mapping[str, Lesson], faults: LessonFaults = lesson_faults
) -> Course:
    """The course of the lessons, by id, in the navigation's order.

    Raises:
        LessonError: a fault that stops every build; ``LessonErrors`` for several.
    """
    raise_all(navigation_faults(nav, lessons))
    ordered = [lessons[name] for name in nav.order]
    raise_all(course_faults(ordered, faults))
    return Course.of(ordered)


def form_faults(nav: Navigation, course: Course, faults: LessonFaults = lesson_faults) -> list[LessonError]:
    """What lessons lack; stops only a strict build, because no lesson starts complete."""
    return [
        *(fault for lesson in course.lessons for fault in faults(lesson, False)),
        *(fault for rule in _rules(CourseRule, False) for fault in rule.faults(course)),
        *(fault for rule in _rules(NavigationRule, False) for fault in rule.faults(nav, course.by_id)),
    ]


def run_faults(lesson: Lesson, run: LessonRun, stops: bool) -> Iterator[LessonError]:
    """The faults of a lesson that has run: those that stop every build, or only a strict one."""
    for rule in _rules(RunRule, stops):
        yield from rule.faults(lesson, run)
