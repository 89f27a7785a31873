"""Line charts, scatters and bars as Plotly specifications, laid out for a message.

In: numbers with labels and roles. Out: Figures of kind ``chart``: axes with units, direct labels, ranges that are set
here so that steps share them. Colours stay role tokens; drawing is left to ``web/figures/chart.js``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures import theme
from tilewise.figures.figure import Figure, plain

Numbers = npt.ArrayLike
Range = tuple[float, float]
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")
_DASHES = ("solid", "dot", "dashdot", "longdash")


@dataclass(frozen=True)
class Series:
    """One line, or one cloud of points."""

    label: str
    """Stands beside its end."""
    x: Numbers
    """In the unit of the x axis."""
    y: Numbers
    """In the unit of the y axis."""
    role: str = "measured"
    """``predicted`` is drawn dashed with open marks, every other role solid with filled ones."""
    line: bool = True
    """Whether the points are joined."""
    marks: bool = True
    """Whether the points are marked."""
    low: Numbers | None = None
    """Lower end of a band around the line, e.g. a 20th percentile."""
    high: Numbers | None = None
    """Upper end of the band."""


@dataclass(frozen=True)
class Mark:
    """A reference line across the chart."""

    label: str
    """Stands at its end."""
    x: float | None = None
    """Where a vertical line stands; give x or y."""
    y: float | None = None
    """Where a horizontal line stands."""
    role: str = "muted"
    """The role whose colour it takes."""


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    caption: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    x_range: Range | None = None,
    y_range: Range | None = None,
    marks: Sequence[Mark] = (),
    height: int = 400,
    alt: str | None = None,
) -> Figure:
    """Return a chart of lines or points.

    Args:
        series: what is drawn; labels stand beside the lines.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        x: what the x axis shows, with its unit.
        y: what the y axis shows, with its unit.
        log_x: whether x is logarithmic.
        log_y: whether y is logarithmic.
        x_range: ends of the x axis; by default all points with a margin.
        y_range: ends of the y axis; by default all points with a margin, and 0 on a linear axis.
        marks: reference lines.
        height: height in px.
        alt: the text alternative; by default made from labels and axes.

    Raises:
        ValueError: a series is empty, its x and y differ in length, or a log axis meets a number that is not positive.
    """
    points = [_points(one, log_x, log_y) for one in series]
    if not points:
        raise ValueError("a line chart needs at least one series")
    xs = np.concatenate(
        [pair[0] for pair in points] + [np.array([m.x for m in marks if m.x is not None], float)]
    )
    ys = np.concatenate(
        [pair[1] for pair in points]
        + [np.asarray(end, float) for one in series for end in (one.low, one.high) if end is not None]
        + [np.array([m.y for m in marks if m.y is not None], float)]
    )
    horizontal = x_range or _span(xs, log_x, None)
    vertical = y_range or _span(ys, log_y, 0.0)
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for one, (px, py) in zip(series, points, strict=True):
        nth = seen.get(one.role, 0)
        seen[one.role] = nth + 1
        data += _band(one, px)
        data.append(_trace(one, px, py, nth, x, y))
        notes.append(_direct(one.label, px[-1], py[-1], one.role, log_x, log_y))
    shapes, extra = _marks(marks, log_x, log_y)
    layout = base_layout(height)
    longest = max(len(one.label) for one in series)
    layout["margin"]["r"] = min(220, 16 + 8 * longest)
    layout["xaxis"] = axis(x, log_x, horizontal)
    layout["yaxis"] = axis(y, log_y, vertical)
    layout["annotations"], layout["shapes"] = notes + extra, shapes
    return Figure(
        title=title,
        caption=caption,
        alt=alt or f"{y} against {x}, for {', '.join(one.label for one in series)}. The points follow.",
        height=height,
        narrow_height=height + 40,
        kind="chart",
        spec={"data": data, "layout": layout},
        steps=tuple(_row(one.label, px, py) for one, (px, py) in zip(series, points, strict=True)),
    )


def bars(
    values: Mapping[str, float | Mapping[str, float]],
    *,
    title: str,
    caption: str,
    x: str,
    role: str = "measured",
    roles: Mapping[str, str] | None = None,
    log: bool = False,
    value_range: Range | None = None,
    form: str = ",.4g",
    height: int | None = None,
    alt: str | None = None,
) -> Figure:
    """Return horizontal bars with their labels on the left and their values at the end.

    Args:
        values: number by label; or, for groups, numbers by series by label.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        x: what the bars' length shows, with its unit.
        role: the role of all bars.
        roles: role by label, or by series for groups, where they differ.
        log: whether the axis is logarithmic; its start then is a choice, and bars say less than points.
        value_range: ends of the axis.
        form: how a value is written, in Python's format language.
        height: height in px; by default by the number of bars.
        alt: the text alternative; by default made from labels and values.

    Raises:
        ValueError: there are no bars, groups differ in their series, or a value is negative.
    """
    if not values:
        raise ValueError("bars need at least one value")
    table = {label: dict(v) if isinstance(v, Mapping) else {"": float(v)} for label, v in values.items()}
    names = list(next(iter(table.values())))
    if any(list(row) != names for row in table.values()):
        raise ValueError(f"each group needs the same series in the same order: {names}")
    every = np.array([[float(row[name]) for name in names] for row in table.values()])
    if (every < 0).any() or (log and (every <= 0).any()):
        raise ValueError("bars start at 0 and need values that are not negative, above 0 on a log axis")
    ends = value_range or _bar_range(every, log)
    labels = ["<br>".join(textwrap.wrap(label, 22)) for label in table]
    data = [
        _bars_of(labels, every[:, at], name, (roles or {}).get, role, form)
        for at, name in reversed([*enumerate(names)])
    ]
    rows = len(labels) * len(names)
    tall = height or 96 + 34 * rows + 10 * len(labels) + (26 if len(names) > 1 else 0)
    layout = base_layout(tall)
    layout["xaxis"] = axis(x, log, ends)
    layout["yaxis"] = {
        "autorange": "reversed",
        "automargin": True,
        "ticks": "",
        "showgrid": False,
        "fixedrange": True,
    }
    layout |= {"bargap": 0.32, "barmode": "group", "meta": {"key": len(names) > 1}}
    return Figure(
        title=title,
        caption=caption,
        alt=alt or f"{x}, as bars. The values follow.",
        height=max(160, tall),
        kind="chart",
        spec={"data": data, "layout": layout},
        steps=tuple(
            f"{label}: "
            + "; ".join(f"{name + ' ' if name else ''}{format(row[name], form)}" for name in names)
            for label, row in table.items()
        ),
    )


def base_layout(height: int) -> dict[str, Any]:
    """Return what all charts share: no ground of their own, one face, text at 13 px."""
    return {
        "height": height,
        "margin": {"l": 12, "r": 16, "t": 14, "b": 12, "pad": 0},
        "font": {"size": 13, "color": theme.token("ink")},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": theme.token("panel"),
            "bordercolor": theme.token("line"),
            "font": {"size": 13, "color": theme.token("ink")},
        },
    }


def axis(label: str, log: bool = False, ends: Range | None = None) -> dict[str, Any]:
    """Return an axis with its label; its ends are given as values, on a log axis too."""
    made: dict[str, Any] = {
        "title": {"text": label, "standoff": 8, "font": {"size": 13, "color": theme.token("muted")}},
        "automargin": True,
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": theme.token("line", 0.6),
        "linecolor": theme.token("muted"),
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": theme.token("muted"),
        "tickfont": {"size": 12, "color": theme.token("muted")},
    }
    if log:
        made |= {"type": "log", "dtick": 1, "exponentformat": "SI", "minexponent": 4}
    if ends:
        made["range"] = [float(np.log10(end)) for end in ends] if log else list(ends)
        if log and made["range"][1] - made["range"][0] < 1.5:
            made["dtick"] = "D2"
    return made


def _points(one: Series, log_x: bool, log_y: bool) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    x, y = np.atleast_1d(np.asarray(one.x, float)), np.atleast_1d(np.asarray(one.y, float))
    if x.shape != y.shape or x.ndim != 1 or x.size == 0:
        raise ValueError(
            f"series {one.label!r} needs as many x as y, at least one; it has {x.shape} and {y.shape}"
        )
    theme.colour(one.role)
    for name, log, values in (("x", log_x, x), ("y", log_y, y)):
        if log and not (values > 0).all():
            raise ValueError(
                f"series {one.label!r} has {name} = {values.min():g}; a log axis takes positive numbers"
            )
    return x, y


def _span(values: npt.NDArray[np.float64], log: bool, floor: float | None) -> Range:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if log:
        return low / 1.25, high * 1.25
    if floor is not None:
        low = min(low, floor)
    margin = 0.06 * ((high - low) or abs(high) or 1.0)
    return (low if low == floor else low - margin), high + margin


def _trace(
    one: Series, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], nth: int, x_name: str, y_name: str
) -> dict[str, Any]:
    open_marks = one.role == "predicted"
    symbol = _SYMBOLS[nth % len(_SYMBOLS)] + ("-open" if open_marks else "")
    mode = "+".join(["lines"] * one.line + ["markers"] * (one.marks or not one.line))
    return {
        "type": "scatter",
        "name": one.label,
        "x": x,
        "y": y,
        "mode": mode,
        "line": {
            "color": theme.token(one.role),
            "width": 2,
            "dash": "dash" if open_marks else _DASHES[nth % len(_DASHES)],
        },
        "marker": {
            "symbol": symbol,
            "size": 8,
            "color": theme.token(one.role),
            "line": {"width": 2 if open_marks else 0},
        },
        "cliponaxis": False,
        "hovertemplate": f"{one.label}<br>{x_name}: %{{x:,.4~g}}<br>{y_name}: %{{y:,.4~g}}<extra></extra>",
    }


def _band(one: Series, x: npt.NDArray[np.float64]) -> list[dict[str, Any]]:
    if one.low is None or one.high is None:
        return []
    return [
        {
            "type": "scatter",
            "x": [*x, *x[::-1]],
            "y": [*np.asarray(one.high, float), *np.asarray(one.low, float)[::-1]],
            "mode": "lines",
            "line": {"width": 0, "color": theme.token(one.role, 0.2)},
            "fill": "toself",
            "fillcolor": theme.token(one.role, 0.2),
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]


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


def _marks(
    marks: Sequence[Mark], log_x: bool, log_y: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    shapes, notes = [], []
    for mark in marks:
        if (mark.x is None) == (mark.y is None):
            raise ValueError(f"the mark {mark.label!r} needs x or y, and not both")
        shape = {"type": "line", "line": {"color": theme.token(mark.role), "width": 1.5, "dash": "dot"}}
        note = {
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


def _row(label: str, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> str:
    shown = np.unique(np.linspace(0, len(x) - 1, min(len(x), 40)).astype(int))
    points = "; ".join(f"{x[at]:,.4g}: {y[at]:,.4g}" for at in shown)
    return (
        f"{label} ({len(shown)} of {len(x)} points): {points}"
        if len(shown) < len(x)
        else f"{label}: {points}"
    )


def _bar_range(every: npt.NDArray[np.float64], log: bool) -> Range:
    high = float(every.max()) or 1.0
    return (float(every.min()) / 3, high * 4) if log else (0.0, high * 1.22)


def _bars_of(
    labels: list[str], values: npt.NDArray[np.float64], name: str, role_of: Any, role: str, form: str
) -> dict[str, Any]:
    chosen = (
        [role_of(name) or role] * len(labels)
        if name
        else [role_of(label.replace("<br>", " ")) or role for label in labels]
    )
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": labels,
        "x": values,
        "text": [format(value, form) for value in plain(values)],
        "textposition": "outside",
        "textfont": {"size": 13, "color": theme.token("ink")},
        "cliponaxis": False,
        "constraintext": "none",
        "hoverinfo": "skip",
        "marker": {
            "color": [theme.token(one, 0.25) if one == "predicted" else theme.token(one) for one in chosen],
            "line": {"width": 1.5, "color": [theme.token(one) for one in chosen]},
            "pattern": {
                "shape": ["/" if one in ("predicted", "waste") else "" for one in chosen],
                "size": 6,
                "solidity": 0.35,
                "fgcolor": theme.token("surface"),
            },
        },
    }
