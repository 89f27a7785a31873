"""Every note of the course that says where its sources differ, gathered for one page.

In: the course and its rendered pages, with numbers in place. Out: Markdown for a page at the site's root. A
note is a footnote or a paragraph that begins with `OPENING`; nothing is added to what it says.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from tilewise.course import Course
from tilewise.lesson import Lesson
from tilewise.page.layout import Layout
from tilewise.page.prose import FENCED

OPENING = "Where the sources differ"
"""How such a note begins, linked or not, before a colon."""
_BEGINS = rf"(?:\[{OPENING}\]\([^)\s]*\)|{OPENING}):\s+"
_FOOTNOTE = re.compile(
    rf"^\[\^([^\]]+)\]: .*?{_BEGINS}((?:.+(?:\n|$))(?:[ \t]+\S.*(?:\n|$)|\n(?=[ \t]+\S))*)", re.M
)
_PARAGRAPH = re.compile(rf"^(?:<[^>\n]*>)*{_BEGINS}((?:.+(?:\n|$))+)", re.M)
_HEADING = re.compile(r"^#{2,6} +(.+?)(?:\s*\{[^}\n]*#[\w-]+[^}\n]*\})?\s*$", re.M)
_TERM = re.compile(r"\[([^\]\n]+)\]\([^()\n]*\)\{ ?\.tw-term ?\}")
_MARK = re.compile(r"\[\^[^\]]+\]")
_LINK = re.compile(r"\]\(([^()\s]+)((?:\s+\"[^\"\n]*\")?)\)")
_BORN = re.compile(r'<a class="tw-number[^"]*" href="#([^"]+)"[^>]*>')


def corrections(course: Course, pages: Mapping[str, str], layout: Layout) -> str:
    """The notes of all published lessons, by lesson, in reading order.

    Args:
        course: the lessons.
        pages: the Markdown of their pages, by the lessons' source paths.
        layout: where things are.
    """
    parts: list[str] = []
    for lesson in course.lessons:
        path = layout.source_path(lesson.id)
        found = [] if lesson.header.draft or path not in pages else list(_of(lesson, pages[path], layout))
        if not found:
            continue
        parts.append(f"## {course.number(lesson.id)}. {lesson.header.title}")
        parts += [f"- {text}\n\n    In [{heading or lesson.header.title}]({path})" for heading, text in found]
    return "\n\n".join(parts)


def _of(lesson: Lesson, page: str, layout: Layout) -> Iterator[tuple[str, str]]:
    """The heading that each note stands below, empty above the first, and what the note says."""
    text = FENCED.sub(lambda found: re.sub(r"\S", " ", found[0]), page)
    headings = [(found.start(), found[1]) for found in _HEADING.finditer(text)]
    notes: list[tuple[int, str]] = [(found.start(), found[1]) for found in _PARAGRAPH.finditer(text)]
    for found in _FOOTNOTE.finditer(text):
        uses = [
            use.start()
            for use in re.finditer(re.escape(f"[^{found[1]}]"), text)
            if use.start() != found.start()
        ]
        notes.append((min(uses, default=found.start()), found[2]))
    for at, note in sorted(notes):
        heading = next((name for start, name in reversed(headings) if start < at), "")
        yield _plain(heading), _moved(note, lesson, layout)


def _plain(heading: str) -> str:
    return re.sub(r"[*_]", "", _MARK.sub("", heading)).strip()


def _moved(note: str, lesson: Lesson, layout: Layout) -> str:
    """A note for a page at the root: terms as words, no marks of footnotes, links from there."""
    words = " ".join(_MARK.sub("", _TERM.sub(r"\1", note)).split())
    home = layout.source_path(lesson.id)

    def link(found: re.Match[str]) -> str:
        target, title = found[1], found[2]
        if "://" in target or target.startswith("/"):
            return found[0]
        path, mark, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(home), path)) if path else home
        return f"]({full}{mark}{anchor}{title})"

    moved = _BORN.sub(rf'<a class="tw-number" href="../{layout.url(lesson.id)}#\1">', _LINK.sub(link, words))
    return moved[:1].upper() + moved[1:]
