"""What pages at the site's root gather from all lessons: corrections, questions and takeaways.

In: the course and its rendered pages, with numbers in place. Out: Markdown in which links hold at the root,
and each note and question leads back to its heading. Nothing is added to what the lessons say.
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
"""How a correction begins, linked, in italics or plain, before a colon: a footnote or a paragraph."""
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
    """A heading of a lesson's page: where its line begins, its plain words and its id."""

    start: int
    text: str
    anchor: str


def _blanked(page: str) -> str:
    """A page without its fenced code, as long as it was."""
    return mask(page, spans(page, ["fence"]))


def _headings(page: str) -> list[_Heading]:
    """The headings of a page below its title, in order; fenced code must be blank."""
    taken: dict[str, int] = {}
    found = []
    for match in _HEADING.finditer(page):
        text = re.sub(r"[*_]", "", _MARK.sub("", match[1])).strip()
        slug = heading_slug(text)
        again = taken.get(slug, 0)
        taken[slug] = again + 1
        anchor = match["anchor"] or (f"{slug}_{again}" if again else slug)
        found.append(_Heading(match.start(), text, anchor))
    return found


def _place(lesson: Lesson, page: Sequence[_Heading], at: int) -> str:
    """A Markdown link to where a stretch of a lesson's page stands: the heading above it, or the lesson."""
    path = source_path(lesson.id)
    above = next((heading for heading in reversed(page) if heading.start < at), None)
    return f"[{above.text}]({path}#{above.anchor})" if above else f"[{lesson.header.title}]({path})"


def _from_root(text: str, lesson: Lesson) -> str:
    """A stretch of a lesson's page as it holds at the root: no links of terms, no marks of notes."""
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


def _lessons(course: Course, part: Part) -> list[Lesson]:
    return [course.by_id[name] for name in part.lessons if name in course.by_id]


def corrections(course: Course, pages: Mapping[str, Page]) -> str:
    """The notes of all lessons on misconceptions, by lesson, in reading order."""
    parts: list[str] = []
    for lesson in course.lessons:
        if notes := list(_notes(lesson, pages[source_path(lesson.id)].markdown)):
            parts.append(f"## {course.number(lesson.id)}. {lesson.header.title}")
            parts += [f"- {text}\n\n    In {where}" for where, text in notes]
    return "\n\n".join(parts)


def _notes(lesson: Lesson, page: str) -> Iterator[tuple[str, str]]:
    """Where each note stands, as a link, and what it says."""
    text = _blanked(page)
    above = _headings(text)
    notes: list[tuple[int, str]] = [(found.start(), found[1]) for found in _PARAGRAPH.finditer(text)]
    for found in _FOOTNOTE.finditer(text):
        uses = [
            use.start()
            for use in re.finditer(re.escape(f"[^{found[1]}]"), text)
            if use.start() != found.start()
        ]
        notes.append((min(uses, default=found.start()), found[2]))
    for at, note in sorted(notes):
        moved = " ".join(_from_root(note, lesson).split())
        yield _place(lesson, above, at), moved[:1].upper() + moved[1:]


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
    for found in _QUESTION.finditer(text):
        answer = textwrap.dedent(page[found.start("body") : found.end("body")]).strip()
        where = _place(lesson, above, found.start())
        block = f"### {found['asked']}\n\n{_from_root(answer, lesson)}"
        yield f'{block}\n\n<p class="tw-asked" markdown>In {where}.</p>'


def recap(course: Course, parts: Sequence[Part], pages: Mapping[str, Page]) -> str:
    """The takeaways of all lessons, by part and lesson, in reading order."""
    blocks: list[str] = []
    for part in parts:
        blocks.append(f"## {part.title}")
        for lesson in _lessons(course, part):
            path = source_path(lesson.id)
            if found := _LIST.search(pages[path].markdown):
                blocks.append(f"**[{lesson.header.title}]({path})**")
                blocks.append(_from_root(found["list"], lesson).strip())
    return "\n\n".join(blocks)
