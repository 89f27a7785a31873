import os
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = """
import tilewise.gpu.device, tilewise.simulator.toolchain as toolchain
tilewise.gpu.device.gpu_here = lambda: {gpu}
toolchain.find_spec = lambda name: None
"""
LESSON = """# ---
# title: A lesson
# needs: []
# summary: "How many?"
# ---

# %%
from tilewise import Kernel

COPY = Kernel(r'''
extern "C" __global__ void copy_a(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}
''')
print("before")

# %%
import numpy as np

a, b = np.ones(4, np.float32), np.zeros(4, np.float32)
run = COPY.simulate(a, b, 4, grid=1, block=4)

# %%
print(run.counts)


def sectors():
    return run.counts.global_load.sectors


print(sectors())
COPY_AGAIN = COPY
%s
print("after")
"""


@pytest.fixture
def run_script(tmp_path: Path):
    def run(extra: str = "", gpu: bool = True) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sitecustomize.py").write_text(ELSEWHERE.format(gpu=gpu))
        lesson = tmp_path / "lesson.py"
        lesson.write_text(LESSON % extra)
        given = {"PYTHONPATH": str(tmp_path), "TILEWISE_CACHE": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, str(lesson)],
            env=os.environ | given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def test_beside_a_gpu_a_lesson_goes_on_without_the_simulator(run_script) -> None:
    done = run_script()
    assert done.stdout.split() == ["before", "after"]
    assert done.returncode == 0
    assert 'pip install "tilewise[simulator]"' in done.stderr
    assert "left out for want of the simulator: lesson.py, statements at lines 22, 25, 32." in done.stderr
    assert "Traceback" not in done.stderr


def test_another_fault_in_the_rest_still_ends_it(run_script) -> None:
    done = run_script("assert 1 == 2")
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
    assert "after" not in done.stdout


def test_what_a_statement_would_have_filled_is_left_alone(run_script) -> None:
    extra = """found = {}
for name in ("a", "b"):
    found[name] = COPY.simulate(a, b, 4, grid=1, block=4).counts
print(found["b"])
found = {"b": "anew"}
print(found["b"])"""
    done = run_script(extra)
    assert done.stdout.split() == ["before", "anew", "after"]
    assert done.returncode == 0


def test_without_a_gpu_the_lack_of_a_compiler_ends_it(run_script) -> None:
    done = run_script(gpu=False)
    assert done.returncode == 1
    assert "ToolchainError" in done.stderr
    assert "after" not in done.stdout
