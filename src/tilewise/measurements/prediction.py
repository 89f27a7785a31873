"""Predictions: the times of recorded rows on a second device, written before it was recorded.

In: a prediction's file. Out: a ``Prediction`` to compare with the record. There are no new predictions; the
rows follow the keys and labels of the records, and their figures never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewise.measurements.record import checksum, read_sealed, write_whole

SCHEMA = 1
"""The version of the format of a prediction."""
FOLDER = "predictions"
"""The folder of predictions, in the lessons' folder."""

Moved = dict[tuple[str, str, str], tuple[str, str]]
"""A row's current label and key by its experiment, old label and old key."""


@dataclass(frozen=True)
class PredictedRow:
    """One row of a record, predicted for another device."""

    experiment: str
    lesson: str
    key: str
    """The key of the recorded row, by its tokens: what was measured."""
    variant: str
    case: Mapping[str, Any]
    recorded_us: float
    """The median on the recorded device, in microseconds."""
    predicted_us: float
    """The time predicted for the other device, in microseconds."""
    ratio: float
    """Recorded over predicted time."""
    launch_us: float
    """The launch overhead in the recorded time."""
    memory_us: float
    """The memory time in the recorded time."""
    rest_us: float
    """The rest of the recorded time."""
    waits_for: str
    """The largest of the three: ``launch``, ``memory`` or ``chip``."""
    changes: bool
    """Whether the row is predicted to change."""
    date: str = ""
    """The day on which it was added; empty if that is the prediction's."""


@dataclass(frozen=True)
class Prediction:
    """What the models predicted for a device."""

    device: str
    """The device's short name in the device table."""
    recorded_on: str
    """The device of the records, as its driver names it."""
    date: str
    """The day on which it was written."""
    tolerance: float
    """The tolerance of a time, as a fraction of the predicted one."""
    memory_ratio: float
    """Peak bandwidth over that of the recorded device."""
    chip_ratio: float
    """SMs times boost clock over those of the recorded device."""
    rows: tuple[PredictedRow, ...]
    """Every timed row, by experiment, in the record's order."""

    def to_dict(self) -> dict[str, Any]:
        """The prediction as in JSON, with its checksum."""
        body = {"schema": SCHEMA, "kind": "prediction", **asdict(self)}
        body["rows"] = [
            {name: value for name, value in row.items() if name != "date" or value} for row in body["rows"]
        ]
        body["checksum"] = checksum(body)
        return body


def renewed(prediction: Prediction, moved: Moved) -> Prediction:
    """A prediction with the current labels and keys of its rows."""
    rows = []
    for row in prediction.rows:
        label, key = moved.get((row.experiment, row.variant, row.key), (row.variant, row.key))
        rows.append(replace(row, variant=label, key=key))
    return replace(prediction, rows=tuple(rows))


def write_prediction(prediction: Prediction, path: Path) -> None:
    """Write a prediction atomically."""
    write_whole(prediction.to_dict(), path)


def read_prediction(path: Path, shown: str | None = None) -> Prediction:
    """Read and check a prediction.

    Raises:
        RecordError: invalid JSON, another format, or a wrong checksum.
    """
    again = "Restore the file as it was committed: a prediction is made once, beforehand."
    form = {"schema": SCHEMA, "kind": "prediction"}
    body = read_sealed(path, shown or path.as_posix(), "prediction", form, again)
    rows = tuple(PredictedRow(**row) for row in body["rows"])
    rest = {name: body[name] for name in Prediction.__dataclass_fields__ if name != "rows"}
    return Prediction(**rest, rows=rows)
