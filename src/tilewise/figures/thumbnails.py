"""A figure's first state, small and still: for a page that shows all figures at once.

In: a figure's kind and specification. Out: inline SVG of 240 by 144 without text. Charts are drawn from the
Plotly figures of ``still``, of which bars, lines, marks, cells and polygons are understood; calculators with
their sliders or their plot, steps by ``thumbnails_stepped``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tilewise.figures.small_drawing import HEIGHT, WIDTH, Point, SmallDrawing
from tilewise.figures.still import chart
from tilewise.figures.thumbnails_stepped import draw_steps

_LEFT, _RIGHT, _TOP, _BOTTOM = 10.0, WIDTH - 8.0, 8.0, HEIGHT - 10.0
_MOST_DOTS, _MOST_ALONG = 60, 240
_MOST_CELLS = 20
_SHADES = 6
Place = Callable[[Any], float]


def thumbnail(kind: str, spec: Mapping[str, Any]) -> str:
    """A figure's first state as inline SVG.

    Raises:
        ValueError: no figure is of that kind, or its chart holds a trace that cannot be drawn here.
    """
    drawing = SmallDrawing()
    if kind == "stepped":
        draw_steps(drawing, spec)
    elif kind == "calculator":
        _draw_calculator(drawing, spec)
    else:
        made = chart(kind, spec, "")
        data = _stacked(made["data"]) if made["layout"].get("barmode") == "stack" else made["data"]
        _draw_chart(drawing, data, made["layout"])
    return drawing.svg()


def _stacked(data: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Lying bars of the same name, each of which begins where the one before ends."""
    ends: dict[str, float] = {}
    stacked: list[Mapping[str, Any]] = []
    for trace in data:
        stacked.append({**trace, "base": [ends.get(name, 0.0) for name in trace["y"]]})
        for name, length in zip(trace["y"], trace["x"], strict=True):
            ends[name] = ends.get(name, 0.0) + length
    return stacked


def _draw_chart(drawing: SmallDrawing, data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> None:
    for ends in dict.fromkeys(str(trace.get("xaxis", "x"))[1:] for trace in data):
        together = [trace for trace in data if str(trace.get("xaxis", "x"))[1:] == ends]
        x_axis, y_axis = layout.get(f"xaxis{ends}", {}), layout.get(f"yaxis{ends}", {})
        left, right = _within(_LEFT, _RIGHT, x_axis)
        bottom, top = _within(_BOTTOM, _TOP, y_axis)
        if together[0]["type"] == "heatmap":
            _draw_cells(drawing, together[0], (left, top), (right - left, bottom - top))
            continue
        across = _placing(x_axis, [value for trace in together for value in _values(trace, "x")], left, right)
        upward = _placing(y_axis, [value for trace in together for value in _values(trace, "y")], bottom, top)
        if x_axis.get("visible", True):
            drawing.line("line", [(left, top), (left, bottom), (right, bottom)], thick=1)
        bars = [trace for trace in together if trace["type"] == "bar"]
        for number, trace in enumerate(bars):
            grouped = len(bars) if layout.get("barmode") == "group" else 1
            _draw_bars(drawing, trace, across, upward, (number if grouped > 1 else 0, grouped), left)
        for trace in together:
            if trace["type"] == "scatter":
                _draw_series(drawing, trace, across, upward)
            elif trace["type"] != "bar":
                raise ValueError(f"a thumbnail cannot hold a trace of type {trace['type']!r}")


def _within(first: float, last: float, axis: Mapping[str, Any]) -> tuple[float, float]:
    begin, end = axis.get("domain", (0, 1))
    return first + begin * (last - first), first + end * (last - first)


def _values(trace: Mapping[str, Any], along: str) -> list[Any]:
    """What an axis must reach; a bar's length counts from its base and from 0."""
    values = list(trace[along])
    if trace["type"] == "bar" and (along == "x") == (trace.get("orientation") == "h"):
        base = trace.get("base", [0] * len(values))
        values = [*base, *(start + length for start, length in zip(base, values, strict=True))]
    return values


def _placing(axis: Mapping[str, Any], values: Sequence[Any], first: float, last: float) -> Place:
    """Where a value stands, in px; a name stands in the middle of its share of the axis."""
    names = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    if axis.get("autorange") == "reversed":
        first, last = last, first
    if names:
        share = (last - first) / len(names)
        return lambda value: first + share * (names.index(value) + 0.5)
    is_log = axis.get("type") == "log"
    known = [value for value in values if _can_stand(value, is_log)]
    turned = [math.log10(value) if is_log else value for value in known] or [0.0]
    low, high = axis.get("range") or (min(turned), max(turned))
    span = (high - low) or 1.0

    def place(value: Any) -> float:
        at = math.log10(max(value, 1e-30)) if is_log else value
        return first + min(1.05, max(-0.05, (at - low) / span)) * (last - first)

    return place


def _can_stand(value: Any, is_log: bool) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and not (is_log and value <= 0)


def _draw_bars(
    drawing: SmallDrawing,
    trace: Mapping[str, Any],
    across: Place,
    upward: Place,
    among: tuple[int, int],
    left: float,
) -> None:
    """Lying bars, all of one thickness; ``among`` is the place of this series among those of a group."""
    places = [upward(name) for name in trace["y"]]
    apart = [abs(a - b) for a, b in pairwise(places) if a != b]
    room = min(min(apart, default=_BOTTOM - _TOP), 30.0) * 0.72
    thick = room / among[1]
    base = trace.get("base")
    colours = trace["marker"]["color"]
    for at, length in enumerate(trace["x"]):
        if not isinstance(length, int | float) or not math.isfinite(length):
            continue
        start = across(base[at]) if base else left
        stop = across((base[at] if base else 0) + length) - (0.8 if base else 0)
        top = places[at] - room / 2 + among[0] * thick
        token = colours if isinstance(colours, str) else colours[at]
        drawing.box(token, (start, top), (max(stop - start, 1.0), max(thick - 1, 1.0)))
        if "/" in token:  # as on the page, what was not measured has an outline
            drawing.frame(
                token.partition("/")[0], (start, top), (max(stop - start, 1.0), max(thick - 1, 1.0))
            )


def _draw_series(drawing: SmallDrawing, trace: Mapping[str, Any], across: Place, upward: Place) -> None:
    known = [
        (across(x), upward(y))
        for x, y in zip(trace["x"], trace["y"], strict=True)
        if _is_known(x) and _is_known(y)
    ]
    if trace.get("fill") == "toself":
        drawing.area(trace["fillcolor"], known)
        drawing.line("surface", [*known, known[0]], thick=0.8)
        return
    points = known[:: -(-len(known) // _MOST_DOTS)] if known else []
    if "lines" in trace["mode"]:
        line = trace["line"]
        every = known[:: -(-len(known) // _MOST_ALONG)] if known else []
        drawing.line(line["color"], every, line.get("dash", "solid"))
    if "markers" in trace["mode"]:
        marker = trace["marker"]
        size = 4.5 if len(points) <= 20 else 3.2
        for token, some in _by_colour(marker["color"], known, points):
            drawing.dots(token, some, size, hollow="open" in str(marker.get("symbol")))


def _is_known(value: Any) -> bool:
    return isinstance(value, str) or _can_stand(value, False)


def _by_colour(
    colours: Any, known: Sequence[Point], points: Sequence[Point]
) -> Iterator[tuple[str, Sequence[Point]]]:
    if isinstance(colours, str):
        yield colours, points
        return
    for token in dict.fromkeys(colours):
        yield token, [point for point, own in zip(known, colours, strict=False) if own == token]


def _draw_cells(drawing: SmallDrawing, trace: Mapping[str, Any], at: Point, size: Point) -> None:
    """Cells as boxes in a few shades; large maps lose rows and columns, and small ones keep square cells."""
    rows = trace["z"][:: -(-len(trace["z"]) // _MOST_CELLS)]
    rows = [row[:: -(-len(row) // _MOST_CELLS)] for row in rows]
    known = [value for row in rows for value in row if _is_known(value)]
    low, high = trace.get("zmin", min(known, default=0)), trace.get("zmax", max(known, default=1))
    side = min(size[0] / len(rows[0]), size[1] / len(rows))
    left = at[0] + (size[0] - side * len(rows[0])) / 2
    top = at[1] + (size[1] - side * len(rows)) / 2
    gap = 1.0 if side > 4 else 0.4
    (_, lowest), (_, highest) = trace["colorscale"][0], trace["colorscale"][-1]
    faint = float(lowest.partition("/")[2] or 0.12)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if not _is_known(value):
                continue
            share = (value - low) / ((high - low) or 1)
            shade = round(min(1.0, max(0.0, share)) * _SHADES) / _SHADES
            place = (left + j * side, top + i * side)
            drawing.box(highest, place, (side - gap, side - gap), faint + (1 - faint) * shade)


def _draw_calculator(drawing: SmallDrawing, spec: Mapping[str, Any]) -> None:
    """What its sliders start with: the lines and the point of its plot, or its bars below the sliders."""
    sliders, at = spec["sliders"], 0
    for one in sliders:
        at = at * len(one["said"]) + one["start"]
    if "plot" in spec:
        _draw_plot(drawing, spec["plot"], at)
        return
    top = _TOP + 4
    for one in sliders:
        knob = _LEFT + (_RIGHT - _LEFT) * one["start"] / max(len(one["said"]) - 1, 1)
        drawing.line("line", [(_LEFT, top), (_RIGHT, top)], thick=2)
        drawing.dots("ink", [(knob, top)], 7)
        top += 12
    pitch = min((_BOTTOM - top) / len(spec["meters"]), 24.0)
    for meter in spec["meters"]:
        long = (_RIGHT - _LEFT) * min(meter["share"][at], 1.0)
        drawing.box("line", (_LEFT, top), (_RIGHT - _LEFT, pitch * 0.7), 0.4)
        drawing.box(meter["role"], (_LEFT, top), (long, pitch * 0.7))
        top += pitch


def _draw_plot(drawing: SmallDrawing, plot: Mapping[str, Any], at: int) -> None:
    kind = "log" if plot["log"] else "linear"
    ends = [
        [math.log10(end) if plot["log"] else end for end in plot[name]] for name in ("x_range", "y_range")
    ]
    across = _placing({"type": kind, "range": ends[0]}, [], _LEFT, _RIGHT)
    upward = _placing({"type": kind, "range": ends[1]}, [], _BOTTOM, _TOP)
    drawing.line("line", [(_LEFT, _TOP), (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)], thick=1)
    for line in plot["drawings"][plot["drawing"][at]]:
        points = line["points"][:: -(-len(line["points"]) // _MOST_ALONG)]
        drawing.line(line["role"], [(across(x), upward(y)) for x, y in points])
    x, y = plot["point"][at]
    drawing.dots("lane", [(across(x), upward(y))], 7)
