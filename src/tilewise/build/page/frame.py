"""The frame of a lesson's cells: the head with its question, the terms at its end; also the glossary.

In: a course. Out: Markdown with a little HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape

from tilewise.build.installation import Package
from tilewise.build.page.layout import GLOSSARY, href, page_link, source_link, source_path
from tilewise.build.page.reading_time import reading_time
from tilewise.build.run.runner import LessonRun
from tilewise.course.lesson import Lesson
from tilewise.course.order import Course
from tilewise.course.prose import without_escapes
from tilewise.course.terms import Term
from tilewise.cuda.capability import HOSTED, named, needed
from tilewise.cuda.headers import with_headers
from tilewise.outputs import Output
from tilewise.outputs.kinds import folded

_NOTE = re.compile(r"\[\^[^\]]*\]")
FURTHER = "further"
"""The status of a Further page, as Material's navigation marks it."""


def front_matter(lesson: Lesson) -> str:
    """The page's YAML header: title, description, and tags if there are any."""
    header = lesson.header
    values: dict[str, object] = {"title": header.title}
    if description := header.description or header.summary:
        values["description"] = escape(" ".join(description.split()))  # templates do not escape it
    if header.further:
        values["status"] = FURTHER
    if header.tags:
        values["tags"] = list(header.tags)
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(["---", *lines, "---"])


def hardware(run: LessonRun) -> str:
    """A sentence on the GPU that a lesson's notebook needs; empty if it launches no kernel."""
    kernels = [kernel for by_name in run.kernels.values() for kernel in by_name.values()]
    if not kernels:
        return ""
    most = max(needed(with_headers(kernel.source), kernel.options) for kernel in kernels)
    if most <= HOSTED:
        return "The notebook runs on a hosted T4, and without a GPU on the simulator."
    demanding = {each.name for each in kernels if needed(with_headers(each.source), each.options) > HOSTED}
    own = ", ".join(sorted(demanding))
    return (
        f"On a GPU the notebook needs {named(most)} for {own}: more than a hosted T4 has. "
        "Without a GPU it runs on the simulator."
    )


def head(
    lesson: Lesson,
    course: Course,
    runs_on: str = "",
    outputs: Iterable[Output] = (),
    package: Package | None = None,
) -> str:
    """Title, question, prerequisites, following lessons, reading time, how to run it, downloads.

    Args:
        lesson: the lesson.
        course: the course.
        runs_on: a sentence on the GPU that its notebook needs, shown if a link opens it on a hosted GPU.
        outputs: the outputs of its cells, for the time of its exercises.
        package: where its notebook comes from.
    """
    name = lesson.id.rsplit("/", 1)[-1]
    if home := lesson.header.further:
        link = f'<a href="{escape(href(lesson.id, home))}">lesson {course.number(home)}</a>'
        place = f"Further reading for {link}"
    else:
        place = f"Lesson {course.number(lesson.id)} of {len(course.core)}"
    facts = [place, reading_time(lesson, outputs).text]
    for word, ids in (
        ("Prerequisites", course.needs(lesson.id)),
        ("Leads to", [unlocked for unlocked in course.unlocks(lesson.id) if unlocked in course.core]),
    ):
        links = ", ".join(
            f'<a href="{escape(href(lesson.id, linked))}">'
            f"{escape(course.lesson(linked).header.title, quote=False)}</a>"
            for linked in ids
        )
        if links or word == "Prerequisites":
            facts.append(f"{word}: {links or 'none'}")
    lines = ['<div class="tw-lesson">']
    if lesson.header.summary:
        lines.append(f'<p class="tw-question">{escape(lesson.header.summary, quote=False)}</p>')
    spans = ' <span class="tw-dot" aria-hidden="true">·</span> '.join(
        f"<span>{fact}</span>" for fact in facts
    )
    lines.append(f'<p class="tw-meta">{spans}</p>')
    downloads = " or ".join(
        f'<a href="{name}{suffix}" download>{name}{suffix}</a>' for suffix in (".py", ".ipynb")
    )
    colab = package.colab(lesson.id) if package else ""
    hosted = f', or <a href="{escape(colab)}">open it in Colab</a>' if colab else ""
    needs = f' <span class="tw-hosted">{escape(runs_on, quote=False)}</span>' if runs_on and colab else ""
    lines.append(
        f'<p class="tw-downloads">Run it: <code>python {escape(lesson.path)}</code>. '
        f"Download {downloads}{hosted}.{needs}</p>"
    )
    return "\n".join([f"# {lesson.header.title}", "", *lines, "</div>"])


def further(lesson: Lesson, course: Course) -> str:
    """The line at a lesson's end with links to its Further pages, or back from one; may be empty."""

    def link(name: str) -> str:
        return f"[{course.lesson(name).header.title}]({source_link(lesson.id, name)})"

    if home := lesson.header.further:
        return f"Back to lesson {course.number(home)}: {link(home)}\n{{: .tw-further }}"
    pages = ", ".join(link(name) for name in course.further(lesson.id))
    return f"Further: {pages}\n{{: .tw-further }}" if pages else ""


def terms(lesson: Lesson, course: Course) -> str:
    """A fold with the terms that a lesson adds; empty if there are none."""
    added = course.terms.of_lesson(lesson.id)
    if not added:
        return ""
    entries = [
        f"- [{term.title}](#{term.anchor}){{ .tw-term-entry }}: {term.first_sentence_markdown}"
        for term in added
    ]
    many = "One term" if len(added) == 1 else f"{len(added)} terms"
    entries.append(f"\nAll terms of the course: [glossary]({page_link(lesson.id, GLOSSARY)}).")
    new = folded(f"{many} new in this lesson", "terms", "\n".join(entries))
    return f"## Terms {{ #terms .tw-terms }}\n\n{new}"


def glossary(course: Course) -> str:
    """The glossary page: every term by letter, with its definition, its lesson and the lessons using it."""
    entries = course.terms.terms
    users: dict[Term, list[str]] = {term: [] for term in entries}
    for lesson in course.lessons:
        for use in course.uses(lesson.id):
            if use.term.lesson_id != lesson.id:
                users[use.term].append(lesson.id)
    parts = [
        "# Glossary",
        f"{len(entries)} terms, each defined in the lesson that first needs it.",
    ]
    letter = ""
    for term in sorted(entries, key=lambda term: term.title.casefold()):
        initial = term.title[0].upper()
        if initial != letter:
            letter = initial
            parts.append(f"## {letter}")
        parts.append(_entry(term, course, users[term]))
    return "\n\n".join(parts) + "\n"


def _entry(term: Term, course: Course, users: Sequence[str]) -> str:
    lesson = course.lesson(term.lesson_id)
    aliases = [name for name in term.definition.aliases if not _is_inflected(name, term.title)]
    also = f" (also {', '.join(aliases)})" if aliases else ""
    home = f"[{lesson.header.title}]({source_path(lesson.id)}#{term.anchor})"
    used = ", ".join(f"[{course.lesson(name).header.title}]({source_path(name)})" for name in users)
    places = f"From {home}." + (f" Used in {used}." if used else "")
    return "\n\n".join(
        [
            f'<div class="tw-glossary-entry" id="{term.anchor}" markdown>',
            f"**{term.title}**{also}",
            _NOTE.sub("", without_escapes(term.definition.body)),
            f"<small>{places}</small>",
            "</div>",
        ]
    )


def _is_inflected(name: str, title: str) -> bool:
    """Whether a name is only an inflection of the title, such as its plural."""
    return name.casefold().startswith(title.casefold().rstrip("y")) and " " not in name[len(title) :]
