"""Stores to shared memory by several warps that nothing orders: no race where all store the same value."""

import numpy as np
import pytest

from tests.simulator.kernels import meets, simulate

SAME = {
    "by every thread": "one = 7; __syncthreads(); y[threadIdx.x] = one;",
    "by two warps each": "s[threadIdx.x / 64] = 7; __syncthreads(); y[threadIdx.x] = s[threadIdx.x / 64];",
    "of one byte": "yes = true; __syncthreads(); y[threadIdx.x] = yes ? 7 : 0;",
    "of eight bytes": "wide = 7; __syncthreads(); y[threadIdx.x] = wide;",
    "read back by the thread": "one = 7; y[threadIdx.x] = one;",
    "over what others have read": (
        "one = 7; __syncthreads(); y[threadIdx.x] = one; if (threadIdx.x > 95) one = 7;"
    ),
}
DIFFERENT = {
    "by one thread more": "one = 7; if (threadIdx.x == 40) one = 8;",
    "by the first thread": "one = threadIdx.x == 0 ? 8 : 7;",
    "of one byte": "yes = threadIdx.x == 3;",
    "of eight bytes": "wide = threadIdx.x == 3;",
    "by each warp": "one = threadIdx.x / 32;",
    "by the last thread, later": "one = 7; if (threadIdx.x == 127 && x[1] == 1) one = 9;",
    "by the first warp, read by another": "if (threadIdx.x < 64) one = 7; else y[threadIdx.x] = one;",
    "over what others have read": "one = 7; __syncthreads(); y[threadIdx.x] = one; one = x[7] + 1;",
}


def _kernel(body: str) -> str:
    return f"""extern "C" __global__ void k(const int* x, int* y) {{
    __shared__ int one, s[4];
    __shared__ bool yes;
    __shared__ long long wide;
    if (threadIdx.x == 0) {{ one = s[0] = s[1] = yes = wide = x[2]; }}
    __syncthreads();
    {body}
    __syncthreads();
    if (x[0]) y[threadIdx.x] = one + s[threadIdx.x % 2] + yes + wide;
}}"""


@pytest.mark.parametrize("name", SAME)
def test_warps_that_store_the_same_value_do_not_race(name):
    y = np.zeros(128, np.int32)
    simulate(_kernel(SAME[name]), np.arange(32, dtype=np.int32), y, block=128)
    assert (y == 7).all()


@pytest.mark.parametrize("name", DIFFERENT)
def test_warps_that_store_several_values_race(name):
    with meets("race", 7):
        simulate(_kernel(DIFFERENT[name]), np.arange(32, dtype=np.int32), np.zeros(128, np.int32), block=128)


def _vectors(pair: str) -> str:
    return f"""extern "C" __global__ void k(const float* x, float* y) {{
    __shared__ __align__(8) float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    float last = s[63];  // the first words are not read before they are written again
    __syncthreads();
    {pair}
    __syncthreads();
    y[t] = s[t];
}}"""


def test_warps_that_store_the_same_vectors_do_not_race():
    y = np.zeros(64, np.float32)
    simulate(_vectors("*(float2*)&s[2 * (t % 32)] = make_float2(t % 32, last);"), y + 5, y, block=64)
    assert (y == [half for i in range(32) for half in (i, 5)]).all()


def test_lanes_that_store_several_vectors_to_one_place_race_with_a_warp_that_does_the_same():
    x, y = np.ones((2, 64), np.float32)
    with meets("race", 8):
        simulate(_vectors("*(float2*)&s[62 - t % 16 / 2 * 2] = make_float2(t % 32, last);"), x, y, block=64)
