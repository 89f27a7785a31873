"""The JSON files that `validation/` commits for the site: where they are and how they are read.

In: the project's folder and a name. Out: the parsed file, or an error with the file and the repair.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tilewise.errors import LessonError
from tilewise.measurements.record import checksum

FOLDER = "validation/records"
"""Their folder, relative to the project's."""
RENEW = "Run make records."
"""The repair of a record that needs no GPU."""

Record = TypeVar("Record")
Form = tuple[str, int]
"""The kind of record, and the version of its schema."""


def load(
    project: Path, name: str, form: Form, parse: Callable[[dict[str, Any]], Record], repair: str = RENEW
) -> Record:
    """Read a record.

    Args:
        project: the project's folder.
        name: the file, below ``FOLDER``.
        form: the kind and schema that the file must have.
        parse: creates the record from the JSON object; its errors for a malformed one are handled.
        repair: the sentence that says how to renew the file.

    Raises:
        LessonError: the file is missing, truncated or malformed.
    """
    try:
        body = json.loads((project / FOLDER / name).read_text(encoding="utf-8"))
        if (body["kind"], body["schema"]) != form:
            raise ValueError("it is not of the form {}, schema {}".format(*form))
        return parse(body)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        reason = f"{error} is missing" if isinstance(error, KeyError) else reason
        raise LessonError(f"{FOLDER}/{name}", 0, f"the record cannot be read: {reason}.", repair) from None


def of_devices(project: Path, kind: str) -> list[str]:
    """The names of one kind's records, one for each device, sorted."""
    return [f"{kind}/{path.name}" for path in sorted((project / FOLDER / kind).glob("*.json"))]


def measured(body: dict[str, Any]) -> Mapping[str, Any]:
    """A record of measurements, after checking its checksum.

    Raises:
        ValueError: the checksum is wrong.
    """
    if body["checksum"] != checksum(body):
        raise ValueError("it was edited by hand, its checksum does not fit")
    return body
