"""The bars of a calculator where its sliders start, as Plotly takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewise.figures import theme
from tilewise.figures.axes import axis, base_layout


def view(spec: Mapping[str, Any]) -> dict[str, Any]:
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
