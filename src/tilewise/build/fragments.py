"""What pages of docs/ may quote of the course: ``{{ course.map }}`` and its like, by name.

In: the course, its parts and its pages. Out: Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewise.build.installation import Package
from tilewise.build.page import Page, course_map, glossary
from tilewise.build.page.corrections import corrections
from tilewise.build.page.front import clone, first_run, notebooks
from tilewise.build.page.questions import questions
from tilewise.build.page.recap import recap
from tilewise.course.order import Course, Part


@dataclass(frozen=True)
class Quoted:
    """What a fragment is made of."""

    course: Course
    """The lessons."""
    parts: Sequence[Part]
    """The sections of the navigation that hold them."""
    pages: Mapping[str, Page]
    """Their pages, by source path."""
    package: Package | None = None
    """Where readers get the course from."""

    @property
    def texts(self) -> dict[str, str]:
        """The Markdown of the pages, by source path."""
        return {path: page.markdown for path, page in self.pages.items()}


COURSE: Mapping[str, Callable[[Quoted], str]] = {
    "map": lambda quoted: course_map(quoted.course, quoted.parts),
    "first_run": lambda quoted: first_run(quoted.course, quoted.pages),
    "clone": lambda quoted: clone(quoted.package),
    "notebooks": lambda quoted: notebooks(quoted.course, quoted.package),
    "glossary": lambda quoted: glossary(quoted.course).removeprefix("# Glossary").strip(),
    "corrections": lambda quoted: corrections(quoted.course, quoted.texts),
    "questions": lambda quoted: questions(quoted.course, quoted.parts, quoted.texts),
    "recap": lambda quoted: recap(quoted.course, quoted.parts, quoted.texts),
}
"""Every fragment of the family ``course``, by the name behind the dot."""
