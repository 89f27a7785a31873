"""Every experiment of the course is reached where there is a GPU and no compiler for the simulator."""

from pathlib import Path

import pytest

from tilewise.build.playback import find_lesson, play, project_lessons
from tilewise.kernel.kernel import Kernel
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.report import assemble
from tilewise.simulator.compile.toolchain import ToolchainError

ROOT = Path(__file__).parents[2] / "lessons"


def _sweep(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.sweep(f"lessons/{name}.py"))


@pytest.mark.sweep(
    "src/tilewise/measurements",
    "src/tilewise/kernel/comparison.py",
    "src/tilewise/kernel/kernel.py",
    "src/tilewise/kernel/launch.py",
    packages=["numpy"],
)
@pytest.mark.parametrize("name", [_sweep(name) for name in project_lessons(ROOT)])
def test_no_experiment_waits_for_the_simulator(name, monkeypatch):
    def missing(*_: object, **__: object) -> None:
        raise ToolchainError("there is no clang here")

    monkeypatch.setattr(Kernel, "simulate", missing)
    monkeypatch.setattr(Kernel, "__call__", missing)
    reached = []

    def handle(experiment):
        reached.append(experiment.name)
        return assemble(experiment, None)

    lesson = find_lesson(name, ROOT)
    with handled_by(handle):
        play(lesson)
    assert sorted(reached) == sorted(lesson.experiments())
