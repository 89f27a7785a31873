"""The record of random shapes is of the shapes that its seed draws, and the page shows all, worst first."""

from pathlib import Path

import pytest

from tilewise.measurements import random_shapes
from validation.random_shapes import FAMILIES, SEED, SHAPES, drawn, merged

ROOT = Path(__file__).parents[2]
RECORD = random_shapes.read(ROOT)


def test_the_page_names_every_family():
    assert tuple(sorted(random_shapes.TITLES)) == tuple(sorted(FAMILIES))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_record_has_the_shapes_of_its_seed_and_none_left_out(family):
    assert RECORD["seed"] == SEED
    expected = list(drawn(family, SEED, SHAPES))
    rows = [{name: row[name] for name in expected[0]} for row in RECORD["families"][family]]
    order = sorted(expected[0])
    assert sorted(rows, key=lambda one: [str(one[name]) for name in order]) == sorted(
        expected, key=lambda one: [str(one[name]) for name in order]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_ratio_is_the_librarys_time_over_ours(family):
    for row in RECORD["families"][family]:
        assert row["ratio"] == pytest.approx(row["best_us"] / row["device_us"], rel=2e-2)
        low, high = row["range_us"]
        assert low <= row["device_us"] <= high


def test_each_table_begins_with_the_slowest_shape():
    tables = random_shapes.fragment("random_tables", ROOT)
    assert tables.count("<details>") == len(FAMILIES)
    first = min(random_shapes.mean(rows) for rows in RECORD["families"].values())
    worst = next(name for name, rows in RECORD["families"].items() if random_shapes.mean(rows) == first)
    assert tables.index(random_shapes.TITLES[worst]) < 100
    assert f"{first:.2f}" in random_shapes.fragment("random_shapes", ROOT)


def test_a_familys_new_run_replaces_the_old_one_only_on_the_same_machine():
    rows = RECORD["families"]["sum"][:1]
    new = {**RECORD, "machine": {**RECORD["machine"], "temperature.gpu": "90"}, "families": {"sum": rows}}
    both = merged(RECORD, new)
    assert both == {**RECORD, "families": {**RECORD["families"], "sum": rows}}
    later = merged(RECORD, {**new, "machine": {**RECORD["machine"], "date": "2099-01-01"}})
    assert later["machine"]["date"] == RECORD["machine"]["date"] + " and 2099-01-01"
    with pytest.raises(ValueError, match="machine differs"):
        merged(RECORD, {**new, "machine": {**new["machine"], "driver_version": "1"}})
    with pytest.raises(ValueError, match="seed differs: 23 and 7"):
        merged(RECORD, {**new, "seed": 7})
