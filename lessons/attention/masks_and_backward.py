# ---
# title: Masks, and the way back
# needs: [memory/recomputation, attention/hopper]
# summary: "Half the tiles are empty under a causal mask, and training needs gradients through weights that nobody stored. What do both cost?"
# description: "Attention under causal, window, document and prefix masks; its backward pass with weights made again; dropout from a seed; on wgmma beside cuDNN."
# date: 2026-11-21
# tags: [attention, causal mask, backward pass, dropout, recomputation]
# ---

# %% [markdown]
# A model that learns to write must not see the tokens that are still to come. Of the {{ causal.tiles }}
# tiles of 64 × 64 that 1,024 queries and as many keys make, such a mask leaves {{ causal.visited }}.
# Then training asks for gradients, through weights that were never stored, and dropout has thrown dice that
# nobody wrote down. Forwards attention had two products. How many are there on the way back, and how near
# do they come to the time of the libraries?

# %% [markdown]
# ## Each query sees an interval
#
# Many masks have one form: query $i$ sees keys from `first[i]` up to, but not including, `last[i]`. With
# $[0, i + 1)$ it is a causal mask. A window begins at most so many keys before $i$. Documents that are
# packed into one row of tokens begin where the document does. A prefix that all may see ends where it
# ends. And an interval may be empty.
#
# ??? definition "Sliding window"
#     A mask under which a query sees only so many of the latest keys.
#
# ??? definition "Block-sparse"
#     Of a mask: most of its tiles are empty or full as a whole, so that whole tiles can be left out.

# %% fold="Code of the figure"
import numpy as np

from tilewise import parallel, publish, show, tiles
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
        title="Most tiles are empty or full; only those on an edge need a test for each pair",
        caption="1,024 queries and keys. 0: no pair of the tile is seen, nothing is loaded. 1: some are, each pair is tested. 2: all are. The window is 256 keys, the documents have 96, 288, 64, 448 and 128 tokens, the prefix 384.",
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
# Causal, {{ causal.visited }} of {{ causal.tiles }} tiles have work, and {{ causal.edge }} of them need a
# test. The work is unequal: the longest block has {{ causal.longest | .1f }} times the mean. If all blocks
# run at once, the time is that of the longest. With more blocks than places a head's long ones can start
# first, or a block can have two query tiles, one from each end: any such pair has {{ causal.pair }} tiles.

# %% [markdown]
# ## Rows without a key
#
# A text that was padded has queries that see nothing. Their maximum is $-\infty$ and their sum 0, and a
# careless kernel writes NaN, which the next layer spreads. The output row should be zeros, and the log of an
# empty sum is $L = -\infty$, as PyTorch's `logsumexp` has it. In the backward pass $e^{s - L}$ would then be
# infinite, so the kernel that prepares the backward pass replaces $-\infty$ by $+\infty$: every weight is 0, and no
# later kernel needs a case for it.

# %% [markdown]
# ## Dropout from a seed
#
# Dropout removes weights at random in training, and makes those that stay larger by the inverse of their
# share. The mask must be the same on the way back. Stored, it is a matrix of $N \times N$ once more. But the
# dice need no memory: a function that mixes a seed with the place $(i, j)$ gives the same number whenever it
# is asked.[^philox] Sum and maximum take the weights before dropout, the weighted rows take those after.
#
# [^philox]: Philox, from "Parallel random numbers: as easy as 1, 2, 3" (2011), is such a function, here with
#     two words and ten rounds. PyTorch's generator for GPUs is its sister with four words.
#
# ??? definition "Counter-based generator"
#     A function from a seed and a counter to a random number, without a state that goes from one to the next.


# %% tab="Pseudocode"
def drawn(seed, i, j):
    """Philox 2x32: a word for every place."""
    high, low, key = np.uint64(i), np.asarray(j, np.uint64), np.uint64(seed)
    for _ in range(10):
        product = high * 0xD256D193
        high, low = product >> 32 ^ key ^ low, product % 2**32
        key = (key + 0x9E3779B9) % 2**32
    return high


def kept(seed, limit, more, i, j):
    return np.where(drawn(seed, i, j) <= limit, more, 0.0)


def masked_forward(Q, K, V, first, last, O, L, scale, seed, limit, more):
    for i in parallel(len(Q)):
        O[i], L[i] = 0.0, -np.inf
        own = range(first[i], last[i])
        if len(own) > 0:
            # [weights
            s = K[own] @ Q[i] * scale
            p = np.exp(s - max(s))
            # weights]
            # [mean
            O[i] = (p * kept(seed, limit, more, i, own)) @ V[own] / sum(p)
            # mean]
            # [leave
            L[i] = max(s) + np.log(sum(p))
            # leave]


# %% tab="CUDA C"
from tilewise import Kernel

TEACHING = r"""
#define TILE 32  // queries of a block and keys of a tile: a warp

// Philox 2x32: a word for every place
static __device__ unsigned drawn(unsigned seed, unsigned i, unsigned j) {
    #pragma unroll
    for (int turn = 0; turn < 10; ++turn) {
        unsigned high = __umulhi(0xD256D193u, i), low = 0xD256D193u * i;
        i = high ^ seed ^ j;
        j = low;
        seed += 0x9E3779B9u;
    }
    return i;
}
static __device__ float kept(unsigned seed, unsigned limit, float more, int i, int j) {
    return drawn(seed, i, j) <= limit ? more : 0.0f;
}
static __device__ float dot(const float* x, const float* y) {
    float s = 0.0f;
    #pragma unroll
    for (int c = 0; c < D; ++c) s += x[c] * y[c];
    return s;
}
static __device__ void add(float* x, float f, const float* y) {
    #pragma unroll
    for (int c = 0; c < D; ++c) x[c] += f * y[c];
}
// TILE rows of X from row j0 on, zeros behind the end
static __device__ void bring(float (&tile)[TILE][D], const float* X, int j0, int rows) {
    for (int e = threadIdx.x; e < TILE * D; e += TILE)
        tile[e / D][e % D] = j0 + e / D < rows ? X[j0 * D + e] : 0.0f;
}
// What a query sees, and its block with it.
struct Interval {
    int first, last, low, high;
    __device__ Interval(const int* firsts, const int* lasts, int i, int N) {
        first = i < N ? firsts[i] : 0;
        last = i < N ? lasts[i] : 0;
        bool any = first < last;
        low = __reduce_min_sync(~0u, any ? first : 0x7FFFFFFF) / TILE * TILE;
        high = __reduce_max_sync(~0u, any ? last : 0);
    }
    // all queries of the block see all keys of the tile
    __device__ bool whole(int j0) const {
        return __all_sync(~0u, first <= j0 && j0 + TILE <= last);
    }
};

extern "C" __global__ void __launch_bounds__(TILE)
masked_forward(const float* Q, const float* K, const float* V, const int* first,
               const int* last, float* O, float* L, int N, int M, float scale,
               unsigned seed, unsigned limit, float more) {
    __shared__ float k[TILE][D], v[TILE][D];
    int i = blockIdx.x * TILE + threadIdx.x;
    Interval own(first, last, i, N);
    float q[D], o[D] = {}, m = -INFINITY, z = 0.0f;
    for (int c = 0; c < D; ++c) q[c] = i < N ? Q[i * D + c] : 0.0f;
    for (int j0 = own.low; j0 < own.high; j0 += TILE) {
        bring(k, K, j0, M);
        bring(v, V, j0, M);
        __syncwarp();  // the tile is there
        bool whole = own.whole(j0);
        for (int t = 0; t < TILE; ++t) {
            int j = j0 + t;
            if (!whole && (j < own.first || j >= own.last)) continue;
            // [weights
            float s = dot(q, k[t]) * scale, top = fmaxf(m, s);
            float f = expf(m - top), p = expf(s - top);
            m = top;
            z = z * f + p;
            // weights]
            // [mean
            for (int c = 0; c < D; ++c) o[c] *= f;
            add(o, p * kept(seed, limit, more, i, j), v[t]);
            // mean]
        }
        __syncwarp();  // nobody needs it any more
    }
    if (i >= N) return;
    // [leave
    for (int c = 0; c < D; ++c) O[i * D + c] = z > 0.0f ? o[c] / z : 0.0f;
    L[i] = z > 0.0f ? m + logf(z) : -INFINITY;
    // leave]
}

extern "C" __global__ void __launch_bounds__(TILE)
backward_queries(const float* Q, const float* K, const float* V, const int* first,
                 const int* last, const float* O, const float* dO, const float* L,
                 float* delta, float* dQ, int N, int M, float scale,
                 unsigned seed, unsigned limit, float more) {
    __shared__ float k[TILE][D], v[TILE][D];
    int i = blockIdx.x * TILE + threadIdx.x;
    Interval own(first, last, i, N);
    float q[D], g[D], dq[D] = {}, l = i < N ? L[i] : INFINITY, d = 0.0f;
    for (int c = 0; c < D; ++c) {
        q[c] = i < N ? Q[i * D + c] : 0.0f;
        g[c] = i < N ? dO[i * D + c] : 0.0f;
        d += i < N ? g[c] * O[i * D + c] : 0.0f;
    }
    for (int j0 = own.low; j0 < own.high; j0 += TILE) {
        bring(k, K, j0, M);
        bring(v, V, j0, M);
        __syncwarp();
        bool whole = own.whole(j0);
        for (int t = 0; t < TILE; ++t) {
            int j = j0 + t;
            if (!whole && (j < own.first || j >= own.last)) continue;
            // [a-query
            float p = expf(dot(q, k[t]) * scale - l);
            float dp = dot(g, v[t]) * kept(seed, limit, more, i, j);
            add(dq, p * (dp - d) * scale, k[t]);
            // a-query]
        }
        __syncwarp();
    }
    if (i >= N) return;
    delta[i] = d;
    for (int c = 0; c < D; ++c) dQ[i * D + c] = dq[c];
}

extern "C" __global__ void __launch_bounds__(TILE)
backward_keys(const float* Q, const float* K, const float* V, const int* first,
              const int* last, const float* dO, const float* L, const float* delta,
              float* dK, float* dV, int N, int M, float scale,
              unsigned seed, unsigned limit, float more) {
    __shared__ float q[TILE][D], g[TILE][D], l[TILE], d[TILE];
    __shared__ int from[TILE], to[TILE];
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
        bring(q, Q, i0, N);
        bring(g, dO, i0, N);
        l[threadIdx.x] = i < N ? L[i] : INFINITY;
        d[threadIdx.x] = i < N ? delta[i] : 0.0f;
        from[threadIdx.x] = a;
        to[threadIdx.x] = b;
        __syncwarp();
        for (int t = 0; t < TILE; ++t) {
            if (j < from[t] || j >= to[t]) continue;
            // [a-key
            float p = expf(dot(q[t], k) * scale - l[t]);
            float r = kept(seed, limit, more, i0 + t, j), dp = dot(g[t], v) * r;
            add(dv, p * r, g[t]);
            add(dk, p * (dp - d[t]) * scale, q[t]);
            // a-key]
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
FORWARD = Kernel(TEACHING, "masked_forward", defines={"D": 16})

# %% [markdown]
# The interval of a block is the union of its queries' intervals, by a minimum and a maximum over the warp,
# and tiles outside of it are neither loaded nor looked at. Within it a tile that all queries see whole
# needs no test. That is all a mask costs.

# %% fold="Code of the checks"
from tilewise import Table, agree, bf16, case, ceil_div, check, expect_hazard, normal, output, tensor_map
from tilewise.kernel.chains import run_chain
from tilewise.kernel.edits import edited
from tilewise.measurements import printed_errors, printed_rows, recorded_device

SEED, KEEP = 2026, 0.8
DICE = {"seed": np.uint32(SEED), "limit": np.uint32(KEEP * 2**32), "more": np.float32(1 / KEEP)}
NO_DICE = {"seed": np.uint32(SEED), "limit": np.uint32(2**32 - 1), "more": np.float32(1.0)}


def of_mask(first, last, M, dice=NO_DICE, stretch=1.0, d=16):
    """One head with this mask, forwards and back."""
    N = len(first)
    inputs = {"Q": normal(N, d, scale=stretch), "K": normal(M, d), "V": normal(M, d), "dO": normal(N, d)}
    made = {"O": output(N, d), "L": output(N), "delta": output(N)}
    made |= {"dQ": output(N, d), "dK": output(M, d), "dV": output(M, d)}
    sizes = {"N": N, "M": M, "scale": d**-0.5, **dice}
    bounds = {"first": np.asarray(first, np.int32), "last": np.asarray(last, np.int32)}
    return case(ceil_div(N, 32), 32, **inputs, **bounds, **made, **sizes)


def rows_without_keys(N):
    first, last = intervals("causal", N)
    return first, np.where(np.arange(N) % 5 == 3, 0, last)


AWKWARD = {
    "causal, 45 queries": of_mask(*intervals("causal", 45), 45),
    "a window, 70 queries": of_mask(*intervals("window", 70), 70, DICE),
    "documents, 67 queries, large logits": of_mask(*intervals("documents", 67), 67, stretch=30.0),
    "a prefix, 50 queries": of_mask(*intervals("prefix", 50), 50, DICE),
    "rows that see nothing": of_mask(*rows_without_keys(41), 41, DICE),
    "no row sees anything": of_mask(np.zeros(9), np.zeros(9), 33),
    "more keys than queries": of_mask(np.arange(20), np.arange(20) + 37, 57, DICE),
}
agree(masked_forward, FORWARD, list(AWKWARD.values()), rtol=1e-4, atol=1e-5)

# %% [markdown]
# ## Five products
#
# Let $R$ be what dropout multiplies with, 0 or the inverse share, and $dO$ the gradient that comes in. The
# way back from $O = (P \circ R)\,V$ through softmax to $S = QK^T/\sqrt d$ is
#
# $$dV = (P \circ R)^T dO,$$
#
# $$dP = (dO\,V^T) \circ R, \qquad dS = P \circ (dP - \delta),$$
#
# $$dQ = dS\,K/\sqrt d, \qquad dK = dS^T Q/\sqrt d.$$
#
# Softmax couples a row: what raises one weight lowers the others. This is $\delta_i = \sum_j P_{ij}\,dP_{ij}$,
# which would need the whole row first. But it is also $\sum_c dO_{ic}\,O_{ic}$, with dropout or without, a sum
# over $d$ numbers that are there.

# %% [markdown]
# $P$ itself was never stored. With $L$, the log-sum-exp that the forward pass left, it is one
# exponential: $P_{ij} = e^{s_{ij} - L_i}$, without a maximum or a sum, for which $s$ is made
# again.[^residue] So there are five products on the way back, $QK^T$ among them, where the forward pass had
# two. For $N$ queries $L$ and $\delta$ are stored, $2N$ numbers in place of $N^2$.
#
# [^residue]: Subtracting $L$ rounds otherwise than subtracting a maximum and dividing by a sum did. The
#     exponential passes the residue on; how large it gets with large logits is shown in
#     [precision](../memory/precision.py). The errors below contain it.
#
# ??? definition "δ"
#     In attention's backward pass the sum over a row of weights times their gradients; equal to the sum over
#     a row of $dO$ times $O$.

# %% [markdown]
# Who adds up what? $dQ$ is a sum over keys, $dK$ and $dV$ are sums over queries. The first version goes over
# the tiles twice: a thread a query for $dQ$, then a thread a key for $dK$ and $dV$. No two threads write to
# the same place. The price is that $s$ and $dP$ are made in both, seven products.


# %% tab="Pseudocode"
def backward_queries(Q, K, V, first, last, O, dO, L, delta, dQ, scale, seed, limit, more):
    for i in parallel(len(Q)):
        delta[i] = dO[i] @ O[i]
        dQ[i] = 0.0
        for j in range(first[i], last[i]):
            # [a-query
            p = np.exp(K[j] @ Q[i] * scale - L[i])
            dp = V[j] @ dO[i] * kept(seed, limit, more, i, j)
            dQ[i] += p * (dp - delta[i]) * scale * K[j]
            # a-query]


def backward_keys(Q, K, V, first, last, dO, L, delta, dK, dV, scale, seed, limit, more):
    for j in parallel(len(K)):
        dK[j], dV[j] = 0.0, 0.0
        for i in range(len(Q)):
            if first[i] <= j < last[i]:
                # [a-key
                p = np.exp(K[j] @ Q[i] * scale - L[i])
                r = kept(seed, limit, more, i, j)
                dp = V[j] @ dO[i] * r
                dV[j] += p * r * dO[i]
                dK[j] += p * (dp - delta[i]) * scale * Q[i]
                # a-key]


# %% tab="CUDA C"
BACK_QUERIES = FORWARD.named("backward_queries")
BACK_KEYS = FORWARD.named("backward_keys")

# %%
BACK_QUERIES.region("a-query")

# %%
BACK_KEYS.region("a-key")

# %% fold="Code of the checks"


def unfused(Q, K, V, dO, first, last, scale, dice):
    """O and the gradients in 64-bit floats, every matrix stored, the dropout mask among them."""
    Q, K, V, dO = (one.astype(np.float64) for one in (Q, K, V, dO))
    mask = seen(first, last, len(K))
    S = np.where(mask, Q @ K.T * scale, -np.inf)
    top = S.max(axis=1, keepdims=True)
    P = np.exp(S - np.where(np.isfinite(top), top, 0.0))
    z = P.sum(axis=1, keepdims=True)
    P /= np.where(z > 0, z, 1.0)
    places = np.ogrid[: len(Q), : len(K)]
    R = kept(int(dice["seed"]), int(dice["limit"]), float(dice["more"]), *places)
    dP = (dO @ V.T) * R
    dS = P * (dP - (P * dP).sum(axis=1, keepdims=True))
    return {
        "O": (P * R) @ V,
        "dQ": dS @ K * scale,
        "dK": dS.T @ Q * scale,
        "dV": (P * R).T @ dO,
        "kept": R,
        "mask": mask,
    }


def all_three(inputs):
    """The arrays behind the forward pass and both kernels of the backward pass."""
    blocks = {kernel: ceil_div(inputs.values["N"], 32) for kernel in (FORWARD, BACK_QUERIES)}
    blocks[BACK_KEYS] = ceil_div(inputs.values["M"], 32)
    return run_chain([kernel.on(inputs, grid=grid, block=32) for kernel, grid in blocks.items()])


def right_gradients(arrays, dice):
    names = ("Q", "K", "V", "dO", "first", "last")
    return unfused(*(arrays[name] for name in names), arrays["scale"], dice)


for name, inputs in AWKWARD.items():
    arrays = all_three(inputs)
    right = right_gradients(arrays, {one: arrays[one] for one in DICE})
    got, wanted = (
        np.concatenate([one[each].ravel() for each in ("O", "dQ", "dK", "dV")]) for one in (arrays, right)
    )
    room = 1e-3 if "large" in name else 2e-5
    check(got, wanted, rtol=0.0, atol=room, name=f"O, dQ, dK and dV by the unfused chain: {name}")


def as_inputs(inputs, written):
    """The case with O, L and delta as inputs, for kernels that read them."""
    arrays = all_three(inputs)
    values = {**inputs.values, **{name: arrays[name] for name in ("O", "L", "delta") if name not in written}}
    blocks = ceil_div(arrays["M" if "dK" in written else "N"], 32)
    return case(blocks, 32, **values)


of_queries = [as_inputs(one, ("delta", "dQ")) for one in AWKWARD.values()]
agree(backward_queries, BACK_QUERIES, of_queries, rtol=2e-4, atol=5e-5)
of_keys = [as_inputs(one, ("dK", "dV")) for one in AWKWARD.values()]
agree(backward_keys, BACK_KEYS, of_keys, rtol=2e-4, atol=5e-5)

# %% [markdown]
# The unfused chain stores everything: $S$, $P$, the mask of dropout, $dP$, $dS$. The kernels give the same
# gradients without. Is the chain right? Move all inputs by a little in some direction and see how far the
# result goes.

# %% fold="Code of the check against small steps"
inputs = AWKWARD["a window, 70 queries"]
arrays = inputs.make()
names = ("Q", "K", "V")
random = np.random.default_rng(3)
ways = {name: random.normal(size=arrays[name].shape) for name in names}


def result_moved(step):
    """The sum of dO times O with Q, K and V moved along their ways."""
    moved = {name: arrays[name] + step * ways[name] for name in names}
    rest = (arrays["first"], arrays["last"], arrays["scale"], DICE)
    return (arrays["dO"] * unfused(*moved.values(), arrays["dO"], *rest)["O"]).sum()


slope = (result_moved(1e-5) - result_moved(-1e-5)) / 2e-5
found = right_gradients(arrays, DICE)
by_gradients = sum((found["d" + name] * ways[name]).sum() for name in names)
check(by_gradients, slope, rtol=1e-6, name="the slope along random ways, by gradients and by small steps")
dropped = 1 - (found["kept"][found["mask"]] > 0).mean()
publish(dropout={"asked": 1 - KEEP, "found": dropped, "pairs": int(found["mask"].sum())})

# %% [markdown]
# And the dice: of {{ dropout.pairs | , }} pairs that this mask leaves, {{ dropout.found | .1% }} were dropped,
# {{ dropout.asked | .0%  }} were asked for. What does skipping save? The table counts instructions of warps on
# the simulator beside the share of tiles.

# %% fold="Code of the counts"


def counted(mask, N=256):
    """Instructions of the forward pass and of both backward kernels."""
    inputs = of_mask(*intervals(mask, N), N)
    arrays, found = inputs.make(), []
    for kernel in (FORWARD, BACK_QUERIES, BACK_KEYS):
        found.append(kernel.on(inputs).simulate(arrays=arrays).counts.issued)
    return found[0], found[1] + found[2]


COUNTED = {mask: counted(mask) for mask in MASKS}
show(
    Table(
        ["mask", "tiles with work", "instructions forwards", "instructions back"],
        [
            [
                mask,
                f"{(tile_map(*intervals(mask, 256), 256, 32) > 0).mean():.1%}",
                f"{COUNTED[mask][0] / COUNTED['full'][0]:.1%}",
                f"{COUNTED[mask][1] / COUNTED['full'][1]:.1%}",
            ]
            for mask in MASKS
        ],
        caption="256 queries and keys, d = 16, tiles of 32: the share of tiles that a mask leaves and the instructions of warps that the simulator counts, against those without a mask.",
    )
)

# %% [markdown]
# Instructions follow the tiles, forwards and back. With documents they are fewer still: in a tile on an edge
# a warp passes over the keys that none of its queries sees.

# %% [markdown]
# ## Five products, once
#
# Seven products where five are enough: the fast kernel makes each tile's $s$ and $dP$ once. A block has 128
# keys and their values, and all queries come by in tiles of 64. $dK$ and $dV$ stay in registers to the end.
# $dQ$ cannot: every block adds to every query tile. It is added up in 32-bit floats in the L2, a tile at a
# time, by a copy that adds, and a last small kernel rounds it to BF16. Adding in the order in which blocks
# come makes $dQ$ differ in its last bits from run to run. This kernel knows the causal mask and no other,
# and no dropout.

# %% [markdown]
# A producer warp brings tiles by \TMA into a ring of two, as in the lesson on the Hopper machine. Two
# warpgroups have 64 keys each. Logits are made turned around, keys as rows: then the weights $P^T$ lie in
# registers just as `wgmma` takes its first operand, and $dV$ needs no trip through shared memory. $dS^T$ is
# such an operand for $dK$, too. Only $dQ$ needs it the other way, so it goes to shared memory once, where
# both warpgroups take it: one makes the first half of $d$, the other one the second.


# %% tab="Pseudocode"
LOG2_E = np.log2(np.e)


def as_threads_have_it(dq):
    """A tile by half of d, piece, thread and four numbers."""
    tile = np.zeros((64, 128))
    tile[: len(dq)] = dq
    tile = tile.reshape(4, 2, 8, 2, 8, 4, 2).transpose(3, 4, 0, 2, 5, 1, 6)
    return tile.reshape(2, 8, 128, 4)


def in_rows(pieces):
    """The inverse."""
    tile = pieces.reshape(2, 8, 4, 8, 4, 2, 2).transpose(2, 5, 3, 0, 1, 4, 6)
    return tile.reshape(64, 128)


def prepare(O, dO, L, delta, lse, sums):
    heads, padded = lse.shape
    sums[:] = 0.0
    for h, i in parallel(heads, padded):
        # [prepare
        there = i < O.shape[1]
        delta[h, i] = O[h, i] @ dO[h, i] if there else 0.0
        lse[h, i] = L[h, i] * LOG2_E if there and L[h, i] > -np.inf else np.inf
        # prepare]


def backward(Q, dO, K, V, dK, dV, lse, delta, sums, scale):
    heads, N, d = Q.shape
    for h in parallel(heads):
        for own in tiles(N, 128):
            dk, dv = np.zeros((2, len(own), d))
            # [bring
            for m, rows in enumerate(tiles(N, 64)):
                q, do = Q[h, rows], dO[h, rows]
                # bring]
                # [scores
                s, dp = K[h, own] @ q.T, V[h, own] @ do.T
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
                sums[h, m] += as_threads_have_it(ds.T @ K[h, own])
                dk += ds @ q
                # dq]
            # [leave
            dK[h, own], dV[h, own] = dk * scale, dv
            # leave]


def finish(sums, dQ, scale):
    heads, N = dQ.shape[:2]
    for h in parallel(heads):
        # [finish
        for m, rows in enumerate(tiles(N, 64)):
            dQ[h, rows] = in_rows(sums[h, m])[: len(rows)] * scale
        # finish]


# %% tab="CUDA C"
BACKWARD = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
#define QUERIES 64  // of a tile
#define KEYS 128    // of a block
#define D 128
#define STAGES 2
#define Q_BYTES (QUERIES * D * 2)
#define K_BYTES (KEYS * D * 2)

static __device__ unsigned at(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ void init(u64* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(at(bar)), "r"(arrivals) : "memory");
}
static __device__ void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at(bar)), "r"(bytes) : "memory");
}
static __device__ void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(at(bar)) : "memory");
}
static __device__ void wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}
static __device__ void meet(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
// `rows` rows of D numbers, in two boxes of 64 columns
static __device__ void load(unsigned char* to, const TensorMap* map, int rows,
                            int row, int head, u64* bar) {
    for (int c = 0; c < D; c += 64)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                     :: "r"(at(to) + c / 64 * rows * 128), "l"(map), "r"(at(bar)),
                        "r"(c), "r"(row), "r"(head) : "memory");
}
static __device__ void load_line(float* to, const float* from, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "n"(QUERIES * 4), "r"(at(bar))
                 : "memory");
}
static __device__ void store(const TensorMap* map, const unsigned char* from,
                             int column, int row, int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(at(from)), "r"(column), "r"(row), "r"(head)
                 : "memory");
}
// where wgmma finds a matrix: address, and two distances, in units of 16 bytes
static __device__ u64 matrix(const void* p, int lead) {
    return (u64)(at(p) & 0x3ffff) >> 4 | (u64)(lead >> 4) << 16
         | (u64)(1024 >> 4) << 32 | 1ull << 62;  // rows of 128 bytes, swizzled
}
#define LIST8(a, b, c, d, e, f, g, h) \
    "%" #a ",%" #b ",%" #c ",%" #d ",%" #e ",%" #f ",%" #g ",%" #h
#define LIST32 LIST8(0, 1, 2, 3, 4, 5, 6, 7) "," \
    LIST8(8, 9, 10, 11, 12, 13, 14, 15) "," \
    LIST8(16, 17, 18, 19, 20, 21, 22, 23) "," \
    LIST8(24, 25, 26, 27, 28, 29, 30, 31)
#define LIST64 LIST32 "," LIST8(32, 33, 34, 35, 36, 37, 38, 39) "," \
    LIST8(40, 41, 42, 43, 44, 45, 46, 47) "," \
    LIST8(48, 49, 50, 51, 52, 53, 54, 55) "," \
    LIST8(56, 57, 58, 59, 60, 61, 62, 63)
#define SUM(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS32 SUM(0), SUM(4), SUM(8), SUM(12), SUM(16), SUM(20), SUM(24), SUM(28)
#define SUMS64 SUMS32, SUM(32), SUM(36), SUM(40), SUM(44), SUM(48), SUM(52), \
    SUM(56), SUM(60)
// 64 keys by 64 queries, 16 along D; keep = 0: begin anew
static __device__ void by_rows(float (&d)[32], u64 a, u64 b, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST32 "}, "
        "%32, %33, p, 1, 1, 0, 0;\n}" : SUMS32 : "l"(a), "l"(b), "r"(keep));
}
// 64 queries by 64 of D, 16 keys; both matrices lie with the keys as rows
static __device__ void turned(float (&d)[32], u64 a, u64 b, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST32 "}, "
        "%32, %33, p, 1, 1, 1, 1;\n}" : SUMS32 : "l"(a), "l"(b), "r"(keep));
}
// 64 keys by D, 16 queries; the first matrix in registers
static __device__ void add_rows(float (&d)[64], const unsigned* a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LIST64
        "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : SUMS64 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
static __device__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// until at most N groups are under way; names d, so that no use moves before this
template <int N> static __device__ void wgmma_wait(float (&d)[32]) {
    asm volatile("wgmma.wait_group.sync.aligned %32;" : SUMS32 : "n"(N) : "memory");
}
template <int N> static __device__ void wgmma_wait(float (&d)[64]) {
    asm volatile("wgmma.wait_group.sync.aligned %64;" : SUMS64 : "n"(N) : "memory");
}
static __device__ unsigned pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
static __device__ float power(float x) {  // of two
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// four matrices of 8 x 8 from registers into a row of 128 bytes, swizzled
static __device__ void put(unsigned char* tile, int row, int chunk,
                           unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(at(tile) + row * 128 + (chunk ^ row % 8) * 16),
                    "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
static __device__ void shown_to_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// [prepare
// delta = the sum of dO times O, and L in powers of two. Rows that see no key, where the
// forward pass leaves minus infinity, and rows behind the last get plus infinity instead:
// their weights exp2(s - L) are zero. Eight elements per thread.
extern "C" __global__ void __launch_bounds__(256)
prepare(const Bf16* O, const Bf16* dO, const float* L, float* delta, float* lse,
        float* sums, int N, int padded) {
    int row = (blockIdx.x * 256 + threadIdx.x) / 16, piece = threadIdx.x % 16;
    if (row >= padded) return;
    size_t from = (size_t)blockIdx.y * N + row, to = (size_t)blockIdx.y * padded + row;
    float sum = 0.0f;
    if (row < N) {
        uint4 a = ((const uint4*)O)[from * 16 + piece];
        uint4 b = ((const uint4*)dO)[from * 16 + piece];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned x = (&a.x)[i], y = (&b.x)[i];
            sum += __uint_as_float(x << 16) * __uint_as_float(y << 16)
                 + __uint_as_float(x & 0xFFFF0000u) * __uint_as_float(y & 0xFFFF0000u);
        }
    }
    for (int hop = 8; hop > 0; hop /= 2) sum += __shfl_xor_sync(~0u, sum, hop);
    if (piece == 0) {
        delta[to] = sum;
        float l = row < N ? L[from] : -INFINITY;  // which a row without keys has, too
        lse[to] = l > -INFINITY ? l * 1.44269504f : INFINITY;
    }
    float4* zeros = (float4*)(sums + to * D) + piece * 2;
    zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}
// prepare]

extern "C" __global__ void __launch_bounds__(384, 1)
backward(const __grid_constant__ TensorMap q_map,
         const __grid_constant__ TensorMap do_map,
         const __grid_constant__ TensorMap k_map,
         const __grid_constant__ TensorMap v_map,
         const __grid_constant__ TensorMap dk_map,
         const __grid_constant__ TensorMap dv_map,
         const float* lse, const float* delta, float* sums,
         int padded, float scale, int causal, int heads_first) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(16) float lse_of[STAGES][QUERIES], delta_of[STAGES][QUERIES];
    __shared__ __align__(8) u64 kv_full;
    __shared__ __align__(8) u64 q_full[STAGES], q_empty[STAGES];
    __shared__ __align__(8) u64 do_full[STAGES], do_empty[STAGES];
    unsigned char *k = memory, *v = k + K_BYTES, *q = v + K_BYTES;
    unsigned char *g = q + STAGES * Q_BYTES, *ds = g + STAGES * Q_BYTES;
    unsigned char *room = ds + QUERIES * KEYS * 2;
    int group = threadIdx.x / 128, own = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        init(&kv_full, 1);
        for (int s = 0; s < STAGES; ++s) {
            init(&q_full[s], 1);
            init(&do_full[s], 1);
            init(&q_empty[s], 2);
            init(&do_empty[s], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int head = heads_first ? blockIdx.x : blockIdx.y;
    int j0 = (heads_first ? blockIdx.y : blockIdx.x) * KEYS;
    int first = causal ? j0 / QUERIES : 0, tiles = padded / QUERIES;
    size_t row0 = (size_t)head * padded;
    if (group == 0) {
        // [bring
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (own > 0) return;
        expect(&kv_full, 2 * K_BYTES);
        load(k, &k_map, KEYS, j0, head, &kv_full);
        load(v, &v_map, KEYS, j0, head, &kv_full);
        for (int m = first, n = 0; m < tiles; ++m, ++n) {
            int s = n % STAGES, free = ~(n / STAGES) & 1, i0 = m * QUERIES;
            wait(&q_empty[s], free);
            expect(&q_full[s], Q_BYTES + QUERIES * 4);
            load(q + s * Q_BYTES, &q_map, QUERIES, i0, head, &q_full[s]);
            load_line(lse_of[s], lse + row0 + i0, &q_full[s]);
            wait(&do_empty[s], free);
            expect(&do_full[s], Q_BYTES + QUERIES * 4);
            load(g + s * Q_BYTES, &do_map, QUERIES, i0, head, &do_full[s]);
            load_line(delta_of[s], delta + row0 + i0, &do_full[s]);
        }
        // bring]
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int half = group - 1, lane = threadIdx.x % 32, warp = own / 32;
    int row = warp * 16 + lane % 16, column = lane % 4 * 2;  // of a tile
    float bits = scale * 1.44269504f, dk[D / 2] = {}, dv[D / 2] = {};
    wait(&kv_full, 0);
    for (int m = first, n = 0; m < tiles; ++m, ++n) {
        int s = n % STAGES, parity = n / STAGES & 1;
        unsigned char *q_tile = q + s * Q_BYTES, *g_tile = g + s * Q_BYTES;
        // [scores
        float p[QUERIES / 2], dp[QUERIES / 2];
        wait(&q_full[s], parity);
        wgmma_fence();
        #pragma unroll
        for (int c = 0; c < 8; ++c)  // 16 of D at a time: 64 keys by 64 queries
            by_rows(p, matrix(k + c / 4 * 16384 + half * 8192 + c % 4 * 32, 16),
                    matrix(q_tile + c / 4 * 8192 + c % 4 * 32, 16), c);
        wgmma_commit();
        wait(&do_full[s], parity);
        wgmma_fence();
        #pragma unroll
        for (int c = 0; c < 8; ++c)
            by_rows(dp, matrix(v + c / 4 * 16384 + half * 8192 + c % 4 * 32, 16),
                    matrix(g_tile + c / 4 * 8192 + c % 4 * 32, 16), c);
        wgmma_commit();
        // scores]
        // [weights
        wgmma_wait<1>(p);
        unsigned w[QUERIES / 4];
        #pragma unroll
        for (int i = 0; i < 32; ++i)
            p[i] = power(p[i] * bits - lse_of[s][i / 4 * 8 + column + i % 2]);
        if (causal && m < first + KEYS / QUERIES) {
            int key = j0 + half * 64 + warp * 16 + lane / 4;
            #pragma unroll
            for (int i = 0; i < 32; ++i)
                if (key + i / 2 % 2 * 8 > m * QUERIES + i / 4 * 8 + column + i % 2)
                    p[i] = 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 16; ++i) w[i] = pair(p[2 * i], p[2 * i + 1]);
        // weights]
        // [dv
        wgmma_wait<0>(dp);
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            add_rows(dv, w + 4 * i, matrix(g_tile + i * 2048, 8192));
        wgmma_commit();
        // dv]
        // [ds
        unsigned e[QUERIES / 4];
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
            float2 d = *(float2*)&delta_of[s][i / 4 * 8 + column];
            e[i / 2] = pair(p[i] * (dp[i] - d.x), p[i + 1] * (dp[i + 1] - d.y));
        }
        meet(2, 256);  // both are through with the tile before
        #pragma unroll
        for (int i = 0; i < 16; i += 4)
            put(ds + half * 8192, row, i / 2 + lane / 16,
                e[i], e[i + 1], e[i + 2], e[i + 3]);
        shown_to_copies();
        meet(3, 256);  // both halves of the keys are there
        // ds]
        // [dq
        float dq[D / 4];  // 64 queries by a half of D
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
            turned(dq, matrix(ds + i * 2048, 8192),
                   matrix(k + half * 16384 + i * 2048, 16384), i);
        wgmma_commit();
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            add_rows(dk, e + 4 * i, matrix(q_tile + i * 2048, 8192));
        wgmma_commit();
        wgmma_wait<1>(dq);
        if (own == 0) arrive(&do_empty[s]);
        float* to = sums + (row0 + m * QUERIES) * D + half * (QUERIES * D / 2);
        float4* mine = (float4*)(room + half * (QUERIES * D * 2));
        if (own == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        meet(4 + half, 128);  // the tile before has left the room
        #pragma unroll
        for (int i = 0; i < D / 16; ++i)
            mine[i * 128 + own] =
                make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
        shown_to_copies();
        meet(4 + half, 128);
        if (own == 0) {
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
                         "[%0], [%1], %2;"
                         :: "l"(to), "r"(at(mine)), "n"(QUERIES * D * 2) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        wgmma_wait<0>(dk);
        if (own == 0) arrive(&q_empty[s]);
        // dq]
    }
    // [leave
    wgmma_wait<0>(dv);
    wgmma_wait<0>(dk);
    meet(2, 256);  // nobody needs k and v any more: dK and dV take their places
    #pragma unroll
    for (int i = 0; i < D / 2; i += 8) {
        int tile = i / 32 * 16384 + half * 8192, chunk = i / 4 % 8 + lane / 16;
        const float *x = dk + i, *y = dv + i;
        put(k + tile, row, chunk, pair(x[0] * scale, x[1] * scale),
            pair(x[2] * scale, x[3] * scale), pair(x[4] * scale, x[5] * scale),
            pair(x[6] * scale, x[7] * scale));
        put(v + tile, row, chunk, pair(y[0], y[1]), pair(y[2], y[3]),
            pair(y[4], y[5]), pair(y[6], y[7]));
    }
    shown_to_copies();
    meet(4 + half, 128);
    if (own > 0) return;
    for (int c = 0; c < 2; ++c) {
        int tile = c * 16384 + half * 8192;
        store(&dk_map, k + tile, 64 * c, j0 + half * 64, head);
        store(&dv_map, v + tile, 64 * c, j0 + half * 64, head);
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    // leave]
}

// [finish
// dQ from the order in which threads added it up: a tile has two halves of D, a half
// 8 times 128 pieces of four numbers, from rows 8 apart.
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
        if (row < N) *to = pair(x.x * scale, x.y * scale);
        if (row + 8 < N) to[4 * D] = pair(x.z * scale, x.w * scale);
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
# The loop's heart, without what brings and waits: weights from logits and $L$, then $dS$.

# %%
HOPPER.region("weights")

# %%
HOPPER.region("ds")

# %% [markdown]
# Two barriers keep $dS$ right. Before it is written, both warpgroups must be through with that of the tile
# before, and before it is read, both halves must be there. What ordinary stores wrote, `wgmma` and the
# copies see only behind a fence between the two ways to memory. Take a barrier away, and the simulator
# names what goes wrong.

# %% fold="Code of the checks"


def hopper_case(heads, N, causal=False, heads_first=False, **more):
    """A case for all three kernels; what a forward pass leaves is computed in 64-bit floats."""
    inputs = {name: normal(heads, N, 128, dtype="bfloat16") for name in ("Q", "K", "V", "dO")}
    arrays = case(**inputs).make()
    Q, K, V = (bf16.values(arrays[name]).astype(np.float64) for name in "QKV")
    S = np.einsum("hid,hjd->hij", Q, K) * 128**-0.5
    if causal:
        S = np.where(np.tri(N, dtype=bool), S, -np.inf)
    L = np.log(np.exp(S).sum(axis=-1))
    O = np.exp(S - L[..., None]) @ V
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


def gradients_of(arrays, causal=False):
    """The gradients of all heads in 64-bit floats."""
    Q, K, V, dO = (bf16.values(arrays[name]).astype(np.float64) for name in ("Q", "K", "V", "dO"))
    N = Q.shape[1]
    bounds = intervals("causal" if causal else "full", N)
    found = [unfused(*one, *bounds, 128**-0.5, NO_DICE) for one in zip(Q, K, V, dO, strict=True)]
    return {name: np.stack([one[name] for one in found]) for name in ("dQ", "dK", "dV")}


for heads, N, causal in ((2, 200, False), (3, 328, True), (1, 64, False)):
    inputs = hopper_case(heads, N, causal, heads_first=heads == 3)
    arrays = run_chain(launches(inputs))
    off = [
        np.abs(bf16.values(arrays[name]).astype(np.float64) - right).max() / np.abs(right).max()
        for name, right in gradients_of(arrays, causal).items()
    ]
    shape = f"{heads} heads, {N} tokens, {'causal' if causal else 'no mask'}"
    check(
        off,
        [0.0] * 3,
        atol=2**-6,
        name=f"errors of dQ, dK, dV over their largest values: {shape}",
    )

# %% fold="Code of the checks against the pseudocode"


def next_case(heads, N, at):
    """A case of the kernel that comes as number `at`, with what those before it leave as inputs."""
    given = {"O": normal(heads, N, 128, dtype="bfloat16")} if at == 0 else {}
    inputs = hopper_case(heads, N, **given)
    chain, arrays = launches(inputs), inputs.make()
    for launch in chain[:at]:
        launch.run(arrays)
    left = {name: arrays[name] for name in [(), ("delta", "lse", "sums"), ("sums",)][at]}
    return case(chain[at].grid, chain[at].block, chain[at].shared_bytes, **{**inputs.values, **left})


SIZES = ((2, 200), (1, 72))
agree(prepare, PREPARE, [next_case(*size, 0) for size in SIZES], rtol=1e-4, atol=1e-4)

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
agree(backward, HOPPER, [next_case(*size, 1) for size in SIZES], rtol=2e-2, atol=2e-2)
agree(finish, FINISH, [next_case(*size, 2) for size in SIZES], rtol=2**-8, atol=1e-6)

# %% fold="Code of the faults"
faulty = HOPPER.on(next_case(1, 200, 1))
expect_hazard(edited(faulty, ("meet(3, 256);", "")), "race", line_with="turned(dq, matrix(ds")

# %% [markdown]
# ## Predict

# %% fold="Code of the prediction"
from tilewise import gpu_here

GPU = recorded_device()
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
PAIR = 64 * 128  # queries and keys of a tile
PRODUCTS = 5 * 2 * PAIR * 128 / A_CLOCK
EXPONENTIALS = PAIR / 16
TO_L2 = 2 * 64 * 128 * 2 + 64 * 128 * 4  # queries and dO come, dQ goes
BATCH, TOKENS, HEADS = 4, 4096, 16


def flop(N, causal):
    """Operations of the five products for 16,384 tokens; half of them under a causal mask."""
    return 10 * (16384 // N) * HEADS * N * N * 128 / (2 if causal else 1)


publish(
    tile={
        "products": PRODUCTS,
        "exponentials": EXPONENTIALS,
        "bytes_clock": TO_L2 / PRODUCTS,
        "ideal_us": flop(TOKENS, False) / PEAK / 1e6,
        "peak": PEAK,
        "stored_gb": BATCH * HEADS * TOKENS**2 * 2 / 1e9,
        "kept_mb": 2 * BATCH * HEADS * TOKENS * 4 / 1e6,
    },
)

# %% [markdown]
# A tile of 64 queries and 128 keys takes the matrix units {{ tile.products | ,.0f }} clocks for five products
# and the unit for exponentials {{ tile.exponentials | .0f }}; it moves {{ tile.bytes_clock | .0f }} bytes a
# clock between an SM and the L2. Four batches of 16 heads and 4,096 tokens are
# {{ tile.ideal_us | us }} at the peak (data sheet) of {{ tile.peak | .0f }} TFLOP/s. But within a warpgroup one thing waits for
# the other: logits, weights, $dS$, the barrier, $dQ$. Only the other warpgroup fills these gaps, and both
# meet at two barriers for every tile. So this time is a bound and not a forecast. What is stored between
# the passes is {{ tile.kept_mb | .0f }} MB; $P$ alone would be {{ tile.stored_gb | .1f }} GB.

# %% [markdown]
# The next cell ran on an H100, on numbers drawn there. It takes gradients by torch's backends (math, FlashAttention-2 and cuDNN), by three
# kernels here, and in 64-bit floats for one head. Under the causal mask two orders of blocks are timed:
# along the keys of a head, so that its longest block starts first, or all heads' longest blocks first.

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

# %% [markdown]
# ## What it takes

# %% fold="Code of the table and of the numbers"
TIMES = {
    (int(N), mask, label): (first, again)
    for N, mask, label, first, again in printed_rows(
        "attention/masks_and_backward",
        "gradients",
        r"(\d+) tokens, (\w+), ([\w, ]+): ([\d.]+) us .+, again ([\d.]+) us",
    )
}
LABELS = {  # as the cell above prints them, and in full
    "MATH": "math (torch SDPA)",
    "FLASH": "FlashAttention-2 (torch SDPA)",
    "cuDNN": "cuDNN (torch SDPA)",
    "ours": "ours",
    "ours, heads first": "ours, heads first",
}
SHAPES = ((1024, "full"), (4096, "full"), (4096, "causal"))


def us(N, mask, label):
    return TIMES[N, mask, label][0] if TIMES else np.nan


def reached(N, mask, label):
    """TFLOP/s of the five products, however many a kernel makes."""
    return flop(N, mask == "causal") / us(N, mask, label) / 1e6


if TIMES:
    for shape in SHAPES:
        assert reached(*shape, "cuDNN") > reached(*shape, "ours") > 1.5 * reached(*shape, "FLASH"), (
            "the answer says that this kernel stays behind cuDNN, the text that it is ahead of FlashAttention-2"
        )
    for N in (1000, 4096):
        assert TIMES[N, "causal", "ours"] < TIMES[N, "causal", "ours, heads first"], (
            "a takeaway says that the long blocks of all heads first are slower than head by head"
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
            caption="TFLOP/s of the backward pass on an {machine}, recorded: 16,384 tokens in all, 16 heads of 128, BF16. Five products are counted for everybody, half of them under the causal mask.",
        )
    )
publish(
    seen={
        f"{name}_{mask}_{N}": us(N, mask, label)
        for N, mask in SHAPES
        for name, label in {"ours": "ours", "flash": "FLASH", "cudnn": "cuDNN", "math": "MATH"}.items()
    },
    rate={
        "full": reached(4096, "full", "ours"),
        "of_peak": reached(4096, "full", "ours") / PEAK,
        "of_flash": reached(4096, "full", "ours") / reached(4096, "full", "FLASH"),
        "of_cudnn": reached(4096, "full", "ours") / reached(4096, "full", "cuDNN"),
        "short_of_cudnn": reached(1024, "full", "ours") / reached(1024, "full", "cuDNN"),
        "causal_of_flash": reached(4096, "causal", "ours") / reached(4096, "causal", "FLASH"),
        "causal_of_cudnn": reached(4096, "causal", "ours") / reached(4096, "causal", "cuDNN"),
        "heads_first": reached(4096, "causal", "ours, heads first") / reached(4096, "causal", "ours"),
        "short_heads_first": reached(1000, "causal", "ours, heads first") / reached(1000, "causal", "ours"),
        "of_math": reached(4096, "full", "ours") / reached(4096, "full", "MATH"),
        "again": max((abs(again / first - 1) for first, again in TIMES.values()), default=np.nan),
    },
    order={
        "heads": BATCH * HEADS,
        "sms": GPU.sms,
        "all_mb": BATCH * HEADS * 2 * TOKENS * 128 * 2 / 1e6,
        "few": GPU.sms / (TOKENS / 128),
        "few_mb": GPU.sms * 128 * 2 * 128 * 2 / 1e6,
    },
    errors=printed_errors("attention/masks_and_backward", "cuDNN", "gradients"),
)

# %% [markdown]
# At 4,096 tokens without a mask the way back takes {{ seen.ours_full_4096 | us }}, which is
# {{ rate.full | .0f }} TFLOP/s, {{ rate.of_peak | .0% }} of the peak (data sheet): {{ rate.of_flash | .2f }} times as
# fast as FlashAttention-2 (torch SDPA), {{ rate.of_cudnn | .0% }} of cuDNN's rate and {{ rate.of_math | .1f }} times
# that of the chain that stores its matrices. Causal it is {{ rate.causal_of_flash | .2f }} times as fast as
# FlashAttention-2 and at {{ rate.causal_of_cudnn | .0% }} of cuDNN's rate; on 1,024 tokens without a mask it is at
# {{ rate.short_of_cudnn | .0% }}. The worst ratio of a gradient's largest error to cuDNN's is
# {{ errors.worst_times | .2f }}. Two passes over all versions differ by {{ rate.again | .1% }} at most.

# %% [markdown]
# The order of blocks matters. With all heads' longest blocks first the causal kernel runs at
# {{ rate.heads_first | .2f }} times the rate, and with 1,000 tokens at {{ rate.short_heads_first | .2f }} times. Then
# blocks of all {{ order.heads }} heads or more are at work
# at the same time, and their queries and gradients are {{ order.all_mb | .0f }} MB, more than the L2 holds; along
# the keys of a head the {{ order.sms }} blocks belong to about {{ order.few | .0f }} heads, whose
# {{ order.few_mb | .0f }} MB stay there. That may be the cause; the misses were not counted. The rest of the distance
# to the peak is not taken apart here.

# %% [markdown]
# ## The answer
#
# Five products on the way back, where forwards there were two: one of them makes the logits again, because a
# row's log-sum-exp is enough to get its weights back. Masks leave out tiles, dropout needs a seed, and rows
# that see nothing need an infinity in the right place. On the matrix units, without dropout, the way back
# takes {{ seen.ours_full_4096 | us }} and cuDNN's {{ seen.cudnn_full_4096 | us }}, a gap that is measured here
# and not explained.

# %% [markdown]
# ## Takeaways
#
# - A mask of intervals is two numbers a query. Tiles are empty, full, or on an edge, and only the last kind
#   is tested pair by pair.
# - Under a causal mask blocks have unequal work, and balance is not all: with the long
#   ones of all heads first this kernel was slower than head by head.
# - $P = e^{s - L}$: with the log-sum-exp stored, weights come back by one product and one exponential.
# - $\delta = \sum dO \circ O$ couples a row through softmax, before any tile is seen.
# - A dropout mask that is a function of seed and place is never stored, and is the same both ways.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def tiles_seen(first, last, size):
    return {
        (i // size, tile)
        for i in range(len(first))
        if first[i] < last[i]
        for tile in range(first[i] // size, (last[i] - 1) // size + 1)
    }


def one_too_many(first, last, size):
    return {
        (i // size, tile)
        for i in range(len(first))
        if first[i] < last[i]
        for tile in range(first[i] // size, last[i] // size + 1)
    }


def by_the_first_query(first, last, size):
    return {
        (i // size, tile)
        for i in range(0, len(first), size)
        if first[i] < last[i]
        for tile in range(first[i] // size, (last[i] - 1) // size + 1)
    }


def without_a_look(first, last, size):
    return {
        (i // size, tile)
        for i in range(len(first))
        for tile in range(first[i] // size, (last[i] - 1) // size + 1)
    }


def tile_tests(answer):
    random = np.random.default_rng(4)
    for trial in range(40):
        N, M, size = (int(one) for one in random.integers((1, 1, 2), (60, 60, 9)))
        first = random.integers(0, M, N)
        last = np.minimum(M, first + random.integers(0, M, N))
        if trial % 4 == 0:
            last = np.where(random.random(N) < 0.5, first, last)
        found = answer(first.tolist(), last.tolist(), size)
        wanted = {(int(r), int(c)) for r, c in np.argwhere(tile_map(first, last, M, size) > 0)}
        assert found == wanted, f"{N} queries, {M} keys, tiles of {size}: {sorted(found ^ wanted)[:3]}"


exercise(
    "Which tiles have work",
    """
    Write `tiles_seen(first, last, size)`: the set of pairs (query tile, key tile) in which some query sees some
    key, where query i sees the keys from `first[i]` up to but not including `last[i]`. Neither list need be in
    order, and an interval may be empty. The tests compare with the mask itself, pair by pair, for 40 masks.
    """,
    answer=tiles_seen,
    tests=tile_tests,
    wrong=[one_too_many, by_the_first_query, without_a_look],
    hint="A query that sees nothing needs no tile. What is the last key that a query sees?",
)

# %% [markdown]
# Forwards and back: that is what training asks for. Once a model is trained it writes, one token at a time,
# and attention has a single query. What is left to be fast at then is the next lesson's question.
