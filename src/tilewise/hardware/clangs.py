"""The same kernels through two releases of clang: outputs and memory traffic equal, other differences listed.

In: the ``zig`` program of another release. Out: ``differences`` between the two, and the record of them that
the page "What the simulator counts" shows. ``make other-clang`` installs the other release.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.gpu.launch import Launch
from tilewise.hardware.json_files import load, save

if TYPE_CHECKING:
    from tilewise.simulator import Counts

FORM = ("clangs", 1)
"""What kind of record it is, and the version of its schema."""
FILE = Path(__file__).with_name("clangs.json")
"""The record."""
OTHER = Path(sys.prefix) / "other-clang" / "ziglang" / ("zig.exe" if sys.platform == "win32" else "zig")
"""Where ``make other-clang`` puts the other release's program."""
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

    key: str
    """A hash of what decides the differences."""
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
    hashes = {name: hashlib.sha256(np.asarray(arrays[name]).tobytes()).digest() for name in written}
    return {**flat(counts), **{f"bits of {name}": int.from_bytes(one[:6]) for name, one in hashes.items()}}


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


def load_clangs(file: Path | None = None) -> Clangs:
    """The record.

    Raises:
        LessonError: it is missing or malformed.
    """
    return load(file or FILE, FORM, _parsed)


def _parsed(body: dict[str, Any]) -> Clangs:
    found = tuple(Difference(*row) for row in body["rows"]["differences"])
    return Clangs(body["key"], body["ours"], body["other"], int(body["kernels"]), found)


def save_clangs(record: Clangs, file: Path | None = None) -> None:
    """Write the record."""
    head = {name: value for name, value in vars(record).items() if name != "found"}
    save(file or FILE, FORM, head, {"differences": [astuple(one) for one in record.found]})
