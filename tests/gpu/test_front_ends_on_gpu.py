"""Numba, Triton and PyTorch on a real GPU: arrays of CuPy and torch without a copy, and `agree` with CUDA C.

Each test runs in a process of its own, since Numba is set up for a GPU or for its simulator once. Everything
here is skipped, and counted as skipped, where CuPy finds no GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewise.gpu import device

LESSONS = Path(__file__).parents[2] / "lessons"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device.gpu_fault() is not None, reason=str(device.gpu_fault())),
]

ADD = """
import cupy
from tilewise.frameworks import cuda

@cuda.jit
def vec_add_numba(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]

def where(array):
    return cuda.as_cuda_array(array).device_ctypes_pointer.value
"""
BY_CUPY = """
a, b = cupy.arange(300, dtype="float32"), cupy.full(300, 0.5, dtype="float32")
c = cupy.full(300, cupy.nan, dtype="float32")
assert [where(one) for one in (a, b, c)] == [one.data.ptr for one in (a, b, c)]
vec_add_numba[2, 256](a, b, c)
assert bool((c == a + b).all())
print("same memory, same sums")
"""
BY_TORCH = """
import torch
a, b = torch.arange(300, dtype=torch.float32, device="cuda"), torch.full((300,), 0.5, device="cuda")
c = torch.full((300,), float("nan"), device="cuda")
assert [where(one) for one in (a, b, c)] == [one.data_ptr() for one in (a, b, c)]
vec_add_numba[2, 256](a, b, c)
assert torch.equal(c, a + b)
assert cupy.asarray(c).data.ptr == c.data_ptr()
print("same memory, same sums")
"""


def printed(*command: str) -> str:
    environment = {**os.environ, "TILEWISE_BACKEND": "gpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def needed(*packages: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.mark.parametrize(("code", "package"), [(BY_CUPY, "cupy"), (BY_TORCH, "torch")], ids=["CuPy", "torch"])
def test_numba_takes_arrays_in_gpu_memory_as_they_are(code: str, package: str) -> None:
    needed("numba", package)
    assert printed("-c", ADD + code) == "same memory, same sums"


@pytest.mark.parametrize(
    ("lesson", "by", "packages"),
    [
        ("kernels/first_kernel", "Numba", ("numba",)),
        ("kernels/first_kernel", "Triton", ("torch", "triton")),
        ("kernels/first_kernel", "PyTorch", ("torch",)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_lessons_tab_agrees_with_the_kernel_on_the_gpu(
    lesson: str, by: str, packages: tuple[str, ...]
) -> None:
    needed(*packages)
    lines = printed(str(LESSONS / f"{lesson}.py")).splitlines()
    mine = [line for line in lines if line.startswith(f"agree: {by} ")]
    assert mine and all(line.endswith("all equal (rtol 0; gpu)") for line in mine), mine
