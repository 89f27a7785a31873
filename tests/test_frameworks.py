"""Numba, Triton and PyTorch as lessons import them: made ready for this machine, or stood in for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewise import frameworks
from tilewise.build.page.code import code_cell
from tilewise.course.lesson import Cell
from tilewise.frameworks import Absent, AbsentError, is_numba_kernel
from tilewise.outputs import Context

TESTS = Path(__file__).parent


def printed(code: str, **environment: str) -> str:
    """What a process of its own prints."""
    kept = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(frameworks.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**kept, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_tilewise_and_comparing_with_pseudocode_imports_no_framework():
    code = "import sys, tilewise, tilewise.frameworks; tilewise.agree; tilewise.Kernel\n"
    code += "print(sorted({'numba', 'torch', 'triton', 'cupy'} & set(sys.modules)))"
    assert printed(code) == "[]"


LAUNCH = """
import numpy as np
{before}
from tilewise.frameworks import cuda, is_numba_kernel

@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2

x = np.arange(4.0)
double[2, 2](x)
print(x.tolist(), is_numba_kernel(double), cuda.__name__)
"""


@pytest.mark.parametrize("before", ["", "import numba"], ids=["by itself", "after Numba"])
def test_without_a_gpu_numbas_own_simulator_runs_a_kernel(before):
    pytest.importorskip("numba")
    code = LAUNCH.format(before=before)
    assert printed(code, TILEWISE_BACKEND="simulator") == "[0.0, 2.0, 4.0, 6.0] True numba.cuda"


def test_a_stand_in_lends_names_and_decorates_and_refuses_to_run():
    absent = Absent(("torch", "triton"))
    assert str(absent) == "needs PyTorch and Triton"

    @absent.jit
    def one(x: absent.constexpr) -> None: ...

    @absent.autotune(configs=[], key=["n"])
    def two() -> None: ...

    assert one is absent and two is absent
    with pytest.raises(AbsentError, match="needs PyTorch and Triton"):
        one[(3,)]
    with pytest.raises(AbsentError, match="needs PyTorch and Triton"):
        absent.cdiv(20_000, 256)
    assert not is_numba_kernel(absent) and not hasattr(absent, "__wrapped__")


def test_what_is_not_installed_is_stood_in_for(monkeypatch):
    monkeypatch.setattr(frameworks, "find_spec", lambda name: None if name == "triton" else object())
    frameworks._loaded.cache_clear()
    try:
        assert isinstance(frameworks.tl, Absent)
        assert str(frameworks.triton) == "needs Triton"
    finally:
        frameworks._loaded.cache_clear()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("torch", "triton"), "Needs PyTorch and Triton</summary>"),
        (("numba",), "Needs Numba</summary>"),
        (("gpu", "torch"), "Needs a GPU and PyTorch</summary>"),
    ],
)
def test_a_tab_that_was_left_out_is_shown_with_what_it_needs(missing, said):
    cell = Cell("lessons/part/one.py", 1, 2, "code", "import torch", 2, tab="PyTorch", needs=missing)
    context = Context("part/one", 7, lambda suffix, content: f"x{suffix}", lambda wanted: wanted, False)
    text = code_cell(cell, (), {}, missing, context)
    assert "import torch" in text
    assert said in text
    assert ("<code>make frameworks</code>" in text) == ("gpu" not in missing and "torch" in missing)


LESSON = """# ---
# title: One
# ---

# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda


@cuda.jit
def fill_numba(x):
    x[cuda.grid(1)] = 2


# %%
assert str(fill_numba) == "needs Numba", fill_numba
"""


def test_recording_leaves_other_front_ends_out(tmp_path):
    from tilewise.build.playback import find_lesson, play

    (tmp_path / "lessons/part").mkdir(parents=True)
    (tmp_path / "lessons/part/one.py").write_text(LESSON, encoding="utf-8")
    assert play(find_lesson("part/one", tmp_path / "lessons")) == []


SKIPS = """
import pytest

@pytest.mark.parametrize("reason", {reasons})
def test_one(reason):
    pytest.skip(reason)
"""


@pytest.mark.parametrize(
    ("reasons", "status"),
    [
        (["needs gpu: kernels/first_kernel first_launch"], 0),
        (["needs gpu: kernels/first_kernel first_launch", "needs triton: kernels/first_kernel Triton"], 1),
        (["needs gpu: kernels/first_kernel other"], 1),
        (["needs torch"], 1),
    ],
)
def test_only_listed_cells_may_be_skipped_where_frameworks_are_there(reasons, status, tmp_path):
    (tmp_path / "test_skips.py").write_text(SKIPS.format(reasons=reasons), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, "-c", "/dev/null", "--device-skips-only", str(tmp_path / "test_skips.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS.parent, TESTS.parent / "src"))),
        },
    )
    assert done.returncode == status, done.stdout + done.stderr
    undue = [line for line in done.stdout.splitlines() if "must not be skipped here" in line]
    assert [line.partition(": ")[2] for line in undue] == [
        reason for reason in reasons if not reason.endswith("first_launch")
    ]
