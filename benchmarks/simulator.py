"""How much faster the simulator runs a launch than Numba's own CUDA simulator, in one run on this machine.

Both sides are warm (compiled text and compiled loops), every check is on, tracing is off, and arguments are
handled in the measured time, which is processor time, so that other work on the machine counts for neither.
Last comes a launch on all cores beside the same on one, in time by the clock: other work counts there.
Memory is the most that this process and the first launches held.

Run: ``python benchmarks/simulator.py [--quick]``.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
os.environ.setdefault("TILEWISE_BACKEND", "simulator")

import numpy as np
from numba import cuda, float32

from tilewise.kernel.kernel import Kernel
from tilewise.simulator.engine.cores import count

ADD = Kernel(r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")
REDUCE = Kernel(r"""
extern "C" __global__ void reduce(const float* x, float* y) {
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int h = 128; h > 0; h /= 2) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
""")
MATMUL = Kernel(r"""
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int n) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float s = 0.0f;
    for (int k = 0; k < n; k += 16) {
        a[y][x] = A[row * n + k + x];
        b[y][x] = B[(k + y) * n + col];
        __syncthreads();
        for (int t = 0; t < 16; ++t) s += a[y][t] * b[t][x];
        __syncthreads();
    }
    C[row * n + col] = s;
}
""")
ATTENTION = Kernel(r"""
extern "C" __global__ void attention(const float* Q, const float* K, const float* V, float* O, int N, int d,
                                     float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float m = -INFINITY, z = 0.0f;
    for (int c = 0; c < d; ++c) O[i * d + c] = 0.0f;
    for (int j = 0; j < N; ++j) {
        float s = 0.0f;
        for (int k = 0; k < d; ++k) s += Q[i * d + k] * K[j * d + k];
        s *= scale;
        float largest = fmaxf(m, s), keep = expf(m - largest), p = expf(s - largest);
        z = z * keep + p;
        for (int c = 0; c < d; ++c) O[i * d + c] = O[i * d + c] * keep + p * V[j * d + c];
        m = largest;
    }
    for (int c = 0; c < d; ++c) O[i * d + c] /= z;
}
""")


@cuda.jit
def numba_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def numba_reduce(x, y):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.blockIdx.x * 256 + t]
    cuda.syncthreads()
    h = 128
    while h > 0:
        if t < h:
            s[t] += s[t + h]
        cuda.syncthreads()
        h //= 2
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


@cuda.jit
def numba_matmul(A, B, C):  # noqa: N803
    a = cuda.shared.array((16, 16), float32)
    b = cuda.shared.array((16, 16), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 16 + y, cuda.blockIdx.x * 16 + x
    s = float32(0)
    for k in range(0, A.shape[0], 16):
        a[y, x] = A[row, k + x]
        b[y, x] = B[k + y, col]
        cuda.syncthreads()
        for t in range(16):
            s += a[y, t] * b[t, x]
        cuda.syncthreads()
    C[row, col] = s


@cuda.jit
def numba_attention(Q, K, V, O, scale):  # noqa: N803, E741
    i = cuda.grid(1)
    if i >= Q.shape[0]:
        return
    m, z = -math.inf, 0.0
    for c in range(Q.shape[1]):
        O[i, c] = 0.0
    for j in range(Q.shape[0]):
        s = 0.0
        for k in range(Q.shape[1]):
            s += Q[i, k] * K[j, k]
        s *= scale
        largest = max(m, s)
        keep, p = math.exp(m - largest), math.exp(s - largest)
        z = z * keep + p
        for c in range(Q.shape[1]):
            O[i, c] = O[i, c] * keep + p * V[j, c]
        m = largest
    for c in range(Q.shape[1]):
        O[i, c] /= z


@dataclass(frozen=True)
class Contest:
    """One kernel on both simulators."""

    name: str
    ours: Callable[[], None]
    theirs: Callable[[], None] | None
    goal: float
    """Ratio wanted; for a contest without the other side, milliseconds at most."""
    repeats: int = 20


def median_ms(call: Callable[[], None], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times)


def contests() -> list[Contest]:
    rng = np.random.Generator(np.random.PCG64(0))

    def floats(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    a, b, c = floats(3, 10_000)
    x, y = floats(16 * 256), np.zeros(16, np.float32)
    small, large = (floats(3, n, n) for n in (64, 256))
    head, long = floats(4, 64, 32), floats(4, 256, 64)
    return [
        Contest(
            "vector add 10^4",
            lambda: ADD(a, b, c, 10_000, grid=40, block=256),
            lambda: numba_add[40, 256](a, b, c),
            500,
        ),
        Contest(
            "tree reduction 16x256",
            lambda: REDUCE(x, y, grid=16, block=256),
            lambda: numba_reduce[16, 256](x, y),
            1500,
        ),
        Contest(
            "tiled matmul 64^3",
            lambda: MATMUL(*small, 64, grid=(4, 4), block=(16, 16)),
            lambda: numba_matmul[(4, 4), (16, 16)](*small),
            700,
        ),
        Contest(
            "attention 64x32",
            lambda: ATTENTION(*head, 64, 32, 0.18, grid=1, block=64),
            lambda: numba_attention[1, 64](*head, 0.18),
            20,
        ),
        Contest(
            "tiled matmul 256^3", lambda: MATMUL(*large, 256, grid=(16, 16), block=(16, 16)), None, 1500, 5
        ),
        Contest(
            "attention 256x64", lambda: ATTENTION(*long, 256, 64, 0.125, grid=2, block=128), None, 700, 5
        ),
    ]


def seconds(call: Callable[[], None], cores: str) -> float:
    """Time by the clock on so many cores, the least of five."""
    os.environ["TILEWISE_CORES"] = cores
    times = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def faster_on_all_cores() -> tuple[int, float]:
    """How many cores there are, and how many times faster they multiply 512 x 512 matrices than one."""
    a, b, c = np.random.Generator(np.random.PCG64(0)).normal(size=(3, 512, 512)).astype(np.float32)

    def multiply() -> None:
        MATMUL(a, b, c, 512, grid=(32, 32), block=(16, 16))

    multiply()
    one, every = seconds(multiply, "1"), seconds(multiply, "all")
    return count(), one / every


def first_launch_ms() -> float:
    """From a fresh process to the end of its first launch, caches warm."""
    code = (
        "import numpy as np; from tilewise import Kernel; a, b, c = np.ones((3, 1000), np.float32);"
        f"Kernel({ADD.source!r})(a, b, c, 1000, grid=4, block=256); assert c[0] == 2"
    )
    root = Path(__file__).resolve().parents[1]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def most_memory_mb() -> float:
    """The most memory that this process or one that it started has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    users = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return max(resource.getrusage(user).ru_maxrss for user in users) * unit / 1e6


def main() -> int:
    """Print the table; 1 where a goal is missed."""
    quick = "--quick" in sys.argv[1:]
    missed = 0
    print(f"{'':24}{'tilewise':>12}{'numba':>14}{'ratio':>10}{'goal':>10}")
    for contest in contests():
        ours = median_ms(contest.ours, 3 if quick else contest.repeats)
        if contest.theirs is None:
            reached = ours <= contest.goal
            said = "" if reached else "missed"
            print(f"{contest.name:24}{ours:9.2f} ms{'':>24}{contest.goal:7.0f} ms  {said}")
        else:
            theirs = median_ms(contest.theirs, 1 if quick else 3)
            reached = theirs / ours >= contest.goal
            print(
                f"{contest.name:24}{ours:9.2f} ms{theirs:11.0f} ms{theirs / ours:9.0f}x{contest.goal:9.0f}x"
                f"  {'' if reached else 'missed'}"
            )
        missed += not reached
    cores, faster = faster_on_all_cores()
    print(f"tiled matmul 512^3 on {cores} cores: {faster:.2f} times as fast as on one")
    first = statistics.median(first_launch_ms() for _ in range(3))
    print(
        f"{'first launch, cached':24}{first:9.0f} ms{'':>24}{500:7.0f} ms  {'' if first <= 500 else 'missed'}"
    )
    memory = most_memory_mb()
    print(f"{'memory':24}{memory:9.0f} MB{'':>24}{1000:7.0f} MB  {'' if memory <= 1000 else 'missed'}")
    return int(missed + (first > 500) + (memory > 1000) > 0)


if __name__ == "__main__":
    sys.exit(main())
