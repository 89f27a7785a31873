"""Bugs planted into a subject's kernel, and what becomes of each in a launch.

In: a subject. Out: its mutants, and of each whether a hazard or the output shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN
from tests.sweeps import SIMULATOR
from tilewise.gpu.kernel_source import KernelError
from tilewise.simulator import CompileError, HazardError

from .corpus import Subject
from .operators import Mutant, mutants

SWEEP = pytest.mark.sweep(
    *SIMULATOR,
    "tests/simulator/kernels.py",
    *(f"tests/simulator/trust/{name}.py" for name in ("corpus", "operators", "planting", "sources")),
    packages=["numpy", "ziglang"],
)
"""What decides whether a planted bug is caught, but for the kernels of lessons."""


@dataclass(frozen=True)
class Outcome:
    """What a bug does in a launch."""

    kind: str
    """`hazard` under the right name and line, `elsewhere`, `misnamed`, `check`, or `survived`."""
    message: str
    """The hazard and its line, or the outputs that are wrong."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


def outcome(subject: Subject, mutant: Mutant) -> Outcome | None:
    """What a bug does in a launch; None where it does not compile, or does not fit."""
    try:
        run, wrong = subject.run(mutant.source, mutant.without)
    except (CompileError, KernelError):
        return None
    except HazardError as error:
        hazard = error.hazard
        assert error.line == ORIGIN[1] + hazard.line - 1
        where = "hazard" if {hazard.line, hazard.caller} & mutant.lines else "elsewhere"
        kind = where if hazard.kind in mutant.kinds else "misnamed"
        return Outcome(kind, f"{hazard.kind} at line {hazard.line}: {hazard.source_line.strip()}")
    assert not run.hazards
    return Outcome("check" if wrong else "survived", ", ".join(wrong))


def planted(subject: Subject) -> list[Mutant]:
    """Every bug that can be planted into a subject's kernel and launch."""
    given = subject.make(np.random.Generator(np.random.PCG64(11)))
    arrays = tuple(
        name
        for name in subject.parameters or given
        if isinstance(given[name], np.ndarray) and given[name].ndim and given[name].size > 1
    )
    return mutants(subject.source, arrays, subject.shared_bytes, subject.entry)
