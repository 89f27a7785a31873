"""Pending: what has no current record on any machine, so that pages may show an old one.

In: ``pending.json`` next to the records. Out: an entry for each experiment and text that it lists. Only
``tilewise record --pending`` writes it; a release rejects a nonempty list.
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
"""The version of the list's format."""
COMMAND = "tilewise record --pending"
"""The command that writes the list."""
RELEASE = "TILEWISE_RELEASE"
"""The environment variable with which a build and a check reject pending entries."""


@dataclass(frozen=True)
class Entry:
    """An experiment or a text without a current record."""

    lesson: str
    date: str
    """The date of the record that is shown instead; empty if there is none."""
    commit: str
    """The commit that last changed that record's file; empty without a record or git."""

    @property
    def version(self) -> str:
        """The measured version, for readers."""
        return "an earlier version of the code" + (f" (commit {self.commit})" if self.commit else "")

    def of_times(self, old: Iterable[str], new: Iterable[str], all_old: bool) -> str:
        """The page's sentence on stale times.

        Args:
            old: the variants with stale times.
            new: the variants without times.
            all_old: whether all times shown are stale.
        """
        outdated, unmeasured = ", ".join(old), ", ".join(new)
        if not outdated:
            return f"Not measured yet: {unmeasured}." if unmeasured else "Not measured yet."
        which = "These times were" if all_old else f"The times of {outdated} were"
        rest = f" Not measured yet: {unmeasured}." if unmeasured else ""
        return f"{which} measured on {self.version}. A new measurement is pending.{rest}"


def text_name(lesson: str, name: str) -> str:
    """A text record's name in the list: that of its file, without the ending."""
    return f"{lesson.replace('/', '.')}.{name}"


def pending_path(archive: Archive) -> Path:
    """The path of the list, existing or not."""
    return archive.folder / "pending.json"


def read_pending(archive: Archive) -> dict[str, Entry]:
    """The list by name; empty if the file is missing.

    Raises:
        RecordError: it is malformed, in another format, or edited by hand.
    """
    path = pending_path(archive)
    form = {"schema": SCHEMA, "kind": "pending"}
    again = f"Write it again: {COMMAND}"
    try:
        body = read_sealed(path, archive.shown(path), "list", form, again)
        return {name: Entry(**entry) for name, entry in body["pending"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (KeyError, TypeError, AttributeError):
        raise RecordError(archive.shown(path), 0, "the list is malformed.", again) from None


def write_pending(entries: Mapping[str, Entry], archive: Archive) -> None:
    """Write the list atomically."""
    listed = {name: asdict(entries[name]) for name in sorted(entries)}
    body = {"schema": SCHEMA, "kind": "pending", "pending": listed}
    write_whole({**body, "checksum": checksum(body)}, pending_path(archive))


def entry_of(lesson: str, record: Record | TextRecord | None, commit: str) -> Entry:
    """The entry of an experiment or a text without a current record.

    Args:
        lesson: its lesson's id.
        record: the record that is shown instead.
        commit: the commit that last changed that record's file.
    """
    return Entry(lesson, str(record.provenance["date"]) if record else "", commit if record else "")


def list_faults(
    archive: Archive, listed: Mapping[str, Entry], is_current: Mapping[str, bool], unseen: Container[str]
) -> Iterator[LessonError]:
    """The faults of the list.

    Args:
        archive: the records and their list.
        listed: the list.
        is_current: by name, whether an experiment or a text of the lessons has a current record.
        unseen: the ids of lessons that were not checked.
    """
    path = archive.shown(pending_path(archive))
    for name, entry in listed.items():
        if entry.lesson in unseen:
            continue
        if name not in is_current:
            message = f"{name} is listed, but {entry.lesson} neither measures nor prints it."
        elif is_current[name]:
            message = f"{name} is listed, but it has a current record."
        elif refused():
            message = f"{name} is pending, and a release may have no pending measurements."
            yield LessonError(path, 0, message, f"Record it on a GPU: tilewise record {entry.lesson}")
            continue
        else:
            continue
        yield LessonError(path, 0, message, f"Take it out: {COMMAND}")


def refused() -> bool:
    """Whether pending entries are rejected, as in the build of a release."""
    return os.environ.get(RELEASE, "") not in ("", "0")
