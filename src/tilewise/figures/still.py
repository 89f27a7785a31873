"""The view of a figure that needs no script of ours: what a notebook draws, and what Plotly validates.

In: a figure's kind and specification. Out: a Plotly figure with role tokens for colours. It shows the
first state; the site's explorers show all of them. What a kind looks like stands in its folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from tilewise.figures import dims, theme
from tilewise.figures.axes import axis, base_layout
from tilewise.figures.values import plain


def chart(kind: str, spec: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Return a Plotly figure with data, layout and, where there are steps, frames and a slider.

    Raises:
        ValueError: no figure is of that kind.
    """
    try:
        made = import_module(f"tilewise.figures.kinds.{kind}.still").view(spec)
    except ModuleNotFoundError as error:
        raise ValueError(f"there is no figure of kind {kind!r} in tilewise/figures/kinds") from error
    made["layout"] = {**made["layout"], "title": {"text": title, "font": {"size": 15}}}
    made["layout"]["margin"] = {**made["layout"]["margin"], "t": 64}
    whole: dict[str, Any] = plain(made)
    return whole


def launch(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The bottom layer of a launch, coloured by block, with who is who in the hover text."""
    grid, block = tuple(spec["grid"]), tuple(spec["block"])
    every = dims.threads(grid, block, spec["max_threads"])
    layer = every.position[:, 2] == 0
    x, y = every.position[layer, 0], every.position[layer, 1]
    shape = (int(y.max()) + 1, int(x.max()) + 1)
    number = np.full(shape, np.nan)
    number[y, x] = every.linear_block[layer]
    said = np.full(shape, "", dtype=object)
    for at in np.flatnonzero(layer):
        column, row, _ = every.position[at]
        said[row, column] = (
            f"block {tuple(every.block[at].tolist())}, thread {tuple(every.thread[at].tolist())}, "
            f"warp {every.warp[at]}, lane {every.lane[at]}"
        )
    layout = base_layout(420)
    layout["xaxis"] = axis(f"{spec['axes'][0]}, global index")
    layout["yaxis"] = axis(f"{spec['axes'][1]}, global index") | {"autorange": "reversed"}
    return {"data": [cells(number, said.tolist(), "block")], "layout": layout}


def cells(number: np.ndarray[Any, Any], text: list[list[str]], role: str) -> dict[str, Any]:
    """Return cells in shades of a role, with a text for each."""
    return {
        "type": "heatmap",
        "z": number,
        "text": text,
        "hovertemplate": "%{text}<extra></extra>",
        "colorscale": [[0, theme.token(role, 0.25)], [1, theme.token(role)]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }
