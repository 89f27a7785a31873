"""The record of a device's counters: one JSON file beside this module for each device.

In: a file. Out: a frozen ``CountsRecord``, checked on reading; and back, written whole or not at all.
Taking the counters is left to ``counting``.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.cases import Array
from tilewise.hardware.json_files import check_sum, load
from tilewise.measurements.record import checksum, write_whole
from tilewise.measurements.slugs import device_slug

FORM = ("counts", 1)
"""What kind of record it is, and the version of its schema."""
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

    @property
    def device(self) -> str:
        """The device's name as its driver gives it."""
        return str(self.provenance["device"])

    @property
    def checksum(self) -> str:
        """SHA-256 of everything else."""
        return str(self.to_dict()["checksum"])

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON holds it, checksum included."""
        body = {"schema": FORM[1], "kind": FORM[0], **asdict(self)}
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
    path = folder / f"{device_slug(record.device)}.json"
    write_whole(record.to_dict(), path)
    return path


def recorded(folder: Path = FOLDER) -> tuple[CountsRecord, ...]:
    """Every device's record, in the order of their file names."""
    return tuple(read(path) for path in sorted(folder.glob("*.json")))


def read(path: Path) -> CountsRecord:
    """Read and check a record.

    Raises:
        LessonError: no JSON, another form, or a checksum that does not fit.
    """
    return load(path, FORM, _parsed, REPAIR)


def _parsed(body: dict[str, Any]) -> CountsRecord:
    check_sum(body)
    rows = (
        Row(**{**row, "outputs": {name: Output(**kept) for name, kept in row["outputs"].items()}})
        for row in body["rows"]
    )
    return CountsRecord(body["provenance"], body["metrics"], tuple(rows))
