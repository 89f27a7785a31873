"""A chart for a notebook: as Plotly takes it, without a script of ours.

In: a chart's specification. Out: a Plotly figure with role tokens for colours, its steps behind a slider of
Plotly's. What is no chart is drawn by the site's scripts only; a notebook says it as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewise.figures.values import plain


def chart(spec: Mapping[str, Any], title: str) -> dict[str, Any]:
    """Return a Plotly figure with data, layout and, where there are steps, frames and a slider."""
    layout = {name: value for name, value in spec["layout"].items() if name != "meta"}
    layout["title"] = {"text": title, "font": {"size": 15}}
    layout["margin"] = {**layout["margin"], "t": 64}
    made = {"data": spec["data"], "layout": layout}
    if frames := spec.get("frames"):
        meta = spec["layout"]["meta"]
        slider = {
            "active": meta["start"],
            "currentvalue": {"prefix": f"{meta['step_name']}: "},
            "steps": [
                {"label": f["name"], "method": "animate", "args": [[f["name"]], {"mode": "immediate"}]}
                for f in frames
            ],
        }
        layout["sliders"] = [slider]
        made["frames"] = frames
    whole: dict[str, Any] = plain(made)
    return whole
