# ---
# title: Attention without its matrices
# needs: [speed/occupancy, matmul/register_tiles, attention/softmax]
# summary: "Attention stores two matrices that nobody asked for, and reads them back. What if it never did?"
# description: "Kernel 6: flash attention, forward, in 32-bit floats: one row as tiles pass, two loop orders, keys split over blocks."
# date: 2026-11-21
# tags: [attention, flash attention, log-sum-exp]
# ---

# %% [markdown]
# Attention over 1,024 rows of 128 numbers reads and writes {{ stored.others_mb | .1f }} MB and on
# the way stores two matrices, $S$ and $P$, of {{ stored.matrix_mb | .1f }} MB each. Each is written
# once and read once. Nobody asked for them. If they never leave the chip, how many times as fast as
# torch's three operations can one head of this size be?

# %% [markdown]
# ## What is stored, and why
#
# To store a result that only the next step reads is to materialise it. Three kernels have to: a
# launch ends before the next one begins, and what is to survive must be in memory. Fusing them
# fails at softmax at first sight, for a row of weights is known only when all of its logits are. But
# the previous lesson found a way around: a maximum and a sum that follow as numbers come.
#
# ??? definition "Materialise | materialises | materialised"
#     To write an intermediate result to device memory that nothing but the next step reads.

# %% [markdown]
# The mean of the value rows can follow as well. For one query keep $m$, $z$ and a row $o$ of $d$
# sums, $\sum_j e^{s_j - m} V_j$, all relative to the same maximum. When the maximum grows to $m'$,
# the factor $e^{m-m'}$ repairs both sums, and at the end one division gives the answer. A tile of
# keys comes, is used, and is never needed again.
#
# $$o' = o\,e^{m-m'} + \sum_{j \in \text{tile}} e^{s_j-m'}\,V_j$$
#
# ??? question "Is a second pass over the keys needed, once the sum is known?"
#     For softmax itself yes: its weights are the result. For attention no. Weights that are too large
#     by a common factor can be summed first and divided later, so a row of $O$ is divided by $z$ once,
#     after the last key; until then the sums are rescaled on the way, in registers. In training the way
#     back needs the weights again. It makes each of them from its query and key, with the row's maximum
#     and sum, which are kept.
#
# ??? definition "Flash attention"
#     Attention that takes keys and values tile by tile and keeps, for each query, a maximum, a sum
#     and a row of weighted sums, so that neither logits nor weights are stored.
#
# ??? definition "Query tile | query tiles"
#     The queries that one block has taken on.
#
# ??? definition "Key tile | key tiles"
#     Keys, with their value rows, that lie in shared memory at the same time.

# %% [markdown]
# ## One row as tiles pass
#
# A block takes `BR` queries, `PARTS` threads each, which share a row of $d$ numbers. It goes through
# the keys in tiles of `BC`; the `bias` is a number added to the logits of a key, 0 for one that
# counts and $-\infty$ for one that is masked.[^exact] Nothing is approximated:[^approximate] this is the
# sum of before in another order. PyTorch has all of it in one call, to which `bias` is a mask.
#
# [^exact]: With $-\infty$ for all keys the row of results becomes zeros, as in the previous lesson.
#
# [^approximate]: For years attention was to become cheaper by doing less of it: some of the weights
#     only, or matrices of low rank in their place. That saves operations, whose number grows with $N$
#     in place of $N^2$, and gives up some of the result. It was seldom faster in practice, since the
#     time went to bytes and not to operations, which is how the [first paper on flash
#     attention](https://arxiv.org/abs/2205.14135) begins; in its measurements approximations are ahead
#     only where rows are long. What has lasted leaves out whole tiles, such as all keys but the most
#     recent: the kernel stays the same, and a tile that is left out costs nothing.


# %% tab="Pseudocode"
import numpy as np

from tilewise import parallel, tiles


def flash_rows(Q, K, V, bias, O, scale):
    N, d = Q.shape
    for i in parallel(N):
        m, z, o = -np.inf, 0.0, np.zeros(d)
        for own in tiles(len(K), 4):
            # [logits
            s = [scale * (Q[i] @ K[j]) + bias[j] for j in own]
            # logits]
            # [rescale
            top = max(m, *s)
            shift = top if top > -np.inf else 0.0
            f = np.exp(m - shift)
            m, z, o = top, z * f, o * f
            # rescale]
            # [add
            for t, j in enumerate(own):
                p = np.exp(s[t] - shift)
                z += p
                o += p * V[j]
            # add]
        O[i] = o / z if z > 0 else 0.0


# %% tab="CUDA C"
from tilewise import Kernel

FLASH_ROWS_SOURCE = r"""
#define OWN (D / PARTS)  // columns of a thread

extern "C" __global__ void __launch_bounds__(BR * PARTS)
flash_rows(const float* Q, const float* K, const float* V, const float* bias,
           float* O, int N, int M, float scale) {
    __shared__ float k[BC][D], v[BC][D], b[BC];
    int i = blockIdx.x * BR + threadIdx.x / PARTS, part = threadIdx.x % PARTS;
    float q[OWN], o[OWN], m = -INFINITY, z = 0.0f;
    for (int c = 0; c < OWN; ++c) {
        q[c] = i < N ? Q[i * D + c * PARTS + part] : 0.0f;
        o[c] = 0.0f;
    }
    for (int j0 = 0; j0 < M; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D; e += BR * PARTS) {
            int j = j0 + e / D;
            k[e / D][e % D] = j < M ? K[j * D + e % D] : 0.0f;
            v[e / D][e % D] = j < M ? V[j * D + e % D] : 0.0f;
        }
        for (int t = threadIdx.x; t < BC; t += BR * PARTS)
            b[t] = j0 + t < M ? bias[j0 + t] : -INFINITY;
        __syncthreads();  // the tile is there
        // [logits
        float s[BC], top = m;
        #pragma unroll
        for (int t = 0; t < BC; ++t) {
            s[t] = 0.0f;
            for (int c = 0; c < OWN; ++c) s[t] += q[c] * k[t][c * PARTS + part];
            for (int h = 1; h < PARTS; h *= 2) s[t] += __shfl_xor_sync(~0u, s[t], h);
            s[t] = s[t] * scale + b[t];
            top = fmaxf(top, s[t]);
        }
        // logits]
        // [rescale
        float shift = top == -INFINITY ? 0.0f : top;
        float f = expf(m - shift);
        m = top;
        z *= f;
        for (int c = 0; c < OWN; ++c) o[c] *= f;
        // rescale]
        // [add
        #pragma unroll
        for (int t = 0; t < BC; ++t) {
            float p = expf(s[t] - shift);
            z += p;
            for (int c = 0; c < OWN; ++c) o[c] += p * v[t][c * PARTS + part];
        }
        // add]
        // all are through with the tile
        __syncthreads();  // watch: m, z, f
    }
    if (i < N)
        for (int c = 0; c < OWN; ++c) O[i * D + c * PARTS + part] = z > 0.0f ? o[c] / z : 0.0f;
}
"""


def flash_rows_kernel(d, parts, rows, keys):
    return Kernel(FLASH_ROWS_SOURCE, defines={"D": d, "PARTS": parts, "BR": rows, "BC": keys})


FLASH_ROWS = flash_rows_kernel(8, 2, 16, 4)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def flash_rows_torch(Q, K, V, bias, O, scale):
    attention = torch.nn.functional.scaled_dot_product_attention
    one_head = (Q[None], K[None], V[None])
    O[:] = attention(*one_head, attn_mask=bias.expand(len(Q), -1), scale=scale)[0]


# %% fold="Code of the checks"
from tilewise import Table, Trace, agree, case, ceil_div, check, constant, normal, output, publish, show
from tilewise.kernel.chains import as_case, run_chain
from tilewise.measurements import (
    complete,
    medians_us,
    printed_errors,
    printed_numbers,
    recorded,
    recorded_device,
)
from tilewise.measurements.attention import attention
from tilewise.models import bound, stated


def masked(M, first):
    """A bias under which the keys before `first` do not count."""
    return np.where(np.arange(M) < first, -np.inf, 0).astype(np.float32)


def rows_case(N, M, d, bias=None, stretch=1.0, rows=16, parts=2):
    """One head for `flash_rows`: N queries, M keys."""
    arrays = {"Q": normal(N, d, scale=stretch), "K": normal(M, d), "V": normal(M, d), "O": output(N, d)}
    added = normal(M) if bias is None else bias
    sizes = {"N": N, "M": M, "scale": d**-0.5}
    return case(**arrays, bias=added, **sizes, grid=ceil_div(N, rows), block=rows * parts)


def right_answer(run):
    return attention(*(run[one] for one in ("Q", "K", "V", "bias", "scale")))["O"]


difficult = {
    "a bias on every key": rows_case(21, 13, 8),
    "large logits": rows_case(5, 31, 8, stretch=30.0),
    "a first tile of minus infinity": rows_case(7, 18, 8, masked(18, 5)),
    "no key at all": rows_case(35, 9, 8, masked(9, 9)),
    "a single key": rows_case(3, 1, 8),
    "very large logits": rows_case(5, 11, 8, stretch=3000.0),
}
agree(flash_rows, FLASH_ROWS, list(difficult.values()), rtol=2e-5, atol=2e-5)
ordinary = [inputs for name, inputs in difficult.items() if "large" not in name]
agree(flash_rows_torch, FLASH_ROWS, ordinary, rtol=2e-5, atol=2e-5, by="PyTorch")
for name, inputs in difficult.items():
    got = FLASH_ROWS.on(inputs).run()
    room = 1e-2 if name.startswith("very") else 3e-5
    check(got["O"], right_answer(got), rtol=0.0, atol=room, name=f"against 64-bit NumPy: {name}")

# %% [markdown]
# One query first, in numbers. It meets twelve keys in three tiles. The weights are drawn for the eye; what
# is kept between tiles is $m$, $z$ and the row $o$.

# %% fold="Code of the figure"
from tilewise.figures import Series, Span, State, block_grid, line_chart, stepped, timeline

ONE_ROW = """s = scale * (K[tile] @ q)
top = max(m, *s); f = exp(m - top)
m, z, o = top, z * f, o * f
p = exp(s - m)
z, o = z + sum(p), o + p @ V[tile]
O = o / z"""


def one_row(q, K, V, scale, keys):
    """States of one query as tiles of keys pass, and its row of results."""
    m, z, o, f = -np.inf, 0.0, np.zeros(V.shape[1]), 0.0
    weights, states = np.zeros(len(K)), []

    def note(said, line):
        arrays = {"logits of the tile": s, "weights in the sums": weights.copy(), "o": o.copy()}
        reads = {"logits of the tile": range(len(s))} if line < 6 else {}
        states.append(State(said, line=line, values={"m": m, "z": z, "f": f}, arrays=arrays, reads=reads))

    for number, own in enumerate(tiles(len(K), keys)):
        tile = list(own)
        s = scale * (K[tile] @ q)
        top = max(m, s.max())
        if number == 0:
            m = top
            note(f"The first tile of keys comes. Its largest logit is {top:.2f}.", 2)
        else:
            larger, f = top > m, np.exp(m - top)
            m, z, o, weights = top, z * f, o * f, weights * f
            said = f"A larger logit comes: what was summed is worth {f:.2f} of what it was."
            note(said if larger else "No larger logit comes: the sums stay.", 3)
        weights[tile] = np.exp(s - m)
        z, o = z + weights[tile].sum(), o + weights[tile] @ V[tile]
        note("The tile's weights join the sums, and its value rows the row.", 5)
    o = o / z
    note("One division gives the result; no weight was needed again.", 6)
    return states, o


random = np.random.default_rng(61)
q, K = random.normal(size=4), random.normal(size=(12, 4))
V = random.normal(size=(12, 4))
states, row = one_row(q, K, V, 0.5, 4)
check(row, attention(q[None], K, V, 0.0, 0.5)["O"][0], atol=1e-12, name="one query, tile by tile")
show(
    stepped(
        states,
        source=ONE_ROW,
        language="python",
        start=2,
        title="A larger logit shrinks what was summed before, by one factor",
        caption="One query and twelve keys of four numbers, in tiles of four: its logits, the weights that its sums contain, relative to the maximum so far, and the row of weighted values. Keys still to come have no weight.",
    )
)

# %% [markdown]
# And in the kernel: one block of four queries as it meets eight keys in two tiles, from the simulator's
# trace. Go to the second of the two barriers in the loop: behind the first tile each query has its own
# maximum, sum and factor. Behind the second tile the factor says how much the old sums were worth;
# where no larger logit came, it is 1.

# %% fold="Code of the figure"
small = flash_rows_kernel(4, 1, 4, 4).on(rows_case(4, 8, 4, constant(8, value=0.0), 2.0, rows=4, parts=1))
show(
    stepped(
        small.simulate(trace=Trace()),
        launch=small,
        arrays=["Q", "K", "V", "O", "k", "v"],
        extent=4,
        start=54,
        axes=("query", "y", "z"),
        title="A tile of keys passes; maximum, sum and factor of each query follow",
        caption="Four queries and eight keys of four numbers in tiles of four, line by line as the simulator ran it. The values m, z and f of every thread are those behind the tile.",
    )
)

# %% [markdown]
# ## Which loop is outside
#
# Two loops go over tiles, and either may be the outer one. With the queries outside, as above,
# $m$, $z$ and $o$ stay in registers, and every query tile reads all keys and values. With the keys
# outside a tile of them is read once, and the state of every query goes to memory and back for each
# tile. The first paper on flash attention had the keys outside, the second the queries; the orders
# are called FA1 and FA2 here. The next kernel is FA1's.
#
# ??? definition "FA1 | FA1 order"
#     Flash attention with the loop over key tiles outside and the loop over queries inside.
#
# ??? definition "FA2 | FA2 order"
#     Flash attention with the queries outside: a block keeps its queries and goes through all keys.

# %% fold="The kernel in FA1 order"
KEYS_OUTSIDE_SOURCE = r"""
extern "C" __global__ void __launch_bounds__(BR)
keys_outside(const float* Q, const float* K, const float* V,
             float* O, float* top, float* sum, int N, int M, float scale) {
    __shared__ float k[BC][D], v[BC][D];
    for (int j0 = 0; j0 < M; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D; e += BR) {
            int j = j0 + e / D;
            k[e / D][e % D] = j < M ? K[j * D + e % D] : 0.0f;
            v[e / D][e % D] = j < M ? V[j * D + e % D] : 0.0f;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < N; i += BR) {
            float q[D], o[D], m = j0 > 0 ? top[i] : -INFINITY, z = j0 > 0 ? sum[i] : 0.0f;
            for (int c = 0; c < D; ++c) {
                q[c] = Q[i * D + c];
                o[c] = j0 > 0 ? O[i * D + c] : 0.0f;
            }
            for (int t = 0; t < BC && j0 + t < M; ++t) {
                float s = 0.0f;
                for (int c = 0; c < D; ++c) s += q[c] * k[t][c];
                s *= scale;
                float larger = fmaxf(m, s), f = expf(m - larger), p = expf(s - larger);
                m = larger;
                z = z * f + p;
                for (int c = 0; c < D; ++c) o[c] = o[c] * f + p * v[t][c];
            }
            bool over = j0 + BC >= M;
            for (int c = 0; c < D; ++c) O[i * D + c] = over ? o[c] / z : o[c];
            top[i] = m;
            sum[i] = z;
        }
        __syncthreads();
    }
}
"""


def keys_outside(N, M, d, rows, keys):
    arrays = {"Q": normal(N, d), "K": normal(M, d), "V": normal(M, d), "O": output(N, d)}
    state = {"top": output(N), "sum": output(N)}
    sizes = {"N": N, "M": M, "scale": d**-0.5}
    kernel = Kernel(KEYS_OUTSIDE_SOURCE, defines={"D": d, "BR": rows, "BC": keys})
    return kernel.on(case(**arrays, **state, **sizes, grid=1, block=rows))


got = keys_outside(37, 29, 8, 16, 8).run()
expected = attention(got["Q"], got["K"], got["V"], 0.0, got["scale"])["O"]
check(got["O"], expected, rtol=0.0, atol=1e-5, name="FA1 order against 64-bit NumPy")

# %% [markdown]
# The plane below is $S$, which nobody stores: queries down, keys across, in tiles of four by four.
# A step is the tile that is worked on, and the number beside it counts what was moved between
# memory and the block until then, from the trace. First with the queries outside.


# %% fold="Code of the figure"
def moved_by_tile(launch, d, rows, keys):
    """Numbers that a run moved to and from global memory for each (query tile, key tile), in order."""
    run = launch.simulate(trace=Trace())
    seen, names = run.accesses, run.buffers
    mine = np.flatnonzero(seen.space == 0)
    mine = mine[np.lexsort((seen.step[mine], seen.block[mine]))]
    moved, query, key, block = {}, 0, 0, -1
    for at in mine:
        if seen.block[at] != block:
            block, query, key = int(seen.block[at]), int(seen.block[at]), 0
        name = names[seen.buffer[at]]
        if name == "K":
            key = int(seen.index[at]) // (d * keys)
            query = query if launch.grid[0] > 1 else 0
        if name in ("Q", "top", "sum") and launch.grid[0] == 1:
            query = int(seen.index[at]) // (d * rows if name == "Q" else rows)
        moved[query, key] = moved.get((query, key), 0) + 1
    return moved


def plane(moved, order, what):
    """States of the plane as one tile after another is worked on."""
    states, done, total = [], np.zeros((4, 4)), 0
    for query, key in order:
        total += moved[query, key]
        done[query, key] = moved[query, key]
        states.append(
            State(
                what(query, key),
                line=3,
                values={"numbers so far": total},
                arrays={"moved for the tile": done.copy()},
                reads={"moved for the tile": [4 * query + key]},
            )
        )
    return states


RANGE = range(4)
rows_outside = flash_rows_kernel(4, 1, 4, 4).on(
    rows_case(16, 16, 4, constant(16, value=0.0), rows=4, parts=1)
)
fa2_moved = moved_by_tile(rows_outside, 4, 4, 4)
fa1_moved = moved_by_tile(keys_outside(16, 16, 4, 4, 4), 4, 4, 4)
show(
    stepped(
        plane(
            fa2_moved,
            [(query, key) for query in RANGE for key in RANGE],
            lambda query, key: f"Query tile {query} meets key tile {key}; its m, z and o stay in registers.",
        ),
        source="for queries in query_tiles:  # a block each\n    for keys in key_tiles:\n        attend(queries, keys)",
        language="python",
        title="Queries outside: along a row of tiles, keys and values come anew",
        caption="N = 16, d = 4, tiles of 4 by 4 in FA2 order: numbers moved for each tile, counted in the simulator's trace. The four rows of tiles are four blocks, which run side by side.",
    )
)
publish(plane={"fa2": sum(fa2_moved.values()), "fa1": sum(fa1_moved.values())})

# %% [markdown]
# Then with the keys outside. Down a column of tiles the keys stay, and every tile brings $q$, $o$,
# $m$ and $z$ of its queries in and takes $o$, $m$ and $z$ out again: {{ plane.fa1 | , }} numbers in
# place of {{ plane.fa2 | , }}.

# %% fold="Code of the figure"
show(
    stepped(
        plane(
            fa1_moved,
            [(query, key) for key in RANGE for query in RANGE],
            lambda query, key: f"Key tile {key} meets query tile {query}, whose o, m and z go out again.",
        ),
        source="for keys in key_tiles:\n    for queries in query_tiles:\n        attend(queries, keys)",
        language="python",
        title="Keys outside: down a column of tiles, the state of every query comes and goes",
        caption="N = 16, d = 4, tiles of 4 by 4 in FA1 order, one block: numbers moved for each tile, counted in the simulator's trace.",
    )
)

# %% [markdown]
# ## Traffic against N
#
# How does it grow? With $B_r$ queries to a tile, FA2 order reads all keys and values $N/B_r$ times,
# FA1 order with $B_c$ keys to a tile moves three rows of $d$ for each query $N/B_c$ times, and
# three kernels move $S$ and $P$ once each way besides their own tiles. Formulas for all three are
# compared with the simulator's counts at three sizes, so they may speak for larger ones.

# %% fold="Three kernels with tiles that store S and P"
STORED = r"""
extern "C" __global__ void stored_scores(const float* Q, const float* K, float* S,
                                         int N, int M, float scale) {
    __shared__ float k[BC][D];
    int i = blockIdx.x * BR + threadIdx.x;
    float q[D];
    for (int c = 0; c < D; ++c) q[c] = i < N ? Q[i * D + c] * scale : 0.0f;
    for (int j0 = 0; j0 < M; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D && j0 + e / D < M; e += BR) k[e / D][e % D] = K[j0 * D + e];
        __syncthreads();
        for (int t = 0; t < BC && j0 + t < M && i < N; ++t) {
            float s = 0.0f;
            for (int c = 0; c < D; ++c) s += q[c] * k[t][c];
            S[i * M + j0 + t] = s;
        }
        __syncthreads();
    }
}

// A warp takes a row of at most 32 numbers to a lane.
extern "C" __global__ void stored_softmax(const float* S, float* P, int M) {
    float e[32], m = -INFINITY, z = 0.0f;
    #pragma unroll
    for (int k = 0; k < 32; ++k) {
        int j = 32 * k + threadIdx.x;
        e[k] = j < M ? S[blockIdx.x * M + j] : -INFINITY;
        m = fmaxf(m, e[k]);
    }
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    #pragma unroll
    for (int k = 0; k < 32; ++k) z += e[k] = expf(e[k] - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    #pragma unroll
    for (int k = 0; k < 32; ++k)
        if (32 * k + threadIdx.x < M) P[blockIdx.x * M + 32 * k + threadIdx.x] = e[k] / z;
}

extern "C" __global__ void stored_sum(const float* P, const float* V, float* O, int N, int M) {
    __shared__ float v[BC][D];
    int i = blockIdx.x * BR + threadIdx.x;
    float o[D];
    for (int c = 0; c < D; ++c) o[c] = 0.0f;
    for (int j0 = 0; j0 < M; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D && j0 + e / D < M; e += BR) v[e / D][e % D] = V[j0 * D + e];
        __syncthreads();
        for (int t = 0; t < BC && j0 + t < M && i < N; ++t) {
            float p = P[i * M + j0 + t];
            for (int c = 0; c < D; ++c) o[c] += p * v[t][c];
        }
        __syncthreads();
    }
    for (int c = 0; c < D && i < N; ++c) O[i * D + c] = o[c];
}
"""

# %% fold="Code of the counts"


def stored_launches(N, d, rows, keys):
    """Three launches that store S and P."""
    arrays = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d), "O": output(N, d)}
    between = {"S": output(N, N), "P": output(N, N)}
    made = case(**arrays, **between, N=N, M=N, scale=d**-0.5)
    scores = Kernel(STORED, "stored_scores", defines={"D": d, "BR": rows, "BC": keys})
    return [
        scores.on(made, grid=ceil_div(N, rows), block=rows),
        scores.named("stored_softmax").on(made, grid=N, block=32),
        scores.named("stored_sum").on(made, grid=ceil_div(N, rows), block=rows),
    ]


def numbers_moved(N, d, rows, keys):
    """Numbers between the SMs and what lies behind them, for sizes that divide: formulas."""
    return {
        "stored": 4 * N * N + 2 * (N // rows) * N * d + 2 * N * d,
        "FA1": (N // keys) * (2 * N * d + 2 * N) + (N // keys - 1) * (N * d + 2 * N) + 2 * N * d,
        "FA2": (N // rows) * (2 * N * d + N) + 2 * N * d,
    }


def numbers_counted(N, d, rows, keys):
    """The same from the simulator."""
    launches = {
        "stored": stored_launches(N, d, rows, keys),
        "FA1": [keys_outside(N, N, d, rows, keys)],
        "FA2": [
            flash_rows_kernel(d, 1, rows, keys).on(
                rows_case(N, N, d, constant(N, value=0.0), rows=rows, parts=1)
            )
        ],
    }
    found, results = {}, []
    for name, several in launches.items():
        arrays = several[0].case.make()
        counts = [launch.simulate(arrays=arrays).counts for launch in several]
        found[name] = sum(one.global_load.lane_accesses + one.global_store.lane_accesses for one in counts)
        results.append((arrays["O"], attention(*(arrays[one] for one in "QKV"), 0.0, arrays["scale"])["O"]))
    got, right = (np.stack(one) for one in zip(*results, strict=True))
    check(got, right, rtol=0.0, atol=1e-5, name=f"all three against 64-bit NumPy, N = {N}")
    return found


numbers_counted(37, 16, 32, 16)  # right where no tile divides; there the formulas do not hold
COUNTED = {}
for N in (32, 64, 128):
    COUNTED[N] = numbers_counted(N, 16, 32, 16)
    moved = numbers_moved(N, 16, 32, 16)
    check(
        list(COUNTED[N].values()),
        list(moved.values()),
        name=f"numbers moved: formulas and simulator, N = {N}",
    )

# %% fold="Code of the figure"
LONG = 2 ** np.arange(5, 15)
LINES = {"stored": ("three kernels", "waste"), "FA1": ("FA1 order", "write"), "FA2": ("FA2 order", "tile")}
show(
    line_chart(
        [
            *(
                Series(
                    label,
                    LONG,
                    [numbers_moved(int(N), 16, 32, 16)[name] for N in LONG],
                    role=role,
                    marks=False,
                )
                for name, (label, role) in LINES.items()
            ),
            Series(
                "counted",
                [N for N in COUNTED for _ in LINES],
                [moved for one in COUNTED.values() for moved in one.values()],
                role="measured",
                line=False,
            ),
        ],
        x="N",
        y="numbers moved",
        log_x=True,
        log_y=True,
        title="All three grow with the square of N; the tiles decide by how much",
        caption="Numbers that move between the SMs and the caches behind them, d = 16, tiles of 32 queries and 16 keys: formulas as lines, the simulator's counts as points.",
    )
)
publish(
    units={
        "fa2_64": numbers_moved(4096, 64, 128, 64)["FA2"] / 4096**2,
        "fa2_small": numbers_moved(4096, 128, 32, 64)["FA2"] / 4096**2,
    },
    stored={
        "matrix_mb": 4 * 1024**2 / 1e6,
        "others_mb": 4 * 4 * 1024 * 128 / 1e6,
        "keys_mb": 2 * 4 * 1024 * 128 / 1e6,
    },
)

# %% [markdown]
# So "it moves less" depends on the tile. In units of $N^2$, FA2 order needs {{ units.fa2_64 | .2f }}
# at $d$ = 64 with 128 queries to a tile, and {{ units.fa2_small | .2f }} at $d$ = 128 with 32, twice
# what $S$ and $P$ cost. All of it is still quadratic in $N$.[^sub] But it is another kind of
# traffic. Keys and values are the same {{ stored.keys_mb | .1f }} MB again and again, which the L2
# keeps; $S$ and $P$ are new bytes all the time. What fused attention must bring from memory grows
# with $N$, not with $N^2$.
#
# [^sub]: Often said: flash attention has sub-quadratic traffic. For a fixed size of what a block
#     holds it grows with $N^2$ as before; what shrinks is the factor, and the extra storage.

# %% [markdown]
# ## Heads, queries, keys: who gets an SM
#
# An H100 has {{ chip.sms }} SMs. A model of 12 heads with a block to a head, as in FA1 order, uses
# {{ chip.by_head | .0% }} of them. FA2 order adds query tiles as a second axis. A single head of
# 1,024 queries in tiles of 64 still has only {{ chip.tiles }} blocks. A third axis is left: the keys. Blocks can
# take shares of the keys for the same queries, and the previous lesson's rule combines what they
# find.
#
# ??? question "Why not one block for each head?"
#     Because heads are few. With 12 of them, {{ chip.by_head | .0% }} of an H100's SMs would get a block,
#     and each block would have all queries of its head to go through. Queries do not need each other:
#     they share the keys and values, and those are only read. So a head is cut by its queries, too.

# %% fold="Code of the figure"
GPU = recorded_device()
show(
    block_grid(
        (4, 3, 2),
        (1, 1, 1),
        axes=("query tile", "share of the keys", "head"),
        view="3d",
        title="Three axes of blocks: query tiles, shares of the keys, heads",
        caption="A launch for two heads, four query tiles and three shares of the keys, one block to a cell. In the flat view the heads are layers.",
    )
)
publish(
    chip={
        "sms": GPU.sms,
        "by_head": 12 / GPU.sms,
        "blocks": 1024 // 64 * 8,
        "tiles": 1024 // 64,
        "idle": GPU.sms - 1024 // 64,
    }
)

# %% [markdown]
# ## Kernel 6
#
# 64 queries to a block and the keys in 8 shares make {{ chip.blocks }} blocks for one head. A block
# has 64 queries and 128 keys and values in shared memory, {{ six.shared_kb | .0f }} KB. Within it a
# warp owns eight queries, so maximum, sum and weights of a row never leave the warp. A thread has
# four of these rows: 8 of the 128 logits in each, and later 8 of the 128 columns. Tiles come by
# `cp.async`, which copies 16 bytes into shared memory without a register in between; the values
# travel while the logits are computed.[^smaller] `FORGET` is set only in three wrong kernels
# further down.
#
# [^smaller]: A GPU whose SMs have less shared memory can take smaller tiles: with 64 keys a block
#     needs {{ six.small_kb | .0f }} KB.


# %% tab="Pseudocode"
def flash_tiles(Q, K, V, bias, part, L, scale, share):
    shares, heads, N, d = part.shape
    for w, h, i in parallel(shares, heads, N):
        own = range(w * share, min(len(bias), (w + 1) * share))
        m, z, o = -np.inf, 0.0, np.zeros(d)
        for tile in tiles(len(own), 64):
            keys = [own[t] for t in tile]
            # [scores
            s = K[h, keys] @ Q[h, i] * scale + bias[keys]
            # scores]
            # [softmax
            top = max(m, s.max())
            shift = top if top > -np.inf else 0.0
            f, p = np.exp(m - shift), np.exp(s - shift)
            m, z, o = top, z * f + p.sum(), o * f
            # softmax]
            # [mean
            o = o + p @ V[h, keys]
            # mean]
        # [leave
        part[w, h, i] = o / z if z > 0 else 0.0
        L[w, h, i] = m + np.log(z) if z > 0 else -np.inf
        # leave]


# %% tab="CUDA C"
KERNEL_6 = r"""
#define TILE_ROWS (2 * ROWS * WARPS)
#define TILE_KEYS (16 * KEYS)
#define WIDE (D + 4)             // a row and 16 bytes: neighbours begin in other banks
#define WIDE_P (TILE_KEYS + 16)

// 16 bytes into shared memory; zeros where there is nothing to read.
__device__ void copy(float* to, const float* from, int bytes) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(at), "l"(from), "r"(bytes) : "memory");
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Wait for this thread's copies, all but the latest groups.
template <int LATEST> __device__ void arrived_but() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LATEST) : "memory");
}

__device__ void load(float* tile, int wide, int count, const float* X, int first, int end) {
    for (int e = threadIdx.x; e < count * (D / 4); e += 32 * WARPS) {
        int r = e / (D / 4), c = e % (D / 4) * 4;
        bool there = first + r < end;
        copy(tile + r * wide + c, X + (there ? (first + r) * D + c : 0), there ? 16 : 0);
    }
    commit();
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
flash_tiles(const float* Q, const float* K, const float* V, const float* bias,
            float* part, float* L, int N, int M, int share, float scale) {
    extern __shared__ float4 store[];
    float* q = (float*)store;
    float* k = q + TILE_ROWS * WIDE;
    float* v = k + TILE_KEYS * WIDE;
    float* p = v + TILE_KEYS * D;
    int head = blockIdx.z, i0 = blockIdx.x * TILE_ROWS;
    int first = blockIdx.y * share, last = min(M, first + share);
    Q += (long long)head * N * D;
    K += (long long)head * M * D;
    V += (long long)head * M * D;
    load(q, WIDE, TILE_ROWS, Q, i0, N);
    load(k, WIDE, TILE_KEYS, K, first, last);
    load(v, D, TILE_KEYS, V, first, last);

    int lane = threadIdx.x % 32, mine = lane / 2;
    int row = threadIdx.x / 32 * 2 * ROWS + lane % 2;  // and every second after it
    float m[ROWS], z[ROWS], o[ROWS][D / 16] = {};
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        m[i] = -INFINITY;
        z[i] = 0.0f;
    }
    for (int j0 = first; j0 < last; j0 += TILE_KEYS) {
        // asked for now, used behind the products
        float add[KEYS];
        #pragma unroll
        for (int j = 0; j < KEYS; ++j) {
            int key = j0 + mine + 16 * j;
            add[j] = key < last ? bias[key] : -INFINITY;
        }
        arrived_but<1>();
        __syncthreads();  // every thread's part of q and k is there
        // [scores
        float s[ROWS][KEYS] = {};
        #pragma unroll 2
        for (int c = 0; c < D; c += 4) {
            float4 a[ROWS];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) a[i] = *(float4*)&q[(row + 2 * i) * WIDE + c];
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float4 b = *(float4*)&k[(mine + 16 * j) * WIDE + c];
                #pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    s[i][j] += a[i].x * b.x;
                    s[i][j] += a[i].y * b.y;
                    s[i][j] += a[i].z * b.z;
                    s[i][j] += a[i].w * b.w;
                }
            }
        }
        // scores]
        // [softmax
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            float top = m[i];
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                s[i][j] = s[i][j] * scale + add[j];
                top = fmaxf(top, s[i][j]);
            }
            for (int h = 2; h < 32; h *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, h));
            float shift = top == -INFINITY ? 0.0f : top;
#if FORGET != 1
            float f = expf(m[i] - shift);
#else
            float f = 1.0f;
#endif
            m[i] = top;
            z[i] *= f;  // a lane's own share of the sum
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float e = expf(s[i][j] - shift);
                z[i] += e;
                p[(row + 2 * i) * WIDE_P + mine + 16 * j] = e;
            }
            #pragma unroll
            for (int c = 0; c < D / 16; ++c) o[i][c] *= f;
        }
        // softmax]
#if FORGET != 2
        arrived_but<0>();
#endif
        __syncthreads();  // v is there, and no warp needs k any more
        if (j0 + TILE_KEYS < last) load(k, WIDE, TILE_KEYS, K, j0 + TILE_KEYS, last);
        // [mean
        #pragma unroll 2
        for (int j = 0; j < TILE_KEYS; j += 4) {
            float4 w[ROWS];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) w[i] = *(float4*)&p[(row + 2 * i) * WIDE_P + j];
            #pragma unroll
            for (int t = 0; t < 4; ++t)
                #pragma unroll
                for (int h = 0; h < D / 64; ++h) {
                    float4 b = *(float4*)&v[(j + t) * D + 64 * h + 4 * mine];
                    #pragma unroll
                    for (int i = 0; i < ROWS; ++i) {
                        float e = t == 0 ? w[i].x : t == 1 ? w[i].y : t == 2 ? w[i].z : w[i].w;
                        o[i][4 * h] += e * b.x;
                        o[i][4 * h + 1] += e * b.y;
                        o[i][4 * h + 2] += e * b.z;
                        o[i][4 * h + 3] += e * b.w;
                    }
                }
        }
        // mean]
#if FORGET != 3
        __syncthreads();  // no warp needs v any more
#endif
        if (j0 + TILE_KEYS < last) load(v, D, TILE_KEYS, V, j0 + TILE_KEYS, last);
    }
    // [leave
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        for (int h = 2; h < 32; h *= 2) z[i] += __shfl_xor_sync(~0u, z[i], h);
        if (i0 + row + 2 * i >= N) continue;
        long long out = (long long)(blockIdx.y * gridDim.z + head) * N + i0 + row + 2 * i;
        float over = z[i] > 0.0f ? 1.0f / z[i] : 0.0f;
        #pragma unroll
        for (int h = 0; h < D / 64; ++h)
            *(float4*)&part[out * D + 64 * h + 4 * mine] = make_float4(
                o[i][4 * h] * over, o[i][4 * h + 1] * over,
                o[i][4 * h + 2] * over, o[i][4 * h + 3] * over);
        if (mine == 0) L[out] = z[i] > 0.0f ? m[i] + logf(z[i]) : -INFINITY;
    }
    // leave]
}
"""


def kernel_6(rows=4, keys=8, warps=8, forget=0):
    """`rows` queries and `keys` logits of each to a thread, so many warps."""
    sizes = {"D": 128, "ROWS": rows, "KEYS": keys, "WARPS": warps}
    return Kernel(
        KERNEL_6, defines={**sizes, **({"FORGET": forget} if forget else {})}, options=("-std=c++17",)
    )


FLASH_TILES = kernel_6()


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def query_tile(Q, K, V, bias, part, L, N, M, share, scale, D: tl.constexpr):
    ROWS: tl.constexpr = 64
    KEYS: tl.constexpr = 32
    w, h = tl.program_id(1), tl.program_id(2)
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, D)
    mine = i[:, None] < N
    q = tl.load(Q + (h * N + i[:, None]) * D + c, mask=mine, other=0.0)
    m = tl.full((ROWS,), float("-inf"), tl.float32)
    z, o = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS, D), tl.float32)
    last = tl.minimum(M, (w + 1) * share)
    for j0 in range(w * share, last, KEYS):
        j = j0 + tl.arange(0, KEYS)
        at, there = (h * M + j[:, None]) * D + c, j < last
        # [scores
        k = tl.load(K + at, mask=there[:, None], other=0.0)
        add = tl.load(bias + j, mask=there, other=float("-inf"))
        s = tl.dot(q, k.T, input_precision="ieee") * scale + add
        # scores]
        # [softmax
        top = tl.maximum(m, tl.max(s, 1))
        shift = tl.where(top > float("-inf"), top, 0.0)
        f, p = tl.exp(m - shift), tl.exp(s - shift[:, None])
        m, z, o = top, z * f + tl.sum(p, 1), o * f[:, None]
        # softmax]
        # [mean
        v = tl.load(V + at, mask=there[:, None], other=0.0)
        o += tl.dot(p, v, input_precision="ieee")
        # mean]
    # [leave
    z = tl.where(z > 0, z, 1.0)  # without a key: zeros, and m is minus infinity
    out = (w * tl.num_programs(2) + h) * N + i
    tl.store(part + out[:, None] * D + c, o / z[:, None], mask=mine)
    tl.store(L + out, m + tl.log(z), mask=i < N)
    # leave]


def flash_tiles_triton(Q, K, V, bias, part, L, scale, share):
    shares, heads, N, d = part.shape
    launch = query_tile[(triton.cdiv(N, 64), shares, heads)]
    sizes = (N, len(bias), share, scale)
    launch(Q, K, V, bias, part, L, *sizes, D=d, num_warps=8, num_stages=2)


# %% [markdown]
# \Triton's kernel is the same algorithm on the same grid, in far fewer lines. What they do not say, its
# compiler decides: that tiles pass through shared memory and how they lie there, that the next keys are
# copied ahead, who waits for whom, which thread has which numbers and how a row's maximum crosses lanes.
# It leaves to you what this page is about: the order of the loops, the factor, the row without a key, the
# shares; and also how large tiles are, how many warps share one and how many tiles are on their
# way.[^ieee] [Who decides what](../toolbox/front_ends.py#who-decides-what) is a table in the toolbox.
#
# [^ieee]: `input_precision="ieee"` keeps the products in 32-bit floats; without it both factors are
#     rounded to TF32. The tab is compared with Kernel 6 and was not timed.

# %% [markdown]
# A block leaves two things for each query: the mean over its own keys, and $L = m + \ln z$, the
# logarithm of its sum of exponentials. Shares with their $L$ are pairs once more. The weight of a
# share is $e^{L_w}$, made relative to the largest of them, and the answer is their weighted mean.
#
# ??? definition "Log-sum-exp"
#     The logarithm of a sum of exponentials, the maximum plus the logarithm of the normaliser: all
#     that must be known of some keys to weigh their mean against that of others.


# %% tab="Pseudocode"
def combine(part, L, O):
    shares, heads, N, d = part.shape
    for h, i in parallel(heads, N):
        top = max(L[:, h, i])
        z, o = 0.0, np.zeros(d)
        for w in range(shares):
            weight = np.exp(L[w, h, i] - top) if top > -np.inf else 0.0
            z += weight
            o += weight * part[w, h, i]
        O[h, i] = o / z if z > 0 else 0.0


# %% tab="CUDA C"
COMBINE = Kernel(
    r"""
extern "C" __global__
void combine(const float* part, const float* L, float* O, int rows, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four numbers of a row
    int row = at / (D / 4), c = at % (D / 4) * 4;
    if (row >= rows) return;
    float top = -INFINITY, z = 0.0f;
    for (int w = 0; w < shares; ++w) top = fmaxf(top, L[w * rows + row]);
    if (top == -INFINITY) top = 0.0f;  // no key in any share
    float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll 8
    for (int w = 0; w < shares; ++w) {
        float weight = expf(L[w * rows + row] - top);
        float4 x = *(const float4*)&part[((long long)w * rows + row) * D + c];
        z += weight;
        o.x += weight * x.x;
        o.y += weight * x.y;
        o.z += weight * x.z;
        o.w += weight * x.w;
    }
    float over = z > 0.0f ? 1.0f / z : 0.0f;
    *(float4*)&O[(long long)row * D + c] =
        make_float4(o.x * over, o.y * over, o.z * over, o.w * over);
}
""",
    defines={"D": 128},
)

# %% [markdown]
# Sizes that no tile divides, two heads, other numbers of keys than of queries, logits thirty
# times{from: the input} as large, a share that is masked from end to end: all of them go through
# both kernels.

# %% fold="Code of the checks"
from tilewise import expect_hazard


def shared_bytes(kernel):
    """What a block of `flash_tiles` needs for q, k, v and p."""
    sizes = kernel.defines
    rows, keys = 2 * sizes["ROWS"] * sizes["WARPS"], 16 * sizes["KEYS"]
    return 4 * (rows * (128 + 4) + keys * (128 + 4) + keys * 128 + rows * (keys + 16))


def share_of(kernel, M, shares):
    """Keys of a share, a whole number of tiles."""
    keys = 16 * kernel.defines["KEYS"]
    return ceil_div(M, shares * keys) * keys


def of_heads(kernel, heads, N, M, shares, bias=None, stretch=1.0):
    """Inputs and outputs of some heads, for `flash_tiles` and for `combine`."""
    arrays = {
        "Q": normal(heads, N, 128, scale=stretch),
        "K": normal(heads, M, 128),
        "V": normal(heads, M, 128),
    }
    written = {
        "part": output(shares, heads, N, 128),
        "L": output(shares, heads, N),
        "O": output(heads, N, 128),
    }
    sizes = {"N": N, "M": M, "rows": heads * N, "shares": shares, "share": share_of(kernel, M, shares)}
    added = normal(M) if bias is None else bias
    return case(**arrays, **written, bias=added, **sizes, scale=128**-0.5)


def tiles_launch(kernel, inputs):
    sizes = kernel.defines
    heads, N = inputs.values["rows"] // inputs.values["N"], inputs.values["N"]
    grid = (ceil_div(N, 2 * sizes["ROWS"] * sizes["WARPS"]), inputs.values["shares"], heads)
    return kernel.on(inputs, grid=grid, block=32 * sizes["WARPS"], shared_bytes=shared_bytes(kernel))


def six(kernel, inputs):
    """Both launches of Kernel 6."""
    return [
        tiles_launch(kernel, inputs),
        COMBINE.on(inputs, grid=ceil_div(32 * inputs.values["rows"], 256), block=256),
    ]


AWKWARD = {
    "two heads, 150 keys in three shares": of_heads(FLASH_TILES, 2, 70, 150, 3),
    "two tiles to a share": of_heads(FLASH_TILES, 1, 33, 300, 2),
    "large logits": of_heads(FLASH_TILES, 1, 65, 130, 2, stretch=30.0),
    "a first tile that is masked": of_heads(FLASH_TILES, 1, 20, 200, 1, masked(200, 140)),
    "a share that is masked": of_heads(FLASH_TILES, 1, 20, 200, 2, masked(200, 130)),
    "no key at all": of_heads(FLASH_TILES, 1, 20, 130, 2, masked(130, 130)),
}
tiles_cases = [as_case(tiles_launch(FLASH_TILES, one)) for one in AWKWARD.values()]
agree(flash_tiles, FLASH_TILES, tiles_cases, rtol=2e-5, atol=2e-4)
agree(flash_tiles_triton, FLASH_TILES, tiles_cases, rtol=2e-5, atol=2e-4, by="Triton")


def some_parts(shares, heads, N, scale):
    """Parts whose log-sum-exps lie far apart; those of the first query have no keys."""
    random = np.random.default_rng(shares)
    L = scale * random.normal(size=(shares, heads, N)).astype(np.float32)
    L[:, :, 0] = -np.inf
    arrays = {"part": normal(shares, heads, N, 128), "L": L, "O": output(heads, N, 128)}
    sizes = {"rows": heads * N, "shares": shares}
    return case(**arrays, **sizes, grid=ceil_div(32 * heads * N, 64), block=64)


parts = [some_parts(3, 2, 5, 3.0), some_parts(2, 1, 7, 1.0), some_parts(3, 2, 5, 2000.0)]
agree(combine, COMBINE, parts, rtol=1e-5, atol=1e-6)
for name, inputs in AWKWARD.items():
    run, room = run_chain(six(FLASH_TILES, inputs)), 1e-4 if name == "large logits" else 2e-6
    check(run["O"], right_answer(run), rtol=0.0, atol=room, name=name)

# %% [markdown]
# ## Three ways to lose a line
#
# Leave out the factor, so that sums of an older maximum stay as they are. Nothing crashes. With one
# tile to a share everything is even right; with more, results are off by up to
# {{ forgot.most | .2f }}, and only a comparison tells. Leave out the wait for $v$, and a thread
# multiplies with what has not arrived. Leave out the barrier behind the mean, and the next tile's
# values overwrite those that a slower warp still reads. The last two are named.

# %% fold="Code of the checks"
inputs = of_heads(FLASH_TILES, 1, 33, 300, 1)
run = run_chain(six(kernel_6(forget=1), inputs))
off = np.abs(run["O"] - right_answer(run)).max()
assert off > 1e-3, "without the factor the result is right; choose other inputs"
publish(
    forgot={"most": off},
    six={"shared_kb": shared_bytes(FLASH_TILES) / 1024, "small_kb": shared_bytes(kernel_6(4, 4, 8)) / 1024},
)
expect_hazard(tiles_launch(kernel_6(forget=2), inputs), "undelivered", line_with="float4 b = *(float4*)&v")
expect_hazard(tiles_launch(kernel_6(forget=3), inputs), "race", line_with="load(v, D, TILE_KEYS, V, j0")

# %% [markdown]
# ## Predict
#
# What does one block of {{ chip.blocks }} take? Both products of 64 queries with 128 keys are
# {{ block.ffma | , }} instructions of a warp that multiply and add; an SM starts four a cycle.
# Around them the simulator counts {{ block.others | , }} other instructions. Shared memory is the
# other limit: a request of 16 bytes for each lane takes two passes or more over the banks, here
# {{ block.passes | , }} in all, one a cycle. That is why a thread has 4 queries times 8 keys: it
# loads 12 pieces for 128 multiply-adds. With 4 by 4 it would load 8 for 64, and the two limits
# would meet.

# %% fold="Code of the prediction"


def one_block(kernel):
    """Counts of one full block: instructions of warps, multiply-adds of warps, passes over shared memory."""
    sizes = kernel.defines
    rows, keys = 2 * sizes["ROWS"] * sizes["WARPS"], 16 * sizes["KEYS"]
    counts = tiles_launch(kernel, of_heads(kernel, 1, rows, keys, 1)).simulate().counts
    passes = counts.shared_load.wavefronts + counts.shared_store.wavefronts
    return counts.issued, 2 * rows * keys * 128 // 32, passes, rows, keys


SHAPES = {
    "64 by 128, 4 by 8 to a thread": kernel_6(4, 8, 8),
    "64 by 128, 8 by 8 to a thread": kernel_6(8, 8, 4),
    "64 by 64, 4 by 4 to a thread": kernel_6(4, 4, 8),
    "128 by 64, 8 by 4 to a thread": kernel_6(8, 4, 8),
}
rows, cycles = [], {}
for name, kernel in SHAPES.items():
    issued, products, passes, queries, keys = one_block(kernel)
    blocks_work = 64 * 128 / (queries * keys)
    cycles[name] = {
        "products": blocks_work * products / 4,
        "issue": blocks_work * issued / 4,
        "passes": blocks_work * passes,
    }
    rows.append([name, *cycles[name].values(), shared_bytes(kernel) / 1024, 32 * kernel.defines["WARPS"]])
show(
    Table(
        ["queries by keys", "products", "all instructions", "passes", "shared, KB", "threads"],
        rows,
        caption="Cycles that 64 queries times 128 keys take on one SM by each of three estimates, from the simulator's counts of the PTX: four multiply-adds a cycle, four instructions a cycle, one pass over shared memory a cycle.",
    )
)
issued, products, passes, _, _ = one_block(FLASH_TILES)
EIGHT_ROWS = flash_rows_kernel(128, 4, 8, 8)
few_keys = rows_case(8, 64, 128, constant(64, value=0.0), rows=8, parts=4)
rows_issued = EIGHT_ROWS.on(few_keys).simulate().counts.issued / 8  # for 8 keys, of a block
slowest = max(cycles["64 by 128, 4 by 8 to a thread"].values())
least = bound(stated(GPU), bytes_moved=4 * 4 * 1024 * 128, flop=4 * 1024 * 1024 * 128)
publish(
    block={"ffma": products, "others": issued - products, "passes": passes},
    predicted={
        "block_us": slowest / GPU.boost_mhz,
        "arithmetic_us": least.arithmetic_us,
        "one_share_us": 8 * slowest / GPU.boost_mhz,
        "eight_rows_us": 1024 / 8 * rows_issued / GPU.boost_mhz,
        "parts_mb": 8 * 4 * 1024 * 128 / 1e6,
    },
)

# %% [markdown]
# The largest of the three is the instructions, {{ predicted.block_us | us }} at the boost clock: an estimate,
# since the simulator counts \PTX. Before it the first tiles must come from memory, which a latency or two cover, and after it
# {{ predicted.parts_mb | .1f }} MB of parts go to the L2 and back in a second launch. The bound for
# the whole, from its operations at the peak (data sheet), is {{ predicted.arithmetic_us | us }}. Fewer shares use fewer SMs:
# with one, {{ chip.tiles }} blocks work, each through all keys, which takes
# {{ predicted.one_share_us | us }}, and {{ chip.idle }} SMs watch. The variant to compare with is the first kernel of this page,
# eight queries to a block: as many blocks, of one warp each. An SM issues one instruction of a warp
# in a cycle at most, so by the same count it takes {{ predicted.eight_rows_us | us }} before any waiting.

# %% fold="Code of the measurement"
from tilewise import Guess, gpu_here, measure


def timed_case(kernel, N, shares):
    """One head whose bias is zero, so that a library computes the same."""
    arrays = {"Q": normal(N, 128), "K": normal(N, 128), "V": normal(N, 128), "bias": constant(N, value=0.0)}
    written = {"part": output(shares, 1, N, 128), "L": output(shares, 1, N), "O": output(N, 128)}
    sizes = {"N": N, "M": N, "rows": N, "shares": shares, "share": share_of(kernel, N, shares)}
    return case(**arrays, **written, **sizes, scale=128**-0.5)


def in_shares(kernel, shares=None):
    """Kernel 6 as a variant: as many shares as fill the SMs, or as given."""

    def launches(N, d):
        sizes = kernel.defines
        tiles_of_rows = ceil_div(N, 2 * sizes["ROWS"] * sizes["WARPS"])
        most = ceil_div(N, 16 * sizes["KEYS"])
        filling = max(1, min(most, 132 // tiles_of_rows))
        return six(kernel, timed_case(kernel, N, min(most, shares) if shares else filling))

    return launches


def eight_rows(N, d):
    made = timed_case(FLASH_TILES, N, 1)
    return EIGHT_ROWS.on(made, grid=ceil_div(N, 8), block=32)


def torch_three_operations(arrays):
    """What a reader would write in eager mode: two products and a softmax."""
    import torch

    Q, K, V, O = (torch.as_tensor(arrays[name], device="cuda") for name in "QKVO")
    S = torch.empty(len(Q), len(K), device="cuda")
    P = torch.empty_like(S)
    scale = float(arrays["scale"])

    def run():
        torch.addmm(S, Q, K.T, beta=0.0, alpha=scale, out=S)
        torch.softmax(S, dim=-1, out=P)
        torch.mm(P, V, out=O)

    return run


def torch_fused(arrays):
    """torch's own fused attention; for 32-bit floats that is its memory-efficient kernel."""
    import torch

    Q, K, V = (torch.as_tensor(arrays[name], device="cuda") for name in "QKV")
    scale = float(arrays["scale"])
    attention = torch.nn.functional.scaled_dot_product_attention

    def run():
        return attention(Q[None, None], K[None, None], V[None, None], scale=scale)[0, 0]

    return run


sixth = measure(
    "attention_flash",
    variants={
        "eight queries a block, four threads each": eight_rows,
        "Kernel 6: flash": in_shares(FLASH_TILES),
        "one share": in_shares(FLASH_TILES, 1),
        "two shares": in_shares(FLASH_TILES, 2),
        "four shares": in_shares(FLASH_TILES, 4),
        "64 by 128, 8 by 8 to a thread": in_shares(SHAPES["64 by 128, 8 by 8 to a thread"]),
        "64 by 64, 4 by 4 to a thread": in_shares(SHAPES["64 by 64, 4 by 4 to a thread"]),
        "128 by 64, 8 by 4 to a thread": in_shares(SHAPES["128 by 64, 8 by 4 to a thread"]),
    },
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}, {"N": 4096, "d": 128}],
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations, "torch, fused": torch_fused},
    reference=attention,
    tolerance=2e-5,
    counts=("sectors", "wavefronts"),
    reasons={"*": "What it takes"},
    fold="All 30 rows",
    guess=Guess(
        "N = 1,024: how many times as fast as eight queries a block is Kernel 6?",
        of="Kernel 6: flash",
        over="eight queries a block, four threads each",
        at={"N": 1024, "d": 128},
        between=(0.5, 200),
        models={"multiply-adds are the same": 1.0, "reads of keys and values": 8.0},
        because="The same products, but one loads a number for each multiply-add of a thread and has a warp to an SM, which waits for it; the other loads 3 for 8 and has eight warps.",
    ),
)

# %% [markdown]
# ## What it takes


# %% fold="Code of the figure"
us = medians_us(sixth, "N")
SPLITS = {1: "one share", 2: "two shares", 4: "four shares", 8: "Kernel 6: flash"}
split_us = [us[label, 1024] for label in SPLITS.values()]
if complete(*split_us):
    assert split_us == sorted(split_us, reverse=True), "the title says that shares of the keys help"
    show(
        line_chart(
            [
                Series("recorded", list(SPLITS), split_us),
                Series(
                    "one eighth of the keys, times 8 / shares",
                    list(SPLITS),
                    [8 / shares * slowest / GPU.boost_mhz for shares in SPLITS],
                    role="predicted",
                ),
            ],
            x="shares of the keys",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="Shares of the keys give SMs to a head that has too few queries",
            caption="One head, N = 1,024, d = 128, 32-bit floats on an {machine}: both launches of Kernel 6 by the number of shares, and the PTX instructions of a block at the boost clock.",
        )
    )
three_us = us["torch, three operations", 1024]
if complete(*split_us, three_us):
    assert us["Kernel 6: flash", 1024] < three_us, "the answer says that Kernel 6 is faster than torch"
publish(
    seen={
        "six_us": us["Kernel 6: flash", 1024],
        "torch_us": three_us,
        "of_torch": us["Kernel 6: flash", 1024] / three_us,
        "of_torch_4096": us["Kernel 6: flash", 4096] / us["torch, three operations", 4096],
        "share_gain": us["one share", 1024] / us["Kernel 6: flash", 1024],
        "over_us": us["Kernel 6: flash", 1024] - slowest / GPU.boost_mhz,
        "times_torch": three_us / us["Kernel 6: flash", 1024],
        "rows_us": us["eight queries a block, four threads each", 1024],
        "small_us": us["64 by 64, 4 by 4 to a thread", 256],
        "six_us_256": us["Kernel 6: flash", 256],
        "high_us": us["128 by 64, 8 by 4 to a thread", 4096],
        "six_us_4096": us["Kernel 6: flash", 4096],
        "torch_us_256": us["torch, three operations", 256],
        "fused_us": us["torch, fused", 1024],
        "fused_times": us["torch, fused", 1024] / three_us,
    }
)

# %% [markdown]
# Kernel 6 takes {{ seen.six_us | us }}, which is
# {{ seen.of_torch | .0% }} of what torch's three operations take and {{ seen.over_us | us }} more
# than the instructions of a block: the first tiles, the second launch, and what the schedulers do
# not fill. Eight shares in place of one make it {{ seen.share_gain | .1f }} times as fast. Eight queries a
# block take {{ seen.rows_us | us }}, far more than their instructions: a single warp to an SM has nobody
# to work while it waits. At N = 4,096, where torch's products have enough blocks as well, Kernel 6 takes
# {{ seen.of_torch_4096 | .0%  }} of torch's time.
#
# Which shape is best depends on N. At N = 256 tiles of 64 by 64 make twice as many blocks and take
# {{ seen.small_us | us }}; Kernel 6 takes {{ seen.six_us_256 | us }} and is behind torch's three operations
# with {{ seen.torch_us_256 | us }}. At N = 4,096 the tile of 128 queries takes {{ seen.high_us | us }},
# Kernel 6 {{ seen.six_us_4096 | us }}. And to be fused is no merit in itself: torch's own fused kernel for
# 32-bit floats takes {{ seen.fused_us | us }} at N = 1,024, {{ seen.fused_times | .1f }} times as long as
# its three operations. Why was not looked into.

# %% [markdown]
# What do the schedulers not fill? The kernel can note the clock of its SM: when a block begins, when its first
# tiles are there, and behind each part. The stamps are all that is added to it.

# %% fold="The kernel with stamps"
STAMPED_PARTS = ("first tiles", "scores", "softmax", "barrier, v", "mean", "parts out")
MARKS = (
    "load(q, WIDE",
    "// [scores\n",
    "// scores]\n",
    "// softmax]\n",
    "// [mean\n",
    "// mean]\n",
    "// leave]\n",
)
CLOCK = "if (threadIdx.x == 0) stamps[9 * (blockIdx.y * gridDim.x + blockIdx.x) + {}] = clock64();\n"


def with_stamps(also=""):
    """`flash_tiles` that notes 7 clocks of each block with one tile of keys; `also` is done at both ends."""
    text = KERNEL_6.replace("int share, float scale) {", "int share, float scale, long long* stamps) {")
    for at, mark in enumerate(MARKS):
        head, found, tail = text.partition(mark)
        assert found, f"{mark!r} is not in the kernel"
        stamp = CLOCK.format(at)
        if at == 0:
            text = head + also.format(7) + stamp + found + tail
        else:
            text = head + found + stamp + (also.format(8) if at == 6 else "") + tail
    return Kernel(text, defines=FLASH_TILES.defines, options=FLASH_TILES.options)


inputs = of_heads(FLASH_TILES, 1, 70, 256, 2)
launch, arrays = tiles_launch(FLASH_TILES, inputs), inputs.make() | {"stamps": np.zeros((4, 9), np.int64)}
stamped = case(launch.grid, launch.block, launch.shared_bytes, **inputs.values, stamps=arrays["stamps"])
with_stamps().on(stamped).simulate(arrays=arrays)
six(FLASH_TILES, inputs)[1].run(arrays)
check(arrays["O"], right_answer(arrays), rtol=0.0, atol=2e-6, name="Kernel 6 with stamps")

# %% fold="Code that notes the clock on a GPU" needs="gpu" record="clocks"
NANOSECONDS = """if (threadIdx.x == 0) {{
    long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    stamps[9 * (blockIdx.y * gridDim.x + blockIdx.x) + {}] = t;
}}
"""

if gpu_here():
    import cupy

    in_time = with_stamps(NANOSECONDS)
    generator = cupy.random.default_rng(6)
    inputs = timed_case(FLASH_TILES, 1024, 8)
    arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
    arrays |= {"bias": cupy.zeros(1024, cupy.float32), "stamps": cupy.zeros((128, 9), cupy.int64)}
    arrays |= {"part": cupy.empty((8, 1024, 128), cupy.float32), "L": cupy.empty((8, 1024), cupy.float32)}
    launch = tiles_launch(FLASH_TILES, inputs)
    large, noted = cupy.zeros(2**26, cupy.float32), []
    for _ in range(9):
        large.sum()  # reads 256 MB, so that nothing of the inputs is left in the L2
        in_time(
            *({**inputs.values, **arrays}[one.name] for one in in_time.parameters),
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
        )
        noted.append(cupy.asnumpy(arrays["stamps"]))
    noted = np.stack(noted[1:])
    spent = np.diff(noted[:, :, :7], axis=2).reshape(-1, 6)
    for part, row in zip(STAMPED_PARTS, np.percentile(spent, (50, 5, 95), axis=0).T, strict=True):
        print(f"{part}: {row[0]:.0f} clocks, {row[1]:.0f} to {row[2]:.0f}")
    spans = noted[:, :, 8].max(axis=1) - noted[:, :, 7].min(axis=1)
    print(f"all blocks: {np.median(spans):.0f} ns")

# %% fold="Code of the figure"
spent = printed_numbers("attention/flash_forward", "clocks", r"^(.+): (\d+) (?:clocks|ns)")
if spent:
    ends = np.cumsum([0.0, *(spent[part] for part in STAMPED_PARTS)])
    assert spent["scores"] + spent["mean"] > ends[-1] / 2, "the title says that the products take most"
    ROLES = ("read", "tile", "block", "waste", "tile", "write")
    show(
        timeline(
            [
                Span(part, start, end, f"{spent[part]:.0f}", role)
                for part, start, end, role in zip(STAMPED_PARTS, ends, ends[1:], ROLES, strict=False)
            ],
            unit="clocks",
            title="Most of a block's time goes into two products, and before them nothing is multiplied",
            caption="Median clocks that a block of Kernel 6 spends in each part, N = 1,024 with one tile of keys to a share, recorded on an {machine} from a cold L2; the parts one after another.",
        )
    )
publish(
    clocks={
        "all_us": spent["all blocks"] / 1000,
        "first": spent["first tiles"],
        "scores": spent["scores"],
        "mean": spent["mean"],
        "per_product": (spent["scores"] + spent["mean"]) / (products / 4),
        "rest_us": us["Kernel 6: flash", 1024] - spent["all blocks"] / 1000,
    }
)

# %% [markdown]
# From the first block's beginning to the last one's end {{ clocks.all_us | us }} pass; the other
# {{ clocks.rest_us | us }} are the second launch, the way to the first, and the events. The two products take
# {{ clocks.scores | ,.0f }} and {{ clocks.mean | ,.0f }} clocks: {{ clocks.per_product | .2f }} for each
# multiply-add of a scheduler, which could issue one every clock. The first tiles take {{ clocks.first | ,.0f }}, in which
# nothing is multiplied, and "a latency or two" was too hopeful: all SMs ask the L2 for 96 KB
# at the same time. The next lesson goes after all three.

# %% [markdown]
# The launches themselves are not in these times. From an idle GPU on, with what the host does,
# three torch operations take three launches and Kernel 6 takes two. A \CUDA graph makes one call of
# either.

# %% fold="Code of the measurement"


def graph_of(run):
    """A function's launches as a CUDA graph: recorded once, replayed by one call."""
    import cupy

    run()  # compiled and loaded before the recording
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        run()  # recorded, not run
        graph = stream.end_capture()
    return graph.launch


def six_in_a_graph(arrays):
    """Both launches of Kernel 6, one call."""
    values = dict(arrays)
    inputs = timed_case(FLASH_TILES, 1024, 8)
    launches = six(FLASH_TILES, inputs)

    def run():
        for launch in launches:
            launch.kernel(
                *(values[one.name] for one in launch.kernel.parameters),
                grid=launch.grid,
                block=launch.block,
                shared_bytes=launch.shared_bytes,
            )

    return graph_of(run)


def torch_in_a_graph(arrays):
    """The three torch operations, one call."""
    import torch

    run = torch_three_operations(arrays)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


with_host = measure(
    "attention_flash_with_host",
    variants={"Kernel 6: two launches": in_shares(FLASH_TILES, 8)},
    cases=[{"N": 1024, "d": 128}],
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={
        "Kernel 6 in a CUDA graph": six_in_a_graph,
        "torch, three operations": torch_three_operations,
        "torch, three operations in a CUDA graph": torch_in_a_graph,
    },
    reference=attention,
    tolerance=2e-5,
    with_host=True,
    reasons={"*": "What it takes"},
)

# %% fold="Code of the numbers"
host_us = medians_us(with_host)
GRAPH, TORCH_GRAPH = "Kernel 6 in a CUDA graph", "torch, three operations in a CUDA graph"
publish(
    host={
        "two": host_us["Kernel 6: two launches"],
        "graph": host_us[GRAPH],
        "torch": host_us["torch, three operations"],
        "torch_graph": host_us[TORCH_GRAPH],
    },
    host_share={"graphs": host_us[GRAPH] / host_us[TORCH_GRAPH]},
)

# %% [markdown]
# Launched one by one it is the host that is timed: {{ host.two | us }} for two calls through Python and
# {{ host.torch | us }} for torch's three, with a large spread. As graphs they take
# {{ host.graph | us }} and {{ host.torch_graph | us }}, ours {{ host_share.graphs | .0% }} of torch's.

# %% [markdown]
# How exact is it? The next cell ran on an H100 and compares Kernel 6 and torch's three operations
# with 64-bit floats: the largest error of each, at N = 1,024.

# %% fold="Code that compares errors on a GPU" needs="gpu" record="errors"
if gpu_here():
    import cupy
    import torch

    generator = cupy.random.default_rng(9)
    for name, stretch, first in (
        ("normal numbers", 1, 0),
        ("queries thirty times as large", 30, 0),
        ("a first half that is masked", 1, 512),
    ):
        inputs = timed_case(FLASH_TILES, 1024, 8)
        arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
        arrays["Q"] *= stretch
        arrays["bias"] = cupy.asarray(masked(1024, first))
        arrays["O"] = cupy.full((1024, 128), np.nan, cupy.float32)
        arrays["part"] = cupy.full((8, 1, 1024, 128), np.nan, cupy.float32)
        arrays["L"] = cupy.full((8, 1, 1024), np.nan, cupy.float32)
        for launch in six(FLASH_TILES, inputs):
            given = {**inputs.values, **arrays}
            launch.kernel(
                *(given[one.name] for one in launch.kernel.parameters),
                grid=launch.grid,
                block=launch.block,
                shared_bytes=launch.shared_bytes,
            )
        Q, K, V, bias, O = (
            torch.as_tensor(arrays[one], device="cuda") for one in ("Q", "K", "V", "bias", "O")
        )
        theirs = torch.softmax(Q @ K.T * 128**-0.5 + bias, dim=-1) @ V
        Q, K, V, bias = (one.double() for one in (Q, K, V, bias))
        exact = torch.softmax(Q @ K.T * 128**-0.5 + bias, dim=-1) @ V
        own_off, their_off = ((one.double() - exact).abs().max().item() for one in (O, theirs))
        print(f"{name}: off by {own_off:.3g}, torch by {their_off:.3g}")

# %% fold="Code of the numbers"
publish(errors=printed_errors("attention/flash_forward", "torch"))

# %% [markdown]
# The largest error is {{ errors.most | .1e }}, and the worst ratio of ours to torch's is
# {{ errors.worst_times | .1f }}. Then the table that has grown since Kernel 1.


# %% fold="Code of the table"
LADDER = [
    ("Kernel 1: one thread", "ten loops in one thread", "attention_one_thread", "kernel_1_one_thread"),
    (
        "Kernel 2: three kernels",
        "five independent loops are axes",
        "attention_three_kernels",
        "kernel_2_three_kernels",
    ),
    ("Kernel 3: coalesced", "lanes along the queries", "attention_coalesced", "kernel_3_coalesced"),
    (
        "Kernel 4: reduced",
        "rows and sums shared by blocks",
        "attention_reduced",
        "kernel_4_reduced_by_blocks",
    ),
    ("Kernel 5: tiles", "both products in tiles", "attention_tiled", "kernel_5_tiles"),
]
table = [
    [name, what, *(recorded(f"{experiment}.{variant}.n_{N}_d_128.median") for N in (256, 1024))]
    for name, what, experiment, variant in LADDER
]
for name, what in (
    ("Kernel 6: flash", "one pass over tiles, keys in shares; S and P are never stored"),
    ("torch, three operations", "library"),
    ("torch, fused", "library"),
):
    table.append([name, what, *(us[name, N] for N in (256, 1024))])
show(
    Table(
        ["version", "what is new", "N = 256, µs", "N = 1024, µs"],
        [[one if isinstance(one, str) or one > 0 else None for one in row] for row in table],
        caption="Attention so far: 32-bit floats, one head, d = 128, on an {machine}. One thread is not timed at N = 1024.",
    )
)

# %% [markdown]
# ## The answer
#
# Neither $S$ nor $P$ has to be stored: with $m$, $z$ and $o$ for each query, keys can come tile by
# tile and go. Whether that is faster is a matter of tiles and blocks. One head of 1,024 queries has
# to split its keys to fill the chip; then it takes
# {{ seen.six_us | us }} and torch's three operations
# {{ seen.torch_us | us }}: {{ seen.times_torch | .2f }} times as fast.

# %% [markdown]
# ## Takeaways
#
# - Rescaling makes the weighted sum of value rows follow the maximum as softmax's sum does. The
#   result is the same sum in another order, not an approximation.
# - The outer loop decides what travels: with queries outside keys come again for every query tile,
#   with keys outside the state of every query comes and goes.
# - Traffic stays quadratic in N; larger tiles make its factor smaller, and it is served by the L2,
#   while storage shrinks from $N^2$ to $N$.
# - A mean and its log-sum-exp are all that one share of the keys has to leave, so keys can be split
#   over blocks like everything else.
# - A clock in the kernel tells what counts do not: how long nothing is multiplied, and how many
#   clocks a multiply-add really takes.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

ALIBI = r"""
extern "C" __global__
void slanted(const float* Q, const float* K, const float* V, const float* slopes,
             float* O, int N, int d, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
    if (i >= N) return;
    Q += head * N * d;
    K += head * N * d;
    V += head * N * d;
    O += head * N * d;
    float m = -INFINITY, z = 0.0f, o[16] = {};
    for (int j = 0; j < N; ++j) {
        float s = 0.0f;
        for (int k = 0; k < d; ++k) s += Q[i * d + k] * K[j * d + k];
        s = LOGIT;
        float top = fmaxf(m, s), f = expf(m - top), p = expf(s - top);
        m = top;
        z = z * f + p;
        for (int c = 0; c < 16 && c < d; ++c) o[c] = o[c] * f + p * V[j * d + c];
    }
    for (int c = 0; c < 16 && c < d; ++c) O[i * d + c] = o[c] / z;
}
"""
SLANTED = Kernel(ALIBI, defines={"LOGIT": "s * scale - slopes[head] * abs(i - j)"})
SCALED_TOO = Kernel(ALIBI, defines={"LOGIT": "(s - slopes[head] * abs(i - j)) * scale"})
UPSIDE_DOWN = Kernel(ALIBI, defines={"LOGIT": "s * scale + slopes[head] * abs(i - j)"})
ONE_SLOPE = Kernel(ALIBI, defines={"LOGIT": "s * scale - slopes[0] * abs(i - j)"})


def slanted_tests(kernel):
    random = np.random.default_rng(2)
    for heads, N, d in ((1, 16, 8), (3, 21, 16), (2, 37, 5)):
        Q, K, V = (random.normal(size=(heads, N, d)).astype(np.float32) for _ in range(3))
        slopes = (2.0 ** -np.arange(1, heads + 1)).astype(np.float32)
        O = np.full_like(Q, np.nan)
        kernel.simulate(Q, K, V, slopes, O, N, d, d**-0.5, grid=(ceil_div(N, 16), heads), block=16)
        distance = np.abs(np.subtract.outer(np.arange(N), np.arange(N)))
        right = attention(Q, K, V, -slopes[:, None, None] * distance, d**-0.5)["O"]
        assert np.allclose(O, right, rtol=0, atol=1e-5), f"{heads} heads, N = {N}, d = {d}"


exercise(
    "A bias that nobody stores",
    """
    Some models tell a head how far apart query and key are: they subtract `slopes[head]` times the distance
    |i - j| from the logit, a matrix of N by N for each head if one stored it. Write the line LOGIT of the
    kernel, which turns the sum of products `s` into the logit, so that it is made where it is used. The tests
    compare three shapes with 64-bit floats.
    """,
    answer=SLANTED,
    tests=slanted_tests,
    wrong=[SCALED_TOO, UPSIDE_DOWN, ONE_SLOPE],
    hint="The scale belongs to the product of query and key alone.",
)

# %% [markdown]
# This kernel answers for every key that is not masked. A language model must not look at later
# tokens, which makes half of all tiles empty, and it must send derivatives back through weights that
# nobody has stored. Both have lessons of their own; the next one stays with this kernel and its clocks.
