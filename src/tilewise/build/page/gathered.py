"""Pages at the site's root that gather the lessons' corrections, questions and takeaways.

In: the course and its rendered pages, with numbers filled in. Out: Markdown with links relative to the root,
in which each note and question links back to its heading. Nothing is added to the lessons' text.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewise.build.page import Page
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

_OPENING = "A common misconception|Where the sources differ"
"""The opening of a correction, a footnote or a paragraph: a link, italics or plain text before a colon."""
_BEGINS = rf"\*?(?:\[(?:{_OPENING})\]\([^)\s]*\)|{_OPENING}):\*?\s+"
_FOOTNOTE = re.compile(
    rf"^\[\^([^\]]+)\]: .*?{_BEGINS}((?:.+(?:\n|$))(?:[ \t]+\S.*(?:\n|$)|\n(?=[ \t]+\S))*)", re.M
)
_PARAGRAPH = re.compile(rf"^(?:<[^>\n]*>)*{_BEGINS}((?:.+(?:\n|$))+)", re.M)
_QUESTION = re.compile(
    r'^\?\?\?\+?[ ]+question[ ]+"(?P<asked>[^"\n]+)"[ ]*\n(?P<body>(?:[ ]{4}.*(?:\n|$)|[ \t]*\n(?=[ ]{4}))+)',
    re.M,
)
_LIST = re.compile(r"^## Takeaways\n+(?:<!--[^\n]*-->\n+)?(?P<list>- (?:.+\n|\n(?=- |[ ]{2,}))+)", re.M)


@dataclass(frozen=True)
class _Heading:
    """A heading of a lesson's page: the offset of its line, its plain text and its id."""

    start: int
    text: str
    anchor: str


def _blanked(page: str) -> str:
    """A page with fenced code blanked; its length stays the same."""
    return mask(page, spans(page, ["fence"]))


def _headings(page: str) -> list[_Heading]:
    """The headings of a page below its title, in order; fenced code must be blanked."""
    taken: dict[str, int] = {}
    headings = []
    for match in _HEADING.finditer(page):
        text = re.sub(r"[*_]", "", _MARK.sub("", match[1])).strip()
        slug = heading_slug(text)
        again = taken.get(slug, 0)
        taken[slug] = again + 1
        anchor = match["anchor"] or (f"{slug}_{again}" if again else slug)
        headings.append(_Heading(match.start(), text, anchor))
    return headings


def _place(lesson: Lesson, page: Sequence[_Heading], at: int) -> str:
    """A Markdown link to the heading above an offset in a lesson's page, or to the lesson."""
    path = source_path(lesson.id)
    above = next((heading for heading in reversed(page) if heading.start < at), None)
    return f"[{above.text}]({path}#{above.anchor})" if above else f"[{lesson.header.title}]({path})"


def _from_root(text: str, lesson: Lesson) -> str:
    """A part of a lesson's page adapted to the root: without term links and footnote marks."""
    home = source_path(lesson.id)

    def link(match: re.Match[str]) -> str:
        target, title = match[1], match[2]
        if "://" in target or target.startswith("/"):
            return match[0]
        path, mark, anchor = target.partition("#")
        full = posixpath.normpath(posixpath.join(posixpath.dirname(home), path)) if path else home
        return f"]({full}{mark}{anchor}{title})"

    words = _MARK.sub("", _TERM.sub(r"\1", without_line_marks(text)))
    return _BORN.sub(rf'<a class="tw-number\1" href="../{lesson_url(lesson.id)}#\2">', _LINK.sub(link, words))


def _lessons(course: Course, part: Part) -> list[Lesson]:
    return [course.by_id[name] for name in part.lessons if name in course.by_id]


def corrections(course: Course, pages: Mapping[str, Page]) -> str:
    """The notes on misconceptions in all lessons, by lesson, in reading order."""
    parts: list[str] = []
    for lesson in course.lessons:
        if notes := list(_notes(lesson, pages[source_path(lesson.id)].markdown)):
            parts.append(f"## {course.number(lesson.id)}. {lesson.header.title}")
            parts += [f"- {text}\n\n    In {where}" for where, text in notes]
    return "\n\n".join(parts)


def _notes(lesson: Lesson, page: str) -> Iterator[tuple[str, str]]:
    """A link to each note's place, and its text."""
    text = _blanked(page)
    above = _headings(text)
    notes: list[tuple[int, str]] = [(match.start(), match[1]) for match in _PARAGRAPH.finditer(text)]
    for match in _FOOTNOTE.finditer(text):
        uses = [
            use.start()
            for use in re.finditer(re.escape(f"[^{match[1]}]"), text)
            if use.start() != match.start()
        ]
        notes.append((min(uses, default=match.start()), match[2]))
    for at, note in sorted(notes):
        words = " ".join(_from_root(note, lesson).split())
        yield _place(lesson, above, at), words[:1].upper() + words[1:]


def questions(course: Course, parts: Sequence[Part], pages: Mapping[str, Page]) -> str:
    """The questions of all lessons with their answers, by part, in reading order."""
    blocks: list[str] = []
    for part in parts:
        asked = [
            question
            for lesson in _lessons(course, part)
            for question in _questions(lesson, pages[source_path(lesson.id)].markdown)
        ]
        if asked:
            blocks += [f"## {part.title}", *asked]
    return "\n\n".join(blocks)


def _questions(lesson: Lesson, page: str) -> Iterator[str]:
    text = _blanked(page)
    above = _headings(text)
    for match in _QUESTION.finditer(text):
        answer = textwrap.dedent(page[match.start("body") : match.end("body")]).strip()
        where = _place(lesson, above, match.start())
        block = f"### {match['asked']}\n\n{_from_root(answer, lesson)}"
        yield f'{block}\n\n<p class="tw-asked" markdown>In {where}.</p>'


def recap(course: Course, parts: Sequence[Part], pages: Mapping[str, Page]) -> str:
    """The takeaways of all lessons, by part and lesson, in reading order."""
    blocks: list[str] = []
    for part in parts:
        blocks.append(f"## {part.title}")
        for lesson in _lessons(course, part):
            path = source_path(lesson.id)
            if match := _LIST.search(pages[path].markdown):
                blocks.append(f"**[{lesson.header.title}]({path})**")
                blocks.append(_from_root(match["list"], lesson).strip())
    return "\n\n".join(blocks)
