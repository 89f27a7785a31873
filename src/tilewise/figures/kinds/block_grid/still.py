"""The threads of the explorer's launch, as Plotly takes them."""

from __future__ import annotations

from tilewise.figures.still import launch as view

__all__ = ["view"]
