"""The same kernels through two releases of clang: outputs and memory traffic equal, other differences listed.

In: the ``zig`` program of another release. Out: ``differences`` between the two, and the record of them that
the page "What the simulator counts" shows. ``python -m tilewise.hardware.clangs ZIG`` writes the record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.gpu.launch import Launch
from tilewise.hardware.specimen import Specimen
from tilewise.simulator import Counts
from tilewise.simulator.toolchain import CLANG

FILE = Path(__file__).with_name("clangs.json")
"""The record."""
MAY_DIFFER = ("issued", "active_lanes", "divergent_branches")
"""Counts that depend on how a compiler arranges a kernel; all others are asked for by its source."""


@dataclass(frozen=True, order=True)
class Difference:
    """One count of one kernel."""

    kernel: str
    """The specimen's name."""
    count: str
    """Such as ``issued`` or ``global_load.sectors``; ``bits of y`` where an output differs."""
    ours: int
    """With the clang that the simulator uses."""
    other: int
    """With the other."""


@dataclass(frozen=True)
class Clangs:
    """What two compilers made of the specimens that belong to no lesson."""

    ours: str
    """The clang that the simulator uses."""
    other: str
    """The other."""
    kernels: int
    """How many were compared."""
    found: tuple[Difference, ...]
    """Where they differ."""


@contextmanager
def another(zig: Path) -> Iterator[None]:
    """Compile with the clang of another ``zig`` program within a ``with`` block."""
    before = os.environ.get("TILEWISE_ZIG")
    os.environ["TILEWISE_ZIG"] = str(zig)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TILEWISE_ZIG"]
        else:
            os.environ["TILEWISE_ZIG"] = before


def version(zig: Path) -> str:
    """The number of a program's clang."""
    said = subprocess.run([str(zig), "clang", "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("clang version ", 1)[1].split()[0]


def differences(launches: Mapping[str, Launch], zig: Path) -> list[Difference]:
    """Run launches with both compilers and hold them against each other.

    Args:
        launches: by name.
        zig: the other compiler's program.
    """
    found = []
    for name, launch in launches.items():
        ours = _measured(launch)
        with another(zig):
            other = _measured(launch)
        found += [Difference(name, key, ours[key], other[key]) for key in ours if ours[key] != other[key]]
    return found


def _measured(launch: Launch) -> dict[str, int]:
    """Every count, and a number that stands for the bits of each output."""
    arrays = launch.case.make()
    counts = launch.simulate(arrays=arrays).counts
    written = [one.name for one in launch.kernel.parameters if one.is_pointer and not one.is_const]
    bits = {f"bits of {name}": hash(np.asarray(arrays[name]).tobytes()) for name in written}
    return {**flat(counts), **bits}


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


def of_specimens(specimens: Iterable[Specimen], zig: Path) -> Clangs:
    """What the record should say."""
    launches = {one.name: one.launch for one in specimens}
    return Clangs(
        CLANG.rpartition("clang ")[2],
        version(zig),
        len(launches),
        tuple(differences(launches, zig)),
    )


def recorded() -> Clangs:
    """The record; kept until its file changes."""
    return _read(FILE.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _read(_stamp: int) -> Clangs:
    body: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    found = tuple(Difference(*row) for row in body["found"])
    return Clangs(body["ours"], body["other"], body["kernels"], found)


def text(clangs: Clangs) -> str:
    """The record as its file holds it: a line for each difference."""
    rows = ",\n".join(
        f"    {json.dumps([one.kernel, one.count, one.ours, one.other])}" for one in clangs.found
    )
    head = json.dumps({"ours": clangs.ours, "other": clangs.other, "kernels": clangs.kernels})[1:-1]
    return f'{{\n  {head},\n  "found": [\n{rows}\n  ]\n}}\n'


def main() -> int:
    """Write the record."""
    from tilewise.hardware.collection import LESSONS, groups

    parser = argparse.ArgumentParser(prog="python -m tilewise.hardware.clangs", description=__doc__)
    parser.add_argument("zig", type=Path, help="the zig program of another release of the ziglang wheel")
    zig = parser.parse_args().zig
    fixed = [one for title, group in groups().items() if title != LESSONS for one in group]
    FILE.write_text(text(of_specimens(fixed, zig)), encoding="utf-8")
    print(FILE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
