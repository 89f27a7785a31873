"""Pending: what no machine has a current record of, and what a page may therefore show as it was before.

In: ``pending.json`` beside the records. Out: an entry for each experiment and text that it lists. Only
``tilewise record --pending`` writes it; a release refuses whatever it lists.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewise.errors import LessonError
from tilewise.measurements.archive import Archive
from tilewise.measurements.record import (
    Record,
    RecordError,
    TextRecord,
    checksum,
    read_sealed,
    write_whole,
)

SCHEMA = 1
"""The version of the form of the list."""
COMMAND = "tilewise record --pending"
"""Writes the list."""
RELEASE = "TILEWISE_RELEASE"
"""The environment variable with which a build and a check refuse what the list says is pending."""


@dataclass(frozen=True)
class Entry:
    """An experiment or a text without a current record."""

    lesson: str
    date: str
    """The date of the record that is shown instead; empty where there is none."""
    commit: str
    """The commit that last changed that record's file; empty where there is none, or no git."""

    @property
    def version(self) -> str:
        """What was measured, for a reader."""
        return "an earlier version of the code" + (f" (commit {self.commit})" if self.commit else "")

    def of_times(self, old: Iterable[str], new: Iterable[str], all_old: bool) -> str:
        """What a page says of recorded times.

        Args:
            old: the variants whose times are shown and are no longer current.
            new: those that have no times.
            all_old: whether no time that is shown is current.
        """
        whose, unmeasured = ", ".join(old), ", ".join(new)
        if not whose:
            return f"Not measured yet: {unmeasured}." if unmeasured else "Not measured yet."
        which = "These times were" if all_old else f"The times of {whose} were"
        rest = f" Not measured yet: {unmeasured}." if unmeasured else ""
        return f"{which} measured on {self.version}. A new measurement is pending.{rest}"


def text_name(lesson: str, name: str) -> str:
    """How the list names what a cell printed: as its record's file, without the ending."""
    return f"{lesson.replace('/', '.')}.{name}"


def pending_path(archive: Archive) -> Path:
    """Where the list lies, or would lie."""
    return archive.folder / "pending.json"


def read_pending(archive: Archive) -> dict[str, Entry]:
    """The list by name; empty where there is none.

    Raises:
        RecordError: it is broken, of another form, or edited by hand.
    """
    path = pending_path(archive)
    form = {"schema": SCHEMA, "kind": "pending"}
    again = f"Write it anew: {COMMAND}"
    try:
        body = read_sealed(path, archive.shown(path), "list", form, again)
        return {name: Entry(**entry) for name, entry in body["pending"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (KeyError, TypeError, AttributeError):
        raise RecordError(archive.shown(path), 0, "the list is malformed.", again) from None


def write_pending(entries: Mapping[str, Entry], archive: Archive) -> None:
    """Write the list, whole or not at all."""
    listed = {name: asdict(entries[name]) for name in sorted(entries)}
    body = {"schema": SCHEMA, "kind": "pending", "pending": listed}
    write_whole({**body, "checksum": checksum(body)}, pending_path(archive))


def entry_of(lesson: str, record: Record | TextRecord | None, commit: str) -> Entry:
    """The entry of what has no current record.

    Args:
        lesson: its lesson's id.
        record: the record that is shown instead.
        commit: the commit that last changed that record's file.
    """
    return Entry(lesson, str(record.provenance["date"]) if record else "", commit if record else "")


def list_faults(
    archive: Archive, listed: Mapping[str, Entry], found: Mapping[str, bool], unseen: Container[str]
) -> Iterator[LessonError]:
    """What is wrong with the list.

    Args:
        archive: whose list it is.
        listed: the list.
        found: by name, whether an experiment or a text of the lessons has a current record.
        unseen: the ids of lessons that were not looked at.
    """
    path = archive.shown(pending_path(archive))
    for name, entry in listed.items():
        if entry.lesson in unseen:
            continue
        if name not in found:
            message = f"{name} is listed, but {entry.lesson} neither measures nor prints it."
        elif found[name]:
            message = f"{name} is listed, but it has a current record."
        elif refused():
            message = f"{name} is pending, and a release may have no pending measurements."
            yield LessonError(path, 0, message, f"Record it on a GPU: tilewise record {entry.lesson}")
            continue
        else:
            continue
        yield LessonError(path, 0, message, f"Take it out: {COMMAND}")


def refused() -> bool:
    """Whether what is pending is refused, as in the build of a release."""
    return os.environ.get(RELEASE, "") not in ("", "0")
