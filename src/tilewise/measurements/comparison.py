"""Predictions compared: the times predicted for a second device against those recorded on it.

In: predictions and the archive. Out: HTML fragments for the page of all measurements, the worst predictions
first. A prediction is only read from its file, which was written before the second device was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from tilewise.measurements.archive import Archive
from tilewise.measurements.machines import driver_name
from tilewise.measurements.prediction import FOLDER, PredictedRow, Prediction, read_prediction
from tilewise.measurements.record import Row
from tilewise.measurements.slugs import case_text
from tilewise.models.devices import device
from tilewise.outputs.table import Cell, Column, Table

CHANGES = 0.05
"""A row counts as changed if its time differs by more than this fraction."""


@dataclass(frozen=True)
class Compared:
    """A row on both devices."""

    predicted: PredictedRow
    """The prediction."""
    row: Row | None
    """The row with the same key in the second device's record; None if there is none yet."""

    @property
    def ratio(self) -> float | None:
        """Time on the first device over time on the second."""
        return self.predicted.recorded_us / self.row.median if self.row and self.row.median else None

    @property
    def residual(self) -> float | None:
        """Recorded over predicted time, minus 1: positive if it took longer than predicted."""
        return self.row.median / self.predicted.predicted_us - 1 if self.row and self.row.median else None

    def within(self, tolerance: float) -> bool | None:
        """Whether the residual is within the tolerance; None if nothing is recorded."""
        return None if self.residual is None else abs(self.residual) <= tolerance

    @property
    def as_said(self) -> bool | None:
        """Whether the prediction was right about the row changing or not; None if nothing is recorded."""
        return None if self.ratio is None else (abs(self.ratio - 1) > CHANGES) == self.predicted.changes


@dataclass(frozen=True)
class Outcome:
    """An experiment on both devices: the rows that were predicted and recorded."""

    experiment: str
    rows: tuple[Compared, ...]

    @property
    def error(self) -> float:
        """The median of the rows' absolute errors."""
        return median(abs(row.residual or 0) for row in self.rows)

    @property
    def largest(self) -> Compared:
        """The row with the largest error."""
        return max(self.rows, key=lambda row: abs(row.residual or 0))

    @property
    def waits_for(self) -> str:
        """What most rows were predicted to wait for."""
        return Counter(row.predicted.waits_for for row in self.rows).most_common(1)[0][0]


def predictions(archive: Archive) -> list[Prediction]:
    """Every prediction of the project, by device.

    Raises:
        RecordError: a file is malformed.
    """
    folder = archive.root / FOLDER
    return [read_prediction(path, archive.shown(path)) for path in sorted(folder.glob("*.json"))]


def compare(prediction: Prediction, archive: Archive) -> list[Compared]:
    """Pair each predicted row with the row of the same key in the second device's record."""
    records = {
        record.experiment: record
        for record in archive.records()
        if (known := device(str(record.provenance["device"]))) is not None and known.name == prediction.device
    }
    compared = []
    for row in prediction.rows:
        record = records.get(row.experiment)
        rows = record.rows if record else ()
        same = [
            candidate
            for candidate in rows
            if candidate.tokens and candidate.tokens == row.key and candidate.median
        ]
        match = min(same, key=lambda candidate: candidate.variant != row.variant, default=None)
        compared.append(Compared(row, match))
    return compared


def outcomes(rows: Sequence[Compared]) -> list[Outcome]:
    """The experiments with both times, the worst prediction first."""
    recorded = [row for row in rows if row.row is not None]
    names = dict.fromkeys(row.predicted.experiment for row in recorded)
    compared = [
        Outcome(name, tuple(row for row in recorded if row.predicted.experiment == name)) for name in names
    ]
    return sorted(compared, key=lambda outcome: -outcome.error)


def fragment(archive: Archive) -> str:
    """For each prediction a summary, a table of experiments and a folded table of rows, as HTML."""
    parts = []
    for prediction in predictions(archive):
        rows = compare(prediction, archive)
        parts += [f"<p>{escape(sentence)}</p>" for sentence in summary(prediction, rows)]
        if any(row.row is not None for row in rows):
            parts.append(_experiments(prediction, rows))
        parts.append(_rows(prediction, rows))
    return "\n".join(parts) or "<p>No other device has been predicted.</p>"


def summary(prediction: Prediction, rows: Sequence[Compared]) -> Iterator[str]:
    """The outcome of a prediction, in sentences."""
    changing = [row for row in rows if row.predicted.changes]
    yield (
        f"Predicted on {prediction.date} from the records of the {prediction.recorded_on}: "
        f"{len(changing):,} of {len(rows):,} rows change by more than {CHANGES:.0%} on an "
        f"{prediction.device}. By the data sheets, it has {prediction.memory_ratio:.2f}× the memory "
        f"bandwidth and {prediction.chip_ratio:.2f}× the SMs times clock."
    )
    for day in sorted({row.predicted.date for row in rows if row.predicted.date}):
        added = [row for row in rows if row.predicted.date == day]
        experiments = {row.predicted.experiment for row in added}
        yield f"{len(added):,} of these rows, in {len(experiments)} experiments, were added on {day}."
    recorded = [row for row in rows if row.row is not None]
    if not recorded:
        yield f"No {prediction.device} has been recorded since."
        return
    within = [row for row in recorded if row.within(prediction.tolerance)]
    right = [row for row in recorded if row.as_said]
    yield (
        f"Recorded since: {len(recorded):,} rows. {len(within):,} of them are within "
        f"{prediction.tolerance:.0%} of the predicted time, and for {len(right):,} the "
        "prediction was right about whether they change."
    )
    if len(recorded) < len(rows):
        yield f"{len(rows) - len(recorded)} rows have not been recorded on an {prediction.device}."


def facts(archive: Archive, experiment: str) -> str:
    """The prediction for an experiment and its outcome, in a sentence.

    Raises:
        KeyError: it was not predicted, or not recorded since.
    """
    for prediction in predictions(archive):
        for outcome in outcomes(compare(prediction, archive)):
            if outcome.experiment == experiment:
                predicted = _span([row.predicted.ratio for row in outcome.rows])
                recorded = _span([row.ratio or 0 for row in outcome.rows])
                return (
                    f"predicted {predicted}× the {driver_name(prediction.recorded_on)}'s speed, "
                    f"recorded {recorded}×; the median error of {len(outcome.rows)} rows is "
                    f"{outcome.error:.0%}."
                )
    raise KeyError(experiment)


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}× to {high}"


_WAITS = {"launch": "the launch", "memory": "memory", "chip": "the chip"}


def _experiments(prediction: Prediction, rows: Sequence[Compared]) -> str:
    """A table of experiments, the worst prediction first."""
    first = driver_name(prediction.recorded_on)
    columns: list[str | Column] = [
        "experiment",
        "mostly waits for",
        Column(f"{prediction.device} predicted", f"{first} = 1", "right"),
        Column(f"{prediction.device} recorded", f"{first} = 1", "right"),
        Column("median error", "%", "right"),
        Column("largest error", "%", "right"),
        Column(f"rows within {prediction.tolerance:.0%}", "", "right"),
    ]
    body = [
        [
            Cell(outcome.experiment, href=f"#{outcome.experiment}"),
            _WAITS[outcome.waits_for],
            Cell(f"{median(row.predicted.ratio for row in outcome.rows):.2f}", mark="predicted"),
            Cell(f"{median(row.ratio or 0 for row in outcome.rows):.2f}", mark="measured"),
            f"{100 * outcome.error:.1f}",
            _percent(outcome.largest.residual),
            f"{sum(bool(row.within(prediction.tolerance)) for row in outcome.rows)} of {len(outcome.rows)}",
        ]
        for outcome in outcomes(rows)
    ]
    return Table(columns, body).html(classes="tw-all-rows")


def _rows(prediction: Prediction, rows: Sequence[Compared]) -> str:
    """A folded table of all rows, the worst prediction first."""
    columns: list[str | Column] = [
        "experiment",
        "variant",
        "size",
        Column(driver_name(prediction.recorded_on), "µs", "right"),
        Column(f"{prediction.device} predicted", "µs", "right"),
        Column(f"{prediction.device} recorded", "µs", "right"),
        Column("error", "%", "right"),
    ]
    body = [
        [
            row.predicted.experiment,
            row.predicted.variant,
            case_text(row.predicted.case),
            row.predicted.recorded_us,
            row.predicted.predicted_us,
            row.row.median if row.row else None,
            _percent(row.residual),
        ]
        for row in sorted(rows, key=lambda row: -abs(row.residual or 0))
    ]
    table = Table(columns, body).html(classes="tw-all-rows")
    return f'<details class="tw-rows"><summary>All {len(rows):,} rows</summary>{table}</details>'


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:+.1f}"
