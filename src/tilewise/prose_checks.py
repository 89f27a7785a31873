"""What one lesson's prose must hold by itself: footnotes, definitions, headings and images.

In: the facts of ``tilewise.lesson.prose``. Out: an error for each fault, with its line. What holds between
lessons is checked by ``tilewise.course``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from tilewise.errors import LessonError, nearest
from tilewise.lesson import Lesson


def prose_faults(lesson: Lesson) -> Iterator[LessonError]:
    """Every fault of a lesson's prose that can be seen without the other lessons."""
    yield from _notes(lesson)
    yield from _quoted_definitions(lesson)
    yield from _titles_in_prose(lesson)
    yield from _images(lesson)


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
