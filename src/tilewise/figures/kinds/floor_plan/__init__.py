"""A floor plan: parts of a machine where they lie, and a slider that lights some of them.

In: parts with places and sizes in cells, levels with roles, and stops that say what is lit and why. Out: a
Figure in 2-D and 3-D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.figures import theme
from tilewise.figures.figure import Figure
from tilewise.figures.values import are_names

MOST_CUBES = 1500
"""Cubes of the 3-D view."""
WIDE, NARROW = 686, 316
"""Pixels that the plan has on a wide and on a narrow page."""
LARGEST, TALLEST = 40, 460
"""Pixels of the largest cell, and of the tallest plan."""
CONTROLS = 190
"""Pixels of the key, the text and the controls around the plan."""


@dataclass(frozen=True)
class Part:
    """Something with a place."""

    name: str
    """Its name, e.g. ``SM 17``; each part has its own."""
    level: str
    """Which level it belongs to."""
    at: tuple[float, float]
    """Its corner: cells to the right and cells towards the reader."""
    size: tuple[int, int] = (1, 1)
    """Its extent in cells to the right and towards the reader."""
    height: int = 1
    """Its extent upwards, in cells of the 3-D view."""
    label: str = ""
    """What stands on it, where there is room."""


@dataclass(frozen=True)
class Stop:
    """One position of the slider."""

    label: str
    """What the slider says."""
    lit: tuple[str, ...]
    """Names of levels or of parts that are lit."""
    text: str
    """What holds here, in one or two sentences."""


def floor_plan(
    parts: Sequence[Part],
    stops: Sequence[Stop],
    *,
    levels: Mapping[str, str],
    step_name: str,
    title: str,
    caption: str,
    start: int = 0,
) -> Figure:
    """Return a floor plan.

    Args:
        parts: what lies where.
        stops: the positions of the slider, in order.
        levels: the levels in the key's order, each with its role.
        step_name: what the slider sets.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        start: the stop shown first, from 0.

    Raises:
        ValueError: a level, a role or a lit name is unknown, two parts have one name, or there are too many.
    """
    for role in levels.values():
        theme.colour(role)
    names = [part.name for part in parts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two parts of the floor plan are called {twice!r}; give each a name of its own")
    if stray := next((part for part in parts if part.level not in levels), None):
        raise ValueError(f"the part {stray.name!r} is of level {stray.level!r}; levels are {list(levels)}")
    if not stops or not 0 <= start < len(stops):
        raise ValueError(f"a floor plan starts at one of its stops: start={start} with {len(stops)} stops")
    for stop in stops:
        if unknown := [name for name in stop.lit if name not in levels and name not in names]:
            raise ValueError(f"the stop {stop.label!r} lights {unknown[0]!r}, which is no level and no part")
    cubes = sum(part.size[0] * part.size[1] * part.height for part in parts)
    if cubes > MOST_CUBES:
        raise ValueError(f"the floor plan has {cubes:,} cubes in 3-D, and at most {MOST_CUBES:,} are drawn")
    wide, deep = _extent(parts)
    return Figure(
        title=title,
        caption=caption,
        alt=_alt(parts, levels),
        height=CONTROLS + _tall(wide, deep, WIDE),
        narrow_height=CONTROLS + 60 + max(_tall(wide, deep, NARROW), 200),
        kind="floor_plan",
        spec={
            "extent": [wide, deep],
            "levels": [{"name": name, "role": role} for name, role in levels.items()],
            "parts": [_plain(part) for part in parts],
            "stops": [{"label": s.label, "lit": list(s.lit), "text": s.text} for s in stops],
            "step_name": step_name,
            "are_names": are_names([stop.label for stop in stops]),
            "start": start,
        },
        steps=tuple(f"{step_name} {stop.label}: {stop.text}" for stop in stops),
    )


def _extent(parts: Sequence[Part]) -> tuple[float, float]:
    wide = max(part.at[0] + part.size[0] for part in parts)
    deep = max(part.at[1] + part.size[1] for part in parts)
    return wide, deep


def _tall(wide: float, deep: float, room: int) -> int:
    """Pixels of the plan's depth in the largest cells that fit."""
    cell = min(LARGEST, room / wide, TALLEST / deep)
    return int(cell * deep) + 8


def _plain(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "level": part.level,
        "at": list(part.at),
        "size": list(part.size),
        "height": part.height,
        "label": part.label,
    }


def _alt(parts: Sequence[Part], levels: Mapping[str, str]) -> str:
    counts = [f"{sum(part.level == level for part in parts):,} × {level}" for level in levels]
    return f"Floor plan with {len(parts):,} parts: {', '.join(counts)}."
