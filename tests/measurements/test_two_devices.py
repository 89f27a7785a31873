"""What the page of all measurements says in words of an H100 and an H200 is so in their records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilewise.measurements import comparison
from tilewise.measurements.archive import Archive
from tilewise.measurements.comparison import Compared
from tilewise.measurements.prediction import Prediction
from tilewise.models.scaling import CHANGES

ARCHIVE = Archive(Path(__file__).parents[2] / "lessons")


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return next(one for one in comparison.predictions(ARCHIVE) if one.device == "H200")


def stayed_although_predicted_to_gain(row: Compared, _: Prediction) -> bool:
    return row.predicted.changes and not row.as_said


def gained_as_much_as_the_memories_differ(row: Compared, prediction: Prediction) -> bool:
    return abs(row.ratio / prediction.memory_ratio - 1) <= prediction.tolerance


def gained_less_than_predicted(row: Compared, _: Prediction) -> bool:
    return 1 + CHANGES < row.ratio < row.predicted.ratio


def gained_more_than_predicted(row: Compared, _: Prediction) -> bool:
    return row.ratio > max(row.predicted.ratio, 1 + CHANGES)


@pytest.mark.parametrize(
    ("experiment", "variant", "sizes", "holds"),
    [
        ("vec_add", "cupy.add", (2**22, 2**26), stayed_although_predicted_to_gain),
        ("vec_add", "blocks of 32", (2**22, 2**26), stayed_although_predicted_to_gain),
        ("vec_add", "torch.add", (2**26,), gained_as_much_as_the_memories_differ),
        ("vec_add", "blocks of 256", (2**22, 2**26), gained_less_than_predicted),
        ("vec_add", "blocks of 1,024", (2**22, 2**26), gained_less_than_predicted),
        ("vec_add_with_copies", "with copies, ordinary memory", (2**24,), gained_more_than_predicted),
        ("vec_add_with_copies", "kernel alone", (20_000,), gained_more_than_predicted),
        ("mirror", "cupy, reversed view", (1920, 8192), stayed_although_predicted_to_gain),
        ("mirror", "1 x 256", (1920, 8192), gained_more_than_predicted),
    ],
)
def test_a_row_did_what_the_page_says(
    prediction: Prediction,
    experiment: str,
    variant: str,
    sizes: tuple[int, ...],
    holds: Callable[[Compared, Prediction], bool],
) -> None:
    rows = {
        row.predicted.case.get("n") or row.predicted.case.get("width"): row
        for row in comparison.compare(prediction, ARCHIVE)
        if (row.predicted.experiment, row.predicted.variant) == (experiment, variant)
    }
    assert [size for size in sizes if not holds(rows[size], prediction)] == []
