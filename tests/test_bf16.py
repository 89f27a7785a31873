"""BF16 in arrays of uint16: rounding, recipes, and that comparisons see numbers and not bits."""

from typing import Any

import numpy as np
import pytest

from tilewise import bf16, tensor_map
from tilewise.cuda.cases import case, constant, integers, normal, output, uniform
from tilewise.kernel.comparison import CheckError, agree
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.saved_launches import _read, _value
from tilewise.measurements.answers import numbers, written

HALVE = Kernel(r"""
#include <cuda_bf16.h>
extern "C" __global__ void halve(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(0.5f * __bfloat162float(x[i]));
}
""")


def halving(n: int) -> Any:
    return case(x=normal(n, dtype="bfloat16"), y=output(n, dtype="bfloat16"), n=n, grid=-(-n // 32), block=32)


def test_floats_are_rounded_to_the_nearest_and_ties_to_even():
    one = 0x3F80
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -(1 + 2**-9)], np.float32)
    assert bf16.bits(ties).tolist() == [one, one + 2, one + 1, one | 0x8000]
    assert np.isinf(bf16.values(bf16.bits(np.array([3.4e38, np.inf], np.float32)))).all()
    assert np.isnan(bf16.values(bf16.bits(np.array([np.nan], np.float32)))).all()


@pytest.mark.parametrize(
    "recipe",
    [
        normal(5, 3, dtype="bfloat16", scale=2.0),
        uniform(7, dtype="bfloat16", seed=3),
        integers(9, low=-2, high=3, dtype="bfloat16"),
        constant(2, value=1.5, dtype="bfloat16"),
        output(4, dtype="bfloat16"),
    ],
    ids=lambda recipe: recipe.kind,
)
def test_a_recipe_makes_bits_and_is_written_down_whole(recipe):
    made = recipe.make(11)
    assert made.dtype == np.uint16
    assert _read(_value(recipe)) == recipe
    assert "bfloat16" in str(recipe)


def test_an_output_starts_as_nan_and_the_key_knows_the_type():
    assert np.isnan(bf16.values(output(3, dtype="bfloat16").make())).all()
    raw = case(x=output(3, dtype="uint16")).fingerprint()
    assert case(x=output(3, dtype="bfloat16")).fingerprint() != raw


def test_pseudocode_gets_numbers_and_its_result_is_compared_as_numbers():
    def halved(x: Any, y: Any, n: int) -> None:
        assert x.dtype == np.float32
        y[:n] = 0.5 * x[:n]

    def doubled(x: Any, y: Any, n: int) -> None:
        y[:n] = 2 * x[:n]

    agree(halved, HALVE, [halving(45), halving(70)])
    with pytest.raises(CheckError, match="differ"):
        agree(doubled, HALVE, [halving(45), halving(70)], rtol=1e-2)


def test_a_reference_gets_numbers_and_a_map_s_array_counts_as_written():
    launch = HALVE.on(halving(45))
    arrays = launch.case.make()
    assert np.array_equal(numbers([launch], arrays)["x"], bf16.values(arrays["x"]))
    assert numbers([launch], arrays)["n"] == 45
    store = Kernel(r"""
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void store(const __grid_constant__ TensorMap to, const float* from) { }
""")
    stored = case(out=output(8, 8), to=tensor_map("out", box=(8, 8)), **{"from": normal(4)}, grid=1, block=32)
    assert written([store.on(stored)]) == ("out",)
