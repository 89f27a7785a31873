"""The JSON files that records are kept in: checked when they are read, and written whole or not at all.

In: a path, and a function that makes a record of what the file holds. Out: that record, or one error that
names the file and the repair; and back, one row per line, so that a diff shows which rows changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tilewise.errors import LessonError
from tilewise.measurements.record import checksum, write_text_whole

RENEW = "Run make records."
"""The repair of a record that needs no GPU."""
_PROJECT = Path(__file__).parents[3]

Record = TypeVar("Record")
Form = tuple[str, int]
"""What kind of record it is, and the version of its schema."""


def load(path: Path, form: Form, parse: Callable[[dict[str, Any]], Record], repair: str = RENEW) -> Record:
    """Read a record.

    Args:
        path: its file.
        form: what the file must say it is.
        parse: makes the record of the JSON object; may raise what a malformed one makes it raise.
        repair: the sentence that says how to make the file anew.

    Raises:
        LessonError: the file is missing, truncated or malformed.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if (body["kind"], body["schema"]) != form:
            raise ValueError("it is not of the form {}, schema {}".format(*form))
        return parse(body)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        reason = f"{error} is missing" if isinstance(error, KeyError) else reason
        raise LessonError(shown(path), 0, f"the record cannot be read: {reason}.", repair) from None


def check_sum(body: Mapping[str, Any]) -> None:
    """Refuse a record of measurements that was edited by hand; what is computed here is computed again.

    Raises:
        ValueError: its checksum does not fit.
    """
    if body["checksum"] != checksum(body):
        raise ValueError("it was edited by hand, its checksum does not fit")


def save(path: Path, form: Form, head: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> None:
    """Write a record: its head, then rows by group, one per line."""
    whole = {"schema": form[1], "kind": form[0], **head}
    members = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in whole.items()]
    groups = [
        f"  {json.dumps(group)}: [\n" + ",\n".join(f"   {json.dumps(row)}" for row in found) + "\n  ]"
        for group, found in rows.items()
    ]
    members.append(' "rows": {\n' + ",\n".join(groups) + "\n }")
    write_text_whole("{\n" + ",\n".join(members) + "\n}\n", path)


def shown(path: Path) -> str:
    """How messages name a file: from the project's folder where it lies there."""
    return path.relative_to(_PROJECT).as_posix() if path.is_relative_to(_PROJECT) else path.name
