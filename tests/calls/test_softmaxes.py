"""`kernels.softmax` on every length, layout and element type."""

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
from tilewise.gpu.device import gpu_fault
from tilewise.kernels.calls.softmaxes import choose

CASES = given(
    leading=st.lists(extents(0, 9), max_size=3).map(tuple),
    columns=st.one_of(extents(0, 200), st.integers(0, 1500)),
    axis=st.sampled_from([-1, -1, -1, 0]),
    layout=st.sampled_from(LAYOUTS),
    kind=st.sampled_from(KINDS),
    holes=st.sampled_from([0.0, 0.3, 1.0]),
    stretch=st.sampled_from([1.0, 30.0, 3000.0]),
    seed=st.integers(0, 99),
)


def reference(values, axis=-1):
    """In FP64; zeros where every element is minus infinity."""
    values = np.moveaxis(values, axis, -1)
    m = values.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(values - np.where(m > -np.inf, m, 0.0))
    z = e.sum(axis=-1, keepdims=True)
    return np.moveaxis(e / np.where(z > 0, z, 1.0), -1, axis)


def is_right(x, kind, axis=-1):
    made = kernels.softmax(x, axis, **named(kind))
    assert (made.shape, made.dtype) == (x.shape, x.dtype)
    expected = reference(exact(x, kind), axis)
    room = 2 * step_of(kind) * expected + 2e-5 * expected + (1e-7 if kind == "float16" else 1e-9)
    assert np.all(np.abs(exact(made, kind) - expected) <= room)


def right_softmax(leading, columns, axis, layout, kind, holes, stretch, seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=(*leading, columns)) * stretch
    values[random.random(values.shape) < holes] = -np.inf
    is_right(laid_out(stored(values, kind), layout), kind, axis)


@FEW
@CASES
def test_softmax_is_that_of_64_bits(**case):
    right_softmax(**case)


@sweep("softmaxes", texts=("softmax_*", "general/softmax"))
@MANY
@CASES
def test_thousands_of_softmaxes(**case):
    right_softmax(**case)


@pytest.mark.parametrize("columns", [64, 61, 5, 4096, 40_000])
def test_shares_of_minus_infinity_next_to_very_negative_elements(columns):
    x = np.full((3, columns), -np.inf, dtype=np.float32)
    x[:2, columns // 2 :: 7] = -2000 - 8 * np.arange(len(x[0, columns // 2 :: 7]))
    x[1, -1] = -3000
    is_right(x, "float32")


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("columns", [32_768, 50_256, 50_257, 100_000, 140_000])
def test_vocabularies(columns, kind):
    is_right(stored(np.random.default_rng(1).normal(size=(2, columns)) * 4, kind), kind)


def test_rows_that_begin_anywhere():
    memory = np.random.default_rng(2).normal(size=4 * 260 + 1).astype(np.float32)
    is_right(memory[1:].reshape(4, 260), "float32")
    is_right(memory[1:].reshape(4, 5, 52)[:, 1:3], "float32")


def test_nan_and_infinity_stay_where_they_are():
    for columns in (9, 40_003, 40_000):
        x = np.zeros((3, columns), np.float32)
        x[0, 3], x[1, 5] = np.nan, np.inf
        made = kernels.softmax(x)
        assert [np.flatnonzero(np.isnan(row)).tolist() for row in made] == [[3], [5], []]
        assert np.isclose(made[2].sum(), 1.0)


@pytest.mark.parametrize(
    ("columns", "kind", "more", "kernel"),
    [
        (4096, "float32", {}, "softmax_on_chip"),
        (4095, "bfloat16", {"aligned": False}, "general/softmax"),
        (4096, "float32", {"aligned": False}, "general/softmax"),
        (4096, "float32", {"gapless": False}, "general/softmax"),
        (100_000, "float32", {}, "softmax_long"),
        (100_000, "float32", {"arch": 80}, "general/softmax"),
        (50_257, "float32", {}, "general/softmax"),
        (50_257, "bfloat16", {}, "general/softmax"),
        (200_000, "bfloat16", {}, "general/softmax"),
    ],
)
def test_the_table_of_kernels(columns, kind, more, kernel):
    assert choose(columns, kind, **{"arch": 90, **more}).kernel == kernel


def test_an_axis_that_is_not_there_is_refused():
    with pytest.raises(KernelError, match=r'^softmax: "x" has shape \(3, 4\) and no axis 2\. Name one'):
        kernels.softmax(np.zeros((3, 4), np.float32), axis=2)
    with pytest.raises(KernelError, match=r'^softmax: "x" has shape \(\) and no axis -1\. Name one'):
        kernels.softmax(np.float32(3))


@pytest.mark.skipif(gpu_fault() is None, reason="on a GPU it is CuPy's memory that runs out")
def test_memory_that_runs_out_is_said(monkeypatch):
    def full(*args, **kwargs):
        raise MemoryError

    x = np.zeros((3, 4), np.float32)
    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(KernelError, match=r"^softmax: no memory for 48 bytes.*nothing was written\. Free"):
        kernels.softmax(x)
