"""Lanes of one warp that race through shared memory, which lockstep hides; and what is no race."""

import numpy as np
import pytest

from tests.simulator.kernels import meets, on_threads, simulate

SHARED = "__shared__ int s[64]; __shared__ int flag; int other = i ^ 1;\n"
RACES = {
    "read after another lane's store": ("s[i] = x[i];\ny[i] = s[31 - i];", 5, 4),
    "store after another lane's read": ("s[i] = x[i]; __syncwarp();\nint v = s[other];\ns[i] = v + 1;", 6, 5),
    "two stores of different values": ("s[i] = x[i];\ns[other] = 7;\n__syncwarp(); y[i] = s[i];", 5, 4),
    "one half writes, the other reads": ("if (i < 16) s[i] = x[i];\nif (i >= 16) y[i] = s[i - 16];", 5, 4),
    "behind a __syncwarp of the wrong moment": (
        "__syncwarp(); s[i] = x[i];\ny[i] = s[other]; __syncwarp();", 5, 4
    ),
    "eight bytes and four": ("((int2*)s)[i] = make_int2(x[i], i);\ny[i] = s[(2 * i + 3) % 64];", 5, 4),
    "volatile, as before Volta": ("volatile int* v = s; v[i] = x[i];\ny[i] = v[other];", 5, 4),
    "two bytes": ("((short*)s)[i] = x[i];\ny[i] = ((short*)s)[other];", 5, 4),
    "a loop that goes round without one": (
        "for (int k = 0; k < 3; ++k) {\ns[i] = x[i] + k;\n__syncwarp(); y[i] = s[other]; }", 5, 6
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
@pytest.mark.parametrize("block", [32, 96])
def test_lanes_of_a_warp_race(name, block):
    body, line, first = RACES[name]
    source = on_threads(SHARED.replace("64", "256") + body, "const int* x, int* y").replace(
        "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x % 32"
    )
    if block > 32:  # each warp in a part of its own, or another hazard would come first
        ours = "__shared__ int all[3][256], one[3]; int w = threadIdx.x / 32, *s = all[w], &flag = one[w];"
        source = source.replace("__shared__ int s[256]; __shared__ int flag;", ours)
    with meets("race", line) as caught:
        simulate(source, np.arange(32, dtype=np.int32), np.zeros(32, np.int32), block=block)
    message = caught.value.hazard.message
    assert f"of its warp touched at line {first}" in message and "no __syncwarp" in message
    assert "__syncwarp" in caught.value.repair


RIGHT = {
    "a __syncwarp": "s[i] = x[i]; __syncwarp(); y[i] = s[31 - i];",
    "a barrier": "s[i] = x[i]; __syncthreads(); y[i] = s[31 - i];",
    "a __syncwarp of half": "if (i < 16) { s[i] = x[i]; __syncwarp(0xffff); y[i] = s[15 - i]; }",
    "a shuffle": "s[i] = x[i]; int v = __shfl_xor_sync(0xffffffff, i, 1); y[i] = s[other] + v;",
    "a vote": "s[i] = x[i]; int v = __any_sync(0xffffffff, i); y[i] = s[other] + v;",
    "its own word": "s[i] = x[i]; s[i] += 3; y[i] = s[i];",
    "one instruction": "s[i % 4] = x[i];",
    "the same value stored by all": "s[0] = 5; y[i] = s[0];",
    "the same value stored in turns": "for (int k = 0; k < 4; ++k) if (i % 4 == k) flag = 1;",
    "atomics alone": "flag = 0; __syncwarp(); atomicAdd(&flag, 1); atomicAdd(&flag, i);",
    "reads alone": "s[i] = x[i]; __syncwarp(); y[i] = s[other] + s[31 - i] + s[0];",
    "a lock": (
        "if (i == 0) { flag = 0; s[0] = 0; } __syncwarp(); for (int k = 0; k < 32; ++k) if (k == i) {"
        " while (atomicCAS(&flag, 0, 1)); s[0] += i; __threadfence_block(); atomicExch(&flag, 0); }"
    ),
    "another word": "((short*)s)[2 * i] = x[i]; y[i] = x[other];",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_no_race_raises_no_alarm(name):
    simulate(
        on_threads(SHARED + RIGHT[name], "const int* x, int* y"),
        np.arange(32, dtype=np.int32),
        np.zeros(32, np.int32),
    )
