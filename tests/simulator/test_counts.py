"""Counts that can be worked out by hand."""

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate
from tilewise.simulator import GlobalCounts


def _loads(index: str, count: int) -> GlobalCounts:
    """What one warp counts that loads ``x[index]``; it stores to ``y[i]``."""
    x, y = np.ones((2, count), np.float32)
    return simulate(on_threads(f"y[i] = x[{index}];", "const float* x, float* y"), x, y).counts.global_load


@pytest.mark.parametrize(
    ("index", "sectors", "lines"),
    [
        ("i", 4, 1),
        ("i + 8", 4, 2),
        ("i + 1", 5, 2),
        ("31 - i", 4, 1),
        ("i * 2", 8, 2),
        ("i * 8", 32, 8),
        ("i * 32", 32, 32),
        ("0", 1, 1),
        ("i / 8 * 8", 4, 1),
        ("(i * 7) % 32", 4, 1),
        ("i % 2 * 64", 2, 2),
    ],
)
def test_sectors_and_lines_of_one_load(index, sectors, lines):
    counts = _loads(index, 1024)
    assert (counts.requests, counts.sectors, counts.lines, counts.lane_accesses) == (1, sectors, lines, 32)
    assert counts.useful_bytes == 128


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 16, 32, 33])
def test_bank_conflicts_by_stride(stride):
    source = on_threads(
        "__shared__ float s[34 * 32]; for (int k = i; k < 34 * 32; k += 32) s[k] = k; __syncthreads();\n"
        f"y[i] = x[i] * s[i * {stride}];",
        "const float* x, float* y",
    )
    run = simulate(source, *np.zeros((2, 32), np.float32))
    assert run.lines[4].shared_load.requests == 1
    assert run.lines[4].shared_load.wavefronts == np.gcd(stride, 32)


def test_lanes_that_want_one_word_share_it():
    source = on_threads(
        "__shared__ float s[32]; s[i] = x[i];\n__syncthreads();\ny[i] = s[5];\ny[i] += s[i % 2 * 8];",
        "const float* x, volatile float* y",
    )
    run = simulate(source, *np.zeros((2, 32), np.float32))
    assert run.lines[5].shared_load.wavefronts == 1
    assert run.lines[6].shared_load.wavefronts == 1


@pytest.mark.parametrize(
    ("ctype", "words", "wavefronts"), [("float2", 2, 2), ("float4", 4, 4), ("double", 2, 2)]
)
def test_wide_shared_accesses_go_by_parts_of_a_warp(ctype, words, wavefronts):
    source = on_threads(
        f"__shared__ {ctype} s[32]; s[i] = x[i]; __syncwarp();\ny[i] = s[31 - i];",
        f"const {ctype}* x, {ctype}* y",
    )
    x, y = np.arange(32 * words, dtype=np.float32), np.zeros(32 * words, np.float32)
    if ctype == "double":
        x, y = x[:32].astype(np.float64), np.zeros(32)
    run = simulate(source, x, y)
    assert np.array_equal(y.reshape(32, -1), x.reshape(32, -1)[::-1])
    assert run.counts.shared_load.requests == 1
    assert run.counts.shared_load.wavefronts == wavefronts == run.counts.shared_store.wavefronts


def test_lines_of_inlined_functions_are_the_functions_own():
    source = """\
__device__ float twice(float v) {
    return 2.0f * v;
}
extern "C" __global__ void k(const float* x, float* y) {
    y[threadIdx.x] = twice(
        x[threadIdx.x]);
}"""
    lines = simulate(source, *np.zeros((2, 32), np.float32)).lines
    assert lines[6].global_load.requests == 1
    assert lines[5].global_store.requests == 1
    assert lines[2].issued == 1


def test_branches_that_part_a_warp_are_counted():
    source = on_threads("if (i < 16) atomicAdd(y, 1); else atomicSub(y + 1, 1);", "int* y")
    assert simulate(source, np.zeros(2, np.int32)).counts.divergent_branches == 1
    assert simulate(source, np.zeros(2, np.int32), block=16).counts.divergent_branches == 0
