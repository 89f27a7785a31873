"""The bits of the number shown first, as Plotly takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.figures.axes import base_layout
from tilewise.figures.still import cells


def view(spec: Mapping[str, Any]) -> dict[str, Any]:
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
    return {"data": [cells(set_bits, text, "block") | {"y": names}], "layout": layout}
