"""Every question that a lesson answers in a fold, gathered for one page.

In: the course, its parts and its rendered pages, with numbers in place. Out: Markdown for a page at the
site's root, by part. A question is a ``??? question "..."`` block of a lesson; nothing is added to what it
says.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from tilewise.build.page.gathered import blanked, from_root, headings, place, published
from tilewise.build.page.layout import source_path
from tilewise.course.lesson import Lesson
from tilewise.course.order import Course, Part

_QUESTION = re.compile(
    r'^\?\?\?\+?[ ]+question[ ]+"(?P<asked>[^"\n]+)"[ ]*\n(?P<said>(?:[ ]{4}.*(?:\n|$)|[ \t]*\n(?=[ ]{4}))+)',
    re.M,
)


def questions(course: Course, parts: Sequence[Part], pages: Mapping[str, str]) -> str:
    """The questions of all published lessons with their answers, by part, in reading order.

    Args:
        course: the lessons.
        parts: the sections of the navigation.
        pages: the Markdown of the lessons' pages, by their source paths.
    """
    blocks: list[str] = []
    for part, lessons in published(course, parts, pages):
        found = [one for lesson in lessons for one in _of(lesson, pages[source_path(lesson.id)])]
        if found:
            blocks += [f"## {part.title}", *found]
    return "\n\n".join(blocks)


def _of(lesson: Lesson, page: str) -> Iterator[str]:
    text = blanked(page)
    above = headings(text)
    for found in _QUESTION.finditer(text):
        said = textwrap.dedent(page[found.start("said") : found.end("said")]).strip()
        where = place(lesson, above, found.start())
        answer = f"### {found['asked']}\n\n{from_root(said, lesson)}"
        yield f'{answer}\n\n<p class="tw-asked" markdown>In {where}.</p>'
