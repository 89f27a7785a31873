# ---
# needs: [matmul/matrix_units, memory/reductions, attention/flash_forward]
# title: "Decoding: split-KV attention with one query"
# summary: "To generate one token, attention reads the whole KV cache for a single query per head. How close to the speed of a copy can it get?"
# description: "Attention for LLM decoding in CUDA C: KV cache, grouped-query attention, Flash-Decoding's split keys, and tensor core fragments loaded from global memory."
# date: 2026-11-23
# tags: [decoding, Flash-Decoding, split-KV, grouped-query attention, KV cache]
# ---

# %% [markdown]
# A language model has 32 query heads and 8 KV heads, and 32,768 tokens in its context. To generate the next token, each
# layer's attention reads {{ model.mb | .0f }} MB of keys and values. A copy that moves the same number of bytes takes
# {{ seen.copy_1 | us }} on an {{ hook.gpu }}. But a kernel with one block per KV head takes {{ seen.one_1 | us }}, which
# is {{ hook.times | .0f }}× slower.
#
# Those eight blocks leave {{ model.idle }} of {{ chip.sms }} SMs idle, and with a single query per head, there are no
# query tiles to spread over them. *Flash-Decoding*, by [Dao, Haziza, Massa and
# Sizov](https://pytorch.org/blog/flash-decoding/), splits the keys instead.

# %% [markdown]
# ## The KV cache: every byte is read once
#
# The keys and values of earlier tokens never change, so a model stores them in the *KV cache*. A *decoding step*
# computes one new query, key and value per head and reads the whole cache. In [FlashAttention's forward
# pass](flash_forward.py), a key tile in shared memory serves 64 queries. Here a key serves only one.
#
# *Grouped-query attention* (GQA), by [Ainslie et al.](https://arxiv.org/abs/2305.13245), lets several query heads share
# one KV head.[^multi] Here, four do, so the cache is a quarter of the size and each key serves four queries. A key and
# its value are 2 × 256 bytes in BF16, and each query spends 2 × 256 FLOP on them. That's an intensity of
# {{ model.intensity | .0f }} FLOP/B. On an H100, the tensor cores become the limit only at {{ model.ridge | .0f }}
# FLOP/B, so decoding is memory-bound by a wide margin.
#
# [^multi]: If all query heads share one KV head, this is called *multi-query attention*
#     ([Shazeer](https://arxiv.org/abs/1911.02150)).
#
# ??? definition "Decoding step | decoding steps"
#     One step of a language model that generates text token by token. Attention has one query per head.
#
# ??? definition "KV cache"
#     The keys and values of all earlier tokens, stored so that no decoding step computes them again.
#
# ??? definition "Grouped-query attention | GQA"
#     Attention in which several query heads share one head of keys and values.

# %% fold="Code of the figure"
import numpy as np

from tilewise import publish, show
from tilewise.figures import Answer, Meter, Slider, State, bars, calculator, stepped
from tilewise.kernel.chains import run_chain
from tilewise.measurements import (
    complete,
    medians_us,
    printed_errors,
    printed_rows,
    recorded_device,
)
from tilewise.models import device

GPU = recorded_device()
H100 = device("H100 SXM")  # an H200 has as many SMs
HEADS, KV_HEADS, D = 32, 8, 128


def cache_bytes(batch, N, kv_heads=KV_HEADS):
    """Keys and values of one layer in BF16."""
    return 2 * 2 * batch * kv_heads * N * D


def reading(KV_heads, tokens, batch, layers):
    """Size of a whole model's cache, and the time in which one step can read it."""
    size = layers * cache_bytes(batch, tokens, KV_heads)
    fits = size < GPU.memory_gb * 1e9
    return Answer(
        [size / 1e9, size / GPU.memory_gb_per_s / 1e6],
        f"{HEADS / KV_heads:.0f} FLOP/B. "
        + ("The cache fits in the memory of one GPU." if fits else "The cache needs more than one GPU."),
    )


show(
    calculator(
        [
            Slider("KV heads", [1, 2, 4, 8, 16, 32], 8),
            Slider("tokens", [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], 32768),
            Slider("batch", [1, 2, 4, 8, 16, 32, 64], 1),
            Slider("layers", [1, 16, 32, 64], 32),
        ],
        reading,
        meters=[
            Meter("cache [GB]", 80, "", "global", ",.1f"),
            Meter("read time [ms]", 25, "", "predicted", ",.2f"),
        ],
        title="The cache grows with every token, and each new token requires reading all of it",
        caption="Size of the KV cache of a model with 32 query heads of 128 elements in BF16, and the time that a decoding step needs to read it at the peak bandwidth of an {machine} (data sheet). The weights, which a step also reads, are left out.",
    )
)
publish(
    model={
        "mb": cache_bytes(1, 32768) / 1e6,
        "idle": GPU.sms - KV_HEADS,
        "intensity": 4 * HEADS * D / cache_bytes(1, 1),
        "ridge": H100.peak_tflop_per_s["bf16_matrix"] / H100.memory_gb_per_s * 1e3,
    }
)

# %% [markdown]
# ## Split-KV: several blocks for one query
#
# Each block processes one *split* of the keys. [As in Kernel 6](flash_forward.py#kernel-6-split-key-flashattention), it
# stores $o_w$, the mean of its values weighted by a softmax over its own keys, and $L_w$, the log-sum-exp of its
# scores. The result is the mean of these parts, weighted by $2^{L_w}$. (The scores are multiplied by $\log_2 e$
# beforehand.)
#
# $$O = \frac{\sum_w 2^{L_w}\, o_w}{\sum_w 2^{L_w}} \qquad L_w = \log_2 \sum_{j \in w} 2^{s_j}$$
#
# Step through four keys in two splits:
#
# ??? definition "Split-KV"
#     Attention in which several blocks process the same queries, each with its own split of the keys and values,
#     and a final step combines their results by their log-sum-exps.

# %% fold="Code of the figure"
from tilewise import check

SCORES, VALUES = np.array([1.0, 3.0, 2.0, 2.0]), np.array([10.0, 20.0, 30.0, 70.0])
COMBINE_STEPS = """p = 2 ** (s[split] - m)
o[w] = p @ v[split] / sum(p)
L[w] = m + log2(sum(p))
weight = 2 ** (L - max(L))
O = weight @ o / sum(weight)"""


def two_splits():
    """The example, split by split, and its result."""
    means, lses, states = np.full(2, np.nan), np.full(2, np.nan), []

    def note(what, line, split=()):
        arrays = {"scores": SCORES, "values": VALUES, "o": means.copy(), "L": lses.copy()}
        reads = {"scores": list(split), "values": list(split)} if split else {"o": [0, 1], "L": [0, 1]}
        states.append(State(what, line=line, arrays=arrays, reads=reads))

    for w, split in enumerate(((0, 1), (2, 3))):
        p = 2 ** (SCORES[list(split)] - SCORES[list(split)].max())
        means[w] = p @ VALUES[list(split)] / p.sum()
        lses[w] = SCORES[list(split)].max() + np.log2(p.sum())
        name = f"Split {w}, in a block of its own"
        note(f"{name}: mean {means[w]:.0f}, log-sum-exp {lses[w]:.2f}.", 3, split)
    weight = 2 ** (lses - lses.max())
    out = weight @ means / weight.sum()
    note(f"The splits get the weights {weight[0]:.0f} and {weight[1]:.1f}.", 4)
    note(f"Their mean is {out:.1f}.", 5)
    return states, out


states, out = two_splits()
weights = 2**SCORES
check(out, weights @ VALUES / weights.sum(), atol=1e-12, name="two splits against softmax over all keys")
show(
    stepped(
        states,
        source=COMBINE_STEPS,
        start=1,
        title="A mean and a log-sum-exp are all that a split has to store",
        caption="One query, four keys in two splits, one column of the values: what each split stores, and how the results are combined.",
    )
)

# %% [markdown]
# ## One warp per key
#
# In the first kernel, a warp processes one key at a time, and each lane holds 4 of its 128 elements. For each query,
# five shuffles sum the lanes' partial dot products. Then comes one step of online softmax. A block serves all `GROUP`
# query heads of a KV head. `combine_shares` combines the splits in a second launch.


# %% tab="Pseudocode"
from tilewise import parallel, tiles

LOG2_E = np.log2(np.e)


def decode_rows(q, K, V, part, L, share, sharing, scale):
    for head in parallel(len(q)):
        keys, values = K[head // sharing], V[head // sharing]
        for w, own in enumerate(tiles(len(keys), share)):
            # [split
            s = keys[own] @ q[head] * (scale * LOG2_E)
            p = 2.0 ** (s - max(s))
            part[w, head] = p @ values[own] / sum(p)
            L[w, head] = max(s) + np.log2(sum(p))
            # split]


def combine_shares(part, L, out):
    for head in parallel(len(out)):
        # [combine
        weight = 2.0 ** (L[:, head] - max(L[:, head]))
        out[head] = weight @ part[:, head] / sum(weight)
        # combine]


# %% tab="CUDA C"
from tilewise import Kernel

DECODE_ROWS = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

static __device__ float exp2_approx(float x) {  // 2^x
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Loads four BF16 elements, 8 bytes, and converts them to FP32.
static __device__ float4 load_bf16x4(const Bf16* base) {
    uint2 v = *(const uint2*)base;
    return make_float4(__uint_as_float(v.x << 16),
                       __uint_as_float(v.x & 0xFFFF0000u),
                       __uint_as_float(v.y << 16),
                       __uint_as_float(v.y & 0xFFFF0000u));
}

// Attention of one query per head over one split of the keys: the mean of the values in part,
// its log-sum-exp, base 2, in L. q [heads][128], K and V [heads / sharing][N][128], all BF16,
// contiguous, 8-byte aligned; part [splits][heads][128] and L [splits][heads], FP32.
// share = keys per split; sharing = query heads per KV head. A block serves GROUP query heads of
// one KV head: GROUP divides sharing. An empty split has zeros in part and L = -infinity.
// Launch (splits, heads / GROUP) blocks of 32 * WARPS threads; static shared memory; sm_80 or newer.
// Not handled: head dimensions other than 128, masks, paged caches.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
decode_rows(const Bf16* q, const Bf16* K, const Bf16* V, float* part, float* L,
            int N, int share, int sharing, float scale) {
    __shared__ float warp_o[WARPS][GROUP][128];
    __shared__ float warp_max[WARPS][GROUP], warp_sum[WARPS][GROUP];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    int head = blockIdx.y * GROUP, heads = gridDim.y * GROUP;
    size_t base = (size_t)(head / sharing) * N * 128 + 4 * lane;
    int end = min(N, (int)(blockIdx.x + 1) * share);
    float bits = scale * 1.44269504f;  // scores as powers of two
    float4 a[GROUP], o[GROUP] = {};
    float m[GROUP], z[GROUP] = {};
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        a[g] = load_bf16x4(&q[(head + g) * 128 + 4 * lane]);
        m[g] = -1e30f;  // finite: -infinity minus itself is NaN
    }
    // [split
    #pragma unroll 2
    for (int j = blockIdx.x * share + warp_id; j < end; j += WARPS) {
        float4 k = load_bf16x4(&K[base + (size_t)j * 128]);
        float4 v = load_bf16x4(&V[base + (size_t)j * 128]);
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            float s = a[g].x * k.x + a[g].y * k.y
                    + a[g].z * k.z + a[g].w * k.w;
            for (int offset = 16; offset > 0; offset /= 2)
                s += __shfl_xor_sync(~0u, s, offset);
            float row_max = fmaxf(m[g], s * bits);
            float alpha = exp2_approx(m[g] - row_max),
                  p = exp2_approx(s * bits - row_max);
            m[g] = row_max;
            z[g] = z[g] * alpha + p;
            o[g].x = o[g].x * alpha + p * v.x;
            o[g].y = o[g].y * alpha + p * v.y;
            o[g].z = o[g].z * alpha + p * v.z;
            o[g].w = o[g].w * alpha + p * v.w;
        }
    }
    // split]
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        *(float4*)&warp_o[warp_id][g][4 * lane] = o[g];
        warp_max[warp_id][g] = m[g];
        warp_sum[warp_id][g] = z[g];
    }
    __syncthreads();  // every warp has written its m, z and o
    for (int idx = threadIdx.x; idx < GROUP * 128; idx += 32 * WARPS) {
        int g = idx / 128, at = blockIdx.x * heads + head + g;
        float row_max = -1e30f, sum = 0.0f, x = 0.0f;
        for (int w = 0; w < WARPS; ++w) row_max = fmaxf(row_max, warp_max[w][g]);
        for (int w = 0; w < WARPS; ++w) {
            float alpha = exp2_approx(warp_max[w][g] - row_max);
            sum += alpha * warp_sum[w][g];
            x += alpha * warp_o[w][g][idx % 128];
        }
        part[at * 128 + idx % 128] = sum > 0.0f ? x / sum : 0.0f;
        if (idx % 128 == 0) L[at] = row_max + log2f(sum);
    }
}

// out = mean of the splits' parts, with weights 2^L. part [shares][heads][128], L [shares][heads],
// out [heads][128] in BF16; shares = number of splits. A head without any key gets zeros.
// One thread per output element: launch ceil(heads * 128 / block) blocks.
extern "C" __global__
void combine_shares(const float* part, const float* L, Bf16* out,
                    int heads, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, head = at / 128;
    if (head >= heads) return;
    // [combine
    float row_max = -1e30f, sum = 0.0f, x = 0.0f;
    for (int w = 0; w < shares; ++w)
        row_max = fmaxf(row_max, L[w * heads + head]);
    for (int w = 0; w < shares; ++w) {
        float weight = exp2_approx(L[w * heads + head] - row_max);
        sum += weight;
        x += weight * part[w * heads * 128 + at];
    }
    out[at] = __float2bfloat16(sum > 0.0f ? x / sum : 0.0f);
    // combine]
}
"""


def rows_kernel(group, warps=8):
    return Kernel(DECODE_ROWS, "decode_rows", defines={"GROUP": group, "WARPS": warps})


ROWS = rows_kernel(4)
COMBINE = ROWS.named("combine_shares")

# %%
ROWS.region("split")

# %% [markdown]
# Run it with four query heads, one KV head and three keys in two splits. All scores are 0, so each key has a weight of
# 1/3, although one split has two keys and the other only one.

# %%
from tilewise import bf16

q, K = np.zeros((4, 128), np.float32), np.zeros((1, 3, 128), np.float32)
q, K, V = bf16.bits(q), bf16.bits(K), bf16.bits(np.eye(3, 128, dtype=np.float32)[None])
part, L = np.zeros((2, 4, 128), np.float32), np.zeros((2, 4), np.float32)
out = np.zeros((4, 128), np.uint16)
ROWS(q, K, V, part, L, 3, 2, 4, 128**-0.5, grid=(2, 1), block=256)
COMBINE(part, L, out, 4, 2, grid=2, block=256)
print(bf16.values(out)[0, :4].round(2))

# %% fold="Code of the checks"
from tilewise import Trace, agree, case, ceil_div, expect_hazard, gpu_here, output, uniform


def spread(*shape, most=2.0):
    """BF16 numbers whose products make logits of all sizes."""
    return uniform(*shape, low=-most, high=most, dtype="bfloat16")


def decoding(kernel, heads, kv_heads, keys, shares, **more):
    """One new query for each head, the cache, and a launch of a kernel with so many shares of the keys."""  # as recorded
    share = ceil_div(ceil_div(keys, shares), 16) * 16
    shares = ceil_div(keys, share)
    assert shares <= 64, "a lane weighs two shares"
    arrays = {"q": spread(heads, 128), "K": spread(kv_heads, keys, 128), "V": spread(kv_heads, keys, 128)}
    written = {
        "part": output(shares, heads, 128),
        "L": output(shares, heads),
        "out": output(heads, 128, dtype="bfloat16"),
    }
    sizes = {"N": keys, "share": share, "shares": shares, "heads": heads}
    sizes |= {"sharing": heads // kv_heads, "scale": 128**-0.5}
    grid = (shares, heads // kernel.defines["GROUP"])
    return case(grid, 32 * kernel.defines["WARPS"], **{**arrays, **written, **sizes, **more})


def with_an_empty_split(kernel):
    """A launch with one split more than there are keys for, as a batch of texts of unequal length has."""
    values = dict(decoding(kernel, 4, 1, 33, 3).values)
    values |= {"part": output(4, 4, 128), "L": output(4, 4), "shares": 4}
    return case((4, 4 // kernel.defines["GROUP"]), 32 * kernel.defines["WARPS"], **values)


def in_two(kernel, *sizes, **more):
    """Both launches of the first way."""
    inputs = decoding(kernel, *sizes, **more)
    grid = ceil_div(inputs.values["heads"] * 128, 256)
    return [kernel.on(inputs), kernel.named("combine_shares").on(inputs, grid=grid, block=256)]


def attended(q, K, V, scale):
    """out in 64-bit floats, on the GPU where there is one; and what a copy of the keys is to give."""
    xp = np
    if gpu_here():
        import cupy as xp
    keys, values = xp.asarray(K, dtype=np.float64), xp.asarray(V, dtype=np.float64)
    queries = xp.asarray(q, dtype=np.float64).reshape(len(keys), -1, 128)
    S = queries @ keys.transpose(0, 2, 1) * float(scale)
    P = xp.exp(S - S.max(axis=-1, keepdims=True))
    out = ((P / P.sum(axis=-1, keepdims=True)) @ values).reshape(-1, 128)
    return {"out": out if xp is np else xp.asnumpy(out), "copied": K}


def against_64_bits(runs, name):
    """The results of some runs, within the rounding of weights and results to BF16."""
    got, expected = [], []
    for arrays in runs:
        q, K, V = (bf16.values(arrays[one]).astype(float) for one in "qKV")
        got.append(bf16.values(arrays["out"]).astype(float))
        expected.append(attended(q, K, V, arrays["scale"])["out"])
    check(np.concatenate(got), np.concatenate(expected), rtol=2**-7, atol=2**-8, name=name)


ALONE = rows_kernel(1)
SIZES = {
    "77 keys in three splits": (8, 2, 77, 3),
    "one split": (4, 1, 21, 1),
    "16 keys per split": (4, 1, 40, 40),
}
for kernel in (ROWS, ALONE):
    agree(decode_rows, kernel, [decoding(kernel, *sizes) for sizes in SIZES.values()], rtol=1e-4, atol=1e-5)
    runs = [run_chain(in_two(kernel, *sizes)) for sizes in SIZES.values()]
    ragged = with_an_empty_split(kernel)
    combine = kernel.named("combine_shares").on(ragged, grid=2, block=256)
    runs.append(run_chain([kernel.on(ragged), combine]))
    sizes = ", ".join([*SIZES, "an empty split"])
    against_64_bits(runs, f"GROUP = {kernel.defines['GROUP']}: {sizes}")


def some_parts(shares, heads, stretch):
    """Parts whose log-sum-exps are similar or very different."""
    L = (stretch * np.random.default_rng(shares).normal(size=(shares, heads))).astype(np.float32)
    part, out = uniform(shares, heads, 128, low=-1.0), output(heads, 128, dtype="bfloat16")
    grid = ceil_div(heads * 128, 256)
    return case(grid, 256, part=part, L=L, out=out, heads=heads, shares=shares)


agree(combine_shares, COMBINE, [some_parts(3, 5, 1.0), some_parts(7, 3, 3000.0)], rtol=2**-8, atol=1e-6)

# %% [markdown]
# Compare the loads with those of a kernel that takes one query head per block:

# %% fold="Code of the run"
from tilewise import try_it

ONE_HEAD = rows_kernel(1)
try_it(
    {
        "four heads per block": lambda keys, splits: decoding(ROWS, 4, 1, keys, splits),
        "one head per block": lambda keys, splits: decoding(ONE_HEAD, 4, 1, keys, splits),
    },
    {"four heads per block": ROWS, "one head per block": ONE_HEAD},
    keys=(1, 64, 256),
    splits=(1, 2, 8),
)

# %% [markdown]
# Instruction issue costs this kernel almost as much time as memory: in the compiled loop, a warp issues
# {{ rows.per_key | .0f }} instructions per key. At four instructions per cycle, each key costs an SM at least
# {{ rows.cycles | .0f }} cycles, while memory takes {{ chip.key_cycles | .0f }} cycles to deliver its 512 bytes. We need fewer instructions per key, and tensor cores do the most work per instruction.

# %% [markdown]
# ## Tensor cores: fragments straight from global memory
#
# `mma.sync` multiplies 16 rows by 8 columns, and a group has only four queries. They fill 4 of 16 rows in $QK^T$ and 4
# of 8 columns in the transposed $PV$, which needs half as many MMAs. Overall, two thirds of the
# arithmetic multiplies zeros. That doesn't matter: the tensor cores have FLOP/s to spare.
#
# [GEMM kernels](../matmul/matrix_units.py) stage tiles in shared memory because several warps use each element. Here,
# only one warp uses a key. So each lane can load its fragment directly from global memory, 16 bytes at a time. In each
# fragment of a key, a lane holds two pairs of adjacent elements, and the pairs are eight elements apart. But a dot
# product doesn't depend on the order of its terms, provided that the query and the key are in the same order. So a lane
# loads 16 contiguous bytes and uses them as its element pairs for two MMAs.
#
# After $QK^T$, lane $4r + t$ holds the scores of query $r$ for keys $2t$ and $2t + 1$, exactly the layout that
# `mma.sync` expects for its B operand. So the kernel computes the transpose, $O^T = V^T P^T$, and no probability moves
# between lanes.


# %% tab="Pseudocode"
def decode_tiles(q, K, V, part, L, out, share, sharing, scale):
    for head in parallel(len(q)):
        keys, values = K[head // sharing], V[head // sharing]
        for w, own in enumerate(tiles(len(keys), share)):
            m, z, o = -np.inf, 0.0, np.zeros(128)
            for j in tiles(len(own), 16):
                k, v = keys[own][j], values[own][j]
                # [scores
                s = k @ q[head] * (scale * LOG2_E)
                # scores]
                # [softmax
                row_max = max(m, *s)
                alpha, p = 2.0 ** (m - row_max), 2.0 ** (s - row_max)
                m, z, o = row_max, z * alpha + sum(p), o * alpha
                # softmax]
                # [pv
                o = o + p @ v
                # pv]
            if len(part) == 1:
                out[head] = o / z
            else:
                part[w, head], L[w, head] = o / z, m + np.log2(z)
        if len(part) > 1:
            # [combine
            weight = 2.0 ** (L[:, head] - max(L[:, head]))
            out[head] = weight @ part[:, head] / sum(weight)
            # combine]


# %% tab="CUDA C"
DECODE_TILES = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// What the warps of a block exchange through shared memory.
struct BlockState {
    float o[WARPS][GROUP][128], m[WARPS][GROUP], z[WARPS][GROUP];
    float weight[GROUP][64];  // of each split
    bool is_last;
};
// Splits that have finished, per blockIdx.y; back at zero after every launch. One array for the
// whole module: launches on two streams must not overlap.
static __device__ unsigned splits_done[4096] = {};

static __device__ float exp2_approx(float x) {  // 2^x
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

static __device__ unsigned pack_bf16x2(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// D += A B for one warp: 16 x 16 times 16 x 8, two BF16 elements per register.
static __device__ void mma_m16n8k16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2,
                                    unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Loads 16 bytes that are used once: not kept in the L1. AHEAD may make the L2 fetch 256 bytes.
static __device__ uint4 once(const Bf16* base) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate" AHEAD
                 ".v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(base));
    return v;
}

// x += alpha * y
static __device__ void fma4(float4& x, float alpha, float4 y) {
    x.x += alpha * y.x;
    x.y += alpha * y.y;
    x.z += alpha * y.z;
    x.w += alpha * y.w;
}

// Stores four elements of a row of out as BF16.
static __device__ void write(Bf16* out, int head, int c, float4 x) {
    *(uint2*)&out[head * 128 + c] =
        make_uint2(pack_bf16x2(x.x, x.y), pack_bf16x2(x.z, x.w));
}

// Combines the results of the block's warps; the last block of a group of heads combines all splits.
static __device__ void finish_block(BlockState& all, float* part, float* L,
                                    Bf16* out) {
    int shares = gridDim.x, heads = gridDim.y * GROUP;
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
#if FORGET != 1
    __syncthreads();  // every warp has written its m, z and o
#endif
    for (int idx = threadIdx.x; idx < GROUP * 32; idx += 32 * WARPS) {
        int g = idx / 32, c = idx % 32 * 4, head = blockIdx.y * GROUP + g;
        float row_max = all.m[0][g], z = 0.0f;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll
        for (int w = 1; w < WARPS; ++w) row_max = fmaxf(row_max, all.m[w][g]);
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            float alpha = exp2_approx(all.m[w][g] - row_max);
            z += alpha * all.z[w][g];
            fma4(x, alpha, *(float4*)&all.o[w][g][c]);
        }
        float inv_sum = z > 0.0f ? 1.0f / z : 0.0f;  // an empty split: zeros
        x = make_float4(x.x * inv_sum, x.y * inv_sum, x.z * inv_sum, x.w * inv_sum);
        if (shares == 1) {
            write(out, head, c, x);
            continue;
        }
        int at = blockIdx.x * heads + head;
        *(float4*)&part[at * 128 + c] = x;
        if (c == 0) L[at] = row_max + __log2f(z);
    }
    if (shares == 1) return;
    // [combine
    __threadfence();  // part and L are visible before the count
    __syncthreads();
    if (threadIdx.x == 0)
        all.is_last = atomicInc(&splits_done[blockIdx.y], shares - 1) == shares - 1;
    __syncthreads();
    if (!all.is_last) return;
    __threadfence();  // the other blocks' parts are visible
    for (int g = warp_id; g < GROUP; g += WARPS) {  // each lane: two splits
        const float* lse = L + blockIdx.y * GROUP + g;
        int other = lane + 32;
        float a = lane < shares ? __ldcg(&lse[lane * heads]) : -INFINITY;
        float b = other < shares ? __ldcg(&lse[other * heads]) : -INFINITY;
        float row_max = fmaxf(fmaxf(a, b), -1e30f);  // finite even without any key
        for (int offset = 16; offset > 0; offset /= 2)
            row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, offset));
        a = exp2_approx(a - row_max);
        b = exp2_approx(b - row_max);
        float z = a + b;
        for (int offset = 16; offset > 0; offset /= 2)
            z += __shfl_xor_sync(~0u, z, offset);
        all.weight[g][lane] = z > 0.0f ? a / z : 0.0f;
        all.weight[g][other] = z > 0.0f ? b / z : 0.0f;
    }
    __syncthreads();
    for (int idx = threadIdx.x; idx < GROUP * 32; idx += 32 * WARPS) {
        int g = idx / 32, c = idx % 32 * 4, head = blockIdx.y * GROUP + g;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll 16
        for (int w = 0; w < shares; ++w)
            fma4(x, all.weight[g][w],
                __ldcg((const float4*)&part[(w * heads + head) * 128 + c]));
        write(out, head, c, x);
    }
    // combine]
}

// Attention of one query per head on tensor cores, all splits in one launch: out [heads][128], BF16.
// Other arguments as in decode_rows, but q, K, V, part and out 16-byte aligned, share a multiple
// of 16, GROUP <= 8, at most 64 splits and 4,096 groups of heads. N >= 1. With one split,
// part and L are not written.
// Launch (splits, heads / GROUP) blocks of 32 * WARPS threads; static shared memory; sm_80 or newer.
// Not handled: head dimensions other than 128, masks, paged caches, concurrent launches.
extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
decode_tiles(const Bf16* q, const Bf16* K, const Bf16* V,
             float* part, float* L, Bf16* out,
             int N, int share, int sharing, float scale) {
    __shared__ __align__(16) BlockState all;
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    int row = lane / 4, t = lane % 4, head = blockIdx.y * GROUP;
    const Bf16* keys = K + (size_t)(head / sharing) * N * 128 + 8 * t;
    const Bf16* values = V + (size_t)(head / sharing) * N * 128 + 8 * row;
    // [load
    uint4 k[8], v[8];
    auto load_keys = [&](int j) {  // two keys, 4 x 16 bytes of each
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int r = min(j + i / 4 * 8 + row, N - 1);
            k[i] = once(keys + (size_t)r * 128 + i % 4 * 32);
        }
    };
    auto load_values = [&](int j) {  // four values, 2 x 16 bytes of each
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int r = min(j + i % 4 / 2 * 8 + 2 * t + i % 2, N - 1);
            v[i] = once(values + (size_t)r * 128 + i / 4 * 64);
        }
    };
    // load]
    int j = blockIdx.x * share + 16 * warp_id;
    int end = min(N, (int)(blockIdx.x + 1) * share);
    if (j < end) {
        load_keys(j);
        load_values(j);
    }
    uint4 a[4] = {};  // query `row`, permuted like a key
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        if (row < GROUP)
            a[i] = *(const uint4*)&q[(head + row) * 128 + i * 32 + 8 * t];
    float bits = scale * 1.44269504f, m = -1e30f, z = 0.0f, o[8][4] = {};
    for (; j < end; j += 16 * WARPS) {
        int next_j = j + 16 * WARPS;
        // [scores
        float s[2][4] = {};
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                uint4 b = k[4 * h + i];
                mma_m16n8k16(s[h], a[i].x, 0, a[i].y, 0, b.x, b.y);
                mma_m16n8k16(s[h], a[i].z, 0, a[i].w, 0, b.z, b.w);
            }
        if (next_j < end) load_keys(next_j);  // in flight during softmax and PV
        // scores]
        // [softmax
        float p[4], row_max = m;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            bool there = j + i / 2 * 8 + 2 * t + i % 2 < end;
            p[i] = there ? s[i / 2][i % 2] * bits : -1e30f;
            row_max = fmaxf(row_max, p[i]);
        }
        row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, 1));
        row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, 2));
        if (__any_sync(~0u, row_max > m)) {  // rare after the first tiles
            float alpha = exp2_approx(m - row_max);
            float even = __shfl_sync(~0u, alpha, 8 * t);  // of query 2t
            float odd = __shfl_sync(~0u, alpha, 8 * t + 4);
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                o[n][0] *= even;
                o[n][1] *= odd;
                o[n][2] *= even;
                o[n][3] *= odd;
            }
            m = row_max;
            z *= alpha;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            p[i] = exp2_approx(p[i] - m);
            z += p[i];
        }
        // softmax]
        // [pv
        unsigned p_lo = pack_bf16x2(p[0], p[1]),
                 p_hi = pack_bf16x2(p[2], p[3]);
        #pragma unroll
        for (int n = 0; n < 8; ++n) {  // two elements of four values
            unsigned b[4];
            #pragma unroll
            for (int r = 0; r < 4; ++r) b[r] = (&v[n / 4 * 4 + r].x)[n % 4];
            mma_m16n8k16(o[n], __byte_perm(b[0], b[1], 0x5410),
                __byte_perm(b[0], b[1], 0x7632),
                __byte_perm(b[2], b[3], 0x5410),
                __byte_perm(b[2], b[3], 0x7632), p_lo, p_hi);
        }
        if (next_j < end) load_values(next_j);
        // pv]
    }
    z += __shfl_xor_sync(~0u, z, 1);
    z += __shfl_xor_sync(~0u, z, 2);
    if (t == 0 && row < GROUP) {
        all.m[warp_id][row] = m;
        all.z[warp_id][row] = z;
    }
    #pragma unroll
    for (int h = 0; h < 2; ++h)
        if (2 * t + h < GROUP)
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                float* to = &all.o[warp_id][2 * t + h][n / 4 * 64 + 8 * row];
                *(float2*)&to[n % 4 * 2] = make_float2(o[n][h], o[n][2 + h]);
            }
    finish_block(all, part, L, out);
}
"""


def tiles_kernel(group=4, warps=8, blocks=1, forget=0, ahead=".L2::256B"):
    """So many queries share a key; so many warps to a block, and blocks that an SM is to hold."""
    sizes = {"GROUP": group, "WARPS": warps, "BLOCKS": blocks, "AHEAD": f'"{ahead}"'}
    sizes |= {"FORGET": forget} if forget else {}
    return Kernel(DECODE_TILES, defines=sizes, options=("-std=c++17",))


TILES = tiles_kernel()

# %%
TILES.region("load")

# %%
TILES.region("scores")

# %% [markdown]
# The figure shows which lane loads which 16-byte chunk of the keys. Four adjacent lanes read 64 bytes of a key, two
# whole sectors.

# %% fold="Code of the figure"
ONE_WARP = tiles_kernel(4, 1)
one_warp = ONE_WARP.on(decoding(ONE_WARP, 4, 1, 16, 1))
traced = one_warp.simulate(trace=Trace())


def lanes_of_keys():
    """For each 16 bytes of K, the lane that loads them."""
    seen = traced.accesses
    mine = (seen.buffer == list(traced.buffers).index("K")) & (seen.space == 0)
    lanes = np.full(16 * 16, -1)
    lanes[seen.index[mine] // 8] = seen.lane[mine]
    return lanes.reshape(16, 16)


CHUNKS = lanes_of_keys()
KEYS_OF_LANES = CHUNKS[:8, :8]


def of_lane(lane):
    """The state in which the parts of the keys that a lane loads are marked."""
    keys, chunks = (map(str, np.unique(at)) for at in np.nonzero(lane == CHUNKS))
    *others, last = chunks
    text = f"Lane {lane} loads chunks {', '.join(others)} and {last} of keys {' and '.join(keys)}."
    return State(text, arrays={"K": KEYS_OF_LANES}, reads={"K": lane == KEYS_OF_LANES})


show(
    stepped(
        [of_lane(lane) for lane in range(32)],
        start=5,
        title="Each lane loads four 16-byte chunks from each of two keys",
        caption="The rows are 8 of a tile's 16 keys; the columns are 8 of a key's 16 chunks of 16 bytes each. Each cell shows the lane that loads the chunk. The pattern repeats in the other three quarters of the tile.",
    )
)

# %% [markdown]
# ## The last block combines
#
# The final step is too little work to justify a second launch. So each block increments a counter once it has written
# its part, and the last block to finish in each group of heads combines all the splits:

# %%
TILES.region("combine")

# %% [markdown]
# The fence makes a block's part visible before its increment of the counter, and `atomicInc` wraps the counter to zero
# for the next launch. The counters are global variables, so two of these launches must not run concurrently.
#
# Just before this code, the warps of a block combine their results after a barrier. Without that barrier, the simulator
# reports a race:

# %% fold="Code of the checks"
AWKWARD = [(8, 2, 203, 3), (8, 2, 45, 1), (4, 1, 299, 64)]
for kernel in (TILES, tiles_kernel(1, 4), tiles_kernel(2, 4, 3)):
    large = decoding(kernel, 8, 2, 85, 2, q=spread(8, 128, most=1000.0))
    ordinary = [decoding(kernel, *sizes) for sizes in AWKWARD]
    agree(decode_tiles, kernel, [*ordinary, large], rtol=2e-2, atol=1e-2)
    made = [kernel.on(decoding(kernel, *sizes)).run() for sizes in AWKWARD]
    made.append(kernel.on(with_an_empty_split(kernel)).run())
    sizes = "203, 45 and 299 keys; 33 keys with an empty split"
    against_64_bits(made, f"GROUP = {kernel.defines['GROUP']}: {sizes}")
expect_hazard(
    tiles_kernel(forget=1).on(decoding(tiles_kernel(), 4, 1, 130, 1)),
    "race",
    line_with="float row_max = all.m[0][g]",
)

# %% [markdown]
# ## Estimate: instruction issue and memory bandwidth
#
# How long should a step over 32,768 keys take at batch 1? Loading the keys and values takes
# {{ chip.bytes_us | us }} at the highest bandwidth measured on this GPU. Issuing the warp-per-key kernel's instructions
# takes {{ rows.issue_us | us }}; the tensor-core kernel needs {{ tiled.times | .0f }}× fewer instructions per key, so
# issuing them takes only {{ tiled.issue_us | us }}. So `decode_tiles` should be memory-bound by a wide margin, while
# the two limits of `decode_rows` are close together.

# %% fold="Code of the measurement"
from tilewise import Guess, measure

COPY = Kernel(r"""
#include <cuda_bf16.h>
extern "C" __global__
void copy(const __nv_bfloat16* K, __nv_bfloat16* copied, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 8) ((uint4*)copied)[i] = ((const uint4*)K)[i];
}
""")


def sized(kernel, batch, N, shares):
    return kernel, batch * HEADS, batch * KV_HEADS, N, shares


def filling(kernel, blocks_per_sm, batch):
    """Shares with which a launch fills the SMs once: a block at least, 64 at most."""
    units = batch * HEADS // kernel.defines["GROUP"]
    return max(1, min(64, H100.sms * blocks_per_sm // units))


def copied_keys(batch, N):
    """What a copy of all keys is to write; reading and writing them moves as much as reading the cache."""
    return output(batch * KV_HEADS, N, 128, dtype="bfloat16")


def copy(batch, N):
    keys = spread(batch * KV_HEADS, N, 128)
    n = batch * KV_HEADS * N * 128
    return COPY.on(case(ceil_div(n, 2048), 256, K=keys, copied=copied_keys(batch, N), n=n))


def one_share(batch, N):
    return in_two(*sized(ROWS, batch, N, 1), copied=copied_keys(batch, N))


def in_rows(kernel):
    return lambda batch, N: in_two(*sized(kernel, batch, N, filling(kernel, 3, batch)))


def in_fragments(kernel, blocks_per_sm, times=1):
    """`times` as many shares as fill the SMs."""

    def launches(batch, N):
        shares = min(64, times * filling(kernel, blocks_per_sm, batch))
        return kernel.on(decoding(*sized(kernel, batch, N, shares)))

    return launches


def torch_attention(backend):
    """torch's attention by one of its backends, four heads to a head of keys."""

    def contender(arrays):
        import cupy
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q, K, V = (
            torch.as_tensor(arrays[name].view("int16"), device="cuda").view(torch.bfloat16) for name in "qKV"
        )
        batch = len(q) // HEADS
        q = q.reshape(batch, HEADS, 1, 128)
        K, V = (one.reshape(batch, KV_HEADS, -1, 128) for one in (K, V))
        attention = torch.nn.functional.scaled_dot_product_attention

        def run():
            with sdpa_kernel(getattr(SDPBackend, backend)):
                found = attention(q, K, V, enable_gqa=True).reshape(-1, 128)
            return {"out": cupy.asarray(found.view(torch.int16)).view("uint16")}

        return run

    return contender


LIBRARIES = {"cuDNN, through torch": "CUDNN_ATTENTION", "torch, FLASH": "FLASH_ATTENTION"}
CUDNN, FLASH_2 = "cuDNN (torch SDPA)", "FlashAttention-2 (torch SDPA)"
ALONE_TEXT = {"batch": 1, "N": 32768}
ONE_SPLIT, ONE_QUERY, PER_KEY = "warp per key, one split", "warp per key, one query per block", "warp per key"
TENSOR, NO_HINT, COPIED = "tensor cores", "tensor cores, no L2 prefetch hint", "copy"
decoded = measure(
    "decoding",
    variants={
        ONE_SPLIT: one_share,
        ONE_QUERY: in_rows(ALONE),
        PER_KEY: in_rows(ROWS),
        TENSOR: in_fragments(TILES, 1),
        "tensor cores, twice the splits": in_fragments(TILES, 1, 2),
        NO_HINT: in_fragments(tiles_kernel(ahead=""), 1),
        "tensor cores, 2 blocks of 6 warps": in_fragments(tiles_kernel(4, 6, 2), 2),
        "tensor cores, 3 blocks of 4 warps": in_fragments(tiles_kernel(4, 4, 3), 3),
        COPIED: copy,
    },
    cases=[ALONE_TEXT],
    count_case={"batch": 1, "N": 2048},
    bytes=cache_bytes,
    flop=lambda batch, N: 4 * batch * HEADS * N * D,
    arithmetic="bf16_matrix",
    counts=("sectors", "instructions"),
    library={CUDNN: torch_attention("CUDNN_ATTENTION"), FLASH_2: torch_attention("FLASH_ATTENTION")},
    reference=attended,
    tolerance=2**-7,
    reasons={"*": "Decoding against a copy and cuDNN"},
    fold="All 11 rows",
    guess=Guess(
        "Batch 1, 32,768 keys: by what factor do 49 splits per KV head speed up the warp-per-key kernel?",
        of=PER_KEY,
        over=ONE_SPLIT,
        between=(1.0, 100.0),
        models={
            "SMs with a block": 132 / 8,
            "blocks": 49.0,
        },
        because="All SMs are at work, not just eight of them. In addition, each SM runs three blocks: while the warps of one block wait for memory, those of another compute. But blocks on the same SM share its schedulers, so the factor stays below the number of splits.",
    ),
)

# %% [markdown]
# In these runs, each SM had three blocks of `decode_rows` or one block of `decode_tiles`. The next cell times larger
# batches:

# %% fold="Code that times batches on a GPU" needs="gpu" record="batches"
if gpu_here():
    from functools import partial

    import cupy

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    def drawn_on_gpu(generator, *shape):
        return bf16.bits(generator.standard_normal(shape, dtype=cupy.float32))

    def enqueue(launch, arrays):
        given = {**launch.case.values, **arrays}
        values = [given[one.name] for one in launch.kernel.parameters]
        launch.kernel(*values, grid=launch.grid, block=launch.block)

    def room_for(launch):
        """The arrays that a launch writes, on the GPU and never on the host."""
        recipes = {name: launch.case.values[name] for name in launch.case.outputs}
        return {name: cupy.zeros(one.shape, one.dtype) for name, one in recipes.items()}

    for batch, N in ((16, 8192), (64, 4096)):
        generator = cupy.random.default_rng(batch)
        drawn = {"q": drawn_on_gpu(generator, batch * HEADS, 128)}
        drawn |= {name: drawn_on_gpu(generator, batch * KV_HEADS, N, 128) for name in "KV"}
        cupy.get_default_memory_pool().free_all_blocks()
        made = {
            "four queries a block, shares": in_rows(ROWS)(batch, N),
            "fragments": [in_fragments(TILES, 1)(batch, N)],
            "fragments, twice the shares": [in_fragments(TILES, 1, 2)(batch, N)],
            "fragments, rows not ahead": [in_fragments(tiles_kernel(ahead=""), 1)(batch, N)],
            "fragments, 2 blocks of 6 warps": [in_fragments(tiles_kernel(4, 6, 2), 2)(batch, N)],
        }
        theirs = {name: torch_attention(which)(drawn) for name, which in LIBRARIES.items()}
        right = bf16.values(theirs["cuDNN, through torch"]()["out"])
        contenders = [Contender(name, call) for name, call in theirs.items()]
        for name, launches in made.items():
            arrays = {**drawn, **room_for(launches[0])}
            runs = [partial(enqueue, launch, arrays) for launch in launches]
            for run in runs:
                run()
            off = float(abs(bf16.values(arrays["out"]) - right).max())
            assert off < 2**-6, f"{name} is off by {off}"
            contenders.append(Contender(name, lambda runs=runs: [run() for run in runs]))
        whole = copy(batch, N)
        contenders.append(Contender("a copy", partial(enqueue, whole, {**drawn, **room_for(whole)})))
        plan = Plan(budget_s=0.5, repetitions=60)
        first, again = (time_contenders(contenders, plan) for _ in range(2))
        for one, other in zip(first, again, strict=True):
            print(
                f"batch {batch}, {N} keys, {one.label}: {one.median:.1f} us [{one.p20:.1f}, {one.p80:.1f}], "
                f"again {other.median:.1f} us [{other.p20:.1f}, {other.p80:.1f}]"
            )
        del drawn, theirs, contenders, arrays, right

# %% fold="Code of the numbers"
import re

from tilewise.kernel.machine_code import available as can_disassemble
from tilewise.kernel.machine_code import machine_code
from tilewise.measurements import text_record

SHOWN_ON = device(decoded.provenance["device"]) if decoded.provenance else GPU  # whose record is current
GB_PER_S = decoded.provenance["ceilings"]["memory_gb_per_s"] if decoded.provenance else np.nan
CLOCK_MHZ = SHOWN_ON.boost_mhz
BYTES_PER_CYCLE = GB_PER_S * 1e3 / SHOWN_ON.sms / CLOCK_MHZ
KEY_BYTES = cache_bytes(1, 1, 1)


def at_batch_1(cycles):
    """Microseconds for 32,768 keys of 8 heads, spread over all SMs."""
    return cycles * KV_HEADS * 32768 / SHOWN_ON.sms / CLOCK_MHZ


def main_loop(kernel):
    """Of NVIDIA's SASS for an H100: the loop's instructions by name, and the bytes that a warp loads in it."""
    if can_disassemble() is not None:
        return {}, np.nan
    names = [one.name for one in machine_code(kernel).loop()]
    bits = [int(re.search(r"\.(64|128)\b", name)[1]) for name in names if name.startswith("LDG")]
    short = [name.split(".")[0] for name in names]
    return {name: short.count(name) for name in short}, 32 * sum(bits) / 8


def estimate(kernel, blocks):
    """Instructions per key, the time to issue them, and the most bytes in flight on an SM."""
    found, loaded = main_loop(kernel)
    keys = loaded / KEY_BYTES  # that a warp processes in one iteration
    per_key = sum(found.values()) / keys
    return {
        "per_key": per_key,
        "cycles": per_key / 4,
        "issue_us": at_batch_1(per_key / 4),
        "in_flight_kb": blocks * kernel.defines["WARPS"] * loaded / 1024,
        "loop": sum(found.values()) if found else np.nan,
    }


def sectors_per_key(kernel):
    """Sectors that one more key of a group of four heads costs, by the simulator."""
    runs = [in_two(kernel, 4, 1, keys, 1) for keys in (256, 512)]
    few, many = (sum(one.simulate().counts.global_load.sectors for one in launches) for launches in runs)
    return (many - few) / 256


four_times = sectors_per_key(ALONE) == 4 * sectors_per_key(ROWS)
assert four_times, "the text says that four blocks load every key"
PER_WARP, PER_TILE = estimate(ROWS, 3), estimate(TILES, 1)
BYTES_US = at_batch_1(KEY_BYTES / BYTES_PER_CYCLE)
publish(
    rows=PER_WARP,
    tiled=PER_TILE | {"times": PER_WARP["per_key"] / PER_TILE["per_key"]},
    chip={"sms": GPU.sms, "key_cycles": KEY_BYTES / BYTES_PER_CYCLE, "bytes_us": BYTES_US},
)

# %% [markdown]
# ## Decoding against a copy and cuDNN


# %% fold="Code of the figure"
AS_PRINTED = {  # what the batches' cell calls them
    "four queries a block, shares": PER_KEY,  # as recorded
    "fragments": TENSOR,
    "fragments, twice the shares": "tensor cores, twice the splits",
    "fragments, rows not ahead": NO_HINT,
    "fragments, 2 blocks of 6 warps": "tensor cores, 2 blocks of 6 warps",
    "a copy": COPIED,
    **dict(zip(LIBRARIES, (CUDNN, FLASH_2), strict=True)),
}
US = medians_us(decoded, "batch")
KEYS = {1: ALONE_TEXT["N"], 16: 8192, 64: 4096}
ITERATIONS = 32768 / ROWS.defines["WARPS"] / 2  # of a warp without splits, two keys in each
LATENCY_US = at_batch_1(US[ONE_SPLIT, 1] * CLOCK_MHZ / ITERATIONS / (3 * 8 * 2))
for batch, label, first_us in printed_rows(
    "attention/decoding", "batches", r"batch (\d+), \d+ keys, (.+): ([\d.]+) us \["
):
    US[AS_PRINTED[label], int(batch)] = first_us


SHOWN = {PER_KEY: "lane", TENSOR: "tile", NO_HINT: "block", CUDNN: "ink", FLASH_2: "muted"}
BATCHES = text_record("attention/decoding", "batches")
BATCHES_ON = device(BATCHES.provenance["device"]) if BATCHES else GPU
GPU_OF = {1: SHOWN_ON.name, 16: BATCHES_ON.name, 64: BATCHES_ON.name}
OF_COPY = {
    f"batch {batch}, {keys:,} keys ({GPU_OF[batch]})": {
        label: 100 * US[COPIED, batch] / US[label, batch] for label in SHOWN
    }
    for batch, keys in KEYS.items()
}
if complete(*US.values()):
    assert min(rates[NO_HINT] for rates in OF_COPY.values()) > 80, "the title says that it is near a copy"
    assert min(rates[NO_HINT] for rates in list(OF_COPY.values())[1:]) > 93
    show(
        bars(
            OF_COPY,
            x="throughput, % of a copy",
            form=",.0f",
            roles=SHOWN,
            title="Split-KV decoding on tensor cores runs at nearly the speed of a copy",
            caption="Throughput of one decoding step relative to a copy that moves the same number of bytes on the same GPU; 32 query heads, 8 KV heads, BF16. Half of the copy's bytes are writes, so a kernel that mostly reads can exceed 100%.",
        )
    )
if complete(*US.values(), PER_WARP["issue_us"]):
    both_us = PER_WARP["issue_us"] + LATENCY_US
    assert LATENCY_US < US[PER_KEY, 1] < both_us < 1.15 * US[PER_KEY, 1], "the text says: close to the sum"
publish(
    waiting={
        "cycles": US[ONE_SPLIT, 1] * CLOCK_MHZ / ITERATIONS,
        "sum_us": PER_WARP["issue_us"] + LATENCY_US,
    },
    seen={
        "one_1": US[ONE_SPLIT, 1],
        "rows_1": US[PER_KEY, 1],
        "tiles_1": US[TENSOR, 1],
        "cudnn_1": US[CUDNN, 1],
        "copy_1": US[COPIED, 1],
    },
    hook={
        "times": US[ONE_SPLIT, 1] / US[COPIED, 1],
        "gpu": SHOWN_ON.name,
        "batches_gpu": BATCHES_ON.name.split()[0],
    },
    gain={
        "split": US[ONE_SPLIT, 1] / US[PER_KEY, 1],
        "shared_keys": US[ONE_QUERY, 1] / US[PER_KEY, 1],
        "over": US[PER_KEY, 1] / max(PER_WARP["issue_us"], BYTES_US),
    },
    of_copy={f"at_{batch}": US[COPIED, batch] / US[TENSOR, batch] for batch in (1, 64)}
    | {"cudnn_64": US[COPIED, 64] / US[CUDNN, 64]},
)

# %% fold="Code that profiles decoding on a GPU" needs="gpu torch" record="counters"
if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def one_text():
        """Calls at batch 1."""
        calls = Calls()
        for label, made in (
            (ONE_QUERY, in_rows(ALONE)),
            (PER_KEY, in_rows(ROWS)),
            (TENSOR, in_fragments(TILES, 1)),
        ):
            calls.add(label, made(**ALONE_TEXT))
        calls.add_library("cuDNN", torch_attention("CUDNN_ATTENTION"))
        return calls.by_label

    print(table_of(profiled("attention/decoding", "counters", one_text)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import PEAK, printed_profiles, stall_fractions

rows_profile = printed_profiles("attention/decoding", "counters")[PER_KEY]  # recorded on an H200
rows_waits = stall_fractions(rows_profile)
assert not rows_waits or max(rows_waits, key=rows_waits.get) == "long_scoreboard", "the text: waits for loads"
assert not rows_profile[f"smsp__issue_active{PEAK}active"] > 80, "the text: issuing alone isn't the limit"

# %% [markdown]
# Splitting the keys makes the warp-per-key kernel {{ gain.split | .0f }}× faster. Sharing keys within a block matters,
# too: with one query per block, four blocks load every key, and the kernel is {{ gain.shared_keys | .1f }}× slower.
#
# Still, `decode_rows` takes {{ seen.rows_1 | us }}, {{ gain.over | .1f }}× the larger of its two estimates. Latency, a
# third limit, explains the difference. The run with one split per KV head shows the latency almost in isolation,
# because only two warps share a scheduler: a warp takes {{ waiting.cycles | ,.0f }} cycles to issue the
# {{ rows.loop | .0f }} instructions for two keys, so it mostly waits for loads. If waiting and issuing never
# overlapped, the two together would take {{ waiting.sum_us | us }} with 49 splits, only slightly more than measured.
# `decode_tiles` loads the next 16 keys before it uses the current ones, so an SM has up to
# {{ tiled.in_flight_kb | .0f }} KB in flight.
#
# On tensor cores, the step takes {{ seen.tiles_1 | us }} and so reaches {{ of_copy.at_1 | .0% }} of the copy's
# throughput; cuDNN takes {{ seen.cudnn_1 | us }}. With large batches, start-up and the final combination take a smaller
# fraction of the time: at batch 64 on an {{ hook.batches_gpu }}, `decode_tiles` reaches {{ of_copy.at_64 | .0% }} of
# the copy's throughput and cuDNN {{ of_copy.cudnn_64 | .0% }}. Compared with FP64, the largest error is
# {{ errors.most | .2g }}, the same as cuDNN's:

# %% fold="Code that compares errors on a GPU" needs="gpu" record="errors"
if gpu_here():
    import cupy

    for name, stretch, keys in (
        ("normal numbers", 1, 4096),
        ("4,001 keys", 1, 4001),
        ("queries thirty times as large", 30, 4096),
    ):
        generator = cupy.random.default_rng(keys + stretch)
        made = {
            "q": stretch * generator.standard_normal((2 * HEADS, 128), dtype=cupy.float32),
            "K": generator.standard_normal((2 * KV_HEADS, keys, 128), dtype=cupy.float32),
            "V": generator.standard_normal((2 * KV_HEADS, keys, 128), dtype=cupy.float32),
        }
        launch = TILES.on(decoding(TILES, 2 * HEADS, 2 * KV_HEADS, keys, 8))
        arrays = {one: cupy.asarray(value) for one, value in launch.case.make().items() if np.ndim(value)}
        arrays |= {one: bf16.bits(value) for one, value in made.items()}
        given = {**launch.case.values, **arrays}
        values = (given[one.name] for one in launch.kernel.parameters)
        launch.kernel(*values, grid=launch.grid, block=launch.block)
        theirs = bf16.values(torch_attention("CUDNN_ATTENTION")(arrays)()["out"])
        q, K, V = (bf16.values(arrays[one]).astype(cupy.float64) for one in "qKV")
        exact = cupy.asarray(attended(q, K, V, 128**-0.5)["out"])
        own_off, their_off = (
            float(abs(one.astype(cupy.float64) - exact).max()) for one in (bf16.values(arrays["out"]), theirs)
        )
        print(f"{name}: off by {own_off:.3g}, cuDNN by {their_off:.3g}")

# %% fold="Code of the numbers"
ERRORS = printed_errors("attention/decoding", "cuDNN")
assert f"{ERRORS['most']:.1e}" == f"{ERRORS['other']:.1e}", "the text says that both errors are the same"
publish(errors=ERRORS)

# %% [markdown]
# ## Takeaways
#
# - A decoding step reads the whole KV cache. Its arithmetic intensity is the number of query heads per KV head, so memory
#   bandwidth is the limit.
# - With one query, parallelism comes from the keys. Each split stores a mean and its log-sum-exp, and combining them
#   adds no approximation.
# - A sum doesn't depend on the order of its terms. So 16-byte loads from global memory can fill MMA fragments
#   directly, without going through shared memory.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, a `launch__waves_per_multiprocessor` value well below 1 means that a decoding kernel needs more
# splits. If the grid fills the GPU and `dram__throughput.avg.pct_of_peak_sustained_elapsed` is still low, count
# instructions per key (`smsp__inst_executed.sum`) and bytes in flight before you tune anything else. A decoding step is
# a long series of short kernels: capture them in a [CUDA graph](../speed/launches.py), or launch overhead eats the gain.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "Sequences of different lengths",
    """
    In a batch, sequences have different lengths: each cache has room for `N` keys, of which only the first
    `lengths[sequence]` are valid. The rows of `q` are the `heads` query heads of sequence 0, then those of sequence 1,
    and so on. KV heads are ordered the same way, and each group of `sharing` adjacent query heads shares one. Which KV
    head, counted over all sequences, does row r use, and how many keys does it visit?
    """,
    hint="Row r is query head r, counted over all sequences.",
    explanation="KV head `r / sharing`, since `heads` is a multiple of `sharing` and no group crosses a sequence. It visits `lengths[r / heads]` keys; with a bound of N, it would read what isn't valid yet.",
)

# %% [markdown]
# The kernels here need one contiguous cache per KV head; servers often store the cache in pages
# ([PagedAttention](https://arxiv.org/abs/2309.06180)), which the function `kernels.attention_decode` reads too.
