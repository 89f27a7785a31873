"""Bulk copies and wgmma: what the simulator counts of the lessons' kernels, beside a GPU's counters."""

from functools import cache

import pytest

from tests.validation.samples import sample
from validation import copies
from validation.collection import COURSE, specimens
from validation.record import copies as records
from validation.specimen import Specimen

RECORDS = records()
SAMPLED = 24


@cache
def current() -> dict[tuple[str, str], Specimen]:
    """The lessons' kernels of today by name and key."""
    return {(one.name, one.key): one for one in specimens(COURSE) if copies.uses(one)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.device)
def test_copies_and_wgmma_are_counted_as_the_hardware_counts_them(record):
    rows = {row.name: row for row in record.rows if (row.name, row.key) in current()}
    assert len(rows) >= 60, "most kernels have changed since: count them again on a GPU"
    seen: set[str] = set()
    for name in sorted(sample(rows, SAMPLED)):
        row = rows[name]
        counts = current()[row.name, row.key].launch.simulate().counts
        for what, (simulated, counted) in copies.pairs(counts, row.counters).items():
            assert simulated == counted, f"{name}: {what}"
            seen.add(what if counted else "")
    assert seen >= {"sectors of bulk stores", "wgmma by warps", "sectors of bulk loads"}
