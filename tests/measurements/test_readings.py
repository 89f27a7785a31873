"""Recorded numbers as lessons compute with them; NaN where nobody has recorded them."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from test_record import record

from tilewise.measurements import readings
from tilewise.measurements.archive import Archive
from tilewise.measurements.record import write_record

ROWS = [
    {"variant": "a", "parameters": {"N": 2, "d": 8}, "recorded": {"median": 4.0}, "here": {"median": 9.0}},
    {"variant": "a", "parameters": {"N": 3, "d": 8}, "recorded": None, "here": {"median": 5.0}},
    {"variant": "b", "parameters": {"N": 2, "d": 8}, "recorded": None, "here": None},
]
MEASURED: Any = SimpleNamespace(rows=ROWS)
PRINTED = "small: off by 1e-6, torch by 2e-6\nlarge: off by 4e-6, torch by 1e-6\n64, eager: 1.5 us\n"


def test_medians_are_recorded_else_timed_here_else_missing():
    medians = readings.medians_us(MEASURED, "N", "d")
    assert (medians["a", 2, 8], medians["a", 3, 8]) == (4.0, 5.0)
    assert math.isnan(medians["b", 2, 8]) and math.isnan(medians["c", 2, 8])
    assert readings.medians_us(MEASURED)["a"] == 5.0


def test_rates_are_operations_by_medians():
    rates = readings.rates(MEASURED, lambda **sizes: 1e6 * sizes["N"] * sizes["d"])
    assert rates["a", 2, 8] == 4.0
    assert math.isnan(rates["b", 2, 8])


def test_a_recorded_value_is_found_by_its_path(tmp_path, monkeypatch):
    archive = Archive(tmp_path / "lessons")
    write_record(record(), archive.path("vector_add", "NVIDIA H100 80GB HBM3"))
    monkeypatch.setenv("TILEWISE_LESSONS", str(archive.root))
    assert readings.recorded("vector_add.one_float.n_1000.median") == 10.0
    assert readings.recorded("vector_add.device") == "NVIDIA H100 80GB HBM3"
    assert math.isnan(readings.recorded("vector_add.no_such_variant.median"))
    assert readings.recorded("no_such_experiment.one_float.median", missing=None) is None
    assert readings.recorded("vector_add.one_float.n_1000.median", device="NVIDIA H100 80GB HBM3") == 10.0


def test_a_step_takes_what_its_run_takes_longer_than_the_one_before():
    rows = [
        {"variant": name, "recorded": {"median": us}, "here": None}
        for name, us in (("a", 4.0), ("a, b", 9.0))
    ]
    measured: Any = SimpleNamespace(rows=rows)
    assert readings.step_times(("a", "b"), measured) == {"a": 4.0, "b": 5.0}
    steps = readings.step_times(("scores", "softmax", "sum"), "attention_steps")
    until = readings.recorded("attention_steps.scores_softmax_weighted_sum.median")
    assert math.isclose(sum(steps.values()), until)
    assert all(math.isnan(us) for us in readings.step_times(("a", "b"), "no_such_experiment").values())


def test_a_load_of_device_memory_takes_hundreds_of_nanoseconds():
    assert 100 < readings.memory_latency_ns() < 1000


def test_what_a_cell_printed_is_taken_apart(monkeypatch):
    monkeypatch.setattr(readings, "text_record", lambda *_, **__: SimpleNamespace(text=PRINTED))
    rows = readings.printed_rows("a/lesson", "errors", r"^(\w+): off by (\S+),")
    assert rows == [("small", 1e-6), ("large", 4e-6)]
    assert readings.printed_numbers("a/lesson", "errors", r"^(\w+): off by (\S+),")["large"] == 4e-6
    assert readings.printed_numbers("a/lesson", "c", r"^(\d+), (\w+): ([\d.]+) us$") == {(64, "eager"): 1.5}
    errors = {"most": 4e-6, "other": 2e-6, "worst_times": pytest.approx(4)}
    assert readings.printed_errors("a/lesson", "torch") == errors


def test_without_a_record_nothing_was_printed(monkeypatch):
    monkeypatch.setattr(readings, "text_record", lambda *_, **__: None)
    assert readings.printed("a/lesson", "c") == ""
    assert not readings.complete(readings.printed_numbers("a/lesson", "c", r"(\w+): (\d+)"))
    assert all(map(math.isnan, readings.printed_errors("a/lesson", "torch").values()))


def test_numbers_are_complete_if_none_is_missing():
    assert readings.complete(1.0, {"a": 2.0})
    assert not readings.complete(1.0, math.nan)
    assert not readings.complete({"a": math.nan})
    assert not readings.complete({})
    assert not readings.complete()
