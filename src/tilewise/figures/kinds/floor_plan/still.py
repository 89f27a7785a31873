"""A floor plan as Plotly takes it: parts and names, nothing lit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewise.figures import theme
from tilewise.figures.axes import axis, base_layout


def view(spec: Mapping[str, Any]) -> dict[str, Any]:
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
