"""What CUDA C makes of floats and halves: contraction, flushed denormals, conversions of the headers.

The instructions one by one, on edge values, are held in `trust`.
"""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels import on_threads, simulate


def _apply(expression: str, a: np.ndarray, b: np.ndarray, *options: str) -> set[float]:
    out = np.ones_like(a)
    ctype = "float" if a.dtype == np.float32 else "double"
    source = on_threads(
        f"{ctype} a = x[i], b = y[i]; z[i] = {expression};", f"const {ctype}* x, const {ctype}* y, {ctype}* z"
    )
    simulate(source, a, b, out, options=options)
    return set(out.tolist())


def test_multiply_and_add_contract_to_one_rounding_unless_told_not_to() -> None:
    a, b = np.full(32, 1 + 2**-12, np.float32), np.full(32, -(1 + 2**-11), np.float32)
    assert _apply("a * a + b", a, b) == {2.0**-24}
    assert _apply("a * a + b", a, b, "-fmad=false") == {0.0}


def test_denormal_floats_are_flushed_and_doubles_are_not() -> None:
    a, b = np.full(32, 2.0**-100, np.float32), np.full(32, 2.0**-30, np.float32)
    assert _apply("a * b", a, b) == {0.0}
    assert _apply("a * b", np.full(32, 2.0**-1060), np.ones(32)) == {2.0**-1060}


def test_pairs_of_halves_multiply_and_add_in_one() -> None:
    a = np.linspace(-3, 3, 64, dtype=np.float16)
    out = np.zeros(64, np.float16)
    source = "#include <cuda_fp16.h>\n" + on_threads(
        "half2 v = x[i]; z[i] = __hfma2(v, v, __float2half2_rn(0.5f));", "const half2* x, half2* z"
    )
    run = simulate(source, a, out)
    wide = a.astype(np.float64)
    np.testing.assert_array_equal(out, (wide * wide + 0.5).astype(np.float16))
    assert run.counts.global_load.requests == run.counts.global_store.requests == 1


def test_halves_and_floats_convert() -> None:
    a = np.array([0, -0.0, 1, -1.5, 1e-30, -1e30, 3.4e38, np.inf, -np.inf, np.nan, 2.5, 1e-7], np.float32)
    out, back = np.zeros(12, np.float16), np.zeros(12, np.float32)
    source = "#include <cuda_fp16.h>\n" + on_threads(
        "z[i] = __float2half(x[i]); y[i] = __half2float(z[i]);", "const float* x, half* z, float* y"
    )
    simulate(source, a, out, back, block=12)
    with np.errstate(over="ignore"):
        expected = a.astype(np.float16)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(back, expected.astype(np.float32))


def test_bfloat16_rounds_to_nearest_even() -> None:
    bits = np.array(
        [0x3F800000, 0x3F808000, 0x3F818000, 0x3F80FFFF, 0xBF808001, 0x7F800000, 0x00000000, 0x477FE000],
        np.uint32,
    )
    out = np.zeros(8, np.uint16)
    source = "#include <cuda_bf16.h>\n" + on_threads(
        "z[i] = __float2bfloat16(x[i]);", "const float* x, nv_bfloat16* z"
    )
    simulate(source, bits.view(np.float32), out, block=8)
    expected = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    assert np.array_equal(out, expected)
