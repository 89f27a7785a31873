"""Predictions: what recorded rows ought to take on a second device, written before that was recorded.

In: the file of a prediction. Out: a ``Prediction``, to be held against what came out. Predictions are no
longer made; their rows follow the keys and labels of the records, and no figure of theirs ever changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewise.measurements.record import checksum, read_sealed, write_whole

SCHEMA = 1
"""The version of the form of a prediction."""
FOLDER = "predictions"
"""Where predictions are, under the lessons' folder."""

Moved = dict[tuple[str, str, str], tuple[str, str]]
"""By experiment, label and key of a row, the label and the key that it has now."""


@dataclass(frozen=True)
class PredictedRow:
    """One row of a record, carried over to another device."""

    experiment: str
    lesson: str
    key: str
    """The key of the recorded row, by its tokens: what was measured."""
    variant: str
    case: Mapping[str, Any]
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


def renewed(made: Prediction, moved: Moved) -> Prediction:
    """A prediction with the labels and keys that rows have now."""
    rows = []
    for row in made.rows:
        label, key = moved.get((row.experiment, row.variant, row.key), (row.variant, row.key))
        rows.append(replace(row, variant=label, key=key))
    return replace(made, rows=tuple(rows))


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
