"""Figures of lessons, as plain data.

In: numbers, launches, runs and states of a model. Out: frozen ``Figure``s that serialise to JSON, with a
caption and a text alternative. Each name is imported on first use, so that a change to one module reruns only
the lessons that use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewise.figures.figure import Figure
    from tilewise.figures.kinds.bit_fields import BitFormat, Held, bit_fields
    from tilewise.figures.kinds.block_grid import block_grid
    from tilewise.figures.kinds.calculator import Answer, Meter, Plot, Slider, calculator
    from tilewise.figures.kinds.chart.bar_charts import bars
    from tilewise.figures.kinds.chart.heat_maps import heat_map
    from tilewise.figures.kinds.chart.line_charts import Mark, Series, line_chart
    from tilewise.figures.kinds.floor_plan import Part, Stop, floor_plan
    from tilewise.figures.kinds.sector_map import sector_map
    from tilewise.figures.kinds.stepped import stepped
    from tilewise.figures.kinds.stepped.states import State
    from tilewise.figures.kinds.timeline import Span, timeline

# Kinds are in a subfolder, because importing a submodule sets its name in the package.
_HOME = {
    name: f"tilewise.figures.{module}"
    for module, names in {
        "figure": ["Figure"],
        "kinds.bit_fields": ["BitFormat", "Held", "bit_fields"],
        "kinds.block_grid": ["block_grid"],
        "kinds.calculator": ["Answer", "Meter", "Plot", "Slider", "calculator"],
        "kinds.chart.bar_charts": ["bars"],
        "kinds.chart.heat_maps": ["heat_map"],
        "kinds.chart.line_charts": ["Mark", "Series", "line_chart"],
        "kinds.floor_plan": ["Part", "Stop", "floor_plan"],
        "kinds.sector_map": ["sector_map"],
        "kinds.stepped": ["stepped"],
        "kinds.stepped.states": ["State"],
        "kinds.timeline": ["Span", "timeline"],
    }.items()
    for name in names
}

__all__ = [
    "Answer",
    "BitFormat",
    "Figure",
    "Held",
    "Mark",
    "Meter",
    "Part",
    "Plot",
    "Series",
    "Slider",
    "Span",
    "State",
    "Stop",
    "bars",
    "bit_fields",
    "block_grid",
    "calculator",
    "floor_plan",
    "heat_map",
    "line_chart",
    "sector_map",
    "stepped",
    "timeline",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module.

    Raises:
        AttributeError: the name is not public; the message lists the public names.
    """
    if name not in _HOME:
        raise AttributeError(f"tilewise.figures has no public name {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
