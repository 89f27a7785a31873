"""Medians for charts: recorded before timed here, by variant and parameters, NaN for what is missing."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_record import record

from tilewise.measurements import medians_us, recorded, recorded_us
from tilewise.measurements.archive import Archive
from tilewise.measurements.record import write_record


def row(variant: str, n: int, recorded: float | None, here: float | None) -> dict[str, Any]:
    def times(median: float | None) -> dict[str, float] | None:
        return None if median is None else {"median": median}

    return {"variant": variant, "parameters": {"n": n}, "recorded": times(recorded), "here": times(here)}


def test_a_row_gives_its_recorded_median_else_the_one_timed_here() -> None:
    assert recorded_us(row("naive", 1, 2.0, 3.0)) == 2.0
    assert recorded_us(row("naive", 1, None, 3.0)) == 3.0
    assert math.isnan(recorded_us(row("naive", 1, None, None)))


def test_medians_are_found_by_variant_and_by_parameters() -> None:
    rows = (row("naive", 1, 2.0, None), row("tiled", 1, 1.0, None), row("tiled", 8, 4.0, None))
    made: Any = SimpleNamespace(rows=rows)
    assert medians_us(made, "n") == {("naive", 1): 2.0, ("tiled", 1): 1.0, ("tiled", 8): 4.0}
    made = SimpleNamespace(rows=rows[:2])
    assert medians_us(made) == {"naive": 2.0, "tiled": 1.0}


def test_a_recorded_value_is_found_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive(tmp_path / "lessons")
    write_record(record(), archive.path("vector_add", "NVIDIA H100 80GB HBM3"))
    monkeypatch.setenv("TILEWISE_LESSONS", str(archive.root))
    assert recorded("vector_add.one_float.n_1000.median") == 10.0
    assert recorded("vector_add.device") == "NVIDIA H100 80GB HBM3"
    assert math.isnan(recorded("vector_add.no_such_variant.median"))
    assert math.isnan(recorded("no_such_experiment.one_float.median"))
