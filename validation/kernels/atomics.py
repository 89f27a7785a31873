"""Specimens of atomics and of the other memories: constant, local, module variables.

In: nothing. Out: ``SPECIMENS``. Results do not depend on the order in which lanes arrive.
"""

from __future__ import annotations

from tilewise.cuda.cases import case, constant, integers, normal, output
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

COUNT = Kernel(r"""
extern "C" __global__
void count(const int* x, int* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) atomicAdd(total, 1);
}
""")

SUM = Kernel(r"""
extern "C" __global__
void sum(const int* x, int* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
""")

ADD_EACH = Kernel(r"""
extern "C" __global__
void add_each(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[i], x[i]);
}
""")

SWAP_EACH = Kernel(r"""
extern "C" __global__
void swap_each(int* x, int* old, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) old[i] = atomicExch(&x[3 * i], -i);
}
""")

HISTOGRAM = Kernel(r"""
extern "C" __global__
void histogram(const int* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i]], 1);
}
""")

FOURS = Kernel(r"""
extern "C" __global__
void fours(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[i / 4], x[i]);
}
""")

OR_OLD = Kernel(r"""
extern "C" __global__
void or_old(int* bins, int* seen, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) seen[i] = atomicOr(&bins[i % 48 / 3], 1) | 1;
}
""")

SHARED_HISTOGRAM = Kernel(r"""
extern "C" __global__
void shared_histogram(const int* x, int* bins, int n) {
    __shared__ int held[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    if (t < 64) held[t] = 0;
    __syncthreads();
    if (i < n) atomicAdd(&held[x[i]], 1);
    __syncthreads();
    if (t < 64) atomicAdd(&bins[t], held[t]);
}
""")

SHARED_MAXIMUM = Kernel(r"""
extern "C" __global__
void shared_maximum(const int* x, int* largest) {
    __shared__ int held;
    int t = threadIdx.x;
    if (t == 0) held = -2147483647;
    __syncthreads();
    atomicMax(&held, x[blockIdx.x * blockDim.x + t]);
    __syncthreads();
    if (t == 0) largest[blockIdx.x] = held;
}
""")

COMPARE_SWAP = Kernel(r"""
extern "C" __global__
void compare_swap(unsigned int* lock, unsigned int* old, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) old[i] = atomicCAS(&lock[i], 3u, 100u + i);
}
""")

WEIGHTED = Kernel(r"""
__constant__ float weight[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

extern "C" __global__
void weighted(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 2 || i >= n - 2) return;
    float s = 0.0f;
    for (int k = 0; k < 5; ++k) s += weight[k] * x[i + k - 2];
    y[i] = s;
}
""")

TABLE = Kernel(r"""
__constant__ int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};

extern "C" __global__
void look_up(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[x[i] & 15];
}
""")

DEVICE_TABLE = Kernel(r"""
__device__ int offset[4] = {10, 200, 3000, 40000};

extern "C" __global__
void offsets(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + offset[x[i] & 3];
}
""")

LOCAL_ARRAY = Kernel(r"""
extern "C" __global__
void local_array(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int seen[16];
    for (int k = 0; k < 16; ++k) seen[k] = 0;
    for (int k = 0; k < 8; ++k) seen[x[(i + k) % n] & 15] += k + 1;
    int best = 0;
    for (int k = 1; k < 16; ++k)
        if (seen[k] > seen[best]) best = k;
    y[i] = best;
}
""")

_N = 500
_SHAPE = {"grid": 4, "block": 128}
_ONE_WORD = case(x=integers(_N, low=-9, high=9), total=constant(1, value=0, dtype="int32"), n=_N, **_SHAPE)
_FLOATS = case(x=normal(_N), y=normal(_N), n=_N, **_SHAPE)
_BINS = case(x=integers(_N, low=0, high=64), bins=constant(64, value=0, dtype="int32"), n=_N, **_SHAPE)
_INTEGERS = case(x=integers(_N, low=0, high=99), y=output(_N, dtype="int32"), n=_N, **_SHAPE)

SPECIMENS: tuple[Specimen, ...] = (
    specimen("count", "atomic additions of 1 to one word", COUNT, _ONE_WORD),
    specimen("sum", "atomic additions of different values to one word", SUM, _ONE_WORD),
    specimen("add each", "atomic additions to a word for each lane", ADD_EACH, _FLOATS),
    specimen(
        "swap each",
        "atomic exchanges whose old values are used, three words apart",
        SWAP_EACH,
        case(x=integers(3 * _N, low=0, high=99), old=output(_N, dtype="int32"), n=_N, **_SHAPE),
    ),
    specimen(
        "compare and swap",
        "atomic compare and swap, a word for each lane",
        COMPARE_SWAP,
        case(
            lock=integers(_N, low=0, high=6, dtype="uint32"), old=output(_N, dtype="uint32"), n=_N, **_SHAPE
        ),
    ),
    specimen("histogram", "atomic additions to bins that collide", HISTOGRAM, _BINS),
    specimen(
        "sums of four",
        "atomic additions, four lanes to a word",
        FOURS,
        case(x=integers(_N, low=0, high=64), y=constant(125, value=0, dtype="int32"), n=_N, **_SHAPE),
    ),
    specimen(
        "or of three",
        "atomics whose old values are used, three lanes to a word",
        OR_OLD,
        case(bins=constant(16, value=0, dtype="int32"), seen=output(_N, dtype="int32"), n=_N, **_SHAPE),
    ),
    specimen("shared histogram", "the same in shared memory first", SHARED_HISTOGRAM, _BINS),
    specimen(
        "shared maximum",
        "atomic maxima of one shared word",
        SHARED_MAXIMUM,
        case(x=integers(512, low=-999, high=999), largest=output(4, dtype="int32"), **_SHAPE),
    ),
    specimen("constant weights", "constant memory, one word for all lanes", WEIGHTED, _FLOATS),
    specimen("constant table", "constant memory, a word for each lane", TABLE, _INTEGERS),
    specimen(
        "module variable", "a table in global memory that the module brings along", DEVICE_TABLE, _INTEGERS
    ),
    specimen("local array", "an array of each thread, indexed by values", LOCAL_ARRAY, _INTEGERS),
)
"""All specimens, in the order of the tables."""
