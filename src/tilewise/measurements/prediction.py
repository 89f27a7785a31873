"""Predictions: what recorded rows ought to take on a device that has not been measured yet.

In: the archive and a device of the device table. Out: a ``Prediction``, written as one file before the other
device is recorded, and read back to be held against what came out. The formula is ``models.scaling``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewise.errors import LessonError, nearest
from tilewise.measurements.archive import Archive, ceilings_of
from tilewise.measurements.record import Record, checksum, read_sealed, write_whole
from tilewise.measurements.slugs import device_slug
from tilewise.models.devices import DEVICES, Device, device
from tilewise.models.scaling import scaled

SCHEMA = 1
"""The version of the form of a prediction."""
FOLDER = "predictions"
"""Where predictions live, under the lessons' folder."""
TOLERANCE = 0.10
"""How far a recorded time may be from a predicted one, as a share of the predicted one."""

Moved = dict[tuple[str, str, str], tuple[str, str]]
"""By experiment, label and key of a row, the label and the key that it has now."""


@dataclass(frozen=True)
class PredictedRow:
    """One row of a record, carried over to another device."""

    experiment: str
    """The experiment's name."""
    lesson: str
    """The lesson's id."""
    key: str
    """The key of the recorded row, by its tokens: what was measured."""
    variant: str
    """The row's label."""
    case: Mapping[str, Any]
    """Its parameters."""
    recorded_us: float
    """The median on the recorded device, in microseconds."""
    predicted_us: float
    """The time predicted on the other, in microseconds."""
    ratio: float
    """Recorded over predicted."""
    launch_us: float
    """The launch's part of the recorded time."""
    memory_us: float
    """The memory's part of the recorded time."""
    rest_us: float
    """What is left of the recorded time."""
    waits_for: str
    """The largest of the three: ``launch``, ``memory`` or ``chip``."""
    changes: bool
    """Whether the row is said to change."""
    date: str = ""
    """The day on which it was added; empty for the day of the whole prediction."""


@dataclass(frozen=True)
class Prediction:
    """What the models say of a device beforehand."""

    device: str
    """The device, by the device table's short name."""
    recorded_on: str
    """The device of the records, as its driver names it."""
    date: str
    """The day on which it was written."""
    tolerance: float
    """How far a time may be off, as a share of the predicted one."""
    memory_ratio: float
    """Stated bandwidth over that of the recorded device."""
    chip_ratio: float
    """SMs times stated clock over those of the recorded device."""
    rows: tuple[PredictedRow, ...]
    """Every timed row, by experiment, in the record's order."""

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON holds it, checksum included."""
        body = {"schema": SCHEMA, "kind": "prediction", **asdict(self)}
        body["rows"] = [
            {name: value for name, value in row.items() if name != "date" or value} for row in body["rows"]
        ]
        body["checksum"] = checksum(body)
        return body


def known_device(name: str) -> Device:
    """A device of the table, by the table's name in any case, or by its driver's.

    Raises:
        LessonError: it is not in the table.
    """
    found = next((entry for entry in DEVICES if entry.name.lower() == name.lower()), None) or device(name)
    if found is None:
        names = [entry.name for entry in DEVICES]
        raise LessonError("tilewise predict", 0, f'the device table has no "{name}".', nearest(name, names))
    return found


def prediction_path(root: Path, wanted: Device) -> Path:
    """Where the prediction for a device lies, or would lie."""
    return root / FOLDER / f"{device_slug(wanted.name)}.json"


def predict(archive: Archive, wanted: Device, day: str, recorded_on: str | None = None) -> Prediction:
    """Carry every timed row that the course shows over to another device.

    Args:
        archive: the records.
        wanted: the device to predict.
        day: the day that the prediction says it was made, e.g. ``2026-11-21``.
        recorded_on: the device to start from; the course's own where not given.

    Raises:
        LessonError: there is nothing to start from, a record cannot be believed, or its device is not in
            the table.
    """
    records = [one for one in archive.records(recorded_on or archive.home) if one.rows]
    if not records:
        raise LessonError(
            "tilewise predict", 0, "there is no record to start from.", "Record the lessons on a GPU first."
        )
    name = str(records[0].provenance["device"])
    own = known_device(name)
    rows = tuple(row for record in records for row in _rows(record, own, wanted))
    return Prediction(
        wanted.name,
        name,
        day,
        TOLERANCE,
        _short(wanted.memory_gb_per_s / own.memory_gb_per_s),
        _short(wanted.sms * wanted.boost_mhz / (own.sms * own.boost_mhz)),
        rows,
    )


def extended(made: Prediction, now: Prediction) -> Prediction:
    """A prediction with the experiments that it lacks, taken from one that was made later.

    Rows that it has stay as they were said, whatever was recorded since.
    """
    known = {row.experiment for row in made.rows}
    added = tuple(replace(row, date=now.date) for row in now.rows if row.experiment not in known)
    return replace(made, rows=(*made.rows, *added))


def renewed(made: Prediction, moved: Moved) -> Prediction:
    """A prediction with the labels and keys that rows have now, by experiment and what they had."""
    rows = []
    for row in made.rows:
        label, key = moved.get((row.experiment, row.variant, row.key), (row.variant, row.key))
        rows.append(replace(row, variant=label, key=key))
    return replace(made, rows=tuple(rows))


def _rows(record: Record, own: Device, wanted: Device) -> Iterator[PredictedRow]:
    ceilings = ceilings_of(record.provenance)
    if ceilings is None:
        return
    fastest_probe = record.provenance["ceilings"]["memory_gb_per_s"]
    ceilings = replace(ceilings, memory_gb_per_s=fastest_probe)
    for row in record.rows:
        if not row.median:
            continue
        made = scaled(row.median, row.bytes or 0, ceilings, own, wanted)
        yield PredictedRow(
            experiment=record.experiment,
            lesson=record.lesson,
            key=row.tokens,
            variant=row.variant,
            case=dict(row.case),
            recorded_us=row.median,
            predicted_us=_short(made.time_us),
            ratio=_short(made.ratio),
            launch_us=_short(made.launch_us),
            memory_us=_short(made.memory_us),
            rest_us=_short(made.rest_us),
            waits_for=made.waits_for,
            changes=made.changes,
        )


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def write_prediction(made: Prediction, path: Path) -> None:
    """Write a prediction whole or not at all."""
    write_whole(made.to_dict(), path)


def read_prediction(path: Path, shown: str | None = None) -> Prediction:
    """Read and check a prediction.

    Raises:
        RecordError: no JSON, another form, or a checksum that does not fit.
    """
    again = "Take the file back as it was committed: a prediction is made once, beforehand."
    form = {"schema": SCHEMA, "kind": "prediction"}
    body = read_sealed(path, shown or path.as_posix(), "prediction", form, again)
    rows = tuple(PredictedRow(**row) for row in body["rows"])
    rest = {name: body[name] for name in Prediction.__dataclass_fields__ if name != "rows"}
    return Prediction(**rest, rows=rows)
