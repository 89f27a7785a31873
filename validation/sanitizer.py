"""``python -m validation.sanitizer``: NVIDIA's compute-sanitizer over every kernel of the lessons.

In: the lessons' launches, on a machine with an NVIDIA GPU, CuPy and compute-sanitizer. Out: the device's
record of what each of its four tools said of each kernel, nothing or its first line.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.errors import LessonError
from tilewise.gpu.device import gpu_fault
from tilewise.measurements.validation import TOOLS
from tilewise.measurements.validation_file import FOLDER
from validation.collection import load_specimens
from validation.counting import version
from validation.record import PROJECT, DeviceRecord, Finding, findings, provenance, write
from validation.specimen import Specimen

REPAIR = "Record it again on a GPU: python -m validation.sanitizer."
"""What to do where the kernels did not run."""
FOUND = 86
"""The status that the sanitizer is asked to end with where it found something."""
TIME_LIMIT_S = 300.0
"""How long all runs together may take."""
_USUAL = Path("/usr/local/cuda/bin/compute-sanitizer")

Look = Callable[[str, Sequence[Specimen]], str]
"""Runs a tool over specimens: an empty text, or the first line of what it found."""


def clean(row: Finding) -> bool:
    """Whether all four tools looked and found nothing."""
    return [row.said.get(tool) for tool in TOOLS] == [""] * len(TOOLS)


def with_earlier_rows(new: DeviceRecord[Finding], project: Path = PROJECT) -> DeviceRecord[Finding]:
    """A record and, of kernels that it did not look at, what the same device's record says."""
    names = {row.name for row in new.rows}
    kept = [
        row
        for old in findings(project)
        if old.device == new.device
        for row in old.rows
        if row.name not in names
    ]
    return replace(new, rows=(*kept, *new.rows))


def find_sanitizer() -> str | None:
    """compute-sanitizer on the path, else in its usual folder; None where it is in neither."""
    return shutil.which("compute-sanitizer") or (str(_USUAL) if _USUAL.is_file() else None)


def sort_out(tool: str, found: Sequence[Specimen], look: Look) -> dict[str, str]:
    """What a tool says of each specimen, by name: of all at once, and where it found something of halves.

    Args:
        tool: one of ``TOOLS``.
        found: what to look at.
        look: runs the tool over several.
    """
    said = look(tool, found) if found else ""
    if not said or len(found) == 1:
        return {one.name: said for one in found}
    middle = len(found) // 2
    return sort_out(tool, found[:middle], look) | sort_out(tool, found[middle:], look)


def first_line(text: str) -> str:
    """The first line in which the sanitizer tells of a finding; an empty text where it tells of none."""
    for line in re.findall(r"^========= (.+)$", text, re.MULTILINE):
        if not re.match(r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY|Target application|\s", line):
            return str(line).strip()[:200]
    return ""


def untouched(one: Specimen) -> frozenset[str]:
    """The outputs that stay as allocated until the kernel writes them.

    An output that the kernel takes as `const` is read: in the lesson, a launch before this one writes it.
    """
    read = {each.name for each in one.launch.kernel.parameters if each.is_pointer and each.is_const}
    return frozenset(one.launch.case.outputs) - read


def launch_each(found: Sequence[Specimen]) -> None:
    """Launch each specimen once, every array in an allocation of its own; see `untouched` for the outputs."""
    import cupy

    cupy.cuda.set_allocator(None)  # a pool's blocks are longer than the arrays in them
    for one in found:
        arrays: dict[str, Any] = dict(one.launch.case.make())
        bare = untouched(one)
        for name, made in arrays.items():
            if isinstance(made, np.ndarray) and made.dtype.names is None:  # not a structure by value
                arrays[name] = cupy.empty(made.shape, made.dtype) if name in bare else cupy.asarray(made)
        one.launch.run(arrays)
        cupy.cuda.get_current_stream().synchronize()


def _looking(sanitizer: str, listed: Path, until: float) -> Look:
    """A look that launches specimens of a list in a process of its own."""

    def look(tool: str, found: Sequence[Specimen]) -> str:
        own = [sys.executable, "-W", "ignore", "-m", "validation.sanitizer", "--listed", str(listed)]
        own += ["--child", *(one.name for one in found)]
        before = [sanitizer, "--tool", tool, "--print-limit", "4", "--error-exitcode", str(FOUND)]
        try:
            done = subprocess.run(
                [*before, *own] if tool else own,
                capture_output=True,
                text=True,
                check=False,
                timeout=max(1.0, until - time.monotonic()),
                env={**os.environ, "TILEWISE_BACKEND": "gpu"},
            )
        except subprocess.TimeoutExpired:
            return "ran out of time"
        if not done.returncode:
            return ""
        said = first_line(done.stdout) if done.returncode == FOUND else ""
        return said or f"ended with {done.returncode}: {' '.join((done.stdout + done.stderr).split())[-200:]}"

    return look


def examine(
    sanitizer: str, found: Sequence[Specimen], listed: Path, limit_s: float = TIME_LIMIT_S
) -> DeviceRecord[Finding]:
    """Run all tools over all specimens, tools beside each other.

    Args:
        sanitizer: the program.
        found: what to launch.
        listed: the file that they come from, for the processes that launch them.
        limit_s: seconds after which what is left counts as out of time.
    """
    look = _looking(sanitizer, listed, time.monotonic() + limit_s)
    with ThreadPoolExecutor(8) as pool:
        parts = [found[at::8] for at in range(8)]
        for said, part in zip(
            pool.map(lambda part: look("", part) if part else "", parts), parts, strict=True
        ):
            if said:
                raise LessonError("sanitizer", 0, f"one of {', '.join(map(str, part))} {said}", REPAIR)
        answers = dict(zip(TOOLS, pool.map(lambda tool: sort_out(tool, found, look), TOOLS), strict=True))
    rows = [Finding(one.name, one.key, {tool: answers[tool][one.name] for tool in TOOLS}) for one in found]
    import cupy  # noqa: F401  (its versions belong to the provenance)

    made = provenance()
    made["versions"]["compute-sanitizer"] = version(sanitizer)
    return DeviceRecord("sanitizer", made, tuple(rows))


def main() -> int:
    """Record, or launch what a record needs."""
    parser = argparse.ArgumentParser(prog="python -m validation.sanitizer", description=__doc__)
    parser.add_argument(
        "--listed", type=Path, required=True, help="kernels and launches, by validation --list"
    )
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names, such as matmul/hopper")
    parser.add_argument("--add", action="store_true", help="keep an earlier record's rows of other kernels")
    parser.add_argument(
        "--out", type=Path, default=PROJECT / FOLDER / "sanitizer", help="the folder that gets the record"
    )
    parser.add_argument("--limit", type=float, default=TIME_LIMIT_S, help="seconds for all runs together")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    found = [one for one in load_specimens(given.listed) if one.name.startswith(tuple(given.only) or "")]
    if given.child is not None:
        launch_each([one for one in found if one.name in set(given.child)])
        return 0
    tool, fault = find_sanitizer(), gpu_fault()
    if tool is None or fault is not None:
        print(f"Nothing can be looked at here. {fault or 'compute-sanitizer is missing.'}", file=sys.stderr)
        return 1
    record = examine(tool, found, given.listed.resolve(), given.limit)
    print(write(with_earlier_rows(record) if given.add else record, given.out))
    for row in record.rows:
        for name, said in row.said.items():
            if said:
                print(f"{name}, {row.name}: {said}")
    good = sum(map(clean, record.rows))
    print(f"{good} of {len(record.rows)} kernels are clean under all four tools")
    return 0


if __name__ == "__main__":
    sys.exit(main())
