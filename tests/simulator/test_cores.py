"""A launch on several cores: everything as on one, or the launch runs again on one."""

from __future__ import annotations

import numpy as np
import pytest

from tilewise.kernel.kernel import Kernel
from tilewise.simulator.engine import cores
from tilewise.simulator.results.hazards import HazardError

TILED = Kernel(r"""
extern "C" __global__ void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float A[8][8], B[8][8];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 8 + y, col = blockIdx.x * 8 + x;
    float s = 0.0f;
    for (int k = 0; k < n; k += 8) {
        A[y][x] = a[row * n + k + x];
        B[y][x] = b[(k + y) * n + col];
        __syncthreads();
        for (int t = 0; t < 8; ++t) s += A[y][t] * B[t][x];
        __syncthreads();
    }
    c[row * n + col] = s;
}
""")
LEAVES_EARLY = Kernel(r"""
extern "C" __global__ void leaves_early(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < 20; ++k) x[i] += 1.0f;
    __syncthreads();
    x[i] *= 2.0f;
}
""")
PASSES_ON = Kernel(r"""
extern "C" __global__ void passes_on(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = i;
    for (int k = 0; k < 20; ++k) x[i] += 1.0f;
    if (blockIdx.x >= 5) x[i] += x[i - 5 * blockDim.x];
}
""")
SETS_A_FLAG = Kernel(r"""
extern "C" __global__ void sets_a_flag(const float* x, int* found) {
    if (x[blockIdx.x * blockDim.x + threadIdx.x] > 0.5f) *found = 1;
}
""")
CASTS_CONST_AWAY = Kernel(r"""
extern "C" __global__ void casts_const_away(const float* x) {
    ((float*)x)[blockIdx.x * blockDim.x + threadIdx.x] += 1.0f;
}
""")
STRAYS = Kernel(r"""
extern "C" __global__ void strays(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 20; ++k) x[i] += 1.0f;
    if (blockIdx.x > 8) x[i + n] = 1.0f;
}
""")
ADDS_UP = Kernel(r"""
extern "C" __global__ void adds_up(const float* x, float* sum) {
    atomicAdd(sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
""")
ADDS_UP_IN_A_BLOCK = Kernel(r"""
extern "C" __global__ void adds_up_in_a_block(const int* x, int* sums) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
""")
PRINTS = Kernel(r"""
extern "C" __global__ void prints() { if (threadIdx.x == 0) printf("%d ", blockIdx.x); }
""")
READS_A_CLOCK = Kernel(r"""
extern "C" __global__ void reads_a_clock(long long* x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] = clock64();
}
""")


@pytest.fixture(autouse=True)
def spread(monkeypatch):
    """Have other cores join at once; of each try to spread a launch, whether several cores did it."""
    outcomes: list[bool] = []
    run, another = cores.run, cores._Machine.another
    others = 0

    def counted(machine):
        nonlocal others
        others += 1
        return another(machine)

    def told(*arguments):
        nonlocal others
        others = 0
        done = run(*arguments)
        outcomes.append(done and others > 0)
        return done

    monkeypatch.setattr(cores, "FIRST_SLICE", 100)
    monkeypatch.setattr(cores._Machine, "another", counted)
    monkeypatch.setattr(cores, "run", told)
    return outcomes


def on(monkeypatch, number, kernel, arrays, *values, **launch):
    """The arrays after a launch on so many cores, and what it said."""
    monkeypatch.setattr(cores, "count", lambda: number)
    given = [array.copy() for array in arrays]
    try:
        run = kernel.simulate(*given, *values, **launch)
        said = (run.text(), run.lines, run.notes, run.printed)
    except HazardError as error:
        said = str(error)
    return [array.tobytes() for array in given], said


def same(monkeypatch, kernel, arrays, *values, **launch):
    """What a launch says, after a look that it is the same on one core and on three."""
    one = on(monkeypatch, 1, kernel, arrays, *values, **launch)
    for _ in range(3):
        assert on(monkeypatch, 3, kernel, arrays, *values, **launch) == one
    return one[1]


def test_arrays_and_counts_by_line_are_those_of_one_core(monkeypatch, spread):
    a, b = (np.random.default_rng(at).standard_normal((48, 48)).astype(np.float32) for at in range(2))
    same(monkeypatch, TILED, [a, b, np.zeros_like(a)], 48, grid=(6, 6), block=(8, 8))
    assert spread == [True] * 3


def test_notes_are_those_of_one_core(monkeypatch, spread):
    _, _, notes, _ = same(monkeypatch, LEAVES_EARLY, [np.zeros(1000, np.float32)], 1000, grid=17, block=64)
    assert len(notes) == 1 and spread == [True] * 3


def test_shared_atomics_stay_in_their_block(monkeypatch, spread):
    x, sums = np.arange(20 * 64, dtype=np.int32), np.zeros(20, np.int32)
    same(monkeypatch, ADDS_UP_IN_A_BLOCK, [x, sums], grid=20, block=64)
    assert spread == [True] * 3


def test_a_race_between_blocks_is_told_as_on_one_core(monkeypatch, spread):
    said = same(monkeypatch, PASSES_ON, [np.zeros(20 * 64, np.float32)], 0, grid=20, block=64)
    assert "race" in said and spread == [False] * 3


def test_the_hazard_told_is_the_first_in_the_order_of_blocks(monkeypatch, spread):
    said = same(monkeypatch, STRAYS, [np.zeros(20 * 64, np.float32)], 20 * 64, grid=20, block=64)
    assert "block 9" in said and spread == [False] * 3


def test_collected_hazards_are_those_of_one_core(monkeypatch, spread):
    x = np.zeros(20 * 64, np.float32)
    same(monkeypatch, STRAYS, [x], 20 * 64, grid=20, block=64, hazards="collect")
    assert spread == [False] * 3


def test_blocks_that_store_the_same_value_to_one_word(monkeypatch, spread):
    x = np.linspace(0, 1, 20 * 64, dtype=np.float32)
    same(monkeypatch, SETS_A_FLAG, [x, np.zeros(1, np.int32)], grid=20, block=64)
    assert len(spread) == 3


def test_an_array_that_is_not_watched_is_written_on_one_core(monkeypatch, spread):
    same(monkeypatch, CASTS_CONST_AWAY, [np.zeros(40 * 64, np.float32)], grid=40, block=64)
    assert spread == [False] * 3


def test_steps_are_counted_over_all_cores(monkeypatch, spread):
    x = np.zeros(1000, np.float32)
    steps = LEAVES_EARLY.simulate(x.copy(), 1000, grid=16, block=64).counts.issued
    spread.clear()
    said = same(monkeypatch, LEAVES_EARLY, [x], 1000, grid=16, block=64, max_steps=steps - 1)
    assert "steps" in said and spread == [False] * 3


@pytest.mark.parametrize(
    ("kernel", "arrays"),
    [
        (ADDS_UP, [np.ones(20 * 64, np.float32), np.zeros(1, np.float32)]),
        (PRINTS, []),
        (READS_A_CLOCK, [np.zeros(20 * 64, np.int64)]),
    ],
)
def test_what_depends_on_the_order_of_blocks_runs_on_one_core(monkeypatch, spread, kernel, arrays):
    same(monkeypatch, kernel, arrays, grid=20, block=64)
    assert not any(spread)


def test_without_memory_for_another_machine_one_core_does_it(monkeypatch, spread):
    def none_left(machine):
        raise MemoryError

    monkeypatch.setattr(cores._Machine, "another", none_left)
    same(monkeypatch, LEAVES_EARLY, [np.zeros(1000, np.float32)], 1000, grid=16, block=64)
    assert spread == [False] * 3


def test_the_environment_says_how_many_cores(monkeypatch):
    own = cores.count()
    for stated, number in (("1", 1), ("0", 1), ("100000", own), ("all", own), ("", own)):
        monkeypatch.setenv("TILEWISE_CORES", stated)
        assert cores.count() == number
