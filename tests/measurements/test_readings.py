"""Recorded numbers as lessons compute with them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from tilewise.measurements import readings

ROWS = [
    {"variant": "a", "parameters": {"N": 2, "d": 8}, "recorded": {"median": 4.0}, "here": None},
    {"variant": "a", "parameters": {"N": 3, "d": 8}, "recorded": None, "here": {"median": 5.0}},
    {"variant": "b", "parameters": {"N": 2, "d": 8}, "recorded": None, "here": None},
]
MEASURED: Any = SimpleNamespace(rows=ROWS)
PRINTED = "small: off by 1e-6, torch by 2e-6\nlarge: off by 4e-6, torch by 1e-6\n"


def test_medians_by_variant_and_parameters() -> None:
    assert readings.medians(MEASURED, by="N d")["a", 3, 8] == 5.0
    assert readings.medians(MEASURED, MEASURED)["a"] == 5.0
    assert math.isnan(readings.medians(MEASURED)["b"])
    assert math.isnan(readings.medians(MEASURED)["a variant that is not timed"])


def test_rates_are_operations_by_medians() -> None:
    found = readings.rates(MEASURED, lambda **sizes: 1e6 * sizes["N"] * sizes["d"])
    assert found["a", 2, 8] == 4.0
    assert math.isnan(found["b", 2, 8])


def test_a_recorded_value_by_its_path() -> None:
    assert readings.recorded_value("attention_flash.kernel_6_flash.n_1024_d_128.median") > 0
    assert math.isnan(readings.recorded_value("attention_flash.no_such_variant.median"))
    assert math.isnan(readings.recorded_value("no_such_experiment.median"))


def test_what_a_cell_printed_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "text_record", lambda *_: SimpleNamespace(text=PRINTED))
    assert readings.printed("a/lesson", "errors", r"^(\w+): off by (\S+),") == [
        ("small", 1e-6),
        ("large", 4e-6),
    ]
    assert readings.printed_numbers("a/lesson", "errors", r"^(\w+): off by (\S+),")["large"] == 4e-6
    assert readings.printed_errors("a/lesson", "torch") == {
        "most": 4e-6,
        "other": 2e-6,
        "worst_times": pytest.approx(4),
    }


def test_nothing_is_printed_without_a_record() -> None:
    assert readings.printed("attention/softmax", "no such cell", "(.)") == []
    assert all(map(math.isnan, readings.printed_errors("attention/softmax", "torch", "none").values()))


def test_numbers_are_complete_if_none_is_missing() -> None:
    assert readings.complete(1.0, 2.0)
    assert not readings.complete(1.0, math.nan)
    assert not readings.complete()
