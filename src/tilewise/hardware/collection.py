"""All specimens in one order, with unique names.

In: the lessons' folder. Out: ``collect``, grouped for tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewise.hardware import (
    arithmetic,
    atomics,
    control_flow,
    global_memory,
    lessons,
    matrix_units,
    shared_memory,
    warps,
    wide_shared,
)
from tilewise.hardware.comparison import LESSONS
from tilewise.hardware.specimen import Specimen

OWN: Mapping[str, tuple[Specimen, ...]] = {
    "Global memory": global_memory.SPECIMENS,
    "Shared memory": shared_memory.SPECIMENS,
    "Wide shared loads": wide_shared.SPECIMENS,
    "Control flow": control_flow.SPECIMENS,
    "Atomics and other memories": atomics.SPECIMENS,
    "Arithmetic": arithmetic.SPECIMENS,
    "Warps and asynchronous copies": warps.SPECIMENS,
    "Matrix units": matrix_units.SPECIMENS,
}
"""Specimens that belong to no lesson, by the title of their group."""


def groups(root: Path | None = None, listed: Path | None = None) -> Mapping[str, tuple[Specimen, ...]]:
    """Specimens by the title of their group.

    Args:
        root: the folder ``lessons``; that of the project where not given.
        listed: a file with the lessons' specimens, made by ``--list``; then no lesson runs.
    """
    of_lessons = (
        lessons.load_specimens(listed) if listed else lessons.specimens(root or lessons.default_lessons())
    )
    return {LESSONS: of_lessons, **OWN}


def collect(root: Path | None = None, listed: Path | None = None) -> tuple[Specimen, ...]:
    """Every specimen; as `groups`.

    Raises:
        ValueError: two have one name.
    """
    found = [one for group in groups(root, listed).values() for one in group]
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several specimens are called {', '.join(twice)}. Rename all but one.")
    return tuple(found)
