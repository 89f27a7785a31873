"""The kernels of the lessons as subjects: what the lessons made and launched when they ran.

In: a lesson's name. Out: for each of its kernels that ran without a hazard, a subject for each of its
launches. Its truth is what it leaves itself, which the lesson has checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewise.build.run import Runner
from tilewise.course.lesson import read
from tilewise.cuda.arguments import check_arguments
from tilewise.cuda.kernel_source import define_lines
from tilewise.cuda.tensor_map import TensorMap
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launch import Launch
from tilewise.kernel.saved_launches import decode
from tilewise.simulator.compile.toolchain import cache_folder

from .planting import Arguments, Subject

LESSONS = Path(__file__).parents[3] / "lessons"
Kernels = dict[str, tuple[Subject, ...]]


def from_lesson(name: str) -> Kernels:
    """By kernel and number: the launches of each of a lesson's kernels as subjects.

    Kernels that differ in nothing that the simulator takes note of, such as a cap on registers, count once.
    """
    found: Kernels = {}
    seen: set[object] = set()
    lesson = read(LESSONS / f"{name}.py", LESSONS.parent)
    with Runner(LESSONS.parent, cache_folder()) as runner:
        noted = [decode(one, lesson.path) for one in runner.run(lesson).launches]
    for number, one in enumerate(noted, 1):
        same = _simulated(one.kernel)
        if one.launches and same not in seen:
            found[f"{one.kernel.name}, number {number}"] = tuple(map(_subject, one.launches))
        seen |= {same} if one.launches else set()
    return found


def _simulated(kernel: Kernel) -> object:
    """What the simulator makes of a kernel's text, defines and options."""
    heeded = tuple(one for one in kernel.options if not one.startswith(("--maxrregcount", "--carveout")))
    return kernel.name, kernel.tokens, tuple(sorted(kernel.defines.items())), heeded


def _subject(launch: Launch) -> Subject:
    kernel = launch.kernel
    names = tuple(one.name for one in kernel.parameters)

    def make(_: np.random.Generator) -> Arguments:
        made = launch.case.make()
        checked = check_arguments(kernel.name, kernel.parameters, launch.arguments(made))
        values = dict(zip(names, checked, strict=True))
        return {
            name: made[name] if isinstance(made[name], TensorMap) else values.get(name, made[name])
            for name in launch.taken
        }

    def expected(before: Arguments) -> dict[str, Any]:
        arrays = {
            name: value if isinstance(value, TensorMap) else np.copy(value) if np.ndim(value) else value[()]
            for name, value in before.items()
        }
        launch.simulate(arrays=arrays)
        read_only = {one.name for one in kernel.parameters if one.is_const}
        return {
            name: value
            for name, value in arrays.items()
            if isinstance(value, np.ndarray) and value.ndim and name not in read_only
        }

    return Subject(
        kernel.name,
        define_lines(kernel.defines) + kernel.source,
        make,
        expected,
        launch.grid,
        launch.block,
        launch.shared_bytes,
        kernel.name,
        kernel.options,
        max(400_000, 2 * launch.simulate().counts.issued),
        names,
    )
