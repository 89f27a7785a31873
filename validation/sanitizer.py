"""``python -m validation.sanitizer``: run NVIDIA's compute-sanitizer on every kernel of the lessons.

In: the lessons' launches, on a machine with an NVIDIA GPU, CuPy and compute-sanitizer. Out: the device's
record, with the first line that each of the four tools reported for each kernel, if any.
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
"""What to do if the kernels did not run."""
FOUND = 86
"""The exit status requested from the sanitizer for a finding."""
TIME_LIMIT_S = 300.0
"""Time limit for all runs together."""
_USUAL = Path("/usr/local/cuda/bin/compute-sanitizer")

Look = Callable[[str, Sequence[Specimen]], str]
"""Runs a tool on specimens; returns the first line of its findings, or an empty text."""


def clean(row: Finding) -> bool:
    """Whether all four tools ran and found nothing."""
    return [row.said.get(tool) for tool in TOOLS] == [""] * len(TOOLS)


def with_earlier_rows(new: DeviceRecord[Finding], project: Path = PROJECT) -> DeviceRecord[Finding]:
    """A record, with the rows of kernels that it lacks from the same device's earlier record."""
    names = {row.name for row in new.rows}
    earlier = [
        row
        for old in findings(project)
        if old.device == new.device
        for row in old.rows
        if row.name not in names
    ]
    return replace(new, rows=(*earlier, *new.rows))


def find_sanitizer() -> str | None:
    """compute-sanitizer on the path, else in its usual folder; None if it is in neither."""
    return shutil.which("compute-sanitizer") or (str(_USUAL) if _USUAL.is_file() else None)


def sort_out(tool: str, specimens: Sequence[Specimen], look: Look) -> dict[str, str]:
    """A tool's message on each specimen, by name: run on all at once, and bisected if it finds something.

    Args:
        tool: one of ``TOOLS``.
        specimens: what to check.
        look: runs the tool on several specimens.
    """
    message = look(tool, specimens) if specimens else ""
    if not message or len(specimens) == 1:
        return {specimen.name: message for specimen in specimens}
    middle = len(specimens) // 2
    return sort_out(tool, specimens[:middle], look) | sort_out(tool, specimens[middle:], look)


def first_line(text: str) -> str:
    """The first line of the sanitizer's output that reports a finding; empty if there is none."""
    for line in re.findall(r"^========= (.+)$", text, re.MULTILINE):
        if not re.match(r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY|Target application|\s", line):
            return str(line).strip()[:200]
    return ""


def untouched(specimen: Specimen) -> frozenset[str]:
    """The outputs that stay uninitialised until the kernel writes them.

    An output that the kernel takes as `const` is read: in the lesson, an earlier launch writes it.
    """
    read = {
        parameter.name
        for parameter in specimen.launch.kernel.parameters
        if parameter.is_pointer and parameter.is_const
    }
    return frozenset(specimen.launch.case.outputs) - read


def launch_each(specimens: Sequence[Specimen]) -> None:
    """Launch each specimen once, with one allocation per array; see `untouched` for the outputs."""
    import cupy

    cupy.cuda.set_allocator(None)  # a pool's blocks are longer than the arrays in them
    for specimen in specimens:
        arrays: dict[str, Any] = dict(specimen.launch.case.make())
        uninitialised = untouched(specimen)
        for name, array in arrays.items():
            if isinstance(array, np.ndarray) and array.dtype.names is None:  # not a structure by value
                arrays[name] = (
                    cupy.empty(array.shape, array.dtype) if name in uninitialised else cupy.asarray(array)
                )
        specimen.launch.run(arrays)
        cupy.cuda.get_current_stream().synchronize()


def _looking(sanitizer: str, listed: Path, until: float) -> Look:
    """A ``Look`` that launches specimens of a list in a child process."""

    def look(tool: str, specimens: Sequence[Specimen]) -> str:
        own = [sys.executable, "-W", "ignore", "-m", "validation.sanitizer", "--listed", str(listed)]
        own += ["--child", *(specimen.name for specimen in specimens)]
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
        message = first_line(done.stdout) if done.returncode == FOUND else ""
        return (
            message or f"ended with {done.returncode}: {' '.join((done.stdout + done.stderr).split())[-200:]}"
        )

    return look


def examine(
    sanitizer: str, specimens: Sequence[Specimen], listed: Path, limit_s: float = TIME_LIMIT_S
) -> DeviceRecord[Finding]:
    """Run all tools on all specimens, in parallel.

    Args:
        sanitizer: the program.
        specimens: what to launch.
        listed: the file with the specimens, for the processes that launch them.
        limit_s: seconds after which the rest counts as out of time.
    """
    look = _looking(sanitizer, listed, time.monotonic() + limit_s)
    with ThreadPoolExecutor(8) as pool:
        parts = [specimens[at::8] for at in range(8)]
        for message, part in zip(
            pool.map(lambda part: look("", part) if part else "", parts), parts, strict=True
        ):
            if message:
                raise LessonError("sanitizer", 0, f"one of {', '.join(map(str, part))} {message}", REPAIR)
        answers = dict(zip(TOOLS, pool.map(lambda tool: sort_out(tool, specimens, look), TOOLS), strict=True))
    rows = [
        Finding(specimen.name, specimen.key, {tool: answers[tool][specimen.name] for tool in TOOLS})
        for specimen in specimens
    ]
    import cupy  # noqa: F401  (its versions belong to the provenance)

    origin = provenance()
    origin["versions"]["compute-sanitizer"] = version(sanitizer)
    return DeviceRecord("sanitizer", origin, tuple(rows))


def main() -> int:
    """Record, or launch the specimens for a record."""
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
    arguments = parser.parse_args()
    specimens = [
        specimen
        for specimen in load_specimens(arguments.listed)
        if specimen.name.startswith(tuple(arguments.only) or "")
    ]
    if arguments.child is not None:
        launch_each([specimen for specimen in specimens if specimen.name in set(arguments.child)])
        return 0
    tool, fault = find_sanitizer(), gpu_fault()
    if tool is None or fault is not None:
        print(f"Nothing can be looked at here. {fault or 'compute-sanitizer is missing.'}", file=sys.stderr)
        return 1
    record = examine(tool, specimens, arguments.listed.resolve(), arguments.limit)
    print(write(with_earlier_rows(record) if arguments.add else record, arguments.out))
    for row in record.rows:
        for name, message in row.said.items():
            if message:
                print(f"{name}, {row.name}: {message}")
    good = sum(map(clean, record.rows))
    print(f"{good} of {len(record.rows)} kernels are clean under all four tools")
    return 0


if __name__ == "__main__":
    sys.exit(main())
