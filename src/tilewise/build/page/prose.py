"""Prose cells: links terms, fills in numbers, rewrites links between lessons, gives definitions anchors.

In: a lesson's prose as written and its facts. Out: Markdown for each prose cell. Every change edits a range
of the source that ``tilewise.course.prose`` reports; code, fences and formulas are never touched.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from tilewise.build.numbers import COMPUTED, Quoted, quote
from tilewise.build.page.layout import page_link, source_link
from tilewise.build.page.markers import line_mark
from tilewise.course.lesson import Cell, Lesson
from tilewise.course.mask import spans
from tilewise.course.order import Course
from tilewise.course.prose import ESCAPED, Definition, Mention
from tilewise.course.terms import Term, Use
from tilewise.course.typed_numbers import sourced
from tilewise.errors import LessonError, raise_all
from tilewise.measurements.provenance_links import provenance_link

Edit = tuple[int, int, str]
COMPARED = ("times_first", "share_of_library")
"""Values of a variant that also depend on another variant's time."""
_MARKDOWN = re.compile(r"[\\`*_\[\]{}$!|^~]")
_NO_BLOCK = ("[^", "*[", ":", "</", "///")
"""Starts of lines that continue a block or produce no block in place."""
_ITEM = re.compile(r"(?:[-*+]|\d+[.)])\s")
_SENTENCE_END = re.compile(r"""[.!?][)*"']*(?=\s)|\n\n|\n(?=[-*+] )""")
_GPU = re.compile(r"\b[ABHV][1-9]00\b|\b[TL]4\b|\bRTX \d")
"""The name of a GPU."""
_TITLE_LINE = re.compile(r'(?P<head>\s*\?\?\?\+?\s+definition\s*)"[^"]*"')


def prose_cells(
    lesson: Lesson,
    course: Course,
    numbers: Mapping[Mention, Quoted],
    stale: Collection[str],
    others: Mapping[str, Mapping[Mention, Quoted]],
) -> dict[int, str]:
    """The Markdown of each prose cell, by its index.

    Args:
        lesson: the lesson.
        course: the course.
        numbers: the quoted numbers, by place.
        stale: experiments whose numbers are marked.
        others: by further machine, the numbers quoted from that machine's records.
    """
    edits: dict[int, list[Edit]] = {index: [] for index, _ in lesson.prose.masked}
    for use in course.uses(lesson.id):
        edits[use.cell].append(_term_link(use, lesson))
    for definition in lesson.prose.definitions:
        edits[definition.place.cell].append(_anchor(definition, lesson))
    for link in (*lesson.prose.links, *lesson.prose.images):
        source = lesson.cells[link.place.cell].source
        written = source[link.place.start : link.place.end]
        moved = _rewritten_link(written, link.text, posixpath.dirname(lesson.path), lesson.id)
        if moved != written:
            edits[link.place.cell].append((link.place.start, link.place.end, moved))
    for mention, quoted in numbers.items():
        by_machine = {name: values[mention] for name, values in others.items() if mention in values}
        if named := _gpus_beside(mention, lesson):
            text = _number(_of_the_named(named, by_machine) or quoted, stale, {})
        else:
            text = _number(quoted, stale, by_machine)
        edits[mention.place.cell].append((mention.place.start, mention.place.end, text))
    for index, masked in lesson.prose.masked:
        edits[index] += [(match.start(), match.end(), "") for match in ESCAPED.finditer(masked)]
        edits[index] += sourced(lesson.cells[index].source)
        edits[index] += _line_marks(lesson.cells[index])
    return {index: edited(lesson.cells[index].source, changes) for index, changes in edits.items()}


def quoted_numbers(
    lesson: Lesson,
    published: Mapping[str, Any],
    records: Mapping[str, Mapping[str, Any]],
    pending: bool = False,
) -> dict[Mention, Quoted]:
    """The quoted numbers, by place; with pending cells, an unknown value gets a placeholder.

    Raises:
        LessonError: one or more numbers are unknown or cannot be formatted.
    """
    errors: list[LessonError] = []
    numbers: dict[Mention, Quoted] = {}
    for mention in lesson.prose.numbers:
        try:
            numbers[mention] = quote(mention, lesson, published, records)
        except LessonError as error:
            if pending:
                numbers[mention] = Quoted("…", mention.text, "not computed yet")
            else:
                errors.append(error)
    raise_all(errors)
    return numbers


def edited(source: str, edits: Sequence[Edit]) -> str:
    """Apply edits to a text; an edit inside another edit's range is dropped."""
    parts: list[str] = []
    done = 0
    for start, end, text in sorted(edits):
        if start < done:
            continue
        parts += (source[done:start], text)
        done = end
    return "".join([*parts, source[done:]])


def tooltip(term: Term) -> str:
    """The first sentence of a term's definition, escaped for a Markdown link's title."""
    plain = term.first_sentence.replace("$", "").replace("{,}", ",").replace('"', "”").replace("\\", "")
    return escape(plain, quote=False).replace("|", "¦")


def _term_link(use: Use, lesson: Lesson) -> Edit:
    word = lesson.cells[use.cell].source[use.start : use.end]
    target = f"{source_link(lesson.id, use.term.lesson_id)}#{use.term.anchor}"
    return (use.start, use.end, f'[{word}]({target} "{tooltip(use.term)}"){{ .tw-term }}')


def _line_marks(cell: Cell) -> list[Edit]:
    """A line mark before each unindented block."""
    marks: list[Edit] = []
    fences = list(spans(cell.source, ["fence"]))
    at, after_blank, in_list = 0, True, False
    for number, line in enumerate(cell.source.split("\n"), start=cell.source_line):
        is_item = _ITEM.match(line) is not None
        is_inside = any(fence.start < at < fence.end for fence in fences)
        if after_blank and line.strip() and not line.startswith((" ", "\t")) and not is_inside:
            if not (line.startswith(_NO_BLOCK) or (is_item and in_list)):
                marks.append((at, at, line_mark(number)))
            in_list = is_item
        after_blank = not line.strip()
        at += len(line) + 1
    return marks


def _anchor(definition: Definition, lesson: Lesson) -> Edit:
    source = lesson.cells[definition.place.cell].source
    end = source.find("\n", definition.place.start)
    line = source[definition.place.start : end if end >= 0 else len(source)]
    match = _TITLE_LINE.match(line)
    assert match is not None
    title = f'{match["head"]}"*{definition.title}*{{ #{definition.anchor} .tw-term-title }}"'
    return (definition.place.start, definition.place.start + match.end(), title)


def _rewritten_link(written: str, target: str, folder: str, lesson_id: str) -> str:
    """Rewrite a Markdown link from paths on disk to paths on the site.

    Args:
        written: the whole link.
        target: its target.
        folder: the folder of its file, e.g. ``lessons/kernels``.
        lesson_id: the lesson whose page it will be on.
    """
    path, mark, fragment = target.partition("#")
    if "://" in path or not path or path.startswith("/"):
        return written
    full = posixpath.normpath(posixpath.join(folder, path))
    if full.startswith("lessons/") and full.endswith(".py"):
        target_id = full.removeprefix("lessons/").removesuffix(".py")
        moved = source_link(lesson_id, target_id)
    elif full.startswith("docs/"):
        moved = page_link(lesson_id, full.removeprefix("docs/"))
    else:
        return written
    new = f"{moved}{mark}{fragment}" or "#"
    at = written.rfind(target)
    return f"{written[:at]}{new}{written[at + len(target) :]}"


def literal(text: str) -> str:
    """Escape text so that Markdown shows it unchanged."""
    return _MARKDOWN.sub(lambda match: f"&#{ord(match[0])};", escape(" ".join(text.split()), quote=False))


def _gpus_beside(mention: Mention, lesson: Lesson) -> set[str]:
    """The GPUs named in a number's sentence, or else in the nearest sentence before it in its paragraph."""
    source = lesson.cells[mention.place.cell].source
    begin = source.rfind("\n\n", 0, mention.place.start) + 1
    sentence_end = _SENTENCE_END.search(source, mention.place.end)
    text = source[begin : sentence_end.start() if sentence_end else len(source)]
    every = (set(_GPU.findall(sentence)) for sentence in reversed(_SENTENCE_END.split(text)))
    return next(filter(None, every), set())


def _of_the_named(gpus: Collection[str], by_machine: Mapping[str, Quoted]) -> Quoted | None:
    """The number of the further machine with one of these GPUs; None unless there is exactly one."""
    matches = [value for name, value in by_machine.items() if any(gpu.lower() in name for gpu in gpus)]
    return matches[0] if len(gpus) == len(matches) == 1 else None


def _is_stale(names: Sequence[str], stale: Collection[str]) -> bool:
    """Whether a number's experiment or variant is stale, or it is relative to a stale variant."""
    if names[0] in stale or ".".join(names[:2]) in stale:
        return True
    return names[-1] in COMPARED and any(name.split(".")[0] == names[0] for name in stale)


def _number(quoted: Quoted, stale: Collection[str], by_machine: Mapping[str, Quoted]) -> str:
    is_stale = _is_stale(quoted.path.split("."), stale)
    mark = " tw-stale" if is_stale else ""
    shown = {
        machine: {"text": value.text}
        | ({"origin": value.origin, "spread": value.spread} if value.origin else {})
        for machine, value in by_machine.items()
        if (value.text, value.origin) != (quoted.text, quoted.origin)
    }
    data = f' data-on="{escape(json.dumps(shown, ensure_ascii=False))}"' if shown else ""
    if quoted.origin:
        return provenance_link(literal(quoted.text), quoted.origin, quoted.spread, mark.strip(), data)
    source = f"{quoted.source}; no longer current" if is_stale else quoted.source
    kind = "title" if quoted.source == COMPUTED else "data-source"
    return f'<span class="tw-number{mark}" {kind}="{escape(source)}"{data}>{literal(quoted.text)}</span>'
