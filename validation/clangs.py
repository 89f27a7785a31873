"""The specimens through the clang of another release, by hand when ziglang has a new one.

In: the ``zig`` program of the other release, as ``pip install --no-deps --target FOLDER ziglang==VERSION``
puts it into ``FOLDER/ziglang``. Out: the record of differences that the page "What the simulator counts"
shows; and on the terminal, what differs beside a compiler's own arrangement, by kernel. Kernels of lessons do
in the ways that the page names; our own must not.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from tilewise.measurements.validation_file import FOLDER
from tilewise.simulator import Counts
from tilewise.simulator.compile.toolchain import CLANG
from tilewise.simulator.results.hazards import HazardError
from validation.collection import COURSE, specimens
from validation.kernels import OWN
from validation.record import PROJECT, save
from validation.specimen import Specimen

FORM = ("clangs", 1)
"""What kind of record it is, and the version of its schema."""
FILE = PROJECT / FOLDER / "clangs.json"
"""The record."""
MAY_DIFFER = ("issued", "active_lanes", "divergent_branches")
"""Counts that depend on how a compiler arranges a kernel; all others are asked for by its source."""

Difference = tuple[str, str, int, int]
"""A specimen's name, a count such as ``global_load.sectors``, with our clang, with the other one."""


def counted(specimen: Specimen) -> dict[str, int]:
    """Every count by its name, and a number that stands for the bits of each output; or of its hazard."""
    arrays = specimen.launch.case.make()
    try:
        counts = flat(specimen.launch.simulate(arrays=arrays).counts)
    except HazardError as error:
        return {f"hazard: {error}": 1}
    hashes = {name: hashlib.sha256(np.asarray(arrays[name]).tobytes()).digest() for name in specimen.written}
    return {**counts, **{f"bits of {name}": int.from_bytes(one[:6]) for name, one in hashes.items()}}


def flat(counts: Counts) -> dict[str, int]:
    """Every count by its name, as ``global_load.sectors``."""
    found = {}
    for one in fields(counts):
        value = getattr(counts, one.name)
        if isinstance(value, int):
            found[one.name] = value
        else:
            found.update({f"{one.name}.{part.name}": getattr(value, part.name) for part in fields(value)})
    return found


def differences(
    ours: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]]
) -> list[Difference]:
    """Where the counts of two clangs differ, by specimen."""
    return [
        (name, count, before.get(count, 0), other[name].get(count, 0))
        for name, before in ours.items()
        for count in {**before, **other[name]}
        if before.get(count, 0) != other[name].get(count, 0)
    ]


def main() -> int:
    """Compare, record and report; 1 where memory traffic or outputs differ, which is for reading."""
    parser = argparse.ArgumentParser(prog="python -m validation.clangs")
    parser.add_argument("zig", type=Path, help="the zig program of the other release")
    zig = parser.parse_args().zig
    own = [one for group in OWN.values() for one in group]
    every: Sequence[Specimen] = [*own, *specimens(COURSE)]
    ours = {one.name: counted(one) for one in every}
    os.environ["TILEWISE_ZIG"] = str(zig)
    found = differences(ours, {one.name: counted(one) for one in every})
    said = subprocess.run([str(zig), "clang", "--version"], capture_output=True, text=True, check=True).stdout
    names = {one.name for one in own}
    head = {
        "ours": CLANG.rpartition("clang ")[2],
        "other": said.split("clang version ", 1)[1].split()[0],
        "kernels": len(own),
    }
    save(FILE, FORM, head, {"differences": [one for one in found if one[0] in names]})
    undue: dict[str, list[str]] = {}
    for name, count, _, _ in found:
        if count not in MAY_DIFFER:
            undue.setdefault(name, []).append(count)
    for name, counts in undue.items():
        print(f"{name}: {', '.join(counts)}")
    return 1 if undue else 0


if __name__ == "__main__":
    sys.exit(main())
