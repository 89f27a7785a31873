# ---
# title: "FlashAttention: the backward pass"
# needs: [memory/recomputation, attention/hopper]
# summary: "The forward pass has two GEMMs and stores no probabilities. How many GEMMs does the backward pass need, and how close to cuDNN can we get?"
# description: "FlashAttention's backward pass in CUDA C: P recomputed from the log-sum-exp, five GEMMs with wgmma, dQ by TMA reduce-add, measured against FlashAttention-2 and cuDNN."
# date: 2026-11-23
# tags: [FlashAttention, backward pass, recomputation, wgmma]
# ---

# %% [markdown]
# Take 4 sequences of 4,096 tokens each, with 16 heads and $d$ = 128. PyTorch's unfused attention stores its N × N
# matrices, and its backward pass takes {{ seen.math_full_4096 | us }}. cuDNN never stores the probabilities $P$, so its
# backward pass has to compute them again. Yet it takes only {{ seen.cudnn_full_4096 | us }}, which is
# {{ rate.cudnn_of_math | .0f }}× faster.

# %% [markdown]
# ## Five GEMMs instead of two
#
# Write $S = QK^T/\sqrt d$ for the scores, $P$ for the softmax of its rows and $O = PV$ for the output. The backward
# pass receives $dO$, the gradient of the loss with respect to $O$. It goes through the same steps in reverse.
#
# 1. $O = PV$ is a GEMM, and its two gradients are GEMMs too: $dV = P^T dO$ and $dP = dO\,V^T$.
# 2. Softmax couples the elements of a row: a larger weight for one key makes all others smaller. So its gradient
#    subtracts a weighted mean:
#
#     $$dS_{ij} = P_{ij}\,(dP_{ij} - \delta_i)$$
#
#     $$\delta_i = \sum_j P_{ij}\,dP_{ij}$$
#
# 3. $S$ is again the result of a GEMM: $dQ = dS\,K/\sqrt d$ and $dK = dS^T Q/\sqrt d$.
#
# The fifth GEMM is $QK^T$, which recomputes the scores.
#
# Step through a row of six keys. Its $dS$ sums to zero, because adding the same number to all scores changes nothing:

# %% fold="Code of the figure"
import re

import numpy as np

from tilewise import publish, show
from tilewise.figures import State, stepped

ONE_ROW = """s = scale * (K @ q)
p = exp(s - L)
dp = V @ do
delta = do @ o
ds = p * (dp - delta)
dq = scale * (ds @ K)"""


def one_row(q, K, V, do, scale):
    """States of one query's backward pass, and its gradient."""
    s = scale * (K @ q)
    L = np.log(np.exp(s).sum())
    p = np.exp(s - L)
    o, dp = p @ V, V @ do
    delta = do @ o
    ds = p * (dp - delta)
    dq = scale * (ds @ K)
    known = {"s": 0 * s, "p": 0 * s, "dp": 0 * s, "delta": np.zeros(1), "ds": 0 * s, "dq": 0 * q}
    states = []
    for line, name, array, read, what in (
        (1, "s", s, (), "Recompute the scores from q and K."),
        (2, "p", p, ("s",), "One exponential per score gives the weights back. They sum to 1."),
        (3, "dp", dp, (), "How much the loss changes with each weight."),
        (4, "delta", np.array([delta]), (), "The mean of dp, weighted by p, computed without them."),
        (5, "ds", ds, ("p", "dp", "delta"), "Positive where dp is above delta. The row sums to 0."),
        (6, "dq", dq, ("ds",), "The weighted sum of the keys is the gradient of q."),
    ):
        reads = {one: range(len(known[one])) for one in read}
        known[name] = array
        states.append(State(what, line=line, values={"L": L}, arrays=dict(known), reads=reads))
    return states, p, dp, delta, ds, dq


random = np.random.default_rng(11)
q, do, K, V = random.normal(size=4), random.normal(size=4), *random.normal(size=(2, 6, 4))
states, p, dp, delta, ds, dq = one_row(q, K, V, do, 0.5)
assert abs(ds.sum()) < 1e-12 and abs(delta - p @ dp) < 1e-12, "the title and a state say so"
show(
    stepped(
        states,
        source=ONE_ROW,
        start=4,
        title="A row of dS sums to zero: some keys gain at the expense of others",
        caption="The backward pass of one query with six keys and d = 4, in the order in which the kernels compute it.",
    )
)

# %% [markdown]
# ## P from the log-sum-exp, δ from the output
#
# $P$ was never stored, and $\delta$ needs a complete row. [FlashAttention](https://arxiv.org/abs/2205.14135) has a
# cheap way to get both.
#
# **The log-sum-exp recovers $P$.** The forward pass stores $L_i = m_i + \log z_i$, one float per query. A weight is
# then a single exponential:
#
# $$P_{ij} = e^{S_{ij} - L_i}$$
#
# **The output gives $\delta$.** The $\delta$ of a row is the dot product of two rows of $d$ elements, both already in
# memory:
#
# $$\delta_i = \sum_j P_{ij}\,(dO_i \cdot V_j)$$
#
# $$\delta_i = dO_i \cdot \sum_j P_{ij} V_j = dO_i \cdot O_i$$
#
# So in our case, {{ tile.kept_mb | .0f }} MB of $L$ and $\delta$ replace {{ tile.stored_gb | .1f }} GB of $P$.
#
# ??? definition "δ"
#     In attention's backward pass, the sum over a row of $P ∘ dP$. It equals the sum over the same row of $dO ∘ O$.

# %% [markdown]
# ## Two kernels without atomics
#
# $dQ$ is a sum over keys, while $dK$ and $dV$ are sums over queries. Without atomics, that takes two kernels:
# `backward_dq` has one thread per query and loops over the keys, and `backward_dkdv` has one thread per key and loops
# over the queries. Both compute $QK^T$ and $dP$, so together they execute seven GEMMs' worth of multiply-adds instead
# of five.


# %% tab="Pseudocode"
from tilewise import parallel, tiles


def backward_dq(Q, K, V, O, dO, L, delta, dQ, scale):
    for i in parallel(len(Q)):
        delta[i] = dO[i] @ O[i]
        dQ[i] = 0.0
        for j in range(len(K)):
            # [query
            p = np.exp(K[j] @ Q[i] * scale - L[i])
            ds = p * (V[j] @ dO[i] - delta[i])
            dQ[i] += ds * scale * K[j]
            # query]


def backward_dkdv(Q, K, V, dO, L, delta, dK, dV, scale):
    for j in parallel(len(K)):
        dK[j], dV[j] = 0.0, 0.0
        for i in range(len(Q)):
            # [key
            p = np.exp(K[j] @ Q[i] * scale - L[i])
            ds = p * (V[j] @ dO[i] - delta[i])
            dV[j] += p * dO[i]
            dK[j] += ds * scale * Q[i]
            # key]


# %% tab="CUDA C"
from tilewise import Kernel

SIMPLE = r"""
// delta[i] = dO[i] . O[i], and dQ, for one head. All matrices are row-major FP32: Q, O, dO and dQ [N][D],
// K and V [M][D]; L and delta [N]. L is the log-sum-exp of each row of scale * Q K^T. Any N and M.
// Launch ceil(N / 128) blocks of 128 threads. No masks, no dropout; a large D spills registers.
extern "C" __global__ void __launch_bounds__(128)
backward_dq(const float* Q, const float* K, const float* V, const float* O, const float* dO,
            const float* L, float* delta, float* dQ, int N, int M, float scale) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= N) return;
    float q[D], d_out[D], dq[D] = {}, row_delta = 0.0f;
    for (int c = 0; c < D; ++c) {
        q[c] = Q[i * D + c];
        d_out[c] = dO[i * D + c];
        row_delta += d_out[c] * O[i * D + c];
    }
    for (int j = 0; j < M; ++j) {
        // [query
        float s = 0.0f, dp = 0.0f;
        for (int c = 0; c < D; ++c) {
            s += q[c] * K[j * D + c];
            dp += d_out[c] * V[j * D + c];
        }
        float p = expf(s * scale - L[i]);
        float ds = p * (dp - row_delta);
        for (int c = 0; c < D; ++c) dq[c] += ds * scale * K[j * D + c];
        // query]
    }
    delta[i] = row_delta;
    for (int c = 0; c < D; ++c) dQ[i * D + c] = dq[c];
}

// dK and dV, both [M][D]; the other arrays as above, delta as backward_dq left it.
// Launch ceil(M / 128) blocks of 128 threads, after backward_dq.
extern "C" __global__ void __launch_bounds__(128)
backward_dkdv(const float* Q, const float* K, const float* V, const float* dO, const float* L,
              const float* delta, float* dK, float* dV, int N, int M, float scale) {
    int j = blockIdx.x * 128 + threadIdx.x;
    if (j >= M) return;
    float k[D], v[D], dk[D] = {}, dv[D] = {};
    for (int c = 0; c < D; ++c) {
        k[c] = K[j * D + c];
        v[c] = V[j * D + c];
    }
    for (int i = 0; i < N; ++i) {
        // [key
        float s = 0.0f, dp = 0.0f;
        for (int c = 0; c < D; ++c) {
            s += Q[i * D + c] * k[c];
            dp += dO[i * D + c] * v[c];
        }
        float p = expf(s * scale - L[i]);
        float ds = p * (dp - delta[i]);
        for (int c = 0; c < D; ++c) {
            dv[c] += p * dO[i * D + c];
            dk[c] += ds * scale * Q[i * D + c];
        }
        // key]
    }
    for (int c = 0; c < D; ++c) {
        dK[j * D + c] = dk[c];
        dV[j * D + c] = dv[c];
    }
}
"""


def simple_kernels(d):
    names = "backward_dq", "backward_dkdv"
    return [Kernel(SIMPLE, name, defines={"D": d}) for name in names]


DQ, DKDV = simple_kernels(1)

# %%
DQ.region("query")

# %%
DKDV.region("key")

# %% [markdown]
# Run both on one query and two keys, with $q$ = 1, scores 1 and 3, values 10 and 20, and $dO$ = 1. Then $\delta$ equals
# the output, $dV$ holds the weights, and $dK$ equals $dS$: what one key gains, the other loses.

# %%
Q, K, V = np.float32([[1]]), np.float32([[1], [3]]), np.float32([[10], [20]])
L = np.log(np.exp(K[:, 0]).sum(keepdims=True))
P = np.exp(K[:, 0] - L)
O, dO = np.float32([P @ V]), np.ones((1, 1), np.float32)
delta, dQ, dK, dV = (np.zeros_like(one) for one in (L, Q, K, V))
DQ(Q, K, V, O, dO, L, delta, dQ, 1, 2, 1.0, grid=1, block=128)
DKDV(Q, K, V, dO, L, delta, dK, dV, 1, 2, 1.0, grid=1, block=128)
print("delta, dQ:", delta.round(2), dQ[0].round(2))
print("dK, dV:", dK.ravel().round(2), dV.ravel().round(2))

# %% fold="Code of the checks and of the numbers"
from tilewise import Table, agree, bf16, case, ceil_div, check, expect_hazard, normal, output, tensor_map
from tilewise.kernel.chains import run_chain
from tilewise.kernel.edits import edited
from tilewise.measurements import printed_errors, printed_rows, recorded_device
from tilewise.measurements.archive import Archive, lesson_root

of_text = [delta, dV[:, 0], dK[:, 0]]
wanted = [O[0], P, P * (V[:, 0] - delta)]
assert all(np.allclose(*one, atol=1e-4) for one in zip(of_text, wanted, strict=True)), "the text says so"
assert abs(dK.sum()) < 1e-4, "the text says that they cancel"


def forward(Q, K, V, scale, causal=False):
    """O and L of one head in 64-bit floats."""
    Q, K, V = (one.astype(np.float64) for one in (Q, K, V))
    S = Q @ K.T * scale
    if causal:
        S = np.where(np.tri(len(Q), dtype=bool), S, -np.inf)
    m = S.max(axis=1, keepdims=True)
    L = (m + np.log(np.exp(S - m).sum(axis=1, keepdims=True)))[:, 0]
    return np.exp(S - L[:, None]) @ V, L


def gradients(Q, K, V, dO, scale, causal=False):
    """The gradients of one head in 64-bit floats, every matrix stored."""
    Q, K, V, dO = (one.astype(np.float64) for one in (Q, K, V, dO))
    S = Q @ K.T * scale
    if causal:
        S = np.where(np.tri(len(Q), dtype=bool), S, -np.inf)
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    dP = dO @ V.T
    dS = P * (dP - (P * dP).sum(axis=1, keepdims=True)) * scale
    return {"dQ": dS @ K, "dK": dS.T @ Q, "dV": P.T @ dO}


def simple_case(N, M, d, stretch=1.0):
    """One head for both kernels, with O and L of a forward pass."""
    inputs = case(Q=normal(N, d, scale=stretch), K=normal(M, d), V=normal(M, d), dO=normal(N, d)).make()
    O, L = forward(*(inputs[one] for one in "QKV"), d**-0.5)
    inputs |= {"O": O.astype(np.float32), "L": L.astype(np.float32), "delta": output(N)}
    inputs |= {"dQ": output(N, d), "dK": output(M, d), "dV": output(M, d)}
    return case(1, 128, **inputs, N=N, M=M, scale=d**-0.5)


def both(inputs, d):
    """The launches of both kernels."""
    sizes = inputs.values["N"], inputs.values["M"]
    return [
        kernel.on(inputs, grid=ceil_div(size, 128), block=128)
        for kernel, size in zip(simple_kernels(d), sizes, strict=True)
    ]


SHAPES = {"19 queries, 45 keys": (19, 45, 8), "131 queries, 3 keys": (131, 3, 5)}
for name, shape in SHAPES.items():
    arrays = run_chain(both(simple_case(*shape), shape[2]))
    right = gradients(*(arrays[one] for one in ("Q", "K", "V", "dO")), arrays["scale"])
    for one, wanted in right.items():
        check(arrays[one], wanted, atol=3e-5, name=f"{one} against 64-bit NumPy: {name}")


def with_delta(shape):
    """The case of the second kernel: delta as the first one left it."""
    inputs = simple_case(*shape)
    arrays = inputs.make()
    both(inputs, shape[2])[0].run(arrays)
    return case(1, 128, **{**inputs.values, "delta": arrays["delta"]})


EIGHT = (19, 45, 8), (33, 7, 8)
of_dq, of_dkdv = simple_kernels(8)
agree(backward_dq, of_dq, [simple_case(*shape) for shape in EIGHT], rtol=1e-4, atol=3e-5)
agree(backward_dkdv, of_dkdv, [with_delta(shape) for shape in EIGHT], rtol=1e-4, atol=3e-5)

# The formulas themselves: move Q, K and V a little and see how far the sum of dO times O goes.
arrays = simple_case(19, 45, 8).make()
random = np.random.default_rng(3)
ways = {name: random.normal(size=arrays[name].shape) for name in "QKV"}


def result_moved(step):
    moved = [arrays[name] + step * ways[name] for name in "QKV"]
    return (arrays["dO"] * forward(*moved, arrays["scale"])[0]).sum()


slope = (result_moved(1e-5) - result_moved(-1e-5)) / 2e-5
found = gradients(*(arrays[one] for one in ("Q", "K", "V", "dO")), arrays["scale"])
by_gradients = sum((found["d" + name] * ways[name]).sum() for name in "QKV")
check(by_gradients, slope, rtol=1e-6, name="the gradients against a central difference")

# %% [markdown]
# Run both kernels. In each, which of the two sizes adds threads, and which one makes each thread's loop longer?

# %% fold="Code of the run"
from tilewise import try_it


def one_head(queries, keys, threads):
    rows = {name: normal(queries, 8) for name in ("Q", "O", "dO")} | {name: normal(keys, 8) for name in "KV"}
    made = {"dQ": output(queries, 8), "dK": output(keys, 8), "dV": output(keys, 8)}
    sizes = {"L": normal(queries), "delta": normal(queries), "N": queries, "M": keys, "scale": 8**-0.5}
    return case(ceil_div(threads, 128), 128, **rows, **made, **sizes)


try_it(
    {
        "dQ": lambda queries, keys: one_head(queries, keys, queries),
        "dK and dV": lambda queries, keys: one_head(queries, keys, keys),
    },
    {"dQ": of_dq, "dK and dV": of_dkdv},
    queries=(1, 19, 64),
    keys=(1, 45, 64),
)

# %% [markdown]
# ## One kernel, five GEMMs
#
# A single kernel can compute every tile of $S$ and $dP$ just once. As in
# [FlashAttention-2](https://arxiv.org/abs/2307.08691), one block holds 128 keys and their values and loops over the
# queries in tiles of 64. Its $dK$ and $dV$ stay in registers until the end. $dQ$ can't, since every block contributes
# to every query tile. It's accumulated in FP32 in device memory: the TMA instruction `cp.reduce.async.bulk` adds a
# whole tile from shared memory, and the L2 does the additions.
#
# The block is [warp-specialised](hopper.py): a producer warp loads the query tiles, and each of two consumer warpgroups
# owns 64 keys.

# %% [markdown]
# ## Sᵀ instead of S: operands that stay in registers
#
# `wgmma` can take operand A from registers, [in the layout of an
# accumulator](../matmul/wgmma.py#a-from-registers-d-of-one-wgmma-is-a-of-the-next). So compute the transposed scores,
# $S^T = KQ^T$, with keys as rows. Then $P^T$ and $dS^T$ are in registers as A operands of $dV$ and $dK$. Only $dQ$
# needs $dS$ in the other orientation. `stmatrix` writes $dS^T$ to shared memory once, where both warpgroups read it as
# an MN-major operand; each computes half of the columns of $dQ$.

# %% fold="Code of the table"
GEMMS = (  # result, M, N and K for one warpgroup and query tile, A, B, accumulators
    ("Sᵀ = K Qᵀ", (64, 64, 128), "K, K-major", "Q, K-major"),
    ("dPᵀ = V dOᵀ", (64, 64, 128), "V, K-major", "dO, K-major"),
    ("dV += Pᵀ dO", (64, 128, 64), "Pᵀ, registers", "dO, MN-major"),
    ("dK += dSᵀ Q", (64, 128, 64), "dSᵀ, registers", "Q, MN-major"),
    ("dQ = dS K", (64, 64, 128), "dS, MN-major", "K, MN-major"),
)
show(
    Table(
        ["GEMM", "m×n×k", "A", "B", "registers"],
        [
            [name.replace(" ", "\u00a0"), "×".join(map(str, shape)), a, b, shape[0] * shape[1] // 128]
            for name, shape, a, b in GEMMS
        ],
        caption="The five GEMMs of one consumer warpgroup for one query tile. A and B are in shared memory, K-major or MN-major, unless marked as registers. The last column gives the registers per thread for the accumulators.",
    )
)

# %% [markdown]
# The accumulators also fix the tile size. Throughout the loop, those of $dK$ and $dV$ occupy 128 of the 240 registers
# that `setmaxnreg` grants. With 128 queries per tile, $S^T$ and $dP^T$ would take another 128, which is more than are
# left.


# %% tab="Pseudocode"
LOG2_E = np.log2(np.e)


def as_fragments(dq):
    """A tile of dQ in the order of wgmma's accumulators: half of d, group, thread, four elements."""
    tile = np.zeros((64, 128))
    tile[: len(dq)] = dq
    tile = tile.reshape(4, 2, 8, 2, 8, 4, 2).transpose(3, 4, 0, 2, 5, 1, 6)
    return tile.reshape(2, 8, 128, 4)


def as_rows(fragments):
    """The inverse."""
    tile = fragments.reshape(2, 8, 4, 8, 4, 2, 2).transpose(2, 5, 3, 0, 1, 4, 6)
    return tile.reshape(64, 128)


def prepare(O, dO, L, delta, lse, sums):
    heads, padded = lse.shape
    sums[:] = 0.0
    for h, i in parallel(heads, padded):
        # [prepare
        valid = i < O.shape[1]
        delta[h, i] = O[h, i] @ dO[h, i] if valid else 0.0
        lse[h, i] = L[h, i] * LOG2_E if valid and L[h, i] > -np.inf else np.inf
        # prepare]


def backward(Q, dO, K, V, dK, dV, lse, delta, sums, scale):
    heads, N, d = Q.shape
    for h in parallel(heads):
        for keys in tiles(N, 128):
            dk, dv = np.zeros((2, len(keys), d))
            # [producer
            for m, rows in enumerate(tiles(N, 64)):
                q, do = Q[h, rows], dO[h, rows]
                # producer]
                # [scores
                s, dp = K[h, keys] @ q.T, V[h, keys] @ do.T
                # scores]
                # [weights
                p = 2.0 ** (s * (scale * LOG2_E) - lse[h, rows])
                # weights]
                # [dv
                dv += p @ do
                # dv]
                # [ds
                ds = p * (dp - delta[h, rows])
                # ds]
                # [dq
                sums[h, m] += as_fragments(ds.T @ K[h, keys])
                dk += ds @ q
                # dq]
            # [epilogue
            dK[h, keys], dV[h, keys] = dk * scale, dv
            # epilogue]


def finish(sums, dQ, scale):
    heads, N = dQ.shape[:2]
    for h in parallel(heads):
        # [finish
        for m, rows in enumerate(tiles(N, 64)):
            dQ[h, rows] = as_rows(sums[h, m])[: len(rows)] * scale
        # finish]


# %% tab="CUDA C"
BACKWARD = r"""
#include "hopper.cuh"
#define QUERIES 64  // per tile
#define KEYS 128    // per block
#define D 128
#define STAGES 2
#define Q_BYTES (QUERIES * D * 2)
#define K_BYTES (KEYS * D * 2)

static __device__ void named_barrier(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
// `rows` rows of D elements, in two boxes of 64 columns: a 128-byte swizzle allows no wider ones
static __device__ void load_tile(unsigned char* to, const TensorMap* map, int rows,
                            int row, int head, u64* bar) {
    for (int c = 0; c < D; c += 64)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                     :: "r"(smem_addr(to) + c / 64 * rows * 128), "l"(map), "r"(smem_addr(bar)),
                        "r"(c), "r"(row), "r"(head) : "memory");
}
static __device__ void bulk_load(float* to, const float* from, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(smem_addr(to)), "l"(from), "n"(QUERIES * 4), "r"(smem_addr(bar))
                 : "memory");
}
static __device__ void tma_store_3d(const TensorMap* map, const unsigned char* from,
                             int column, int row, int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(smem_addr(from)), "r"(column), "r"(row), "r"(head)
                 : "memory");
}
// An operand for wgmma: its address and two byte offsets, in units of 16 bytes.
static __device__ u64 descriptor(const void* p, int leading) {
    return (u64)(smem_addr(p) & 0x3ffff) >> 4 | (u64)(leading >> 4) << 16
         | (u64)(1024 >> 4) << 32 | 1ull << 62;  // stride; 128-byte swizzle
}
// d += A B^T, 64 x 16 times 16 x 64, both operands K-major. accumulate = 0: d = A B^T.
static __device__ void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, "
        "%32, %33, p, 1, 1, 0, 0;\n}" : HOPPER_D32 : "l"(a), "l"(b), "r"(accumulate));
}
// The same with both operands MN-major: 16 keys are the rows of A and B in shared memory.
static __device__ void wgmma_m64n64k16_mn(float (&d)[32], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, "
        "%32, %33, p, 1, 1, 1, 1;\n}" : HOPPER_D32 : "l"(a), "l"(b), "r"(accumulate));
}
// d += A B, 64 x 16 times 16 x D, A from registers, B MN-major.
static __device__ void wgmma_m64n128k16_rs(float (&d)[64], const unsigned* a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64
        "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : HOPPER_D64 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
static __device__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Four 8 x 8 matrices from registers to rows of 128 bytes, with the 128-byte swizzle.
static __device__ void stmatrix_x4(unsigned char* tile, int row, int chunk,
                           unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(smem_addr(tile) + row * 128 + (chunk ^ row % 8) * 16),
                    "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// [prepare
// delta = the row sums of dO * O, lse = L log2(e), sums = 0.
// O and dO: BF16 [heads][N][128], 16-byte aligned. L: [heads][N], natural logarithm. delta and lse: [heads][padded],
// sums: [heads][padded][128]; padded is N rounded up to a multiple of 64.
// A row without keys, for which the forward pass leaves L = -infinity, gets lse = +infinity, and so does a
// row beyond N: exp2(s - lse) is then 0. Grid: (padded / 16, heads). Block: 256, 8 elements per thread.
extern "C" __global__ void __launch_bounds__(256)
prepare(const Bf16* O, const Bf16* dO, const float* L, float* delta, float* lse,
        float* sums, int N, int padded) {
    int row = (blockIdx.x * 256 + threadIdx.x) / 16, part = threadIdx.x % 16;
    if (row >= padded) return;
    size_t from = (size_t)blockIdx.y * N + row, to = (size_t)blockIdx.y * padded + row;
    float sum = 0.0f;
    if (row < N) {
        uint4 a = ((const uint4*)O)[from * 16 + part];
        uint4 b = ((const uint4*)dO)[from * 16 + part];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned x = (&a.x)[i], y = (&b.x)[i];
            sum += __uint_as_float(x << 16) * __uint_as_float(y << 16)
                 + __uint_as_float(x & 0xFFFF0000u) * __uint_as_float(y & 0xFFFF0000u);
        }
    }
    for (int offset = 8; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (part == 0) {
        delta[to] = sum;
        float l = row < N ? L[from] : -INFINITY;  // as a row without keys
        lse[to] = l > -INFINITY ? l * 1.44269504f : INFINITY;
    }
    float4* zeros = (float4*)(sums + to * D) + part * 2;
    zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}
// prepare]

// dK and dV in BF16, dQ accumulated in sums (FP32, in the order of wgmma's fragments; finish converts it).
// Tensor maps of BF16 [heads][N][128] with a 128-byte swizzle: boxes of 64 x 64 for Q, dO, dK and dV,
// of 128 x 64 for K and V. As many keys as queries; any N: what is missing arrives as zeros.
// Grid: (ceil(N / 128), heads), or with heads_first = 1 (heads, ceil(N / 128)). Block: 384, a producer
// and two consumer warpgroups. Dynamic shared memory: 180,224 bytes. sm_90a only. No mask but the causal
// one, no dropout, no grouped query heads, d = 128 only. dQ isn't deterministic in its last bits.
extern "C" __global__ void __launch_bounds__(384, 1)
backward(const __grid_constant__ TensorMap q_map,
         const __grid_constant__ TensorMap do_map,
         const __grid_constant__ TensorMap k_map,
         const __grid_constant__ TensorMap v_map,
         const __grid_constant__ TensorMap dk_map,
         const __grid_constant__ TensorMap dv_map,
         const float* lse, const float* delta, float* sums,
         int padded, float scale, int causal, int heads_first) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(16) float smem_lse[STAGES][QUERIES], smem_delta[STAGES][QUERIES];
    __shared__ __align__(8) u64 kv_full;
    __shared__ __align__(8) u64 q_full[STAGES], q_empty[STAGES];
    __shared__ __align__(8) u64 do_full[STAGES], do_empty[STAGES];
    unsigned char *k = smem, *v = k + K_BYTES, *q = v + K_BYTES;  // g: dO
    unsigned char *g = q + STAGES * Q_BYTES, *smem_ds = g + STAGES * Q_BYTES;
    unsigned char *smem_dq = smem_ds + QUERIES * KEYS * 2;
    int warpgroup = threadIdx.x / 128, tid = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        mbarrier_init(&kv_full, 1);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&q_full[s], 1);
            mbarrier_init(&do_full[s], 1);
            mbarrier_init(&q_empty[s], 2);
            mbarrier_init(&do_empty[s], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int head = heads_first ? blockIdx.x : blockIdx.y;
    int j0 = (heads_first ? blockIdx.y : blockIdx.x) * KEYS;
    int first = causal ? j0 / QUERIES : 0, tiles = padded / QUERIES;
    size_t row0 = (size_t)head * padded;
    if (warpgroup == 0) {
        // [producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (tid > 0) return;
        mbarrier_arrive_expect_tx(&kv_full, 2 * K_BYTES);
        load_tile(k, &k_map, KEYS, j0, head, &kv_full);
        load_tile(v, &v_map, KEYS, j0, head, &kv_full);
        for (int m = first, step = 0; m < tiles; ++m, ++step) {
            int s = step % STAGES, empty_parity = ~(step / STAGES) & 1, i0 = m * QUERIES;
            mbarrier_wait(&q_empty[s], empty_parity);
            mbarrier_arrive_expect_tx(&q_full[s], Q_BYTES + QUERIES * 4);
            load_tile(q + s * Q_BYTES, &q_map, QUERIES, i0, head, &q_full[s]);
            bulk_load(smem_lse[s], lse + row0 + i0, &q_full[s]);
            mbarrier_wait(&do_empty[s], empty_parity);
            mbarrier_arrive_expect_tx(&do_full[s], Q_BYTES + QUERIES * 4);
            load_tile(g + s * Q_BYTES, &do_map, QUERIES, i0, head, &do_full[s]);
            bulk_load(smem_delta[s], delta + row0 + i0, &do_full[s]);
        }
        // producer]
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int half = warpgroup - 1, lane = threadIdx.x % 32, warp = tid / 32;
    int row = warp * 16 + lane % 16, column = lane % 4 * 2;  // in a tile
    float scale_log2 = scale * 1.44269504f, dk[D / 2] = {}, dv[D / 2] = {};
    mbarrier_wait(&kv_full, 0);
    for (int m = first, step = 0; m < tiles; ++m, ++step) {
        int s = step % STAGES, parity = step / STAGES & 1;
        unsigned char *q_tile = q + s * Q_BYTES, *do_tile = g + s * Q_BYTES;
        // [scores
        float p[QUERIES / 2], dp[QUERIES / 2];
        mbarrier_wait(&q_full[s], parity);
        wgmma_fence();
        #pragma unroll
        for (int c = 0; c < 8; ++c)  // S^T: 64 keys by 64 queries
            wgmma_m64n64k16(p, descriptor(k + c / 4 * 16384 + half * 8192 + c % 4 * 32, 16),
                    descriptor(q_tile + c / 4 * 8192 + c % 4 * 32, 16), c);
        wgmma_commit();
        mbarrier_wait(&do_full[s], parity);
        wgmma_fence();
        #pragma unroll
        for (int c = 0; c < 8; ++c)
            wgmma_m64n64k16(dp, descriptor(v + c / 4 * 16384 + half * 8192 + c % 4 * 32, 16),
                    descriptor(do_tile + c / 4 * 8192 + c % 4 * 32, 16), c);
        wgmma_commit();
        // scores]
        // [weights
        wgmma_wait<1>(p);
        unsigned w[QUERIES / 4];  // P^T in BF16, as A of the next GEMM
        #pragma unroll
        for (int i = 0; i < 32; ++i)
            p[i] = exp2_approx(p[i] * scale_log2
                               - smem_lse[s][i / 4 * 8 + column + i % 2]);
        if (causal && m < first + KEYS / QUERIES) {
            int key = j0 + half * 64 + warp * 16 + lane / 4;
            #pragma unroll
            for (int i = 0; i < 32; ++i)
                if (key + i / 2 % 2 * 8 > m * QUERIES + i / 4 * 8 + column + i % 2)
                    p[i] = 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 16; ++i) w[i] = pack_bf16x2(p[2 * i], p[2 * i + 1]);
        // weights]
        // [dv
        wgmma_wait<0>(dp);
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            wgmma_m64n128k16_rs(dv, w + 4 * i, descriptor(do_tile + i * 2048, 8192));
        wgmma_commit();
        // dv]
        // [ds
        unsigned e[QUERIES / 4];  // dS^T in BF16, as A of dK's GEMM
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
            float2 d = *(float2*)&smem_delta[s][i / 4 * 8 + column];
            e[i / 2] = pack_bf16x2(p[i] * (dp[i] - d.x),
                                   p[i + 1] * (dp[i + 1] - d.y));
        }
        named_barrier(2, 256);  // both warpgroups have read the previous dS
        #pragma unroll
        for (int i = 0; i < 16; i += 4)
            stmatrix_x4(smem_ds + half * 8192, row, i / 2 + lane / 16,
                e[i], e[i + 1], e[i + 2], e[i + 3]);
        fence_proxy_async();
        named_barrier(3, 256);  // both halves of dS are complete
        // ds]
        // [dq
        float dq[D / 4];  // 64 queries by half of D
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
            wgmma_m64n64k16_mn(dq, descriptor(smem_ds + i * 2048, 8192),
                   descriptor(k + half * 16384 + i * 2048, 16384), i);
        wgmma_commit();
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            wgmma_m64n128k16_rs(dk, e + 4 * i, descriptor(q_tile + i * 2048, 8192));
        wgmma_commit();
        wgmma_wait<1>(dq);
        if (tid == 0) mbarrier_arrive(&do_empty[s]);
        float* to = sums + (row0 + m * QUERIES) * D + half * (QUERIES * D / 2);
        float4* dq_tile = (float4*)(smem_dq + half * (QUERIES * D * 2));
        if (tid == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        named_barrier(4 + half, 128);  // the previous tile of dQ has been read
        #pragma unroll
        for (int i = 0; i < D / 16; ++i)
            dq_tile[i * 128 + tid] =
                make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
        fence_proxy_async();
        named_barrier(4 + half, 128);
        if (tid == 0) {
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
                         "[%0], [%1], %2;"
                         :: "l"(to), "r"(smem_addr(dq_tile)), "n"(QUERIES * D * 2) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        wgmma_wait<0>(dk);
        if (tid == 0) mbarrier_arrive(&q_empty[s]);
        // dq]
    }
    // [epilogue
    wgmma_wait<0>(dv);
    wgmma_wait<0>(dk);
    named_barrier(2, 256);  // k and v are free: dK and dV reuse their memory
    #pragma unroll
    for (int i = 0; i < D / 2; i += 8) {
        int tile = i / 32 * 16384 + half * 8192, chunk = i / 4 % 8 + lane / 16;
        const float *x = dk + i, *y = dv + i;
        stmatrix_x4(k + tile, row, chunk, pack_bf16x2(x[0] * scale, x[1] * scale),
            pack_bf16x2(x[2] * scale, x[3] * scale), pack_bf16x2(x[4] * scale, x[5] * scale),
            pack_bf16x2(x[6] * scale, x[7] * scale));
        stmatrix_x4(v + tile, row, chunk, pack_bf16x2(y[0], y[1]), pack_bf16x2(y[2], y[3]),
            pack_bf16x2(y[4], y[5]), pack_bf16x2(y[6], y[7]));
    }
    fence_proxy_async();
    named_barrier(4 + half, 128);
    if (tid > 0) return;
    for (int c = 0; c < 2; ++c) {
        int tile = c * 16384 + half * 8192;
        tma_store_3d(&dk_map, k + tile, 64 * c, j0 + half * 64, head);
        tma_store_3d(&dv_map, v + tile, 64 * c, j0 + half * 64, head);
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    // epilogue]
}

// [finish
// dQ = scale * sums, BF16 [heads][N][128]. A tile of sums has two halves of D, and a half has 8 x 128
// groups of four accumulators, two from each of two rows that are 8 apart.
// Grid: (padded / 64, 2, heads). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
finish(const float* sums, Bf16* dQ, float scale, int N, int padded) {
    int i0 = blockIdx.x * QUERIES, half = blockIdx.y, t = threadIdx.x;
    const float4* from = (const float4*)(sums + ((size_t)blockIdx.z * padded + i0) * D)
                       + half * (QUERIES * D / 8);
    int row = i0 + t / 32 * 16 + t % 32 / 4;
    #pragma unroll
    for (int i = 0; i < D / 16; ++i) {
        float4 x = from[i * 128 + t];
        int column = half * (D / 2) + i * 8 + t % 4 * 2;
        unsigned* to = (unsigned*)(dQ + ((size_t)blockIdx.z * N + row) * D + column);
        if (row < N) *to = pack_bf16x2(x.x * scale, x.y * scale);
        if (row + 8 < N) to[4 * D] = pack_bf16x2(x.z * scale, x.w * scale);
    }
}
// finish]
"""
OPTIONS = ("-std=c++17", "-arch=sm_90a")
SHARED_BYTES = 2 * 128 * 128 * 2 + 2 * 2 * 64 * 128 * 2 + 64 * 128 * 2 + 64 * 128 * 4


PREPARE, HOPPER, FINISH = (
    Kernel(BACKWARD, name, options=OPTIONS) for name in ("prepare", "backward", "finish")
)

# %% [markdown]
# Here are the two steps between the GEMMs: first $P^T$ from $S^T$ and $L$, with the causal mask, then $dS^T$ from
# $P^T$, $dP^T$ and $\delta$. Each lane's fragment covers two keys and sixteen queries.

# %%
HOPPER.region("weights")

# %%
HOPPER.region("ds")

# %% [markdown]
# Two named barriers protect the shared copy of $dS$. Once both warpgroups have reached the first one, they have read
# the previous tile and may overwrite it. Once they have reached the second, both halves of the new tile are complete.
# The proxy fence between them makes the stores visible to `wgmma`. Remove the second barrier, and the simulator reports
# a race at the GEMM for $dQ$:

# %% fold="Code of the checks"


def hopper_case(heads, N, causal=False, heads_first=False, **more):
    """A case for all three kernels; what a forward pass leaves is computed in 64-bit floats."""
    inputs = {name: normal(heads, N, 128, dtype="bfloat16") for name in ("Q", "K", "V", "dO")}
    arrays = case(**inputs).make()
    wide = (bf16.values(arrays[name]) for name in "QKV")
    results = [forward(*one, 128**-0.5, causal) for one in zip(*wide, strict=True)]
    O, L = (np.stack(one) for one in zip(*results, strict=True))
    padded = ceil_div(N, 64) * 64
    made = {"O": bf16.bits(O), "L": L.astype(np.float32)}
    made |= {name: output(heads, N, 128, dtype="bfloat16") for name in ("dQ", "dK", "dV")}
    made |= {"delta": output(heads, padded), "lse": output(heads, padded)}
    made |= {"sums": output(heads, padded // 64, 2, 8, 128, 4)}
    maps = {
        f"{name.lower()}_map": tensor_map(name, box=(1, rows, 64), swizzle=128, dtype="bfloat16")
        for name, rows in {"Q": 64, "dO": 64, "K": 128, "V": 128, "dK": 64, "dV": 64}.items()
    }
    sizes = {"N": N, "padded": padded, "scale": 128**-0.5}
    sizes |= {"causal": int(causal), "heads_first": int(heads_first)}
    return case(**{**inputs, **made, **maps, **sizes, **more})


def launches(inputs):
    """prepare, backward and finish for a case."""
    heads, N, _ = inputs.values["dQ"].shape
    padded, blocks = inputs.values["padded"], (ceil_div(N, 128), heads)
    blocks = blocks[::-1] if inputs.values["heads_first"] else blocks
    return [
        PREPARE.on(inputs, grid=(padded // 16, heads), block=256),
        HOPPER.on(inputs, grid=blocks, block=384, shared_bytes=SHARED_BYTES),
        FINISH.on(inputs, grid=(padded // 64, 2, heads), block=128),
    ]


for heads, N, causal in ((2, 200, False), (3, 328, True), (1, 64, False)):
    inputs = hopper_case(heads, N, causal, heads_first=heads == 3)
    arrays = run_chain(launches(inputs))
    wide = (bf16.values(arrays[name]) for name in ("Q", "K", "V", "dO"))
    right = [gradients(*one, 128**-0.5, causal) for one in zip(*wide, strict=True)]
    off = [
        max(
            np.abs(bf16.values(arrays[name][h]).astype(np.float64) - one[name]).max()
            for h, one in enumerate(right)
        )
        / max(np.abs(one[name]).max() for one in right)
        for name in ("dQ", "dK", "dV")
    ]
    shape = f"{heads} heads, {N} tokens, {'causal' if causal else 'no mask'}"
    check(off, [0.0] * 3, atol=2**-6, name=f"relative errors of dQ, dK and dV: {shape}")


def next_case(heads, N, at):
    """A case of the kernel with index `at`, with what those before it leave as inputs."""
    given = {"O": normal(heads, N, 128, dtype="bfloat16")} if at == 0 else {}
    inputs = hopper_case(heads, N, **given)
    chain, arrays = launches(inputs), inputs.make()
    for launch in chain[:at]:
        launch.run(arrays)
    left = {name: arrays[name] for name in [(), ("delta", "lse", "sums"), ("sums",)][at]}
    return case(chain[at].grid, chain[at].block, chain[at].shared_bytes, **{**inputs.values, **left})


SIZES = ((2, 200), (1, 72))
agree(prepare, PREPARE, [next_case(*size, 0) for size in SIZES], rtol=1e-4, atol=1e-4)
agree(backward, HOPPER, [next_case(*size, 1) for size in SIZES], rtol=2e-2, atol=2e-2)
agree(finish, FINISH, [next_case(*size, 2) for size in SIZES], rtol=2**-8, atol=1e-6)

# A query without a key, as the forward pass leaves it: zeros, and L of minus infinity.
inputs = hopper_case(1, 64)
arrays = inputs.make()
arrays["O"][0, 5], arrays["L"][0, 5] = 0, -np.inf
arrays = run_chain(launches(case(**{**inputs.values, "O": arrays["O"], "L": arrays["L"]})))
left = {name: bf16.values(arrays[name]) for name in ("dQ", "dK", "dV")}
check(
    [np.isfinite(one).all() for one in left.values()],
    [True] * 3,
    name="gradients with an empty row are finite",
)
check(left["dQ"][0, 5], np.zeros(128), name="dQ of the query without a key")

faulty = HOPPER.on(next_case(1, 200, 1))
expect_hazard(edited(faulty, ("named_barrier(3, 256);", "")), "race", line_with="wgmma_m64n64k16_mn(dq, desc")

# %% [markdown]
# ## Roofline bounds: tensor cores and shared memory
#
# For a tile of 64 queries and 128 keys, the five GEMMs take an SM's tensor cores {{ tile.tensor | ,.0f }} cycles. At
# their peak of {{ tile.peak | .0f }} TFLOP/s (data sheet), our 64 heads of 4,096 tokens would take
# {{ tile.ideal_us | us }}.
#
# Shared memory needs even more cycles. If `wgmma`, like ordinary loads, reads 128 bytes per cycle, the shared-memory
# traffic takes {{ tile.shared | ,.0f }} cycles per tile, or {{ tile.shared_us | us }} in total. The GEMMs for $S^T$,
# $dP^T$ and $dQ$ have both operands in shared memory and 64 × 64 accumulator tiles, so they read 128 bytes per cycle;
# larger tiles don't fit in registers. The total includes the writes of $Q$, $dO$, $dS$ and $dQ$, and the TMA's read of
# $dQ$.

# %% fold="Code of the numbers"
from tilewise import gpu_here

GPU = recorded_device()
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
PER_CYCLE = 2 * GPU.fma_per_sm_clock["bf16_matrix"]
PAIRS = 64 * 128  # queries and keys of a tile
TENSOR_CYCLES = 5 * 2 * PAIRS * 128 / PER_CYCLE
OPERAND = 64 * 128 * 2  # bytes of an operand of one warpgroup's GEMM
OPERANDS = 2 * (3 * 2 + 2) * OPERAND  # two warpgroups; two of the five GEMMs have A in registers
# Q and dO are written, dS is written, and dQ in FP32 is written and read
SHARED_CYCLES = (OPERANDS + 3 * OPERAND + 2 * 64 * 128 * 4) / 128
assert SHARED_CYCLES > TENSOR_CYCLES, "the text says that shared memory needs more"
BATCH, TOKENS, HEADS = 4, 4096, 16


def flop(N, causal):
    """Operations of the five GEMMs for 16,384 tokens; half of them under a causal mask."""
    return 10 * (16384 // N) * HEADS * N * N * 128 / (2 if causal else 1)


publish(
    tile={
        "tensor": TENSOR_CYCLES,
        "ideal_us": flop(TOKENS, False) / PEAK / 1e6,
        "shared": SHARED_CYCLES,
        "shared_us": flop(TOKENS, False) / PEAK / 1e6 * SHARED_CYCLES / TENSOR_CYCLES,
        "peak": PEAK,
        "stored_gb": BATCH * HEADS * TOKENS**2 * 2 / 1e9,
        "kept_mb": 2 * BATCH * HEADS * TOKENS * 4 / 1e6,
    }
)

# %% [markdown]
# ## Against FlashAttention-2 and cuDNN
#
# We time the backward pass of PyTorch's three backends and of our kernels. Ours run with two block orders: *by head*
# (one head after the other, with the longest blocks of each head first) and *longest first* (across all heads).

# %% fold="Code that times gradients on a GPU" needs="gpu" record="gradients"
if gpu_here():
    from functools import partial

    import cupy
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    def bits_of(tensor):
        return cupy.asarray(tensor.detach().reshape(-1, *tensor.shape[2:]).view(torch.int16)).view("uint16")

    def logits(q, k, causal):
        found = q @ k.T * 128**-0.5
        if causal:
            above = torch.ones(found.shape, dtype=torch.bool, device="cuda").triu(1)
            found = found.masked_fill(above, -torch.inf)
        return found

    def taken(q, k, v, do, causal, backend):
        """torch's gradients as a function of no arguments, and its O."""
        with sdpa_kernel(getattr(SDPBackend, backend)):
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return partial(torch.autograd.grad, o, (q, k, v), do, retain_graph=True), o

    def enqueue(arrays, maps, N, causal, heads_first):
        heads, padded = arrays["lse"].shape
        scale, blocks = 128**-0.5, (ceil_div(N, 128), heads)
        between = [arrays[name] for name in ("delta", "lse", "sums")]
        PREPARE(
            arrays["O"], arrays["dO"], arrays["L"], *between, N, padded, grid=(padded // 16, heads), block=256
        )
        HOPPER(
            *maps,
            *(arrays[name] for name in ("lse", "delta", "sums")),
            padded,
            scale,
            int(causal),
            int(heads_first),
            grid=blocks[::-1] if heads_first else blocks,
            block=384,
            shared_bytes=SHARED_BYTES,
        )
        FINISH(arrays["sums"], arrays["dQ"], scale, N, padded, grid=(padded // 64, 2, heads), block=128)

    for N, causal in ((1024, False), (4096, False), (4096, True), (1000, True)):
        torch.manual_seed(N)
        shape = (16384 // N, HEADS, N, 128)
        q, k, v, do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        for one in (q, k, v):
            one.requires_grad_()
        calls, results = {}, {}
        for name, backend in (("cuDNN", "CUDNN_ATTENTION"), ("FLASH", "FLASH_ATTENTION"), ("MATH", "MATH")):
            calls[name], results[name] = taken(q, k, v, do, causal, backend)
        heads, padded = shape[0] * HEADS, ceil_div(N, 64) * 64
        arrays = {"Q": q, "K": k, "V": v, "dO": do, "O": results["cuDNN"]}
        arrays = {name: bits_of(one.contiguous()) for name, one in arrays.items()}
        rows = zip(q.detach().flatten(0, 1), k.detach().flatten(0, 1), strict=True)
        L = torch.stack([logits(a.float(), b.float(), causal).logsumexp(dim=-1) for a, b in rows])
        arrays["L"] = cupy.asarray(L)
        arrays |= {name: cupy.full((heads, N, 128), 0xFFFF, np.uint16) for name in ("dQ", "dK", "dV")}
        arrays |= {name: cupy.full((heads, padded), np.nan, np.float32) for name in ("delta", "lse")}
        arrays["sums"] = cupy.full((heads, padded, 128), np.nan, np.float32)
        maps = [
            tensor_map(arrays[name], box=(1, rows, 64), swizzle=128, dtype="bfloat16")
            for name, rows in (("Q", 64), ("dO", 64), ("K", 128), ("V", 128), ("dK", 64), ("dV", 64))
        ]
        what = f"{N} tokens, {'causal' if causal else 'full'}"
        for order in (False, True)[: 1 + causal]:
            label = "ours, heads first" if order else "ours"
            calls[label] = partial(enqueue, arrays, maps, N, causal, order)
        for label, call in calls.items():
            if label.startswith("ours"):
                call()
                given = [x.detach().flatten(0, 1)[3].double() for x in (q, k, v, do)]
                P = logits(*given[:2], causal).softmax(dim=-1)
                dP = given[3] @ given[2].T
                dS = P * (dP - (P * dP).sum(dim=-1, keepdim=True)) * 128**-0.5
                exact = {"dQ": dS @ given[1], "dK": dS.T @ given[0], "dV": P.T @ given[3]}
                theirs = dict(zip(exact, calls["cuDNN"](), strict=True))
                for name, right in exact.items():
                    got = torch.as_tensor(bf16.values(arrays[name][3]), device="cuda")
                    own_off, their_off = (
                        (x.double() - right).abs().max().item() for x in (got, theirs[name].flatten(0, 1)[3])
                    )
                    print(f"{what}, {label}: {name} off by {own_off:.3g}, cuDNN by {their_off:.3g}")
        contenders = [Contender(label, call) for label, call in calls.items()]
        plan = Plan(budget_s=0.4, repetitions=40)
        first, again = (time_contenders(contenders, plan) for _ in range(2))
        for one, other in zip(first, again, strict=True):
            print(
                f"{what}, {one.label}: {one.median:.1f} us [{one.p20:.1f}, {one.p80:.1f}], "
                f"again {other.median:.1f} us [{other.p20:.1f}, {other.p80:.1f}]"
            )
        del calls, results, contenders, arrays, maps, q, k, v, do, L, P, dP, dS, exact, theirs, given
        torch.cuda.empty_cache()

# %% fold="Code of the table and of the numbers"
TIMED = r"(\d+) tokens, (\w+), ([\w, ]+): ([\d.]+) us .+, again ([\d.]+) us"
HERE = "attention/masks_and_backward"
TIMES = {
    (int(N), mask, label): (first, again)
    for N, mask, label, first, again in printed_rows(HERE, "gradients", TIMED)
}
LABELS = {  # as the cell above prints them, and in full
    "MATH": "math (torch SDPA)",
    "FLASH": "FlashAttention-2 (torch SDPA)",
    "cuDNN": "cuDNN (torch SDPA)",
    "ours": "ours, by head",
    "ours, heads first": "ours, longest first",  # as recorded
}
SHAPES = ((1024, "full"), (4096, "full"), (4096, "causal"))


def us(N, mask, label):
    return TIMES[N, mask, label][0] if TIMES else np.nan


def reached(N, mask, label):
    """TFLOP/s of the five GEMMs, however many a kernel executes."""
    return flop(N, mask == "causal") / us(N, mask, label) / 1e6


if TIMES:
    for shape in SHAPES:
        assert reached(*shape, "cuDNN") > reached(*shape, "ours") > 1.5 * reached(*shape, "FLASH"), (
            "the text says that this kernel is behind cuDNN and ahead of FlashAttention-2"
        )
    for N in (1000, 4096):
        assert TIMES[N, "causal", "ours"] < TIMES[N, "causal", "ours, heads first"], (
            "a takeaway says that heads first is slower than by head"
        )
    show(
        Table(
            ["version", *(f"{N:,} tokens, {mask}" for N, mask in SHAPES)],
            [
                [
                    name,
                    *(
                        round(reached(*shape, label)) if (*shape, label) in TIMES else None
                        for shape in SHAPES
                    ),
                ]
                for label, name in LABELS.items()
            ],
            caption="TFLOP/s of the backward pass on an {machine}: 16,384 tokens in all, 16 heads, d = 128, BF16. Every version is credited with five GEMMs, and with half of their FLOPs under the causal mask.",
        )
    )


def printed_on(gpu):
    """What the cell above printed on a GPU."""
    record = Archive(lesson_root()).text_record(HERE, "gradients", device=gpu)
    assert record is not None, "the text quotes it"
    return {one[:3]: float(one[3]) for one in re.findall(rf"(?m)^{TIMED}", record.text)}


def slowdown(found, N):
    """How much longer heads first takes than by head."""
    return found[str(N), "causal", "ours, heads first"] / found[str(N), "causal", "ours"] - 1


H100_US, H200_US = map(printed_on, ("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
SLOWER, H200_SLOWER = slowdown(H100_US, 4096), slowdown(H200_US, 4096)
SHORT_SLOWER, H200_SHORT_SLOWER = slowdown(H100_US, 1000), slowdown(H200_US, 1000)
assert SLOWER > 2 * H200_SLOWER and SHORT_SLOWER > 2 * H200_SHORT_SLOWER, (
    "the text names the H100 because the loss is smaller on an H200, whose memory is faster"
)
assert abs(H200_SLOWER) < 0.03, "on an H200, the order costs almost nothing"
publish(
    seen={"cudnn_full_4096": us(4096, "full", "cuDNN"), "math_full_4096": us(4096, "full", "MATH")},
    rate={
        "of_peak": reached(4096, "full", "ours") / PEAK,
        "of_shared": reached(4096, "full", "ours") / PEAK * SHARED_CYCLES / TENSOR_CYCLES,
        "of_flash": reached(4096, "full", "ours") / reached(4096, "full", "FLASH"),
        "of_cudnn": reached(4096, "full", "ours") / reached(4096, "full", "cuDNN"),
        "causal_of_cudnn": reached(4096, "causal", "ours") / reached(4096, "causal", "cuDNN"),
        "cudnn_of_math": us(4096, "full", "MATH") / us(4096, "full", "cuDNN"),
    },
    order={
        "sms": GPU.sms,
        "all_mb": BATCH * HEADS * 2 * TOKENS * 128 * 2 / 1e6,
        "few": GPU.sms / (TOKENS / 128),
        "few_mb": GPU.sms * 128 * 2 * 128 * 2 / 1e6,
        "slower": SLOWER,
    },
    errors=printed_errors(HERE, "cuDNN", "gradients"),
)

# %% [markdown]
# **Without a mask and with blocks ordered *by head*, our backward pass reaches {{ rate.of_cudnn | .0% }} of cuDNN's
# throughput** at 4,096 tokens and is {{ rate.of_flash | .1f }}× faster than FlashAttention-2, which doesn't use
# `wgmma`. With a causal mask, it also reaches {{ rate.causal_of_cudnn | .0% }}. For every gradient, the largest error
# is at most {{ errors.worst_times | .1f }}× that of cuDNN.
#
# What limits our kernel? It reaches {{ rate.of_peak | .0% }} of the tensor cores' peak and, by our estimate,
# {{ rate.of_shared | .0% }} of what shared memory allows. Since neither is at its limit, the remaining suspect is
# latency: within a warpgroup, each step depends on the one before, from $S^T$ to $P^T$, $dS^T$, a barrier and finally
# $dQ$. [FlashAttention-3](https://arxiv.org/abs/2407.08608) shortens the chain: a separate warp adds $dQ$ to memory.
# Our consumers do that themselves, and before they store a tile of $dQ$, they wait until the TMA has read the previous
# one.

# %% [markdown]
# ## Block order: keep a head in L2
#
# Under a causal mask, the blocks with the first keys see all queries, and those with the last keys see only a few.
# *Longest first* would balance this load best. But on an H100, the kernel takes {{ order.slower | .0% }} longer in this
# order than when the blocks are ordered *by head*.
#
# The reason is L2. With *longest first*, blocks of all 64 heads run at the same time. Their $Q$ and $dO$
# alone take {{ order.all_mb | .0f }} MB, more than L2 holds. *By head*, the {{ order.sms }} SMs work on about
# {{ order.few | .0f }} heads at a time, whose $Q$ and $dO$ take {{ order.few_mb | .0f }} MB. So *longest first* reads
# {{ backward.times_read | .1f }}× as many bytes from DRAM, as counters on an H200 show.

# %% fold="Code that profiles both orders on a GPU" needs="gpu torch" record="counters"
if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of

    IN_USE = []  # arrays that the calls' tensor maps point to

    def backward_calls():
        """Calls of the main kernel in both orders and of cuDNN's backward pass, 4,096 and 1,024 tokens."""
        from functools import partial

        import cupy
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        calls = {}
        for N, causal in ((4096, True), (4096, False), (1024, True)):
            torch.manual_seed(N)
            shape = (16384 // N, HEADS, N, 128)
            heads, what = 16384 // N * HEADS, f"{N} tokens{', causal' * causal}"
            given = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
            for one in given[:3]:
                one.requires_grad_()
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                o = torch.nn.functional.scaled_dot_product_attention(*given[:3], is_causal=causal)
            calls[f"cuDNN, {what}"] = partial(torch.autograd.grad, o, given[:3], given[3], retain_graph=True)
            arrays = {
                name: cupy.asarray(one.detach().flatten(0, 1).contiguous().view(torch.int16)).view("uint16")
                for name, one in zip(("Q", "K", "V", "dO", "O"), (*given, o), strict=True)
            }
            arrays |= {name: cupy.zeros((heads, N, 128), np.uint16) for name in ("dK", "dV")}
            IN_USE.append(arrays)
            lse = cupy.full((heads, N), np.log(N) + 0.5, np.float32)  # about what it is
            between = [cupy.zeros((heads, N), np.float32) for _ in range(2)]
            between.append(cupy.zeros((heads, N, 128), np.float32))
            PREPARE(arrays["O"], arrays["dO"], lse, *between, N, N, grid=(N // 16, heads), block=256)
            maps = [
                tensor_map(arrays[name], box=(1, rows, 64), swizzle=128, dtype="bfloat16")
                for name, rows in (("Q", 64), ("dO", 64), ("K", 128), ("V", 128), ("dK", 64), ("dV", 64))
            ]
            delta, lse_log2, sums = between
            for order in (False, True)[: 1 + causal]:
                blocks = (N // 128, heads)
                calls[f"{'longest first' if order else 'by head'}, {what}"] = partial(
                    HOPPER,
                    *(*maps, lse_log2, delta, sums, N, 128**-0.5, int(causal), int(order)),
                    grid=blocks[::-1] if order else blocks,
                    block=384,
                    shared_bytes=SHARED_BYTES,
                )
        return calls

    print(table_of(profiled("attention/masks_and_backward", "counters", backward_calls)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import PEAK as OF_PEAK
from tilewise.measurements.profiling import printed_profiles

profiles = printed_profiles(HERE, "counters")  # recorded on an H200
FULL_RUN, BY_HEAD, LONGEST = (
    profiles[f"{label}, 4096 tokens{mask}"]
    for label, mask in (("by head", ""), ("by head", ", causal"), ("longest first", ", causal"))
)
HITS, READ = "lts__t_sector_hit_rate.pct", "dram__bytes_read.sum"
UNITS = (
    f"sm__pipe_tensor_cycles_active{OF_PEAK}active",
    f"l1tex__throughput{OF_PEAK}active",
    f"smsp__issue_active{OF_PEAK}active",
    f"lts__throughput{OF_PEAK}elapsed",
    f"dram__throughput{OF_PEAK}elapsed",
)
publish(backward={"times_read": LONGEST[READ] / BY_HEAD[READ]})
assert not max(FULL_RUN[unit] for unit in UNITS) > 70, "the text: no unit is at its limit"
assert not LONGEST[HITS] > 0.7 * BY_HEAD[HITS] and not LONGEST[READ] < 3 * BY_HEAD[READ], "the text: L2"

# %% [markdown]
# ## Takeaways
#
# - The backward pass has five GEMMs: one recomputes $S$, and four compute $dV$, $dP$, $dQ$ and $dK$. Nothing of size
#   N × N is stored, since $P = e^{S - L}$ and $\delta$ is the row sum of $dO \circ O$.
# - If you compute $S^T$ instead of $S$, then $P^T$ and $dS^T$ are already in registers, where `wgmma` wants them.
# - Count shared-memory cycles, too: with 64 × 64 accumulator tiles, this kernel needs more of them than tensor-core
#   cycles.
# - Balance isn't everything: the block order also decides what stays in L2.

# %% [markdown]
# ## In your own kernel
#
# Check the gradients against central differences in float64 before you optimise anything. If a different block order
# slows a kernel down, compare `lts__t_sector_hit_rate.pct` and `dram__bytes_read.sum` in Nsight Compute before and
# after.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "Soft-capped scores",
    """
    [Gemma 2](https://arxiv.org/abs/2408.00118) keeps its scores between $-cap$ and $cap$: it replaces the scaled score $s$ by
    $cap \\cdot \\tanh(s / cap)$ before the softmax. In the backward kernel, the variable `s` holds the *capped* score. By
    which expression, in terms of `s` and `cap`, must $dS$ be multiplied?
    """,
    hint="The derivative of tanh x is 1 - tanh² x, and s is already capped.",
    explanation="By `1 - s * s / (cap * cap)`. The derivative of $cap \\cdot \\tanh(x / cap)$ is $1 - \\tanh^2(x / cap)$, and the tanh is `s / cap`: no second tanh, and no stored uncapped score.",
)

# %% [markdown]
# [Attention masks and dropout](masks.py) covers sliding windows, packed documents and dropout. [Decoding](decoding.py)
# is about attention with a single query.
