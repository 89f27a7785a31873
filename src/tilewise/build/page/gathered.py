"""What pages at the site's root take over from lessons: headings to lead back to, texts that hold there.

In: the Markdown of a lesson's page, with numbers in place. Out: its headings with their anchors, and
stretches of it with links from the root. Which stretches are taken, ``corrections``, ``questions`` and
``recap`` say.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewise.build.page.layout import lesson_url, source_path
from tilewise.build.page.markers import without_line_marks
from tilewise.course.lesson import Lesson
from tilewise.course.mask import mask, spans
from tilewise.course.order import Course, Part
from tilewise.measurements.slugs import heading_slug

_HEADING = re.compile(r"^#{2,6} +(.+?)(?:\s*\{[^}\n]*#(?P<anchor>[\w-]+)[^}\n]*\})?\s*$", re.M)
_TERM = re.compile(r"\[([^\]\n]+)\]\([^()\n]*\)\{ ?\.tw-term ?\}")
_MARK = re.compile(r"\[\^[^\]]+\]")
_LINK = re.compile(r"\]\(([^()\s]+)((?:\s+\"[^\"\n]*\")?)\)")
_BORN = re.compile(r'<a class="tw-number([^"]*)" href="#([^"]+)"[^>]*>')


@dataclass(frozen=True)
class Heading:
    """A heading of a lesson's page."""

    start: int
    """Where its line begins."""
    text: str
    """What it says, without emphasis and marks of notes."""
    anchor: str
    """Its id on the page."""


def blanked(page: str) -> str:
    """A page without its fenced code, as long as it was."""
    return mask(page, spans(page, ["fence"]))


def headings(page: str) -> list[Heading]:
    """The headings of a page below its title, in order; fenced code must be blank."""
    taken: dict[str, int] = {}
    found = []
    for match in _HEADING.finditer(page):
        text = re.sub(r"[*_]", "", _MARK.sub("", match[1])).strip()
        slug = heading_slug(text)
        again = taken.get(slug, 0)
        taken[slug] = again + 1
        anchor = match["anchor"] or (f"{slug}_{again}" if again else slug)
        found.append(Heading(match.start(), text, anchor))
    return found


def place(lesson: Lesson, page: Sequence[Heading], at: int) -> str:
    """A Markdown link to where a stretch of a lesson's page stands: the heading above it, or the lesson."""
    path = source_path(lesson.id)
    above = next((heading for heading in reversed(page) if heading.start < at), None)
    return f"[{above.text}]({path}#{above.anchor})" if above else f"[{lesson.header.title}]({path})"


def from_root(text: str, lesson: Lesson) -> str:
    """A stretch of a lesson's page, as it holds at the root: terms as words, no marks of notes, other links.

    Args:
        text: Markdown of the lesson's page.
        lesson: the lesson.
    """
    home = source_path(lesson.id)

    def link(found: re.Match[str]) -> str:
        target, title = found[1], found[2]
        if "://" in target or target.startswith("/"):
            return found[0]
        path, mark, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(home), path)) if path else home
        return f"]({full}{mark}{anchor}{title})"

    words = _MARK.sub("", _TERM.sub(r"\1", without_line_marks(text)))
    return _BORN.sub(rf'<a class="tw-number\1" href="../{lesson_url(lesson.id)}#\2">', _LINK.sub(link, words))


def published(
    course: Course, parts: Sequence[Part], among: Mapping[str, object]
) -> Iterator[tuple[Part, list[Lesson]]]:
    """Each part with those of its lessons that are published and have a page; parts without any left out."""
    for part in parts:
        lessons = [course.lesson(name) for name in part.lessons]
        shown = [one for one in lessons if source_path(one.id) in among]
        if shown:
            yield part, shown
