"""Every specimen on the simulator against every device whose counters are recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tilewise.gpu.kernel import Kernel
from tilewise.hardware import record as records
from tilewise.hardware.collection import LESSONS, collect, groups
from tilewise.hardware.comparison import (
    COUNTS,
    Compared,
    Pair,
    _largest,
    compare,
    compare_one,
)
from tilewise.hardware.differences import FUSED, KNOWN, MERGED, REWRITTEN
from tilewise.hardware.record import CountsRecord, Row
from tilewise.hardware.said import report
from tilewise.hardware.specimen import Specimen

RECORDS = records.recorded()


@pytest.fixture(scope="module", params=RECORDS, ids=lambda record: record.device)
def compared(request: pytest.FixtureRequest) -> Compared:
    return compare(request.param, groups())


def test_an_h100_is_recorded() -> None:
    assert "NVIDIA H100 80GB HBM3" in [record.device for record in RECORDS]


def test_only_kernels_of_lessons_wait_for_their_counters(compared: Compared) -> None:
    """A lesson may be newer than the record; our own specimens are counted as they are now."""
    of_lessons = {specimen.name for specimen in groups()[LESSONS]}
    waiting = {specimen.name for specimen in (*compared.uncounted, *compared.changed)}
    assert waiting <= of_lessons
    assert all(name.partition(": ")[1] for name in compared.gone), "one of our own was counted and is gone"
    assert {row.specimen.name for row in compared.rows} == {one.name for one in collect()} - waiting
    assert len(compared.rows) >= 150


KINDS: Mapping[str, tuple[str, str]] = {
    "divergent loop with early exit": ("search", r"while|break|return"),
    "per-lane trip counts": ("ragged rows", r"for \(.*start\["),
    "8-byte loads": ("8-byte copy", r"float2"),
    "16-byte loads": ("16-byte copy", r"float4"),
    "misaligned offset": ("shifted by 1 and 0", r"x\[.*\]"),
    "const __restrict__": ("stencil", r"const float\* __restrict__"),
    "atomics": ("count", r"atomicAdd"),
    "atomics with a result": ("or of three", r"= *atomic"),
    "constant memory": ("constant weights", r"__constant__"),
    "a local array": ("local array", r"\w+ \w+\[\w+\];"),
    "half2": ("half2", r"__half2|half2"),
    "a 3-D block with partial warps": ("volume", r"threadIdx\.z"),
}
"""Kinds of kernels that must be among the compared, each with one of them and what its source shows."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_kernel_is_compared(compared: Compared, kind: str) -> None:
    name, shown = KINDS[kind]
    (specimen,) = [row.specimen for row in compared.rows if row.specimen.name == name]
    assert re.search(shown, specimen.launch.kernel.source)
    if "3-D" in kind:
        block = specimen.launch.block
        assert min(block) > 1 and block[0] * block[1] * block[2] % 32
    if kind == "a local array":
        (row,) = [row for row in compared.rows if row.specimen is specimen]
        assert row.counts["local requests"].counted > 0


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
        if specimen in {row.specimen.name for row in compared.rows}
    }
    assert found == known
    assert all(pair.why for row in compared.rows for pair in row.counts.values() if pair.residual)


def test_every_explanation_is_of_a_specimen() -> None:
    assert {*KNOWN, *REWRITTEN} <= {specimen.name for specimen in collect()}


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
            assert distance.same_bits or not row.specimen.exact or distance.why
    other = {row.specimen.name for row in compared.rows for one in row.outputs.values() if one.why}
    assert other == set(REWRITTEN) & {row.specimen.name for row in compared.rows}
    bound = [row.specimen.name for row in compared.rows if not row.specimen.exact]
    assert len(bound) * 20 < len(compared.rows), f"too many specimens have a bound: {bound}"


def test_a_wrong_count_is_reported(compared: Compared) -> None:
    wrong = {"global load requests": Pair(7, 8), "shared load requests": Pair(4, 2, -1, MERGED)}
    rows = (replace(compared.rows[0], counts=wrong), *compared.rows[1:])
    text = report(Compared(compared.record, rows))
    assert "global load requests: simulator 7, hardware 8, residual +1: NOT EXPLAINED" in text
    assert "shared load requests: simulator 4, hardware 2, residual -2: NOT EXPLAINED" in text


def _specimen(name: str) -> Specimen:
    return next(specimen for specimen in collect() if specimen.name == name)


def _row(name: str) -> Row:
    return next(row for row in RECORDS[0].rows if row.name == name)


def test_an_output_that_differs_is_not_allowed() -> None:
    row = _row("strided by 3")
    other = replace(row, outputs={"y": records.Output("0" * 64)})
    assert not compare_one(_specimen("strided by 3"), "", other).outputs["y"].allowed


def test_an_output_outside_its_bound_is_not_allowed() -> None:
    specimen = _specimen("softplus")
    row = _row("softplus")
    kept = records.array_of(row.outputs["y"], specimen.launch.case.make()["y"]).copy()  # type: ignore[arg-type]
    kept[17] *= 1.00001
    other = replace(row, outputs={"y": records.output(kept, exact=False)})
    assert compare_one(specimen, "", row).outputs["y"].allowed
    assert not compare_one(specimen, "", other).outputs["y"].allowed


def test_an_infinity_is_no_distance_from_itself_and_an_infinite_one_from_a_number() -> None:
    specimen, row = _specimen("softplus"), _row("softplus")
    kept = records.array_of(row.outputs["y"], specimen.launch.case.make()["y"]).copy()  # type: ignore[arg-type]
    kept[17] = np.inf
    distance = compare_one(specimen, "", replace(row, outputs={"y": records.output(kept, exact=False)}))
    assert (distance.outputs["y"].allowed, distance.outputs["y"].largest) == (False, np.inf)
    assert _largest(np.array([np.inf, np.nan, 3.0]), np.array([np.inf, 2.0, 1.0])) == 2.0


def test_other_bits_are_allowed_only_where_the_rewritten_source_leaves_the_hardwares() -> None:
    name = "machine/warps: many_ways, blocks of 256"
    if _row(name).key != _specimen(name).key:
        pytest.skip("the lesson is newer than its counters")
    assert compare_one(_specimen(name), "", _row(name)).outputs["end"].why is FUSED
    other = replace(_row(name), outputs={"end": records.Output("0" * 64)})
    distance = compare_one(_specimen(name), "", other).outputs["end"]
    assert (distance.allowed, distance.why) == (False, None)


def _three() -> tuple[Mapping[str, list[Specimen]], CountsRecord]:
    """Three specimens and a record that has one as it is, an older one, none of the third, and a stranger."""
    same, older, newer = (_specimen(f"strided by {by}") for by in (1, 2, 3))
    rows = (_row(same.name), replace(_row(older.name), key="0" * 64), replace(_row(newer.name), name="gone"))
    record = CountsRecord(RECORDS[0].provenance, RECORDS[0].metrics, rows)
    return {"Global memory": [same, older, newer]}, record


def test_what_has_no_row_of_today_is_named_and_not_compared() -> None:
    found, record = _three()
    compared = compare(record, found)
    assert [row.specimen.name for row in compared.rows] == ["strided by 1"]
    assert [one.name for one in compared.changed] == ["strided by 2"]
    assert [one.name for one in compared.uncounted] == ["strided by 3"]
    assert compared.gone == ("gone",)
    text = report(compared)
    assert "  not counted on this GPU yet: 1\n    strided by 3\n" in text
    assert "  changed since they were counted: 1\n    strided by 2\n" in text
    assert text.endswith("  counted, and launched no more: 1\n    gone")


def test_a_kernel_or_a_launch_that_changes_has_another_key() -> None:
    launch = _specimen("8-byte copy").launch
    kernel = launch.kernel
    texts = Kernel(kernel.source.replace("blockIdx.x", "(blockIdx.x + 0)"), kernel.name, kernel.defines)
    others = [texts.on(launch.case), kernel.on(replace(launch.case, grid=(launch.grid[0] + 1, 1, 1)))]
    commented = Kernel(kernel.source + "// a word\n", kernel.name, kernel.defines).on(launch.case)
    keys = {Specimen("", "", one).key for one in (launch, *others)}
    assert len(keys) == 3
    assert Specimen("", "", commented).key == _specimen("8-byte copy").key


def test_each_count_of_the_comparison_is_recorded() -> None:
    for record in RECORDS:
        assert {part for count in COUNTS.values() for part in count.counters} <= set(record.metrics)
        for row in record.rows:
            assert set(row.counters) == set(record.metrics)
