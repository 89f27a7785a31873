"""Records: what was measured, where and when, as one JSON file an experiment and device.

In: a file. Out: frozen ``Record`` objects, checked on reading (``record.schema.json`` says the same for other
tools); and back, written whole or not at all. Whether a record is still current is ``archive``'s affair.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tilewise.errors import LessonError
from tilewise.measurements.slugs import device_slug

SCHEMA = 1
"""The version of the form of a record."""


@dataclass(frozen=True)
class Row:
    """One contender at one size."""

    variant: str
    """Its label, as the lesson gives it."""
    role: str
    """``variant`` for one of the lesson's kernels, ``library`` for what a reader would use instead."""
    case: Mapping[str, Any]
    """The parameters."""
    samples_us: tuple[float, ...]
    """Every timed repetition in microseconds, in the order taken; empty for a row that holds counters
    alone."""
    p20: float | None
    """The 20th percentile in microseconds."""
    median: float | None
    """The median in microseconds."""
    p80: float | None
    """The 80th percentile in microseconds."""
    counters: Mapping[str, float] | None
    """Hardware counters by Nsight Compute's names, summed over the variant's launches; None where not
    taken."""
    bytes: float | None = None
    """Bytes that have to move, by the lesson's own formula."""
    flop: float | None = None
    """Operations that have to be done, by the lesson's own formula."""


@dataclass(frozen=True)
class Record:
    """An experiment on one device."""

    experiment: str
    """The name that ``measure`` was given."""
    lesson: str
    """The id of the lesson it stands in, e.g. ``speed/roofline``."""
    key: str
    """The key of what was measured."""
    arithmetic: str
    """Which units do the operations, a key of the device table."""
    provenance: Mapping[str, Any]
    """Device, clocks, versions, date; see ``provenance``."""
    rows: tuple[Row, ...]
    """Naive first, library last, as in the lesson."""
    method: Mapping[str, Any] = field(default_factory=dict)
    """How it was timed: version, cold L2, lead-in, the time between two events around nothing."""
    checksum: str = ""
    """SHA-256 of everything else; filled on writing."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON holds it, checksum included."""
        body = {"schema": SCHEMA, **asdict(self)}
        body["rows"] = [{**row, "samples_us": list(row["samples_us"])} for row in body["rows"]]
        body["checksum"] = checksum(body)
        return body


@dataclass(frozen=True)
class TextRecord:
    """What a cell printed on a machine with a GPU."""

    lesson: str
    """The lesson's id."""
    name: str
    """The cell's ``record="..."``."""
    key: str
    """The key of the cell."""
    provenance: Mapping[str, Any]
    """Device, clocks, versions, date."""
    text: str
    """What it printed, without a final line end."""
    stale: bool = False
    """True where the cell has changed since; set on reading, never written."""
    path: str = ""
    """The file it was read from, relative to the project; set on reading, never written."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON holds it, checksum included."""
        body = {"schema": SCHEMA, "kind": "text", **asdict(self)}
        del body["stale"], body["path"]
        body["checksum"] = checksum(body)
        return body


class RecordError(LessonError):
    """A record that cannot be believed: truncated, edited by hand, or of another form."""


def checksum(body: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of everything but the checksum."""
    rest = {name: value for name, value in body.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def repair(lesson: str) -> str:
    """The sentence that says how to make a lesson's records anew."""
    return f"Record it again on a GPU: tilewise record {lesson or 'LESSON'} --force."


def read_record(path: Path, shown: str | None = None) -> Record:
    """Read and check a record.

    Args:
        path: the file.
        shown: how messages name it; the path itself where not given.

    Raises:
        RecordError: no JSON, a wrong form, a checksum that does not fit, or a file in another device's
            folder.
    """
    body = _body(path, shown or path.as_posix())
    lesson = body.get("lesson") if isinstance(body.get("lesson"), str) else ""
    fault = _fault(body)
    if fault is None and body["checksum"] != checksum(body):
        fault = "was edited by hand: its checksum does not fit its content."
    if fault is None and body["experiment"] != path.stem:
        fault = f'is of the experiment "{body["experiment"]}" and has the file name of another.'
    if fault is None and device_slug(body["provenance"]["device"]) != path.parent.name:
        fault = f"was taken on {body['provenance']['device']} and lies in the folder of another device."
    if fault is not None:
        raise RecordError(shown or path.as_posix(), 0, f"the record {fault}", repair(lesson or ""))
    rows = tuple(Row(**{**row, "samples_us": tuple(row["samples_us"])}) for row in body["rows"])
    return Record(
        body["experiment"],
        body["lesson"],
        body["key"],
        body["arithmetic"],
        body["provenance"],
        rows,
        body["method"],
        body["checksum"],
    )


def read_text_record(path: Path, shown: str | None = None) -> TextRecord:
    """Read and check a text record.

    Raises:
        RecordError: no JSON, a wrong form, or a checksum that does not fit.
    """
    body = _body(path, shown or path.as_posix())
    fault = _text_fault(body)
    if fault is None and body["checksum"] != checksum(body):
        fault = "was edited by hand: its checksum does not fit its content."
    if fault is not None:
        raise RecordError(
            shown or path.as_posix(), 0, f"the text record {fault}", repair(str(body.get("lesson", "")))
        )
    return TextRecord(body["lesson"], body["name"], body["key"], body["provenance"], body["text"])


def _body(path: Path, shown: str) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise RecordError(
            shown, getattr(error, "lineno", 0), "the record is no JSON; it may be truncated.", repair("")
        ) from None
    if not isinstance(body, dict):
        raise RecordError(shown, 0, "the record is no JSON object.", repair(""))
    return body


_FORM: Mapping[str, type | tuple[type, ...]] = {
    "schema": int,
    "experiment": str,
    "lesson": str,
    "key": str,
    "arithmetic": str,
    "provenance": dict,
    "rows": list,
    "method": dict,
    "checksum": str,
}
_ROW: Mapping[str, type | tuple[type, ...]] = {
    "variant": str,
    "role": str,
    "case": dict,
    "samples_us": list,
    "p20": (int, float, type(None)),
    "median": (int, float, type(None)),
    "p80": (int, float, type(None)),
    "counters": (dict, type(None)),
    "bytes": (int, float, type(None)),
    "flop": (int, float, type(None)),
}
_PROVENANCE: Mapping[str, type | tuple[type, ...]] = {
    "device": str,
    "date": str,
    "ceilings": dict,
    "versions": dict,
}
_TEXT: Mapping[str, type | tuple[type, ...]] = {
    "schema": int,
    "kind": str,
    "lesson": str,
    "name": str,
    "key": str,
    "provenance": dict,
    "text": str,
    "checksum": str,
}


def _fault(body: Mapping[str, Any]) -> str | None:
    fault = _misfit(body, _FORM, "")
    if fault is None and body["schema"] != SCHEMA:
        fault = f"has the form {body['schema']}; this version reads form {SCHEMA}."
    if fault is None:
        fault = _misfit(body["provenance"], _PROVENANCE, "provenance.", exact=False)
    if fault is None and not body["rows"]:
        fault = "has no rows."
    for at, row in enumerate(body["rows"] if fault is None else ()):
        if not isinstance(row, dict):
            return f"has a row {at} that is no object."
        fault = fault or _misfit(row, _ROW, f"rows[{at}].") or _row_fault(row, at)
    return fault


def _row_fault(row: Mapping[str, Any], at: int) -> str | None:
    if row["role"] not in ("variant", "library"):
        return f'has the role "{row["role"]}" in rows[{at}]; a row is a variant or a library.'
    timed = [row["p20"], row["median"], row["p80"]]
    numbers = [entry for entry in [*row["samples_us"], *timed] if entry is not None]
    if any(
        isinstance(entry, bool) or not isinstance(entry, int | float) or not entry >= 0 for entry in numbers
    ):
        return f"has a time in rows[{at}] that is no number of microseconds."
    if row["samples_us"] and (None in timed or not row["p20"] <= row["median"] <= row["p80"]):
        return f"has percentiles in rows[{at}] that are missing or out of order."
    if not row["samples_us"] and timed != [None, None, None]:
        return f"has percentiles without samples in rows[{at}]."
    return None


def _text_fault(body: Mapping[str, Any]) -> str | None:
    fault = _misfit(body, _TEXT, "")
    if fault is None and (body["schema"] != SCHEMA or body["kind"] != "text"):
        fault = f"is no text record of form {SCHEMA}."
    return fault or _misfit(body["provenance"], _PROVENANCE, "provenance.", exact=False)


def _misfit(
    body: Mapping[str, Any], form: Mapping[str, type | tuple[type, ...]], prefix: str, exact: bool = True
) -> str | None:
    for name, kinds in form.items():
        if name not in body:
            return f'has no "{prefix}{name}".'
        if not isinstance(body[name], kinds) or isinstance(body[name], bool):
            return f'has a "{prefix}{name}" of the wrong type ({type(body[name]).__name__}).'
    unknown = sorted(set(body) - set(form)) if exact else []
    return f'has an unknown "{prefix}{unknown[0]}".' if unknown else None


def write_record(record: Record | TextRecord, path: Path) -> None:
    """Write a record whole or not at all: beside its place first, then moved there."""
    write_whole(record.to_dict(), path)


def write_whole(body: Mapping[str, Any], path: Path) -> None:
    """Write a JSON object whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(layout(body) + "\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def layout(value: Any, indent: int = 0) -> str:
    """JSON that reads and diffs well: objects one member a line, lists of plain values on one line."""
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
