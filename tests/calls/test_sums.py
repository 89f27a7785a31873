"""`kernels.sum` on every length, layout and element type."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.layouts import (
    FEW,
    KINDS,
    LAYOUTS,
    MANY,
    exact,
    extents,
    laid_out,
    named,
    step_of,
    stored,
    sweep,
)
from tilewise import kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls import sums

CASES = given(
    shape=st.one_of(
        st.tuples(st.integers(0, 9000)), st.lists(extents(0, 17), min_size=0, max_size=4).map(tuple)
    ),
    layout=st.sampled_from(LAYOUTS),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)


def right_sum(shape, layout, kind, seed):
    values = stored(np.random.default_rng(seed).normal(size=shape), kind)
    x = laid_out(values, layout) if shape else values
    total = kernels.sum(x, **named(kind))
    assert (total.shape, total.dtype) == ((), x.dtype)
    wide = exact(values, kind)
    room = step_of(kind) * abs(wide.sum()) + 1e-6 * np.abs(wide).sum()
    assert abs(exact(total, kind) - wide.sum()) <= room + 1e-12


@FEW
@CASES
def test_a_sum_is_that_of_64_bits(**case):
    right_sum(**case)


@sweep("sums", texts=("sum_fp32", "general/sum"))
@MANY
@CASES
def test_thousands_of_sums(**case):
    right_sum(**case)


@pytest.mark.parametrize(
    ("n", "kind", "more", "kernel"),
    [
        (8_000, "float32", {}, "general/sum"),
        (1 << 20, "float32", {}, "sum_fp32"),
        (1 << 20, "float32", {"head": 3}, "general/sum"),
        (1 << 32, "float32", {}, "general/sum"),
        (1 << 20, "bfloat16", {}, "general/sum"),
    ],
)
def test_the_table_of_kernels(n, kind, more, kernel):
    assert sums.choose(kind, n, **more).kernel == kernel


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [100, 20_001, 300_003])
def test_a_sum_in_each_number_of_launches(n, kind):
    right_sum((n,), "offset", kind, 1)


def test_infinities_and_nan_come_through():
    assert kernels.sum(np.float32([1, np.inf, 2])) == np.inf
    assert np.isnan(kernels.sum(np.float32([-np.inf, np.inf])))
    assert np.isnan(kernels.sum(np.float32([1, np.nan])))


def test_a_result_can_be_written_to_an_array():
    out = np.zeros((), np.float32)
    assert kernels.sum(np.ones((3, 5), np.float32), out=out) is out
    assert out == 15


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0], '"x" is of type list. Pass an array of NumPy, CuPy or PyTorch.'),
        (np.zeros(3), '"x" has dtype float64; sum takes float32, bfloat16, float16. Convert it with .astype'),
        (np.zeros(3, np.uint16), 'has dtype uint16; .* Pass dtype="bfloat16" if it holds the bits of BF16.'),
        (np.zeros(3, np.float32)[::-1], '"x" runs backwards along axis 0, a stride of -4 bytes. Pass np.asc'),
        (np.zeros(3, ">f4"), '"x" has the other byte order. Convert it'),
        (
            np.zeros(3, [("a", "f4"), ("b", "u1")])["a"],
            '"x" has a stride of 5 bytes, no multiple of its 4-byte elements. Pass np.ascontiguousarray',
        ),
    ],
)
def test_what_cannot_be_added_up_is_refused_with_a_repair(x, message):
    with pytest.raises(KernelError, match=f"^sum: .*{message}"):
        kernels.sum(x)
