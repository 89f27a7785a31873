"""Bugs planted into the kernels of a lesson, and what becomes of each in the launches that the lesson made.

In: a lesson's name. Out: for each of its kernels that ran without a hazard, its launches as subjects; their
mutants, and of each whether a hazard or the output shows it. The truth is what the kernel leaves itself,
which its lesson has checked.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN, simulate
from tests.sweeps import SIMULATOR
from tilewise.build.run.runner import Runner
from tilewise.course.lesson import read
from tilewise.cuda.arguments import check_arguments
from tilewise.cuda.headers import with_headers
from tilewise.cuda.kernel_source import KernelError, define_lines
from tilewise.cuda.tensor_map import TensorMap, with_array
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launch import Launch
from tilewise.kernel.saved_launches import decode
from tilewise.simulator import CompileError, HazardError, Run
from tilewise.simulator.compile.toolchain import cache_folder

from .operators import Mutant, mutants

LESSONS = Path(__file__).parents[3] / "lessons"
SWEEP = pytest.mark.sweep(
    *SIMULATOR,
    "tests/simulator/kernels.py",
    *(f"tests/simulator/trust/{name}.py" for name in ("operators", "planting")),
    packages=["numpy", "ziglang"],
)
"""What decides whether a planted bug is caught, but for the kernels of lessons."""
Arguments = dict[str, Any]
"""By parameter; with them the arrays that tensor maps name."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A launch of a lesson's kernel."""

    launch: Launch

    @property
    def source(self) -> str:
        """Right as it stands."""
        return define_lines(self.launch.kernel.defines) + self.launch.kernel.source

    def arguments(self) -> Arguments:
        """Fresh ones."""
        kernel = self.launch.kernel
        made = self.launch.case.make()
        checked = check_arguments(kernel.name, kernel.parameters, self.launch.arguments(made))
        values = dict(zip((one.name for one in kernel.parameters), checked, strict=True))
        return {
            name: made[name] if isinstance(made[name], TensorMap) else values.get(name, made[name])
            for name in self.launch.taken
        }

    @cached_property
    def most_steps(self) -> int:
        """Warp instructions after which a mutant counts as endless."""
        return max(400_000, 2 * self.launch.simulate().counts.issued)

    @cached_property
    def truth(self) -> dict[str, np.ndarray]:
        """What the outputs must hold."""
        arrays = {
            name: value if isinstance(value, TensorMap) or np.ndim(value) else value[()]
            for name, value in self.arguments().items()
        }
        self.launch.simulate(arrays=arrays)
        read_only = {one.name for one in self.launch.kernel.parameters if one.is_const}
        return {
            name: value
            for name, value in arrays.items()
            if isinstance(value, np.ndarray) and value.ndim and name not in read_only
        }

    def run(self, source: str | None = None, without: str = "") -> tuple[Run, list[str]]:
        """Run a source, perhaps without the end of one array; the run, and the outputs that are wrong."""
        launch, given = self.launch, self.arguments()
        if without and without != "shared_bytes":
            given[without] = given[without].reshape(-1)[:-1].copy()
        run = simulate(
            with_headers(source or self.source),
            *(with_array(given[one.name], given) for one in launch.kernel.parameters),
            grid=launch.grid,
            block=launch.block,
            name=launch.kernel.name,
            options=launch.kernel.options,
            shared_bytes=launch.shared_bytes - 4 * (without == "shared_bytes"),
            max_steps=self.most_steps,
        )
        wrong = []
        for name, truth in self.truth.items():
            got = given[name].reshape(-1)
            right = truth.reshape(-1)[: len(got)]
            if not np.allclose(got, right, rtol=1e-4, atol=1e-5, equal_nan=True):
                wrong.append(name)
        return run, wrong


def from_lesson(name: str) -> dict[str, tuple[Subject, ...]]:
    """By kernel and number: the launches of each of a lesson's kernels as subjects.

    Kernels that differ in nothing that the simulator takes note of, such as a cap on registers, count once.
    """
    found: dict[str, tuple[Subject, ...]] = {}
    seen: set[object] = set()
    lesson = read(LESSONS / f"{name}.py", LESSONS.parent)
    with Runner(LESSONS.parent, cache_folder()) as runner:
        noted = [decode(one, lesson.path) for one in runner.run(lesson).launches]
    for number, one in enumerate(noted, 1):
        same = _simulated(one.kernel)
        if one.launches and same not in seen:
            found[f"{one.kernel.name}, number {number}"] = tuple(map(Subject, one.launches))
        seen |= {same} if one.launches else set()
    return found


def _simulated(kernel: Kernel) -> object:
    """What the simulator makes of a kernel's text, defines and options."""
    heeded = tuple(one for one in kernel.options if not one.startswith(("--maxrregcount", "--carveout")))
    return kernel.name, kernel.tokens, tuple(sorted(kernel.defines.items())), heeded


def planted(subject: Subject) -> list[Mutant]:
    """Every bug that can be planted into a subject's kernel and launch."""
    given, launch = subject.arguments(), subject.launch
    arrays = tuple(
        one.name
        for one in launch.kernel.parameters
        if isinstance(given[one.name], np.ndarray) and given[one.name].ndim and given[one.name].size > 1
    )
    return mutants(subject.source, arrays, launch.shared_bytes, launch.kernel.name)


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
