# ---
# title: "Softmax: online, fused, in one read"
# needs: [kernels/serial_attention, memory/precision, memory/fusion, memory/reductions, matmul/tma, matmul/clusters]
# summary: "Softmax needs the maximum of a row before its sum, and the sum before its results. How many times must a kernel read the row?"
# description: "Three-pass, online and fused softmax in CUDA C. With the row in registers, one read and one write remain, and softmax runs at the speed of a copy."
# date: 2026-11-23
# tags: [softmax, online softmax, kernel fusion]
# ---

# %% [markdown]
# On an {{ hook.machine }}, copying 17 million floats takes {{ hook.copy_us | us }}. PyTorch's `torch.softmax` moves the
# same bytes, yet over rows of 4,096 it takes {{ hook.torch_us | .0f }} µs. A textbook softmax reads every element
# {{ traffic.three.reads | .0f }} times, and over rows of 131,072 it takes {{ three_us.at_131072 | us }}. How many reads
# does softmax need, and can it be as fast as a copy?
#
# *Online softmax*, the trick that saves one read, is also what makes FlashAttention possible. If you write
# attention, cross-entropy or any other kernel that normalises a row, you'll use it.

# %% [markdown]
# ## Three-pass softmax
#
# $$y_c = \frac{e^{x_c - m}}{z}, \quad m = \max_c x_c, \quad z = \sum_c e^{x_c - m}$$
#
# Here $x$ is a row of elements, $y$ is its softmax, and $c$ is the column index. The sum $z$ is the *normaliser*. On
# paper, subtracting $m$ cancels out. In floating point, it keeps every exponential at or below 1, so none overflows.
# The largest is $e^0 = 1$, so $z$ is at least 1. This form is called *stable*.
#
# Take the row 1, 2, 4. Its maximum is 4, the exponentials are 0.05, 0.14 and 1, and $z$ is 1.19. The results are
# therefore 0.04, 0.11 and 0.84.
#
# ??? definition "Stable softmax"
#     Softmax with the row's maximum subtracted from every element first, so that no exponential
#     overflows and the sum is at least 1.
#
# ??? definition "Normaliser | normalisers"
#     The sum of exponentials by which softmax divides, taken relative to a maximum.

# %% [markdown]
# The kernel assigns one block to each row, and each thread handles every 256th element. It makes three passes over the
# row: one for the maximum, one for the sum, and one for the results. `block_reduce` combines the threads' values, first
# within a warp by [shuffles](../memory/reductions.py) and then across warps through shared memory.


# %% tab="Pseudocode"
import numpy as np

from tilewise import parallel


def softmax_three(X, Y):
    for r in parallel(len(X)):
        # [maximum
        m = -np.inf
        for x in X[r]:
            m = max(m, x)
        # maximum]
        if m == -np.inf:
            m = 0.0
        # [sum
        z = 0.0
        for x in X[r]:
            z += np.exp(x - m)
        # sum]
        # [results
        factor = 1 / z if z > 0 else 0.0
        for c, x in enumerate(X[r]):
            Y[r, c] = np.exp(x - m) * factor
        # results]


# %% tab="CUDA C"
from tilewise import Kernel

PASSES = r"""
#define THREADS 256

struct Pair { float m, z; };  // a maximum; a sum of exponentials relative to it

// Combines the pairs of all lanes of a warp; every lane gets the result.
__device__ Pair warp_reduce(Pair own) {
    float m = own.m;
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * expf(own.m - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// Combines the pairs of all threads of the block; every thread gets the result.
__device__ Pair block_reduce(Pair own) {
    __shared__ Pair warp_pairs[THREADS / 32];
    int lane = threadIdx.x % 32;
    own = warp_reduce(own);
    __syncthreads();  // the previous call's warp_pairs have been read
    if (lane == 0) warp_pairs[threadIdx.x / 32] = own;
    __syncthreads();  // every warp has written its pair
    return warp_reduce(lane < THREADS / 32 ? warp_pairs[lane] : Pair{-INFINITY, 0.0f});
}

// [three
// Y = softmax of each row of X, both row-major [rows][cols], any cols, 4-byte aligned.
// Three passes. Launch one block of THREADS threads per row; the pairs are in static shared memory.
extern "C" __global__
void softmax_three(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    // [maximum
    float m = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += THREADS) m = fmaxf(m, X[c]);
    m = block_reduce({m, 0.0f}).m;
    // maximum]
    if (m == -INFINITY) m = 0.0f;  // every element is minus infinity
    // [sum
    float z = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) z += expf(X[c] - m);
    z = block_reduce({m, z}).z;
    // sum]
    // [results
    float factor = z > 0.0f ? 1.0f / z : 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = expf(X[c] - m) * factor;
    // results]
}
// three]

// [online
// The same result, layout and launch as softmax_three; two passes.
extern "C" __global__
void softmax_online(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    // New: one pass finds both; a larger maximum rescales the sum
    Pair own = {-INFINITY, 0.0f};
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        float x = X[c];
        if (x > own.m) {
            own.z *= expf(own.m - x);
            own.m = x;
        }
        if (x > -INFINITY) own.z += expf(x - own.m);
    }
    Pair all = block_reduce(own);
    float factor = all.z > 0.0f ? 1.0f / all.z : 0.0f;
    if (all.m == -INFINITY) all.m = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = expf(X[c] - all.m) * factor;
}
// online]
"""
SOFTMAX_THREE = Kernel(PASSES, "softmax_three")


# %% tab="Numba" needs="numba"
import math

import numpy as np

from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit(device=True)
def of_block_numba(value, by_sum):
    """The sum or the maximum over the values of all threads of the block."""
    values = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    cuda.syncthreads()  # the previous call's values have been read
    values[t] = value
    h = cuda.blockDim.x // 2
    while h > 0:  # a tree: Numba's simulator has no shuffles
        cuda.syncthreads()
        if t < h and by_sum:
            values[t] += values[t + h]
        elif t < h and values[t + h] > values[t]:
            values[t] = values[t + h]
        h //= 2
    cuda.syncthreads()
    return values[0]


@cuda.jit
def softmax_numba(X, Y):
    x, y = X[cuda.blockIdx.x], Y[cuda.blockIdx.x]
    first, step = cuda.threadIdx.x, cuda.blockDim.x
    # [maximum
    m = np.float32(-np.inf)
    for c in range(first, x.size, step):
        m = x[c] if x[c] > m else m
    m = of_block_numba(m, False)
    # maximum]
    if m == -np.inf:
        m = np.float32(0)  # every element is minus infinity
    # [sum
    z = np.float32(0)
    for c in range(first, x.size, step):
        z += math.exp(x[c] - m)
    z = of_block_numba(z, True)
    # sum]
    # [results
    factor = np.float32(1) / z if z > 0 else np.float32(0)
    for c in range(first, x.size, step):
        y[c] = math.exp(x[c] - m) * factor
    # results]


# %%
SOFTMAX_THREE.region("three")

# %% [markdown]
# Run it on our small row:

# %%
x = np.array([[1, 2, 4]], np.float32)
y = np.zeros_like(x)
SOFTMAX_THREE(x, y, 3, grid=1, block=256)
print(y.round(2))

# %% [markdown]
# What should softmax return if every element of a row is $-\infty$, as when a mask removes all keys of a query? The
# formula gives 0/0. PyTorch returns NaN, which then spreads through the model. Our kernels return zeros.

# %% [markdown]
# ## Online softmax: maximum and sum in one pass
#
# The first two passes can be merged. Keep a running maximum $m$ and a running sum $z$. When a larger element arrives,
# every term in $z$ so far has been computed relative to what is now the wrong maximum. All terms are off by the same
# factor, so one multiplication corrects them:
#
# $$m' = \max(m, x), \qquad z' = z\,e^{m - m'} + e^{x - m'}$$
#
# This is *online softmax*, published by [Milakov and Gimelshein](https://arxiv.org/abs/1805.02867) in 2018.
#
# ??? definition "Online softmax"
#     Finding a row's maximum and sum of exponentials in one pass, by rescaling the sum whenever the
#     maximum grows.
#
# ??? question "How can a softmax be computed piece by piece?"
#     Keep two values per row: $m$, the largest element so far, and $z$, the sum of the
#     exponentials $e^{x - m}$ so far. A new element may raise the maximum to $m'$. All earlier terms
#     were relative to the old maximum, and a single factor repairs them: $z$ becomes
#     $z\,e^{m - m'}$, and then the new term is added. After the last element both values match what two passes
#     find, up to rounding. In attention, the weighted sum of value rows is rescaled by the same factor, so it
#     can be accumulated along the way.


# %% tab="Pseudocode"
def softmax_online(X, Y):
    for r in parallel(len(X)):
        m, z = -np.inf, 0.0
        for x in X[r]:
            if x > m:
                z *= np.exp(m - x)
                m = x
            if x > -np.inf:
                z += np.exp(x - m)
        factor = 1 / z if z > 0 else 0.0
        if m == -np.inf:
            m = 0.0
        for c, x in enumerate(X[r]):
            Y[r, c] = np.exp(x - m) * factor


# %% tab="CUDA C"
SOFTMAX_ONLINE = SOFTMAX_THREE.named("softmax_online")

# %%
SOFTMAX_ONLINE.region("online")

# %% [markdown]
# Step through a row of eight elements. Whenever $m$ rises, $z$ is multiplied by a factor below 1. Otherwise
# the new term is simply added.
# %% fold="Code of the figure"
from tilewise import Table, agree, case, ceil_div, check, normal, output, publish, show
from tilewise.figures import Mark, Series, State, line_chart, stepped
from tilewise.kernel.chains import as_case
from tilewise.kernel.edits import edited
from tilewise.measurements import Numbers, complete, medians_us, printed_errors, recorded, recorded_device
from tilewise.measurements.slugs import name_slug

check(y.round(2), [[0.04, 0.11, 0.84]], rtol=1e-6, name="the row 1, 2, 4")
check([np.exp(-3.0).round(2), np.exp(-2.0).round(2)], [0.05, 0.14], name="its exponentials")
ROW = np.array([-1.0, 0.5, -2.0, 2.5, 2.0, -0.5, 3.0, 1.0])
ONLINE = [
    "if x > m:",
    "    z *= np.exp(m - x)",
    "    m = x",
    "z += np.exp(x - m)",
]
states, m, z = [], -np.inf, 0.0
for c, x in enumerate(ROW):
    factor = float(np.exp(m - x)) if x > m else 1.0
    m, z = max(m, x), z * factor + float(np.exp(x - max(m, x)))
    what = (
        f"{x:g} is a new maximum, so the sum is multiplied by {factor:.3g}"
        if factor < 1
        else f"{x:g} is not a new maximum"
    )
    states.append(
        State(
            f"{what}. Now z is {z:.3f}.",
            line=2 if factor < 1 else 4,
            values={"m": m, "factor": factor, "z": z},
            arrays={"x": ROW},
            reads={"x": [c]},
        )
    )
check([m, z], [ROW.max(), np.exp(ROW - ROW.max()).sum()], rtol=1e-12, name="online against two passes")
show(
    stepped(
        states,
        source="\n".join(ONLINE),
        title="A new maximum rescales the sum; nothing is read again",
        caption="Online softmax over a row of eight elements: maximum, factor and sum after each.",
    )
)

# %% [markdown]
# Each thread sees different elements and ends with its own pair $(m, z)$. The same rule combines two pairs: rescale
# both sums to the larger maximum and add them. Rounding aside, the grouping of the pairs doesn't change the result:
# the rule is *associative*. So we can combine pairs across lanes, then across warps, and even across blocks.
#
# ??? definition "Associative"
#     Said of an operation whose result does not depend on how a chain of it is grouped: (a b) c is
#     a (b c).
# %% fold="Code of the checks"


def rows_case(rows, cols, spread=3.0, X=None):
    """One block per row."""
    x = normal(rows, cols, scale=spread) if X is None else X
    arrays = {"X": x, "Z": output(rows, cols), "Y": output(rows, cols)}
    return case(**arrays, cols=cols, rows=rows, n=rows * cols, grid=rows, block=256)


def difficult(cols):
    """Rows that begin or end with minus infinity, one with nothing else, large and very large elements."""
    X = np.random.default_rng(3).normal(size=(5, cols)).astype(np.float32)
    X[:2] = X[:2] * 3000 - 9000  # with shares that are minus infinity alone, next to very negative ones
    X[0, : cols // 2] = -np.inf
    X[1, cols // 3 :] = -np.inf
    X[2] = -np.inf
    X[3] *= 30
    X[4] *= 3000
    return X


def right(X):
    """Softmax of each row in FP64; zeros for a row without a finite element."""
    X = X.astype(np.float64)
    m = X.max(axis=1, keepdims=True)
    e = np.exp(X - np.where(m > -np.inf, m, 0.0))
    z = e.sum(axis=1, keepdims=True)
    return e / np.where(z > 0, z, 1.0)


cases = [rows_case(2, 77), rows_case(3, 300), rows_case(5, 531, X=difficult(531))]
agree(softmax_three, SOFTMAX_THREE, cases, rtol=2e-5, atol=1e-7)
few = [rows_case(2, 77), rows_case(1, 300)]
agree(softmax_numba, SOFTMAX_THREE, few, rtol=2e-5, atol=1e-7, by="Numba")
agree(softmax_online, SOFTMAX_ONLINE, cases, rtol=2e-5, atol=1e-7)
for kernel in (SOFTMAX_THREE, SOFTMAX_ONLINE):
    made = rows_case(5, 1003, X=difficult(1003))
    got = kernel.on(made).run()
    name = f"{kernel.name} against 64-bit NumPy: minus infinity first, last and throughout"
    check(got["Y"], right(got["X"]), rtol=2e-5, atol=1e-9, name=name)

# %% [markdown]
# Run both versions on rows of any length. Do three passes load half again as many sectors as two, whatever the length?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    rows_case,
    {"three-pass": SOFTMAX_THREE, "online, two-pass": SOFTMAX_ONLINE},
    rows=(1, 2, 8),
    cols=(1, 300, 1100),
)

# %% [markdown]
# ## NaN in rows that start with minus infinity
#
# Now break the kernel. Without the test `x > -INFINITY`, it's still correct for rows of finite elements. But a thread
# whose first element is $-\infty$ computes $-\infty - (-\infty)$, which is NaN, and the whole row is lost. Masked
# attention has such rows. Of {{ nan.rows }} test rows, {{ nan.lost }} come out as NaN, and no sanitizer reports it,
# since every access is legal.
# %%
UNGUARDED = Kernel(r"""
// Wrong on purpose: one warp per row, without the test for minus infinity.
extern "C" __global__
void softmax_of_a_warp(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    float m = -INFINITY, z = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        float x = X[c];
        if (x > m) {
            z *= expf(m - x);
            m = x;
        }
        z += expf(x - m);  // hazard: minus infinity minus itself
    }
    float row_max = m;
    for (int h = 16; h > 0; h /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, h));
    z *= expf(m - row_max);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    for (int c = threadIdx.x; c < cols; c += 32) Y[c] = expf(X[c] - row_max) / z;
}
""")

# %% fold="Code of the check"
lost = rows_case(5, 1003, X=difficult(1003)).make()
UNGUARDED.simulate(lost["X"], lost["Y"], 1003, grid=5, block=32)
lost_rows = np.isnan(lost["Y"]).any(axis=1)
check(
    lost_rows,
    np.isinf(lost["X"][:, :32]).any(axis=1),
    name="NaN exactly in the rows where some thread's first element is minus infinity",
)
publish(nan={"rows": len(lost_rows), "lost": int(lost_rows.sum())})

# %% [markdown]
# ## Fused softmax: the row stays in registers
#
# The last pass reads the row again only because the kernel didn't keep it. Instead, let each thread keep its part of
# the row in registers until the sum is known. Then the row is read once and written once.
#
# How many threads share a row depends on its length. With 32 elements per thread, a row of 256 takes 8 threads, so each
# warp handles several rows. A row of 4,096 takes 128 threads. A row of 131,072 would take 4,096, more than a block can
# have.


# %% tab="Pseudocode"
def softmax_on_chip(X, Y, share):
    for r in parallel(len(X)):
        row = np.array(X[r], dtype=np.float64)
        # [pairs
        shares = [row[first:][:share] for first in range(0, len(row), share)]
        tops = [max(own) for own in shares]
        e = [np.exp(own - max(top, -3e38)) for own, top in zip(shares, tops, strict=True)]
        # pairs]
        # [all
        m = max(row) if max(row) > -np.inf else 0.0
        z = sum(sum(own) * np.exp(top - m) for own, top in zip(e, tops, strict=True))
        # all]
        # [write
        factors = [np.exp(top - m) / z if z > 0 else 0.0 for top in tops]
        Y[r] = np.concatenate([own * f for own, f in zip(e, factors, strict=True)])
        # write]


# %% tab="CUDA C"
ON_CHIP = Kernel(
    r"""
#include <cuda_bf16.h>
#define VEC (16 / (int)sizeof(Number))              // elements per 16 bytes
#define CHUNKS (SHARE / VEC)                          // 16-byte chunks per thread
#define ROWS (THREADS / TEAM)                       // rows per block
#define LOG2E 1.44269504f                           // log2(e)

struct Pair { float m, z; };  // a maximum times LOG2E; a sum relative to it

// Combines the pairs of this many neighbouring lanes; each of them gets the result.
__device__ Pair warp_reduce(Pair own, int lanes) {
    float m = own.m;
    for (int h = lanes / 2; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * exp2f(own.m - m);
    for (int h = lanes / 2; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// 16 bytes of a row from column c, one element at a time; minus infinity past its end.
__device__ uint4 load_chunk(const Number* x, int c, int cols) {
    uint4 chunk;
    Number* part = (Number*)&chunk;
    for (int k = 0; k < VEC; ++k) part[k] = c + k < cols ? x[c + k] : (Number)(-INFINITY);
    return chunk;
}

__device__ uint4 pack(const float* e, float factor) {
    uint4 chunk;
    Number* part = (Number*)&chunk;
    for (int k = 0; k < VEC; ++k) part[k] = (Number)(e[k] * factor);
    return chunk;
}

// Y = softmax of each row of X, both row-major [rows][cols]; Number is float or __nv_bfloat16.
// TEAM threads share a row and hold SHARE elements each: cols <= TEAM * SHARE. TEAM is a power of
// two; up to 32 it divides THREADS, beyond 32 it equals THREADS. SHARE is a multiple of VEC.
// X and Y are 16-byte aligned. Any cols; 16-byte accesses need cols % VEC == 0.
// Launch ceil(rows / ROWS) blocks of THREADS threads.
extern "C" __global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Number* X, Number* Y, int rows, int cols) {
    int t = threadIdx.x % TEAM, row = blockIdx.x * ROWS + threadIdx.x / TEAM;
    if (row >= rows) return;
    X += (long long)row * cols;
    Y += (long long)row * cols;
    // [pairs
    const int stride = TEAM * VEC;
    const uint4 nothing = load_chunk(X, cols, cols);
    uint4 chunk[CHUNKS];
    t *= VEC;
    if (cols % VEC == 0) {  // every row is 16-byte aligned
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            chunk[k] = t + k * stride < cols ? *(const uint4*)(X + t + k * stride) : nothing;
    } else {
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k) chunk[k] = load_chunk(X, t + k * stride, cols);
    }
    float e[SHARE];
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = ((const Number*)&chunk[k / VEC])[k % VEC];
    Pair own = {-INFINITY, 0.0f};
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) own.m = fmaxf(own.m, e[k]);
    own.m *= LOG2E;
    float shift = own.m == -INFINITY ? 0.0f : own.m;
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) {
        e[k] = exp2f(fmaf(e[k], LOG2E, -shift));
        own.z += e[k];
    }
    // pairs]
    // [all
    Pair all = warp_reduce(own, TEAM < 32 ? TEAM : 32);
#if TEAM > 32
    __shared__ Pair warp_pairs[TEAM / 32];
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_pairs[threadIdx.x / 32] = all;
    __syncthreads();  // every warp has written its pair
    all = warp_reduce(lane < TEAM / 32 ? warp_pairs[lane] : Pair{-INFINITY, 0.0f}, 32);
#endif
    // all]
    // [write
    float factor = all.z > 0.0f ? exp2f(own.m - all.m) / all.z : 0.0f;
    if (cols % VEC == 0) {
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            if (t + k * stride < cols) *(uint4*)(Y + t + k * stride) = pack(e + k * VEC, factor);
    } else {
        #pragma unroll
        for (int k = 0; k < SHARE; ++k) {
            int c = t + k / VEC * stride + k % VEC;
            if (c < cols) Y[c] = (Number)(e[k] * factor);
        }
    }
    // write]
}
""",
    defines={"Number": "float", "TEAM": 8, "THREADS": 64, "SHARE": 8},
    options=("-std=c++17",),
)


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def softmax_of_row(X, Y, cols, WIDTH: tl.constexpr):
    c = tl.arange(0, WIDTH)  # a power of two, as Triton's vectors are
    row = tl.program_id(0) * cols
    # [pairs
    x = tl.load(X + row + c, mask=c < cols, other=float("-inf"))
    # pairs]
    # [all
    m = tl.max(x)
    e = tl.exp(x - tl.where(m > float("-inf"), m, 0.0))
    z = tl.sum(e)
    # all]
    # [write
    tl.store(Y + row + c, e / tl.where(z > 0, z, 1.0), mask=c < cols)
    # write]


def softmax_triton(X, Y, rows, cols):
    softmax_of_row[(rows,)](X, Y, cols, WIDTH=triton.next_power_of_2(cols))


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def softmax_torch(X, Y):
    torch.softmax(X, dim=1, out=Y)  # NaN where every element is minus infinity


# %%
ON_CHIP.region("pairs")

# %%
ON_CHIP.region("all")

# %% [markdown]
# Three details keep the kernel short and fast:
#
# - Each thread takes exponentials relative to its own maximum right away. The correction for the row's maximum is
#   folded into the single factor by which the thread scales its results. So one reduction handles maximum and sum as a
#   pair.
# - If the row length is a multiple of 16 bytes, every access is 16 bytes wide, and neighbouring threads access
#   neighbouring chunks. The load loop does nothing but load, so all of a thread's loads are in flight before the first
#   is used.
# - The GPU has an instruction for powers of two, but none for powers of $e$. So the kernel computes
#   $2^{x \log_2 e - m \log_2 e}$, one multiply-add and one `exp2f`, which is cheaper than `expf`.

# %% [markdown]
# ## Long rows: one thread block cluster per row
#
# A row of 131,072 floats is 512 KiB. The registers of an SM hold 256 KiB, and its shared memory up to 227 KiB, so no
# single SM can hold the row. A [thread block cluster](../matmul/clusters.py#gpcs-where-a-cluster-fits) of up to 8 blocks
# can, or up to 16 if the host opts in. Each block keeps its part of the row, and the blocks exchange pairs $(m, z)$
# through distributed shared memory.
#
# The kernel [`softmax_long`](softmax_long.py) loads rows with the TMA's bulk copy, `cp.async.bulk`, so **the number of
# columns must be a multiple of 4 in FP32 and of 8 in BF16**.


# %% fold="Code of the checks"
from tilewise.kernels.from_lesson import from_lesson

(LONG,) = from_lesson("attention/softmax_long", "LONG")


def on_chip(number, team, threads, share):
    """The kernel in which `team` threads share a row."""
    sizes = {"TEAM": team, "THREADS": threads, "SHARE": share}
    return Kernel(ON_CHIP.source, defines={"Number": number, **sizes}, options=ON_CHIP.options)


def long_rows(number, threads, share, blocks, slots=1, at_once=1, lag=0):
    """The kernel in which a cluster of blocks shares a row, with this many rows prefetched."""
    sizes = {"THREADS": threads, "SHARE": share, "BLOCKS": blocks}
    turns = {"SLOTS": slots, "AT_ONCE": at_once, "LAG": lag}
    return Kernel(LONG.source, defines={"Number": number, **sizes, **turns}, options=LONG.options)


def arrays_of(rows, cols, dtype="float32", spread=3.0, X=None):
    x = normal(rows, cols, dtype=dtype, scale=spread) if X is None else X
    results = {name: output(rows, cols, dtype=dtype) for name in "ZY"}
    return {"X": x, **results, "rows": rows, "cols": cols, "n": rows * cols}


def shared_by(kernel, rows, cols, dtype="float32", **more):
    """A launch of the fused kernel."""
    sizes = kernel.defines
    grid = ceil_div(rows, sizes["THREADS"] // sizes["TEAM"])
    made = case(**arrays_of(rows, cols, dtype, **more), share=sizes["SHARE"])
    return kernel.on(made, grid=grid, block=sizes["THREADS"])


def in_clusters(kernel, clusters, rows, cols, dtype="float32", **more):
    """A launch of this many persistent clusters."""
    sizes = kernel.defines
    clusters = min(clusters, rows)
    made = case(
        **arrays_of(rows, cols, dtype, **more), clusters=clusters, slots=sizes["SLOTS"], share=sizes["SHARE"]
    )
    shared = sizes["SLOTS"] * sizes["THREADS"] * sizes["SHARE"] * (4 if dtype == "float32" else 2)
    return kernel.on(made, grid=clusters * sizes["BLOCKS"], block=sizes["THREADS"], shared_bytes=shared)


TWO_WARPS = on_chip("float", 64, 64, 8)
ONE_BLOCK_BF16 = on_chip("__nv_bfloat16", 64, 64, 16)
for kernel, columns in ((ON_CHIP, (49, 64)), (TWO_WARPS, (512, 393))):
    launches = [shared_by(kernel, 5, cols) for cols in columns]
    launches.append(shared_by(kernel, 5, columns[1], X=difficult(columns[1])))
    agree(softmax_on_chip, kernel, [as_case(one) for one in launches], rtol=2e-5, atol=1e-7)
awkward = [as_case(shared_by(ON_CHIP, 5, cols)) for cols in (49, 61)]
hard = as_case(shared_by(ON_CHIP, 5, 64, X=difficult(64)))
agree(softmax_triton, ON_CHIP, [*awkward, hard], rtol=2e-5, atol=1e-7, by="Triton")
agree(softmax_torch, ON_CHIP, awkward, rtol=2e-5, atol=1e-7, by="PyTorch")
got = shared_by(TWO_WARPS, 5, 509, X=difficult(509)).run()
check(got["Y"], right(got["X"]), rtol=2e-5, atol=1e-9, name="on chip against 64-bit NumPy")

# %% [markdown]
# In BF16, only the loads and stores are narrow; sums and exponentials stay in FP32.
# %% fold="Code of the check"
from tilewise import bf16

launch = shared_by(ONE_BLOCK_BF16, 5, 1000, dtype="bfloat16")
got = launch.run()
expected = bf16.bits(right(bf16.values(got["X"])).astype(np.float32))
check(
    np.abs(got["Y"].astype(int) - expected).max(),
    1,
    atol=1,
    name="BF16 results, in units in the last place",
)
check(
    (got["Y"] != expected).mean(), 0, atol=0.01, name="BF16 results that differ from the rounded exact ones"
)

# %% [markdown]
# ## Lower bound: one read and one write
#
# The simulator counts 32-byte sectors, the unit of memory traffic. One sector holds eight floats. So for every eight
# elements, any softmax must read at least one sector and write one.
# %% fold="Code of the prediction"
from tilewise.models import bound, bytes_in_flight, device, stated

H100 = device("H100 SXM")
VALUES = 2**24


def plan(cols, share):
    """Threads that share a row, and threads per block."""
    team = 2 ** (ceil_div(cols, share) - 1).bit_length()
    return team, team if team > 32 else 128


def planned(number, share, cols):
    """The fused kernel for rows of this length, with `share` elements per thread."""
    team, threads = plan(cols, share)
    return on_chip(number, team, threads, share)


AT_ONCE = {  # by threads per block and blocks per cluster: the clusters that an H100 runs at once
    256: {2: 198, 4: 92, 8: 45},
    128: {4: 186, 8: 92, 16: 42},
}
CYCLES = {"float": 3400, "__nv_bfloat16": 6800}  # of the staggered start


def planned_long(number, cols, threads, in_turn=False):
    """The cluster kernel with 64 elements per thread, and how many clusters to launch."""
    blocks = ceil_div(cols, 64 * threads)
    at_once = 768 // threads  # blocks per SM, so at most 80 registers per thread
    lag = CYCLES[number] // at_once if in_turn else 0
    return long_rows(number, threads, 64, blocks, 1, at_once, lag), AT_ONCE[threads][blocks]


def of_memory(moved):
    """Microseconds to move this many bytes at peak bandwidth."""
    return bound(stated(H100), bytes_moved=moved, flop=0).time_us


LABELS = {"three": "three passes", "online": "two passes, online", "on_chip": "on chip"}
rows, traffic = [], {}
for name, launch in {
    "three": SOFTMAX_THREE.on(rows_case(4, 1024)),
    "online": SOFTMAX_ONLINE.on(rows_case(4, 1024)),
    "on_chip": shared_by(planned("float", 32, 1024), 4, 1024),
}.items():
    counts = launch.simulate().counts
    reads = counts.global_load.sectors / (4 * 1024 / 8)
    writes = counts.global_store.sectors / (4 * 1024 / 8)
    each = 32 * counts.issued / (4 * 1024)
    traffic[name] = {"reads": reads, "writes": writes, "all": reads + writes, "instructions": each}
    issue_us = VALUES * each / 32 / 4 / H100.sms / H100.boost_mhz
    rows.append([LABELS[name], reads + writes, of_memory(4 * VALUES * (reads + writes)), each, issue_us])
check([one["all"] for one in traffic.values()], [4, 3, 2], name="sectors per eight elements of a row")
show(
    Table(
        ["version", "sectors per 8 elements", "time if all from memory, µs", "instructions per element"],
        [[row[0].replace("on chip", "fused"), *row[1:4]] for row in rows],
        caption="Sectors and PTX instructions counted by the simulator in rows of 1,024 floats, and the time to move the sectors for 16,777,216 elements at an H100's peak memory bandwidth (data sheet).",
    )
)
publish(
    traffic=traffic,
    predicted={
        "memory_us": of_memory(8 * VALUES),
        "three_times": traffic["three"]["all"] / traffic["on_chip"]["all"],
        "two_times": traffic["online"]["all"] / traffic["on_chip"]["all"],
    },
)

# %% [markdown]
# The last row, {{ predicted.memory_us | us }}, is a lower bound for any softmax of this size. The times above it
# aren't, because repeated reads may hit in a cache. A row of 4,096 floats is 16 KiB, so the block that reads it again
# finds it in L1. If the rows no longer fit in a cache, three passes should take up to
# {{ predicted.three_times | .0f }}× the fused kernel's time. Do the repeated reads of a 16,384-element row still hit in
# L1? Guess before you look.

# %% fold="Code of the measurement"
from tilewise import Guess, measure

COPY = Kernel(r"""
extern "C" __global__
void copy(const float4* X, float4* Z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) Z[i] = X[i];
}
""")
COPY_BF16 = Kernel(r"""
#include <cuda_bf16.h>
extern "C" __global__
void copy(const __nv_bfloat16* X, __nv_bfloat16* Z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 8) ((uint4*)Z)[i] = ((const uint4*)X)[i];
}
""")


def copied(kernel, rows, cols, dtype, per):
    arrays = {name: output(rows, cols, dtype=dtype) for name in "ZY"}
    x = normal(rows, cols, dtype=dtype, scale=3.0)
    return kernel.on(case(X=x, **arrays, n=rows * cols, grid=ceil_div(rows * cols, 256 * per), block=256))


NAMES = {"float": "float32", "__nv_bfloat16": "bfloat16"}


def by_share(number, share):
    return lambda rows, cols: shared_by(planned(number, share, cols), rows, cols, NAMES[number])


def both_answers(X):
    """The expected results of the kernels and of the copy."""
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return {"Y": e / e.sum(axis=1, keepdims=True), "Z": X}


def torch_softmax(arrays):
    import torch

    X, Y = (torch.as_tensor(arrays[name], device="cuda") for name in ("X", "Y"))
    return lambda: torch.softmax(X, dim=-1, out=Y) is None


def of_lengths(*lengths):
    """The sizes to time: rows of these lengths."""
    return [{"rows": VALUES // cols, "cols": cols} for cols in lengths]


COPY_ROW = {"a copy": lambda rows, cols: copied(COPY, rows, cols, "float32", 4)}
COPY_ROW_BF16 = {"a copy": lambda rows, cols: copied(COPY_BF16, rows, cols, "bfloat16", 8)}
PASSES_ROWS = {
    "three-pass": lambda rows, cols: SOFTMAX_THREE.on(rows_case(rows, cols)),
    "online, two-pass": lambda rows, cols: SOFTMAX_ONLINE.on(rows_case(rows, cols)),
}


def shares_of(number):
    return {f"fused, {share} elements per thread": by_share(number, share) for share in (16, 32, 64)}


def with_expf(number):
    """The fused kernel with 32 elements per thread and `expf` instead of powers of two."""
    expf = ("exp2f(fmaf(e[k], LOG2E, -shift))", "expf(e[k] - shift / LOG2E)")

    def launch(rows, cols):
        return shared_by(edited(planned(number, 32, cols), expf), rows, cols, NAMES[number])

    return launch


timed = measure(
    "softmax_rows",
    variants={**PASSES_ROWS, **shares_of("float"), "fused, expf": with_expf("float"), **COPY_ROW},
    cases=of_lengths(256, 1024, 4096, 16384),
    count_case={"rows": 4, "cols": 1024},
    bytes=lambda rows, cols: 8 * rows * cols,
    library={"torch.softmax": torch_softmax},
    reference=both_answers,
    tolerance=1e-6,
    reasons={"*": "The cost of each pass"},
    fold="All 32 rows",
    guess=Guess(
        "Rows of 16,384 floats: how much longer does three-pass softmax take than the fused kernel?",
        of="fused, 32 elements per thread",
        over="three-pass",
        at={"rows": VALUES // 16384, "cols": 16384},
        between=(0.5, 10),
        models={"sectors, all from memory": 2.0, "sectors, repeats from a cache": 1.0},
        because="The sector count covers all requests; how many of them reach memory depends on the caches.",
    ),
)


# %% fold="Code of the measurement"
def torch_softmax_bf16(arrays):
    import torch

    X, Y = (
        torch.as_tensor(arrays[name].view("int16"), device="cuda").view(torch.bfloat16) for name in ("X", "Y")
    )
    return lambda: torch.softmax(X, dim=-1, out=Y) is None


timed_bf16 = measure(
    "softmax_rows_bf16",
    variants={
        **shares_of("__nv_bfloat16"),
        "fused, expf": with_expf("__nv_bfloat16"),
        **COPY_ROW_BF16,
    },
    cases=of_lengths(256, 4096, 16384),
    count_case={"rows": 4, "cols": 1024},
    bytes=lambda rows, cols: 4 * rows * cols,
    library={"torch.softmax": torch_softmax_bf16},
    reference=both_answers,
    tolerance=4e-3,
    reasons={"*": "The cost of each pass"},
    fold="All 18 rows in BF16",
)

# %% [markdown]
# ## The cost of each pass


# %% fold="Code of the figure"
from tilewise.measurements import memory_latency_ns

SHARES = list(shares_of("float"))
FUSED, LENGTHS = SHARES[1], (32768, 65536, 131072)
CLUSTERED = "next row prefetched, blocks of 128"
us, us_bf16 = Numbers(medians_us(timed, "cols")), Numbers(medians_us(timed_bf16, "cols"))
for label in ("three-pass", "online, two-pass", CLUSTERED, "a copy", "torch.softmax"):
    for cols in LENGTHS:
        row = f"{name_slug(label)}.rows_{VALUES // cols}_cols_{cols}"
        us[label, cols] = recorded(f"softmax_long_rows.{row}.median")
LINES = (
    ("fused, in registers", FUSED, "write"),
    ("fused, in a cluster", CLUSTERED, "tile"),
    ("torch.softmax", "torch.softmax", "measured"),
    ("online, two-pass", "online, two-pass", "block"),
    ("three-pass", "three-pass", "read"),
)


def of_copy(label):
    """Columns, and the throughput relative to a copy's, of one version."""
    lengths = sorted(cols for variant, cols in us if variant == label)
    return lengths, [us["a copy", cols] / us[label, cols] for cols in lengths]


if complete(*us.values()):
    fused = [value for label in (FUSED, CLUSTERED) for value in of_copy(label)[1]]
    assert min(fused) > 0.9, "the title says that the fused kernel keeps up with a copy"
    assert max(us["a copy", cols] / us["three-pass", cols] for cols in (256, *LENGTHS)) < 0.5
    assert us["online, two-pass", 131072] > 0.98 * us["three-pass", 131072], "the text says: no faster"
    assert us["three-pass", 4096] < us["torch.softmax", 4096], "the lead says: over long rows"
    assert us["three-pass", 131072] > 3 * us["torch.softmax", 131072], "the lead says: over long rows"
    show(
        line_chart(
            [Series(name, *of_copy(label), role=role) for name, label, role in LINES],
            x="columns per row",
            y="throughput, copy = 1",
            log_x=True,
            y_range=(0, 1.1),
            marks=[Mark("copy", y=1.0)],
            title="Only fused softmax keeps up with a copy at every length",
            caption="Softmax of 16,777,216 floats on an {machine}, by row length: the time of a copy of the same bytes divided by the time of softmax. 32 elements per thread in registers, 64 in clusters.",
        )
    )
GPU = recorded_device()
publish(
    hook={
        "machine": GPU.name.split()[0],
        "copy_us": us["a copy", 4096],
        "torch_us": us["torch.softmax", 4096],
    },
    passes={
        "three_4096": us["three-pass", 4096] / us[FUSED, 4096],
        "three_16384": us["three-pass", 16384] / us[FUSED, 16384],
        "two_16384": us["online, two-pass", 16384] / us[FUSED, 16384],
        "three_131072": us["three-pass", 131072] / us[CLUSTERED, 131072],
    },
    three_us={"at_131072": us["three-pass", 131072]},
    fused={
        "least": min(
            *(us["a copy", cols] / us[FUSED, cols] for cols in (256, 1024, 4096, 16384)),
            *(us_bf16["a copy", cols] / us_bf16[FUSED, cols] for cols in (256, 4096, 16384)),
        ),
        "long": us["a copy", 131072] / us[CLUSTERED, 131072],
        "torch": min(us["a copy", cols] / us["torch.softmax", cols] for _, cols in us),
        "expf_bf16": max(us_bf16["fused, expf", cols] / us_bf16[FUSED, cols] for cols in (256, 4096, 16384))
        - 1,
        "expf": max(us["fused, expf", cols] / us[FUSED, cols] for cols in (256, 1024, 4096, 16384)) - 1,
    },
    resident={"needed_kb": bytes_in_flight(GPU.memory_gb_per_s, memory_latency_ns()) / GPU.sms / 1000},
)

# %% fold="Code of the table"
rows = []
for cols in (4096, 16384, 131072):
    version = FUSED if cols <= 16384 else CLUSTERED
    rows.append(
        [
            cols,
            *(us[label, cols] for label in ("three-pass", "online, two-pass", version)),
            us["a copy", cols],
            us["torch.softmax", cols],
        ]
    )
if complete(*us.values()):
    show(
        Table(
            ["columns", "three-pass, µs", "online, µs", "fused, µs", "copy, µs", "torch, µs"],
            rows,
            caption="Softmax of 16,777,216 floats on an {machine}, by row length. Beyond 16,384 columns a cluster shares each row.",
        )
    )

# %% fold="Code that profiles softmax on a GPU" needs="gpu" record="counters"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def three_softmaxes():
        """Calls of the three-pass, the online and the fused kernel on rows of 4,096 and 16,384."""
        calls = Calls()
        for cols in (4096, 16384):
            for label, made in (*PASSES_ROWS.items(), ("fused", shares_of("float")[FUSED])):
                calls.add(f"{label}, {cols} columns", made(VALUES // cols, cols))
        return calls.by_label

    print(table_of(profiled("attention/softmax", "counters", three_softmaxes)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import printed_profiles

LONG_ROWS = {  # recorded on an H200
    name: printed_profiles("attention/softmax", "counters")[f"{label}, 16384 columns"]
    for name, label in (("three", "three-pass"), ("two", "online, two-pass"), ("fused", "fused"))
}
in_dram = {
    name: one["dram__bytes_read.sum"] + one["dram__bytes_write.sum"] for name, one in LONG_ROWS.items()
}
dram_rate = {
    name: one["dram__throughput.avg.pct_of_peak_sustained_elapsed"] / 100 for name, one in LONG_ROWS.items()
}
took = {name: one["gpu__time_duration.sum"] for name, one in LONG_ROWS.items()}
for name in ("three", "two"):
    by_both = in_dram[name] / in_dram["fused"] * dram_rate["fused"] / dram_rate[name]
    assert not abs(took[name] / took["fused"] / by_both - 1) > 0.05, (
        "the text: bytes and rate explain the time"
    )
assert not max(dram_rate["three"], dram_rate["two"]) > dram_rate["fused"], "the text: a smaller fraction"
publish(moved={name: in_dram[name] / in_dram["fused"] for name in ("three", "two")})

# %% [markdown]
# With rows of up to 4,096 elements, the repeated reads hit in L1: 8 resident blocks of 256 threads need 128 KiB for
# their rows, and L1 has up to 256 KiB. Three passes then cost instructions, not traffic, and take
# {{ passes.three_4096 | .2f }}× the fused kernel's time. Online softmax has no advantage here, because the read that it
# saves would have been a cache hit.
#
# With rows of 16,384, those blocks need 512 KiB, and all the rows in flight, 67 MB in total, don't fit in the 50 MiB of
# L2 either. Three-pass softmax takes {{ passes.three_16384 | .1f }}× the time of the fused kernel, and online softmax
# {{ passes.two_16384 | .1f }}×. Sector counts alone would give {{ predicted.three_times | .0f }}× and
# {{ predicted.two_times | .1f }}×, so something else slows these kernels down.
#
# We profiled the kernels on an H200 and found two reasons. Part of the output stays in L2, so reads make up more of the
# DRAM traffic: three passes move {{ moved.three | .1f }}× as many DRAM bytes as the fused kernel, and online softmax
# {{ moved.two | .1f }}×. Both also use a smaller fraction of the peak DRAM bandwidth than the fused kernel does.
#
# At 131,072 columns, the sector model fails altogether: three passes take {{ passes.three_131072 | .1f }}× the time of
# the cluster version, and online softmax is no faster, although it makes one fewer pass over each row. The problem is a
# lack of parallelism. With one block per row, there are only 128 blocks, and each SM that has one holds only 8 warps, of
# a possible 64. With one outstanding 4-byte load per lane, these warps have 1 kB in flight. To reach the peak memory
# bandwidth, [Little's law](../speed/occupancy.py#littles-law-bytes-in-flight) requires
# {{ resident.needed_kb | .0f }} kB per SM.
#
# Up to 16,384 columns, the fused kernel reaches at least {{ fused.least | .0% }} of the copy's throughput, in FP32 and
# in BF16. The cluster version reaches {{ fused.long | .0% }} at 131,072 columns in FP32; `torch.softmax` falls to
# {{ fused.torch | .0% }}.

# %% [markdown]
# Is the fused result as accurate as PyTorch's? The next cell, recorded on a GPU, compares both with FP64.

# %% fold="Code that compares errors on a GPU" needs="gpu" record="errors"
from tilewise import gpu_here

if gpu_here():
    import cupy
    import torch

    generator = cupy.random.default_rng(5)
    for cols in (4096, 131072):
        for name in ("normal numbers", "thirty times as large", "half a row of minus infinity"):
            X = generator.standard_normal((64, cols), dtype=cupy.float32)
            X *= 30 if name.startswith("thirty") else 1
            if name.startswith("half"):
                X[:, cols // 2 :] = -np.inf
            Y = cupy.full_like(X, np.nan)
            if cols > 16384:
                launch = in_clusters(*planned_long("float", cols, 256), 64, cols)
            else:
                launch = shared_by(planned("float", 32, cols), 64, cols)
            launch.kernel(
                X, Y, 64, cols, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes
            )
            wide = torch.as_tensor(X, device="cuda")
            exact = torch.softmax(wide.double(), dim=-1)
            own = (torch.as_tensor(Y, device="cuda").double() - exact).abs().max().item()
            theirs = (torch.softmax(wide, dim=-1).double() - exact).abs().max().item()
            print(f"{cols} columns, {name}: off by {own:.3g}, torch by {theirs:.3g}")

# %% fold="Code of the numbers"
publish(errors=printed_errors("attention/softmax", "torch"))

# %% [markdown]
# On elements of large magnitude, our largest absolute error is {{ errors.most | .1e }}, and PyTorch's is
# {{ errors.other | .1e }}. On normally distributed elements, both errors are much smaller, and ours is up to
# {{ errors.worst_times | .1f }}× PyTorch's. A likely cause is `exp2f`, whose error can be two units in the last place. In
# return, it saves up to {{ fused.expf | .0%}} of the time in FP32 and {{ fused.expf_bf16 | .0%}} in BF16, where the same
# instructions overlap with only half as much memory traffic.

# %% [markdown]
# ## Takeaways
#
# - Online softmax merges two passes: when the maximum grows, one factor rescales the sum. Pairs of maximum and sum
#   combine in any grouping, across lanes, warps and blocks.
# - A row whose elements so far are all $-\infty$ needs a guard, or the result is NaN.
# - A softmax that keeps its row in registers reads once and writes once, and runs at the speed of a copy. If no SM can
#   hold a row, a cluster of SMs can.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, compare `dram__bytes_read.sum` with the size of the input: a factor of two or three means that
# the kernel rereads its rows from memory. Keep the row in registers or shared memory, and use 16-byte loads.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "Combine two pairs",
    """
    One lane ends with the pair $(m, z)$ = (3, 1.5), another with (1, 4), and a third has seen only $-\\infty$. What is the
    pair of all three, and where could a NaN come from?
    """,
    explanation="The largest maximum is 3, so the second sum is multiplied by $e^{1 - 3}$: z = 1.5 + 4 · 0.135 = 2.04. The third lane has the pair $(-\\infty, 0)$ and adds 0 · $e^{-\\infty - 3}$ = 0. But if no lane has seen a finite element, the exponent is $-\\infty - (-\\infty)$, which is NaN: that case needs a guard.",
)

# %% [markdown]
# In attention, one GEMM produces the input of softmax and another consumes its output. With online softmax, neither has
# to wait for the whole row. The [next lesson](flash_forward.py) builds FlashAttention on this property. To practise the
# step that combines two pairs, solve [its puzzle](puzzles.py#the-online-softmax-step).
