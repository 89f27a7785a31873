"""Two devices: what was predicted of one from the records of the other, and what came of it.

In: predictions and the archive. Out: fragments of HTML for the page of all measurements. The prediction is
read from its file, which was written before the second device was recorded, and is never made anew here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tilewise.measurements.archive import Archive
from tilewise.measurements.births import birth_id, born, microseconds
from tilewise.measurements.every_row import cell, row_head, side, unit_of
from tilewise.measurements.prediction import FOLDER, PredictedRow, Prediction, read_prediction
from tilewise.measurements.record import Record, Row
from tilewise.measurements.rounds import spread_of
from tilewise.measurements.slugs import case_text
from tilewise.models.devices import device
from tilewise.models.scaling import CHANGES


@dataclass(frozen=True)
class Compared:
    """A row on both devices."""

    predicted: PredictedRow
    """What was said beforehand."""
    record: Record | None
    """The second device's record; None where it has no row of the same key yet."""
    row: Row | None
    """The row in it."""

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
        found.append(Compared(row, record if match else None, match))
    return found


def fragment(archive: Archive) -> str:
    """A heading, a summary and a table for each prediction, as HTML without blank lines."""
    parts = []
    for made in predictions(archive):
        rows = compare(made, archive)
        parts += [f"<p>{escape(sentence)}</p>" for sentence in summary(made, rows)]
        parts.append(_table(made, rows))
    return "\n".join(parts) or "<p>Nothing is predicted of another device.</p>"


def summary(made: Prediction, rows: Sequence[Compared]) -> Iterator[str]:
    """What came of a prediction, in sentences whose numbers are counted here."""
    changing = [one for one in rows if one.predicted.changes]
    yield (
        f"Predicted on {made.date} from the records on {made.recorded_on}: of {len(rows)} rows, "
        f"{len(changing)} change by more than {CHANGES:.0%} on an {made.device}, whose maker states "
        f"{made.memory_ratio:.2f} times the memory bandwidth and {made.chip_ratio:.2f} times the product of "
        "SMs and clock."
    )
    for day in sorted({one.predicted.date for one in rows if one.predicted.date}):
        added = [one for one in rows if one.predicted.date == day]
        experiments = {one.predicted.experiment for one in added}
        yield f"Added on {day}: {len(added)} of these rows, in {len(experiments)} experiments."
    recorded = [one for one in rows if one.row is not None]
    if not recorded:
        yield f"No {made.device} has been recorded since; the prediction waits for it."
        return
    held = [one for one in recorded if one.within(made.tolerance)]
    said = [one for one in recorded if one.as_said]
    yield (
        f"Recorded since: {len(recorded)} of them. {len(held)} lie within {made.tolerance:.0%} of the "
        f"predicted time, and of {len(said)} it was said rightly whether they change."
    )
    missed = [one for one in recorded if not one.within(made.tolerance)]
    if missed:
        worst = max(missed, key=lambda one: abs(one.residual or 0))
        yield (
            f"The largest miss: {worst.predicted.experiment}, {worst.predicted.variant} at "
            f"{case_text(worst.predicted.case)}, {worst.residual:+.0%}."
        )
    if len(recorded) < len(rows):
        yield f"{len(rows) - len(recorded)} rows have no record of the same key on an {made.device}."


_WAITS = {"launch": "the launch", "memory": "the memory", "chip": "the chip"}


def _table(made: Prediction, rows: Sequence[Compared]) -> str:
    own = device(made.recorded_on)
    first, second = own.name if own else made.recorded_on, made.device
    heads = [
        ("variant", "", False), ("most of it", "", False), (first, "µs", True),
        (f"{second} predicted", "µs", True), (f"{second} recorded", "µs", True),
        ("ratio predicted", "", True), ("ratio recorded", "", True),
        ("recorded / predicted - 1", "%", True), ("within the tolerance", "", False),
    ]  # fmt: skip
    top = "".join(
        f'<th scope="col"{side(right)}>{escape(head)}{unit_of(unit)}</th>' for head, unit, right in heads
    )
    body = [
        f'<tr data-experiment="{escape(one.predicted.experiment)}" data-within="{_within(made, one)}">'
        f"{''.join(_cells(made, one))}</tr>"
        for one in rows
    ]
    return "\n".join([
        '<div class="tw-table tw-all-rows" tabindex="0" role="group" '
        f'aria-label="{escape(first)} and {escape(second)}">',
        f'<table class="tw-sortable" data-filters="experiment within"><thead><tr>{top}</tr></thead>',
        "<tbody>", *body, "</tbody></table></div>",
    ])  # fmt: skip


def _cells(made: Prediction, one: Compared) -> Iterator[str]:
    told = one.predicted
    yield row_head(told.variant, told.experiment, told.case, link=f"#{told.experiment}")
    yield f"<td>{_WAITS[told.waits_for]}</td>"
    first = born(microseconds(told.recorded_us), birth_id(told.experiment, made.recorded_on))
    yield cell(told.recorded_us, "measured", first)
    yield cell(told.predicted_us, "predicted", microseconds(told.predicted_us))
    if one.row is None or one.record is None or one.row.median is None:
        yield cell(None) + cell(told.ratio, "predicted", f"{told.ratio:.2f}") + cell(None) * 2
        yield f"<td>{_within(made, one)}</td>"
        return
    birth = birth_id(told.experiment, one.record.provenance["device"])
    spread = spread_of(one.row)
    yield cell(one.row.median, "measured", born(microseconds(one.row.median), birth, spread))
    yield cell(told.ratio, "predicted", f"{told.ratio:.2f}")
    assert one.ratio is not None
    assert one.residual is not None
    yield cell(one.ratio, "measured", f"{one.ratio:.2f}")
    yield cell(100 * one.residual, "", f"{100 * one.residual:+.1f}")
    within = _within(made, one)
    yield f'<td class="tw-off">{within}</td>' if within == "no" else f"<td>{within}</td>"


def _within(made: Prediction, one: Compared) -> str:
    if one.row is None or one.record is None or one.row.median is None:
        return "not recorded"
    return "yes" if one.within(made.tolerance) else "no"
