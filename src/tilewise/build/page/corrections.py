"""Every note of the course on a common misconception, gathered for one page.

In: the course and its rendered pages, with numbers in place. Out: Markdown for a page at the site's root. A
note is a footnote or a paragraph that begins with one of `OPENINGS`; nothing is added to what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tilewise.build.page.gathered import blanked, from_root, headings, place
from tilewise.build.page.layout import source_path
from tilewise.course.lesson import Lesson
from tilewise.course.order import Course

OPENINGS = ("A common misconception", "Where the sources differ")
"""How such a note begins, linked, in italics or plain, before a colon."""
_OPENING = "|".join(OPENINGS)
_BEGINS = rf"\*?(?:\[(?:{_OPENING})\]\([^)\s]*\)|{_OPENING}):\*?\s+"
_FOOTNOTE = re.compile(
    rf"^\[\^([^\]]+)\]: .*?{_BEGINS}((?:.+(?:\n|$))(?:[ \t]+\S.*(?:\n|$)|\n(?=[ \t]+\S))*)", re.M
)
_PARAGRAPH = re.compile(rf"^(?:<[^>\n]*>)*{_BEGINS}((?:.+(?:\n|$))+)", re.M)


def corrections(course: Course, pages: Mapping[str, str]) -> str:
    """The notes of all published lessons, by lesson, in reading order.

    Args:
        course: the lessons.
        pages: the Markdown of their pages, by the lessons' source paths.
    """
    parts: list[str] = []
    for lesson in course.lessons:
        path = source_path(lesson.id)
        found = [] if path not in pages else list(_of(lesson, pages[path]))
        if not found:
            continue
        parts.append(f"## {course.number(lesson.id)}. {lesson.header.title}")
        parts += [f"- {text}\n\n    In {where}" for where, text in found]
    return "\n\n".join(parts)


def _of(lesson: Lesson, page: str) -> Iterator[tuple[str, str]]:
    """Where each note stands, as a link, and what it says."""
    text = blanked(page)
    above = headings(text)
    notes: list[tuple[int, str]] = [(found.start(), found[1]) for found in _PARAGRAPH.finditer(text)]
    for found in _FOOTNOTE.finditer(text):
        uses = [
            use.start()
            for use in re.finditer(re.escape(f"[^{found[1]}]"), text)
            if use.start() != found.start()
        ]
        notes.append((min(uses, default=found.start()), found[2]))
    for at, note in sorted(notes):
        moved = " ".join(from_root(note, lesson).split())
        yield place(lesson, above, at), moved[:1].upper() + moved[1:]
