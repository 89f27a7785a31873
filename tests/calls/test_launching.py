"""Steps are checked before the first runs, and arrays are copied between any two layouts."""

import numpy as np
import pytest

from tilewise import bf16, kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernel.kernel import Kernel
from tilewise.kernels.calls import launching
from tilewise.kernels.calls.arrays import Tensor
from tilewise.kernels.calls.launching import Step, merged, packing, run

SET = Kernel(
    'extern "C" __global__ void set(float* x, float v) { x[blockIdx.x * blockDim.x + threadIdx.x] = v; }'
)


def test_where_one_step_is_too_large_none_runs():
    x = np.zeros(64, np.float32)
    steps = [Step(SET, (x, 1.0), 2, 32), Step(SET, (x, 2.0), (1, 70_000), 32)]
    with pytest.raises(
        KernelError, match=r'^softmax: kernel "set": grid=\(1, 70000\) has 70000 in y.*Pass few'
    ):
        run("softmax", steps)
    assert not x.any()
    run("softmax", steps[:1])
    assert x.tolist() == [1.0] * 64


def tensor(array, kind="float32"):
    return Tensor("x", array, kind, "NumPy")


def test_axes_that_lie_behind_each_other_are_one():
    x = np.zeros((2, 3, 4, 5), np.float32)
    assert merged(tensor(x)) == ((120,), (1,))
    assert merged(tensor(x), keep=2) == ((6, 4, 5), (20, 5, 1))
    assert merged(tensor(x[:, :, :3]), keep=1) == ((6, 3, 5), (20, 5, 1))
    assert merged(tensor(x[:, :1]), keep=1) == ((2, 4, 5), (60, 5, 1))


@pytest.mark.parametrize("kinds", [("float32", "float16"), ("float16", "float32"), ("float32", "float32")])
def test_copies_convert_between_layouts(kinds):
    values = np.random.default_rng(1).normal(size=(2, 3, 4, 5, 6)).astype(kinds[0])
    source = values.transpose(4, 0, 2, 1, 3)
    target = np.zeros((6, 2, 4, 3, 7), kinds[1])[..., :5]
    run("test", packing("test", tensor(source, kinds[0]), tensor(target, kinds[1])))
    assert np.array_equal(target, source.astype(kinds[1]))


def test_too_many_axes_are_refused():
    x = np.zeros((3,) * 6, np.float32)[::2, ::2, ::2, ::2, ::2, ::2]
    with pytest.raises(KernelError, match=r"has 6 axes apart in memory; at most 5 can be. Pass a contiguous"):
        packing("sum", tensor(x), tensor(np.zeros(x.shape, np.float32)))


def test_a_bit_pattern_is_copied_as_it_is():
    x = np.array([0x7FC00001, 0xFFFFFFFF, 0x80000000], np.uint32).view(np.float32)
    made = np.zeros(6, np.float32)[::2]
    run("test", packing("test", tensor(x), tensor(made)))
    assert made.copy().tobytes() == x.tobytes()


def test_the_simulator_counts_as_a_hopper_gpu():
    assert (launching.capability(), launching.multiprocessors()) == (90, 132)


def test_arrays_whose_elements_share_memory_are_read_as_they_are():
    row = np.random.default_rng(1).normal(size=40).astype(np.float32)
    wide = np.broadcast_to(row, (3, 5, 40))
    assert np.allclose(kernels.softmax(wide), kernels.softmax(np.ascontiguousarray(wide)), atol=1e-7)
    assert np.array_equal(kernels.transpose(wide), wide.swapaxes(1, 2))
    assert np.isclose(kernels.sum(wide), wide.sum(), rtol=1e-5, atol=1e-4)
    down = np.broadcast_to(row[:, None], (40, 50))
    assert np.allclose(kernels.matmul(wide, down), wide @ down, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_array_may_be_several_arguments(dtype):
    values = np.random.default_rng(1).normal(size=(1, 2, 90, 128))
    x = bf16.bits(values) if dtype == "bfloat16" else values.astype(dtype)
    how = {"dtype": dtype} if dtype == "bfloat16" else {}
    out, lse = kernels.attention(x, x, x, causal=True, return_lse=True, **how)
    apart, sums = kernels.attention(x, x.copy(), x.copy(), causal=True, return_lse=True, **how)
    assert np.array_equal(out, apart)
    assert np.array_equal(lse, sums)
    both = [
        kernels.attention_backward(x, x, *two, out, lse, causal=True, **how)
        for two in ((x, x), (x, x.copy()))
    ]
    for one, other in zip(*both, strict=True):
        assert np.array_equal(one, other)
    square = x[0, 0]
    assert np.array_equal(
        kernels.matmul(square, square.T, **how), kernels.matmul(square, square.copy().T, **how)
    )
