"""Figures: what a lesson draws, as plain data.

In: numbers, launches and runs. Out: frozen ``Figure``s that serialise to JSON, with a caption and a text
alternative. Drawing is left to the scripts in ``web/figures``; nothing here imports Plotly.
"""

from tilewise.figures.bars import bars
from tilewise.figures.block_grid import block_grid
from tilewise.figures.figure import Figure
from tilewise.figures.heat_map import heat_map
from tilewise.figures.line_chart import Mark, Series, line_chart
from tilewise.figures.loop_nest import Loop, Stage, loop_nest
from tilewise.figures.memory_map import memory_map
from tilewise.figures.ribbon import ribbon
from tilewise.figures.stepped import stepped
from tilewise.figures.timeline import Span, timeline

__all__ = [
    "Figure",
    "Loop",
    "Mark",
    "Series",
    "Span",
    "Stage",
    "bars",
    "block_grid",
    "heat_map",
    "line_chart",
    "loop_nest",
    "memory_map",
    "ribbon",
    "stepped",
    "timeline",
]
