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


COMPARED = """
from tilewise import Kernel, agree, case, ceil_div, normal, output
from tilewise.frameworks import cuda, tl, torch, triton

VEC_ADD = Kernel(r'''
extern "C" __global__ void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
''')

@cuda.jit
def by_numba(a, b, c, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]

@triton.jit
def block_of_sums(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)

def by_triton(a, b, c, n):
    block_of_sums[(triton.cdiv(n, 256),)](a, b, c, n, BLOCK=256)

def by_torch(a, b, c):
    torch.add(a, b, out=c)

def addition(n):
    arrays = {"a": normal(n), "b": normal(n), "c": output(n)}
    return case(**arrays, n=n, grid=ceil_div(n, 256), block=256)

cases = [addition(n) for n in (1, 255, 257, 20_000)]
for function, by in ((by_numba, "Numba"), (by_triton, "Triton"), (by_torch, "PyTorch")):
    agree(function, VEC_ADD, cases, by=by)
"""


@pytest.mark.parametrize(
    ("by", "packages"),
    [("Numba", ("numba",)), ("Triton", ("torch", "triton")), ("PyTorch", ("torch",))],
    ids=["Numba", "Triton", "PyTorch"],
)
def test_what_other_front_ends_write_agrees_with_the_kernel_on_the_gpu(
    by: str, packages: tuple[str, ...], tmp_path: Path
) -> None:
    needed(*packages)
    script = tmp_path / "compared.py"
    script.write_text(COMPARED, encoding="utf-8")
    (mine,) = [one for one in printed(str(script)).splitlines() if one.startswith(f"agree: {by} ")]
    assert mine.endswith("all equal (rtol 0; gpu)"), mine
