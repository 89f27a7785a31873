"""What the page of all measurements says of the ten worst predictions is so in the records."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pytest

from tilewise.measurements import comparison
from tilewise.measurements.archive import Archive
from tilewise.measurements.comparison import Compared, Outcome
from tilewise.measurements.record import Record, Row
from tilewise.measurements.recorder import NO_LEAD_IN
from tilewise.models.devices import device

ROOT = Path(__file__).parents[2]
ARCHIVE = Archive(ROOT / "lessons")
WITH_HOST = (
    "sum_of_squares_with_host", "attention_flash_with_host", "launch_pieces", "front_end_launches",
)  # fmt: skip
SOFTMAX = ("softmax_long_rows_bf16", "softmax_rows_bf16")
REPEATS = ("repeat_32bit", "repeat_16bit")


@pytest.fixture(scope="module")
def worst() -> dict[str, Outcome]:
    """The ten experiments with the largest median error, the worst first."""
    made = next(one for one in comparison.predictions(ARCHIVE) if one.device == "H200")
    found = comparison.outcomes(comparison.compare(made, ARCHIVE))
    return {one.experiment: one for one in found[:10]}


def on_the_first(one: Compared) -> tuple[Record, Row]:
    """The H100's record and the row that the prediction started from, as it is recorded now."""
    record = ARCHIVE.record(one.predicted.experiment, "NVIDIA H100 80GB HBM3")
    assert record is not None
    row = next(
        row
        for row in record.rows
        if row.tokens == one.predicted.key and dict(row.case) == dict(one.predicted.case)
    )
    return record, row


def named(outcome: Outcome, *parts: str) -> list[Compared]:
    return [one for one in outcome.rows if any(part in one.predicted.variant for part in parts)]


def others(outcome: Outcome, chosen: list[Compared]) -> list[Compared]:
    return [one for one in outcome.rows if one not in chosen]


def scatter(row: Row) -> float:
    return (row.p80 - row.p20) / row.median


def rate(row: Row, record: Record) -> float:
    """GB/s of a row's bytes over its time without a launch."""
    return row.bytes / (row.median - record.provenance["ceilings"]["launch_us"]) / 1e3


def errors(rows: list[Compared]) -> list[float]:
    return [abs(one.residual) for one in rows]


def test_the_page_explains_the_ten_worst_in_their_order(worst: dict[str, Outcome]) -> None:
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    assert re.findall(r"measurements\.miss_(\w+)", page) == list(worst)


def test_the_clock_was_the_same(worst: dict[str, Outcome]) -> None:
    for one in (row for outcome in worst.values() for row in outcome.rows):
        before, row = on_the_first(one)
        born = before.provenance["sm_clock_mhz"]
        assert one.record.provenance["sm_clock_mhz"] == born
        for sampled in (row.sm_clock_mhz, one.row.sm_clock_mhz):
            assert not sampled or median(sampled) == born


def test_the_host_is_in_the_time_of_the_first_four_and_of_no_other(worst: dict[str, Outcome]) -> None:
    timed = {one.experiment for one in ARCHIVE.records() if one.method.get("lead_in") == NO_LEAD_IN}
    assert timed == set(list(worst)[:4]) == set(WITH_HOST)
    speeds = {name: median(one.ratio for one in worst[name].rows) for name in WITH_HOST}
    assert [name for name in WITH_HOST if speeds[name] < 1] == ["launch_pieces"]
    pieces = worst["launch_pieces"].rows
    assert median(scatter(one.row) for one in pieces) > median(
        scatter(on_the_first(one)[1]) for one in pieces
    )


def test_a_cuda_graph_takes_the_host_out_of_the_error(worst: dict[str, Outcome]) -> None:
    for name in WITH_HOST[:2]:
        graphs = named(worst[name], "CUDA graph")
        assert max(errors(graphs)) < min(errors(others(worst[name], graphs)))
    many = [one for one in worst["launch_pieces"].rows if one.predicted.case["n"] <= 2**18]
    graphs = [one for one in many if "CUDA graph" in one.predicted.variant]
    assert max(errors(graphs)) < 0.03
    assert min(errors([one for one in many if one not in graphs])) > 0.25


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_copy_beside_softmax_was_faster_than_the_memory_of_an_h100(
    worst: dict[str, Outcome], name: str
) -> None:
    first, second = device("NVIDIA H100 80GB HBM3"), device("NVIDIA H200")
    copies = named(worst[name], "a copy")
    assert copies
    for one in copies:
        record, row = on_the_first(one)
        assert rate(row, record) > first.memory_gb_per_s
        said = one.predicted
        assert row.bytes / (said.predicted_us - said.launch_us) / 1e3 > second.memory_gb_per_s
        assert rate(one.row, one.record) < second.memory_gb_per_s
        assert abs(one.residual) > 0.75 * worst[name].error


def test_what_stores_intermediates_gained_what_the_probes_that_write_differ_by(
    worst: dict[str, Outcome],
) -> None:
    stored = [
        *named(worst["three_layers"], "operation by operation", "all kept", "all but the last", "eager"),
        *named(worst["cos_of_cos"], "eager"),
    ]
    assert len(stored) == 5
    for one in stored:
        records = on_the_first(one)[0], one.record
        probes = [record.provenance["ceilings"]["probes"]["write_gb_per_s"] for record in records]
        assert one.ratio == pytest.approx(probes[1] / probes[0], rel=0.02)
        assert one.residual < -0.1
    for one in [*named(worst["three_layers"], "made again"), *named(worst["cos_of_cos"], "one launch")]:
        assert one.residual > 0.1


@pytest.mark.parametrize("name", REPEATS)
def test_few_multiplications_gain_all_many_nothing_and_between_the_model_is_wrong(
    worst: dict[str, Outcome], name: str
) -> None:
    wide = named(worst[name], "16 bytes")
    few, many = ([one for one in wide if one.predicted.case["repeat"] == repeat] for repeat in (1, 512))
    assert len(few) == len(many) == 2
    assert all(one.ratio > 1.38 for one in few)
    assert all(one.ratio < 1.02 for one in many)
    assert max(errors([*few, *many])) < 0.05
    assert max(errors(wide)) > 0.2
    narrow = [one for one in named(worst[name], "4 bytes") if one.predicted.case["repeat"] == 1]
    assert all(one.ratio < 1.15 for one in narrow)
