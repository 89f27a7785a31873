"""The first state of a stepped figure, as Plotly takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.figures.axes import axis, base_layout
from tilewise.figures.still import cells, launch


def view(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The threads of the launch; of a model without threads, what its arrays hold at first."""
    if "grid" in spec:
        return launch(spec)
    layout = base_layout(360)
    data = []
    for number, array in enumerate(spec["arrays"], 1):
        shape = array["shape"] if len(array["shape"]) == 2 else [1, array["shape"][0]]
        start = array["start"] if array["start"][0] != "c" else [array["start"][1]] * (shape[0] * shape[1])
        values = [value if isinstance(value, int | float) else np.nan for value in start]
        held = np.array(values).reshape(shape)
        said = [[f"{array['name']}: {value:g}" for value in row] for row in held]
        ends = "" if number == 1 else str(number)
        data.append(cells(held, said, "block") | {"xaxis": f"x{ends}", "yaxis": f"y{ends}"})
        width = 1 / len(spec["arrays"])
        layout[f"xaxis{ends}"] = axis(array["name"]) | {
            "domain": [(number - 1) * width, number * width - 0.05],
            "anchor": f"y{ends}",
        }
        layout[f"yaxis{ends}"] = {"autorange": "reversed", "anchor": f"x{ends}"}
    return {"data": data, "layout": layout}
