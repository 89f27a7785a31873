"""Layout and axes of all charts.

In: a height, labels, ranges. Out: parts of a Plotly specification whose colours are role tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.figures import theme

Range = tuple[float, float]
"""Lower and upper end of an axis or a scale, as values."""


def base_layout(height: int) -> dict[str, Any]:
    """Return the layout of all charts: a transparent background and text at 13 px."""
    return {
        "height": height,
        "margin": {"l": 12, "r": 16, "t": 14, "b": 12, "pad": 0},
        "font": {"size": 13, "color": theme.token("ink")},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": theme.token("panel"),
            "bordercolor": theme.token("line"),
            "font": {"size": 13, "color": theme.token("ink")},
        },
    }


def axis(label: str, log: bool = False, ends: Range | None = None) -> dict[str, Any]:
    """Return an axis with its label; ``ends`` are values, on a log axis too."""
    spec: dict[str, Any] = {
        "title": {"text": label, "standoff": 8, "font": {"size": 13, "color": theme.token("muted")}},
        "automargin": True,
        "fixedrange": True,
        "zeroline": False,
        "gridcolor": theme.token("line", 0.6),
        "linecolor": theme.token("muted"),
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": theme.token("muted"),
        "tickfont": {"size": 12, "color": theme.token("muted")},
    }
    if log:
        spec |= {"type": "log", "dtick": 1}
        if ends and ends[0] < 1e-4:
            spec["exponentformat"] = "power"  # else 0.000001 next to 1e-7
            spec["tickfont"]["size"] = 9.6  # Plotly draws powers 25 % larger
        else:
            spec["tickformat"] = "~s" if ends and ends[0] >= 0.5 else ",~g"
    if ends:
        spec["range"] = [float(np.log10(end)) for end in ends] if log else list(ends)
        if log:
            decades = spec["range"][1] - spec["range"][0]
            spec["dtick"] = "D2" if decades < 2.2 else max(1, round(decades / 7))
    return spec
