"""``python -m tilewise.hardware.sanitizer``: NVIDIA's compute-sanitizer over every kernel of the lessons.

In: the lessons' launches, on a machine with an NVIDIA GPU, CuPy and compute-sanitizer. Out: the device's
record of what each of its four tools said of each kernel, nothing or its first line, and `page_table` for the
page that shows it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.errors import LessonError
from tilewise.gpu.device import gpu_fault
from tilewise.hardware.json_files import check_sum, load
from tilewise.hardware.lessons import load_specimens
from tilewise.hardware.specimen import Specimen
from tilewise.measurements.record import checksum, write_whole
from tilewise.measurements.slugs import device_slug
from tilewise.outputs import Cell, Column, Table

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""The sanitizer's tools, each a run of its own."""
FORM = ("sanitizer", 1)
"""What kind of record it is, and the version of its schema."""
FOLDER = Path(__file__).parent / "sanitized"
"""Where records lie."""
REPAIR = "Record it again on a GPU: python -m tilewise.hardware.sanitizer."
FOUND = 86
"""The status that the sanitizer is asked to end with where it found something."""
TIME_LIMIT_S = 300.0
"""How long all runs together may take."""
_USUAL = Path("/usr/local/cuda/bin/compute-sanitizer")

Look = Callable[[str, Sequence[Specimen]], str]
"""Runs a tool over specimens: an empty text, or the first line of what it found."""


@dataclass(frozen=True)
class Row:
    """What was said of one launch of one kernel."""

    name: str
    """The specimen's name, which begins with the lesson's id."""
    key: str
    """The specimen's key when it was looked at."""
    said: Mapping[str, str]
    """By tool: an empty text where it found nothing, else the first line of what it found."""

    @property
    def clean(self) -> bool:
        """Whether all four tools looked and found nothing."""
        return [self.said.get(tool) for tool in TOOLS] == [""] * len(TOOLS)


@dataclass(frozen=True)
class Sanitized:
    """All kernels on one device."""

    provenance: Mapping[str, Any]
    """Device, driver, date, versions."""
    rows: tuple[Row, ...]
    """In the order of the lessons."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON holds it, checksum included."""
        body = {"schema": FORM[1], "kind": FORM[0], **asdict(self)}
        body["rows"] = list(body["rows"])
        return {**body, "checksum": checksum(body)}


def write(record: Sanitized, folder: Path = FOLDER) -> Path:
    """Write a record into its device's file."""
    path = folder / f"{device_slug(str(record.provenance['device']))}.json"
    write_whole(record.to_dict(), path)
    return path


def recorded(folder: Path = FOLDER) -> tuple[Sanitized, ...]:
    """Every device's record, in the order of their file names.

    Raises:
        LessonError: one is no JSON, has another form, or was edited by hand.
    """
    return tuple(load(path, FORM, _parsed, REPAIR) for path in sorted(folder.glob("*.json")))


def _parsed(body: dict[str, Any]) -> Sanitized:
    check_sum(body)
    return Sanitized(body["provenance"], tuple(Row(**row) for row in body["rows"]))


def added(new: Sanitized, folder: Path = FOLDER) -> Sanitized:
    """A record and, of kernels that it did not look at, what the same device's record in a folder says."""
    names = {row.name for row in new.rows}
    kept = [
        row
        for old in recorded(folder)
        if old.provenance["device"] == new.provenance["device"]
        for row in old.rows
        if row.name not in names
    ]
    return Sanitized(new.provenance, (*kept, *new.rows))


def standing(record: Sanitized, keys: Mapping[str, str]) -> tuple[Row, ...]:
    """The rows that still hold: of kernels that are among these, as they were when they were looked at.

    Args:
        record: a device's record.
        keys: the keys of the lessons' kernels of today, by name.
    """
    return tuple(row for row in record.rows if keys.get(row.name) == row.key)


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


def launched(found: Sequence[Specimen]) -> None:
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
        own = [sys.executable, "-W", "ignore", "-m", "tilewise.hardware.sanitizer", "--listed", str(listed)]
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
) -> Sanitized:
    """Run all tools over all specimens, tools beside each other.

    Args:
        sanitizer: the program.
        found: what to launch.
        listed: the file that they come from, for the processes that launch them.
        limit_s: seconds after which what is left counts as out of time.
    """
    from tilewise.hardware.counting import _provenance

    look = _looking(sanitizer, listed, time.monotonic() + limit_s)
    with ThreadPoolExecutor(8) as pool:
        parts = [found[at::8] for at in range(8)]
        for said, part in zip(
            pool.map(lambda part: look("", part) if part else "", parts), parts, strict=True
        ):
            if said:
                raise LessonError("sanitizer", 0, f"one of {', '.join(map(str, part))} {said}", REPAIR)
        answers = dict(zip(TOOLS, pool.map(lambda tool: sort_out(tool, found, look), TOOLS), strict=True))
    rows = [Row(one.name, one.key, {tool: answers[tool][one.name] for tool in TOOLS}) for one in found]
    import cupy  # noqa: F401  (its versions belong to the provenance)

    made = _provenance()
    made["versions"]["compute-sanitizer"] = _version(sanitizer)
    return Sanitized(made, tuple(rows))


def _version(sanitizer: str) -> str:
    done = subprocess.run([sanitizer, "--version"], capture_output=True, text=True, timeout=60, check=False)
    words = [word for line in done.stdout.splitlines() if "Version" in line for word in line.split()]
    return next((word for word in words if word[:1].isdigit()), "unknown")


def page_table(keys: Mapping[str, str]) -> str:
    """A row for each lesson: kernels looked at, those that changed since, and what each tool found.

    Args:
        keys: the keys of the lessons' kernels, by name.
    """
    records = recorded()
    if not records:
        return "No device has a record of it yet; `python -m tilewise.hardware.sanitizer` writes one."
    rows = {row.name: row for row in standing(records[0], keys)}
    by_lesson: dict[str, list[str]] = {}
    for name in keys:
        by_lesson.setdefault(name.partition(": ")[0], []).append(name)
    lines = []
    for lesson, found in by_lesson.items():
        looked = [rows[name] for name in found if name in rows]
        if looked:
            counts = [_findings(looked, tool) for tool in TOOLS]
            lines.append([lesson, len(looked), len(found) - len(looked), *counts])
    columns = [Column(name, align="right") for name in ("kernels", "not looked at", *TOOLS)]
    made = records[0].provenance
    version = made["versions"]["compute-sanitizer"]
    caption = f"Findings of compute-sanitizer {version} on an {made['device']}, {made['date']}, by lesson."
    return Table([Column("lesson"), *columns], lines, caption).html()


def _findings(rows: Sequence[Row], tool: str) -> Cell | int:
    said = {row.name: row.said[tool] for row in rows if row.said[tool]}
    title = "; ".join(f"{name}: {what}" for name, what in said.items())
    return Cell(len(said), title, mark="hazard") if said else 0


def main() -> int:
    """Record, or launch what a record needs."""
    parser = argparse.ArgumentParser(prog="python -m tilewise.hardware.sanitizer", description=__doc__)
    parser.add_argument(
        "--listed", type=Path, required=True, help="kernels and launches, by tilewise.hardware --list"
    )
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names, such as matmul/hopper")
    parser.add_argument("--add", action="store_true", help="keep an earlier record's rows of other kernels")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder that gets the record")
    parser.add_argument("--limit", type=float, default=TIME_LIMIT_S, help="seconds for all runs together")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    found = [one for one in load_specimens(given.listed) if one.name.startswith(tuple(given.only) or "")]
    if given.child is not None:
        launched([one for one in found if one.name in set(given.child)])
        return 0
    tool, fault = find_sanitizer(), gpu_fault()
    if tool is None or fault is not None:
        print(f"Nothing can be looked at here. {fault or 'compute-sanitizer is missing.'}", file=sys.stderr)
        return 1
    record = examine(tool, found, given.listed.resolve(), given.limit)
    print(write(added(record, given.out) if given.add else record, given.out))
    for row in record.rows:
        for name, said in row.said.items():
            if said:
                print(f"{name}, {row.name}: {said}")
    clean = sum(row.clean for row in record.rows)
    print(f"{clean} of {len(record.rows)} kernels are clean under all four tools")
    return 0


if __name__ == "__main__":
    sys.exit(main())
