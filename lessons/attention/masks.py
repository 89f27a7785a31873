# ---
# title: "Attention masks and dropout: skipped tiles, regenerated randomness"
# needs: [attention/masks_and_backward]
# further: attention/masks_and_backward
# summary: "A causal mask hides half of all pairs of tokens. Does it halve the work, and how can the backward pass reuse a dropout mask that nobody stored?"
# description: "Causal, sliding-window, document and prefix masks as intervals in FlashAttention, rows without keys, and dropout from a counter-based generator, forward and backward."
# date: 2026-11-23
# tags: [attention, causal mask, sliding window, dropout, Philox]
# ---

# %% [markdown]
# A language model must not see the tokens that it is learning to predict, so training uses a causal mask. With 1,024
# queries and 1,024 keys, there are {{ causal.tiles }} tiles of 64 × 64, and this mask leaves {{ causal.visited }} of
# them. Only {{ causal.edge }} of those need a test for each pair. So a mask can save almost half of the work, if the
# kernel skips whole tiles.
#
# Dropout is the opposite: its mask is random, so no tile can be skipped, and the backward pass needs exactly the same
# mask again. Storing it would take another N × N matrix. How can both passes use the same mask if nobody stores it?

# %% [markdown]
# ## Masks as intervals
#
# Many masks have the same form: query $i$ sees the keys from `first[i]` up to, but not including, `last[i]`.
#
# - A *causal mask* is the interval $[0, i + 1)$.
# - A *sliding window* of $w$ keys is $[i + 1 - w, i + 1)$.
# - With several *documents* packed into one sequence, the interval is causal and starts at the first token of the
#   query's document.
# - With a *prefix* that all queries may see, the causal interval is extended to the end of the prefix wherever it would
#   end earlier.
#
# Step through these masks. A tile is empty, full, or on an edge of the mask.
#
# ??? definition "Sliding window"
#     A mask under which a query sees only a fixed number of the latest keys.
#
# ??? definition "Block-sparse"
#     Describes a mask most of whose tiles are entirely empty or entirely full, so that a kernel can skip whole tiles.

# %% fold="Code of the figure"
import numpy as np

from tilewise import parallel, publish, show
from tilewise.figures import heat_map


def intervals(mask, N):
    """first and last for a mask's name."""
    i = np.arange(N)
    if mask == "full":
        return np.zeros(N, np.int32), np.full(N, N, np.int32)
    if mask == "causal":
        first = np.zeros(N)
    elif mask == "window":
        first = np.maximum(0, i + 1 - N // 4)
    elif mask == "documents":
        starts = np.array([0, N * 3 // 32, N * 3 // 8, N * 7 // 16, N * 7 // 8])
        first = starts[np.searchsorted(starts, i, side="right") - 1]
    elif mask == "prefix":
        return np.zeros(N, np.int32), np.maximum(i + 1, N * 3 // 8).astype(np.int32)
    return first.astype(np.int32), (i + 1).astype(np.int32)


def seen(first, last, M):
    """The mask itself: which query sees which key."""
    j = np.arange(M)
    return (first[:, None] <= j) & (j < last[:, None])


def tile_map(first, last, M, tile):
    """For each tile: 0 without a pair, 1 with some, 2 with all."""
    pairs = seen(first, last, M)
    cut = [
        np.array_split(rows, range(tile, M, tile), 1)
        for rows in np.split(pairs, range(tile, len(first), tile))
    ]
    return np.array([[int(piece.any()) + int(piece.all()) for piece in row] for row in cut])


MASKS = ("full", "causal", "window", "documents", "prefix")
MAPS = {mask: tile_map(*intervals(mask, 1024), 1024, 64) for mask in MASKS}
show(
    heat_map(
        {"tiles": np.stack([MAPS[mask] for mask in MASKS])},
        steps=list(MASKS),
        step_name="mask",
        start=1,
        ranges={"tiles": (0, 2)},
        x="keys, in tiles of 64",
        y="queries, in tiles of 64",
        form=".0f",
        key=False,
        title="Most tiles are empty or full; only those on an edge need a test per pair",
        caption="1,024 queries and keys. Full colour: full tiles, computed without tests. Pale: tiles on an edge, where each pair is tested. Blank: empty tiles, which are skipped. The window has 256 keys, the documents 96, 288, 64, 448 and 128 tokens, and the prefix 384.",
    )
)
WORK = (MAPS["causal"] > 0).sum(axis=1)
publish(
    causal={
        "tiles": MAPS["causal"].size,
        "visited": int((MAPS["causal"] > 0).sum()),
        "edge": int((MAPS["causal"] == 1).sum()),
        "pair": int(WORK[0] + WORK[-1]),
        "longest": float(WORK.max() / WORK.mean()),
    }
)

# %% [markdown]
# ## Skipping tiles in the kernel
#
# One warp handles 32 queries. The minimum of `first` and the maximum of `last` give the range of tiles that the warp
# has to visit; tiles outside this range aren't loaded. For each tile in the range, a warp vote finds out whether it is
# full. If it isn't, each lane tests each key.


# %% tab="Pseudocode"
def philox_2x32(seed, i, j):
    """32 random bits for each position."""
    left, right, key = np.uint64(i), np.asarray(j, np.uint64), np.uint64(seed)
    for _ in range(10):
        product = left * 0xD256D193
        left, right = product >> 32 ^ key ^ right, product % 2**32
        key = (key + 0x9E3779B9) % 2**32
    return left


def dropout_factor(seed, threshold, keep_scale, i, j):
    return np.where(philox_2x32(seed, i, j) <= threshold, keep_scale, 0.0)


def masked_forward(Q, K, V, first, last, O, L, scale, seed, threshold, keep_scale):
    for i in parallel(len(Q)):
        O[i], L[i] = 0.0, -np.inf
        # [tiles
        keys = range(first[i], last[i])
        # tiles]
        if len(keys) > 0:
            # [weights
            s = K[keys] @ Q[i] * scale
            p = np.exp(s - max(s))
            # weights]
            # [accumulate
            O[i] = (p * dropout_factor(seed, threshold, keep_scale, i, keys)) @ V[keys] / sum(p)
            # accumulate]
            # [write
            L[i] = max(s) + np.log(sum(p))
            # write]


# %% tab="CUDA C"
from tilewise import Kernel

MASKED = r"""
#define TILE 32  // queries per block and keys per tile: one warp

// Philox 2x32 with 10 rounds: 32 random bits for each position (i, j).
static __device__ unsigned philox_2x32(unsigned seed, unsigned i, unsigned j) {
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned high = __umulhi(0xD256D193u, i), low = 0xD256D193u * i;
        i = high ^ seed ^ j;
        j = low;
        seed += 0x9E3779B9u;
    }
    return i;
}
static __device__ float dropout_factor(unsigned seed, unsigned threshold, float keep_scale,
                                       int i, int j) {
    return philox_2x32(seed, i, j) <= threshold ? keep_scale : 0.0f;
}
static __device__ float dot(const float* x, const float* y) {
    float s = 0.0f;
    #pragma unroll
    for (int c = 0; c < D; ++c) s += x[c] * y[c];
    return s;
}
static __device__ void add_scaled(float* x, float alpha, const float* y) {
    #pragma unroll
    for (int c = 0; c < D; ++c) x[c] += alpha * y[c];
}
// TILE rows of X, starting at row j0; zeros beyond the end.
static __device__ void load_tile(float (&tile)[TILE][D], const float* X, int j0, int rows) {
    for (int e = threadIdx.x; e < TILE * D; e += TILE)
        tile[e / D][e % D] = j0 + e / D < rows ? X[j0 * D + e] : 0.0f;
}
// The keys that a query sees, first <= j < last, and the range of tiles that its block visits.
struct Interval {
    int first, last, begin, end;
    __device__ Interval(const int* firsts, const int* lasts, int i, int N) {
        first = i < N ? firsts[i] : 0;
        last = i < N ? lasts[i] : 0;
        bool any = first < last;
        begin = __reduce_min_sync(~0u, any ? first : 0x7FFFFFFF) / TILE * TILE;
        end = __reduce_max_sync(~0u, any ? last : 0);
    }
    // Whether all queries of the block see all keys of the tile.
    __device__ bool is_full(int j0) const {
        return __all_sync(~0u, first <= j0 && j0 + TILE <= last);
    }
};

// O and L for one head. All matrices are row-major FP32: Q and O [N][D], K and V [M][D]; L, first and last
// have N elements. Query i sees the keys first[i] <= j < last[i], last[i] <= M; without a key, O is 0 and
// L is -infinity. Dropout keeps a weight if its 32 random bits are at most `threshold`, and multiplies it
// by keep_scale. Any N and M. Launch ceil(N / 32) blocks of 32 threads. sm_80 or later.
extern "C" __global__ void __launch_bounds__(TILE)
masked_forward(const float* Q, const float* K, const float* V, const int* first,
               const int* last, float* O, float* L, int N, int M, float scale,
               unsigned seed, unsigned threshold, float keep_scale) {
    __shared__ float k[TILE][D], v[TILE][D];
    int i = blockIdx.x * TILE + threadIdx.x;
    Interval mask(first, last, i, N);
    float q[D], o[D] = {}, m = -INFINITY, z = 0.0f;
    for (int c = 0; c < D; ++c) q[c] = i < N ? Q[i * D + c] : 0.0f;
    // [tiles
    for (int j0 = mask.begin; j0 < mask.end; j0 += TILE) {
        load_tile(k, K, j0, M);
        load_tile(v, V, j0, M);
        __syncwarp();  // the tile is loaded
        bool is_full = mask.is_full(j0);
        for (int t = 0; t < TILE; ++t) {
            int j = j0 + t;
            if (!is_full && (j < mask.first || j >= mask.last)) continue;
            // [weights
            float s = dot(q, k[t]) * scale, row_max = fmaxf(m, s);
            float alpha = expf(m - row_max), p = expf(s - row_max);
            m = row_max;
            z = z * alpha + p;
            // weights]
            // [accumulate
            for (int c = 0; c < D; ++c) o[c] *= alpha;
            add_scaled(o, p * dropout_factor(seed, threshold, keep_scale, i, j),
                       v[t]);
            // accumulate]
        }
        __syncwarp();  // every lane is done with the tile
    }
    // tiles]
    if (i >= N) return;
    // [write
    for (int c = 0; c < D; ++c) O[i * D + c] = z > 0.0f ? o[c] / z : 0.0f;
    L[i] = z > 0.0f ? m + logf(z) : -INFINITY;
    // write]
}

// delta [N] and dQ [N][D]; the other arrays as above, O and L as the forward pass left them, the same seed.
// Launch ceil(N / 32) blocks of 32 threads.
extern "C" __global__ void __launch_bounds__(TILE)
backward_queries(const float* Q, const float* K, const float* V, const int* first,
                 const int* last, const float* O, const float* dO, const float* L,
                 float* delta, float* dQ, int N, int M, float scale,
                 unsigned seed, unsigned threshold, float keep_scale) {
    __shared__ float k[TILE][D], v[TILE][D];
    int i = blockIdx.x * TILE + threadIdx.x;
    Interval mask(first, last, i, N);
    float q[D], d_out[D], dq[D] = {}, lse = i < N ? L[i] : INFINITY, delta_i = 0.0f;
    for (int c = 0; c < D; ++c) {
        q[c] = i < N ? Q[i * D + c] : 0.0f;
        d_out[c] = i < N ? dO[i * D + c] : 0.0f;
        delta_i += i < N ? d_out[c] * O[i * D + c] : 0.0f;
    }
    for (int j0 = mask.begin; j0 < mask.end; j0 += TILE) {
        load_tile(k, K, j0, M);
        load_tile(v, V, j0, M);
        __syncwarp();
        bool is_full = mask.is_full(j0);
        for (int t = 0; t < TILE; ++t) {
            int j = j0 + t;
            if (!is_full && (j < mask.first || j >= mask.last)) continue;
            // [query
            float p = expf(dot(q, k[t]) * scale - lse);
            float dp = dot(d_out, v[t])
                     * dropout_factor(seed, threshold, keep_scale, i, j);
            add_scaled(dq, p * (dp - delta_i) * scale, k[t]);
            // query]
        }
        __syncwarp();
    }
    if (i >= N) return;
    delta[i] = delta_i;
    for (int c = 0; c < D; ++c) dQ[i * D + c] = dq[c];
}

// dK and dV, both [M][D]. Launch ceil(M / 32) blocks of 32 threads, after backward_queries.
extern "C" __global__ void __launch_bounds__(TILE)
backward_keys(const float* Q, const float* K, const float* V, const int* first,
              const int* last, const float* dO, const float* L, const float* delta,
              float* dK, float* dV, int N, int M, float scale,
              unsigned seed, unsigned threshold, float keep_scale) {
    __shared__ float q[TILE][D], d_out[TILE][D], lse[TILE], delta_i[TILE];
    __shared__ int smem_first[TILE], smem_last[TILE];
    int j0 = blockIdx.x * TILE, j = j0 + threadIdx.x;
    float k[D], v[D], dk[D] = {}, dv[D] = {};
    for (int c = 0; c < D; ++c) {
        k[c] = j < M ? K[j * D + c] : 0.0f;
        v[c] = j < M ? V[j * D + c] : 0.0f;
    }
    for (int i0 = 0; i0 < N; i0 += TILE) {
        int i = i0 + threadIdx.x;
        int a = i < N ? first[i] : 0, b = i < N ? last[i] : 0;
        if (!__any_sync(~0u, a < b && a < j0 + TILE && j0 < b)) continue;
        load_tile(q, Q, i0, N);
        load_tile(d_out, dO, i0, N);
        lse[threadIdx.x] = i < N ? L[i] : INFINITY;
        delta_i[threadIdx.x] = i < N ? delta[i] : 0.0f;
        smem_first[threadIdx.x] = a;
        smem_last[threadIdx.x] = b;
        __syncwarp();
        for (int t = 0; t < TILE; ++t) {
            if (j < smem_first[t] || j >= smem_last[t]) continue;
            // [key
            float p = expf(dot(q[t], k) * scale - lse[t]);
            float factor = dropout_factor(seed, threshold, keep_scale, i0 + t, j);
            float dp = dot(d_out[t], v) * factor;
            add_scaled(dv, p * factor, d_out[t]);
            add_scaled(dk, p * (dp - delta_i[t]) * scale, q[t]);
            // key]
        }
        __syncwarp();
    }
    if (j >= M) return;
    for (int c = 0; c < D; ++c) {
        dK[j * D + c] = dk[c];
        dV[j * D + c] = dv[c];
    }
}
"""
FORWARD = Kernel(MASKED, "masked_forward", defines={"D": 16})

# %%
FORWARD.region("tiles")

# %% [markdown]
# Run it with a causal mask on 3 queries and 3 keys that are all zero.

# %%
Q, K, O = np.zeros((3, 3, 16), np.float32)
V, L = np.eye(3, 16, dtype=np.float32), np.zeros(3, np.float32)
first, last = np.int32([0, 0, 0]), np.int32([1, 2, 3])
FORWARD(Q, K, V, first, last, O, L, 3, 3, 0.25, 0, 2**32 - 1, 1.0, grid=1, block=32)
print(O[:, :3].round(2))

# %% fold="Code of the checks"
from tilewise import Table, agree, case, ceil_div, check, normal, output
from tilewise.kernel.chains import run_chain

SEED, KEEP = 2026, 0.8
DROPOUT = {"seed": np.uint32(SEED), "threshold": np.uint32(KEEP * 2**32), "keep_scale": np.float32(1 / KEEP)}
NO_DROPOUT = {"seed": np.uint32(SEED), "threshold": np.uint32(2**32 - 1), "keep_scale": np.float32(1.0)}


def of_mask(first, last, M, dropout=NO_DROPOUT, stretch=1.0, d=16):
    """One head with this mask, forward and backward."""
    N = len(first)
    inputs = {"Q": normal(N, d, scale=stretch), "K": normal(M, d), "V": normal(M, d), "dO": normal(N, d)}
    made = {"O": output(N, d), "L": output(N), "delta": output(N)}
    made |= {"dQ": output(N, d), "dK": output(M, d), "dV": output(M, d)}
    sizes = {"N": N, "M": M, "scale": d**-0.5, **dropout}
    bounds = {"first": np.asarray(first, np.int32), "last": np.asarray(last, np.int32)}
    return case(ceil_div(N, 32), 32, **inputs, **bounds, **made, **sizes)


def rows_without_keys(N):
    first, last = intervals("causal", N)
    return first, np.where(np.arange(N) % 5 == 3, 0, last)


AWKWARD = {
    "causal, 45 queries": of_mask(*intervals("causal", 45), 45),
    "a window, 70 queries": of_mask(*intervals("window", 70), 70, DROPOUT),
    "documents, 67 queries, large scores": of_mask(*intervals("documents", 67), 67, stretch=30.0),
    "a prefix, 50 queries": of_mask(*intervals("prefix", 50), 50, DROPOUT),
    "rows without keys": of_mask(*rows_without_keys(41), 41, DROPOUT),
    "no row has a key": of_mask(np.zeros(9), np.zeros(9), 33),
    "more keys than queries": of_mask(np.arange(20), np.arange(20) + 37, 57, DROPOUT),
}
agree(masked_forward, FORWARD, list(AWKWARD.values()), rtol=1e-4, atol=1e-5)

# %% [markdown]
# Run the kernel with each mask on 96 tokens, three tiles of queries and three of keys. How much work does a mask save?

# %% fold="Code of the run"
from tilewise import try_it

try_it({mask: FORWARD.on(of_mask(*intervals(mask, 96), 96)) for mask in MASKS})

# %% [markdown]
# ## Load balance under a causal mask
#
# With a causal mask, the work per block is unequal. In the example, the last query tile visits
# {{ causal.longest | .1f }}× as many key tiles as the average one. There are two remedies.
#
# If there are more blocks than can be resident at once, start the [longest ones first](hopper_scheduling.py). Or give
# each block two query tiles, one from each end: any such pair visits {{ causal.pair }} key tiles.

# %% [markdown]
# ## Rows without keys
#
# In a padded batch, some queries see no key at all. Their maximum is $-\infty$ and their sum is 0. A kernel that
# doesn't handle this case writes NaN, which then spreads through the next layer. The output of such a row should be
# zero. Its log-sum-exp is $L = -\infty$.
#
# This value is a trap for the backward pass: $e^{s - L}$ is infinite for a finite score $s$, and NaN for a score of
# $-\infty$. The kernels on this page never evaluate it, since such a row has no pairs. Kernels that compute whole tiles
# do evaluate it, so [the lesson's backward pass](masks_and_backward.py) first replaces $-\infty$ with $+\infty$. Then
# every weight of the row is 0.

# %% [markdown]
# ## Dropout from a seed
#
# Dropout zeroes each weight with probability $1 - k$ and divides the others by $k$, so that the expected output stays
# the same. A *counter-based generator* needs no memory for the mask: its output is a function of a seed and the
# position $(i, j)$. The same arguments give the same bits, on any thread and in any order.[^philox] So the backward
# pass regenerates the mask tile by tile.
#
# The maximum and the sum of a row are computed without dropout. Only the sum of the value rows uses the weights after
# dropout.
#
# [^philox]: The generator used here is Philox, by [Salmon et al. (2011)](https://doi.org/10.1145/2063384.2063405),
#     with two words and ten rounds.
#
# ??? definition "Counter-based generator"
#     A function from a seed and a counter to random bits. Unlike other generators, it has no state that must be passed on.

# %% [markdown]
# ## The backward pass with a mask and dropout
#
# Let $R$ be the matrix of dropout factors, 0 or $1/k$. The output is $O = (P \circ R)\,V$, so two of the formulas change:
#
# $$dV = (P \circ R)^T dO, \qquad dP = (dO\,V^T) \circ R$$
#
# The rest stays the same, even $\delta_i = dO_i \cdot O_i$, since $O$ already contains $R$.


# %% tab="Pseudocode"
def backward_queries(Q, K, V, first, last, O, dO, L, delta, dQ, scale, seed, threshold, keep_scale):
    for i in parallel(len(Q)):
        delta[i] = dO[i] @ O[i]
        dQ[i] = 0.0
        for j in range(first[i], last[i]):
            # [query
            p = np.exp(K[j] @ Q[i] * scale - L[i])
            dp = V[j] @ dO[i] * dropout_factor(seed, threshold, keep_scale, i, j)
            dQ[i] += p * (dp - delta[i]) * scale * K[j]
            # query]


def backward_keys(Q, K, V, first, last, dO, L, delta, dK, dV, scale, seed, threshold, keep_scale):
    for j in parallel(len(K)):
        dK[j], dV[j] = 0.0, 0.0
        for i in range(len(Q)):
            if first[i] <= j < last[i]:
                # [key
                p = np.exp(K[j] @ Q[i] * scale - L[i])
                factor = dropout_factor(seed, threshold, keep_scale, i, j)
                dp = V[j] @ dO[i] * factor
                dV[j] += p * factor * dO[i]
                dK[j] += p * (dp - delta[i]) * scale * Q[i]
                # key]


# %% tab="CUDA C"
BACKWARD_QUERIES = FORWARD.named("backward_queries")
BACKWARD_KEYS = FORWARD.named("backward_keys")

# %%
BACKWARD_QUERIES.region("query")

# %%
BACKWARD_KEYS.region("key")

# %% fold="Code of the checks"


def unfused(Q, K, V, dO, first, last, scale, dropout):
    """O and the gradients in 64-bit floats, with every matrix stored, that of dropout too."""
    Q, K, V, dO = (one.astype(np.float64) for one in (Q, K, V, dO))
    mask = seen(first, last, len(K))
    S = np.where(mask, Q @ K.T * scale, -np.inf)
    m = S.max(axis=1, keepdims=True)
    P = np.exp(S - np.where(np.isfinite(m), m, 0.0))
    z = P.sum(axis=1, keepdims=True)
    P /= np.where(z > 0, z, 1.0)
    positions = np.ogrid[: len(Q), : len(K)]
    settings = int(dropout["seed"]), int(dropout["threshold"]), float(dropout["keep_scale"])
    R = dropout_factor(*settings, *positions)
    dP = (dO @ V.T) * R
    dS = P * (dP - (P * dP).sum(axis=1, keepdims=True))
    return {
        "O": (P * R) @ V,
        "dQ": dS @ K * scale,
        "dK": dS.T @ Q * scale,
        "dV": (P * R).T @ dO,
        "R": R,
        "mask": mask,
    }


def all_three(inputs):
    """The arrays after the forward pass and both kernels of the backward pass."""
    blocks = {kernel: ceil_div(inputs.values["N"], 32) for kernel in (FORWARD, BACKWARD_QUERIES)}
    blocks[BACKWARD_KEYS] = ceil_div(inputs.values["M"], 32)
    return run_chain([kernel.on(inputs, grid=grid, block=32) for kernel, grid in blocks.items()])


def right_gradients(arrays, dropout):
    names = ("Q", "K", "V", "dO", "first", "last")
    return unfused(*(arrays[name] for name in names), arrays["scale"], dropout)


for name, inputs in AWKWARD.items():
    arrays = all_three(inputs)
    right = right_gradients(arrays, {one: arrays[one] for one in DROPOUT})
    got, wanted = (
        np.concatenate([one[each].ravel() for each in ("O", "dQ", "dK", "dV")]) for one in (arrays, right)
    )
    room = 1e-3 if "large" in name else 2e-5
    check(got, wanted, atol=room, name=f"forward, then backward, against NumPy: {name}")


def as_inputs(inputs, written):
    """The case with O, L and delta as inputs, for kernels that read them."""
    arrays = all_three(inputs)
    values = {**inputs.values, **{name: arrays[name] for name in ("O", "L", "delta") if name not in written}}
    blocks = ceil_div(arrays["M" if "dK" in written else "N"], 32)
    return case(blocks, 32, **values)


of_queries = [as_inputs(one, ("delta", "dQ")) for one in AWKWARD.values()]
agree(backward_queries, BACKWARD_QUERIES, of_queries, rtol=2e-4, atol=5e-5)
of_keys = [as_inputs(one, ("dK", "dV")) for one in AWKWARD.values()]
agree(backward_keys, BACKWARD_KEYS, of_keys, rtol=2e-4, atol=5e-5)

# %% fold="Code of the central difference"
inputs = AWKWARD["a window, 70 queries"]
arrays = inputs.make()
random = np.random.default_rng(3)
ways = {name: random.normal(size=arrays[name].shape) for name in "QKV"}


def result_moved(step):
    """The sum of dO times O with Q, K and V moved along their directions."""
    moved = [arrays[name] + step * ways[name] for name in "QKV"]
    return (
        arrays["dO"]
        * unfused(*moved, arrays["dO"], arrays["first"], arrays["last"], arrays["scale"], DROPOUT)["O"]
    ).sum()


slope = (result_moved(1e-5) - result_moved(-1e-5)) / 2e-5
found = right_gradients(arrays, DROPOUT)
by_gradients = sum((found["d" + name] * ways[name]).sum() for name in "QKV")
check(by_gradients, slope, rtol=1e-6, name="the gradients against a central difference")

# %% [markdown]
# ## The instruction count follows the tiles
#
# Skipping pays off as expected: the simulator's instruction counts are roughly proportional to the number of tiles
# visited, in both the forward and the backward pass. With packed documents, the counts are even lower: in an edge tile,
# many keys are seen by none of the warp's queries, so the warp only tests those keys.

# %% fold="Code of the counts"
from tilewise.kernel.chains import count_chain


def counted(mask, N=256):
    """Warp instructions of the forward pass and of both backward kernels."""
    inputs = of_mask(*intervals(mask, N), N)
    forward, queries, keys = count_chain(
        [kernel.on(inputs) for kernel in (FORWARD, BACKWARD_QUERIES, BACKWARD_KEYS)]
    )
    return forward.issued, queries.issued + keys.issued


COUNTED = {mask: counted(mask) for mask in MASKS}
show(
    Table(
        ["mask", "visited tiles", "instructions, forward", "instructions, backward"],
        [
            [
                mask,
                f"{(tile_map(*intervals(mask, 256), 256, 32) > 0).mean():.0%}",
                f"{COUNTED[mask][0] / COUNTED['full'][0]:.0%}",
                f"{COUNTED[mask][1] / COUNTED['full'][1]:.0%}",
            ]
            for mask in MASKS
        ],
        caption="256 queries and keys, d = 16, tiles of 32: tiles visited and warp instructions executed on the simulator, each relative to a launch without a mask.",
    )
)

# %% [markdown]
# ## Takeaways
#
# - An interval mask takes two integers per query. Skip empty tiles, compute full ones without tests, and test each pair
#   only in tiles on an edge.
# - A row without keys has an output of 0 and $L = -\infty$. The backward pass must turn that into a weight of 0, not
#   $\infty$ or NaN.
# - A dropout mask that is a function of seed and position need never be stored, and is the same in both passes.

# %% [markdown]
# ## In your own kernel
#
# Run every attention kernel on a batch in which one query has no key, forward and backward, and test for NaN. If a causal
# mask saves hardly any time, compare `smsp__inst_executed.sum` with and without the mask in Nsight Compute: equal counts mean
# that empty tiles are still computed.

# %% fold="Code of the exercise"
from tilewise import exercise

TOKENS = np.arange(1000)
ROW = tile_map(np.maximum(0, TOKENS - 99), TOKENS + 1, 1000, 64)[10]
assert list(np.flatnonzero(ROW)) == [8, 9, 10] and ROW.max() == 1, "the explanation says so"
exercise(
    "Tiles of a window",
    "A sliding window has 100 keys, and tiles have 64 queries and 64 keys. Which key tiles does query tile 10 (queries 640 to 703) visit, which of them are full, and how long must a window be for any tile to be full?",
    hint="Which is the first key of the first query, and which is the first key of the last one?",
    explanation="Query 640 sees keys 541 to 640, query 703 keys 604 to 703, so the tile visits keys 541 to 703: tiles 8, 9 and 10. None is full: query 703 doesn't see the first keys of tile 9, and tile 10 is on the diagonal. Tile 9 would be full if query 703 saw key 576, with a window of 128 keys.",
)

# %% [markdown]
# Back on the core track, [Decoding](decoding.py) handles the case of a single query.
