"""Records: what was measured, where and when, as one JSON file per experiment and device.

In: a file. Out: frozen ``Record`` objects; and back, written atomically. ``record.schema.json`` describes the
format. Reading checks only the checksum, because nothing else writes records.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewise.errors import LessonError
from tilewise.measurements.slugs import device_slug

SCHEMA = 2
"""The version of the record format."""
_READINGS = ("rounds", "sm_clock_mhz", "power_w")
"""The optional lists of a row."""
_KEYS = ("tokens", "compiled")
"""The optional texts of a row."""


@dataclass(frozen=True)
class Row:
    """One contender at one size; percentiles are in microseconds."""

    variant: str
    """Its label in the lesson."""
    role: str
    """``variant`` for one of the lesson's kernels, ``library`` for a library to compare with."""
    case: Mapping[str, Any]
    samples_us: tuple[float, ...] = ()
    """Every timed repetition in microseconds, in order; empty for a row with counters only."""
    p20: float | None = None
    median: float | None = None
    p80: float | None = None
    counters: Mapping[str, float] | None = None
    """Hardware counters by Nsight Compute's names, summed over the variant's launches; None if not taken."""
    bytes: float | None = None
    """The minimum number of bytes to move, by the lesson's formula."""
    flop: float | None = None
    """The number of operations, by the lesson's formula."""
    rounds: tuple[int, ...] = ()
    """The number of samples of each round, in order; empty if there was one round."""
    sm_clock_mhz: tuple[float, ...] = ()
    """SM clocks in MHz, read during the timed launches, in order; empty if none was read."""
    power_w: tuple[float, ...] = ()
    """Powers in W, read during the timed launches, in order; empty if none was read."""
    tokens: str = ""
    """The key of what was measured, by its tokens; empty if it matches no version."""
    compiled: str = ""
    """The same key by the code of its kernels, without names; empty if not computed, if clang rejects a
    kernel, and for a library."""

    def to_dict(self) -> dict[str, Any]:
        """The row as in JSON; empty optional members are left out."""
        body = {**asdict(self), "samples_us": list(self.samples_us)}
        for name in (*_READINGS, *_KEYS):
            if not body[name]:
                del body[name]
            elif name in _READINGS:
                body[name] = list(body[name])
        return body

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Row:
        """The row of ``to_dict``."""
        lists = {name: tuple(body.get(name, ())) for name in ("samples_us", *_READINGS)}
        return Row(**{**body, **lists})

    def without_times(self) -> Row:
        """The row with its counters only."""
        none: dict[str, Any] = dict.fromkeys(("samples_us", *_READINGS), ())
        return replace(self, p20=None, median=None, p80=None, **none)


@dataclass(frozen=True)
class Record:
    """An experiment on one device."""

    experiment: str
    """The name passed to ``measure``."""
    lesson: str
    """The id of its lesson, e.g. ``speed/roofline``."""
    arithmetic: str
    """The units that do the operations, a key of the device table."""
    provenance: Mapping[str, Any]
    """Device, clocks, versions, date; see ``provenance``."""
    rows: tuple[Row, ...]
    """Naive first, library last, as in the lesson."""
    method: Mapping[str, Any] = field(default_factory=dict)
    """How it was timed: version, cold L2, lead-in."""
    compiler: str = ""
    """What ``compiled`` depends on besides the kernels; see ``kernel_code.release``. May be empty."""
    checksum: str = ""
    """SHA-256 of everything else; set on writing."""

    def to_dict(self) -> dict[str, Any]:
        """The record as in JSON, with its checksum."""
        body = {"schema": SCHEMA, **asdict(self)}
        body["rows"] = [row.to_dict() for row in self.rows]
        if not self.compiler:
            del body["compiler"]
        body["checksum"] = checksum(body)
        return body


@dataclass(frozen=True)
class TextRecord:
    """What a cell printed on a machine with a GPU."""

    lesson: str
    name: str
    """The cell's ``record="..."``."""
    key: str
    """The key of the cell."""
    provenance: Mapping[str, Any]
    """Device, clocks, versions, date."""
    text: str
    """What it printed, without a trailing newline."""
    uses: str = ""
    """The key of the definitions that the cell uses; empty in older records."""
    nameless: str = ""
    """The key of both, independent of names in CUDA C; empty if not computed, or if unsafe."""
    stale: bool = False
    """Whether the cell or what it uses has changed since; set on reading, never written."""
    path: str = ""
    """The file it was read from, relative to the project; set on reading, never written."""

    def to_dict(self) -> dict[str, Any]:
        """The record as in JSON, with its checksum."""
        body = {"schema": SCHEMA, "kind": "text", **asdict(self)}
        del body["stale"], body["path"]
        for name in ("uses", "nameless"):
            if not body[name]:
                del body[name]
        body["checksum"] = checksum(body)
        return body


class RecordError(LessonError):
    """A malformed record: truncated, edited by hand, or in another format."""


def checksum(body: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but the checksum."""
    rest = {name: value for name, value in body.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def repair(body: Mapping[str, Any]) -> str:
    """The sentence that says how to record a record's lesson again."""
    return f"Record it again on a GPU: tilewise record {body.get('lesson') or 'LESSON'} --force."


def read_record(path: Path, shown: str | None = None) -> Record:
    """Read and check a record.

    Args:
        path: the file.
        shown: its name in messages; by default the path.

    Raises:
        RecordError: invalid JSON, another format, a wrong checksum, or a file in another device's folder.
    """
    shown = shown or path.as_posix()
    body = read_sealed(path, shown, "record", {"schema": SCHEMA})
    try:
        rows = tuple(Row.from_dict(row) for row in body["rows"])
        record = Record(**{**_without(body, "schema"), "rows": rows})
        device = str(record.provenance["device"])
    except (KeyError, TypeError, AttributeError):
        raise RecordError(shown, 0, "the record is malformed.", repair(body)) from None
    if record.experiment != path.stem:
        fault = f'is of the experiment "{record.experiment}" and has the file name of another.'
    elif device_slug(device) != path.parent.name:
        fault = f"was taken on {device!a} and lies in the folder of another device."
    else:
        return record
    raise RecordError(shown, 0, f"the record {fault}", repair(body))


def read_text_record(path: Path, shown: str | None = None) -> TextRecord:
    """Read and check a text record.

    Raises:
        RecordError: invalid JSON, another format, or a wrong checksum.
    """
    shown = shown or path.as_posix()
    body = read_sealed(path, shown, "text record", {"schema": SCHEMA, "kind": "text"})
    try:
        return TextRecord(**_without(body, "schema", "kind", "checksum"))
    except TypeError:
        raise RecordError(shown, 0, "the text record is malformed.", repair(body)) from None


def _without(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


def read_sealed(
    path: Path, shown: str, what: str, form: Mapping[str, Any], again: str = ""
) -> dict[str, Any]:
    """A JSON object that this package wrote, after checking its format and its checksum.

    Args:
        path: the file.
        shown: its name in messages.
        what: the kind of file, for messages.
        form: the members that identify the format, such as ``schema``.
        again: the repair; by default the command that records the lesson again.

    Raises:
        RecordError: a check fails.
        FileNotFoundError: there is no such file.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        line, fault = getattr(error, "lineno", 0), "is no JSON; it may be truncated."
        raise RecordError(shown, line, f"the {what} {fault}", again or repair({})) from None
    if not isinstance(body, dict):
        body, fault = {}, "is no JSON object."
    elif any(body.get(name) != value for name, value in form.items()):
        fault = f"is not of form {form['schema']}, the one that this version reads."
    elif body.get("checksum") != checksum(body):
        fault = "was edited by hand: its checksum does not fit its content."
    else:
        return body
    raise RecordError(shown, 0, f"the {what} {fault}", again or repair(body))


def write_record(record: Record | TextRecord, path: Path) -> None:
    """Write a record atomically."""
    write_whole(record.to_dict(), path)


def write_whole(body: Mapping[str, Any], path: Path) -> None:
    """Write a JSON object atomically."""
    write_text_whole(layout(body) + "\n", path)


def write_text_whole(text: str, path: Path) -> None:
    """Write a file atomically: to a temporary file next to it, which then replaces it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def layout(value: Any, indent: int = 0) -> str:
    """Readable JSON with small diffs: one member per line, lists of plain values on one line."""
    pad = " " * (indent + 1)
    if isinstance(value, Mapping) and value:
        members = [
            f"{pad}{json.dumps(str(name))}: {layout(entry, indent + 1)}" for name, entry in value.items()
        ]
        return "{\n" + ",\n".join(members) + "\n" + " " * indent + "}"
    if isinstance(value, list | tuple) and any(isinstance(entry, Mapping | list | tuple) for entry in value):
        return (
            "[\n" + ",\n".join(pad + layout(entry, indent + 1) for entry in value) + "\n" + " " * indent + "]"
        )
    return json.dumps(value)
