"""A chart as Plotly takes it, its frames behind a slider of Plotly's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def view(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return data and layout, and a slider of Plotly's where there are frames."""
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
