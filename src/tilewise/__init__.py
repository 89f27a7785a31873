"""Tilewise: GPU kernels that are written once, run anywhere and are measured in the open.

Lessons import the names below; each is loaded on first use, so ``import tilewise`` is fast and never imports
CuPy, MkDocs or Plotly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewise.cuda.cases import case, ceil_div, constant, integers, normal, output, uniform
    from tilewise.cuda.tensor_map import tensor_map
    from tilewise.errors import LessonError
    from tilewise.figures import Figure
    from tilewise.gpu.device import gpu_here
    from tilewise.kernel.comparison import agree, check
    from tilewise.kernel.header import Header
    from tilewise.kernel.kernel import Kernel
    from tilewise.kernel.pseudocode import lanes, parallel, tiles
    from tilewise.kernel.try_it import try_it
    from tilewise.measurements import Guess, measure
    from tilewise.outputs import Table, exercise, publish, show
    from tilewise.puzzles import puzzle
    from tilewise.simulator import HazardError, Trace, expect_hazard

_HOME = {
    "Figure": "tilewise.figures.figure",
    "Guess": "tilewise.measurements",
    "HazardError": "tilewise.simulator",
    "Header": "tilewise.kernel.header",
    "Kernel": "tilewise.kernel.kernel",
    "LessonError": "tilewise.errors",
    "Table": "tilewise.outputs",
    "Trace": "tilewise.simulator",
    "agree": "tilewise.kernel.comparison",
    "case": "tilewise.cuda.cases",
    "ceil_div": "tilewise.cuda.cases",
    "check": "tilewise.kernel.comparison",
    "constant": "tilewise.cuda.cases",
    "exercise": "tilewise.outputs",
    "expect_hazard": "tilewise.simulator",
    "gpu_here": "tilewise.gpu.device",
    "integers": "tilewise.cuda.cases",
    "lanes": "tilewise.kernel.pseudocode",
    "measure": "tilewise.measurements",
    "normal": "tilewise.cuda.cases",
    "output": "tilewise.cuda.cases",
    "parallel": "tilewise.kernel.pseudocode",
    "publish": "tilewise.outputs",
    "puzzle": "tilewise.puzzles.output",
    "show": "tilewise.outputs",
    "tensor_map": "tilewise.cuda.tensor_map",
    "tiles": "tilewise.kernel.pseudocode",
    "try_it": "tilewise.kernel.try_it",
    "uniform": "tilewise.cuda.cases",
}

__all__ = [
    "Figure",
    "Guess",
    "HazardError",
    "Header",
    "Kernel",
    "LessonError",
    "Table",
    "Trace",
    "agree",
    "case",
    "ceil_div",
    "check",
    "constant",
    "exercise",
    "expect_hazard",
    "gpu_here",
    "integers",
    "lanes",
    "measure",
    "normal",
    "output",
    "parallel",
    "publish",
    "puzzle",
    "show",
    "tensor_map",
    "tiles",
    "try_it",
    "uniform",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load a public name from its module.

    Raises:
        AttributeError: the name is not public; the message lists those that are.
    """
    if name not in _HOME:
        raise AttributeError(f"tilewise has no public name {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
