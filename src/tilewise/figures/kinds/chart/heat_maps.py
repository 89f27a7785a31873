"""Heat maps of matrices side by side, with a slider where they come in steps.

In: matrices, or stacks of them, with names. Out: a Figure of kind ``chart``; on a narrow screen the maps
stand one below the other. Every step shares one scale, so that a colour means the same value throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures import theme
from tilewise.figures.axes import Range, axis, base_layout
from tilewise.figures.figure import Figure
from tilewise.figures.values import are_names

MAX_CELLS_WITH_NUMBERS = 100
Floats = npt.NDArray[np.float64]


def heat_map(
    matrices: Mapping[str, npt.ArrayLike],
    *,
    title: str,
    caption: str,
    x: str | Mapping[str, str],
    y: str | Mapping[str, str],
    steps: Sequence[Any] | None = None,
    step_name: str = "step",
    start: int = 0,
    ranges: Mapping[str, Range] | None = None,
    role: str = "global",
    form: str = ".2f",
    key: bool = True,
    height: int = 400,
    alt: str | None = None,
) -> Figure:
    """Return one to three heat maps.

    Args:
        matrices: by name, rows by columns; or, with ``steps``, steps by rows by columns.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        x: what the columns are, for all maps or by name.
        y: what the rows are, for all maps or by name.
        steps: label of each step, e.g. temperatures.
        step_name: what the slider sets.
        start: the step shown first.
        ranges: ends of a map's scale by name; by default its smallest and largest value over all steps.
        role: the role whose colour is the high end; the ground is the low end.
        form: how a value is written.
        key: whether a bar beside each map says which value a colour has; without it the caption must.
        height: height in px on a wide screen.
        alt: the text alternative; by default made from names, sizes and ranges.

    Raises:
        ValueError: a matrix has another number of steps than ``steps``, or is not a matrix.
    """
    if not 1 <= len(matrices) <= 3:
        raise ValueError(f"a heat map shows one to three matrices, not {len(matrices)}")
    count = 1 if steps is None else len(steps)
    stacks = {name: _stack(name, values, steps) for name, values in matrices.items()}
    if not 0 <= start < count:
        raise ValueError(f"start is {start}, but there are {count} steps")
    data: list[dict[str, Any]] = []
    layout = base_layout(height)
    layout["margin"] |= {"t": 34}
    wide, narrow = _places(len(stacks), key), _stacked(len(stacks), key)
    layout["annotations"] = []
    shared = None
    patch: dict[str, Any] = {"layout": {"annotations": []}, "traces": []}
    for at, (name, stack) in enumerate(stacks.items()):
        low, high = (ranges or {}).get(name, (float(np.nanmin(stack)), float(np.nanmax(stack))))
        suffix = "" if at == 0 else str(at + 1)
        columns, rows = (side if isinstance(side, str) else side[name] for side in (x, y))
        data.append(_map(name, stack[start], (low, high), suffix, role, form, wide[at]) | {"showscale": key})
        layout[f"xaxis{suffix}"] = _side(columns, stack.shape[2]) | {
            "domain": wide[at][0],
            "anchor": f"y{suffix}",
        }
        layout[f"yaxis{suffix}"] = _side(rows, stack.shape[1]) | {
            "domain": wide[at][1],
            "anchor": f"x{suffix}",
            "autorange": "reversed",
        }
        if at and rows == shared:
            layout[f"yaxis{suffix}"]["title"] = {"text": ""}
            patch["layout"][f"yaxis{suffix}"] = {"title": axis(rows)["title"]}
        shared = rows
        layout["annotations"].append(_name(name, wide[at]))
        patch["layout"][f"xaxis{suffix}"] = {"domain": narrow[at][0]}
        patch["layout"].setdefault(f"yaxis{suffix}", {})["domain"] = narrow[at][1]
        patch["layout"]["annotations"].append(_name(name, narrow[at]))
        patch["traces"].append({"colorbar": _bar(narrow[at])})
    layout["meta"] = {"narrow": patch}
    spec: dict[str, Any] = {"data": data, "layout": layout}
    if steps is not None:
        texts = [str(label) for label in steps]
        spec["frames"] = [
            {"name": label, "data": [{"type": "heatmap", "z": stack[k]} for stack in stacks.values()]}
            for k, label in enumerate(texts)
        ]
        layout["meta"] |= {"step_name": step_name, "are_names": are_names(texts), "start": start}
    slider = 56 if steps is not None else 0
    return Figure(
        title=title,
        caption=caption,
        alt=alt or _said(stacks),
        height=height + slider,
        narrow_height=min(2000, (300 if len(stacks) > 1 else 340) * len(stacks) + slider + 60),
        kind="chart",
        spec=spec,
        steps=_texts(stacks, steps, step_name, form),
    )


def _stack(name: str, values: npt.ArrayLike, steps: Sequence[Any] | None) -> Floats:
    stack = np.asarray(values, float)
    if steps is None and stack.ndim == 2:
        return stack[None]
    if steps is not None and stack.ndim == 3 and len(stack) == len(steps):
        return stack
    wanted = "rows by columns" if steps is None else f"{len(steps)} steps by rows by columns"
    raise ValueError(f"matrix {name!r} has the shape {stack.shape}; it should be {wanted}")


Place = tuple[tuple[float, float], tuple[float, float]]


def _places(count: int, key: bool) -> list[Place]:
    """Side by side; behind each map there is room for its key, or only for the next map's axis."""
    share = 1.0 / count if key else 1.0 / (0.8 * count + 0.2 * (count - 1))
    width = share * (0.8 if count > 1 or not key else 0.9)
    return [((at * share, at * share + width), (0.0, 1.0)) for at in range(count)]


def _stacked(count: int, key: bool) -> list[Place]:
    share = 1.0 / count
    return [
        (
            (0.0, 0.8 if key else 1.0),
            (
                1 - (at + 1) * share + (0.14 if at < count - 1 else 0.0) * share,
                1 - at * share - 0.1 * share * (at > 0),
            ),
        )
        for at in range(count)
    ]


def _side(label: str, count: int) -> dict[str, Any]:
    side = axis(label) | {"showgrid": False, "showline": False, "constrain": "domain"}
    return side | ({"dtick": 1} if count <= 12 else {"nticks": 6})


def _name(name: str, place: Place) -> dict[str, Any]:
    return {
        "name": "panel",
        "text": f"<b>{name}</b>",
        "xref": "paper",
        "yref": "paper",
        "x": place[0][0],
        "y": place[1][1],
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
        "font": {"size": 14, "color": theme.token("ink")},
    }


def _bar(place: Place) -> dict[str, Any]:
    (_, right), (bottom, top) = place
    return {
        "x": right + 0.01,
        "xanchor": "left",
        "xpad": 2,
        "y": (bottom + top) / 2,
        "len": top - bottom,
        "lenmode": "fraction",
        "ypad": 0,
        "thickness": 10,
        "outlinewidth": 0,
        "nticks": 5,
        "tickfont": {"size": 12, "color": theme.token("muted")},
    }


def _map(
    name: str, values: Floats, ends: Range, suffix: str, role: str, form: str, place: Place
) -> dict[str, Any]:
    trace = {
        "type": "heatmap",
        "name": name,
        "z": values,
        "zmin": ends[0],
        "zmax": ends[1],
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "colorscale": [[0, theme.token("panel")], [1, theme.token(role)]],
        "xgap": 1,
        "ygap": 1,
        "colorbar": _bar(place),
        "hovertemplate": f"{name}[%{{y}}][%{{x}}] = %{{z:{form}}}<extra></extra>",
    }
    if values.size <= MAX_CELLS_WITH_NUMBERS:
        trace |= {"texttemplate": f"%{{z:{form}}}", "textfont": {"size": 12}}
    return trace


def _said(stacks: Mapping[str, Floats]) -> str:
    parts = [
        f"{name} has {stack.shape[1]} rows and {stack.shape[2]} columns, with values from "
        f"{np.nanmin(stack):.3g} to {np.nanmax(stack):.3g}"
        for name, stack in stacks.items()
    ]
    return "Heat maps: " + "; ".join(parts) + "."


def _texts(
    stacks: Mapping[str, Floats], steps: Sequence[Any] | None, step_name: str, form: str
) -> tuple[str, ...]:
    """Return a line a step; small matrices are written out, large ones by range."""

    def written(name: str, matrix: Floats) -> str:
        if matrix.size <= MAX_CELLS_WITH_NUMBERS:
            return f"{name} = " + " / ".join(
                " ".join(format(v, form) for v in row) for row in matrix.tolist()
            )
        return f"{name} from {np.nanmin(matrix):.3g} to {np.nanmax(matrix):.3g}"

    return tuple(
        (f"{step_name} {label}: " if steps is not None else "")
        + "; ".join(written(name, stack[k]) for name, stack in stacks.items())
        for k, label in enumerate(steps if steps is not None else [""])
    )
