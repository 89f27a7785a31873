"""A kernel with a launch and its truth; bugs planted into it, and what becomes of each in the launch.

In: a subject. Out: its mutants, and of each whether a hazard or the output shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN, simulate
from tests.sweeps import SIMULATOR
from tilewise.cuda.headers import with_headers
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import TensorMap, with_array
from tilewise.simulator import CompileError, HazardError, Run

from .operators import Mutant, mutants

SWEEP = pytest.mark.sweep(
    *SIMULATOR,
    "tests/simulator/kernels.py",
    *(f"tests/simulator/trust/{name}.py" for name in ("operators", "planting")),
    packages=["numpy", "ziglang"],
)
"""What decides whether a planted bug is caught, but for the kernels of lessons."""


Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel, a launch, and its truth."""

    name: str
    """Unique among the subjects."""
    source: str
    """Right as it stands."""
    make: Callable[[np.random.Generator], Arguments]
    """Fresh arguments in the order of the parameters; outputs hold NaN or the worst number."""
    expected: Callable[[Arguments], dict[str, Any]]
    """What the outputs must hold, from the arguments as they were."""
    grid: tuple[int, ...]
    """Blocks."""
    block: tuple[int, ...]
    """Threads of a block."""
    shared_bytes: int = 0
    """Dynamic shared memory."""
    entry: str | None = None
    """Which kernel of the source; the first where not given."""
    options: tuple[str, ...] = ()
    """For the compiler."""
    max_steps: int = 400_000
    """Warp instructions after which a launch counts as endless."""
    parameters: tuple[str, ...] = ()
    """Which arguments the kernel takes, where the others are arrays that its tensor maps name."""

    def run(self, source: str | None = None, without: str = "") -> tuple[Run, list[str]]:
        """Run a source, perhaps without the end of one array; the run, and the outputs that are wrong."""
        given = self.make(np.random.Generator(np.random.PCG64(11)))
        before = {
            name: value if isinstance(value, TensorMap) else np.copy(value) for name, value in given.items()
        }
        if without and without != "shared_bytes":
            given[without] = given[without].reshape(-1)[:-1].copy()
        run = self.launch(given, source, -4 * (without == "shared_bytes"))
        wrong = []
        for name, truth in self.expected(before).items():
            got = given[name].reshape(-1)
            right = np.asarray(truth).reshape(-1)[: len(got)]
            if not np.allclose(got, right, rtol=1e-4, atol=1e-5, equal_nan=True):
                wrong.append(name)
        return run, wrong

    def launch(self, given: Arguments, source: str | None = None, more_shared_bytes: int = 0) -> Run:
        """Run a source on arguments, which it writes."""
        return simulate(
            with_headers(source or self.source),
            *(with_array(given[name], given) for name in self.parameters or given),
            grid=self.grid,
            block=self.block,
            name=self.entry,
            options=self.options,
            shared_bytes=self.shared_bytes + more_shared_bytes,
            max_steps=self.max_steps,
        )


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
