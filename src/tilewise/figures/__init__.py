"""Figures: what a lesson draws, as plain data.

In: numbers, launches, runs and states of a model. Out: frozen ``Figure``s that serialise to JSON, with a
caption and a text alternative. Each name is loaded from its module when it is first used, so that a change
of one module runs only the lessons that use it. Drawing is left to ``web/figures``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewise.figures.bar_charts import bars
    from tilewise.figures.block_grids import block_grid
    from tilewise.figures.calculators import Answer, Meter, Plot, Slider, calculator
    from tilewise.figures.figure import Figure
    from tilewise.figures.floor_plans import Part, Stop, floor_plan
    from tilewise.figures.heat_maps import heat_map
    from tilewise.figures.line_charts import Mark, Series, line_chart
    from tilewise.figures.loop_nests import Loop, Stage, loop_nest
    from tilewise.figures.memory_maps import memory_map
    from tilewise.figures.number_formats import BitFormat, Held, bit_fields
    from tilewise.figures.ribbons import ribbon
    from tilewise.figures.states import State
    from tilewise.figures.stepping import stepped
    from tilewise.figures.timelines import Span, timeline

# Modules are named otherwise than what they hold: an imported module takes its name in the package.
_HOME = {
    "Answer": "tilewise.figures.calculators",
    "BitFormat": "tilewise.figures.number_formats",
    "Figure": "tilewise.figures.figure",
    "Held": "tilewise.figures.number_formats",
    "Loop": "tilewise.figures.loop_nests",
    "Mark": "tilewise.figures.line_charts",
    "Meter": "tilewise.figures.calculators",
    "Plot": "tilewise.figures.calculators",
    "Part": "tilewise.figures.floor_plans",
    "Series": "tilewise.figures.line_charts",
    "Slider": "tilewise.figures.calculators",
    "Span": "tilewise.figures.timelines",
    "Stage": "tilewise.figures.loop_nests",
    "State": "tilewise.figures.states",
    "Stop": "tilewise.figures.floor_plans",
    "bars": "tilewise.figures.bar_charts",
    "bit_fields": "tilewise.figures.number_formats",
    "block_grid": "tilewise.figures.block_grids",
    "calculator": "tilewise.figures.calculators",
    "floor_plan": "tilewise.figures.floor_plans",
    "heat_map": "tilewise.figures.heat_maps",
    "line_chart": "tilewise.figures.line_charts",
    "loop_nest": "tilewise.figures.loop_nests",
    "memory_map": "tilewise.figures.memory_maps",
    "ribbon": "tilewise.figures.ribbons",
    "stepped": "tilewise.figures.stepping",
    "timeline": "tilewise.figures.timelines",
}

__all__ = [
    "Answer",
    "BitFormat",
    "Figure",
    "Held",
    "Loop",
    "Mark",
    "Meter",
    "Part",
    "Plot",
    "Series",
    "Slider",
    "Span",
    "Stage",
    "State",
    "Stop",
    "bars",
    "bit_fields",
    "block_grid",
    "calculator",
    "floor_plan",
    "heat_map",
    "line_chart",
    "loop_nest",
    "memory_map",
    "ribbon",
    "stepped",
    "timeline",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in.

    Raises:
        AttributeError: the name is not public; the message lists what is.
    """
    if name not in _HOME:
        raise AttributeError(f"tilewise.figures has no public name {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
