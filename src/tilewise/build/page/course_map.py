"""The course map: every lesson once, in its part, with its Further pages below it.

In: a course and the parts of its navigation. Out: HTML for a page at the site's root: a list of parts, each
with a list of links. It has no drawing, so it fits a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewise.build.page.layout import lesson_url
from tilewise.course.order import Course, Part


def course_map(course: Course, parts: Sequence[Part]) -> str:
    """The map of a course, for a page at the site's root.

    Returns:
        One ``nav.tw-map`` without blank lines, with a ``section`` for each part; core lessons have their
        number, Further pages are in a list below their lesson.
    """
    blocks = [_part(course, part) for part in parts]
    return "\n".join(['<nav class="tw-map" aria-label="Lessons">', *filter(None, blocks), "</nav>"])


def _part(course: Course, part: Part) -> str:
    core = [name for name in part.lessons if name in course.core]
    if not core:
        return ""
    about = f"<p>{escape(part.about, quote=False)}</p>\n" if part.about else ""
    entries = "\n".join(_entry(course, name) for name in core)
    title = escape(part.title, quote=False)
    return f"<section>\n<h3>{title}</h3>\n{about}<ul>\n{entries}\n</ul>\n</section>"


def _entry(course: Course, name: str) -> str:
    number = f'<span class="tw-map-number">{course.number(name)}</span>'
    below = "".join(f"\n<li>{_link(course, further)}</li>" for further in course.further(name))
    inner = f'\n<ul class="tw-map-further" aria-label="Further">{below}\n</ul>\n' if below else ""
    return f"<li>{number} {_link(course, name)}{inner}</li>"


def _link(course: Course, name: str) -> str:
    title = escape(course.lesson(name).header.title, quote=False)
    return f'<a href="{escape(lesson_url(name))}">{title}</a>'
