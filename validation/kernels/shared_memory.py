"""Specimens of shared memory: strides over the banks, widths, tiles, reductions.

In: nothing. Out: ``SPECIMENS``. Wavefronts are compared beside the global counts; where the GPU's assembler
merges neighbouring shared loads, ``differences`` says so.
"""

from __future__ import annotations

import numpy as np

from tilewise.cuda.cases import Array, case, integers, normal, output
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

BANKS = Kernel(r"""
extern "C" __global__
void banks(const float* x, float* y, int stride) {
    __shared__ float tile[32 * 33];
    int t = threadIdx.x;
    for (int i = t; i < 32 * 33; i += 32) tile[i] = x[i];
    __syncthreads();
    y[t] = tile[t * stride];
}
""")

BANKS_STORE = Kernel(r"""
extern "C" __global__
void banks_store(const float* x, float* y, int stride) {
    __shared__ float tile[32 * 33];
    int t = threadIdx.x;
    tile[t * stride] = x[t];
    __syncthreads();
    y[t] = tile[(31 - t) * stride];
}
""")

SHARED_8 = Kernel(r"""
extern "C" __global__
void shared_8(const float2* x, float2* y, int stride) {
    __shared__ float2 tile[512];
    int t = threadIdx.x;
    tile[t * stride] = x[blockIdx.x * 64 + t];
    __syncthreads();
    y[blockIdx.x * 64 + t] = tile[(63 - t) * stride];
}
""")

SHARED_16 = Kernel(r"""
extern "C" __global__
void shared_16(const float4* x, float4* y, int stride) {
    __shared__ float4 tile[512];
    int t = threadIdx.x;
    tile[t * stride] = x[blockIdx.x * 64 + t];
    __syncthreads();
    y[blockIdx.x * 64 + t] = tile[(63 - t) * stride];
}
""")

SHARED_BYTES = Kernel(r"""
extern "C" __global__
void shared_bytes(const unsigned char* x, unsigned char* y) {
    __shared__ unsigned char tile[256];
    int t = threadIdx.x;
    tile[t] = x[t];
    __syncthreads();
    y[t] = tile[255 - t];
}
""")

SHARED_BROADCAST = Kernel(r"""
extern "C" __global__
void shared_broadcast(const float* x, float* y) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];
    __syncthreads();
    float s = 0.0f;
    for (int j = 0; j < blockDim.x; ++j) s += tile[j] * (float)(j + t);
    y[t] = s;
}
""")

TILE_TRANSPOSE = r"""
extern "C" __global__
void tile_transpose(const float* A, float* B, int rows, int columns) {
    __shared__ float tile[32][PITCH];
    int column = blockIdx.x * 32 + threadIdx.x;
    for (int r = threadIdx.y; r < 32; r += 8) {
        int row = blockIdx.y * 32 + r;
        if (row < rows && column < columns) tile[r][threadIdx.x] = A[row * columns + column];
    }
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int c = threadIdx.y; c < 32; c += 8) {
        int out = blockIdx.x * 32 + c;
        if (row < rows && out < columns) B[out * rows + row] = tile[threadIdx.x][c];
    }
}
"""

TILED_MATMUL = Kernel(
    r"""
extern "C" __global__
void tiled_matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[T][T];
    __shared__ float Bs[T][T];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * T + tx, row = blockIdx.y * T + ty;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k) s += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = s;
}
""",
    defines={"T": 16},
)

TREE = Kernel(r"""
extern "C" __global__
void tree(const float* x, float* sums, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
""")

INTERLEAVED_TREE = Kernel(r"""
extern "C" __global__
void interleaved_tree(const float* x, float* sums, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        int at = 2 * step * t;
        if (at < 256) part[at] += part[at + step];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
""")

WARP_SUM = Kernel(r"""
extern "C" __global__
void warp_sum(const float* x, float* sums, int n) {
    __shared__ float part[8];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (t % 32 == 0) part[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 8 ? part[t] : 0.0f;
        for (int d = 4; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
        if (t == 0) sums[blockIdx.x] = v;
    }
}
""")

REVERSE = Kernel(r"""
extern "C" __global__
void reverse(const int* x, int* y) {
    extern __shared__ int held[];
    int t = threadIdx.x, n = blockDim.x;
    held[t] = x[blockIdx.x * n + t];
    __syncthreads();
    y[blockIdx.x * n + t] = held[n - 1 - t];
}
""")

SCAN = Kernel(r"""
extern "C" __global__
void scan(const int* x, int* y) {
    __shared__ int held[2][128];
    int t = threadIdx.x, now = 0;
    held[0][t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        held[1 - now][t] = held[now][t] + (t >= d ? held[now][t - d] : 0);
        now = 1 - now;
        __syncthreads();
    }
    y[blockIdx.x * 128 + t] = held[now][t];
}
""")

NEIGHBOURS = Kernel(r"""
extern "C" __global__
void neighbours(const float* x, float* y) {
    __shared__ float tile[1024];
    int t = threadIdx.x;
    for (int k = 0; k < 4; ++k) tile[k * 256 + t] = x[k * 256 + t];
    __syncthreads();
    float a = tile[4 * t], b = tile[4 * t + 1], c = tile[4 * t + 2], d = tile[4 * t + 3];
    y[t] = ((a + b) + c) + d;
}
""")


def _banks(stride: int) -> Specimen:
    inputs = case(x=normal(32 * 33), y=output(32), stride=stride, grid=1, block=32)
    return specimen(f"banks, stride {stride}", f"shared loads {stride} words apart", BANKS, inputs)


def _banks_store(stride: int) -> Specimen:
    inputs = case(x=normal(32), y=output(32), stride=stride, grid=1, block=32)
    return specimen(f"banks, stores by {stride}", f"shared stores {stride} words apart", BANKS_STORE, inputs)


def _wide(kernel: Kernel, bytes_each: int, stride: int) -> Specimen:
    inputs = case(
        x=normal(128, bytes_each // 4), y=output(128, bytes_each // 4), stride=stride, grid=2, block=64
    )
    name = f"shared {bytes_each} bytes by {stride}"
    return specimen(name, f"{bytes_each}-byte shared accesses, {stride} apart", kernel, inputs)


def _transpose(pitch: int, idea: str) -> Specimen:
    inputs = case(A=normal(45, 70), B=output(70, 45), rows=45, columns=70, grid=(3, 2), block=(32, 8))
    return specimen(
        f"tile transpose, pitch {pitch}", idea, Kernel(TILE_TRANSPOSE, defines={"PITCH": pitch}), inputs
    )


_FOUR_SUMS = case(x=normal(1000), sums=output(4), n=1000, grid=4, block=256)

SPECIMENS: tuple[Specimen, ...] = (
    *(_banks(stride) for stride in (0, 1, 2, 4, 8, 16, 32, 33)),
    *(_banks_store(stride) for stride in (1, 6, 32)),
    *(_wide(SHARED_8, 8, stride) for stride in (1, 2, 5)),
    *(_wide(SHARED_16, 16, stride) for stride in (1, 2, 5)),
    specimen(
        "shared bytes",
        "four lanes share a word",
        SHARED_BYTES,
        case(
            x=integers(256, low=0, high=256, dtype="uint8"), y=output(256, dtype="uint8"), grid=1, block=256
        ),
    ),
    specimen(
        "shared broadcast",
        "one shared word for all lanes, in a loop",
        SHARED_BROADCAST,
        case(x=normal(64), y=output(64), grid=1, block=64),
    ),
    specimen(
        "shared neighbours",
        "four neighbouring words a lane",
        NEIGHBOURS,
        case(x=normal(1024), y=output(256), grid=1, block=256),
    ),
    _transpose(32, "a tile whose columns share a bank"),
    _transpose(33, "a tile with one word of padding a row"),
    specimen(
        "tiled matmul",
        "tiles of 16 by 16",
        TILED_MATMUL,
        case(
            A=normal(40, 50),
            B=normal(50, 36),
            C=output(40, 36),
            M=40,
            N=36,
            K=50,
            grid=(3, 3),
            block=(16, 16),
        ),
    ),
    specimen("tree", "tree reduction", TREE, _FOUR_SUMS),
    specimen("interleaved tree", "tree reduction with bank conflicts", INTERLEAVED_TREE, _FOUR_SUMS),
    specimen("warp sum", "reduction by shuffles", WARP_SUM, _FOUR_SUMS),
    specimen(
        "reverse",
        "dynamic shared memory, 75 threads",
        REVERSE,
        case(
            x=integers(225, low=0, high=1000),
            y=output(225, dtype="int32"),
            grid=3,
            block=75,
            shared_bytes=300,
        ),
    ),
    specimen(
        "scan",
        "running sums, two buffers",
        SCAN,
        case(x=integers(384, low=-50, high=50), y=output(384, dtype="int32"), grid=3, block=128),
    ),
)
"""All specimens, in the order of the tables."""

PICK_8 = Kernel(r"""
extern "C" __global__
void pick_8(const float2* x, const int* place, float2* y) {
    __shared__ float2 tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];
    tile[t + 32] = x[t + 32];
    __syncthreads();
    y[t] = tile[place[t]];
}
""")

PICK_16 = Kernel(r"""
extern "C" __global__
void pick_16(const float4* x, const int* place, float4* y) {
    __shared__ float4 tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];
    tile[t + 32] = x[t + 32];
    __syncthreads();
    y[t] = tile[place[t]];
}
""")


def _places() -> dict[str, Array]:
    """The element that each of 32 lanes reads, by name of the pattern."""
    lane = np.arange(32)
    patterns = {
        "one place": 0 * lane,
        "shared by 2": lane // 2,
        "shared by 4": lane // 4,
        "shared by 8": lane // 8,
        "shared by 16": lane // 16,
        "2 in turn": lane % 2,
        "4 in turn": lane % 4,
        "8 in turn": lane % 8,
        "16 in turn": lane % 16,
        "2 far apart in turn": lane % 2 * 32,
        "every other": 2 * lane,
        "half each": lane // 16 * 32,
        "tile of 8 by 4": lane // 8 * 16 + lane % 4,
    }
    random = {f"any of 64, draw {seed}": integers(32, low=0, high=64, seed=seed).make() for seed in (1, 2, 3)}
    few = {f"any of 8, draw {seed}": integers(32, low=0, high=8, seed=seed).make() * 8 for seed in (4, 5)}
    return {name: places.astype(np.int32) for name, places in {**patterns, **random, **few}.items()}


def _pick(kernel: Kernel, width: int, name: str, places: Array) -> Specimen:
    inputs = case(x=normal(64, width), place=places, y=output(32, width), grid=1, block=32)
    return specimen(f"{4 * width} bytes, {name}", f"{4 * width}-byte shared loads: {name}", kernel, inputs)


WIDE_LOADS: tuple[Specimen, ...] = tuple(
    _pick(kernel, width, name, places)
    for kernel, width in ((PICK_8, 2), (PICK_16, 4))
    for name, places in _places().items()
)
"""Lanes of 8- or 16-byte loads that share wavefronts; the elements that lanes read are data."""
