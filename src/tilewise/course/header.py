"""The YAML header of a lesson: located, parsed and validated, each key with its line.

In: the lines of a file. Out: a ``Header`` and its number of lines, or a ``LessonError`` with the line, the
fault and a repair.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any

from tilewise.course.model import Header
from tilewise.errors import LessonError, nearest

_KEYS = ("title", "needs", "further", "summary", "description", "date", "tags")
_KEY = re.compile(r"[\"']?(\w+)[\"']?\s*:")
_NO_TITLE = ("\n", "<", ">", "`", "*", "[", "]", "{", "}", "$", "\\", "|")
_MODULE = "A module that lessons import has a name that begins with _."
_EXAMPLE = "Begin the file with # ---, # title: ..., # needs: [...], # summary: ..., # ---."


def parse_header(lines: Sequence[str], path: str) -> tuple[Header, int]:
    """Read the header at the top of a file.

    Args:
        lines: the file's lines.
        path: the file, for messages.

    Returns:
        The header and the number of lines up to and including its closing ``# ---``.

    Raises:
        LessonError: it is missing, not closed or not valid YAML, or a key or value is wrong.
    """
    if not lines or lines[0].rstrip() != "# ---":
        raise LessonError(path, 1, "the lesson has no header.", f"{_EXAMPLE} {_MODULE}")
    for end, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "# ---":
            break
        if not line.startswith("#"):
            raise LessonError(path, end + 1, "the header is not closed.", 'End it with a line "# ---".')
    else:
        raise LessonError(path, len(lines), "the header is not closed.", 'End it with a line "# ---".')
    text = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines[1:end])
    return _header(_mapping(text, path), path), end + 1


def _mapping(text: str, path: str) -> dict[str, tuple[Any, int]]:
    """Each key of a YAML mapping with its value and its line in the file."""
    import yaml

    lines: dict[str, int] = {}
    for line, written in enumerate(text.split("\n"), start=2):
        if key := _KEY.match(written):
            if key[1] in lines:
                raise LessonError(path, line, f'the header has "{key[1]}" twice.', "Keep one.")
            lines[key[1]] = line
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a malformed date or number
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or error
        repair = "Put text with a colon, a quote or a bracket in double quotes."
        line = mark.line + 2 if mark else 2
        raise LessonError(path, line, f"the header is no valid YAML: {problem}.", repair) from None
    if not isinstance(values, dict):
        raise LessonError(path, 2, "the header holds no keys.", _EXAMPLE)
    return {str(key): (value, lines.get(str(key), 2)) for key, value in values.items()}


def _header(entries_by_key: dict[str, tuple[Any, int]], path: str) -> Header:
    for key, (_, line) in entries_by_key.items():
        if key not in _KEYS:
            repair = nearest(key, _KEYS)
            raise LessonError(path, line, f'the header has an unknown key "{key}".', repair)
    values = {key: value for key, (value, _) in entries_by_key.items() if value is not None}
    lines = {key: line for key, (_, line) in entries_by_key.items()}

    def wrong(key: str, wanted: str, example: str) -> LessonError:
        got = values[key]
        return LessonError(
            path, lines[key], f'"{key}" must be {wanted}, and is {got!r}.', f"Write {key}: {example}."
        )

    for key in ("title", "further", "summary", "description"):
        if key in values and not isinstance(values[key], str):
            raise wrong(key, "a text", "kernels/grids" if key == "further" else '"..."')
    title = values.get("title", "").strip()
    if not title:
        raise LessonError(path, lines.get("title", 1), "the header has no title.", "Add title: ...")
    if sign := next((sign for sign in _NO_TITLE if sign in title), ""):
        what = "more than one line" if sign == "\n" else f"the sign {sign}"
        repair = "A title is plain text: word it without."
        raise LessonError(path, lines["title"], f"the title has {what}.", repair)
    for key in ("needs", "tags"):
        entries = values.get(key, [])
        if not (isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)):
            raise wrong(key, "a list of names", "[kernels/grids]" if key == "needs" else "[memory]")
    if len(set(values.get("needs", []))) < len(values.get("needs", [])):
        raise LessonError(path, lines["needs"], '"needs" names a lesson twice.', "Keep one.")
    date = values.get("date", "")
    if isinstance(date, datetime.date) and not isinstance(date, datetime.datetime):
        date = date.isoformat()
    if not isinstance(date, str):
        raise wrong("date", "a day", "2026-11-21")
    return Header(
        title=title,
        needs=tuple(values.get("needs", [])),
        further=values.get("further", "").strip(),
        summary=values.get("summary", "").strip(),
        description=values.get("description", "").strip(),
        date=date,
        tags=tuple(values.get("tags", [])),
        lines=lines,
    )
