"""The simulator: CUDA C on a machine without a GPU, with its memory traffic counted and its hazards found.

In: a kernel's text, NumPy arrays and a launch shape. Out: arrays written as a GPU would write them, and a
``Run``. Time is not simulated.
"""

from tilewise.simulator.counts import Counts, GlobalCounts, SharedCounts
from tilewise.simulator.frontend import CompileError, Entry, Module, compile_kernel
from tilewise.simulator.hazards import ExpectationError, Hazard, HazardError, expect_hazard
from tilewise.simulator.run import MAX_STEPS, Run, launch
from tilewise.simulator.toolchain import ToolchainError
from tilewise.simulator.trace import Accesses, Trace, Watched

__all__ = [
    "MAX_STEPS",
    "Accesses",
    "CompileError",
    "Counts",
    "Entry",
    "ExpectationError",
    "GlobalCounts",
    "Hazard",
    "HazardError",
    "Module",
    "Run",
    "SharedCounts",
    "ToolchainError",
    "Trace",
    "Watched",
    "compile_kernel",
    "expect_hazard",
    "launch",
]
