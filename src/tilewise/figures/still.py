"""The view of a figure that needs no script of ours: what a notebook draws, and what Plotly validates.

In: a figure's kind and specification. Out: a Plotly figure with role tokens for colours. It shows the
first state; the site's explorers show all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.figures import dims, theme
from tilewise.figures.chart import axis, base_layout
from tilewise.figures.values import plain


def chart(kind: str, spec: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Return a Plotly figure with data, layout and, where there are steps, frames and a slider.

    Raises:
        ValueError: no figure is of that kind.
    """
    if kind not in _VIEWS:
        raise ValueError(f"there is no figure of kind {kind!r}; there are {', '.join(_VIEWS)}")
    made = _VIEWS[kind](spec)
    made["layout"] = {**made["layout"], "title": {"text": title, "font": {"size": 15}}}
    made["layout"]["margin"] = {**made["layout"]["margin"], "t": 64}
    whole: dict[str, Any] = plain(made)
    return whole


def _chart(spec: Mapping[str, Any]) -> dict[str, Any]:
    made = {"data": spec["data"], "layout": {k: v for k, v in spec["layout"].items() if k != "meta"}}
    frames = spec.get("frames")
    if not frames:
        return made
    meta = spec["layout"]["meta"]
    slider = {
        "active": meta["start"],
        "currentvalue": {"prefix": f"{meta['step_name']}: "},
        "steps": [
            {"label": f["name"], "method": "animate", "args": [[f["name"]], {"mode": "immediate"}]}
            for f in frames
        ],
    }
    return {**made, "layout": {**made["layout"], "sliders": [slider]}, "frames": frames}


def _block_grid(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The bottom layer, coloured by block, with who is who in the hover text."""
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
    return {"data": [_cells(number, said.tolist(), "block")], "layout": layout}


def _cells(number: np.ndarray[Any, Any], text: list[list[str]], role: str) -> dict[str, Any]:
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


def _ribbon(spec: Mapping[str, Any]) -> dict[str, Any]:
    blocks = -(-spec["n"] // spec["block"])
    idle = blocks * spec["block"] - spec["n"]
    layout = base_layout(220) | {"barmode": "stack"}
    layout["xaxis"] = axis("threads")
    layout["yaxis"] = {"showticklabels": False}
    parts = [("at work", spec["n"], "block", ""), ("idle", idle, "waste", "/")]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [""],
            "x": [count],
            "text": [f"{count:,} {name}"],
            "marker": {"color": theme.token(role), "pattern": {"shape": shape}},
        }
        for name, count, role, shape in parts
    ]
    return {"data": data, "layout": layout}


def _timeline(spec: Mapping[str, Any]) -> dict[str, Any]:
    layout = base_layout(150 + 56 * len(spec["rows"])) | {"barmode": "overlay"}
    layout["xaxis"] = axis("time, not to scale" if spec["schematic"] else f"time [{spec['unit']}]")
    layout["yaxis"] = {"autorange": "reversed", "automargin": True}
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [spec["rows"][span["row"]]],
            "base": [span["start"]],
            "x": [span["stop"] - span["start"]],
            "text": [span["label"]],
            "marker": {"color": theme.token(span["role"])},
        }
        for span in spec["spans"]
    ]
    return {"data": data, "layout": layout}


def _memory_map(spec: Mapping[str, Any]) -> dict[str, Any]:
    """How often the run touched each element of its first array."""
    first = spec["run"]["arrays"][0]
    shape = tuple(first["shape"]) if len(first["shape"]) == 2 else (1, first["shape"][0])
    count = np.zeros(shape[0] * shape[1])
    for step in spec["run"]["steps"]:
        for touch in step["touches"]:
            if touch["a"] == 0:
                np.add.at(count, np.array(touch["i"], dtype=np.int64), 1)
    layout = base_layout(360)
    layout["xaxis"], layout["yaxis"] = axis("column"), axis("row") | {"autorange": "reversed"}
    text = [[f"touched {int(n)} times" for n in row] for row in count.reshape(shape)]
    return {"data": [_cells(count.reshape(shape), text, "read")], "layout": layout}


def _loop_nest(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The threads of the last stage over the two outer loops."""
    outer, inner = spec["loops"][0], spec["loops"][1]
    folded = spec["stages"][-1]["axes"]
    i, j = np.indices((outer["length"], inner["length"]))
    thread = (i if outer["name"] in folded else 0 * i) * inner["length"] + (
        j if inner["name"] in folded else 0 * j
    )
    layout = base_layout(360)
    layout["xaxis"], layout["yaxis"] = axis(inner["name"]), axis(outer["name"]) | {"autorange": "reversed"}
    return {
        "data": [_cells(thread, [[f"thread {t}" for t in row] for row in thread], "block")],
        "layout": layout,
    }


def _stepped(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The threads of the launch; of a model without threads, what its arrays hold at first."""
    if "grid" in spec:
        return _block_grid(spec)
    layout = base_layout(360)
    data = []
    for number, array in enumerate(spec["arrays"], 1):
        shape = array["shape"] if len(array["shape"]) == 2 else [1, array["shape"][0]]
        start = array["start"] if array["start"][0] != "c" else [array["start"][1]] * (shape[0] * shape[1])
        held = np.array([value if isinstance(value, int | float) else np.nan for value in start])
        cells = held.reshape(shape)
        said = [[f"{array['name']}: {value:g}" for value in row] for row in cells]
        ends = "" if number == 1 else str(number)
        data.append(_cells(cells, said, "block") | {"xaxis": f"x{ends}", "yaxis": f"y{ends}"})
        width = 1 / len(spec["arrays"])
        layout[f"xaxis{ends}"] = axis(array["name"]) | {
            "domain": [(number - 1) * width, number * width - 0.05],
            "anchor": f"y{ends}",
        }
        layout[f"yaxis{ends}"] = {"autorange": "reversed", "anchor": f"x{ends}"}
    return {"data": data, "layout": layout}


def _calculator(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The bars where the sliders start, each as a share of its full length, with its value as text."""
    at = 0
    for one in spec["sliders"]:
        at = at * len(one["said"]) + one["start"]
    meters = spec["meters"][::-1]
    layout = base_layout(120 + 36 * len(meters))
    layout["xaxis"] = axis("share of the full bar", ends=(0.0, 1.0))
    layout["margin"] = {**layout["margin"], "l": 180}
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [one["label"] for one in meters],
        "x": [one["share"][at] for one in meters],
        "text": [one["texts"][one["text"][at]] for one in meters],
        "marker": {"color": [theme.token(one["role"]) for one in meters]},
    }
    return {"data": [bars], "layout": layout}


def _floor_plan(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Every part as a rectangle in its level's colour, with its name in the hover text."""
    roles = {level["name"]: level["role"] for level in spec["levels"]}
    layout = base_layout(420)
    layout["xaxis"] = axis("") | {"range": [0, spec["extent"][0]], "visible": False}
    layout["yaxis"] = axis("") | {"range": [spec["extent"][1], 0], "visible": False, "scaleanchor": "x"}
    data = []
    for part in spec["parts"]:
        (left, top), (wide, deep) = part["at"], part["size"]
        colour = theme.token(roles[part["level"]], 0.5)
        corners = {"x": [left, left + wide, left + wide, left], "y": [top, top, top + deep, top + deep]}
        shape = {"type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": colour, **corners}
        line = {"color": theme.token(roles[part["level"]]), "width": 1}
        data.append({**shape, "line": line, "name": part["name"], "hoveron": "fills", "hoverinfo": "name"})
    return {"data": data, "layout": layout | {"showlegend": False}}


def _bit_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A cell for each bit of the number shown first, in line where exponent and fraction meet."""
    formats, held = spec["formats"], spec["numbers"][spec["start"]]["rows"]
    before = 1 + max(one["exponent"] for one in formats)
    set_bits = np.full((len(formats), before + max(one["fraction"] for one in formats)), np.nan)
    for row, (one, number) in enumerate(zip(formats, held, strict=True)):
        first = before - 1 - one["exponent"]
        set_bits[row, first : first + len(number["bits"])] = [int(bit) for bit in number["bits"]]
    names = [f"{one['name']}: {number['said']}" for one, number in zip(formats, held, strict=True)]
    text = [["" if np.isnan(bit) else str(int(bit)) for bit in row] for row in set_bits]
    layout = base_layout(80 + 32 * len(formats))
    layout["xaxis"] = {"showticklabels": False}
    layout["yaxis"] = {"autorange": "reversed"}
    return {"data": [_cells(set_bits, text, "block") | {"y": names}], "layout": layout}


_VIEWS = {
    "chart": _chart,
    "bit_fields": _bit_fields,
    "calculator": _calculator,
    "block_grid": _block_grid,
    "floor_plan": _floor_plan,
    "ribbon": _ribbon,
    "timeline": _timeline,
    "memory_map": _memory_map,
    "loop_nest": _loop_nest,
    "stepped": _stepped,
}
