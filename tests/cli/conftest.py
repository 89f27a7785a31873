"""A project of one lesson and a fake GPU, which the measurements' tests have."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "measurements"))
import fake_gpu

from tests.conftest import WHOLE
from tilewise.build.playback import find_lesson, play
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.record import Row

LESSON = '''# ---
# title: Adding
# needs: []
# summary: "How fast?"
# ---

# %%
from fake_gpu import VECTOR, FakeKernel, add

from tilewise import case, measure, normal, output

import shared_state

ADD = FakeKernel(
    shared_state.GPU, "c[i] = a[i] + b[i]; // plain", shared_state.BODY or add, VECTOR, cost_us=120.0
)
WIDE = FakeKernel(shared_state.GPU, "float4", add, VECTOR, cost_us=100.0)


def vectors(n):
    return case(a=normal(n), b=normal(n), c=output(n), n=n)


# %% needs="gpu" record="raw"
print("hello from", "the GPU")

# %%
measure(
    "adding",
    variants={"one float": lambda n: ADD.on(vectors(n)), "float4": lambda n: WIDE.on(vectors(n))},
    cases=[{"n": 4096}],
    count_case={"n": 64},
    bytes=lambda n: 12 * n,
    library={"cuBLAS": lambda n: lambda arrays: lambda: shared_state.library(arrays),
             "absent": lambda arrays: __import__("no_such_package")},
    reference=lambda a, b: a + b,
    within=100,
)
''' + WHOLE  # fmt: skip


def in_this_process(command: list[str]) -> str:
    """A stand-in for ``run_child``: the child's command in this process, which has the fake GPU."""
    from tilewise.__main__ import main

    modules = dict(sys.modules)
    try:
        status = main(command[command.index("tilewise") + 1 :])
    finally:
        sys.modules.update(modules)
    return f"ended with status {status}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A folder with one lesson, a fake GPU, and what the lesson reads from its surroundings."""
    gpu = fake_gpu.FakeGpu()

    def library(arrays: Any) -> Any:
        gpu.run("library", 80.0)
        return (arrays["a"] + arrays["b"]).view(fake_gpu.FakeArray)

    state = SimpleNamespace(GPU=gpu, BODY=None, library=library)
    monkeypatch.setitem(__import__("sys").modules, "shared_state", state)
    fake_gpu.install(monkeypatch, gpu)
    monkeypatch.setattr("tilewise.cli.record.find_ncu", lambda: None)
    monkeypatch.setattr("tilewise.measurements.round_process.run_child", in_this_process)
    lesson = tmp_path / "lessons" / "kernels" / "adding.py"
    lesson.parent.mkdir(parents=True)
    lesson.write_text(LESSON, encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - Adding: lessons/kernels/adding.py\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "lessons" / "measurements" / "nvidia-h100-80gb-hbm3"
    return SimpleNamespace(
        gpu=gpu, state=state, lesson=lesson, text=LESSON, folder=folder, root=tmp_path / "lessons"
    )


@pytest.fixture
def counted(project: SimpleNamespace) -> Row:
    """A row of counters as ``record --counters`` would write it of the lesson's second variant."""
    made: list[Any] = []
    with handled_by(made.append):  # type: ignore[arg-type]
        play(find_lesson("kernels/adding", project.root))
    tokens = made[0].tokens("float4", {"n": 64})
    return Row(
        "float4", "variant", {"n": 64}, (), None, None, None, {"instructions": 7.0}, 768, tokens=tokens
    )
