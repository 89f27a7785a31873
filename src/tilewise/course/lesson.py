"""Lessons: from a file in jupytext's percent format to a header and cells. Executes nothing.

In: a file, or its text. Out: a frozen ``Lesson``, or a ``LessonError`` with a line of the file. The rules
for parsed lessons are in ``tilewise.course.rules``.
"""

from __future__ import annotations

import re
from pathlib import Path

from tilewise.course.header import parse_header
from tilewise.course.model import Cell, Header, Lesson
from tilewise.course.percent import parse_cells
from tilewise.errors import LessonError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

__all__ = ["Cell", "Header", "Lesson", "decode", "lesson_files", "parse", "read"]


def lesson_files(folder: Path) -> list[Path]:
    """The files of all lessons in a folder, ``<part>/<name>.py``; names with a leading ``_`` are modules."""
    return sorted(
        path
        for path in folder.glob("*/*.py")
        if not path.name.startswith((".", "_", "#")) and path.parent.name != "measurements"
    )


def parse(text: str, path: str, lesson_id: str) -> Lesson:
    """Parse a lesson.

    Raises:
        LessonError: the header, a cell's options or the code's syntax is wrong, or the file is empty.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        repair = "Write its header and a first cell, or take it out of the navigation."
        raise LessonError(path, 1, "the lesson is empty.", repair)
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise LessonError(path, line, "the line holds a NUL byte.", "Delete it.")
    lines = text.split("\n")
    header, skip = parse_header(lines, path)
    cells = parse_cells(lines, skip, path)
    if not cells:
        raise LessonError(
            path, skip, "the lesson has no cells.", 'Add one: a line "# %% [markdown]" and prose.'
        )
    return Lesson(id=lesson_id, path=path, header=header, cells=cells, text=text)


def decode(content: bytes, path: str) -> str:
    """The text of a lesson's file.

    Raises:
        LessonError: it is not UTF-8; names the line of the first wrong byte.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"byte 0x{content[error.start]:02x} is not UTF-8."
        raise LessonError(path, line, message, "Save the file as UTF-8.") from None


def read(file: Path, root: Path) -> Lesson:
    """Read and parse the lesson in a file below ``<root>/lessons``.

    Raises:
        LessonError: as ``decode`` and ``parse``; or a part of its path is not a Python name.
        OSError: the file cannot be read.
    """
    # The file's name counts, not a symbolic link's target.
    path = (file.parent.resolve() / file.name).relative_to(root.resolve()).as_posix()
    lesson_id = path.removeprefix("lessons/").removesuffix(".py")
    if wrong := next((name for name in lesson_id.split("/") if not _NAME.fullmatch(name)), None):
        message = f'"{wrong}" is not a name that Python can import.'
        raise LessonError(path, 1, message, "Name it with letters, digits and _, a letter first.")
    return parse(decode(file.read_bytes(), path), path, lesson_id)
