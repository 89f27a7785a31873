"""Every figure of the lessons, small, for one page.

In: the course, its parts and its pages with the figures' data. Out: HTML for a page at the site's root, by
part and lesson: a thumbnail and the title lead to the figure, the caption stands below. Nothing is added.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape, unescape
from typing import TYPE_CHECKING

from tilewise.course import Course
from tilewise.figures.thumbnails import thumbnail
from tilewise.lesson import Lesson
from tilewise.page.gathered import Part, published
from tilewise.page.layout import Layout

if TYPE_CHECKING:
    from tilewise.page import Page

_FIGURE = re.compile(r'<figure class="tw-figure" id="(?P<id>[^"]+)" data-figure="(?P<url>[^"]+)"')


def gallery(course: Course, parts: Sequence[Part], pages: Mapping[str, Page], layout: Layout) -> str:
    """The figures of all published lessons, by part and lesson, in reading order.

    Args:
        course: the lessons.
        parts: the sections of the navigation.
        pages: the lessons' pages with their files, by the lessons' source paths.
        layout: where things are.
    """
    blocks: list[str] = []
    for part, lessons in published(course, parts, pages, layout):
        shown = []
        for lesson in lessons:
            path = layout.source_path(lesson.id)
            if cards := "\n".join(_cards(lesson, pages[path], layout)):
                heading = f"### [{lesson.header.title}]({path})"
                shown.append(f'{heading}\n\n<ul class="tw-gallery">\n{cards}\n</ul>')
        if shown:
            blocks += [f"## {part.title}", *shown]
    return "\n\n".join(blocks)


def _cards(lesson: Lesson, page: Page, layout: Layout) -> Iterator[str]:
    data = {posixpath.basename(name): content for name, content in page.files.items()}
    for found in _FIGURE.finditer(page.markdown):
        target = f"../{layout.url(lesson.id)}#{found['id']}"
        drawn, title, caption = _shown(data[posixpath.basename(unescape(found["url"]))])
        yield f'<li><a href="{escape(target)}">{drawn}<strong>{title}</strong></a><p>{caption}</p></li>'


@lru_cache(maxsize=512)
def _shown(content: bytes) -> tuple[str, str, str]:
    """A figure's thumbnail, title and caption; kept, since an edit changes few figures of a course."""
    figure = json.loads(content)
    title, caption = (escape(figure[name], quote=False) for name in ("title", "caption"))
    return thumbnail(figure["kind"], figure["spec"]), title, caption
