"""The occupancy model against the driver's own answer, for every kernel of the course that was recorded."""

from pathlib import Path
from typing import Any

import pytest

from tilewise.measurements.archive import Archive
from tilewise.measurements.record import Record
from tilewise.models.devices import device
from tilewise.models.occupancy import LIMITS, occupancy

LESSONS = Path(__file__).parents[2] / "lessons"
RECORDS = tuple(Archive(LESSONS).records())


def modelled(taken: dict[str, Any], record: Record, carveout: int | None) -> int:
    known = device(record.provenance["device"])
    assert known is not None
    shared = taken["static_shared_bytes"] + taken["dynamic_shared_bytes"]
    return occupancy(
        taken["threads"], taken["registers"], shared, known.compute_capability, carveout
    ).blocks_per_sm


@pytest.mark.parametrize("record", RECORDS, ids=lambda one: f"{one.provenance['device']}: {one.experiment}")
def test_as_many_blocks_fit_as_the_driver_says(record):
    taken = record.method.get("resources")
    assert taken, f"record {record.lesson} again: {record.experiment} says nothing of its launches' resources"
    for one in taken:
        if "carveout" in one:
            assert modelled(one, record, one["carveout"]) == one["blocks_per_sm"], one
        else:  # taken before a record said which share of the store a kernel asks for
            possible = {modelled(one, record, percent) for percent in (None, 0, 14, 28, 43, 57, 71, 85, 100)}
            assert one["blocks_per_sm"] in possible, one


def test_a_small_carveout_leaves_room_for_few_blocks():
    assert [occupancy(1, 22, 0, (9, 0), percent).blocks_per_sm for percent in (None, 100, 14, 3, 0)] == [
        32, 32, 32, 8, 8,
    ]  # fmt: skip
    assert occupancy(1, 22, 0, (9, 0), 0).limited_by == "shared memory"
    assert occupancy(64, 16, 40_000, (9, 0), 0).blocks_per_sm == 1, "one block fits, whatever was asked for"
    assert max(LIMITS[9, 0].shared_choices) == LIMITS[9, 0].shared_bytes
