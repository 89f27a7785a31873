"""The takeaways of every lesson, gathered for one page: what each part has shown.

In: the course, its parts and its rendered pages, with numbers in place. Out: Markdown for a page at the
site's root. Takeaways are the list below a lesson's heading of that name; nothing is added to what they say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilewise.build.page.gathered import from_root, published
from tilewise.build.page.layout import source_path
from tilewise.course.order import Course, Part

HEADING = "Takeaways"
_LIST = re.compile(rf"^## {HEADING}\n+(?:<!--[^\n]*-->\n+)?(?P<list>- (?:.+\n|\n(?=- |[ ]{{2,}}))+)", re.M)


def recap(course: Course, parts: Sequence[Part], pages: Mapping[str, str]) -> str:
    """The takeaways of all published lessons, by part and lesson, in reading order.

    Args:
        course: the lessons.
        parts: the sections of the navigation.
        pages: the Markdown of the lessons' pages, by their source paths.
    """
    blocks: list[str] = []
    for part, lessons in published(course, parts, pages):
        blocks.append(f"## {part.title}")
        for lesson in lessons:
            path = source_path(lesson.id)
            if found := _LIST.search(pages[path]):
                blocks.append(f"**[{lesson.header.title}]({path})**")
                blocks.append(from_root(found["list"], lesson).strip())
    return "\n\n".join(blocks)
