"""What one lesson must hold by itself: notes, definitions, headings, images, typed numbers, shown figures.

In: the facts of ``tilewise.lesson.prose``. Out: an error for each fault, with its line. What holds between
lessons is checked by ``tilewise.course``.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from functools import lru_cache

from tilewise.errors import LessonError, nearest
from tilewise.lesson import Lesson
from tilewise.typed_numbers import faults


def prose_faults(lesson: Lesson) -> Iterator[LessonError]:
    """Every fault of a lesson's prose that can be seen without the other lessons."""
    yield from _notes(lesson)
    yield from _quoted_definitions(lesson)
    yield from _titles_in_prose(lesson)
    yield from _images(lesson)
    yield from _typed(lesson)
    yield from _unshown(lesson)


def page_faults(path: str, text: str) -> Iterator[LessonError]:
    """The numbers about performance that a page of docs/ types by hand, each with its line.

    Args:
        path: the page's file, for messages.
        text: the whole file.
    """
    for at, message, repair in faults(text):
        yield LessonError(path, text.count("\n", 0, at) + 1, message, repair)


def _typed(lesson: Lesson) -> Iterator[LessonError]:
    """Numbers about performance typed by hand: in the header, in prose, and in words that code shows."""
    header = lesson.header
    for key in ("title", "summary", "description"):
        for _, message, repair in faults(getattr(header, key)):
            yield LessonError(lesson.path, header.lines.get(key, 1), message, repair)
    for cell in lesson.cells:
        if cell.kind == "markdown":
            for at, message, repair in faults(cell.source):
                line = cell.source_line + cell.source.count("\n", 0, at)
                yield LessonError(lesson.path, line, message, repair)
        else:
            for line, text in _shown_texts(cell.source):
                for at, message, repair in faults(text):
                    below = text.count("\n", 0, at)
                    yield LessonError(lesson.path, cell.source_line + line - 1 + below, message, repair)


def _unshown(lesson: Lesson) -> Iterator[LessonError]:
    """Figures and tables that a cell makes and drops; the last value of a cell is shown by itself."""
    cells = [(cell, ast.parse(cell.source).body) for cell in lesson.cells if cell.kind != "markdown"]
    made = {"Table"} | {
        name.asname or name.name
        for _, body in cells
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module == "tilewise.figures"
        for name in node.names
    }
    for cell, body in cells:
        for node in body[:-1]:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in made:
                name, line = call.func.id, cell.source_line + node.lineno - 1
                message = f"{name}(...) is made here and shown nowhere."
                yield LessonError(lesson.path, line, message, f"Write show({name}(...)).")


_SHOWN = ("alt", "because", "caption", "explanation", "fold", "hint", "note", "title")
"""Arguments whose words stand on the page."""


@lru_cache(maxsize=4096)
def _shown_texts(source: str) -> tuple[tuple[int, str], ...]:
    """The words of a code cell that stand on the page, with the line in the cell that each begins on."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        shown = [word.value for word in call.keywords if word.arg in _SHOWN]
        if isinstance(call.func, ast.Name) and call.func.id in ("exercise", "Guess"):
            shown += call.args[:2]
        for value in shown:
            found += [
                (part.lineno, part.value)
                for part in ast.walk(value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
    return tuple(found)


def _notes(lesson: Lesson) -> Iterator[LessonError]:
    texts: dict[str, int] = {}
    for note in lesson.prose.note_texts:
        if note.text in texts:
            message = f"footnote [^{note.text}] has a second text; the first is on line {texts[note.text]}."
            yield LessonError(lesson.path, note.place.line, message, "Give one of them another name.")
        texts.setdefault(note.text, note.place.line)
        for definition in lesson.prose.definitions:
            place = definition.place
            if place.cell == note.place.cell and place.start <= note.place.start < place.end:
                message = (
                    f'the text of footnote [^{note.text}] stands in the definition of "{definition.title}".'
                )
                repair = "Move it below the definition, to the margin; the mark may stay."
                yield LessonError(lesson.path, note.place.line, message, repair)
    called = {note.text for note in lesson.prose.notes}
    for note in lesson.prose.notes:
        if note.text not in texts:
            repair = nearest(note.text, texts) if texts else ""
            message = f"footnote [^{note.text}] has no text."
            written = f"Write [^{note.text}]: ... on a line of its own."
            yield LessonError(lesson.path, note.place.line, message, f"{written} {repair}")
    for label, line in texts.items():
        if label not in called:
            message = f"footnote [^{label}] is never called."
            yield LessonError(lesson.path, line, message, f"Set [^{label}] where it belongs, or delete it.")


def _quoted_definitions(lesson: Lesson) -> Iterator[LessonError]:
    for number in lesson.prose.numbers:
        for definition in lesson.prose.definitions:
            place = definition.place
            if place.cell == number.place.cell and place.start <= number.place.start < place.end:
                message = f'the definition of "{definition.title}" quotes a measured number.'
                repair = "Define without it, and quote the number in the text."
                yield LessonError(lesson.path, number.place.line, message, repair)


def _titles_in_prose(lesson: Lesson) -> Iterator[LessonError]:
    for heading in lesson.prose.headings:
        source = lesson.cells[heading.place.cell].source
        if source.startswith("# ", heading.place.start):
            message = f'the heading "{heading.text}" has the level of the lesson\'s title.'
            yield LessonError(lesson.path, heading.place.line, message, f"Write ## {heading.text}.")


def _images(lesson: Lesson) -> Iterator[LessonError]:
    folder = posixpath.dirname(lesson.path)
    for image in lesson.prose.images:
        at = image.place.line
        if "://" in image.text or image.text.startswith("//"):
            message = f"the image ({image.text}) is fetched from another site."
            yield LessonError(lesson.path, at, message, "Put a copy in docs/assets and name it.")
        elif not posixpath.normpath(posixpath.join(folder, image.text)).startswith("docs/"):
            message = f"the image ({image.text}) lies outside docs/, so the site has no copy."
            repair = "Put it in docs/assets and write its path from here, ../../docs/assets/..."
            yield LessonError(lesson.path, at, message, repair)
