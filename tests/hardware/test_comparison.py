"""What the simulator counts of every specimen, against every device whose counters are recorded.

Counts of both are read from the committed records; a sample of the specimens is simulated again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.hardware.samples import sample
from tilewise.errors import LessonError
from tilewise.gpu.kernel import Kernel
from tilewise.hardware import record as records
from tilewise.hardware import simulation
from tilewise.hardware.collection import OWN, collect, groups
from tilewise.hardware.comparison import (
    COUNTS,
    LESSONS,
    Compared,
    ComparisonRecord,
    Pair,
    SimulatedRow,
    compare,
    load_comparison,
    path_of,
    save_comparison,
)
from tilewise.hardware.differences import KNOWN, MERGED, REWRITTEN
from tilewise.hardware.record import CountsRecord, Row
from tilewise.hardware.said import report
from tilewise.hardware.simulation import largest, simulate, stale
from tilewise.hardware.specimen import Specimen

RECORDS = records.recorded()
SAMPLED = 40
"""How many specimens are simulated again in each run of the tests, beside those with a known difference."""


@cache
def specimens() -> dict[str, Specimen]:
    """Every specimen by its name; the lessons run, unless what they gave is kept."""
    return {one.name: one for one in collect()}


@pytest.fixture(scope="module", params=RECORDS, ids=lambda record: record.device)
def compared(request: pytest.FixtureRequest) -> Compared:
    return compare(load_comparison(request.param.device), request.param)


def test_an_h100_is_recorded() -> None:
    assert "NVIDIA H100 80GB HBM3" in [record.device for record in RECORDS]


@pytest.mark.parametrize("counts", RECORDS, ids=lambda record: record.device)
def test_the_record_of_the_comparison_is_current(counts: CountsRecord) -> None:
    assert stale(load_comparison(counts.device), counts, groups()) == [], "make records"


def differing(record: ComparisonRecord, counts: CountsRecord, names: set[str]) -> list[str]:
    """The rows of a record, among those of some names, that the simulator makes otherwise now."""
    counted = {row.name: row for row in counts.rows}
    rows = [row for found in record.groups.values() for row in found if row.issued and row.name in names]
    assert rows
    return [row.name for row in rows if simulate(specimens()[row.name], counted[row.name]) != row]


def test_a_sample_is_simulated_as_it_is_recorded(compared: Compared) -> None:
    names = {row.name for row in compared.rows}
    picked = {*sample(names, SAMPLED), *(names & {*KNOWN, *REWRITTEN})}
    assert differing(load_comparison(compared.record.device), compared.record, picked) == [], "make records"


def test_a_count_or_a_distance_edited_by_hand_is_noticed(tmp_path: Path) -> None:
    counts = RECORDS[0]
    text = path_of(counts.device).read_text(encoding="utf-8")
    copy = path_of(counts.device, tmp_path)
    for before, after in (
        ('"global load requests": 32', '"global load requests": 33'),
        ("[true, true, 0.0]", "[false, true, 0.0]"),
    ):
        start = text.index('"name": "strided by 3"')
        line = text[start : text.index("\n", start)]
        assert before in line
        copy.write_text(text.replace(line, line.replace(before, after, 1)), encoding="utf-8")
        record = load_comparison(counts.device, tmp_path)
        assert differing(record, counts, {"strided by 3", "strided by 2"}) == ["strided by 3"]


def test_what_has_changed_since_the_record_was_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = RECORDS[0]
    whole = load_comparison(counts.device)
    record = replace(whole, groups={"Global memory": whole.groups["Global memory"]})
    found = {"Global memory": OWN["Global memory"]}
    assert stale(record, counts, found) == []
    assert stale(record, counts, {"Global memory": OWN["Global memory"][1:]}) == [
        f"New, changed or gone since: {OWN['Global memory'][0].name}."
    ]
    again = replace(counts, provenance={**counts.provenance, "date": "2030-01-01"})
    assert stale(record, again, found) == ["The device's counters were taken again since."]
    monkeypatch.setattr(simulation, "CLANG", "another clang")
    assert stale(record, counts, found) == ["The simulator has changed since."]


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    record = load_comparison(RECORDS[0].device)
    save_comparison(record, tmp_path)
    assert load_comparison(record.device, tmp_path) == record
    path = path_of(record.device)
    assert path_of(record.device, tmp_path).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("spoilt", ["", "{", '{"schema": 1}', '{"schema": 1, "kind": "resources"}'])
def test_a_malformed_record_is_one_error_with_the_repair(tmp_path: Path, spoilt: str) -> None:
    text = path_of(RECORDS[0].device).read_text(encoding="utf-8")
    path_of(RECORDS[0].device, tmp_path).write_text(spoilt or text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(LessonError, match=r"the record cannot be read: .*\. Run make records\.$"):
        load_comparison(RECORDS[0].device, tmp_path)


def test_only_kernels_of_lessons_wait_for_their_counters(compared: Compared) -> None:
    """A lesson may be newer than the record; our own specimens are counted as they are now."""
    of_lessons = load_comparison(compared.record.device).keys(LESSONS).keys()
    waiting = {*compared.uncounted, *compared.changed}
    assert waiting <= of_lessons
    assert all(name.partition(": ")[1] for name in compared.gone), "one of our own was counted and is gone"
    assert {row.name for row in compared.rows} == specimens().keys() - waiting
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
    (row,) = [row for row in compared.rows if row.name == name]
    specimen = specimens()[name]
    assert re.search(shown, specimen.launch.kernel.source)
    if "3-D" in kind:
        block = specimen.launch.block
        assert min(block) > 1 and block[0] * block[1] * block[2] % 32
    if kind == "a local array":
        assert row.counts["local requests"].counted > 0


def test_every_residual_is_known_and_every_known_one_occurs(compared: Compared) -> None:
    print(report(compared))
    found = {
        (row.name, name): pair.residual
        for row in compared.rows
        for name, pair in row.counts.items()
        if pair.residual
    }
    known = {
        (specimen, name): difference
        for specimen, counts in KNOWN.items()
        for name, (difference, _) in counts.items()
        if specimen in {row.name for row in compared.rows}
    }
    assert found == known
    assert all(pair.why for row in compared.rows for pair in row.counts.values() if pair.residual)


def test_every_explanation_is_of_a_specimen() -> None:
    assert {*KNOWN, *REWRITTEN} <= specimens().keys()


@pytest.mark.parametrize("group", [LESSONS, "Global memory", "Arithmetic"])
def test_uniform_kernels_have_equal_requests_and_sectors(compared: Compared, group: str) -> None:
    rows = [row for row in compared.rows if row.group == group]
    assert len(rows) > 8
    for row in rows:
        if group == LESSONS and row.name in KNOWN:
            continue  # control flow that is not uniform, or another reason that stands there
        assert {name: pair.residual for name, pair in row.counts.items()} == dict.fromkeys(row.counts, 0), (
            row.name
        )


def test_passes_of_wide_shared_loads_are_equal(compared: Compared) -> None:
    rows = [row for row in compared.rows if row.group == "Wide shared loads"]
    passes = [row.counts["shared load wavefronts"] for row in rows]
    assert [pair.residual for pair in passes] == [0] * len(passes)
    assert {pair.counted for pair in passes} >= {1, 2, 4, 8}


def test_outputs_are_equal_bit_for_bit_or_within_their_bound(compared: Compared) -> None:
    for row in compared.rows:
        for name, distance in row.simulated.outputs.items():
            assert distance.allowed, f"{row.name}: {name} is off by {distance.largest}"
            assert distance.same_bits or not row.exact or row.why(name)
    other = {row.name for row in compared.rows for name in row.simulated.outputs if row.why(name)}
    assert other == set(REWRITTEN) & {row.name for row in compared.rows}
    bound = [row.name for row in compared.rows if not row.exact]
    assert len(bound) * 20 < len(compared.rows), f"too many specimens have a bound: {bound}"


def test_a_wrong_count_is_reported(compared: Compared) -> None:
    wrong = {"global load requests": Pair(7, 8), "shared load requests": Pair(4, 2, -1, MERGED)}
    rows = (replace(compared.rows[0], counts=wrong), *compared.rows[1:])
    text = report(Compared(compared.record, rows))
    assert "global load requests: simulator 7, hardware 8, residual +1: NOT EXPLAINED" in text
    assert "shared load requests: simulator 4, hardware 2, residual -2: NOT EXPLAINED" in text


def _row(name: str) -> Row:
    return next(row for row in RECORDS[0].rows if row.name == name)


def test_an_output_that_differs_is_not_allowed() -> None:
    row = _row("strided by 3")
    other = replace(row, outputs={"y": records.Output("0" * 64)})
    assert not simulate(specimens()["strided by 3"], other).outputs["y"].allowed


def test_an_output_outside_its_bound_is_not_allowed() -> None:
    specimen = specimens()["softplus"]
    row = _row("softplus")
    kept = records.array_of(row.outputs["y"], specimen.launch.case.make()["y"]).copy()  # type: ignore[arg-type]
    kept[17] *= 1.00001
    other = replace(row, outputs={"y": records.output(kept, exact=False)})
    assert simulate(specimen, row).outputs["y"].allowed
    assert not simulate(specimen, other).outputs["y"].allowed


def test_an_infinity_is_no_distance_from_itself_and_an_infinite_one_from_a_number() -> None:
    specimen, row = specimens()["softplus"], _row("softplus")
    kept = records.array_of(row.outputs["y"], specimen.launch.case.make()["y"]).copy()  # type: ignore[arg-type]
    kept[17] = np.inf
    distance = simulate(specimen, replace(row, outputs={"y": records.output(kept, exact=False)}))
    assert (distance.outputs["y"].allowed, distance.outputs["y"].largest) == (False, np.inf)
    assert largest(np.array([np.inf, np.nan, 3.0]), np.array([np.inf, 2.0, 1.0])) == 2.0


def test_other_bits_are_allowed_only_where_the_rewritten_source_leaves_the_hardwares() -> None:
    name = "machine/warps: many_ways, blocks of 256"
    if _row(name).key != specimens()[name].key:
        pytest.skip("the lesson is newer than its counters")
    distance = simulate(specimens()[name], _row(name)).outputs["end"]
    assert (distance.same_bits, distance.allowed) == (False, True)
    other = replace(_row(name), outputs={"end": records.Output("0" * 64)})
    assert not simulate(specimens()[name], other).outputs["end"].allowed


def _three() -> tuple[ComparisonRecord, CountsRecord]:
    """Three specimens, and counters of one as it is, of an older one, of no third one, and of a stranger."""
    names = [f"strided by {by}" for by in (1, 2, 3)]
    whole = load_comparison(RECORDS[0].device)
    found = tuple(row for row in whole.groups["Global memory"] if row.name in names)
    same, older, newer = map(_row, names)
    rows = (same, replace(older, key="0" * 64), replace(newer, name="gone"))
    return replace(whole, groups={"Global memory": found}), replace(RECORDS[0], rows=rows)


def test_what_has_no_row_of_today_is_named_and_not_compared() -> None:
    record, counts = _three()
    compared = compare(record, counts)
    assert [row.name for row in compared.rows] == ["strided by 1"]
    assert compared.changed == ("strided by 2",)
    assert compared.uncounted == ("strided by 3",)
    assert compared.gone == ("gone",)
    text = report(compared)
    assert "  not counted on this GPU yet: 1\n    strided by 3\n" in text
    assert "  changed since they were counted: 1\n    strided by 2\n" in text
    assert text.endswith("  counted, and launched no more: 1\n    gone")


def test_what_was_counted_and_not_simulated_yet_is_not_compared() -> None:
    record, counts = _three()
    (row, *_) = record.groups["Global memory"]
    waiting = replace(record, groups={"Global memory": (SimulatedRow(row.name, row.key),)})
    assert compare(waiting, counts).uncounted == (row.name,)


def test_a_kernel_or_a_launch_that_changes_has_another_key() -> None:
    launch = specimens()["8-byte copy"].launch
    kernel = launch.kernel
    texts = Kernel(kernel.source.replace("blockIdx.x", "(blockIdx.x + 0)"), kernel.name, kernel.defines)
    others = [texts.on(launch.case), kernel.on(replace(launch.case, grid=(launch.grid[0] + 1, 1, 1)))]
    commented = Kernel(kernel.source + "// a word\n", kernel.name, kernel.defines).on(launch.case)
    keys = {Specimen("", "", one).key for one in (launch, *others)}
    assert len(keys) == 3
    assert Specimen("", "", commented).key == specimens()["8-byte copy"].key


def test_each_count_of_the_comparison_is_recorded() -> None:
    for record in RECORDS:
        assert {part for count in COUNTS.values() for part in count.counters} <= set(record.metrics)
        for row in record.rows:
            assert set(row.counters) == set(record.metrics)
