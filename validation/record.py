"""Records of measurements on a device, one JSON file per device, and how all records are written.

In: a file. Out: a frozen ``DeviceRecord`` of counters or of the sanitizer's findings, checked on reading; and
back, written atomically.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from tilewise.cuda.cases import Array
from tilewise.measurements.record import checksum, write_text_whole, write_whole
from tilewise.measurements.slugs import device_slug
from tilewise.measurements.validation_file import Form, load, measured, of_devices

PROJECT = Path(__file__).parents[1]
"""The course's own folder."""

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class Output:
    """The contents of one array after a kernel."""

    sha256: str
    """Hash of its bytes."""
    bits: str | None = None
    """The bytes themselves, deflated, in base 64; only if the comparison allows a difference."""


@dataclass(frozen=True)
class Counted:
    """One specimen's counters on one device."""

    name: str
    """The specimen's name."""
    key: str
    """The specimen's key when it was counted."""
    counters: Mapping[str, int]
    """Hardware counters by our names, without those that the tool lacks."""
    outputs: Mapping[str, Output]
    """By the name of the parameter."""


@dataclass(frozen=True)
class Finding:
    """The sanitizer's messages on one launch of a kernel."""

    name: str
    """The specimen's name, which starts with the lesson's id."""
    key: str
    """The specimen's key when it was checked."""
    said: Mapping[str, str]
    """By tool: the first line of its findings; empty if there are none."""


@dataclass(frozen=True)
class DeviceRecord(Generic[RowT]):
    """All specimens on one device."""

    kind: str
    """``counts`` or ``sanitizer``."""
    provenance: Mapping[str, Any]
    """Device, driver, date, versions."""
    rows: tuple[RowT, ...]
    """In the order of the specimens."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Nsight Compute's counters by our names; empty if none were read."""

    @property
    def device(self) -> str:
        """The device's name according to its driver."""
        return str(self.provenance["device"])

    @property
    def checksum(self) -> str:
        """SHA-256 of everything else."""
        return str(self.to_dict()["checksum"])

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON data, with its checksum."""
        own = asdict(self)
        body = {"schema": 1, "kind": self.kind, "provenance": own["provenance"]}
        body |= {"metrics": own["metrics"]} if self.metrics else {}
        body["rows"] = list(own["rows"])
        return {**body, "checksum": checksum(body)}


def write(record: DeviceRecord[Any], folder: Path) -> Path:
    """Write a record to its device's file."""
    path = folder / f"{device_slug(record.device)}.json"
    write_whole(record.to_dict(), path)
    return path


def counters(project: Path = PROJECT) -> tuple[DeviceRecord[Counted], ...]:
    """Every device's counters, in the order of their file names.

    Raises:
        LessonError: a file is not JSON, has another form, or a wrong checksum.
    """
    return _recorded(project, "counters", "counts", _counted, "python -m validation")


def copies(project: Path = PROJECT) -> tuple[DeviceRecord[Counted], ...]:
    """Every device's counters of bulk copies and wgmma; likewise."""
    return _recorded(project, "copies", "copies", _counted, "python -m validation --copies")


def findings(project: Path = PROJECT) -> tuple[DeviceRecord[Finding], ...]:
    """Every device's findings of the sanitizer; likewise."""
    return _recorded(
        project, "sanitizer", "sanitizer", lambda row: Finding(**row), "python -m validation.sanitizer"
    )


def _recorded(
    project: Path, folder: str, kind: str, row: Callable[[Any], RowT], command: str
) -> tuple[DeviceRecord[RowT], ...]:
    parse = partial(_parsed, row)
    repair = f"Record it again on a GPU: {command}."
    return tuple(load(project, name, (kind, 1), parse, repair) for name in of_devices(project, folder))


def _parsed(row: Callable[[Any], RowT], body: dict[str, Any]) -> DeviceRecord[RowT]:
    rows = tuple(map(row, measured(body)["rows"]))
    return DeviceRecord(body["kind"], body["provenance"], rows, body.get("metrics", {}))


def _counted(row: dict[str, Any]) -> Counted:
    return Counted(
        **{**row, "outputs": {name: Output(**recorded) for name, recorded in row["outputs"].items()}}
    )


def provenance() -> dict[str, Any]:
    """The provenance of a record taken on this machine; a library's version is known once it is imported."""
    from tilewise.gpu.device import device_name, properties, state
    from tilewise.measurements.provenance import versions

    device = properties()
    return {
        "device": device_name(),
        "compute_capability": f"{device['major']}.{device['minor']}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "driver": state().driver,
        "sm_count": int(device["multiProcessorCount"]),
        "versions": versions(),
    }


def output(array: Array, exact: bool) -> Output:
    """The record of an array."""
    raw = np.ascontiguousarray(array).tobytes()
    bits = None if exact else base64.b64encode(zlib.compress(raw, 9)).decode()
    return Output(hashlib.sha256(raw).hexdigest(), bits)


def array_of(recorded: Output, like: Array) -> Array:
    """A recorded array, with the shape and dtype of another.

    Raises:
        ValueError: only its hash was recorded.
    """
    if recorded.bits is None:
        raise ValueError("the record keeps a hash of this array, not its values.")
    raw = zlib.decompress(base64.b64decode(recorded.bits))
    return np.frombuffer(raw, like.dtype).reshape(like.shape)


def save(path: Path, form: Form, head: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> None:
    """Write a computed record: its head, then rows by group, one per line."""
    whole = {"schema": form[1], "kind": form[0], **head}
    members = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in whole.items()]
    groups = [
        f"  {json.dumps(group)}: [\n"
        + ",\n".join(f"   {json.dumps(row)}" for row in members_of_group)
        + "\n  ]"
        for group, members_of_group in rows.items()
    ]
    members.append(' "rows": {\n' + ",\n".join(groups) + "\n }")
    write_text_whole("{\n" + ",\n".join(members) + "\n}\n", path)
