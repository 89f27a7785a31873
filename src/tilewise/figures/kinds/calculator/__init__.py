"""A calculator: sliders, and what a model makes of their positions.

In: sliders and a function of their values. Out: a Figure that holds the model's answer for every position, so
that nothing is computed on the page that was not computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tilewise.figures import theme
from tilewise.figures.figure import Figure
from tilewise.figures.values import are_names, control_height, number

MOST_STATES = 40_000
"""Positions of all sliders together; more would make a large file."""
PLOT_HEIGHT = 300
"""Height of the plot in px."""


@dataclass(frozen=True)
class Slider:
    """A quantity that the reader sets."""

    name: str
    """What it is, and the name of the model's parameter once spaces are underscores."""
    values: Sequence[Any]
    """What it can be, in order: numbers or words."""
    start: Any
    """The value shown first, one of ``values``."""
    unit: str = ""
    """Stands behind the value."""

    def text_of(self, value: Any) -> str:
        """The value as the page writes it."""
        shown = value if isinstance(value, str) else number(value)
        return f"{shown} {self.unit}".rstrip()


@dataclass(frozen=True)
class Meter:
    """A bar whose length the model sets."""

    label: str
    """Stands beside it."""
    most: float
    """The value at which the bar is full."""
    unit: str = ""
    """Stands behind the value."""
    role: str = "predicted"
    """The role whose colour it takes."""
    form: str = ""
    """Python's format of its value, e.g. ``.0%``; by default four significant digits."""

    def text_of(self, value: float) -> str:
        """The value as the page writes it."""
        return f"{format(value, self.form) if self.form else number(value)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Plot:
    """Axes on which each answer draws lines and a point."""

    x: str
    """What the x axis shows, with its unit."""
    y: str
    """What the y axis shows, with its unit."""
    x_range: tuple[float, float]
    """Ends of the x axis."""
    y_range: tuple[float, float]
    """Ends of the y axis."""
    log: bool = False
    """Whether both axes are logarithmic."""


@dataclass(frozen=True)
class Answer:
    """What the model makes of one position of the sliders."""

    meters: Sequence[float]
    """A value for each meter, in their order."""
    verdict: str
    """What follows, in a sentence."""
    limits: Sequence[str] = ()
    """Labels of the meters that set the result; they are marked."""
    lines: Sequence[tuple[str, str, Sequence[tuple[float, float]]]] = ()
    """Lines of the plot: label, role, points."""
    point: tuple[float, float] | None = None
    """Where the reader's choice lies on the plot."""


def calculator(
    sliders: Sequence[Slider],
    model: Callable[..., Answer],
    *,
    meters: Sequence[Meter],
    title: str,
    caption: str,
    plot: Plot | None = None,
) -> Figure:
    """Return a figure with sliders, bars and a verdict, and perhaps a plot.

    Args:
        sliders: what the reader sets.
        model: called with each slider's value by name (spaces as underscores), once for every position.
        meters: the bars.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        plot: axes, where answers have lines and a point.

    Raises:
        ValueError: a start is none of a slider's values, there are too many positions, or an answer does not
            fit the meters or the plot.
    """
    for one in sliders:
        if one.start not in one.values:
            raise ValueError(f"the slider {one.name!r} starts at {one.start!r}, which is none of its values")
    count = 1
    for one in sliders:
        count *= len(one.values)
    if not sliders or count > MOST_STATES:
        raise ValueError(
            f"a calculator has 1 to {MOST_STATES:,} positions of its sliders, not {count if sliders else 0:,}"
        )
    names = [one.name.replace(" ", "_") for one in sliders]
    answers = [
        model(**dict(zip(names, values, strict=True))) for values in product(*(one.values for one in sliders))
    ]
    for answer in answers:
        _fits(answer, meters, plot)
    verdicts = list(dict.fromkeys(answer.verdict for answer in answers))
    drawings = list(dict.fromkeys(_drawing(answer) for answer in answers))
    start = _position([one.values.index(one.start) for one in sliders], [len(one.values) for one in sliders])
    choices = [[one.text_of(value) for value in one.values] for one in sliders]
    spec: dict[str, Any] = {
        "sliders": [
            {
                "name": one.name,
                "start": one.values.index(one.start),
                "said": texts,
                "are_names": are_names(texts),
            }
            for one, texts in zip(sliders, choices, strict=True)
        ],
        "meters": [_meter(at, one, answers) for at, one in enumerate(meters)],
        "limits": [sum(1 << at for at, m in enumerate(meters) if m.label in a.limits) for a in answers],
        "verdicts": verdicts,
        "verdict": [verdicts.index(answer.verdict) for answer in answers],
    }
    if plot is not None:
        spec["plot"] = {
            "x": plot.x,
            "y": plot.y,
            "x_range": plot.x_range,
            "y_range": plot.y_range,
            "log": plot.log,
            "drawings": [
                [{"label": label, "role": role, "points": points} for label, role, points in drawing]
                for drawing in drawings
            ],
            "drawing": [drawings.index(_drawing(answer)) for answer in answers],
            "point": [answer.point for answer in answers],
        }
    fixed = 60 + 36 * len(meters) + (PLOT_HEIGHT if plot else 0)
    said = ", ".join(f"{one.name} {one.text_of(one.start)}" for one in sliders)
    return Figure(
        title=title,
        caption=caption,
        alt=f"Calculator that shows {', '.join(one.label for one in meters)} for the chosen "
        f"{', '.join(one.name for one in sliders)}. It starts with {said}.",
        height=fixed + sum(control_height(texts, 32) for texts in choices),
        narrow_height=84
        + 46 * len(meters)
        + sum(control_height(texts, 44, narrow=True) for texts in choices)
        + (PLOT_HEIGHT if plot else 0),
        kind="calculator",
        spec=spec,
        steps=tuple(_texts(sliders, meters, answers, start)),
    )


def _fits(answer: Answer, meters: Sequence[Meter], plot: Plot | None) -> None:
    if len(answer.meters) != len(meters):
        raise ValueError(f"an answer has {len(answer.meters)} values for {len(meters)} meters")
    if unknown := set(answer.limits) - {one.label for one in meters}:
        raise ValueError(f"an answer names the meter {unknown.pop()!r}, which there is none of")
    if plot is None and (answer.lines or answer.point):
        raise ValueError("an answer has lines or a point, and the calculator no plot: give plot=Plot(...)")
    for _, role, _ in answer.lines:
        theme.colour(role)


def _drawing(answer: Answer) -> tuple[tuple[str, str, tuple[tuple[float, float], ...]], ...]:
    return tuple((label, role, tuple(points)) for label, role, points in answer.lines)


def _meter(at: int, one: Meter, answers: Sequence[Answer]) -> dict[str, Any]:
    theme.colour(one.role)
    said = list(dict.fromkeys(one.text_of(answer.meters[at]) for answer in answers))
    return {
        "label": one.label,
        "role": one.role,
        "share": [round(min(1.0, max(0.0, answer.meters[at] / one.most)), 4) for answer in answers],
        "texts": said,
        "text": [said.index(one.text_of(answer.meters[at])) for answer in answers],
    }


def _position(at: Sequence[int], sizes: Sequence[int]) -> int:
    index = 0
    for one, size in zip(at, sizes, strict=True):
        index = index * size + one
    return index


def _texts(
    sliders: Sequence[Slider], meters: Sequence[Meter], answers: Sequence[Answer], start: int
) -> list[str]:
    """A line for the start, and one for each value of each slider with the others left where they start."""
    sizes = [len(one.values) for one in sliders]
    home = [one.values.index(one.start) for one in sliders]

    def line(at: Sequence[int]) -> str:
        answer = answers[_position(at, sizes)]
        given = ", ".join(
            f"{one.name} {one.text_of(one.values[k])}" for one, k in zip(sliders, at, strict=True)
        )
        values = ", ".join(f"{m.label} {m.text_of(v)}" for m, v in zip(meters, answer.meters, strict=True))
        return f"{given}: {values}. {answer.verdict}"

    rows = [line(home)]
    for which, one in enumerate(sliders):
        step = max(1, len(one.values) // 8)
        for value in range(0, len(one.values), step):
            moved = [*home[:which], value, *home[which + 1 :]]
            if moved != home:
                rows.append(line(moved))
    return rows
