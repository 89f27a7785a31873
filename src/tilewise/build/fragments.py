"""What pages of docs/ may quote of the course: ``{{ course.map }}`` and its like, by name.

In: the course, its parts and its pages. Out: Markdown. What each of them holds is for
``tilewise.build.page``; which other families of fragments there are, for ``lessons``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilewise.build.page import Page, course_map, glossary
from tilewise.build.page.corrections import corrections
from tilewise.build.page.gallery import gallery
from tilewise.build.page.layout import source_path
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

    @property
    def texts(self) -> dict[str, str]:
        """The Markdown of the pages, by source path."""
        return {path: page.markdown for path, page in self.pages.items()}


def _lessons(quoted: Quoted) -> str:
    """The published lessons as a numbered list with their questions."""
    return "\n".join(
        f"{quoted.course.number(lesson.id)}. [{lesson.header.title}]({source_path(lesson.id)})"
        + (f"<br>\n    {escape(lesson.header.summary, quote=False)}" if lesson.header.summary else "")
        for lesson in quoted.course.lessons
    )


COURSE: Mapping[str, Callable[[Quoted], str]] = {
    "map": lambda quoted: course_map(quoted.course),
    "lessons": _lessons,
    "glossary": lambda quoted: glossary(quoted.course).removeprefix("# Glossary").strip(),
    "corrections": lambda quoted: corrections(quoted.course, quoted.texts),
    "questions": lambda quoted: questions(quoted.course, quoted.parts, quoted.texts),
    "figures": lambda quoted: gallery(quoted.course, quoted.parts, quoted.pages),
    "recap": lambda quoted: recap(quoted.course, quoted.parts, quoted.texts),
}
"""Every fragment of the family ``course``, by the name behind the dot."""
