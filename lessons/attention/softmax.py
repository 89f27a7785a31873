# ---
# title: Softmax in one read
# needs: [kernels/serial_attention, memory/precision, memory/fusion, memory/reductions, matmul/hopper]
# summary: "A row needs its maximum before its sum and its sum before its results. How often must it be read?"
# description: "Softmax in three passes, online in two, and with the row on chip in one; rows of 256 to 131,072 columns."
# date: 2026-11-21
# tags: [softmax, online softmax, clusters]
# ---

# %% [markdown]
# Softmax needs the maximum of a row before it can add up exponentials, and their sum before it can
# divide. Written down plainly that reads each number {{ traffic.three.reads | .0f }} times and
# writes it once. Reading it once would take half of the traffic. Does that work for a row of 256
# numbers and for one of 131,072, which at half a megabyte is larger than anything that one SM has?

# %% [markdown]
# ## Three passes
#
# $$y_c = \frac{e^{x_c - m}}{z}, \qquad m = \max_c x_c, \qquad z = \sum_c e^{x_c - m}$$
#
# $x$ is a row of numbers and $y$ its softmax; $c$ counts columns. The sum $z$ is the normaliser.
# Subtracting $m$ cancels on paper. In a float it is what keeps the exponentials at or below 1, and
# since the largest of them is $e^0 = 1$, $z$ is never below 1 either. That form is called stable.
#
# ??? definition "Stable softmax"
#     Softmax with the row's maximum subtracted from every number first, so that no exponential
#     overflows and the sum is at least 1.
#
# ??? definition "Normaliser | normalisers"
#     The sum of exponentials by which softmax divides, taken relative to a maximum.

# %% [markdown]
# A block takes one row, and each of its threads every {{ threads.block }}th number. A maximum and a
# sum over the block are put together in two steps: the lanes of a warp exchange numbers by
# `__shfl_xor_sync`, which hands a register to the lane whose number differs in one bit, and the
# warps leave their results in shared memory. `together` does the first, `of_block` both.


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

// The pairs of all lanes of a warp as one, in each of them.
__device__ Pair together(Pair own) {
    float m = own.m;
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * expf(own.m - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// The pairs of all threads of the block as one, in each of them.
__device__ Pair of_block(Pair own) {
    __shared__ Pair box[THREADS / 32];
    int lane = threadIdx.x % 32;
    own = together(own);
    __syncthreads();  // nobody reads the box of a call before
    if (lane == 0) box[threadIdx.x / 32] = own;
    __syncthreads();  // every warp's pair is in the box
    return together(lane < THREADS / 32 ? box[lane] : Pair{-INFINITY, 0.0f});
}

extern "C" __global__
void softmax_three(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    // [maximum
    float m = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += THREADS) m = fmaxf(m, X[c]);
    m = of_block({m, 0.0f}).m;
    // maximum]
    if (m == -INFINITY) m = 0.0f;  // a row of nothing but minus infinity
    // [sum
    float z = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) z += expf(X[c] - m);
    z = of_block({m, z}).z;
    // sum]
    // [results
    float factor = z > 0.0f ? 1.0f / z : 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = expf(X[c] - m) * factor;
    // results]
}

extern "C" __global__
void softmax_online(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    // New: one walk finds both; a new maximum shrinks the old sum
    Pair own = {-INFINITY, 0.0f};
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        float x = X[c];
        if (x > own.m) {
            own.z *= expf(own.m - x);
            own.m = x;
        }
        if (x > -INFINITY) own.z += expf(x - own.m);
    }
    Pair all = of_block(own);
    float factor = all.z > 0.0f ? 1.0f / all.z : 0.0f;
    if (all.m == -INFINITY) all.m = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = expf(X[c] - all.m) * factor;
}
"""
SOFTMAX_THREE = Kernel(PASSES, "softmax_three")


# %% tab="Numba" needs="numba"
import math

import numpy as np

from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit(device=True)
def of_block_numba(own, by_sum):
    """The numbers of all threads of the block as one: their sum or their maximum."""
    box = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    cuda.syncthreads()  # nobody reads the box of a call before
    box[t] = own
    h = cuda.blockDim.x // 2
    while h > 0:  # a tree: Numba's simulator has no shuffles
        cuda.syncthreads()
        if t < h and by_sum:
            box[t] += box[t + h]
        elif t < h and box[t + h] > box[t]:
            box[t] = box[t + h]
        h //= 2
    cuda.syncthreads()
    return box[0]


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
        m = np.float32(0)  # a row of nothing but minus infinity
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


# %% [markdown]
# What should a row give in which every number is $-\infty$, as when all keys of a query are masked?
# The formula says $0/0$. torch answers NaN; here such a row becomes zeros, since a NaN in one row
# of a model spreads to everything after it. That is what the tests for $-\infty$ are for.

# %% [markdown]
# ## Two passes: the sum follows the maximum
#
# The first two walks can be one. Keep a maximum $m$ and a sum $z$ of what has come so far. When a
# larger number comes, everything added until now was relative to the wrong maximum, by the same
# factor, so one multiplication repairs it:
#
# $$m' = \max(m, x), \qquad z' = z\,e^{m - m'} + e^{x - m'}$$
#
# ??? definition "Online softmax"
#     Finding a row's maximum and sum of exponentials in one walk, rescaling the sum whenever the
#     maximum grows.
#
# ??? question "How can a softmax be computed piece by piece?"
#     With two numbers for each row: $m$, the largest number so far, and $z$, the sum of the
#     exponentials $e^{x - m}$ so far. A new number may raise the maximum to $m'$. Everything summed
#     before was measured from the old one, and a single factor repairs all of it: $z$ becomes
#     $z\,e^{m - m'}$, and then the new term is added. After the last number both are what two passes
#     would have found, up to rounding. In attention the weighted sum of value rows fades by the same
#     factor, so it can be carried along.


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

# %% [markdown]
# Step through a row of eight. Whenever $m$ rises, $z$ is multiplied by a factor below 1; otherwise a
# number only adds. At the end both are what two walks would have found, up to rounding.

# %% fold="Code of the figure"
from tilewise import Table, agree, case, ceil_div, check, normal, output, publish, show
from tilewise.figures import Mark, Series, Span, State, bars, line_chart, stepped, timeline
from tilewise.kernel.chains import as_case
from tilewise.kernel.edits import edited
from tilewise.measurements import Numbers, complete, medians_us, printed_errors, printed_rows, recorded_device

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
    said = (
        f"{x:g} is a new maximum: the old sum is multiplied by {factor:.3g}" if factor < 1 else f"{x:g} adds"
    )
    states.append(
        State(
            f"{said}, and z is {z:.3f}.",
            line=2 if factor < 1 else 4,
            values={"m": m, "factor": factor, "z": z},
            arrays={"x": ROW},
            reads={"x": [c]},
        )
    )
check([m, z], [ROW.max(), np.exp(ROW - ROW.max()).sum()], rtol=1e-12, name="one walk against two")
show(
    stepped(
        states,
        source="\n".join(ONLINE),
        language="python",
        title="A new maximum shrinks the sum so far; nothing is read again",
        caption="The online walk over a row of eight numbers: maximum, factor and sum after each of them. Computed by the pseudocode's lines.",
    )
)

# %% [markdown]
# Threads walk over different numbers and end with different pairs $(m, z)$. The same rule combines
# two of them, and since it may be grouped at will, so can all: first the lanes of a warp, then the
# warps, then, further down, blocks. An operation with that property is called associative.
#
# ??? definition "Associative"
#     Said of an operation whose result does not depend on how a chain of it is grouped: (a b) c is
#     a (b c).

# %% fold="Code of the checks"


def rows_case(rows, cols, spread=3.0, X=None):
    """Rows for one block each."""
    x = normal(rows, cols, scale=spread) if X is None else X
    arrays = {"X": x, "Z": output(rows, cols), "Y": output(rows, cols)}
    return case(**arrays, cols=cols, rows=rows, n=rows * cols, grid=rows, block=256)


def difficult(cols):
    """Rows that begin or end with minus infinity, one of nothing else, large and very large numbers."""
    X = np.random.default_rng(3).normal(size=(5, cols)).astype(np.float32)
    X[:2] *= 3000
    X[0, : cols // 2] = -np.inf
    X[1, cols // 3 :] = -np.inf
    X[2] = -np.inf
    X[3] *= 30
    X[4] *= 3000
    return X


def right(X):
    """Softmax by rows in 64-bit floats; zeros for a row without a finite number."""
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
# ## A NaN that only some rows have
#
# Leave out the second test, `x > -INFINITY`, and the kernel is right for every row whose numbers
# are finite. A thread whose first number is $-\infty$ computes $-\infty - (-\infty)$, which is NaN,
# and the row is lost. Masked attention makes such rows. No hazard is reported, since no access is
# out of place: of {{ nan.rows }} rows in the check, {{ nan.lost }} come out as NaN.

# %%
UNGUARDED = Kernel(r"""
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
        z += expf(x - m);  // hazard: minus infinity less itself
    }
    float top = m;
    for (int h = 16; h > 0; h /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, h));
    z *= expf(m - top);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    for (int c = threadIdx.x; c < cols; c += 32) Y[c] = expf(X[c] - top) / z;
}
""")

# %% fold="Code of the check"
lost = rows_case(5, 1003, X=difficult(1003)).make()
UNGUARDED.simulate(lost["X"], lost["Y"], 1003, grid=5, block=32)
lost_rows = np.isnan(lost["Y"]).any(axis=1)
check(
    lost_rows,
    np.isinf(lost["X"][:, :32]).any(axis=1),
    name="NaN in the rows of which some thread meets minus infinity first, and in no others",
)
publish(nan={"rows": len(lost_rows), "lost": int(lost_rows.sum())}, threads={"block": 256})

# %% [markdown]
# ## One pass: the row stays on chip
#
# The results can be computed from numbers that were never let go. Each thread keeps its share of
# the row in registers, so the row is read once and written once. Who shares a row depends on its
# length. With 32 numbers to a thread, a row of 256 takes {{ team.at_256 }} threads and a warp has
# several rows; a row of 4,096 takes {{ team.at_4096 }} threads; and a row of 131,072 takes
# {{ team.at_131072 | , }}, more than a block may have.[^registers]
#
# [^registers]: The registers of an SM hold 256 KB, its shared memory up to 227 KB. Such a row of
#     32-bit floats has 512 KB, so no choice within one SM would help.


# %% tab="Pseudocode"
def softmax_on_chip(X, Y, share):
    for r in parallel(len(X)):
        row = np.array(X[r], dtype=np.float64)
        # [pairs
        shares = [row[first:][:share] for first in range(0, len(row), share)]
        shifts = [max(own) if max(own) > -np.inf else 0.0 for own in shares]
        e = [np.exp(own - shift) for own, shift in zip(shares, shifts, strict=True)]
        # pairs]
        # [all
        m = max(row) if max(row) > -np.inf else 0.0
        z = sum(sum(own) * np.exp(shift - m) for own, shift in zip(e, shifts, strict=True))
        # all]
        # [write
        factors = [np.exp(shift - m) / z if z > 0 else 0.0 for shift in shifts]
        Y[r] = np.concatenate([own * f for own, f in zip(e, factors, strict=True)])
        # write]


# %% tab="CUDA C"
ON_CHIP = Kernel(
    r"""
#include <cuda_bf16.h>
#define PER (16 / (int)sizeof(Number))              // numbers in 16 bytes
#define HOLD (SHARE / PER)                          // such pieces a thread holds
#define ROWS (THREADS / TEAM)                       // rows of a block
#define LOG2E 1.44269504f                           // e is 2 to this power

struct Pair { float m, z; };  // a maximum, times LOG2E; a sum relative to it

// The pairs of neighbouring lanes, as many as given, as one in each of them.
__device__ Pair together(Pair own, int lanes) {
    float m = own.m;
    for (int h = lanes / 2; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * exp2f(own.m - m);
    for (int h = lanes / 2; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// 16 bytes of a row from column c on, number by number; minus infinity behind its end.
__device__ uint4 gather(const Number* x, int c, int cols) {
    uint4 piece;
    Number* part = (Number*)&piece;
    for (int k = 0; k < PER; ++k) part[k] = c + k < cols ? x[c + k] : (Number)(-INFINITY);
    return piece;
}

__device__ uint4 pack(const float* e, float factor) {
    uint4 piece;
    Number* part = (Number*)&piece;
    for (int k = 0; k < PER; ++k) part[k] = (Number)(e[k] * factor);
    return piece;
}

extern "C" __global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Number* X, Number* Y, int rows, int cols) {
    int t = threadIdx.x % TEAM, row = blockIdx.x * ROWS + threadIdx.x / TEAM;
    if (row >= rows) return;
    X += (long long)row * cols;
    Y += (long long)row * cols;
    // [pairs
    const int stride = TEAM * PER;
    const uint4 nothing = gather(X, cols, cols);
    uint4 piece[HOLD];
    t *= PER;
    if (cols % PER == 0) {  // every row begins at a multiple of 16 bytes
        #pragma unroll
        for (int k = 0; k < HOLD; ++k)
            piece[k] = t + k * stride < cols ? *(const uint4*)(X + t + k * stride) : nothing;
    } else {
        #pragma unroll
        for (int k = 0; k < HOLD; ++k) piece[k] = gather(X, t + k * stride, cols);
    }
    float e[SHARE];
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = ((const Number*)&piece[k / PER])[k % PER];
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
    Pair all = together(own, TEAM < 32 ? TEAM : 32);
#if TEAM > 32
    __shared__ Pair box[TEAM / 32];
    int lane = threadIdx.x % 32;
    if (lane == 0) box[threadIdx.x / 32] = all;
    __syncthreads();  // every warp's pair is in the box
    all = together(lane < TEAM / 32 ? box[lane] : Pair{-INFINITY, 0.0f}, 32);
#endif
    // all]
    // [write
    float factor = all.z > 0.0f ? exp2f(shift - all.m) / all.z : 0.0f;
    if (cols % PER == 0) {
        #pragma unroll
        for (int k = 0; k < HOLD; ++k)
            if (t + k * stride < cols) *(uint4*)(Y + t + k * stride) = pack(e + k * PER, factor);
    } else {
        #pragma unroll
        for (int k = 0; k < SHARE; ++k) {
            int c = t + k / PER * stride + k % PER;
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
    torch.softmax(X, dim=1, out=Y)  # NaN in a row of nothing but minus infinity


# %%
ON_CHIP.region("pairs")

# %%
ON_CHIP.region("all")

# %% [markdown]
# Two things keep it short. A thread takes its exponentials relative to its own maximum, at once,
# and the difference to the row's maximum goes into the one factor that its results are multiplied
# with anyway. So maximum and sum travel together as a pair, and one exchange does for both.[^three]
# And every access of a thread is 16 bytes wide, while neighbouring threads read neighbouring
# pieces. The loop that reads does nothing else, so that all pieces of a thread are on their way
# before the first of them is used. The \Triton tab says none of this: it names one vector, and a
# compiler shares it out among threads.
#
# [^three]: Often said: the online form exists to save the third pass over a row. Where the row
#     stays on chip nothing is walked twice, and what is left of the online form is its rule for
#     combining pairs. Where the rows do not fit, and that is what attention is about, it is all
#     there is.

# %% [markdown]
# A third thing keeps it cheap. The machine has an instruction for powers of two and none for powers
# of $e$. `expf` is made of several, which see to the ends of its range; but no exponent here is above
# 0. So the kernel takes $e^{x - m} = 2^{x \log_2 e - m \log_2 e}$, which is a multiply-add and `exp2f`,
# and its pairs carry $m \log_2 e$. The first kernels have kept `expf`; what it costs will be measured.

# %% [markdown]
# ## Rows longer than a block
#
# On an H100 up to eight blocks can be launched as a thread block cluster, sixteen where the host
# asks for it: they run at the same time, close to each other, and each may read and write the shared
# memory of the others, which then is called distributed. `mapa` turns an address in one's own shared memory into the address of the
# same place in another block. `st.async` writes 8 bytes there, a pair, and tells an mbarrier
# of the block that receives them. Each warp sends its pair into every block's `box`; who has waited for
# the mbarrier finds all pairs of the row there.
#
# ??? definition "Thread block cluster | thread block clusters"
#     Blocks that are launched together, run at the same time on neighbouring SMs, and have a
#     barrier of their own.
#
# ??? definition "Distributed shared memory"
#     The shared memory of all blocks of a thread block cluster, which each of them can reach.

# %% [markdown]
# ## The next row on its way
#
# With its row in registers a block reduces, exchanges, writes, and asks for nothing. Short rows do not
# mind, since an SM has many blocks and others read meanwhile. Slices of 64 KB leave room for
# three, which begin together and then wait together. So here the blocks stay, as many as the device
# runs at once, and take row after row. And reading is left to the copy unit of the SM: `cp.async.bulk`
# brings a stretch of memory into shared memory while the threads do something else. As soon as
# all threads have their part of a row in registers, its place in shared memory is free, and the
# next row is asked for. Then only do they exchange, scale and write.


# %% tab="Pseudocode"
def softmax_long(X, Y, clusters, slots, share):
    for cluster in parallel(clusters):
        rows = range(cluster, len(X), clusters)
        # [rows
        # [ask
        coming = [np.array(X[r]) for r in rows[:slots]]
        # ask]
        for n, r in enumerate(rows):
            # [row
            row = coming.pop(0)
            # row]
            # [refill
            coming += [np.array(X[later]) for later in rows[n + slots :][:1]]
            # refill]
            # [all
            results = [row]
            softmax_on_chip([row], results, share)
            Y[r] = results.pop()
            # all]
        # rows]


# %% tab="CUDA C"
LONG = Kernel(
    r"""
#include <cuda_bf16.h>
#define PER (16 / (int)sizeof(Number))  // numbers in 16 bytes
#define HOLD (SHARE / PER)              // such pieces a thread holds
#define WARPS (THREADS / 32)
#define SLICE (THREADS * SHARE)         // numbers of a row that a block holds
#define LOG2E 1.44269504f
typedef unsigned long long u64;

struct Pair { float m, z; };  // a maximum, times LOG2E; a sum relative to it

static __device__ Pair joined(Pair a, Pair b) {
    float m = fmaxf(a.m, b.m), shift = m == -INFINITY ? 0.0f : m;
    return {m, a.z * exp2f(a.m - shift) + b.z * exp2f(b.m - shift)};
}

// The pairs of a warp's lanes as one, in each of them.
static __device__ Pair together(Pair own) {
    float m = own.m;
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * exp2f(own.m - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// A thread's exponentials relative to its own maximum, and that maximum with their sum.
static __device__ Pair powers(float (&e)[SHARE], const uint4 (&piece)[HOLD]) {
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = ((const Number*)&piece[k / PER])[k % PER];
    float m = -INFINITY, z = 0.0f;
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) m = fmaxf(m, e[k]);
    m *= LOG2E;
    float shift = fmaxf(m, -3e38f);  // minus infinity less this is minus infinity
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) {
        e[k] = exp2f(fmaf(e[k], LOG2E, -shift));
        z += e[k];
    }
    return {m, z};
}

static __device__ uint4 pack(const float* e, float factor) {
    uint4 piece;
    Number* part = (Number*)&piece;
    for (int k = 0; k < PER; ++k) part[k] = (Number)(e[k] * factor);
    return piece;
}

static __device__ unsigned at(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ int rank() {
    int r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

// The address of the same place in another block's shared memory.
static __device__ unsigned there(const void* p, int block) {
    unsigned other;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(other) : "r"(at(p)), "r"(block));
    return other;
}

static __device__ void init(u64* bar) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(bar)) : "memory");
}

static __device__ void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at(bar)), "r"(bytes) : "memory");
}

static __device__ void wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}

// A pair to another block, whose mbarrier counts the bytes.
static __device__ void send(Pair* to, Pair pair, u64* bar, int block) {
    u64 both = (u64)__float_as_uint(pair.z) << 32 | __float_as_uint(pair.m);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                 :: "r"(there(to, block)), "l"(both), "r"(there(bar, block)) : "memory");
}

static __device__ void arrive() {
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}
static __device__ void meet() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// Asks for bytes of global memory; the mbarrier opens when they are in shared memory.
static __device__ void ask(void* to, const void* from, int bytes, u64* bar) {
    expect(bar, bytes);
    if (bytes > 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];"
                     :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}

extern "C" __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(THREADS, AT_ONCE)
softmax_long(const Number* X, Number* Y, int rows, int cols) {
    extern __shared__ __align__(128) uint4 memory[];
    __shared__ __align__(8) u64 here[SLOTS], heard[2];
    __shared__ Pair box[2][BLOCKS * WARPS];
    const int t = threadIdx.x, lane = t % 32, clusters = gridDim.x / BLOCKS;
    const int begin = rank() * SLICE, count = max(0, min(SLICE, cols - begin));
    const int bytes = count * (int)sizeof(Number);
    const unsigned low = sizeof(Number) == 2 ? 0xff80ff80 : 0xff800000;  // minus infinity
    int row = blockIdx.x / BLOCKS;
    X += begin;
    Y += begin;
    // [rows
    // [ask
    if (t == 0) {
        const int turn = row * AT_ONCE / clusters;
        const long long begun = LAG * turn > 0 ? clock64() : 0;  // in cycles
        while (LAG * turn > 0 && clock64() - begun < LAG * turn);
        for (int s = 0; s < SLOTS; ++s) init(&here[s]);
        for (int s = 0; s < 2; ++s) init(&heard[s]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int s = 0; s < SLOTS && row + s * clusters < rows; ++s)
            ask(memory + s * (SLICE / PER), X + (long long)(row + s * clusters) * cols,
                bytes, &here[s]);
    }
    // ask]
    __syncthreads();
    arrive();  // this block has begun
    for (int n = 0; row < rows; row += clusters, ++n) {
        // [row
        uint4* slot = memory + n % SLOTS * (SLICE / PER);
        wait(&here[n % SLOTS], n / SLOTS % 2);
        uint4 piece[HOLD];
        #pragma unroll
        for (int k = 0; k < HOLD; ++k) {
            int i = t + k * THREADS;
            piece[k] = i * PER < count ? slot[i] : uint4{low, low, low, low};
        }
        // row]
        float e[SHARE];
        Pair mine = powers(e, piece), own = together(mine);
        if (t == 0) expect(&heard[n % 2], sizeof(box) / 2);
        if (n == 0) meet();  // every block of the cluster has begun
        if (lane < BLOCKS)
            send(&box[n % 2][rank() * WARPS + t / 32], own, &heard[n % 2], lane);
        // [refill
        __syncthreads();  // every warp has read the slot
        if (t == 0 && row + SLOTS * clusters < rows)
            ask(slot, X + (long long)(row + SLOTS * clusters) * cols,
                bytes, &here[n % SLOTS]);
        // refill]
        // [all
        wait(&heard[n % 2], n / 2 % 2);  // the pairs of all warps are in the box
        Pair all = lane < BLOCKS * WARPS ? box[n % 2][lane] : Pair{-INFINITY, 0.0f};
        #pragma unroll
        for (int k = lane + 32; k < BLOCKS * WARPS; k += 32)
            all = joined(all, box[n % 2][k]);
        all = together(all);
        // all]
        float factor = all.z > 0.0f ? exp2f(mine.m - all.m) / all.z : 0.0f;
        uint4* to = (uint4*)(Y + (long long)row * cols);
        #pragma unroll
        for (int k = 0; k < HOLD; ++k) {
            uint4 made = pack(e + k * PER, factor);
            if ((t + k * THREADS) * PER < count) to[t + k * THREADS] = made;
        }
    }
    // rows]
}
""",
    defines={
        **{"Number": "float", "THREADS": 64, "SHARE": 8, "BLOCKS": 2},
        **{"SLOTS": 2, "AT_ONCE": 1, "LAG": 0},
    },
    options=("-std=c++17", "-arch=sm_90a"),
)

# %%
LONG.region("rows")

# %% [markdown]
# Four waits stand in it. `here` opens when the row has come, `heard` when all pairs have. The block's
# barrier lets the next row come only when every warp has its part of this one. And before anything is
# sent to a block it has to have begun, or it has no shared memory: each block arrives at the cluster's
# barrier as it begins, and waits for it when its first pair is ready. There are two boxes, used in turn,
# so that the next row's pairs do not overwrite what a slow warp still reads. Leave out one wait of the
# four and the simulator names it.

# %% [markdown]
# ## Blocks of an SM start one after another
#
# The blocks of an SM begin at the same moment, ask at the same moment, and then go in step: together
# they wait for a first row, together they compute, and at the end all of them compute a last row while
# memory has little left to do. Short rows end the step by themselves, since a new block begins wherever
# one is done; blocks that stay keep it. So the clusters take `AT_ONCE` turns to begin, as many as an SM
# has blocks, `LAG` cycles apart. `clock64` reads a counter of the SM's cycles, and one thread watches it
# before it asks for the first row. No result depends on it. Nor does anything promise that an SM's
# blocks are of different turns: it is so if clusters are dealt to all SMs before an SM gets a second.

# %% fold="Wrong kernels, and the checks of all of them"
from tilewise import expect_hazard


def on_chip(number, team, threads, share):
    """The kernel for rows that `team` threads of a block share."""
    sizes = {"TEAM": team, "THREADS": threads, "SHARE": share}
    return Kernel(ON_CHIP.source, defines={"Number": number, **sizes}, options=ON_CHIP.options)


def long_rows(number, threads, share, blocks, slots=1, at_once=1, lag=0):
    """The kernel for rows that clusters of blocks share; so many rows on their way, so many blocks an SM."""
    sizes = {"THREADS": threads, "SHARE": share, "BLOCKS": blocks}
    turns = {"SLOTS": slots, "AT_ONCE": at_once, "LAG": lag}
    return Kernel(LONG.source, defines={"Number": number, **sizes, **turns}, options=LONG.options)


def arrays_of(rows, cols, dtype="float32", spread=3.0, X=None):
    x = normal(rows, cols, dtype=dtype, scale=spread) if X is None else X
    results = {name: output(rows, cols, dtype=dtype) for name in "ZY"}
    return {"X": x, **results, "rows": rows, "cols": cols, "n": rows * cols}


def shared_by(kernel, rows, cols, dtype="float32", **more):
    """A launch of rows on chip."""
    sizes = kernel.defines
    grid = ceil_div(rows, sizes["THREADS"] // sizes["TEAM"])
    made = case(**arrays_of(rows, cols, dtype, **more), share=sizes["SHARE"])
    return kernel.on(made, grid=grid, block=sizes["THREADS"])


def in_clusters(kernel, clusters, rows, cols, dtype="float32", **more):
    """A launch of so many clusters that take row after row."""
    sizes = kernel.defines
    clusters = min(clusters, rows)
    made = case(
        **arrays_of(rows, cols, dtype, **more), clusters=clusters, slots=sizes["SLOTS"], share=sizes["SHARE"]
    )
    shared = sizes["SLOTS"] * sizes["THREADS"] * sizes["SHARE"] * (4 if dtype == "float32" else 2)
    return kernel.on(made, grid=clusters * sizes["BLOCKS"], block=sizes["THREADS"], shared_bytes=shared)


TWO_WARPS = on_chip("float", 64, 64, 8)
ONE_BLOCK_BF16 = on_chip("__nv_bfloat16", 64, 64, 16)
THREE_ON_THEIR_WAY = long_rows("float", 32, 8, 2, 3)
IN_TURN = long_rows("float", 32, 8, 2, 2, at_once=2, lag=500)
for kernel, columns in ((ON_CHIP, (49, 64)), (TWO_WARPS, (512, 393))):
    launches = [shared_by(kernel, 5, cols) for cols in columns]
    launches.append(shared_by(kernel, 5, columns[1], X=difficult(columns[1])))
    agree(softmax_on_chip, kernel, [as_case(one) for one in launches], rtol=2e-5, atol=1e-7)
awkward = [as_case(shared_by(ON_CHIP, 5, cols)) for cols in (49, 61)]
hard = as_case(shared_by(ON_CHIP, 5, 64, X=difficult(64)))
agree(softmax_triton, ON_CHIP, [*awkward, hard], rtol=2e-5, atol=1e-7, by="Triton")
agree(softmax_torch, ON_CHIP, awkward, rtol=2e-5, atol=1e-7, by="PyTorch")
for kernel, columns in (
    (LONG, (1000, 780)),
    (THREE_ON_THEIR_WAY, (512, 388)),
    (IN_TURN, (512, 388)),
):
    launches = [in_clusters(kernel, 2, 15, cols) for cols in columns]
    launches.append(in_clusters(kernel, 2, 5, columns[1], X=difficult(columns[1])))
    agree(softmax_long, kernel, [as_case(one) for one in launches], rtol=2e-5, atol=1e-7)
for launch, name in (
    (shared_by(TWO_WARPS, 5, 509, X=difficult(509)), "on chip"),
    (in_clusters(LONG, 2, 5, 1004, X=difficult(1004)), "two blocks a row"),
):
    got = launch.run()
    check(got["Y"], right(got["X"]), rtol=2e-5, atol=1e-9, name=f"{name} against 64-bit NumPy")


for text, hazard, line in (
    ("if (n == 0) meet();", "cluster", "send(&box[n % 2]"),
    ("wait(&heard[n % 2], n / 2 % 2);", "undelivered", "Pair all = lane < BLOCKS"),
    ("wait(&here[n % SLOTS], n / SLOTS % 2);", "undelivered", "slot[i]"),
    ("__syncthreads();  // every warp has", "undelivered", "slot[i]"),
):
    instead = "// every warp has" if "every warp" in text else ""
    expect_hazard(edited(in_clusters(LONG, 1, 5, 1000), (text, instead)), hazard, line_with=line)

# %% [markdown]
# In BF16 a result is rounded to 8 significant bits, so it may be off by one part in 512. Sums
# and exponentials are 32-bit floats all the same, and only reading and writing are narrow. That the
# error is the rounding of the result and nothing else, a check shows: rounding the right answer
# gives the same numbers but for a few that lie on the edge between two.

# %% fold="Code of the check"
from tilewise import bf16

launch = shared_by(ONE_BLOCK_BF16, 5, 1000, dtype="bfloat16")
got = launch.run()
expected = bf16.bits(right(bf16.values(got["X"])).astype(np.float32))
check(
    np.abs(got["Y"].astype(int) - expected).max(),
    1,
    atol=1,
    rtol=0,
    name="BF16 results, in units of the last bit",
)
check((got["Y"] != expected).mean(), 0, atol=0.01, name="BF16 results that are not the rounded right ones")

# %% [markdown]
# ## Predict
#
# What does the simulator count? The table has 32-byte sectors for every 8 numbers of a row. A row
# on chip needs one to read and one to write, and nothing can need less. Time should follow these
# numbers if the caches did not help. They do: a row of 4,096 floats has 16 KB, so the block that
# reads it again finds it in its L1. A row of 131,072 does not fit there, and all rows that are read
# at the same moment, {{ predicted.at_once_mb | .0f }} MB, do not fit in the L2 either.

# %% fold="Code of the prediction"
from tilewise.models import bound, device, stated

H100 = device("H100 SXM")
VALUES = 2**24


def plan(cols, share):
    """Threads of a block that share a row, and threads of the block."""
    team = 2 ** (ceil_div(cols, share) - 1).bit_length()
    return team, team if team > 32 else 128


def planned(number, share, cols):
    """The kernel for rows of so many columns, so many numbers to a thread."""
    team, threads = plan(cols, share)
    return on_chip(number, team, threads, share)


AT_ONCE = {  # clusters of so many blocks of so many threads that an H100 runs
    256: {2: 198, 4: 92, 8: 45},
    128: {4: 186, 8: 92, 16: 42},
}
CYCLES = {"float": 3400, "__nv_bfloat16": 6800}  # in which all blocks begin that begin in turn


def planned_long(number, cols, threads, in_turn=False):
    """The kernel for long rows, 64 numbers to a thread, and how many of its clusters share the rows."""
    blocks = ceil_div(cols, 64 * threads)
    at_once = 768 // threads  # blocks of an SM: a thread may have 80 registers then
    lag = CYCLES[number] // at_once if in_turn else 0
    return long_rows(number, threads, 64, blocks, 1, at_once, lag), AT_ONCE[threads][blocks]


def of_memory(moved):
    """Microseconds for so many bytes at the stated rate."""
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
check([one["all"] for one in traffic.values()], [4, 3, 2], name="sectors for 8 numbers of a row")
memory_us = bound(stated(H100), bytes_moved=8 * VALUES, flop=0).time_us
show(
    Table(
        ["version", "sectors for 8 numbers", "their time, µs", "instructions a number", "their time, µs "],
        rows,
        caption="From the simulator, in rows of 1,024 floats, and what 16,777,216 numbers take at an H100's peaks (data sheet) if every sector comes from memory, and if every SM issues four instructions a cycle.",
    )
)
LONG_COUNTS = in_clusters(planned_long("float", 32768, 256)[0], 1, 2, 32768).simulate().counts
LONG_EACH = 32 * LONG_COUNTS.issued / (2 * 32768)


def alone(size):
    """Read, compute and write a slice of 16,384 numbers of so many bytes: microseconds of one SM."""
    moved = of_memory(16384 * size * H100.sms)
    return moved, 16384 * LONG_EACH / 32 / 4 / H100.boost_mhz, moved


publish(
    traffic=traffic,
    alone={
        "read": alone(4)[0],
        "compute": alone(4)[1],
        "share": 2 * alone(4)[0] / sum(alone(4)),
        "share_bf16": 2 * alone(2)[0] / sum(alone(2)),
        "last": 3 * alone(4)[1],
        "last_share": 3 * alone(4)[1] / memory_us,
        "last_share_bf16": 6 * alone(4)[1] / memory_us,
        "cycles": CYCLES["float"],
        "cycles_bf16": CYCLES["__nv_bfloat16"],
    },
    predicted={
        "at_once_mb": 4 * VALUES / 1e6,
        "memory_us": memory_us,
        "issue_us": rows[-1][-1],
        "three_issue_us": rows[0][-1],
        "three_times": traffic["three"]["all"] / traffic["on_chip"]["all"],
        "two_times": traffic["online"]["all"] / traffic["on_chip"]["all"],
    },
    team={f"at_{cols}": plan(cols, 32)[0] for cols in (256, 4096, 131072)},
)

# %% [markdown]
# 16,777,216 floats read and written once take at least {{ predicted.memory_us | us }} at the stated
# rate of an H100. To issue the instructions of the on-chip kernel takes
# {{ predicted.issue_us | us }}, so memory decides, by a wide margin. Three passes
# should take up to {{ predicted.three_times | .0f }} times as long as one where nothing is found in
# a cache; where all is found, their instructions are the larger number,
# {{ predicted.three_issue_us | us }}. How many numbers a thread should hold the counts do not say:
# with more of them fewer blocks fit on an SM, with fewer each exchange has more threads. So three
# shares are measured.

# %% [markdown]
# For long rows the prediction is about time in which memory has nothing to do. An SM's part of an H100's
# memory rate brings a slice of 16,384 floats in {{ alone.read | us }} and takes as long to write it.
# Between the two its instructions take {{ alone.compute | us }}, by the simulator's count, which is
# high: the compiler for the machine needs fewer. If these follow each other memory
# works {{ alone.share | .0% }} of the time, and in BF16, where a number has half the bytes and as many
# instructions, {{ alone.share_bf16 | .0% }}; waits for the exchange come on top. With the next rows on
# their way the figure has no gap, and a copy should be matched at every length.
#
# Staying, asking ahead and beginning in turn are three things, so four kinds of clusters are timed: one
# for each row, those that stay and read a row when they come to it, those that have the next row on its
# way, and those that also begin one after another. Blocks have 256 threads or 128, and an SM three of
# them or six. If all of these compute at the same moment it takes {{ alone.last | us }} by the same count,
# {{ alone.last_share_bf16 | .0% }} of the time that an H100's memory needs for all rows in BF16 and
# {{ alone.last_share | .0% }} in floats. That much and no more should beginning in turn gain. It takes {{ alone.cycles | , }}
# cycles for floats and {{ alone.cycles_bf16 | , }} in BF16 until all have begun; both were
# found by trial.

# %% fold="Code of the figure"
READ, COMPUTE, WRITE = alone(4)
SPANS, now = [], 0.0
for n in (1, 2, 3):  # one row after the other
    SPANS += [
        Span("alone: memory", now, now + READ, f"r{n}", "read"),
        Span("alone: threads", now + READ, now + READ + COMPUTE, f"{n}", "block"),
        Span("alone: memory", now + READ + COMPUTE, now + READ + COMPUTE + WRITE, f"w{n}", "write"),
    ]
    now += READ + COMPUTE + WRITE
SPANS.append(Span("ahead: memory", 0.0, READ, "r1", "read"))
now = READ
for n in (1, 2, 3):  # each row asked for while the one before is worked on
    SPANS.append(Span("ahead: threads", now, now + COMPUTE, f"{n}", "block"))
    if n < 3:
        SPANS.append(Span("ahead: memory", now, now + READ, f"r{n + 1}", "read"))
    now += READ if n < 3 else COMPUTE
    SPANS.append(Span("ahead: memory", now, now + WRITE, f"w{n}", "write"))
    now += WRITE
show(
    timeline(
        SPANS,
        unit="µs",
        title="With the next row on its way memory is kept busy",
        caption="Three slices of 16,384 floats on one SM, read (r), worked on and written (w), one at a time and with the next row asked for ahead: its part of the stated rate of an H100's memory, and the threads' instructions. A model with the counts above; waits for exchanges are left out.",
    )
)

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


def fenced(kernel):
    """The same with plain stores into the boxes and a barrier of the cluster in place of mbarriers."""
    return edited(
        kernel,
        (
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];",
            "st.shared::cluster.b64 [%0], %1;",
        ),
        ("if (t == 0) expect(&heard[n % 2], sizeof(box) / 2);", ""),
        ("wait(&heard[n % 2], n / 2 % 2);", "arrive();\n        meet();"),
    )


def region(name, source=LONG.source):
    """The lines of a marked region."""
    return source.split(f"// [{name}\n")[1].split(f"// {name}]")[0]


SLOT = region("row").split("        uint4 piece")[0]
ASKED = region("ask")[region("ask").index("        for (int s = 0; s < SLOTS && row") : -len("    }\n    ")]


def straight(number, threads):
    """Clusters that stay and read a row into registers when they come to it."""

    def launch(rows, cols):
        kernel, clusters = planned_long(number, cols, threads)
        there = "        const uint4* slot = (const uint4*)(X + (long long)row * cols);\n"
        nothing = "        // nothing is asked for ahead\n        "
        without = edited(kernel, (ASKED, ""), (SLOT, there), (region("refill"), nothing))
        made = in_clusters(without, clusters, rows, cols, NAMES[number])
        return without.on(made.case, grid=made.grid, block=made.block)

    return launch


def by_cluster(number, threads, stay=True, in_turn=False, form=lambda kernel: kernel):
    """Clusters that stay and have rows on their way, or one for each row."""

    def launch(rows, cols):
        kernel, clusters = planned_long(number, cols, threads, in_turn)
        return in_clusters(form(kernel), clusters if stay else rows, rows, cols, NAMES[number])

    return launch


def both_answers(X):
    """What the kernels and the copy are to give."""
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return {"Y": e / e.sum(axis=1, keepdims=True), "Z": X}


def torch_softmax(arrays):
    import torch

    X, Y = (torch.as_tensor(arrays[name], device="cuda") for name in ("X", "Y"))
    return lambda: torch.softmax(X, dim=-1, out=Y) is None


def of_lengths(*lengths):
    """The sizes to time: rows of so many columns."""
    return [{"rows": VALUES // cols, "cols": cols} for cols in lengths]


COPY_ROW = {"a copy": lambda rows, cols: copied(COPY, rows, cols, "float32", 4)}
COPY_ROW_BF16 = {"a copy": lambda rows, cols: copied(COPY_BF16, rows, cols, "bfloat16", 8)}
PASSES_ROWS = {
    "three passes": lambda rows, cols: SOFTMAX_THREE.on(rows_case(rows, cols)),
    "two passes, online": lambda rows, cols: SOFTMAX_ONLINE.on(rows_case(rows, cols)),
}


def shares_of(number):
    return {f"on chip, {share} numbers a thread": by_share(number, share) for share in (16, 32, 64)}


def staying(number):
    return {
        "on chip, a cluster for each row": by_cluster(number, 256, stay=False),
        "on chip, with the cluster's barrier": by_cluster(number, 256, form=fenced),
        "clusters that stay, blocks of 128": straight(number, 128),
        "next rows on their way, blocks of 256": by_cluster(number, 256),
        "next rows on their way, blocks of 128": by_cluster(number, 128),
        "begun one after another, blocks of 256": by_cluster(number, 256, in_turn=True),
        "begun one after another, blocks of 128": by_cluster(number, 128, in_turn=True),
    }


def with_expf(number):
    """The on-chip kernel with 32 numbers a thread and `expf` in place of powers of two."""
    expf = ("exp2f(fmaf(e[k], LOG2E, -shift))", "expf(e[k] - shift / LOG2E)")

    def launch(rows, cols):
        return shared_by(edited(planned(number, 32, cols), expf), rows, cols, NAMES[number])

    return launch


timed = measure(
    "softmax_rows",
    variants={**PASSES_ROWS, **shares_of("float"), "on chip, expf": with_expf("float"), **COPY_ROW},
    cases=of_lengths(256, 1024, 4096, 16384),
    count_case={"rows": 4, "cols": 1024},
    bytes=lambda rows, cols: 8 * rows * cols,
    library={"torch.softmax": torch_softmax},
    reference=both_answers,
    tolerance=1e-6,
    reasons={"*": "What the passes cost"},
    fold="Rows of 256 to 16,384 floats",
)

# %% fold="Code of the measurement"
timed_long = measure(
    "softmax_long_rows",
    variants={**PASSES_ROWS, **staying("float"), **COPY_ROW},
    cases=of_lengths(32768, 65536, 131072),
    count_case={"rows": 2, "cols": 32768},
    bytes=lambda rows, cols: 8 * rows * cols,
    library={"torch.softmax": torch_softmax},
    reference=both_answers,
    tolerance=1e-6,
    note="The sectors that bulk copies read are counted apart.",
    reasons={"*": "What the passes cost"},
    fold="Rows of 32,768 to 131,072 floats",
    guess=Guess(
        "Rows of 131,072: how many times as long as the row on chip do three passes take?",
        of="begun one after another, blocks of 256",
        over="three passes",
        at={"rows": VALUES // 131072, "cols": 131072},
        between=(0.5, 10),
        models={"sectors": 2.0, "bytes of memory, were the caches large enough": 1.0},
        because="Sectors count what is asked for; what of it comes from memory depends on the caches.",
    ),
)


# %% [markdown]
# The same in BF16, where a row of {{ half.longest | , }} takes as many bytes as one of half as many
# floats.


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
        "on chip, expf": with_expf("__nv_bfloat16"),
        **COPY_ROW_BF16,
    },
    cases=of_lengths(256, 4096, 16384),
    count_case={"rows": 4, "cols": 1024},
    bytes=lambda rows, cols: 4 * rows * cols,
    library={"torch.softmax": torch_softmax_bf16},
    reference=both_answers,
    tolerance=4e-3,
    reasons={"*": "What the passes cost"},
    fold="Rows of 256 to 16,384 numbers in BF16",
)

# %% fold="Code of the measurement"
timed_long_bf16 = measure(
    "softmax_long_rows_bf16",
    variants={**staying("__nv_bfloat16"), **COPY_ROW_BF16},
    cases=of_lengths(32768, 65536, 131072),
    count_case={"rows": 2, "cols": 32768},
    bytes=lambda rows, cols: 4 * rows * cols,
    library={"torch.softmax": torch_softmax_bf16},
    reference=both_answers,
    tolerance=4e-3,
    note="The sectors that bulk copies read are counted apart.",
    reasons={"*": "What the passes cost"},
    fold="Rows of 32,768 to 131,072 numbers in BF16",
)

# %% [markdown]
# ## What the passes cost


# %% fold="Code of the figure"
SHARES = list(shares_of("float"))
STAYING = list(staying("float"))
IN_TURNS = "begun one after another, blocks of 256"
us = Numbers(medians_us(timed, "cols") | medians_us(timed_long, "cols"))
us_bf16 = Numbers(medians_us(timed_bf16, "cols") | medians_us(timed_long_bf16, "cols"))
PASSES_US = {
    f"{cols:,} columns": {
        "three passes": us["three passes", cols],
        "two passes": us["two passes, online", cols],
        "on chip": us[chip, cols],
        "a copy": us["a copy", cols],
    }
    for cols, chip in ((4096, SHARES[1]), (131072, IN_TURNS))
}
if complete(*us.values()):
    SHORT_US, LONG_US = PASSES_US.values()
    assert all(
        LONG_US[name] / LONG_US["on chip"] > 4 * SHORT_US[name] / SHORT_US["on chip"]
        for name in ("three passes", "two passes")
    ), "the title says that more passes cost far more in long rows"
    show(
        bars(
            PASSES_US,
            x="time [µs]",
            roles={"three passes": "read", "two passes": "block", "on chip": "write", "a copy": "measured"},
            title="More passes cost far more in rows of 131,072 than in rows of 4,096",
            caption="16,777,216 floats in rows of 4,096 and of 131,072 on an {machine}: three passes, two, and the row on chip, beside a copy.",
        )
    )


def columns_of(found, label):
    return sorted(cols for variant, cols in found if variant == label)


def best_of(found, labels):
    """For each number of columns the fastest of some versions, and its time."""
    lengths = sorted({cols for label, cols in found if label in labels})
    return {
        cols: min(
            ((label, found[label, cols]) for label in labels if (label, cols) in found),
            key=lambda one: one[1],
        )
        for cols in lengths
    }


def least(found, labels):
    """The smallest share of the copy's rate over all lengths, by the best version at each."""
    best = best_of(found, labels).items()
    return min((found["a copy", cols] / time_us for cols, (_, time_us) in best), default=np.nan)


def gains(found, pairs):
    """How much longer the first of two versions takes than the second: least and most of all lengths."""
    every = [
        found[slow, cols] / found[quick, cols] - 1
        for slow, quick in pairs
        for cols in columns_of(found, slow)
    ]
    return {"least": min(every), "most": max(every)}


CHANGES = {
    "expf": [("on chip, expf", SHARES[1])],
    "both": [(STAYING[0], STAYING[3])],
    "fence": [(STAYING[1], STAYING[3])],
    "ahead": [(STAYING[2], STAYING[4])],
    "turns": [(STAYING[3], STAYING[5]), (STAYING[4], STAYING[6])],
}
SHORT = SOFTMAX_THREE.on(rows_case(4, 256)).simulate().counts
STATED_US = bound(stated(recorded_device()), bytes_moved=8 * VALUES, flop=0).time_us
SLICE_US = alone(4)[0] * STATED_US / memory_us  # to read a slice of floats on this machine
if complete(*us.values(), *us_bf16.values()):
    for found in (us, us_bf16):
        for cols in columns_of(us, STAYING[0]):
            alone_us, _, stay_us, *later_us = (found[name, cols] for name in STAYING)
            assert alone_us / stay_us > stay_us / min(later_us), "a takeaway says that staying brings most"
publish(
    ahead={
        name: {
            "least": 1 / (1 + gains(found, CHANGES["ahead"])["most"]),
            "most": 1 / (1 + gains(found, CHANGES["ahead"])["least"]),
        }
        for name, found in {"floats": us, "bf16": us_bf16}.items()
    },
    gains={name: gains(us, pairs) for name, pairs in CHANGES.items()},
    gains_bf16={name: gains(us_bf16, pairs) for name, pairs in CHANGES.items()},
    fence={
        f"{name}_{cols}": us["a copy", cols] / us[label, cols]
        for name, label in {"with": STAYING[1], "without": STAYING[3]}.items()
        for cols in (32768, 65536, 131072)
    },
    three_us={f"at_{cols}": us["three passes", cols] for cols in (1024, 4096, 32768, 65536, 131072)},
    short={
        "three": us["three passes", 256] / us[SHARES[1], 256],
        "issue_us": VALUES * SHORT.issued / (4 * 256) / 4 / H100.sms / H100.boost_mhz,
        "us": us["three passes", 256],
    },
    stated={
        "copy": STATED_US / us["a copy", 131072],
        "rows": STATED_US / max(us[STAYING[0], cols] for cols in columns_of(us, STAYING[0])),
        "rows_bf16": STATED_US
        / 2
        / max(us_bf16[STAYING[0], cols] for cols in columns_of(us_bf16, STAYING[0])),
        "predicted": 2 * SLICE_US / (2 * SLICE_US + alone(4)[1]),
        "predicted_bf16": SLICE_US / (SLICE_US + alone(4)[1]),
    },
    shared={"rows": VALUES // 131072, "clusters": AT_ONCE[256][8]},
    half={"longest": max(columns_of(us_bf16, "a copy"))},
    passes={
        f"{name}_{cols}": us[label, cols] / us[chip, cols]
        for name, label in {"three": "three passes", "two": "two passes, online"}.items()
        for cols, chip in ((4096, SHARES[1]), (131072, IN_TURNS))
    },
    best={
        "least": least(us, [*SHARES, *STAYING]),
        "least_bf16": least(us_bf16, [*SHARES, *STAYING]),
        "at_256": us["a copy", 256] / us[SHARES[1], 256],
        "at_131072": us["a copy", 131072] / us[IN_TURNS, 131072],
        "torch_least": least(us, ["torch.softmax"]),
        "torch_least_bf16": least(us_bf16, ["torch.softmax"]),
    },
    rows_alone={
        "least": least(us, STAYING[:1]),
        "least_bf16": least(us_bf16, STAYING[:1]),
        "ahead_least": least(us, STAYING[3:5]),
        "ahead_least_bf16": least(us_bf16, STAYING[3:5]),
    },
)

# %% [markdown]
# Up to rows of 4,096 a block finds its row in a cache again, and the passes cost instructions, not memory:
# {{ predicted.three_issue_us | us }} were predicted for three of them, and {{ three_us.at_1024 | us }}
# in rows of 1,024 and {{ three_us.at_4096 | us }} in rows of 4,096 came. That is
# {{ passes.three_4096 | .2f }} times as long as one pass takes. Two passes take
# {{ passes.two_4096 | .2f }} times as long, no less than three, which the counts do not explain. In
# rows of 256 three passes take {{ short.three | .1f }} times as long as one. Each thread has one number
# there, and takes part in two exchanges of its block for it. The simulator's count says
# {{ short.issue_us | us }} of instructions, the measurement {{ short.us | us }} in all.
#
# For rows of 131,072 the prediction failed. The sectors said {{ predicted.three_times | .0f }} and
# {{ predicted.two_times | .1f }} times as long at most; it is {{ passes.three_131072 | .1f }} for three
# passes and as much for two. The caches are not the cause: in rows of 32,768, 65,536 and 131,072 all are
# read at the same moment, so a cache keeps as little of them at each length, and yet three passes take
# {{ three_us.at_32768 | us }}, {{ three_us.at_65536 | us }} and {{ three_us.at_131072 | us }}. What
# changes is the number of threads. A row has one block of 256, and there are 512, 256 and 128 rows. With
# 128 blocks four of the 132 SMs have nothing to do and the others 8 warps each, of 64 that would fit:
# too few loads are on their way to keep memory busy.

# %% [markdown]
# The figures have the rates against a copy of the same bytes, and torch beside them. Up to 16,384
# columns the line is the best of three shares. The copy is a plain one, 16 bytes to a thread, and no
# ceiling: some versions of softmax move the same bytes faster.

# %% fold="Code of the figures"


def curves(found):
    """Lines of the shares of the copy's rate."""
    for name, labels, role in (
        ("a row a warp or block", SHARES, "lane"),
        ("a cluster for each row", STAYING[:1], "tile"),
        ("with the cluster's barrier", STAYING[1:2], "waste"),
        ("clusters that stay", STAYING[2:3], "block"),
        ("next rows on their way", STAYING[3:5], "read"),
        ("begun one after another", STAYING[5:], "write"),
        ("torch.softmax", ["torch.softmax"], "measured"),
    ):
        best = best_of(found, labels)
        if best:
            shares = [found["a copy", cols] / time_us for cols, (_, time_us) in best.items()]
            yield Series(name, list(best), shares, role=role)


if complete(*us.values()):
    assert least(us, STAYING[2:]) > 0.9, "a title says that clusters that stay come close to the copy's rate"
for found, number, title in (
    (us, "floats", "Clusters that stay come close to the copy's rate in long rows"),
    (us_bf16, "numbers in BF16", "In BF16 a row at a time leaves memory idle for longer"),
):
    lines = list(curves(found))
    if np.isfinite([share for line in lines for share in line.y]).all():
        show(
            line_chart(
                lines,
                x="columns of a row",
                y="share of the copy's rate",
                log_x=True,
                y_range=(0, 1.1),
                marks=[Mark("0.95", y=0.95)],
                title=title,
                caption=f"16,777,216 {number} on an {{machine}}, by columns of a row: the time of a copy of the same bytes over that of softmax.",
            )
        )

# %% fold="The best version for each length"


def threads_of(label):
    """Threads of the blocks of a version for long rows."""
    return 128 if label.endswith("128") else 256


rows = []
for found, number, name in ((us, "float", "FP32"), (us_bf16, "__nv_bfloat16", "BF16")):
    for cols, (label, time_us) in best_of(found, [*SHARES, *STAYING]).items():
        if label in SHARES:
            held = int(label.split()[2])
            who = f"{plan(cols, held)[0]} threads"
        else:
            sizes = planned_long(number, cols, threads_of(label))[0].defines
            held, who = sizes["SHARE"], f"{sizes['BLOCKS']} blocks of {sizes['THREADS']}"
        torch_us = found.get(("torch.softmax", cols), np.nan)
        rows.append([name, cols, held, who, time_us, found["a copy", cols], torch_us])
if np.isfinite([row[4] for row in rows]).all():
    show(
        Table(
            ["numbers", "columns", "a thread holds", "a row has", "softmax, µs", "copy, µs", "torch, µs"],
            rows,
            caption="For each length of a row the best version, on an {machine}; 16,777,216 numbers each time.",
        )
    )

# %% [markdown]
# The best version for each length reaches at least {{ best.least | .0% }} of the copy's rate in floats
# and {{ best.least_bf16 | .0% }} in BF16; torch.softmax falls to {{ best.torch_least | .0% }} and
# {{ best.torch_least_bf16 | .0% }}. `expf` in place of `exp2f` costs the on-chip kernel up to
# {{ gains.expf.most | .1% }} in floats and up to {{ gains_bf16.expf.most | .1% }} in BF16, where the
# same instructions have half the bytes to hide behind.
#
# A cluster for each row falls to {{ rows_alone.least | .0% }} of the copy's rate in floats and
# {{ rows_alone.least_bf16 | .0% }} in BF16. Of the peak bandwidth (data sheet), of which the copy has
# {{ stated.copy | .0% }}, that is {{ stated.rows | .0% }} and {{ stated.rows_bf16 | .0% }}; predicted
# were {{ stated.predicted | .0% }} and {{ stated.predicted_bf16 | .0% }}, less waits.
#
# Clusters that stay and ask ahead are faster in the same blocks of 256, by {{ gains.both.least | .0% }} to
# {{ gains.both.most | .0% }} in floats and by {{ gains_bf16.both.least | .0% }} to
# {{ gains_bf16.both.most | .0% }} in BF16. That the copy would then be matched at every length came
# nearly true in floats, with {{ rows_alone.ahead_least | .0% }} at the least, and less so
# in BF16, with {{ rows_alone.ahead_least_bf16 | .0% }}. Most of it is staying: with six blocks of 128
# threads on an SM, clusters that ask ahead take {{ ahead.floats.least | .2f }} to
# {{ ahead.floats.most | .2f }} times as long as those that only stay, in BF16
# {{ ahead.bf16.least | .2f }} to {{ ahead.bf16.most | .2f }} times. Beginning
# one after another brings up to {{ gains.turns.most | .1% }} in floats and
# {{ gains_bf16.turns.least | .1% }} to {{ gains_bf16.turns.most | .1% }} in BF16, within the limits
# that were predicted. At 131,072 some of
# the rest may be the division: {{ shared.rows }} rows among {{ shared.clusters }} clusters give some
# clusters three rows and others two.
#
# The cluster's barrier in place of `st.async` was the surprise. In the same shape it takes clusters of
# two blocks from {{ fence.without_32768 | .0% }} to {{ fence.with_32768 | .0% }} of the copy's rate, of
# four from {{ fence.without_65536 | .0% }} to {{ fence.with_65536 | .0% }} and of eight from
# {{ fence.without_131072 | .0% }} to {{ fence.with_131072 | .0% }}, these two below a cluster for each
# row; in BF16 it makes rows take up to {{ gains_bf16.fence.most | .0% }} longer. Arriving at it promises
# that everything written before can be seen. So the compiler puts a fence in front, `MEMBAR.ALL.GPU`, and
# every row waits for the results of the row before to be written. `st.async` promises only its own
# 8 bytes. That the fence is what costs the time is likely and was not measured
# on its own; why four blocks suffer so much more than two was not found.

# %% [markdown]
# How exact are the results? The next cell ran on an H100: the largest error against 64-bit floats
# of the on-chip kernel and of torch, on normal numbers, on numbers thirty times{from: the input} as
# large, and on rows whose second half is $-\infty$.

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

# %% fold="Code of a model of the errors"


def modelled(off, rows=64, cols=4096, share=32):
    """Largest errors of the kernel's arithmetic, absolute and relative, with powers off by so much at random."""
    random = np.random.default_rng(5)
    X = random.standard_normal((rows, cols)).astype(np.float32).reshape(rows, -1, share)

    def power(exponent):
        noise = 1 + off * random.uniform(-1, 1, exponent.shape)
        return (np.exp2(exponent.astype(np.float64)) * noise).astype(np.float32)

    log2e = np.float32(1.44269504)
    shift = X.max(axis=2) * log2e
    e = power((X.astype(np.float64) * log2e - shift[..., None]).astype(np.float32))
    to_all = power(shift - shift.max(axis=1, keepdims=True))
    z = (e.sum(axis=2) * to_all).sum(axis=1, keepdims=True)
    exact = right(X.reshape(rows, cols)).reshape(X.shape)
    errors = np.abs(e * (to_all / z)[..., None] - exact)
    worst = errors.argmax()
    return errors.flat[worst], errors.flat[worst] / exact.flat[worst]


ERRORS = printed_rows("attention/softmax", "errors", r"off by (\S+), torch by (\S+)$")
publish(
    modelled={
        "exact": modelled(0.0)[0],
        "off": modelled(2.0**-22)[0],
        "relative": modelled(2.0**-22)[1],
        "own": ERRORS[0][0] if ERRORS else np.nan,
        "torch": ERRORS[0][1] if ERRORS else np.nan,
    },
)

# %% [markdown]
# The largest of the six errors is {{ errors.most | .1e }}, torch's {{ errors.other | .1e }}. On large
# numbers the kernel is as exact as torch. On normal ones it is not: its error is up to
# {{ errors.worst_times | .1f }} times torch's. Is the cause the second power, by which a thread's
# numbers are brought to the row's maximum? A model in NumPy says no. In rows of 4,096, where the H100 had {{ modelled.own | .2e }} and torch {{ modelled.torch | .2e }}, the
# same arithmetic with exactly rounded powers is off by {{ modelled.exact | .2e }}. With powers that are off
# by up to $2^{-22}$ at random, about the two units in the last place that CUDA's guide allows `exp2f`, it
# is {{ modelled.off | .2e }}, which is {{ modelled.relative | .1e }} of the result. So what `exp2f` saves
# in time it takes in exactness.

# %% [markdown]
# ## The answer
#
# Once. A row that stays on chip between its sum and its results is read once and written once,
# {{ traffic.on_chip.all | .0f }} sectors for 8 numbers in place of {{ traffic.three.all | .0f }}.
# A row of 256 lies in the registers of {{ team.at_256 }} threads and runs at
# {{ best.at_256 | .0% }} of the copy's rate, one of 131,072 in those of eight blocks at
# {{ best.at_131072 | .0% }}.

# %% [markdown]
# ## Takeaways
#
# - Maximum and sum are one pair, and pairs combine: bring both sums to the larger maximum and add.
#   The rule is associative, so numbers, lanes, warps and blocks can be combined in any grouping.
# - A row of which all numbers so far are $-\infty$ needs a guard, or the row becomes NaN.
# - Walking over a row again costs least while a cache has it and many threads walk. Keeping the row on
#   chip leaves one read and one write for rows of any length here.
# - A thread block cluster has shared memory in common. Its blocks have to have begun before anything
#   is sent to them, and an mbarrier tells them that all pairs have come. The cluster's own barrier
#   would do, and costs more.
# - Where an SM has room for few blocks they compute together while memory idles. They should stay for
#   row after row. To have the next one on its way and not to begin all at once brings less.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def combine(one, other):
    m = max(one[0], other[0])
    if m == -np.inf:
        return m, 0.0
    return m, one[1] * np.exp(one[0] - m) + other[1] * np.exp(other[0] - m)


def sums_added(one, other):
    return max(one[0], other[0]), one[1] + other[1]


def only_the_second_rescaled(one, other):
    return one[0], one[1] + other[1] * np.exp(other[0] - one[0])


def without_a_guard(one, other):
    m = max(one[0], other[0])
    with np.errstate(invalid="ignore"):
        return m, one[1] * np.exp(one[0] - m) + other[1] * np.exp(other[0] - m)


def pair_of(numbers):
    """Maximum and sum of a list, by the formula."""
    m = max(numbers, default=-np.inf)
    return m, float(sum(np.exp(x - m) for x in numbers)) if m > -np.inf else 0.0


def combine_tests(answer):
    random = np.random.default_rng(11)
    for trial in range(60):
        numbers = random.normal(0, (1, 30, 300)[trial % 3], 12)
        numbers[: trial % 5] = -np.inf
        whole = pair_of(numbers)
        first, second = sorted(random.integers(0, 13, 2))
        a, b, c = (pair_of(part) for part in (numbers[:first], numbers[first:second], numbers[second:]))
        with np.errstate(over="ignore"):
            for made in (answer(answer(a, b), c), answer(a, answer(b, c)), answer(c, answer(b, a))):
                assert np.allclose(made, whole, rtol=1e-9), f"{made} in place of {whole}"
    assert tuple(answer(pair_of([]), pair_of([]))) == (-np.inf, 0.0), "two empty lists"


exercise(
    "Combine two pairs",
    """
    Write `combine(one, other)`: given $(m, z)$ of two lists of numbers, the pair of both lists together. The
    tests split lists at random places into three parts, one of which may be empty or hold nothing but
    $-\\infty$, whose pair is $(-\\infty, 0)$; combine the parts in both groupings and backwards; and use
    numbers up to several hundreds, where an exponential of a difference of the wrong sign overflows.
    """,
    answer=combine,
    tests=combine_tests,
    wrong=[sums_added, only_the_second_rescaled, without_a_guard],
    hint="Both sums have to be relative to the same maximum before they can be added.",
)

# %% [markdown]
# Softmax alone is a read and a write. In attention its row is made by one product and used up by
# another, and neither has to wait for the whole row: the pair follows as the numbers come, and so,
# it turns out, can the weighted mean of the value rows.
