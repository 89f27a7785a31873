"""Kernels with an edited text, and launches that follow each other."""

import numpy as np
import pytest

from tilewise import Kernel, case, ceil_div, normal, output
from tilewise.errors import LessonError
from tilewise.kernel.chains import as_case, count_chain, run_chain
from tilewise.kernel.edits import edited

ADD = Kernel(r"""
extern "C" __global__
void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + NUMBER;
}
""", defines={"NUMBER": 1})  # fmt: skip
MADE = case(x=normal(40), y=output(40), n=40, grid=ceil_div(40, 32), block=32)


def test_a_launch_of_an_edited_kernel():
    run = edited(ADD.on(MADE), ("x[i] + NUMBER", "x[i] - NUMBER")).run()
    assert np.allclose(run["y"], run["x"] - 1)
    assert "x[i] + NUMBER" in ADD.source


def test_a_text_that_is_missing_or_there_twice_is_refused():
    with pytest.raises(LessonError, match="0 times"):
        edited(ADD, ("no such text", ""))
    with pytest.raises(LessonError, match="2 times"):
        edited(ADD, ("x[i]", ""), ("float", ""))


def test_launches_follow_each_other_on_the_same_arrays():
    twice = Kernel(
        'extern "C" __global__ void twice(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] *= 2; }'
    )
    run = run_chain([ADD.on(MADE), twice.on(MADE, grid=1, block=64)])
    assert np.allclose(run["y"], 2 * (run["x"] + 1))


def test_launches_that_follow_each_other_are_counted():
    counts = count_chain([ADD.on(MADE), ADD.on(MADE, grid=1, block=64)])
    assert [one.global_store.requests for one in counts] == [2, 2]


def test_a_launch_as_a_case():
    made = as_case(ADD.on(MADE, grid=3, block=64))
    assert (made.grid, made.block) == ((3, 1, 1), (64, 1, 1))
