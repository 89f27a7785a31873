"""Predictions for a device that has not been measured: made from records, kept whole, never made twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewise.__main__ import main
from tilewise.measurements.archive import Archive
from tilewise.measurements.prediction import known_device, predict, prediction_path, read_prediction
from tilewise.measurements.record import Record, RecordError, Row, write_record

CEILINGS = {"memory_gb_per_s": 3260.0, "tflop_per_s": {"fp32": 64.0}, "launch_us": 3.2, "probes": {}}
BORN = {"device": "NVIDIA H100 80GB HBM3", "date": "2026-11-21", "versions": {}, "ceilings": CEILINGS}


def row(variant: str, median: float | None, moved: float | None) -> Row:
    samples = (median,) if median else ()
    return Row(variant, "variant", {"n": 8}, samples, median, median, median, None, moved, None)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one record of three rows, one of them with counters alone."""
    folder = tmp_path / "lessons"
    rows = (row("wide", 260.0, 3260e9 * 240e-6), row("serial", 40_000.0, None), row("counted", None, 12.0))
    record = Record("adding", "kernels/adding", "fp32", BORN, rows)
    write_record(record, folder / "measurements" / "nvidia-h100-80gb-hbm3" / "adding.json")
    monkeypatch.chdir(tmp_path)
    return folder


def test_every_timed_row_is_carried_over(root: Path) -> None:
    made = predict(Archive(root), known_device("h200"), "2026-11-21")
    assert (made.device, made.recorded_on, made.memory_ratio, made.chip_ratio) == (
        "H200", "NVIDIA H100 80GB HBM3", 1.432, 1.0,
    )  # fmt: skip
    assert [(one.variant, one.changes, one.waits_for) for one in made.rows] == [
        ("wide", True, "memory"), ("serial", False, "chip"),
    ]  # fmt: skip
    assert made.rows[0].predicted_us == pytest.approx(3.2 + 240 / 1.43198 + 16.8, rel=1e-4)


def test_the_command_writes_one_file_and_keeps_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--device", "H200"]) == 0
    assert "predictions/h200.json: 2 rows, predicted from the NVIDIA H100" in capsys.readouterr().out
    path = prediction_path(root, known_device("H200"))
    before = path.read_bytes()
    assert read_prediction(path) == predict(Archive(root), known_device("H200"), read_prediction(path).date)
    assert main(["predict", "--device", "NVIDIA H200"]) == 0
    assert path.read_bytes() == before


def test_what_a_prediction_lacks_is_added_and_what_it_says_stays(root: Path) -> None:
    main(["predict", "--device", "H200"])
    path = prediction_path(root, known_device("H200"))
    before = read_prediction(path)
    folder = root / "measurements" / "nvidia-h100-80gb-hbm3"
    for name in ("adding", "later"):
        record = Record(name, "kernels/adding", "fp32", BORN, (row("wide", 520.0, None),))
        write_record(record, folder / f"{name}.json")
    assert main(["predict", "--device", "H200"]) == 0
    after = read_prediction(path)
    assert after.rows[: len(before.rows)] == before.rows
    assert [(one.experiment, one.recorded_us, one.date) for one in after.rows[len(before.rows) :]] == [
        ("later", 520.0, after.rows[-1].date)
    ]
    assert after.rows[-1].date


def test_an_unknown_device_and_an_empty_archive_are_said(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "--device", "H20"]) == 1
    assert 'the device table has no "H20"' in capsys.readouterr().err
    next(root.rglob("adding.json")).unlink()
    assert main(["predict", "--device", "H200"]) == 1
    assert "there is no record to start from" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["truncate", "edit", "foreign"])
def test_a_prediction_that_was_touched_is_not_believed(root: Path, damage: str) -> None:
    main(["predict", "--device", "H200"])
    path = prediction_path(root, known_device("H200"))
    text = path.read_text(encoding="utf-8")
    body = json.loads(text)
    body["rows"][0]["predicted_us"] = 186.0
    changed = {"truncate": text[:300], "edit": json.dumps(body), "foreign": '{"schema": 1}'}
    path.write_text(changed[damage], encoding="utf-8")
    with pytest.raises(RecordError, match=r"no JSON|edited by hand|not of form 1"):
        read_prediction(path)


def test_the_courses_own_device_is_shown_first_whatever_others_are_called(root: Path) -> None:
    for name in ("nvidia-a100", "nvidia-h200"):
        (root / "measurements" / name).mkdir()
    assert Archive(root).devices == ("nvidia-h100-80gb-hbm3", "nvidia-h200", "nvidia-a100")
    assert Archive(root).home == "nvidia-h100-80gb-hbm3"
