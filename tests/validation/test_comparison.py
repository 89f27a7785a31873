"""What the simulator counts of every specimen, against every device whose counters are recorded.

Counts of both are read from the committed records; a sample of the specimens is simulated again.
"""

from dataclasses import replace
from functools import cache

import pytest

from tests.validation.samples import as_counted, sample
from tilewise.kernel.kernel import Kernel
from tilewise.measurements.validation import (
    CHANGED,
    LESSONS,
    UNCOUNTED,
    Comparison,
    Pair,
    Row,
    load_comparison,
)
from validation import record as records
from validation import simulation
from validation.collection import collect, groups
from validation.comparison import assemble, file_name, stale
from validation.differences import KNOWN, MERGED, REWRITTEN
from validation.kernels import OWN
from validation.record import PROJECT, Counted, DeviceRecord
from validation.simulation import simulate
from validation.specimen import Specimen

RECORDS = records.counters()
SAMPLED = 40
"""How many specimens are simulated again in each run of the tests, beside those with a known difference."""


@cache
def specimens() -> dict[str, Specimen]:
    """Every specimen by its name; the lessons run, unless what they gave is kept."""
    return {one.name: one for one in collect()}


@pytest.fixture(scope="module", params=RECORDS, ids=lambda counts: counts.device)
def counts(request: pytest.FixtureRequest) -> DeviceRecord[Counted]:
    return request.param


@pytest.fixture(scope="module")
def record(counts: DeviceRecord[Counted]) -> Comparison:
    return load_comparison(PROJECT, file_name(counts.device))


def test_the_record_of_the_comparison_is_current(record, counts):
    assert stale(record, counts, groups()) == [], "make records"


def differing(record: Comparison, counts: DeviceRecord[Counted], names: set[str]) -> list[str]:
    """The rows of a record, among those of some names, that the simulator makes otherwise now."""
    counted = {row.name: row for row in counts.rows}
    rows = [row for row in record.rows if row.name in names]
    assert rows
    made = [simulate(specimens()[row.name], counted[row.name]) for row in rows]
    again = assemble({"": made}, counts, record.simulator).groups[""]
    return [row.name for row, other in zip(rows, again, strict=True) if row != other]


def test_a_sample_is_simulated_as_it_is_recorded(record, counts):
    names = {row.name for row in record.rows}
    picked = {*sample(names, SAMPLED), *(names & {*KNOWN, *REWRITTEN})}
    assert differing(record, counts, picked) == [], "make records"


def test_what_has_changed_since_the_record_was_made_is_said(monkeypatch):
    own = OWN["Global memory"]
    counts = replace(RECORDS[0], rows=tuple(map(_row, (one.name for one in own))))
    rows = load_comparison(PROJECT).groups["Global memory"]
    record = assemble({"Global memory": rows}, counts, simulation.simulator_key())
    assert stale(record, counts, {"Global memory": own}) == []
    assert stale(record, counts, {"Global memory": own[1:]}) == [
        f"New, changed or gone since: {own[0].name}."
    ]
    again = replace(counts, provenance={**counts.provenance, "date": "2030-01-01"})
    assert stale(record, again, {"Global memory": own}) == ["The device's counters were taken again since."]
    wrong = replace(rows[0], edits="by hand")
    edited = replace(record, groups={"Global memory": (wrong, *rows[1:])})
    assert stale(edited, counts, {"Global memory": own}) == ["The reasons of differences have changed since."]
    monkeypatch.setattr(simulation, "CLANG", "another clang")
    assert stale(record, counts, {"Global memory": own}) == ["The simulator has changed since."]


def test_only_kernels_of_lessons_wait_for_their_counters(record):
    """A lesson may be newer than the record; our own specimens are counted as they are now."""
    waits = {*record.waiting(UNCOUNTED), *record.waiting(CHANGED)}
    assert waits <= record.keys(LESSONS).keys()
    assert all(name.partition(": ")[1] for name in record.gone), "one of our own was counted and is gone"
    assert {row.name for row in record.rows} == specimens().keys() - waits
    assert len(record.rows) >= 150


def test_every_residual_is_known_and_every_known_one_occurs(record):
    found = {
        (row.name, name): pair.residual
        for row in record.rows
        for name, pair in row.counts.items()
        if pair.residual
    }
    known = {
        (row.name, name): difference
        for row in record.rows
        for name, (difference, _) in KNOWN.get(row.name, {}).items()
    }
    assert found == known
    assert all(pair.why for row in record.rows for pair in row.counts.values() if pair.residual)


def test_outputs_are_equal_bit_for_bit_or_within_their_bound(record):
    for row in record.rows:
        for name, distance in row.outputs.items():
            assert distance.allowed, f"{row.name}: {name} is off by {distance.largest}"
            assert distance.same_bits or not row.exact or distance.why
    names = {row.name for row in record.rows}
    assert {row.name for row in record.rows for one in row.outputs.values() if one.why} == {
        name for name in REWRITTEN if name in names
    }
    bound = [row.name for row in record.rows if not row.exact]
    assert len(bound) * 20 < len(record.rows), f"too many specimens have a bound: {bound}"


def test_only_the_exact_difference_that_is_known_is_explained(counts):
    name = "shared neighbours"
    assert KNOWN[name]["shared load requests"] == (-16, MERGED)

    def why(**pairs: Pair) -> list[str]:
        row = Row(name, "", counts={key.replace("_", " "): pair for key, pair in pairs.items()})
        (made,) = assemble({"": [row]}, counts, "").groups[""]
        return [pair.why for pair in made.counts.values()]

    assert why(global_load_requests=Pair(7, 8), shared_load_requests=Pair(4, 2)) == ["", ""]
    assert why(shared_load_requests=Pair(20, 4)) == [MERGED.title]


def _row(name: str) -> Counted:
    return next(row for row in RECORDS[0].rows if row.name == name)


def test_other_bits_are_allowed_only_where_the_rewritten_source_leaves_the_hardwares():
    name = "machine/warps: many_ways, blocks of 256"
    specimen = as_counted(specimens()[name], _row(name).key)
    distance = simulate(specimen, _row(name)).outputs["end"]
    assert (distance.same_bits, distance.allowed) == (False, True)
    other = replace(_row(name), outputs={"end": records.Output("0" * 64)})
    assert not simulate(specimen, other).outputs["end"].allowed


def test_a_kernel_or_a_launch_that_changes_has_another_key():
    launch = specimens()["8-byte copy"].launch
    kernel = launch.kernel
    texts = Kernel(kernel.source.replace("blockIdx.x", "(blockIdx.x + 0)"), kernel.name, kernel.defines)
    others = [texts.on(launch.case), kernel.on(replace(launch.case, grid=(launch.grid[0] + 1, 1, 1)))]
    commented = Kernel(kernel.source + "// a word\n", kernel.name, kernel.defines).on(launch.case)
    keys = {Specimen("", "", one).key for one in (launch, *others)}
    assert len(keys) == 3
    assert Specimen("", "", commented).key == specimens()["8-byte copy"].key
