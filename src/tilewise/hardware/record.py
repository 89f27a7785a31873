"""The record of a device's counters: one JSON file beside this module for each device.

In: a file. Out: a frozen ``CountsRecord``, checked on reading; and back, written whole or not at all.
Taking the counters is left to ``counting``.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.cases import Array
from tilewise.errors import LessonError
from tilewise.measurements.record import checksum, layout
from tilewise.measurements.slugs import device_slug

SCHEMA = 1
"""The version of the form."""
FOLDER = Path(__file__).parent / "records"
"""Where records lie."""
REPAIR = "Record it again on a GPU with Nsight Compute: python -m tilewise.hardware."


@dataclass(frozen=True)
class Output:
    """What a kernel left in one array."""

    sha256: str
    """Hash of its bytes."""
    bits: str | None = None
    """The bytes themselves, deflated, in base 64; only where the comparison allows a difference."""


@dataclass(frozen=True)
class Row:
    """One specimen on one device."""

    name: str
    """The specimen's name."""
    key: str
    """The specimen's key when it was counted."""
    counters: Mapping[str, int]
    """Hardware counters by our names; one that the tool lacks is left out."""
    outputs: Mapping[str, Output]
    """By the name of the parameter."""


@dataclass(frozen=True)
class CountsRecord:
    """All specimens on one device."""

    provenance: Mapping[str, Any]
    """Device, driver, date, versions."""
    metrics: Mapping[str, str]
    """Our names for the counters, and Nsight Compute's."""
    rows: tuple[Row, ...]
    """In the order of the specimens."""

    def row(self, name: str) -> Row | None:
        """A specimen's row; None where it was not counted."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def device(self) -> str:
        """The device's name as its driver gives it."""
        return str(self.provenance["device"])

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON holds it, checksum included."""
        body = {"schema": SCHEMA, "kind": "counts", **asdict(self)}
        body["rows"] = list(body["rows"])
        body["checksum"] = checksum(body)
        return body


def output(array: Array, exact: bool) -> Output:
    """What to keep of an array."""
    import hashlib

    raw = np.ascontiguousarray(array).tobytes()
    bits = None if exact else base64.b64encode(zlib.compress(raw, 9)).decode()
    return Output(hashlib.sha256(raw).hexdigest(), bits)


def array_of(kept: Output, like: Array) -> Array:
    """The array that was kept, with the shape and dtype of another.

    Raises:
        ValueError: it was kept as a hash alone.
    """
    if kept.bits is None:
        raise ValueError("the record keeps a hash of this array, not its values.")
    raw = zlib.decompress(base64.b64decode(kept.bits))
    return np.frombuffer(raw, like.dtype).reshape(like.shape)


def write(record: CountsRecord, folder: Path = FOLDER) -> Path:
    """Write a record into its device's file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{device_slug(record.device)}.json"
    part = path.with_suffix(".part")
    part.write_text(layout(record.to_dict()) + "\n", encoding="utf-8", newline="\n")
    part.replace(path)
    return path


def recorded(folder: Path = FOLDER) -> tuple[CountsRecord, ...]:
    """Every device's record, in the order of their file names."""
    return tuple(read(path) for path in sorted(folder.glob("*.json")))


def read(path: Path) -> CountsRecord:
    """Read and check a record.

    Raises:
        LessonError: no JSON, another form, or a checksum that does not fit.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        whole = body["checksum"] == checksum(body) and (body["schema"], body["kind"]) == (SCHEMA, "counts")
    except (ValueError, KeyError, TypeError) as error:
        raise LessonError(path.name, 0, f"the counters cannot be read ({error}).", REPAIR) from None
    if not whole:
        fault = f"the counters were edited by hand, or their form is not {SCHEMA}."
        raise LessonError(path.name, 0, fault, REPAIR)
    rows = tuple(
        Row(
            row["name"],
            row["key"],
            row["counters"],
            {name: Output(**kept) for name, kept in row["outputs"].items()},
        )
        for row in body["rows"]
    )
    return CountsRecord(body["provenance"], body["metrics"], rows)
