"""Lines and points, each labelled at its end.

In: series with roles, optionally reference lines. Out: a Figure of kind ``chart``. Measured series are solid
with filled marks, predicted ones dashed with open marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures import theme
from tilewise.figures.axes import Range, axis, base_layout
from tilewise.figures.figure import Figure
from tilewise.figures.values import number, with_origins

Numbers = npt.ArrayLike
Floats = npt.NDArray[np.float64]
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")
_DASHES = ("solid", "dot", "dashdot", "longdash")
_PREDICTED_DASHES = ("dash", "dashdot", "longdash")
_LETTER, _CLEAR = 0.015, 0.036
"""Width of a letter, and distance of a label from lines, as fractions of a chart's width and height."""
_MARGINS = 66
"""Height of the axis below a chart and the space above it, in px."""
_Line = tuple[Floats, Floats]
"""Points from left to right, as fractions of a chart's width and height."""


@dataclass(frozen=True)
class Series:
    """A line, or a scatter of points."""

    label: str
    """Shown at its end."""
    x: Numbers
    """In the unit of the x axis."""
    y: Numbers
    """In the unit of the y axis."""
    role: str = "measured"
    """``predicted`` is dashed with open marks, every other role solid with filled marks."""
    line: bool = True
    """Whether the points are connected."""
    marks: bool = True
    """Whether the points have marks."""
    names: Sequence[str] = ()
    """Names of the points, shown on hover and tap. A series with names is labelled above the chart."""
    size: int = 8
    """Diameter of a mark in px."""


@dataclass(frozen=True)
class Mark:
    """A reference line across the chart."""

    label: str
    """Shown at its end."""
    x: float | None = None
    """Position of a vertical line; give x or y."""
    y: float | None = None
    """Position of a horizontal line."""
    role: str = "muted"
    """The role of its colour."""


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    caption: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    y_range: Range | None = None,
    marks: Sequence[Mark] = (),
    height: int = 400,
) -> Figure:
    """Return a chart of lines or points.

    Args:
        series: the lines or points, labelled at their ends.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        x: label of the x axis, with its unit.
        y: label of the y axis, with its unit.
        log_x: whether x is logarithmic.
        log_y: whether y is logarithmic.
        y_range: ends of the y axis; by default all points with a margin, and 0 on a linear axis.
        marks: reference lines.
        height: height in px.

    Raises:
        ValueError: a series is empty, its x, y and names differ in length, or a log axis has a value that
            is not positive.
    """
    points = [_points(entry, log_x, log_y) for entry in series]
    if not points:
        raise ValueError("a line chart needs at least one series")
    xs = np.concatenate(
        [pair[0] for pair in points] + [np.array([m.x for m in marks if m.x is not None], float)]
    )
    ys = np.concatenate(
        [pair[1] for pair in points] + [np.array([m.y for m in marks if m.y is not None], float)]
    )
    horizontal = _span(xs, log_x, None)
    vertical = y_range or _span(ys, log_y, 0.0)
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for entry, (px, py) in zip(series, points, strict=True):
        nth = seen.get(entry.role, 0)
        seen[entry.role] = nth + 1
        data.append(_trace(entry, px, with_origins(entry.y), nth, x, y))
        if not entry.names:
            last = max(np.flatnonzero(np.isfinite(px + py)), default=-1)  # NaN makes a gap, even at the end
            notes.append(_direct(entry.label, px[last], py[last], entry.role, log_x, log_y))
    labelled = [(entry, pair) for entry, pair in zip(series, points, strict=True) if not entry.names]
    lines, points_only, labels = [], [], []
    for note, (entry, (px, py)) in zip(notes, labelled, strict=True):
        along, up = _fraction(px, horizontal, log_x), _fraction(py, vertical, log_y)
        if entry.line and np.all(np.diff(px) >= 0):
            lines.append((note, (along, up)))
        elif not entry.line:
            points_only.append((note, (along[-1:], up[-1:])))
            right = along[-1] + _LETTER * (len(entry.label) + 1)
            labels.append((np.array([along[-1], right]), np.full(2, up[-1])))
    for note, own in lines:
        others = [line for _, line in lines if line is not own]
        note.update(_label_position(own, [*others, *labels], note["text"], height - _MARGINS))
    for note, own in points_only:  # next to its point, clear of lines
        note.update(_label_position(own, [line for _, line in lines], note["text"], height - _MARGINS))
    shapes, extra = _marks(marks, log_x, log_y)
    layout = base_layout(height)
    longest = max((len(entry.label) for entry, _ in labelled), default=0)
    if len(labelled) < len(series):
        layout["meta"] = {**layout.get("meta", {}), "key": True}
    layout["margin"]["r"] = min(220, 16 + 8 * longest)
    layout["xaxis"] = axis(x, log_x, horizontal) | (_powers_of_two(xs) if log_x else {})
    layout["yaxis"] = axis(y, log_y, vertical)
    layout["annotations"], layout["shapes"] = notes + extra, shapes
    return Figure(
        title=title,
        caption=caption,
        alt=f"Line chart of {y} against {x}: {', '.join(entry.label for entry in series)}. "
        "The points are listed below.",
        height=height,
        narrow_height=height + 40,
        kind="chart",
        spec={"data": data, "layout": layout},
        steps=tuple(_row(entry.label, px, py) for entry, (px, py) in zip(series, points, strict=True)),
    )


def _points(series: Series, log_x: bool, log_y: bool) -> tuple[Floats, Floats]:
    x, y = np.atleast_1d(np.asarray(series.x, float)), np.atleast_1d(np.asarray(series.y, float))
    if x.shape != y.shape or x.ndim != 1 or x.size == 0:
        raise ValueError(
            f"series {series.label!r} needs as many x as y, at least one; it has {x.shape} and {y.shape}"
        )
    if series.names and len(series.names) != x.size:
        raise ValueError(f"series {series.label!r} has {x.size} points, but names for {len(series.names)}")
    theme.colour(series.role)
    for name, log, values in (("x", log_x, x), ("y", log_y, y)):
        if log and not (values > 0).all():
            raise ValueError(
                f"series {series.label!r} has {name} = {values.min():g}; a log axis takes positive numbers"
            )
    return x, y


def _span(values: Floats, log: bool, floor: float | None) -> Range:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if log:
        return low / 1.25, high * 1.25
    if floor is not None:
        low = min(low, floor)
    margin = 0.06 * ((high - low) or abs(high) or 1.0)
    return (low if low == floor else low - margin), high + margin


def _powers_of_two(values: Floats) -> dict[str, Any]:
    """Ticks at the values if all are powers of two, few and short; otherwise no setting."""
    at = np.unique(values)
    if not 3 <= len(at) <= 8 or at[-1] > 4096 or not np.all(np.log2(at) % 1 == 0):
        return {}
    return {"tickmode": "array", "tickvals": at.tolist(), "ticktext": [f"{value:,g}" for value in at]}


def _trace(
    series: Series, x: Floats, y: Floats | list[float], nth: int, x_name: str, y_name: str
) -> dict[str, Any]:
    open_marks = series.role == "predicted"
    dashes = _PREDICTED_DASHES if open_marks else _DASHES
    symbol = _SYMBOLS[nth % len(_SYMBOLS)] + ("-open" if open_marks else "")
    mode = "+".join(["lines"] * series.line + ["markers"] * (series.marks or not series.line))
    named = {"text": [escape(name).replace("\n", "<br>") for name in series.names]} if series.names else {}
    title = "<b>%{text}</b>" if series.names else series.label
    return {
        **named,
        "type": "scatter",
        "name": series.label,
        "x": x,
        "y": y,
        "mode": mode,
        "line": {
            "color": theme.token(series.role),
            "width": 2,
            "dash": dashes[nth % len(dashes)],
        },
        "marker": {
            "symbol": symbol,
            "size": series.size,
            "color": theme.token(series.role),
            "line": {"width": 2 if open_marks else 0},
        },
        "cliponaxis": False,
        "hovertemplate": f"{title}<br>{x_name}: %{{x:,.4~g}}<br>{y_name}: %{{y:,.4~g}}<extra></extra>",
    }


def _direct(label: str, x: float, y: float, role: str, log_x: bool, log_y: bool) -> dict[str, Any]:
    return {
        "name": "direct",
        "text": label,
        "x": float(np.log10(x)) if log_x else float(x),
        "y": float(np.log10(y)) if log_y else float(y),
        "xanchor": "left",
        "xshift": 9,
        "showarrow": False,
        "align": "left",
        "font": {"size": 13, "color": theme.token(role)},
    }


def _fraction(values: Floats, ends: Range, log: bool) -> Floats:
    """Positions of values along an axis, from 0 to 1."""
    along, (low, high) = (np.log10(data) if log else data for data in (values, np.asarray(ends, float)))
    return np.asarray((along - low) / (high - low))


def _label_position(own: _Line, others: Sequence[_Line], label: str, height: float) -> dict[str, Any]:
    """Find a free position for a label: at its line's end, a text line lower or higher, or before the end.

    Args:
        own: the label's line.
        others: the chart's other lines.
        label: the label.
        height: the square's height in px.

    Returns:
        Changes to a label at the end; empty if that is the best position.
    """
    (left, level), long = (float(axis_values[-1]) for axis_values in own), _LETTER * len(label)
    before = np.linspace(left - long, left, 20)
    offsets = np.interp(before, *own) - level
    candidates = [("left", 0.0), ("left", -13.0), ("left", 13.0)]
    candidates += [("right", height * offsets.max() + 13), ("right", height * offsets.min() - 13)]

    def overlaps(anchor: str, shift: float) -> int:
        """Count the label's twenty sample points that overlap a line or are outside the chart."""
        room = before if anchor == "right" else np.linspace(left + _LETTER, left + _LETTER + long, 20)
        count = int((room < 0).sum())
        for along, up in (*others, own):
            inside = room[(room >= along[0]) & (room < along[-1])]
            count += int((np.abs(np.interp(inside, along, up) - level - shift / height) < _CLEAR).sum())
        return count

    anchor, shift = min(candidates, key=lambda candidate: overlaps(*candidate))  # the first of equal ones
    if (anchor, shift) == candidates[0]:
        return {}
    return {"xanchor": anchor, "xshift": 9 if anchor == "left" else 4, "yshift": round(shift)}


def _marks(
    marks: Sequence[Mark], log_x: bool, log_y: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    shapes, notes = [], []
    for mark in marks:
        if (mark.x is None) == (mark.y is None):
            raise ValueError(f"the mark {mark.label!r} needs x or y, and not both")
        shape: dict[str, Any] = {
            "type": "line",
            "line": {"color": theme.token(mark.role), "width": 1.5, "dash": "dot"},
        }
        note: dict[str, Any] = {
            "name": "mark",
            "text": mark.label,
            "showarrow": False,
            "font": {"size": 13, "color": theme.token(mark.role)},
        }
        if mark.x is not None:
            at = float(np.log10(mark.x)) if log_x else mark.x
            shape |= {"x0": mark.x, "x1": mark.x, "yref": "paper", "y0": 0, "y1": 1}
            note |= {"x": at, "yref": "paper", "y": 1, "xanchor": "right", "xshift": -5, "yanchor": "top"}
        else:
            at = float(np.log10(mark.y)) if log_y else float(mark.y)  # type: ignore[arg-type]
            shape |= {"y0": mark.y, "y1": mark.y, "xref": "paper", "x0": 0, "x1": 1}
            note |= {"y": at, "xref": "paper", "x": 0, "xanchor": "left", "xshift": 5, "yanchor": "bottom"}
        shapes.append(shape)
        notes.append(note)
    return shapes, notes


def _row(label: str, x: Floats, y: Floats) -> str:
    """A line as text, without NaN values."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), 40)).astype(int))
    points = "; ".join(f"{number(x[at])}: {number(y[at])}" for at in shown)
    return (
        f"{label} ({len(shown)} of {len(x)} points): {points}"
        if len(shown) < len(x)
        else f"{label}: {points}"
    )
