"""The page of all measurements: every row with its prediction, and another device beside the course's own."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from test_output import row as shown_row

from tilewise.measurements import comparison
from tilewise.measurements.archive import Archive
from tilewise.measurements.output import Measurement
from tilewise.measurements.page import FRAGMENTS, Lessons, fragment, lines, record_files
from tilewise.measurements.prediction import PredictedRow, Prediction, read_prediction, write_prediction
from tilewise.measurements.record import Record, RecordError, Row, write_record

CEILINGS = {"memory_gb_per_s": 3352.0, "tflop_per_s": {"fp32": 64.0}, "launch_us": 3.2, "probes": {}}
BORN = {"device": "NVIDIA H100 80GB HBM3", "date": "2026-11-21", "versions": {}, "ceilings": CEILINGS,
        "sm_clock_mhz": 1980.0, "driver": "580.1"}  # fmt: skip
BYTES = 3352e9 * 240e-6


def cells_of(line: str) -> list[str]:
    return re.findall(r"<t[hd][ >].*?</t[hd]>", line)


def row(variant: str, n: int, median: float, role: str = "variant", moved: float | None = BYTES) -> Row:
    times = (median,), median - 1, median, median + 1
    return Row(variant, role, {"n": n}, *times, None, moved, None, tokens=f"{variant} {n}")


ROWS = (
    row("wide", 8, 260.0), row("serial", 8, 4000.0, moved=None), row("cupy.add", 8, 300.0, "library"),
    Row("wide", "variant", {"n": 4}, (), None, None, None, {"global_load_sectors": 2.0,
                                                           "global_store_sectors": 1.0}),
)  # fmt: skip
RECORD = Record("adding", "kernels/adding", "fp32", BORN, ROWS)
MADE = Measurement(
    name="adding", lesson="kernels/adding", count_case={"n": 4}, counts=("sectors",),
    rows=(shown_row("wide", simulated={"global_load_sectors": 2.0, "global_store_sectors": 1.0}),),
    provenance=BORN, stale="", notes=(), inputs=(),
)  # fmt: skip
LESSONS = Lessons(
    {"kernels/adding": (MADE,)}, {"kernels/adding": "Adding"}, {"kernels/adding": "lessons/kernels/adding/"}
)


def predicted(variant: str, recorded_us: float, predicted_us: float, waits_for: str) -> PredictedRow:
    ratio = recorded_us / predicted_us
    parts = {"launch_us": 3.2, "memory_us": 240.0, "rest_us": 0.0}
    return PredictedRow(
        experiment="adding", lesson="kernels/adding", key=f"{variant} 8", variant=variant, case={"n": 8},
        recorded_us=recorded_us, predicted_us=predicted_us, ratio=ratio, waits_for=waits_for,
        changes=ratio > 1.05, **parts,
    )  # fmt: skip


PREDICTED = Prediction(
    "H200", "NVIDIA H100 80GB HBM3", "2026-11-21", 0.1, 1.432, 1.0,
    (predicted("wide", 260.0, 187.6, "memory"), predicted("serial", 4000.0, 4000.0, "chip"),
     predicted("cupy.add", 300.0, 227.6, "memory")),
)  # fmt: skip


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """One record on an H100, and what was predicted from it for an H200."""
    root = tmp_path / "lessons"
    write_record(RECORD, root / "measurements" / "nvidia-h100-80gb-hbm3" / "adding.json")
    write_prediction(PREDICTED, root / "predictions" / "h200.json")
    return Archive(root)


def on_an_h200(archive: Archive, factor: float, **keys: str) -> None:
    """Record what the prediction says, times a factor."""
    (made,) = comparison.predictions(archive)
    told = {one.variant: one.predicted_us for one in made.rows}
    rows = tuple(
        replace(row(one.variant, 8, told[one.variant] * factor, one.role), **keys)
        for one in ROWS
        if one.median
    )
    record = replace(RECORD, provenance=BORN | {"device": "NVIDIA H200"}, rows=rows)
    write_record(record, archive.root / "measurements" / "nvidia-h200" / "adding.json")
    vars(archive).pop("devices", None)


def test_every_row_is_there_with_what_was_predicted_simulated_counted_and_measured(archive):
    found = [
        (one.row.variant, one.row.case["n"], one.predicted_us and round(one.predicted_us), *one.shown,
         one.row.median)
        for one in lines(LESSONS, archive)
    ]  # fmt: skip
    assert found == [
        ("wide", 8, 240, None, None, 260.0), ("serial", 8, None, None, None, 4000.0),
        ("cupy.add", 8, 240, None, None, 300.0), ("wide", 4, None, 3.0, 3.0, None),
    ]  # fmt: skip


def test_the_table_leads_to_lesson_record_and_provenance_and_can_be_sorted(archive):
    html = fragment("all", LESSONS, archive)
    assert '<a href="../lessons/kernels/adding/#adding">adding</a>' in html
    assert '<a href="nvidia-h100-80gb-hbm3/adding.json" data-record-file>adding.json</a>' in html
    origin = "provenance-nvidia-h100-80gb-hbm3-adding"
    assert f'data-provenance="{origin}" data-spread="p20 259 µs, median 260 µs, p80 261 µs">260</a>' in html
    assert 'data-value="92.3' in html, "240 predicted of 260 recorded, in percent"
    assert 'data-value="20"' in html, "the 20 µs that the bound leaves unexplained"
    assert html.count('<tr id="adding"') == 1
    heads, first = re.search(r"<thead><tr>(.*)</tr>", html), re.search(r'<tr id="adding".*</tr>', html)
    assert heads and first and len(cells_of(heads[1])) == len(cells_of(first[0])) == 7
    lists = fragment("provenance", LESSONS, archive)
    assert f'<dl class="tw-provenance-list" id="{origin}">' in lists
    assert "<dt>SM clock</dt><dd>1980 MHz</dd>" in lists
    assert "\n\n" not in "".join(fragment(name, LESSONS, archive) for name in FRAGMENTS)


def test_a_row_is_named_by_variant_experiment_and_size_and_keeps_the_rest_in_a_fold(archive):
    first, _, library, counted = re.findall(r"<tr[^>]*data-lesson.*</tr>", fragment("all", LESSONS, archive))
    name, fold = re.search(r"<summary>(.*)</summary>(.*)</details>", first).groups()
    assert name == "<b>wide</b><small>adding, n = 8</small>"
    assert re.findall("<dt>(.*?)</dt>", fold) == ["experiment", "record"]
    assert "<b>cupy.add</b> <i>library</i>" in library
    assert "data-spread" not in counted
    assert 'data-value="3">3<small>sectors</small>' in counted


def test_the_first_count_that_the_lesson_asks_for_is_shown_and_the_others_open(tmp_path):
    counts = {"global_load_sectors": 2.0, "global_store_sectors": 1.0, "instructions": 40.0}
    (only,) = MADE.rows
    made = replace(MADE, counts=("instructions", "sectors"), rows=({**only, "simulated": counts},))
    html = fragment("all", replace(LESSONS, measured={"kernels/adding": (made,)}), Archive(tmp_path))
    assert ">40<small>instructions</small></td>" in html
    assert "<dt>sectors</dt><dd>3 simulated</dd>" in html
    assert "<small>sectors" not in html


def test_rows_stand_under_their_lesson_and_those_of_another_device_say_so(archive):
    on_an_h200(archive, 1.0)
    html = fragment("all", LESSONS, archive)
    (title,) = re.findall(r'<tr class="tw-group"><th colspan="7" scope="rowgroup">(.*?)</th>', html)
    assert '<a href="../lessons/kernels/adding/">Adding</a>' in title
    assert 'data-first-device="NVIDIA H100 80GB HBM3"' in html
    rows = re.findall(r'<tr[^>]*data-device="([^"]*)".*</tr>', html)
    assert rows.count("NVIDIA H200") == html.count("<i>H200</i>") == 3
    assert rows.count("NVIDIA H100 80GB HBM3") == 4


def test_an_experiment_without_a_record_is_there_all_the_same(tmp_path):
    (only,) = lines(LESSONS, Archive(tmp_path))
    assert (only.row.variant, only.shown, only.record) == ("wide", (3.0, None), None)
    assert "not recorded" in fragment("all", LESSONS, Archive(tmp_path))


def test_a_stale_record_is_struck_through(archive):
    stale = replace(
        LESSONS, measured={"kernels/adding": (replace(MADE, outdated=((BORN["device"], "wide"),)),)}
    )
    assert 'class="tw-number tw-stale"' in fragment("all", stale, archive)


def test_before_the_other_device_is_recorded_the_prediction_stands_alone(archive):
    html = fragment("comparison", LESSONS, archive)
    assert "2 of 3 rows change by more than 5% on an H200" in html
    assert "No H200 has been recorded since" in html
    assert "by experiment" not in html
    (rows,) = re.findall(r"<summary>All 3 rows</summary>(.*)</details>", html, re.DOTALL)
    assert len(re.findall(r'<td class="tw-right"></td><td class="tw-right"></td></tr>', rows)) == 3


def test_a_recorded_row_stands_beside_its_prediction_with_the_residual(archive):
    on_an_h200(archive, 1.05)
    (made,) = comparison.predictions(archive)
    found = comparison.compare(made, archive)
    assert [one.residual for one in found] == pytest.approx([0.05] * 3)
    assert [one.within(made.tolerance) for one in found] == [True] * 3
    assert [one.as_said for one in found] == [True, True, True]
    html = fragment("comparison", LESSONS, archive)
    assert "Recorded since: 3 rows. 3 of them are within 10% of the predicted time" in html
    assert html.count(">+5.0</td>") == 3 + 1, "three rows, and the largest of their experiment"


def test_experiments_are_sorted_by_how_wrong_the_prediction_was(archive):
    on_an_h200(archive, 1.3)
    (made,) = comparison.predictions(archive)
    found = comparison.compare(made, archive)
    better = [replace(one, predicted=replace(one.predicted, experiment="better")) for one in found[:1]]
    exact = replace(better[0], row=replace(better[0].row, median=better[0].predicted.predicted_us))
    order = comparison.outcomes([exact, *found])
    assert [(one.experiment, round(one.error, 3)) for one in order] == [("adding", 0.3), ("better", 0.0)]
    html = fragment("comparison", LESSONS, archive)
    assert "0 of them are within 10% of the predicted time" in html
    (line,) = re.findall(r'<tr><td class="tw-left"><a href="#adding">.*</tr>', html)
    assert [re.sub("<.*?>", "", cell) for cell in cells_of(line)] == [
        "adding", "memory", "1.32", "1.01", "30.0", "+30.0", "0 of 3",
    ]  # fmt: skip


def test_a_sentence_says_what_became_of_an_experiment(archive):
    with pytest.raises(KeyError):
        fragment("miss_adding", LESSONS, archive)
    on_an_h200(archive, 1.3)
    assert fragment("miss_adding", LESSONS, archive).endswith("the median error of 3 rows is 30%.")


def test_rows_of_something_else_are_not_compared(archive):
    on_an_h200(archive, 1.0, tokens="f" * 64)
    assert "No H200 has been recorded since" in fragment("comparison", LESSONS, archive)


def test_every_device_of_the_table_is_there_with_its_source(archive):
    html = fragment("devices", LESSONS, archive)
    for name in ("H100 SXM", "H200", "B200", "L4"):
        assert f">{name}</td>" in html
    assert html.count("NVIDIA") >= 12


def test_records_and_predictions_are_files_of_the_site(archive):
    assert [name for name, _ in record_files(archive.root)] == [
        "measurements/nvidia-h100-80gb-hbm3/adding.json", "measurements/predictions/h200.json",
    ]  # fmt: skip


@pytest.mark.parametrize("damage", ["truncate", "edit", "foreign"])
def test_a_prediction_that_was_touched_is_not_believed(archive, damage):
    path = archive.root / "predictions" / "h200.json"
    text = path.read_text(encoding="utf-8")
    changed = {"truncate": text[:300], "edit": text.replace("187.6", "186.0"), "foreign": '{"schema": 1}'}
    path.write_text(changed[damage], encoding="utf-8")
    with pytest.raises(RecordError, match=r"no JSON|edited by hand|not of form 1"):
        read_prediction(path)


def test_the_page_explains_the_ten_worst_predictions_each_cause_in_their_order():
    root = Path(__file__).parents[2]
    archive = Archive(root / "lessons")
    (made,) = comparison.predictions(archive)
    worst = [one.experiment for one in comparison.outcomes(comparison.compare(made, archive))[:10]]
    page = (root / "docs" / "measurements.md").read_text(encoding="utf-8")
    causes = [re.findall(r"measurements\.miss_(\w+)", cause) for cause in page.split("\n#### ")]
    assert sorted(name for cause in causes for name in cause) == sorted(worst)
    assert all(cause == sorted(cause, key=worst.index) for cause in causes)
