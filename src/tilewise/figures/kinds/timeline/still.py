"""All spans of a timeline, as Plotly takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewise.figures import theme
from tilewise.figures.axes import axis, base_layout


def view(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bar for each span."""
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
