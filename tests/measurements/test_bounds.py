"""No bound is beaten: every row of every record, on every device, takes as long as its table's bound says."""

from pathlib import Path

import pytest

from tilewise.measurements.archive import Archive, bound_of
from tilewise.measurements.every_kernel import points
from tilewise.measurements.record import Record

ARCHIVE = Archive(Path(__file__).resolve().parents[2] / "lessons")


@pytest.mark.parametrize("device", ARCHIVE.devices)
def test_no_recorded_row_is_faster_than_its_bound(device):
    beaten = [each for record in ARCHIVE.records(device) for each in faster_than_bound(record)]
    assert not beaten, "\n".join(beaten)


def faster_than_bound(record: Record) -> list[str]:
    """The rows of a record whose 20th percentile lies below the bound."""
    found = []
    for row in record.rows:
        least = bound_of(row, record)
        if least is not None and row.p20 is not None and row.p20 < least.time_us:
            found.append(f"{record.experiment}, {row.variant}, {dict(row.case)}: {row.p20} < {least}")
    return found


def test_no_kernel_is_above_the_roof():
    titles = {record.lesson: record.lesson for record in ARCHIVE.records()}
    found = points(ARCHIVE, titles)
    assert len(found) == len(ARCHIVE.devices) and all(found.values())
    assert not [one for every in found.values() for one in every if one.share > 1]
