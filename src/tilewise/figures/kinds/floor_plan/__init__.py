"""A floor plan: the parts of a machine, and a slider that highlights some of them.

In: parts with positions and sizes in cells, levels with roles, and stops with the highlighted parts and a
text. Out: a Figure in 2-D and 3-D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.figures import theme
from tilewise.figures.figure import Figure
from tilewise.figures.values import are_names

MOST_CUBES = 1500
"""Most cubes in the 3-D view."""
WIDE, NARROW = 686, 316
"""Width of the plan in px on a wide and a narrow page."""
LARGEST, TALLEST = 40, 460
"""Largest side of a cell and largest height of a plan, in px."""
CONTROLS = 190
"""Height of the key, the text and the controls in px."""


@dataclass(frozen=True)
class Part:
    """A part with a position."""

    name: str
    """Its unique name, e.g. ``SM 17``."""
    level: str
    """Its level."""
    at: tuple[float, float]
    """Its corner in cells, to the right and towards the reader."""
    size: tuple[int, int] = (1, 1)
    """Its size in cells, to the right and towards the reader."""
    height: int = 1
    """Its height in cells in the 3-D view."""
    label: str = ""
    """Text on it, if there is room."""


@dataclass(frozen=True)
class Stop:
    """One position of the slider."""

    label: str
    """Shown on the slider."""
    lit: tuple[str, ...]
    """Names of highlighted levels or parts."""
    text: str
    """An explanation, in one or two sentences."""


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
        parts: the parts with their positions.
        stops: the positions of the slider, in order.
        levels: the levels in the key's order, each with its role.
        step_name: label of the slider.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        start: the stop shown first, from 0.

    Raises:
        ValueError: a level, role or lit name is unknown, a part's name is repeated, or there are too many.
    """
    for role in levels.values():
        theme.colour(role)
    names = [part.name for part in parts]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two parts of the floor plan are called {duplicate!r}; give each a name of its own")
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
    """Height of the plan in px with the largest cells that fit."""
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
