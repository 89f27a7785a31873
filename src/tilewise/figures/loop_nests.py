"""A loop nest that folds into a grid: which loops become axes, which stay inside the thread.

In: loops with their lengths, and stages that say which loop became which axis. Out: a Figure with a
slider over the stages and a 2-D/3-D switch. Drawing is left to ``web/figures/loop_nest.js``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tilewise.figures.figure import Figure

_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Loop:
    """One loop of a nest, from the outside in."""

    name: str
    """Its variable, e.g. ``i``."""
    length: int
    """How often it runs, in the drawing; small, at most 12."""
    reduction: bool = False
    """Each pass needs the sum of the one before, so that the loop stays."""


@dataclass(frozen=True)
class Stage:
    """One state of the nest."""

    text: str
    """What holds now, as a sentence."""
    axes: Mapping[str, str] = field(default_factory=dict)
    """Loops that became axes of the grid: ``{"j": "x"}``."""


def loop_nest(
    loops: Sequence[Loop],
    stages: Sequence[Stage],
    *,
    body: str,
    title: str,
    caption: str,
    view: Literal["2d", "3d"] = "2d",
    alt: str | None = None,
) -> Figure:
    """Return a loop nest that folds into a grid.

    Args:
        loops: two or three loops, from the outside in.
        stages: the states, in order; the slider goes through them.
        body: what the innermost loop does, e.g. ``s += Q[i][k] * K[j][k]``.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        view: which view stands first.
        alt: the text alternative; by default made from the loops.

    Raises:
        ValueError: the nest is too deep or too long to draw, or a stage folds what cannot be folded.
    """
    if not 2 <= len(loops) <= 3 or any(not 1 <= loop.length <= 12 for loop in loops):
        raise ValueError(
            "a loop nest has two or three loops of 1 to 12 passes in the drawing; the text says the real ones"
        )
    if not stages:
        raise ValueError("a loop nest needs at least one stage")
    by_name = {loop.name: loop for loop in loops}
    for stage in stages:
        for name, axis in stage.axes.items():
            if name not in by_name or axis not in _AXES:
                raise ValueError(
                    f"a stage folds {name!r} into {axis!r}; loops are {list(by_name)}, axes {list(_AXES)}"
                )
            if by_name[name].reduction:
                raise ValueError(
                    f"loop {name!r} is a reduction: its passes depend on each other, so it cannot fold"
                )
        if len(set(stage.axes.values())) < len(stage.axes):
            raise ValueError(f"a stage folds two loops into one axis: {dict(stage.axes)}")
    nest = ", ".join(
        f"{loop.name} ({loop.length} passes{', a reduction' if loop.reduction else ''})" for loop in loops
    )
    return Figure(
        title=title,
        caption=caption,
        alt=alt or f"A nest of the loops {nest} around {body}, in {len(stages)} stages.",
        height=490,
        narrow_height=640,
        kind="loop_nest",
        spec={
            "loops": [
                {"name": loop.name, "length": loop.length, "reduction": loop.reduction} for loop in loops
            ],
            "stages": [{"text": stage.text, "axes": dict(stage.axes)} for stage in stages],
            "body": body,
            "view": view,
        },
        steps=tuple(_stage_text(number, stage, loops) for number, stage in enumerate(stages, 1)),
    )


def _stage_text(number: int, stage: Stage, loops: Sequence[Loop]) -> str:
    threads = passes = 1
    for loop in loops:
        if loop.name in stage.axes:
            threads *= loop.length
        else:
            passes *= loop.length
    inside = [loop.name for loop in loops if loop.name not in stage.axes]
    return (
        f"Stage {number}: {stage.text} {threads:,} {'thread' if threads == 1 else 'threads'}, each with "
        f"{passes:,} {'pass' if passes == 1 else 'passes'}"
        + (f" over {', '.join(inside)}." if inside else ".")
    )
