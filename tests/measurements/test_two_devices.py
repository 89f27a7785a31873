"""What the page of all measurements says in words of an H100 and an H200 holds in their records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tilewise.measurements import comparison
from tilewise.measurements.archive import Archive

LESSONS = Path(__file__).parents[2] / "lessons"
LONG, LONGEST = (2**22, 2**26), 2**26


def _size(case: Mapping[str, Any]) -> int:
    return int(case.get("n") or case.get("width") or 0)


@pytest.fixture(scope="module")
def ratios() -> dict[tuple[str, str, int], tuple[float, float]]:
    """Ratio predicted and recorded by experiment, variant and n, of the rows that have both."""
    archive = Archive(LESSONS)
    made = next(one for one in comparison.predictions(archive) if one.device == "H200")
    return {
        (one.predicted.experiment, one.predicted.variant, _size(one.predicted.case)): (
            one.predicted.ratio,
            one.ratio,
        )
        for one in comparison.compare(made, archive)
        if one.ratio is not None
    }


@pytest.mark.parametrize("variant", ["cupy.add", "blocks of 32"])
def test_rows_that_were_said_to_gain_and_stayed(ratios: dict, variant: str) -> None:
    for n in LONG:
        predicted, recorded = ratios["vec_add", variant, n]
        assert predicted > 1.05
        assert recorded == pytest.approx(1, abs=0.01)


def test_the_row_that_gained_what_the_memories_differ_by(ratios: dict) -> None:
    assert ratios["vec_add", "torch.add", LONGEST][1] == pytest.approx(1.432, abs=0.03)


@pytest.mark.parametrize("variant", ["blocks of 256", "blocks of 1,024"])
def test_rows_that_lie_between(ratios: dict, variant: str) -> None:
    for n in LONG:
        predicted, recorded = ratios["vec_add", variant, n]
        assert 1.05 < recorded < predicted


def test_what_the_host_owes_got_shorter_too(ratios: dict) -> None:
    assert ratios["vec_add_with_copies", "with copies, ordinary memory", 2**24][1] > 1.2
    assert ratios["vec_add_with_copies", "kernel alone", 20_000][1] > 1.05


@pytest.mark.parametrize("width", [1920, 8192])
def test_of_the_mirrored_picture_one_row_stayed_and_one_gained_more_than_was_said(
    ratios: dict, width: int
) -> None:
    predicted, recorded = ratios["mirror", "cupy, reversed view", width]
    assert predicted > 1.1
    assert recorded == pytest.approx(1, abs=0.02)
    predicted, recorded = ratios["mirror", "1 x 256", width]
    assert recorded > predicted + 0.03
