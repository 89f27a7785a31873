# ---
# title: "FlashAttention: the forward pass"
# needs: [speed/occupancy, memory/recomputation, matmul/register_tiles, attention/softmax]
# summary: "Attention writes two N by N matrices to memory and reads them back. How much faster is a kernel that never stores them?"
# description: "Kernel 6: the FlashAttention forward pass in FP32 CUDA C, with online softmax, both loop orders, and keys split over blocks."
# date: 2026-11-23
# tags: [FlashAttention, online softmax, log-sum-exp, split-KV]
# ---

# %% [markdown]
# One head of attention with 1,024 tokens and $d$ = 128 has 2.1 MB of inputs and outputs. Along the way, standard
# attention stores two 4.2 MB matrices, the scores $S$ and the probabilities $P$, and reads both back. Both grow with the
# square of the context length: at 131,072 tokens, the two matrices of a single head no longer fit in an H100's memory.
#
# [Rabe and Staats](https://arxiv.org/abs/2112.05682) showed that attention doesn't need quadratic memory, and
# *FlashAttention*, by [Dao et al.](https://arxiv.org/abs/2205.14135), made it fast: it never stores either matrix.
# Written as three PyTorch operations, attention already runs on NVIDIA's tuned GEMMs, so the baseline is strong. How
# much faster can our fused kernel be?

# %% [markdown]
# ## Materialised matrices, and how to avoid them
#
# Writing an intermediate result to memory for the next kernel is called *materialising* it. Fusing the kernels looks
# impossible: softmax needs a whole row of scores before it can produce the first probability. But [online
# softmax](softmax.py) doesn't: it keeps a running maximum $m$ and a running sum $z$.
#
# The output can be accumulated in the same way: for each query, a row $o$ of $d$ accumulators holds
# $\sum_j e^{s_j - m} V_j$. When the maximum grows to $m'$, a single factor, $\alpha = e^{m-m'}$, corrects both $z$ and
# $o$. After the last key, $o/z$ is the result.
#
# $$o' = \alpha\,o + \sum_{j \in \text{tile}} e^{s_j-m'}\,V_j$$
#
# Take one query with scores 1 and 3 and, for brevity, values 10 and 20. After the first key, $m$ = 1, $z$ = 1 and $o$ =
# 10. The second key raises $m$ to 3, so $\alpha = e^{-2}$ = 0.135, $z$ = 0.135 + 1 and $o$ = 1.35 + 20. The result is
#     21.35 / 1.135 = 18.8, exactly what softmax gives.
#
# ??? question "Is a second pass over the keys needed once the sum is known?"
#     For softmax itself, yes: its probabilities are the result. Attention doesn't need one. Weights that are too large
#     by a common factor can be summed first and divided later, so a row of $O$ is divided by $z$ once, after the last
#     key. Until then, the accumulators are rescaled in registers. The backward pass needs the probabilities again. It
#     recomputes each one from its query and key, and from the row's maximum and sum, which are kept.
#
# ??? definition "Materialise | materialises | materialised | materialising"
#     To write an intermediate result to device memory that only the next step reads.
#
# ??? definition "Flash attention"
#     Attention that processes keys and values tile by tile and keeps, for each query, a maximum, a sum
#     and a row of accumulators, so that neither scores nor probabilities are stored.
#
# ??? definition "Query tile | query tiles"
#     The queries that one block processes together.
#
# ??? definition "Key tile | key tiles"
#     Keys, with their value rows, that are in shared memory at the same time.

# %% [markdown]
# Step through one query and twelve keys in three tiles. Between tiles, only $m$, $z$ and $o$ are kept.


# %% fold="Code of the figure"
import numpy as np

from tilewise import Table, agree, case, ceil_div, check, constant, normal, output, publish, show, tiles
from tilewise.figures import Series, Span, State, block_grid, line_chart, stepped, timeline
from tilewise.kernel.chains import as_case, run_chain
from tilewise.measurements import (
    complete,
    medians_us,
    printed_errors,
    printed_numbers,
    recorded_device,
)
from tilewise.measurements.attention import attention, attention_so_far
from tilewise.models import bound, device, stated

alpha = np.exp(1.0 - 3.0)
check(
    [alpha.round(3), ((alpha * 10 + 20) / (alpha + 1)).round(1)],
    [0.135, 18.8],
    name="the text's example, by the rule",
)
exact = np.exp([1.0, 3.0]) / np.exp([1.0, 3.0]).sum()
check((exact @ [10, 20]).round(1), 18.8, name="the text's example, by softmax")

ONE_ROW = """s = scale * (K[tile] @ q)
row_max = max(m, *s); alpha = exp(m - row_max)
m, z, o = row_max, alpha * z, alpha * o
p = exp(s - m)
z, o = z + sum(p), o + p @ V[tile]
O = o / z"""


def one_row(q, K, V, scale, keys):
    """States of one query, key tile by key tile, and its row of results."""
    m, z, o, alpha = -np.inf, 0.0, np.zeros(V.shape[1]), 0.0
    weights, states = np.zeros(len(K)), []

    def note(what, line):
        arrays = {"scores of the tile": s, "weights so far": weights.copy(), "o": o.copy()}
        reads = {"scores of the tile": range(len(s))} if line < 6 else {}
        states.append(
            State(what, line=line, values={"m": m, "z": z, "alpha": alpha}, arrays=arrays, reads=reads)
        )

    for number, own in enumerate(tiles(len(K), keys)):
        tile = list(own)
        s = scale * (K[tile] @ q)
        row_max = max(m, s.max())
        if number == 0:
            m = row_max
            note(f"First key tile. Its largest score is {row_max:.2f}.", 2)
        else:
            larger, alpha = row_max > m, np.exp(m - row_max)
            m, z, o, weights = row_max, z * alpha, o * alpha, weights * alpha
            what = f"A larger score: z and o are multiplied by {alpha:.2f}."
            note(what if larger else "No larger score: z and o stay as they are.", 3)
        weights[tile] = np.exp(s - m)
        z, o = z + weights[tile].sum(), o + weights[tile] @ V[tile]
        note("Add the tile's weights to z and its weighted value rows to o.", 5)
    o = o / z
    note("One division gives the result. No weight was needed again.", 6)
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
        start=2,
        title="A larger score rescales everything accumulated so far by one factor",
        caption="One query and twelve keys with d = 4, in key tiles of four: the scores of the tile, the weights accumulated so far relative to the current maximum, and the accumulators o. Later keys have no weight yet.",
    )
)

# %% [markdown]
# ## One query row per group of threads
#
# In the first kernel, a block processes `BR` queries with `PARTS` threads per query, which divide the row of $d$
# elements among themselves. It loads keys and values in tiles of `BC`. The kernel's `bias` argument is added to a key's
# scores; a bias of $-\infty$ masks the key. If all keys are masked, the output is zero. Nothing is
# approximated:[^approximate] it's the same sum in a different order.
#
# [^approximate]: A common misconception: FlashAttention is an approximation. Approximate attention, with sparse or
#     low-rank matrices, did less arithmetic, but was often no faster, because the time went into memory traffic.


# %% tab="Pseudocode"
from tilewise import parallel


def flash_rows(Q, K, V, bias, O, scale):
    N, d = Q.shape
    for i in parallel(N):
        m, z, o = -np.inf, 0.0, np.zeros(d)
        for own in tiles(len(K), 4):
            # [scores
            s = [scale * (Q[i] @ K[j]) + bias[j] for j in own]
            # scores]
            # [rescale
            row_max = max(m, *s)
            shift = row_max if row_max > -np.inf else 0.0
            alpha = np.exp(m - shift)
            m, z, o = row_max, z * alpha, o * alpha
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
#define OWN (D / PARTS)  // columns per thread

// O = softmax(scale * Q K^T + bias) V for one head; all matrices row-major FP32, Q and O [N][D],
// K and V [M][D], bias [M]. Any N and M; PARTS is a power of two up to 32 and divides D.
// Launch ceil(N / BR) blocks of BR * PARTS threads, a multiple of 32; static shared memory.
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
    // [loop
    for (int j0 = 0; j0 < M; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D; e += BR * PARTS) {
            int j = j0 + e / D;
            k[e / D][e % D] = j < M ? K[j * D + e % D] : 0.0f;
            v[e / D][e % D] = j < M ? V[j * D + e % D] : 0.0f;
        }
        for (int t = threadIdx.x; t < BC; t += BR * PARTS)
            b[t] = j0 + t < M ? bias[j0 + t] : -INFINITY;
        __syncthreads();  // the tile is loaded
        // [scores
        float s[BC], row_max = m;
        #pragma unroll
        for (int t = 0; t < BC; ++t) {
            s[t] = 0.0f;
            for (int c = 0; c < OWN; ++c) s[t] += q[c] * k[t][c * PARTS + part];
            for (int h = 1; h < PARTS; h *= 2) s[t] += __shfl_xor_sync(~0u, s[t], h);
            s[t] = s[t] * scale + b[t];
            row_max = fmaxf(row_max, s[t]);
        }
        // scores]
        // [rescale
        float shift = row_max == -INFINITY ? 0.0f : row_max;
        float alpha = expf(m - shift);
        m = row_max;
        z *= alpha;
        for (int c = 0; c < OWN; ++c) o[c] *= alpha;
        // rescale]
        // [add
        #pragma unroll
        for (int t = 0; t < BC; ++t) {
            float p = expf(s[t] - shift);
            z += p;
            for (int c = 0; c < OWN; ++c) o[c] += p * v[t][c * PARTS + part];
        }
        // add]
        __syncthreads();  // every thread is done with the tile
    }
    // loop]
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


# %%
FLASH_ROWS.region("loop")

# %% [markdown]
# Run it: two queries and three keys with $d$ = 8. All scores are 0, so every key has a weight of 1/3.

# %%
Q, K, V = np.zeros((2, 8), np.float32), np.zeros((3, 8), np.float32), np.eye(3, 8, dtype=np.float32)
O, bias = np.zeros((2, 8), np.float32), np.zeros(3, np.float32)
FLASH_ROWS(Q, K, V, bias, O, 2, 3, 8**-0.5, grid=1, block=32)
print(O[0].round(2))


# %% fold="Code of the checks"
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
    "large scores": rows_case(5, 31, 8, stretch=30.0),
    "a first tile of minus infinity": rows_case(7, 18, 8, masked(18, 5)),
    "no key at all": rows_case(35, 9, 8, masked(9, 9)),
    "a single key": rows_case(3, 1, 8),
    "very large scores": rows_case(5, 11, 8, stretch=3000.0),
}
agree(flash_rows, FLASH_ROWS, list(difficult.values()), rtol=2e-5, atol=2e-5)
ordinary = [inputs for name, inputs in difficult.items() if "large" not in name]
agree(flash_rows_torch, FLASH_ROWS, ordinary, rtol=2e-5, atol=2e-5, by="PyTorch")
for name, inputs in difficult.items():
    got = FLASH_ROWS.on(inputs).run()
    room = 1e-2 if name.startswith("very") else 3e-5
    check(got["O"], right_answer(got), atol=room, name=f"against 64-bit NumPy: {name}")

# %% [markdown]
# Change the numbers of queries and keys. A block has 16 queries: what happens to the loads at the 17th?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    lambda queries, keys: rows_case(queries, keys, 8),
    {f"{keys} keys per tile": flash_rows_kernel(8, 2, 16, keys) for keys in (4, 8, 16)},
    queries=(1, 16, 64),
    keys=(1, 32, 128),
)

# %% [markdown]
# ## Loop order: queries or keys in the outer loop
#
# Two loops run over tiles, and either can be the outer one. With the queries in the outer loop, as above, $m$, $z$ and
# $o$ stay in registers, and every query tile reads all keys and values. With the keys in the outer loop, each key tile
# is read only once, but the state of every query is written to memory and read back for each key tile. In the first
# FlashAttention paper, the loop over the keys was the outer one. [FlashAttention-2](https://arxiv.org/abs/2307.08691)
# swapped the loops. We call the two orders FA1 and FA2.
#
# ??? definition "FA1 | FA1 order"
#     FlashAttention with the loop over key tiles as the outer loop and the loop over queries as the inner one.
#
# ??? definition "FA2 | FA2 order"
#     FlashAttention with the queries in the outer loop: a block keeps its queries and loops over all keys.


# %% fold="The kernel in FA1 order"
KEYS_OUTSIDE_SOURCE = r"""
// O = softmax(scale * Q K^T) V for one head, FP32, row-major, any N and M. One block of BR threads.
// row_max and sum: N elements of workspace each.
extern "C" __global__ void __launch_bounds__(BR)
keys_outside(const float* Q, const float* K, const float* V,
             float* O, float* row_max, float* sum, int N, int M, float scale) {
    __shared__ float k[BC][D], v[BC][D];
    for (int j0 = 0; j0 < M; j0 += BC) {
        for (int e = threadIdx.x; e < BC * D; e += BR) {
            int j = j0 + e / D;
            k[e / D][e % D] = j < M ? K[j * D + e % D] : 0.0f;
            v[e / D][e % D] = j < M ? V[j * D + e % D] : 0.0f;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < N; i += BR) {
            float q[D], o[D], m = j0 > 0 ? row_max[i] : -INFINITY, z = j0 > 0 ? sum[i] : 0.0f;
            for (int c = 0; c < D; ++c) {
                q[c] = Q[i * D + c];
                o[c] = j0 > 0 ? O[i * D + c] : 0.0f;
            }
            for (int t = 0; t < BC && j0 + t < M; ++t) {
                float s = 0.0f;
                for (int c = 0; c < D; ++c) s += q[c] * k[t][c];
                s *= scale;
                float larger = fmaxf(m, s), alpha = expf(m - larger), p = expf(s - larger);
                m = larger;
                z = z * alpha + p;
                for (int c = 0; c < D; ++c) o[c] = o[c] * alpha + p * v[t][c];
            }
            bool last = j0 + BC >= M;
            for (int c = 0; c < D; ++c) O[i * D + c] = last ? o[c] / z : o[c];
            row_max[i] = m;
            sum[i] = z;
        }
        __syncthreads();
    }
}
"""


def keys_outside(N, M, d, rows, keys):
    arrays = {"Q": normal(N, d), "K": normal(M, d), "V": normal(M, d), "O": output(N, d)}
    state = {"row_max": output(N), "sum": output(N)}
    sizes = {"N": N, "M": M, "scale": d**-0.5}
    kernel = Kernel(KEYS_OUTSIDE_SOURCE, defines={"D": d, "BR": rows, "BC": keys})
    return kernel.on(case(**arrays, **state, **sizes, grid=1, block=rows))


# %% [markdown]
# ## Memory traffic still grows with N squared
#
# With $B_r$ queries per tile, a kernel in FA2 order reads all keys and values $N/B_r$ times. With $B_c$ keys per tile,
# a kernel in FA1 order goes through all queries $N/B_c$ times. Three separate kernels write and read $S$ and $P$ once
# each, and their GEMMs read $Q$, $K$ and $V$ tile by tile as well.


# %% fold="Code of the counts"
def numbers_moved(N, d, rows, keys):
    """Elements moved between the SMs and the caches behind them, for sizes that divide: formulas."""
    return {
        "stored": 4 * N * N + 2 * (N // rows) * N * d + 2 * N * d,
        "FA1": (N // keys) * (2 * N * d + 2 * N) + (N // keys - 1) * (N * d + 2 * N) + 2 * N * d,
        "FA2": (N // rows) * (2 * N * d + N) + 2 * N * d,
    }


def numbers_counted(N, d, rows, keys):
    """The same for both orders of the loops, from the simulator."""
    no_bias = constant(N, value=0.0)
    launches = {
        "FA1": keys_outside(N, N, d, rows, keys),
        "FA2": flash_rows_kernel(d, 1, rows, keys).on(rows_case(N, N, d, no_bias, rows=rows, parts=1)),
    }
    found = {}
    for name, launch in launches.items():
        arrays = launch.case.make()
        counts = launch.simulate(arrays=arrays).counts
        found[name] = counts.global_load.lane_accesses + counts.global_store.lane_accesses
        right = attention(*(arrays[one] for one in "QKV"), 0.0, arrays["scale"])["O"]
        check(arrays["O"], right, atol=1e-5, name=f"{name} order against 64-bit NumPy, N = {N}")
    return found


numbers_counted(37, 16, 32, 16)  # right where no tile divides; there the formulas do not hold
COUNTED = {N: numbers_counted(N, 16, 32, 16) for N in (32, 64, 128)}
for N, counted in COUNTED.items():
    moved = numbers_moved(N, 16, 32, 16)
    check(
        list(counted.values()),
        [moved[name] for name in counted],
        name=f"elements moved: formulas and simulator, N = {N}",
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
                [N for N, counted in COUNTED.items() for _ in counted],
                [moved for counted in COUNTED.values() for moved in counted.values()],
                line=False,
            ),
        ],
        x="N",
        y="elements moved",
        log_x=True,
        log_y=True,
        title="All three grow with N squared; the tile sizes set the constant factor",
        caption="Elements moved between the SMs and the caches behind them, d = 16, tiles of 32 queries and 16 keys. Lines are formulas; points are the simulator's counts of the two FlashAttention kernels.",
    )
)
for d in (64, 128):
    for tile in (32, 128):
        equal = numbers_moved(4096, d, tile, 64)
        assert equal["FA2"] < equal["stored"], "the text: fewer with equal tiles"
large, small = numbers_moved(4096, 128, 128, 64), numbers_moved(4096, 128, 32, 64)
assert large["stored"] < small["FA2"], "the text: three kernels with larger tiles move less"


# %% [markdown]
# With equal tiles, FlashAttention moves fewer elements. Three separate kernels with larger tiles can move fewer still.
# But FlashAttention's traffic is cheaper: it reads the same keys and values again and again, and they stay in the L2,
# whereas each element of $S$ and $P$ is written and read just once. As long as a head's keys and values fit in the L2,
# what FlashAttention loads from device memory grows only with $N$.

# %% [markdown]
# ## Parallelism: heads, query tiles and key splits
#
# The first FlashAttention launched one block per head. A model with 12 heads would use only {{ chip.by_head | .0% }} of
# the {{ chip.sms }} SMs. The FA2 order adds the query tiles as a second axis. Still, one head of 1,024 queries in tiles
# of 64 has only 16 blocks. The keys can be a third axis: several blocks process the same queries, each
# with its own *split* of the keys, and the rescaling rule of online softmax combines their results. For a single query,
# this is known as [Flash-Decoding](https://pytorch.org/blog/flash-decoding/).


# %% fold="Code of the figure"
GPU = recorded_device()
assert device("H100 SXM").memory_gb < 2 * 4 * 2**34 / 1e9, "the text: two matrices don't fit in memory"
show(
    block_grid(
        (4, 3, 2),
        (1, 1, 1),
        axes=("query tile", "key split", "head"),
        view="3d",
        title="Three axes of blocks: query tiles, key splits, heads",
        caption="A launch for two heads, four query tiles and three key splits; each cell is one block. In the flat view, the heads are layers.",
    )
)
publish(chip={"sms": GPU.sms, "by_head": 12 / GPU.sms})

# %% [markdown]
# ## Kernel 6: split-key FlashAttention
#
# With 64 queries per block and the keys in 8 splits, one head has 128 blocks. A block keeps 64 queries, 128 keys,
# 128 values and the probabilities in shared memory, {{ six.shared_kb | .0f }} KiB in all. Each warp owns eight
# queries, so no other warp needs their maxima, sums or probabilities. Each thread works on four of these queries: for
# each, it first computes 8 of the 128 scores, then 8 of the 128 output columns. `cp.async` copies the tiles, and the
# values arrive while the scores are computed.


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
            row_max = max(m, s.max())
            shift = row_max if row_max > -np.inf else 0.0
            alpha, p = np.exp(m - shift), np.exp(s - shift)
            m, z, o = row_max, z * alpha + p.sum(), o * alpha
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
#define WIDE (D + 4)             // row stride, padded by 16 bytes against bank conflicts
#define WIDE_P (TILE_KEYS + 16)

// Copies 16 bytes to shared memory; zeros if bytes is 0.
__device__ void cp_async_16(float* to, const float* from, int bytes) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(at), "l"(from), "r"(bytes) : "memory");
}

__device__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's copies, except the latest PENDING groups.
template <int PENDING> __device__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

__device__ void load(float* tile, int stride, int count, const float* X, int first, int end) {
    for (int e = threadIdx.x; e < count * (D / 4); e += 32 * WARPS) {
        int r = e / (D / 4), c = e % (D / 4) * 4;
        bool in_range = first + r < end;
        cp_async_16(tile + r * stride + c, X + (in_range ? (first + r) * D + c : 0), in_range ? 16 : 0);
    }
    cp_async_commit();
}

// One split of the keys: part = softmax(scale * Q K^T + bias) V over the split, L = its log-sum-exp.
// FP32, contiguous: Q [heads][N][D], K and V [heads][M][D], bias [M], part [splits][heads][N][D],
// L [splits][heads][N]. D = 128, 16-byte aligned pointers, any N and M; share = keys per split, a
// multiple of TILE_KEYS. An empty split has zeros in part and L = -infinity; combine handles both.
// Launch (ceil(N / TILE_ROWS), splits, heads) blocks of 32 * WARPS threads; dynamic shared memory
// for q, k, v and p; sm_80 or newer.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
flash_tiles(const float* Q, const float* K, const float* V, const float* bias,
            float* part, float* L, int N, int M, int share, float scale) {
    extern __shared__ float4 smem[];
    float* q = (float*)smem;
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

    int lane = threadIdx.x % 32, lane_col = lane / 2;
    int row = threadIdx.x / 32 * 2 * ROWS + lane % 2;  // and every second row after it
    float m[ROWS], z[ROWS], o[ROWS][D / 16] = {};
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        m[i] = -INFINITY;
        z[i] = 0.0f;
    }
    for (int j0 = first; j0 < last; j0 += TILE_KEYS) {
        // loaded now, used after the GEMM
        float key_bias[KEYS];
        #pragma unroll
        for (int j = 0; j < KEYS; ++j) {
            int key = j0 + lane_col + 16 * j;
            key_bias[j] = key < last ? bias[key] : -INFINITY;
        }
        cp_async_wait<1>();
        __syncthreads();  // q and k have arrived
        // [scores
        float s[ROWS][KEYS] = {};
        #pragma unroll 2
        for (int c = 0; c < D; c += 4) {
            float4 a[ROWS];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) a[i] = *(float4*)&q[(row + 2 * i) * WIDE + c];
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float4 b = *(float4*)&k[(lane_col + 16 * j) * WIDE + c];
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
            float row_max = m[i];
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                s[i][j] = s[i][j] * scale + key_bias[j];
                row_max = fmaxf(row_max, s[i][j]);
            }
            for (int h = 2; h < 32; h *= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, h));
            float shift = row_max == -INFINITY ? 0.0f : row_max;
#if FORGET != 1
            float alpha = expf(m[i] - shift);
#else
            float alpha = 1.0f;
#endif
            m[i] = row_max;
            z[i] *= alpha;  // this lane's part of the sum
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float e = expf(s[i][j] - shift);
                z[i] += e;
                p[(row + 2 * i) * WIDE_P + lane_col + 16 * j] = e;
            }
            #pragma unroll
            for (int c = 0; c < D / 16; ++c) o[i][c] *= alpha;
        }
        // softmax]
#if FORGET != 2
        cp_async_wait<0>();
#endif
        __syncthreads();  // v has arrived, and no warp needs k any more
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
                    float4 b = *(float4*)&v[(j + t) * D + 64 * h + 4 * lane_col];
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
        float inv_sum = z[i] > 0.0f ? 1.0f / z[i] : 0.0f;
        #pragma unroll
        for (int h = 0; h < D / 64; ++h)
            *(float4*)&part[out * D + 64 * h + 4 * lane_col] = make_float4(
                o[i][4 * h] * inv_sum, o[i][4 * h + 1] * inv_sum,
                o[i][4 * h + 2] * inv_sum, o[i][4 * h + 3] * inv_sum);
        if (lane_col == 0) L[out] = z[i] > 0.0f ? m[i] + logf(z[i]) : -INFINITY;
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


# %%
FLASH_TILES.region("softmax")

# %% [markdown]
# In the Triton tab, `input_precision="ieee"` keeps the GEMMs in FP32.
#
# For each query, a block stores the attention output over its own keys and $L = m + \ln z$, the *log-sum-exp* of its
# scores. A second kernel combines the splits: split $w$ has the weight $e^{L_w}$, taken relative to the largest.
#
# ??? definition "Log-sum-exp"
#     The logarithm of a sum of exponentials: the maximum plus the logarithm of the normaliser. With it,
#     outputs over different keys can be combined by weight.


# %% tab="Pseudocode"
def combine(part, L, O):
    shares, heads, N, d = part.shape
    for h, i in parallel(heads, N):
        row_max = max(L[:, h, i])
        z, o = 0.0, np.zeros(d)
        for w in range(shares):
            weight = np.exp(L[w, h, i] - row_max) if row_max > -np.inf else 0.0
            z += weight
            o += weight * part[w, h, i]
        O[h, i] = o / z if z > 0 else 0.0


# %% tab="CUDA C"
COMBINE = Kernel(
    r"""
// O = weighted mean of the splits' outputs. FP32, 16-byte aligned, rows = heads * N:
// part [shares][rows][D], L [shares][rows], O [rows][D], with D a multiple of 4.
// One thread per four columns: launch ceil(rows * D / 4 / block) blocks.
extern "C" __global__
void combine(const float* part, const float* L, float* O, int rows, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four columns of a row
    int row = at / (D / 4), c = at % (D / 4) * 4;
    if (row >= rows) return;
    float row_max = -INFINITY, z = 0.0f;
    for (int w = 0; w < shares; ++w) row_max = fmaxf(row_max, L[w * rows + row]);
    if (row_max == -INFINITY) row_max = 0.0f;  // no key in any split
    float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll 8
    for (int w = 0; w < shares; ++w) {
        float weight = expf(L[w * rows + row] - row_max);
        float4 x = *(const float4*)&part[((long long)w * rows + row) * D + c];
        z += weight;
        o.x += weight * x.x;
        o.y += weight * x.y;
        o.z += weight * x.z;
        o.w += weight * x.w;
    }
    float inv_sum = z > 0.0f ? 1.0f / z : 0.0f;
    *(float4*)&O[(long long)row * D + c] =
        make_float4(o.x * inv_sum, o.y * inv_sum, o.z * inv_sum, o.w * inv_sum);
}
""",
    defines={"D": 128},
)


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
    "two heads, 150 keys in three splits": of_heads(FLASH_TILES, 2, 70, 150, 3),
    "two tiles per split": of_heads(FLASH_TILES, 1, 33, 300, 2),
    "large scores": of_heads(FLASH_TILES, 1, 65, 130, 2, stretch=30.0),
    "a first tile that is masked": of_heads(FLASH_TILES, 1, 20, 200, 1, masked(200, 140)),
    "a masked split": of_heads(FLASH_TILES, 1, 20, 200, 2, masked(200, 130)),
    "no key at all": of_heads(FLASH_TILES, 1, 20, 130, 2, masked(130, 130)),
}
tiles_cases = [as_case(tiles_launch(FLASH_TILES, one)) for one in AWKWARD.values()]
agree(flash_tiles, FLASH_TILES, tiles_cases, rtol=2e-5, atol=2e-4)
agree(flash_tiles_triton, FLASH_TILES, tiles_cases, rtol=2e-5, atol=2e-4, by="Triton")


def some_parts(shares, heads, N, scale):
    """Parts with very different log-sum-exps; those of the first query have no keys."""
    random = np.random.default_rng(shares)
    L = scale * random.normal(size=(shares, heads, N)).astype(np.float32)
    L[:, :, 0] = -np.inf
    arrays = {"part": normal(shares, heads, N, 128), "L": L, "O": output(heads, N, 128)}
    sizes = {"rows": heads * N, "shares": shares}
    return case(**arrays, **sizes, grid=ceil_div(32 * heads * N, 64), block=64)


parts = [some_parts(3, 2, 5, 3.0), some_parts(2, 1, 7, 1.0), some_parts(3, 2, 5, 2000.0)]
agree(combine, COMBINE, parts, rtol=1e-5, atol=1e-6)
for name, inputs in AWKWARD.items():
    run, room = run_chain(six(FLASH_TILES, inputs)), 1e-4 if name == "large scores" else 2e-6
    check(run["O"], right_answer(run), atol=room, name=name)

# %% [markdown]
# ## Three bugs: a missing factor, wait or barrier
#
# Forget the factor $\alpha$, and nothing crashes. With one key tile per split, the result is even correct; with more,
# it's off by up to {{ forgot.most | .2f }}, and only a comparison with a reference reveals that. Forget the wait for
# $v$, and threads multiply by values that haven't arrived. Forget the last barrier, and the next tile overwrites values
# that a slower warp is still reading. The simulator catches the last two:


# %% fold="Code of the checks"
inputs = of_heads(FLASH_TILES, 1, 33, 300, 1)
run = run_chain(six(kernel_6(forget=1), inputs))
off = np.abs(run["O"] - right_answer(run)).max()
assert off > 1e-3, "without the factor the result is right; choose other inputs"
publish(forgot={"most": off}, six={"shared_kb": shared_bytes(FLASH_TILES) / 1024})
expect_hazard(tiles_launch(kernel_6(forget=2), inputs), "undelivered", line_with="float4 b = *(float4*)&v")
expect_hazard(tiles_launch(kernel_6(forget=3), inputs), "race", line_with="load(v, D, TILE_KEYS, V, j0")

# %% [markdown]
# ## Estimate: FMA issue, all instructions, shared memory
#
# How long does one of the 128 blocks take? An SM issues at most four instructions per cycle. The FMAs of
# the block's two GEMMs alone give a first lower bound, and all of its instructions a second, higher one. Shared memory
# sets the third: it serves one [wavefront](../matmul/tiling.py#shared-memory-becomes-the-bottleneck) per cycle. That's
# why each thread computes 4 rows by 8 columns: for four terms of each sum, it issues twelve 16-byte loads and 128 FMAs.


# %% fold="Code of the prediction"


def estimates(kernel):
    """Cycles of an SM for 64 queries and 128 keys: FMA issue, all instructions, shared memory."""
    sizes = kernel.defines
    rows, keys = 2 * sizes["ROWS"] * sizes["WARPS"], 16 * sizes["KEYS"]
    counts = tiles_launch(kernel, of_heads(kernel, 1, rows, keys, 1)).simulate().counts
    passes = counts.shared_load.wavefronts + counts.shared_store.wavefronts
    blocks = 64 * 128 / (rows * keys)
    return FMA_CYCLES, blocks * counts.issued / 4, blocks * passes


FMA_CYCLES = 2 * 64 * 128 * 128 // 32 / 4
SHAPES = {
    "64 x 128, 4 x 8 per thread": kernel_6(4, 8, 8),
    "64 x 128, 8 x 8 per thread": kernel_6(8, 8, 4),
    "64 x 64, 4 x 4 per thread": kernel_6(4, 4, 8),
    "128 x 64, 8 x 4 per thread": kernel_6(8, 4, 8),
}
ESTIMATED = {name: estimates(kernel) for name, kernel in SHAPES.items()}
show(
    Table(
        ["tile (queries x keys)", "FMA", "all instructions", "wavefronts"],
        [[name, *cycles] for name, cycles in ESTIMATED.items()],
        caption="Estimated cycles for 64 queries and 128 keys on one SM, from the simulator's PTX counts.",
    )
)
EIGHT_ROWS = flash_rows_kernel(128, 4, 8, 8)
slowest = max(ESTIMATED["64 x 128, 4 x 8 per thread"])
least = bound(stated(GPU), bytes_moved=4 * 4 * 1024 * 128, flop=4 * 1024 * 1024 * 128)
publish(predicted={"block_us": slowest / GPU.boost_mhz, "arithmetic_us": least.arithmetic_us})

# %% [markdown]
# The largest of the three gives {{ predicted.block_us | us }} at boost clock. It's only an estimate: we counted \PTX
# instructions, whereas the hardware runs \SASS, and the estimate leaves out the first loads and the kernel that
# combines the splits.
#
# With eight queries per block, the first kernel also has 128 blocks, each of one warp.


# %% fold="Code of the measurement"
from tilewise import Guess, gpu_here, measure


def timed_case(kernel, N, shares):
    """One head whose bias is zero, so that a library computes the same."""
    arrays = {"Q": normal(N, 128), "K": normal(N, 128), "V": normal(N, 128), "bias": constant(N, value=0.0)}
    written = {"part": output(shares, 1, N, 128), "L": output(shares, 1, N), "O": output(N, 128)}
    sizes = {"N": N, "M": N, "rows": N, "shares": shares, "share": share_of(kernel, N, shares)}
    return case(**arrays, **written, **sizes, scale=128**-0.5)


def in_shares(kernel, shares=None):
    """Kernel 6 as a variant: as many splits as fill the SMs, or as given."""

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
    """Eager mode: two GEMMs and a softmax."""
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
        "8 queries per block, one warp": eight_rows,
        "Kernel 6: flash": in_shares(FLASH_TILES),
        "one split": in_shares(FLASH_TILES, 1),
        "two splits": in_shares(FLASH_TILES, 2),
        "four splits": in_shares(FLASH_TILES, 4),
        "64 x 128, 8 x 8 per thread": in_shares(SHAPES["64 x 128, 8 x 8 per thread"]),
        "64 x 64, 4 x 4 per thread": in_shares(SHAPES["64 x 64, 4 x 4 per thread"]),
        "128 x 64, 8 x 4 per thread": in_shares(SHAPES["128 x 64, 8 x 4 per thread"]),
    },
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}, {"N": 4096, "d": 128}],
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations, "torch, fused": torch_fused},
    reference=attention,
    tolerance=2e-5,
    counts=("sectors", "wavefronts"),
    reasons={"*": "Kernel 6 against PyTorch"},
    fold="All 30 rows",
    guess=Guess(
        "N = 1,024: by what factor is Kernel 6 faster than the first kernel with eight queries per block?",
        of="Kernel 6: flash",
        over="8 queries per block, one warp",
        at={"N": 1024, "d": 128},
        between=(0.5, 200),
        models={"the same multiply-adds": 1.0, "loads of keys and values": 8.0},
        because="Both do the same multiply-adds. The first kernel loads an element per multiply-add and has one warp per SM, so nothing hides its latency. Kernel 6 loads three elements per eight multiply-adds and has eight warps.",
    ),
)

# %% [markdown]
# ## Kernel 6 against PyTorch


# %% fold="Code of the figure"
us = medians_us(sixth, "N")
SPLITS = {1: "one split", 2: "two splits", 4: "four splits", 8: "Kernel 6: flash"}
split_us = [us[label, 1024] for label in SPLITS.values()]
if complete(*split_us):
    assert split_us == sorted(split_us, reverse=True), "the title says that splitting the keys helps"
    show(
        line_chart(
            [
                Series("measured", list(SPLITS), split_us),
                Series(
                    "estimate",
                    list(SPLITS),
                    [8 / shares * slowest / GPU.boost_mhz for shares in SPLITS],
                    role="predicted",
                ),
            ],
            x="key splits",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="Splitting the keys fills the SMs that one head leaves idle",
            caption="One head, N = 1,024, d = 128, 32-bit floats on an {machine}: the time of both launches of Kernel 6 by number of key splits, and the estimate from PTX instructions at boost clock.",
        )
    )
three_us = us["torch, three operations", 1024]
if complete(*split_us, three_us):
    assert us["Kernel 6: flash", 1024] < three_us, "the text says that Kernel 6 is faster than torch"
    assert (
        us["64 x 64, 4 x 4 per thread", 256] < us["torch, three operations", 256] < us["Kernel 6: flash", 256]
    ), "the text says that at N = 256 only smaller tiles beat torch"
    assert us["128 x 64, 8 x 4 per thread", 4096] < us["Kernel 6: flash", 4096], (
        "the text says that at N = 4,096 larger tiles are faster"
    )
publish(
    seen={
        "six_us": us["Kernel 6: flash", 1024],
        "torch_us": three_us,
        "of_torch_4096": us["Kernel 6: flash", 4096] / us["torch, three operations", 4096],
        "share_gain": us["one split", 1024] / us["Kernel 6: flash", 1024],
        "times_torch": three_us / us["Kernel 6: flash", 1024],
        "fused_us": us["torch, fused", 1024],
    }
)

# %% [markdown]
# At N = 1,024, Kernel 6 takes {{ seen.six_us | us }} and PyTorch's three operations {{ seen.torch_us | us }}: ours is
# {{ seen.times_torch | .1f }}× faster. With the keys in eight splits, it's {{ seen.share_gain | .1f }}× faster than
# with just one.
#
# The best tile depends on N. At N = 256, Kernel 6 is slower than PyTorch, and tiles of 64 × 64 are faster, because
# there are twice as many blocks. At N = 4,096, Kernel 6 takes {{ seen.of_torch_4096 | .0% }} of PyTorch's time.
#
# Fusion alone isn't enough. PyTorch's own fused FP32 kernel, the memory-efficient attention kernel from xFormers, takes
# {{ seen.fused_us | us }} at N = 1,024. It doesn't split the keys, so a single head can't fill the chip.

# %% fold="Code that profiles Kernel 6 on a GPU" needs="gpu torch" record="counters"
if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def kernel_6_and_torch():
        """Calls of Kernel 6 with one split and with as many as fill the SMs, and of PyTorch, N = 1,024 and 4,096."""
        calls = Calls()
        for N in (1024, 4096):
            calls.add(f"one split, N={N}", in_shares(FLASH_TILES, 1)(N, 128))
            calls.add(f"Kernel 6, N={N}", in_shares(FLASH_TILES)(N, 128))
            calls.add_library(f"memory-efficient, N={N}", torch_fused)
            calls.add_library(f"PyTorch, three operations, N={N}", torch_three_operations)
        return calls.by_label

    print(table_of(profiled("attention/flash_forward", "counters", kernel_6_and_torch)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import printed_profiles

CYCLES_OF = "sm__cycles_active"
active = {  # recorded on an H200
    name: one[f"{CYCLES_OF}.avg"] / one[f"{CYCLES_OF}.max"]
    for name, label in (("fused", "memory-efficient"), ("one_split", "one split"), ("six", "Kernel 6"))
    for one in [printed_profiles("attention/flash_forward", "counters")[f"{label}, N=1024"]]
}
assert not max(active["fused"], active["one_split"]) > 0.2 and not active["six"] < 0.9, (
    "the text: SMs are idle"
)

# %% [markdown]
# Where does the rest of the time go? We can record the SM's cycle counter in the kernel, after each part:


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
    """`flash_tiles` that notes 7 time stamps of each block with one tile of keys; `also` is done at both ends."""
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
check(arrays["O"], right_answer(arrays), atol=2e-6, name="Kernel 6 with stamps")


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
    assert spent["scores"] + spent["mean"] > ends[-1] / 2, "the title says that the GEMMs take most"
    PART_NAMES = {
        "first tiles": "wait for first tiles",
        "scores": "QKᵀ GEMM",
        "softmax": "softmax",
        "barrier, v": "wait for v",
        "mean": "PV GEMM",
        "parts out": "epilogue",
    }
    ROLES = ("read", "tile", "block", "waste", "tile", "write")
    show(
        timeline(
            [
                Span(PART_NAMES[part], start, end, f"{spent[part]:,.0f}", role)
                for part, start, end, role in zip(STAMPED_PARTS, ends, ends[1:], ROLES, strict=False)
            ],
            unit="cycles",
            title="Two GEMMs take most of the time; nothing overlaps the first wait",
            caption="Median number of cycles that a block of Kernel 6 spends in each part, for N = 1,024 with one key tile per split, recorded on an {machine} with a cold L2.",
        )
    )
publish(
    clocks={
        "all_us": spent["all blocks"] / 1000,
        "per_product": (spent["scores"] + spent["mean"]) / FMA_CYCLES,
        "rest_us": us["Kernel 6: flash", 1024] - spent["all blocks"] / 1000,
    }
)

# %% [markdown]
# The two GEMMs take {{ clocks.per_product | .2f }} cycles for each FMA that a scheduler issues, although it could issue
# one per cycle. Before the first GEMM, a block waits for its tiles, since all SMs load 96 KiB at the same time. The
# whole kernel takes {{ clocks.all_us | us }}. The remaining {{ clocks.rest_us | us }} of the measured time goes to the
# second launch and to launch overhead.


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


measure(
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
    reasons={"*": "Kernel 6 against PyTorch"},
    fold="All four rows",
)

# %% [markdown]
# Compared with an FP64 reference at N = 1,024, the largest absolute error is {{ errors.most | .1e }}:

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
# All attention kernels so far:


# %% fold="Code of the table"
show(attention_so_far(6))

# %% [markdown]
# ## Takeaways
#
# - FlashAttention carries $m$, $z$ and $o$ per query through the key tiles and rescales $z$ and $o$ by one factor. The
#   result is exact, and neither $S$ nor $P$ is stored.
# - Storage grows with $N$ instead of $N^2$. Traffic still grows with $N^2$, by a factor that depends on the tile size,
#   but the L2 serves most of it.
# - A block only has to write its output and its log-sum-exp, so keys can be split over blocks. With too few heads and
#   query tiles, the splits fill the chip.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, compare `launch__grid_size` with the number of SMs: if attention has fewer blocks than SMs, split
# the keys. If `dram__bytes_read.sum` grows with the square of the context length, something still materialises $S$ or
# $P$.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "A bias that is never stored",
    """
    [ALiBi](https://arxiv.org/abs/2108.12409) subtracts `slopes[head]` times |i - j| from the scaled score of query i and
    key j. How much memory would the biases of 12 heads take in FP32 at N = 16,384, and which line of `flash_rows` can
    compute them instead?
    """,
    explanation="12 × 16,384² × 4 bytes are 13 GB. The thread knows both positions, so `s[t] = s[t] * scale + b[t]` becomes `s[t] = s[t] * scale - slope * abs(i - (j0 + t))`, and nothing is stored. Only the dot product is scaled, not the bias.",
)

# %% [markdown]
# Later lessons cover the [backward pass](masks_and_backward.py) and [masks](masks.py).
