"""The record of what two releases of clang make of the specimens, which is made by hand."""

from __future__ import annotations

import json

from tilewise.simulator.compile.toolchain import CLANG
from validation.clangs import FILE, MAY_DIFFER, differences
from validation.kernels import OWN


def test_the_record_is_of_the_clang_that_is_pinned_and_of_these_specimens() -> None:
    record = json.loads(FILE.read_text(encoding="utf-8"))
    assert f"clang {record['ours']}" in CLANG, "python -m validation.clangs"
    assert record["kernels"] == sum(map(len, OWN.values()))
    assert {count for _, count, _, _ in record["rows"]["differences"]} <= set(MAY_DIFFER)


def test_a_difference_is_found() -> None:
    ours = {"k": {"issued": 7, "global_load.sectors": 4}}
    other = {"k": {"issued": 9, "global_load.sectors": 4, "hazard: a race": 1}}
    assert differences(ours, other) == [("k", "issued", 7, 9), ("k", "hazard: a race", 0, 1)]
