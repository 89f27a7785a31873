"""`agree(..., by=...)`: kernels as Numba, Triton and PyTorch write them, compared with CUDA C."""

import numpy as np
import pytest

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.errors import LessonError
from tilewise.frameworks import Absent, cuda, tl, torch, triton
from tilewise.gpu.device import gpu_here
from tilewise.kernel import front_ends
from tilewise.kernel.backend import backend
from tilewise.kernel.comparison import CheckError, agree
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import logging_launches
from tilewise.outputs import AgreeOutput, CollectingSink, LackOutput, installed

pytestmark = pytest.mark.skipif(gpu_here(), reason="a GPU runs them here")

SCALE = Kernel(r"""
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
""")


@triton.jit
def scale_block(x, y, factor, n, BLOCK: tl.constexpr):  # noqa: N803 - as Triton's own examples write it
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, factor * tl.load(x + i, mask=i < n), mask=i < n)


def scale_triton(x, y, factor, n):
    scale_block[(ceil_div(n, 32),)](x, y, factor, n, BLOCK=32)


def too_few(x, y, factor, n):
    scale_block[(1,)](x, y, factor, n, BLOCK=32)


def scaling(n, block=32):
    return case(x=normal(n), y=output(n), factor=0.1, n=n, grid=ceil_div(n, block), block=block)


CASES = [scaling(5), scaling(33), scaling(64)]


def shown(*given, **named):
    with installed(CollectingSink()) as sink:
        agree(*given, **named)
    return sink.outputs


@pytest.fixture(autouse=True)
def on_the_simulator(monkeypatch):
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    backend.cache_clear()


needs_numba = pytest.mark.skipif(isinstance(cuda, Absent), reason="needs numba")
needs_torch = pytest.mark.skipif(isinstance(torch, Absent), reason="needs torch")


@needs_numba
def test_numba_gets_the_launch_of_the_case_and_numbers_of_the_kernels_types():
    seen = set()

    @cuda.jit
    def scale_numba(x, y, factor, n):
        seen.add((cuda.gridDim.x, cuda.blockDim.x, type(factor), type(n)))
        i = cuda.grid(1)
        if i < n:
            y[i] = factor * x[i]

    (one,) = shown(scale_numba, SCALE, CASES, by="Numba")
    assert seen == {(blocks, 32, np.float32, np.int32) for blocks in (1, 2)}
    sizes = ("x 5, y 5", "x 33, y 33", "x 64, y 64")
    assert one == AgreeOutput(
        "scale_numba", "scale", sizes, ("y",), 0.0, 0.0, 0.0, "Numba's simulator", "Numba"
    )
    assert "Numba scale_numba and kernel scale" in one.text()


@needs_numba
def test_a_wrong_kernel_of_numbas_is_turned_down_by_case_and_place():
    @cuda.jit
    def scale_numba(x, y):
        i = cuda.grid(1)
        if i + 1 < y.size:
            y[i] = np.float32(0.1) * x[i]

    with pytest.raises(CheckError, match=r'Numba scale_numba and kernel "scale" differ in case 1 .*y\[4\]'):
        shown(scale_numba, SCALE, CASES, by="Numba")


@needs_numba
def test_the_log_of_launches_does_not_get_these_comparisons():
    @cuda.jit
    def scale_numba(x, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = np.float32(0.1) * x[i]

    with logging_launches() as log:
        shown(scale_numba, SCALE, CASES, by="Numba")
    assert [one.launches for one in log.kernels()] in ([], [()])


def scale_pseudocode(x, y, factor):
    for i in range(len(x)):
        y[i] = factor * x[i]


def test_what_is_passed_must_be_of_the_front_ends_kind():
    with pytest.raises(LessonError, match=r'"Numbra" is not a front end that it knows.*"Numba"'):
        agree(scale_pseudocode, SCALE, CASES, by="Numbra")
    if not isinstance(cuda, Absent):
        with pytest.raises(LessonError, match="function is no kernel of Numba's"):
            agree(scale_pseudocode, SCALE, CASES, by="Numba")
        with pytest.raises(LessonError, match="it is a kernel of Numba's"):
            agree(cuda.jit(scale_pseudocode), SCALE, CASES)


@pytest.mark.parametrize("by", ["Numba", "Triton", "PyTorch"])
def test_where_a_package_is_missing_that_is_shown(by, monkeypatch):
    monkeypatch.setattr(front_ends, "_package", lambda name: Absent((name.lower(),)))
    missing = {"Numba": "needs Numba", "Triton": "needs Triton", "PyTorch": "needs pytorch"}
    assert shown(scale_pseudocode, SCALE, CASES, by=by) == [LackOutput(by, "scale", missing[by])]
    monkeypatch.undo()
    assert shown(Absent(("jax",)), SCALE, CASES, by=by) == [LackOutput(by, "scale", "needs jax")]


@needs_torch
def test_a_function_gets_tensors_and_pythons_numbers():
    seen = set()

    def scale_torch(x, y, factor):
        seen.add((type(x), x.dtype, str(x.device), type(factor)))
        torch.mul(x, factor, out=y)

    (one,) = shown(scale_torch, SCALE, CASES, by="PyTorch")
    assert seen == {(torch.Tensor, torch.float32, "cpu", float)}
    assert (one.by, one.function, one.backend, one.largest_error) == ("PyTorch", "scale_torch", "CPU", 0.0)

    def late(x, y, factor):
        torch.mul(x[1:], factor, out=y[1:])

    with pytest.raises(CheckError, match=r'PyTorch late and kernel "scale" differ in case 1 .*y\[0\]'):
        shown(late, SCALE, CASES, by="PyTorch")

    def returns(x, factor, y):
        return torch.mul(x, factor, out=y)

    with pytest.raises(LessonError, match="returns a value, and a kernel cannot"):
        shown(returns, SCALE, CASES, by="PyTorch")


@pytest.mark.skipif(isinstance(triton, Absent), reason="needs triton")
def test_triton_runs_in_its_interpreter_on_tensors():
    (one,) = shown(scale_triton, SCALE, CASES, by="Triton")
    assert (one.by, one.function, one.backend) == ("Triton", "scale_triton", "Triton's interpreter")
    with pytest.raises(CheckError, match=r'Triton too_few and kernel "scale" differ in case 2 .*y\[32\]'):
        shown(too_few, SCALE, CASES, by="Triton")
