"""Footnotes: each reference has exactly one text, and each text is referenced."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError, nearest


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    texts: dict[str, int] = {}
    for note in lesson.prose.note_texts:
        if note.text in texts:
            message = f"footnote [^{note.text}] has a second text; the first is on line {texts[note.text]}."
            yield LessonError(lesson.path, note.place.line, message, "Give one of them another name.")
        texts.setdefault(note.text, note.place.line)
        if definition := lesson.prose.definition_around(note.place):
            message = f'the text of footnote [^{note.text}] stands in the definition of "{definition.title}".'
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


FOOTNOTES = LessonRule(
    "footnotes",
    "A footnote has one text, at the margin of the same lesson, and is called.",
    "# %% [markdown]\n# Words.[^a]\n#\n# [^a]: More of them.\n",
    "# %% [markdown]\n# Words.[^a]\n#\n# [^b]: More of them.\n",
    _faults,
)
