"""Two devices: what was predicted of one from the records of the other, and what came of it.

In: predictions and the archive. Out: fragments of HTML for the page of all measurements, the worst
predictions first. A prediction is read from its file, which was written before the second device was
recorded, and is never made anew here.
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
"""A row is said to change where its predicted time differs by more than this share."""


@dataclass(frozen=True)
class Compared:
    """A row on both devices."""

    predicted: PredictedRow
    """What was said beforehand."""
    row: Row | None
    """The row of the same key in the second device's record; None where it has none yet."""

    @property
    def ratio(self) -> float | None:
        """Recorded on the first over recorded on the second."""
        return self.predicted.recorded_us / self.row.median if self.row and self.row.median else None

    @property
    def residual(self) -> float | None:
        """Recorded over predicted, less one: above 0 it took longer than predicted."""
        return self.row.median / self.predicted.predicted_us - 1 if self.row and self.row.median else None

    def within(self, tolerance: float) -> bool | None:
        """Whether the prediction held; None where nothing is recorded."""
        return None if self.residual is None else abs(self.residual) <= tolerance

    @property
    def as_said(self) -> bool | None:
        """Whether a row that was said to change changed, and one that was said to stay stayed."""
        return None if self.ratio is None else (abs(self.ratio - 1) > CHANGES) == self.predicted.changes


@dataclass(frozen=True)
class Outcome:
    """An experiment on both devices: its rows that were predicted and recorded."""

    experiment: str
    rows: tuple[Compared, ...]

    @property
    def error(self) -> float:
        """How far off the prediction was: the median of the rows' errors, signs left out."""
        return median(abs(one.residual or 0) for one in self.rows)

    @property
    def largest(self) -> Compared:
        """The row that was furthest off."""
        return max(self.rows, key=lambda one: abs(one.residual or 0))

    @property
    def waits_for(self) -> str:
        """What most rows were said to wait for."""
        return Counter(one.predicted.waits_for for one in self.rows).most_common(1)[0][0]


def predictions(archive: Archive) -> list[Prediction]:
    """Every prediction of the project, by device.

    Raises:
        RecordError: one of them cannot be believed.
    """
    folder = archive.root / FOLDER
    return [read_prediction(path, archive.shown(path)) for path in sorted(folder.glob("*.json"))]


def compare(made: Prediction, archive: Archive) -> list[Compared]:
    """Each predicted row beside the row that the second device's record has of the same key."""
    records = {
        record.experiment: record
        for record in archive.records()
        if (known := device(str(record.provenance["device"]))) is not None and known.name == made.device
    }
    found = []
    for row in made.rows:
        record = records.get(row.experiment)
        rows = record.rows if record else ()
        same = [one for one in rows if one.tokens and one.tokens == row.key and one.median]
        match = min(same, key=lambda one: one.variant != row.variant, default=None)
        found.append(Compared(row, match))
    return found


def outcomes(rows: Sequence[Compared]) -> list[Outcome]:
    """The experiments that were predicted and recorded, the worst prediction first."""
    recorded = [one for one in rows if one.row is not None]
    names = dict.fromkeys(one.predicted.experiment for one in recorded)
    found = [
        Outcome(name, tuple(one for one in recorded if one.predicted.experiment == name)) for name in names
    ]
    return sorted(found, key=lambda one: -one.error)


def fragment(archive: Archive) -> str:
    """For each prediction a summary, a table of its experiments and, folded, of its rows, as HTML."""
    parts = []
    for made in predictions(archive):
        rows = compare(made, archive)
        parts += [f"<p>{escape(sentence)}</p>" for sentence in summary(made, rows)]
        if any(one.row is not None for one in rows):
            parts.append(_experiments(made, rows))
        parts.append(_rows(made, rows))
    return "\n".join(parts) or "<p>No other device has been predicted.</p>"


def summary(made: Prediction, rows: Sequence[Compared]) -> Iterator[str]:
    """What came of a prediction, in sentences whose numbers are counted here."""
    changing = [one for one in rows if one.predicted.changes]
    yield (
        f"Predicted on {made.date} from the records of the {made.recorded_on}: {len(changing):,} of "
        f"{len(rows):,} rows change by more than {CHANGES:.0%} on an {made.device}. By the data sheets, it "
        f"has {made.memory_ratio:.2f}× the memory bandwidth and {made.chip_ratio:.2f}× the SMs times clock."
    )
    for day in sorted({one.predicted.date for one in rows if one.predicted.date}):
        added = [one for one in rows if one.predicted.date == day]
        experiments = {one.predicted.experiment for one in added}
        yield f"{len(added):,} of these rows, in {len(experiments)} experiments, were added on {day}."
    recorded = [one for one in rows if one.row is not None]
    if not recorded:
        yield f"No {made.device} has been recorded since."
        return
    held = [one for one in recorded if one.within(made.tolerance)]
    said = [one for one in recorded if one.as_said]
    yield (
        f"Recorded since: {len(recorded):,} rows. {len(held):,} of them are within {made.tolerance:.0%} of "
        f"the predicted time, and for {len(said):,} the prediction was right about whether they change."
    )
    if len(recorded) < len(rows):
        yield f"{len(rows) - len(recorded)} rows have not been recorded on an {made.device}."


def facts(archive: Archive, experiment: str) -> str:
    """What was predicted of an experiment and what came of it, in a sentence.

    Raises:
        KeyError: it was not predicted, or not recorded since.
    """
    for made in predictions(archive):
        for one in outcomes(compare(made, archive)):
            if one.experiment == experiment:
                said = _span([row.predicted.ratio for row in one.rows])
                seen = _span([row.ratio or 0 for row in one.rows])
                return (
                    f"predicted {said}× the {driver_name(made.recorded_on)}'s speed, recorded {seen}×; "
                    f"the median error of {len(one.rows)} rows is {one.error:.0%}."
                )
    raise KeyError(experiment)


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}× to {high}"


_WAITS = {"launch": "the launch", "memory": "memory", "chip": "the chip"}


def _experiments(made: Prediction, rows: Sequence[Compared]) -> str:
    """A table of experiments, the worst prediction first."""
    first = driver_name(made.recorded_on)
    columns: list[str | Column] = [
        "experiment",
        "mostly waits for",
        Column(f"{made.device} predicted", f"{first} = 1", "right"),
        Column(f"{made.device} recorded", f"{first} = 1", "right"),
        Column("median error", "%", "right"),
        Column("largest error", "%", "right"),
        Column(f"rows within {made.tolerance:.0%}", "", "right"),
    ]
    body = [
        [
            Cell(one.experiment, href=f"#{one.experiment}"),
            _WAITS[one.waits_for],
            Cell(f"{median(row.predicted.ratio for row in one.rows):.2f}", mark="predicted"),
            Cell(f"{median(row.ratio or 0 for row in one.rows):.2f}", mark="measured"),
            f"{100 * one.error:.1f}",
            _percent(one.largest.residual),
            f"{sum(bool(row.within(made.tolerance)) for row in one.rows)} of {len(one.rows)}",
        ]
        for one in outcomes(rows)
    ]
    return Table(columns, body).html(classes="tw-all-rows")


def _rows(made: Prediction, rows: Sequence[Compared]) -> str:
    """A folded table of all rows, the worst prediction first."""
    columns: list[str | Column] = [
        "experiment",
        "variant",
        "size",
        Column(driver_name(made.recorded_on), "µs", "right"),
        Column(f"{made.device} predicted", "µs", "right"),
        Column(f"{made.device} recorded", "µs", "right"),
        Column("error", "%", "right"),
    ]
    body = [
        [
            one.predicted.experiment,
            one.predicted.variant,
            case_text(one.predicted.case),
            one.predicted.recorded_us,
            one.predicted.predicted_us,
            one.row.median if one.row else None,
            _percent(one.residual),
        ]
        for one in sorted(rows, key=lambda one: -abs(one.residual or 0))
    ]
    table = Table(columns, body).html(classes="tw-all-rows")
    return f'<details class="tw-rows"><summary>All {len(rows):,} rows</summary>{table}</details>'


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f}"
