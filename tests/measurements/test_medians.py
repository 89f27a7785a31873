"""Recorded numbers for lessons: NaN where nobody has recorded them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tilewise import bf16
from tilewise.measurements import medians as module
from tilewise.measurements.medians import complete, medians, printed_numbers, recorded
from tilewise.measurements.references import bf16_product, matrix_product


def _row(variant: str, n: int, recorded: float | None, here: float | None = None) -> dict[str, Any]:
    times = {"recorded": recorded, "here": here}
    given = {name: None if us is None else {"median": us} for name, us in times.items()}
    return {"variant": variant, "parameters": {"n": n}, **given}


def test_medians_are_recorded_else_timed_here_else_nan() -> None:
    rows = (_row("a", 1, 2.0, 3.0), _row("a", 2, None, 3.0), _row("b", 1, None))
    measured = cast("Any", SimpleNamespace(rows=rows))
    found = medians(measured, "n")
    assert (found["a", 1], found["a", 2]) == (2.0, 3.0)
    assert math.isnan(found["b", 1]) and math.isnan(found["c", 7])
    assert not complete(found)
    assert medians(cast("Any", SimpleNamespace(rows=rows[:1]))) == {"a": 2.0}


def test_printed_numbers_are_found_by_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "64, eager: 1.5 us\n128, eager: 2.5 us\n"
    monkeypatch.setattr(module, "text_record", lambda *_: SimpleNamespace(text=text))
    assert printed_numbers("a/b", "c", r"^(\d+), (\w+): ([\d.]+) us$") == {
        (64, "eager"): 1.5,
        (128, "eager"): 2.5,
    }
    assert printed_numbers("a/b", "c", r"^(\d+), \w+: ([\d.]+) us$") == {64: 1.5, 128: 2.5}


def test_without_a_record_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "text_record", lambda *_: None)
    found = printed_numbers("a/b", "c", r"(\w+): (\d+)")
    assert not complete(found) and math.isnan(found["x"])


def test_a_value_is_found_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lookup", {"sums": {"tree": {"median": 2.0}}}.get)
    assert recorded("sums.tree.median") == 2.0
    assert math.isnan(recorded("sums.tree.p20")) and math.isnan(recorded("other.tree.median"))


def test_a_product_is_right() -> None:
    A, B = np.arange(6.0).reshape(2, 3), np.ones((3, 2))  # noqa: N806 - as in the lessons
    assert (matrix_product(A, B)["C"] == A @ B).all()
    bits = {name: bf16.bits(array) for name, array in (("A", A), ("B", B))}
    assert (bf16_product(bits) == A @ B).all()
