"""Races through global memory in one launch; and right kernels that look like one."""

import numpy as np
import pytest

from tests.simulator.kernels import meets, on_threads, simulate
from tilewise import Kernel, case, integers
from tilewise.simulator import ExpectationError, Hazard, HazardError, expect_hazard

LAST_BLOCK = """\
extern "C" __global__ void total(const float* x, float* partial, unsigned* arrived, float* y, int n) {
    __shared__ float s[64]; __shared__ bool last; unsigned me = threadIdx.x;
    float v = 0; for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) v += x[i];
    s[threadIdx.x] = v; __syncthreads();
    for (int k = 32; k; k /= 2) { if (me < k) s[me] += s[me + k]; __syncthreads(); }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        float t = threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0f;
        s[threadIdx.x] = t; __syncthreads();
        for (int k = 32; k; k /= 2) { if (me < k) s[me] += s[me + k]; __syncthreads(); }
        if (threadIdx.x == 0) { *y = s[0]; *arrived = 0; }
    }
}
"""


def _ints(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def _race(source: str, line: int, *words: str, grid: int = 2, block: int = 32, size: int = 256) -> Hazard:
    with meets("race", line) as caught:
        simulate(source, _ints(size), grid=grid, block=block)
    hazard = caught.value.hazard
    for word in words:
        assert word in hazard.message
    return hazard


def test_two_blocks_write_one_word():
    _race(
        on_threads("\ny[threadIdx.x] = i + 1000;", "int* y"),
        4,
        "thread 0 of block 1 writes y[0]",
        "block 0 touched",
    )


def test_one_block_reads_what_another_writes():
    source = on_threads("int v = y[(i + 32) % 64];\ny[i] = v + 1;", "int* y")
    _race(source, 3, "block 1 reads y[0]", "block 0 touched at line 4")


def test_a_sum_that_several_blocks_add_to():
    _race(on_threads("if (threadIdx.x == 0)\n  y[7] += 5;", "int* y"), 4, "y[7]")


def test_two_warps_of_a_block_need_a_barrier():
    source = on_threads("y[i] = i + 1;\n{barrier}\nint v = y[63 - i];\ny[i + 64] = v;", "int* y")
    _race(
        source.replace("{barrier}", ""), 3, "which warp 0 touched at line 5", "no barrier", grid=1, block=64
    )
    simulate(source.replace("{barrier}", "__syncthreads();"), _ints(128), grid=1, block=64)


def test_lanes_of_one_instruction_write_different_values():
    _race(on_threads("\ny[i / 2] = i * 3 + 1;", "int* y"), 4, "another thread of its warp", grid=1)
    simulate(on_threads("y[i / 2] = i / 2 + 7;", "int* y"), _ints(32))


@pytest.mark.parametrize(
    "body",
    [
        "atomicAdd(&y[3], 1);",
        "if (i % 3 == 0) y[5] = 1000;",
        "y[i] += y[i] * 2;",
        "atomicMax(&y[i % 5], i); if (y[i % 5] > 1000) atomicExch(&y[9], 1);",
        "((short*)y)[i] = i; ((char*)(y + 128))[i] = i;",
        "volatile int* f = y; if (i == 0) f[9] = 77; int v = f[9]; y[i + 64] = v;",
    ],
)
def test_right_kernels(body):
    simulate(on_threads(body, "int* y"), _ints(256), grid=2)


def _last_block(source: str = LAST_BLOCK) -> float:
    x = np.random.default_rng(0).integers(-9, 9, 1000).astype(np.float32)
    partial, arrived, y = np.zeros(10, np.float32), np.zeros(1, np.uint32), np.zeros(1, np.float32)
    simulate(source, x, partial, arrived, y, np.int32(1000), grid=10, block=64)
    assert arrived[0] == 0
    return float(y[0] - x.sum())


def test_the_last_block_may_read_what_the_others_fenced():
    assert _last_block() == 0


def test_without_the_fence_it_may_not():
    with meets("race", 13, r"partial\[0\]"):
        _last_block(LAST_BLOCK.replace("__threadfence();", ""))


def test_a_lock():
    body = (
        "if (threadIdx.x == 0) {\nwhile (atomicCAS(&y[0], 0, 1)) {}\n__threadfence();\ny[1] += 5;\n"
        "{fence}\natomicExch(&y[0], 0); }"
    )
    y = np.zeros(2, np.int32)
    simulate(on_threads(body.replace("{fence}", "__threadfence();"), "int* y"), y, grid=4)
    assert y.tolist() == [0, 20]
    with pytest.raises(HazardError, match="race"):
        simulate(on_threads(body.replace("{fence}", "").replace("__threadfence();", ""), "int* y"), y, grid=4)


def test_of_several_hazards_the_expected_one_is_shown():
    kernel = Kernel(on_threads("y[threadIdx.x + (blockIdx.x ? 16 : 0)] = i + 100;", "int* y"))
    launch = kernel.on(case(grid=2, block=32, y=integers(40, low=0, high=9)))
    assert expect_hazard(launch, "race").kind == "race"
    assert expect_hazard(launch, "out of bounds", line_with="y[threadIdx.x").kind == "out of bounds"
    with pytest.raises(ExpectationError, match="expected the hazard barrier, and this happened: race"):
        expect_hazard(launch, "barrier")
