"""Heat maps of matrices side by side, with a slider if they have steps.

In: matrices, or stacks of them, with names. Out: a Figure of kind ``chart``; on a narrow screen the maps are
stacked. All steps share one scale, so that a colour always means the same value.
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
        matrices: by name, of shape (rows, columns); with ``steps``, (steps, rows, columns).
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        x: label of the columns, for all maps or by name.
        y: label of the rows, for all maps or by name.
        steps: label of each step, e.g. temperatures.
        step_name: label of the slider.
        start: the step shown first.
        ranges: limits of a map's scale by name; by default its minimum and maximum over all steps.
        role: the role of the high end's colour; the low end has the background's.
        form: Python format of a value.
        key: whether each map has a colour bar; without it the caption must explain the colours.
        height: height in px on a wide screen.
        alt: the text alternative; by default names, sizes and ranges.

    Raises:
        ValueError: a matrix has not as many steps as ``steps``, or the wrong number of dimensions.
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
    wide, narrow = _side_by_side(len(stacks), key), _stacked(len(stacks), key)
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
        alt=alt or _alt(stacks),
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


def _side_by_side(count: int, key: bool) -> list[Place]:
    """Maps side by side, with room for each map's colour bar or the next map's axis."""
    pitch = 1.0 / count if key else 1.0 / (0.8 * count + 0.2 * (count - 1))
    width = pitch * (0.8 if count > 1 or not key else 0.9)
    return [((at * pitch, at * pitch + width), (0.0, 1.0)) for at in range(count)]


def _stacked(count: int, key: bool) -> list[Place]:
    pitch = 1.0 / count
    return [
        (
            (0.0, 0.8 if key else 1.0),
            (
                1 - (at + 1) * pitch + (0.14 if at < count - 1 else 0.0) * pitch,
                1 - at * pitch - 0.1 * pitch * (at > 0),
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


def _alt(stacks: Mapping[str, Floats]) -> str:
    parts = [
        f"{name} has {stack.shape[1]} rows and {stack.shape[2]} columns, with values from "
        f"{np.nanmin(stack):.3g} to {np.nanmax(stack):.3g}"
        for name, stack in stacks.items()
    ]
    return "Heat maps: " + "; ".join(parts) + "."


def _texts(
    stacks: Mapping[str, Floats], steps: Sequence[Any] | None, step_name: str, form: str
) -> tuple[str, ...]:
    """Return one line per step, with small matrices in full and the range of large ones."""

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
