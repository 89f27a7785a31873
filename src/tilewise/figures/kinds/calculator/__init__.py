"""A calculator: sliders, and a model's answer for their positions.

In: sliders and a function of their values. Out: a Figure with the model's answer for every position, so that
the page computes nothing itself.
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
"""Most combinations of slider positions; more would make a large file."""
PLOT_HEIGHT = 300
"""Height of the plot in px."""


@dataclass(frozen=True)
class Slider:
    """A quantity that the reader sets."""

    name: str
    """Its name; with underscores for spaces, the name of the model's parameter."""
    values: Sequence[Any]
    """Its possible values, in order: numbers or words."""
    start: Any
    """The value shown first, one of ``values``."""
    unit: str = ""
    """Shown after the value."""

    def text_of(self, value: Any) -> str:
        """Return the value as text."""
        shown = value if isinstance(value, str) else number(value)
        return f"{shown} {self.unit}".rstrip()


@dataclass(frozen=True)
class Meter:
    """A bar whose length the model sets."""

    label: str
    """Shown next to the bar."""
    most: float
    """The value at which the bar is full."""
    unit: str = ""
    """Shown after the value."""
    role: str = "predicted"
    """The role of its colour."""
    form: str = ""
    """Python format of its value, e.g. ``.0%``; by default four significant digits."""

    def text_of(self, value: float) -> str:
        """Return the value as text."""
        return f"{format(value, self.form) if self.form else number(value)} {self.unit}".rstrip()


@dataclass(frozen=True)
class Plot:
    """Axes for the lines and the point of each answer."""

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
    """The model's answer for one position of the sliders."""

    meters: Sequence[float]
    """A value for each meter, in their order."""
    verdict: str
    """The conclusion, in a sentence."""
    limits: Sequence[str] = ()
    """Labels of the meters that limit the result; they are marked."""
    lines: Sequence[tuple[str, str, Sequence[tuple[float, float]]]] = ()
    """Lines of the plot: label, role, points."""
    point: tuple[float, float] | None = None
    """The reader's choice on the plot."""


def calculator(
    sliders: Sequence[Slider],
    model: Callable[..., Answer],
    *,
    meters: Sequence[Meter],
    title: str,
    caption: str,
    plot: Plot | None = None,
) -> Figure:
    """Return a figure with sliders, bars, a verdict and optionally a plot.

    Args:
        sliders: the quantities that the reader sets.
        model: called with each slider's value by name (spaces as underscores), once for every position.
        meters: the bars.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        plot: axes, if answers have lines and a point.

    Raises:
        ValueError: a start is not among its slider's values, there are too many positions, or an answer does
            not match the meters or the plot.
    """
    for slider in sliders:
        if slider.start not in slider.values:
            raise ValueError(
                f"the slider {slider.name!r} starts at {slider.start!r}, which is none of its values"
            )
    count = 1
    for slider in sliders:
        count *= len(slider.values)
    if not sliders or count > MOST_STATES:
        raise ValueError(
            f"a calculator has 1 to {MOST_STATES:,} positions of its sliders, not {count if sliders else 0:,}"
        )
    names = [slider.name.replace(" ", "_") for slider in sliders]
    answers = [
        model(**dict(zip(names, values, strict=True)))
        for values in product(*(slider.values for slider in sliders))
    ]
    for answer in answers:
        _fits(answer, meters, plot)
    verdicts = list(dict.fromkeys(answer.verdict for answer in answers))
    drawings = list(dict.fromkeys(_drawing(answer) for answer in answers))
    start = _position(
        [slider.values.index(slider.start) for slider in sliders], [len(slider.values) for slider in sliders]
    )
    choices = [[slider.text_of(value) for value in slider.values] for slider in sliders]
    spec: dict[str, Any] = {
        "sliders": [
            {
                "name": slider.name,
                "start": slider.values.index(slider.start),
                "said": texts,
                "are_names": are_names(texts),
            }
            for slider, texts in zip(sliders, choices, strict=True)
        ],
        "meters": [_meter(at, meter, answers) for at, meter in enumerate(meters)],
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
    home = ", ".join(f"{slider.name} {slider.text_of(slider.start)}" for slider in sliders)
    return Figure(
        title=title,
        caption=caption,
        alt=f"Calculator that shows {', '.join(meter.label for meter in meters)} for the chosen "
        f"{', '.join(slider.name for slider in sliders)}. It starts with {home}.",
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
    if unknown := set(answer.limits) - {meter.label for meter in meters}:
        raise ValueError(f"an answer names the meter {unknown.pop()!r}, which there is none of")
    if plot is None and (answer.lines or answer.point):
        raise ValueError("an answer has lines or a point, and the calculator no plot: give plot=Plot(...)")
    for _, role, _ in answer.lines:
        theme.colour(role)


def _drawing(answer: Answer) -> tuple[tuple[str, str, tuple[tuple[float, float], ...]], ...]:
    return tuple((label, role, tuple(points)) for label, role, points in answer.lines)


def _meter(at: int, meter: Meter, answers: Sequence[Answer]) -> dict[str, Any]:
    theme.colour(meter.role)
    texts = list(dict.fromkeys(meter.text_of(answer.meters[at]) for answer in answers))
    return {
        "label": meter.label,
        "role": meter.role,
        "share": [round(min(1.0, max(0.0, answer.meters[at] / meter.most)), 4) for answer in answers],
        "texts": texts,
        "text": [texts.index(meter.text_of(answer.meters[at])) for answer in answers],
    }


def _position(positions: Sequence[int], sizes: Sequence[int]) -> int:
    index = 0
    for position, size in zip(positions, sizes, strict=True):
        index = index * size + position
    return index


def _texts(
    sliders: Sequence[Slider], meters: Sequence[Meter], answers: Sequence[Answer], start: int
) -> list[str]:
    """A line for the start, and one for each value of each slider with the others at their start."""
    sizes = [len(slider.values) for slider in sliders]
    home = [slider.values.index(slider.start) for slider in sliders]

    def line(at: Sequence[int]) -> str:
        answer = answers[_position(at, sizes)]
        setting = ", ".join(
            f"{slider.name} {slider.text_of(slider.values[k])}" for slider, k in zip(sliders, at, strict=True)
        )
        values = ", ".join(f"{m.label} {m.text_of(v)}" for m, v in zip(meters, answer.meters, strict=True))
        return f"{setting}: {values}. {answer.verdict}"

    rows = [line(home)]
    for which, slider in enumerate(sliders):
        step = max(1, len(slider.values) // 8)
        for value in range(0, len(slider.values), step):
            moved = [*home[:which], value, *home[which + 1 :]]
            if moved != home:
                rows.append(line(moved))
    return rows
