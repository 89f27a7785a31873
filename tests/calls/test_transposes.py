"""`kernels.transpose` on every shape, layout and element size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.layouts import FEW, LAYOUTS, MANY, extents, laid_out, sweep
from tilewise import kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls.transposes import choose

CASES = given(
    leading=st.lists(st.integers(0, 3), max_size=3),
    rows=extents(0, 130),
    columns=extents(0, 130),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(["float32", "float16", "int8", "int32", "float64", "bool"]),
)


def right_transpose(leading, rows, columns, layout, dtype):
    shape = (*leading, rows, columns)
    values = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    made = kernels.transpose(laid_out(values, layout))
    assert made.dtype == values.dtype
    assert np.array_equal(made, values.swapaxes(-1, -2))


@FEW
@CASES
def test_a_transpose_has_the_same_bits(**case):
    right_transpose(**case)


@sweep("transposes", texts=("transpose_fp32", "general/transpose"))
@MANY
@CASES
def test_thousands_of_transposes(**case):
    right_transpose(**case)


def test_the_lessons_kernel_is_taken_where_its_loads_are_aligned():
    assert choose(64, 128, 4, whole=True).lesson == "memory/banks"
    for rows, columns, itemsize, whole in ((6001, 10003, 4, True), (64, 64, 2, True), (64, 64, 4, False)):
        assert choose(rows, columns, itemsize, whole=whole).lesson is None
    x = np.arange(64 * 132, dtype=np.float32).reshape(64, 132)
    assert np.array_equal(kernels.transpose(x), x.T)


def test_a_vector_and_an_overlapping_result_are_refused_and_nothing_is_written():
    with pytest.raises(KernelError, match=r'^transpose: "x" has shape \(5,\)\. Pass an array of two axes'):
        kernels.transpose(np.zeros(5, np.float32))
    memory = np.arange(150, dtype=np.float32)
    with pytest.raises(KernelError, match=r'^transpose: "out" shares memory with "x"\. Pass another array'):
        kernels.transpose(memory[:100].reshape(10, 10), out=memory[50:].reshape(10, 10))
    with pytest.raises(KernelError, match=r'"out" has shape \(10, 15\)\. Pass one of shape \(15, 10\)'):
        kernels.transpose(memory.reshape(10, 15), out=np.zeros((10, 15), np.float32))
    read_only = np.zeros((15, 10), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(KernelError, match='"out" is read-only'):
        kernels.transpose(memory.reshape(10, 15), out=read_only)
    with pytest.raises(KernelError, match='"out" is not C-contiguous'):
        kernels.transpose(memory.reshape(10, 15), out=np.zeros((10, 15), np.float32).T)
    assert np.array_equal(memory, np.arange(150))
