"""Every figure of the lessons by its words, for one page.

In: the course, its parts and its pages with the figures' data. Out: HTML for a page at the site's root, by
part and lesson: the title leads to the figure, the caption stands below. Nothing is added.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from typing import TYPE_CHECKING

from tilewise.build.page.by_machine import shown_alone
from tilewise.build.page.gathered import published
from tilewise.build.page.layout import lesson_url, source_path
from tilewise.course.lesson import Lesson
from tilewise.course.order import Course, Part

if TYPE_CHECKING:
    from tilewise.build.page import Page

_FIGURE = re.compile(r'<figure class="tw-figure" id="(?P<id>[^"]+)" data-figure="(?P<url>[^"]+)"')


def gallery(course: Course, parts: Sequence[Part], pages: Mapping[str, Page]) -> str:
    """The figures of all published lessons, by part and lesson, in reading order.

    Args:
        course: the lessons.
        parts: the sections of the navigation.
        pages: the lessons' pages with their files, by the lessons' source paths.
    """
    blocks: list[str] = []
    for part, lessons in published(course, parts, pages):
        shown = []
        for lesson in lessons:
            path = source_path(lesson.id)
            if cards := "\n".join(_cards(lesson, pages[path])):
                heading = f"### [{lesson.header.title}]({path})"
                shown.append(f'{heading}\n\n<ul class="tw-gallery">\n{cards}\n</ul>')
        if shown:
            blocks += [f"## {part.title}", *shown]
    return "\n\n".join(blocks)


def _cards(lesson: Lesson, page: Page) -> Iterator[str]:
    data = {posixpath.basename(name): content for name, content in page.files.items()}
    for found in _FIGURE.finditer(shown_alone(page.markdown)):
        target = f"../{lesson_url(lesson.id)}#{found['id']}"
        figure = json.loads(data[posixpath.basename(unescape(found["url"]))])
        title, caption = (escape(figure[name], quote=False) for name in ("title", "caption"))
        yield f'<li><a href="{escape(target)}"><strong>{title}</strong></a><p>{caption}</p></li>'
