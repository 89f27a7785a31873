"""Every specimen on the simulator against every device whose counters are recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewise.errors import LessonError
from tilewise.hardware import record as records
from tilewise.hardware.collection import LESSONS, collect, groups
from tilewise.hardware.comparison import (
    COUNTS,
    Compared,
    Pair,
    compare,
    compare_one,
    current_row,
    report,
)
from tilewise.hardware.differences import KNOWN, MERGED
from tilewise.hardware.record import CountsRecord
from tilewise.hardware.specimen import Specimen

SPECIMENS = collect()
RECORDS = records.recorded()


@pytest.fixture(scope="module", params=RECORDS, ids=lambda record: record.device)
def compared(request: pytest.FixtureRequest) -> Compared:
    return compare(request.param, groups())


def test_an_h100_is_recorded() -> None:
    assert "NVIDIA H100 80GB HBM3" in [record.device for record in RECORDS]


def test_the_records_hold_these_specimens_and_no_others() -> None:
    names = [specimen.name for specimen in SPECIMENS]
    for record in RECORDS:
        assert [row.name for row in record.rows] == names


def test_every_residual_is_known_and_every_known_one_occurs(compared: Compared) -> None:
    print(report(compared))
    found = {
        (row.specimen.name, name): pair.residual
        for row in compared.rows
        for name, pair in row.counts.items()
        if pair.residual
    }
    known = {
        (specimen, name): difference
        for specimen, counts in KNOWN.items()
        for name, (difference, _) in counts.items()
    }
    assert found == known


@pytest.mark.parametrize("group", [LESSONS, "Global memory", "Arithmetic"])
def test_uniform_kernels_have_equal_requests_and_sectors(compared: Compared, group: str) -> None:
    rows = [row for row in compared.rows if row.group == group]
    assert len(rows) > 8
    for row in rows:
        if group == LESSONS and row.specimen.name in KNOWN:
            continue  # control flow that is not uniform, or another reason that stands there
        assert {name: pair.residual for name, pair in row.counts.items()} == dict.fromkeys(row.counts, 0), (
            row.specimen.name
        )


def test_passes_of_wide_shared_loads_are_equal(compared: Compared) -> None:
    rows = [row for row in compared.rows if row.group == "Wide shared loads"]
    passes = [row.counts["shared load wavefronts"] for row in rows]
    assert [pair.residual for pair in passes] == [0] * len(passes)
    assert {pair.counted for pair in passes} >= {1, 2, 4, 8}


def test_outputs_are_equal_bit_for_bit_or_within_their_bound(compared: Compared) -> None:
    for row in compared.rows:
        for name, distance in row.outputs.items():
            assert distance.allowed, f"{row.specimen}: {name} is off by {distance.largest}"
            assert distance.same_bits or not row.specimen.exact
    bound = [row.specimen.name for row in compared.rows if not row.specimen.exact]
    assert len(bound) * 20 < len(compared.rows), f"too many specimens have a bound: {bound}"


def test_a_wrong_count_is_reported(compared: Compared) -> None:
    wrong = {"global load requests": Pair(7, 8), "shared load requests": Pair(4, 2, -1, MERGED)}
    rows = (replace(compared.rows[0], counts=wrong), *compared.rows[1:])
    text = report(Compared(compared.record, rows))
    assert "global load requests: simulator 7, hardware 8, residual +1: NOT EXPLAINED" in text
    assert "shared load requests: simulator 4, hardware 2, residual -2: NOT EXPLAINED" in text


def _specimen(name: str) -> Specimen:
    return next(specimen for specimen in SPECIMENS if specimen.name == name)


def test_an_output_that_differs_is_not_allowed() -> None:
    row = current_row(RECORDS[0], _specimen("strided by 3"))
    other = replace(row, outputs={"y": records.Output("0" * 64)})
    assert not compare_one(_specimen("strided by 3"), "", other).outputs["y"].allowed


def test_an_output_outside_its_bound_is_not_allowed() -> None:
    specimen = _specimen("softplus")
    row = current_row(RECORDS[0], specimen)
    kept = records.array_of(row.outputs["y"], specimen.launch.case.make()["y"]).copy()  # type: ignore[arg-type]
    kept[17] *= 1.00001
    other = replace(row, outputs={"y": records.output(kept, exact=False)})
    assert compare_one(specimen, "", row).outputs["y"].allowed
    assert not compare_one(specimen, "", other).outputs["y"].allowed


def test_a_changed_specimen_must_be_recorded_again() -> None:
    record = RECORDS[0]
    first = replace(record.rows[0], key="0" * 64)
    stale = CountsRecord(record.provenance, record.metrics, (first, *record.rows[1:]))
    with pytest.raises(LessonError, match=r"has changed since it was counted.*python -m tilewise\.hardware"):
        current_row(stale, SPECIMENS[0])
    with pytest.raises(LessonError, match="was not counted"):
        current_row(CountsRecord(record.provenance, record.metrics, ()), SPECIMENS[0])


def test_each_count_of_the_comparison_is_recorded() -> None:
    for record in RECORDS:
        assert {part for count in COUNTS.values() for part in count.counters} <= set(record.metrics)
        for row in record.rows:
            assert set(row.counters) == set(record.metrics)
