# ---
# title: One query, all keys
# needs: [matmul/matrix_units, memory/reductions, attention/flash_forward]
# summary: "A model that writes has one new query for each head and must read every key it ever made. How near to the rate of a copy?"
# description: "Decoding with grouped queries: the bytes of the cache, keys split over blocks, fragments straight from memory, the last block combines."
# date: 2026-11-21
# tags: [decoding, grouped queries, KV cache, attention]
# ---

# %% [markdown]
# A model with {{ model.heads }} heads of 128 has written {{ model.keys | , }} tokens and is to write the
# next one. Each head has a single query, and it meets all {{ model.keys | , }} keys. In one layer that is
# {{ model.mb | .0f }} MB to read for {{ model.mflop | .0f }} million operations. A copy that moves as many
# bytes takes {{ seen.copy_1 | us }}. How near to that does attention come, when the queries are too few
# to give every SM one?

# %% [markdown]
# ## What is read
#
# A model writes one token after another, and each decoding step needs the keys and values of all before.
# They do not change, so they are kept: the KV cache. A step then computes one new query, key and value
# a head, and attention has one row. Nothing is left of the tiles that made attention fast: a key meets
# one query and is not needed again until the next token.
#
# ??? definition "Decoding step | decoding steps"
#     One step of a language model that writes token by token; it has one query for each head.
#
# ??? definition "KV cache"
#     The keys and values of all tokens so far, kept so that no step computes them again.

# %% [markdown]
# So models began to share. With grouped queries several heads have their own queries and one set of
# keys and values between them.[^grouped] Here four heads share, as in many models of today: {{ model.kv }}
# heads of keys for {{ model.heads }} of queries. The cache is a quarter as large, and each key that is
# read meets four queries. Two products of 2 × 128 operations for each query, 2 × 256 bytes in BF16: the
# intensity is {{ model.intensity | .0f }} FLOP a byte, the size of the group. An H100 wants
# {{ model.ridge | .0f }} for its matrix units. Decoding is a way of reading memory.
#
# [^grouped]: With one set of keys for all heads it is called multi-query attention; a set for each head
#     is the attention of the lessons before.
#
# ??? definition "Grouped queries"
#     Several heads of queries that share one head of keys and values.

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
    recorded,
    recorded_device,
)
from tilewise.models import device

GPU = recorded_device()
H100 = device("H100 SXM")  # an H200 has as many SMs
GB_PER_S = recorded("reads.ceilings.memory_gb_per_s")
HEADS, KV_HEADS, D = 32, 8, 128


def cache_bytes(batch, N, kv_heads=KV_HEADS):
    """Keys and values of one layer in BF16."""
    return 2 * 2 * batch * kv_heads * N * D


def reading(key_heads, tokens, batch, layers):
    """Size of a whole model's cache, and how long one step has to read it."""
    size = layers * cache_bytes(batch, tokens, key_heads)
    fits = size < GPU.memory_gb * 1e9
    return Answer(
        [size / 1e9, size / GPU.memory_gb_per_s / 1e6],
        f"{HEADS / key_heads:.0f} FLOP a byte. "
        + ("It fits into the memory of one such GPU." if fits else "More than one such GPU has."),
    )


show(
    calculator(
        [
            Slider("key heads", [1, 2, 4, 8, 16, 32], 8),
            Slider("tokens", [1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], 32768),
            Slider("batch", [1, 2, 4, 8, 16, 32, 64], 1),
            Slider("layers", [1, 16, 32, 64], 32),
        ],
        reading,
        meters=[
            Meter("cache [GB]", 80, "", "global", ",.1f"),
            Meter("read in [ms]", 25, "", "predicted", ",.2f"),
        ],
        title="The cache grows with every token, and each token reads all of it",
        caption="A model of 32 heads of 128 in BF16: the size of its KV cache and the time that one step needs to read it at the peak bandwidth of an {machine} (data sheet). A model; the weights, which a step reads too, are left out.",
    )
)
publish(
    model={
        "heads": HEADS,
        "kv": KV_HEADS,
        "keys": 32768,
        "mb": cache_bytes(1, 32768) / 1e6,
        "mflop": 4 * HEADS * D * 32768 / 1e6,
        "intensity": 4 * HEADS * D / cache_bytes(1, 1),
        "ridge": GPU.peak_tflop_per_s["bf16_matrix"] / GB_PER_S * 1e3,
    }
)

# %% [markdown]
# ## A warp, a key
#
# The first kernel does what comes to mind. A block has a share of the keys, its warps take one key after
# another, and a lane has four of the 128 numbers. The sum over lanes is the logit; maximum, sum and
# weighted row follow as in flash attention. A key meets `GROUP` queries, four or one, while it is in
# registers. At the end the warps' results are put together in shared memory.

# %% [markdown]
# What a share of the keys leaves is its mean and its log-sum-exp $L$, as in the lesson on flash
# attention; here $L$ is in powers of two, the exponential that the hardware has. Eight heads of keys are
# too few blocks for {{ chip.sms }} SMs, and one query cannot be split, so what is split is the keys. A
# second launch combines the shares with weights $2^L$.


# %% tab="Pseudocode"
from tilewise import parallel, tiles

LOG2_E = np.log2(np.e)


def decode_rows(q, K, V, part, L, share, sharing, scale):
    for head in parallel(len(q)):
        keys, values = K[head // sharing], V[head // sharing]
        for w, own in enumerate(tiles(len(keys), share)):
            # [share
            s = keys[own] @ q[head] * (scale * LOG2_E)
            p = 2.0 ** (s - max(s))
            part[w, head] = p @ values[own] / sum(p)
            L[w, head] = max(s) + np.log2(sum(p))
            # share]


def combine_shares(part, L, out):
    for head in parallel(len(out)):
        # [together
        weight = 2.0 ** (L[:, head] - max(L[:, head]))
        out[head] = weight @ part[:, head] / sum(weight)
        # together]


# %% tab="CUDA C"
from tilewise import Kernel

DECODE_ROWS = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

static __device__ float power(float x) {  // of two
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// four numbers of a row, as 32-bit floats
static __device__ float4 wide(const Bf16* from) {
    uint2 v = *(const uint2*)from;
    return make_float4(__uint_as_float(v.x << 16),
                       __uint_as_float(v.x & 0xFFFF0000u),
                       __uint_as_float(v.y << 16),
                       __uint_as_float(v.y & 0xFFFF0000u));
}
extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
decode_rows(const Bf16* q, const Bf16* K, const Bf16* V, float* part, float* L,
            int N, int share, int sharing, float scale) {
    __shared__ float parts[WARPS][GROUP][128];
    __shared__ float tops[WARPS][GROUP], sums[WARPS][GROUP];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int head = blockIdx.y * GROUP, heads = gridDim.y * GROUP;
    size_t from = (size_t)(head / sharing) * N * 128 + 4 * lane;
    int end = min(N, (int)(blockIdx.x + 1) * share);
    float bits = scale * 1.44269504f;
    float4 a[GROUP], o[GROUP] = {};
    float m[GROUP], z[GROUP] = {};
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        a[g] = wide(&q[(head + g) * 128 + 4 * lane]);
        m[g] = -1e30f;  // finite, so that a difference of two is a number
    }
    // [share
    #pragma unroll 2
    for (int j = blockIdx.x * share + warp; j < end; j += WARPS) {
        float4 k = wide(&K[from + (size_t)j * 128]);
        float4 v = wide(&V[from + (size_t)j * 128]);
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            float s = a[g].x * k.x + a[g].y * k.y
                    + a[g].z * k.z + a[g].w * k.w;
            for (int hop = 16; hop > 0; hop /= 2)
                s += __shfl_xor_sync(~0u, s, hop);
            float top = fmaxf(m[g], s * bits);
            float f = power(m[g] - top), p = power(s * bits - top);
            m[g] = top;
            z[g] = z[g] * f + p;
            o[g].x = o[g].x * f + p * v.x;
            o[g].y = o[g].y * f + p * v.y;
            o[g].z = o[g].z * f + p * v.z;
            o[g].w = o[g].w * f + p * v.w;
        }
    }
    // share]
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        *(float4*)&parts[warp][g][4 * lane] = o[g];
        tops[warp][g] = m[g];
        sums[warp][g] = z[g];
    }
    __syncthreads();  // every warp's result is there
    for (int e = threadIdx.x; e < GROUP * 128; e += 32 * WARPS) {
        int g = e / 128, at = blockIdx.x * heads + head + g;
        float top = -1e30f, sum = 0.0f, x = 0.0f;
        for (int w = 0; w < WARPS; ++w) top = fmaxf(top, tops[w][g]);
        for (int w = 0; w < WARPS; ++w) {
            float f = power(tops[w][g] - top);
            sum += f * sums[w][g];
            x += f * parts[w][g][e % 128];
        }
        part[at * 128 + e % 128] = sum > 0.0f ? x / sum : 0.0f;
        if (e % 128 == 0) L[at] = top + log2f(sum);
    }
}
extern "C" __global__
void combine_shares(const float* part, const float* L, Bf16* out,
                    int heads, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, head = at / 128;
    if (head >= heads) return;
    // [together
    float top = -1e30f, sum = 0.0f, x = 0.0f;
    for (int w = 0; w < shares; ++w) top = fmaxf(top, L[w * heads + head]);
    for (int w = 0; w < shares; ++w) {
        float weight = power(L[w * heads + head] - top);
        sum += weight;
        x += weight * part[w * heads * 128 + at];
    }
    out[at] = __float2bfloat16(sum > 0.0f ? x / sum : 0.0f);
    // together]
}
"""


def rows_kernel(group, warps=8):
    return Kernel(DECODE_ROWS, "decode_rows", defines={"GROUP": group, "WARPS": warps})


ROWS = rows_kernel(4)
COMBINE = ROWS.named("combine_shares")

# %% fold="Code of the checks"
from tilewise import Trace, agree, bf16, case, ceil_div, check, expect_hazard, gpu_here, output, uniform


def spread(*shape, most=2.0):
    """BF16 numbers whose products make logits of all sizes."""
    return uniform(*shape, low=-most, high=most, dtype="bfloat16")


def decoding(kernel, heads, kv_heads, keys, shares, **more):
    """One new query for each head, the cache, and a launch of a kernel with so many shares of the keys."""
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
    "shares that do not divide": (8, 2, 77, 3),
    "one share": (4, 1, 21, 1),
    "a tile a share": (4, 1, 40, 40),
}
for kernel in (ROWS, ALONE):
    agree(decode_rows, kernel, [decoding(kernel, *sizes) for sizes in SIZES.values()], rtol=1e-4, atol=1e-5)
    runs = [run_chain(in_two(kernel, *sizes)) for sizes in SIZES.values()]
    ragged = with_an_empty_split(kernel)
    combine = kernel.named("combine_shares").on(ragged, grid=2, block=256)
    runs.append(run_chain([kernel.on(ragged), combine]))
    sizes = ", ".join([*SIZES, "an empty split"])
    against_64_bits(runs, f"{sizes}; {kernel.defines['GROUP']} heads to a block")


def some_parts(shares, heads, stretch):
    """Parts whose log-sum-exps lie near each other or far apart."""
    L = (stretch * np.random.default_rng(shares).normal(size=(shares, heads))).astype(np.float32)
    part, out = uniform(shares, heads, 128, low=-1.0), output(heads, 128, dtype="bfloat16")
    grid = ceil_div(heads * 128, 256)
    return case(grid, 256, part=part, L=L, out=out, heads=heads, shares=shares)


agree(combine_shares, COMBINE, [some_parts(3, 5, 1.0), some_parts(7, 3, 3000.0)], rtol=2**-8, atol=1e-6)

# %% [markdown]
# ## What it costs
#
# Per key a warp needs {{ rows.per_key | .0f }} instructions with four queries, most of them in the sum
# over lanes, which takes five shuffles and five additions for each query. An SM can issue four a clock.
# Its share of the memory's rate is {{ chip.bytes_clock | .1f }} bytes a clock, so a key and its value,
# 512 bytes, take {{ chip.key_clocks | .0f }} clocks to come. The instructions take {{ rows.key_clocks | .0f }}.
# With one query to a block the key also comes four times, though from the L2 if the four blocks keep
# together. The work for a key must shrink, and there is a unit for products.

# %% [markdown]
# ## Fragments straight from memory
#
# `mma.sync` wants 16 rows and 8 columns, and a group has four queries: {{ tiled.wasted | .0% }} of what it
# does here is for rows and columns of zeros. That does not matter; instructions do. What matters more is
# the way of the keys. In the lessons on products each number went to shared memory and came out as a
# fragment, because several warps used it. Nobody uses a key twice. Can a lane load from memory just what
# its fragment needs, in pieces of 16 bytes?

# %% [markdown]
# A fragment of a key wants two pairs of neighbours, which is 8 bytes in two places. But the sum over the
# 128 numbers of a row does not depend on their order, if query and key have the same. So a lane takes
# 16 bytes, eight neighbours, and calls them the pairs of two fragments. The same freedom exists for the
# second product, which sums over keys: lane and row can be matched as the loads like it, as long as the
# weights follow. They do by themselves: as they come out of the first product, lane $4r + t$ has those of
# query $r$ for keys $2t$ and $2t + 1$, which is what the other operand of `mma.sync` wants there. Thus the
# second product is made the other way around, $O^T = V^T P^T$: queries are its columns, and eight are as
# many as it has.


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
                # [weights
                top = max(m, *s)
                p = 2.0 ** (s - top)
                m, z, o = top, z * 2.0 ** (m - top) + sum(p), o * 2.0 ** (m - top)
                # weights]
                # [mean
                o = o + p @ v
                # mean]
            if len(part) == 1:
                out[head] = o / z
            else:
                part[w, head], L[w, head] = o / z, m + np.log2(z)
        if len(part) > 1:
            # [together
            weight = 2.0 ** (L[:, head] - max(L[:, head]))
            out[head] = weight @ part[:, head] / sum(weight)
            # together]


# %% tab="CUDA C"
DECODE_TILES = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

struct Found {  // by the warps of a block; and what each share weighs
    float o[WARPS][GROUP][128], m[WARPS][GROUP], z[WARPS][GROUP];
    float weight[GROUP][64];
    bool last;
};
static __device__ unsigned arrived[4096] = {};  // shares of a group of heads
static __device__ float power(float x) {  // of two
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ unsigned pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}
// D += A B for one warp: 16x16 times 16x8, two BF16 to a register
static __device__ void mma(float (&d)[4], unsigned a0, unsigned a1,
                           unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// 16 bytes that nobody reads again: past the L1; the L2 may fetch the row
static __device__ uint4 once(const Bf16* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate" AHEAD
                 ".v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}
static __device__ void add(float4& x, float f, float4 y) {
    x.x += f * y.x;
    x.y += f * y.y;
    x.z += f * y.z;
    x.w += f * y.w;
}
static __device__ void write(Bf16* out, int head, int c, float4 x) {
    *(uint2*)&out[head * 128 + c] = make_uint2(pair(x.x, x.y), pair(x.z, x.w));
}
// What the warps found becomes the block's part; the last block to come
// puts all parts together.
static __device__ void leave(Found& all, float* part, float* L, Bf16* out) {
    int shares = gridDim.x, heads = gridDim.y * GROUP;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if FORGET != 1
    __syncthreads();  // all warps have left what they found
#endif
    for (int e = threadIdx.x; e < GROUP * 32; e += 32 * WARPS) {
        int g = e / 32, c = e % 32 * 4, head = blockIdx.y * GROUP + g;
        float top = all.m[0][g], z = 0.0f;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll
        for (int w = 1; w < WARPS; ++w) top = fmaxf(top, all.m[w][g]);
        #pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            float f = power(all.m[w][g] - top);
            z += f * all.z[w][g];
            add(x, f, *(float4*)&all.o[w][g][c]);
        }
        float over = z > 0.0f ? 1.0f / z : 0.0f;  // a split without keys: zeros
        x = make_float4(x.x * over, x.y * over, x.z * over, x.w * over);
        if (shares == 1) {
            write(out, head, c, x);
            continue;
        }
        int at = blockIdx.x * heads + head;
        *(float4*)&part[at * 128 + c] = x;
        if (c == 0) L[at] = top + __log2f(z);
    }
    if (shares == 1) return;
    // [together
    __threadfence();  // the part is in place before its arrival counts
    __syncthreads();
    if (threadIdx.x == 0)
        all.last = atomicInc(&arrived[blockIdx.y], shares - 1) == shares - 1;
    __syncthreads();
    if (!all.last) return;
    __threadfence();  // and reads what the others wrote, not an old copy
    for (int g = warp; g < GROUP; g += WARPS) {  // a lane weighs two shares
        const float* l = L + blockIdx.y * GROUP + g;
        int other = lane + 32;
        float a = lane < shares ? __ldcg(&l[lane * heads]) : -INFINITY;
        float b = other < shares ? __ldcg(&l[other * heads]) : -INFINITY;
        float top = fmaxf(fmaxf(a, b), -1e30f);  // finite without keys, too
        for (int hop = 16; hop > 0; hop /= 2)
            top = fmaxf(top, __shfl_xor_sync(~0u, top, hop));
        a = power(a - top);
        b = power(b - top);
        float z = a + b;
        for (int hop = 16; hop > 0; hop /= 2)
            z += __shfl_xor_sync(~0u, z, hop);
        all.weight[g][lane] = z > 0.0f ? a / z : 0.0f;
        all.weight[g][other] = z > 0.0f ? b / z : 0.0f;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < GROUP * 32; e += 32 * WARPS) {
        int g = e / 32, c = e % 32 * 4, head = blockIdx.y * GROUP + g;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll 16
        for (int w = 0; w < shares; ++w)
            add(x, all.weight[g][w],
                __ldcg((const float4*)&part[(w * heads + head) * 128 + c]));
        write(out, head, c, x);
    }
    // together]
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)
decode_tiles(const Bf16* q, const Bf16* K, const Bf16* V,
             float* part, float* L, Bf16* out,
             int N, int share, int sharing, float scale) {
    __shared__ __align__(16) Found all;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = lane / 4, t = lane % 4, head = blockIdx.y * GROUP;
    const Bf16* keys = K + (size_t)(head / sharing) * N * 128 + 8 * t;
    const Bf16* values = V + (size_t)(head / sharing) * N * 128 + 8 * row;
    // [bring
    uint4 k[8], v[8];
    auto bring_keys = [&](int j) {  // two rows, four pieces of each
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int r = min(j + i / 4 * 8 + row, N - 1);
            k[i] = once(keys + (size_t)r * 128 + i % 4 * 32);
        }
    };
    auto bring_values = [&](int j) {  // four rows, two pieces of each
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int r = min(j + i % 4 / 2 * 8 + 2 * t + i % 2, N - 1);
            v[i] = once(values + (size_t)r * 128 + i / 4 * 64);
        }
    };
    // bring]
    int j = blockIdx.x * share + 16 * warp;
    int end = min(N, (int)(blockIdx.x + 1) * share);
    if (j < end) {
        bring_keys(j);
        bring_values(j);
    }
    uint4 a[4] = {};  // query `row` in the same pieces as a key
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        if (row < GROUP)
            a[i] = *(const uint4*)&q[(head + row) * 128 + i * 32 + 8 * t];
    float bits = scale * 1.44269504f, m = -1e30f, z = 0.0f, o[8][4] = {};
    for (; j < end; j += 16 * WARPS) {
        int next = j + 16 * WARPS;
        // [scores
        float s[2][4] = {};
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                uint4 b = k[4 * h + i];
                mma(s[h], a[i].x, 0, a[i].y, 0, b.x, b.y);
                mma(s[h], a[i].z, 0, a[i].w, 0, b.z, b.w);
            }
        if (next < end) bring_keys(next);  // while the values are used
        // scores]
        // [weights
        float p[4], top = m;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            bool there = j + i / 2 * 8 + 2 * t + i % 2 < end;
            p[i] = there ? s[i / 2][i % 2] * bits : -1e30f;
            top = fmaxf(top, p[i]);
        }
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        if (__any_sync(~0u, top > m)) {  // seldom, behind the first tiles
            float f = power(m - top);
            float even = __shfl_sync(~0u, f, 8 * t);  // of query 2t
            float odd = __shfl_sync(~0u, f, 8 * t + 4);
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                o[n][0] *= even;
                o[n][1] *= odd;
                o[n][2] *= even;
                o[n][3] *= odd;
            }
            m = top;
            z *= f;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            p[i] = power(p[i] - m);
            z += p[i];
        }
        // weights]
        // [mean
        unsigned near = pair(p[0], p[1]), far = pair(p[2], p[3]);
        #pragma unroll
        for (int n = 0; n < 8; ++n) {  // word n % 4 of four rows' pieces
            unsigned b[4];
            #pragma unroll
            for (int r = 0; r < 4; ++r) b[r] = (&v[n / 4 * 4 + r].x)[n % 4];
            mma(o[n], __byte_perm(b[0], b[1], 0x5410),
                __byte_perm(b[0], b[1], 0x7632),
                __byte_perm(b[2], b[3], 0x5410),
                __byte_perm(b[2], b[3], 0x7632), near, far);
        }
        if (next < end) bring_values(next);
        // mean]
    }
    z += __shfl_xor_sync(~0u, z, 1);
    z += __shfl_xor_sync(~0u, z, 2);
    if (t == 0 && row < GROUP) {
        all.m[warp][row] = m;
        all.z[warp][row] = z;
    }
    #pragma unroll
    for (int h = 0; h < 2; ++h)
        if (2 * t + h < GROUP)
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                float* to = &all.o[warp][2 * t + h][n / 4 * 64 + 8 * row];
                *(float2*)&to[n % 4 * 2] = make_float2(o[n][h], o[n][2 + h]);
            }
    leave(all, part, L, out);
}
"""


def tiles_kernel(group=4, warps=8, blocks=1, forget=0, ahead=".L2::256B"):
    """So many queries share a key; so many warps to a block, and blocks that an SM is to hold."""
    sizes = {"GROUP": group, "WARPS": warps, "BLOCKS": blocks, "AHEAD": f'"{ahead}"'}
    sizes |= {"FORGET": forget} if forget else {}
    return Kernel(DECODE_TILES, defines=sizes, options=("-std=c++17",))


TILES = tiles_kernel()

# %% [markdown]
# The loads first. Then the first product, 16 instructions for 16 keys, eight keys by 16 of the 128 numbers
# in each.

# %%
TILES.region("bring")

# %%
TILES.region("scores")

# %% fold="Code of the checks"
AWKWARD = [(8, 2, 203, 3), (8, 2, 45, 1), (4, 1, 299, 64)]
for kernel in (TILES, tiles_kernel(1, 4), tiles_kernel(2, 4, 3)):
    large = decoding(kernel, 8, 2, 85, 2, q=spread(8, 128, most=1000.0))
    ordinary = [decoding(kernel, *sizes) for sizes in AWKWARD]
    agree(decode_tiles, kernel, [*ordinary, large], rtol=2e-2, atol=1e-2)
    made = [kernel.on(decoding(kernel, *sizes)).run() for sizes in AWKWARD]
    made.append(kernel.on(with_an_empty_split(kernel)).run())
    sizes = "203, 45 and 299 keys; 33 keys with an empty split"
    against_64_bits(made, f"{kernel.defines['GROUP']} heads to a block, {sizes}")
expect_hazard(
    tiles_kernel(forget=1).on(decoding(tiles_kernel(), 4, 1, 130, 1)),
    "race",
    line_with="float top = all.m[0][g]",
)

# %% [markdown]
# The figure shows which lane loads what of the keys, from the trace of one warp with 16 keys. A key or a value has 256 bytes, which are
# 16 pieces, but lanes repeat after eight keys and after eight pieces, so a quarter of the tile tells it all. Four lanes side
# by side read 64 bytes of a key, two sectors; eight read 128 bytes of a value, of which
# a lane loads {{ values.pieces }} pieces in each of {{ values.rows }} rows: those whose weights it has. All sectors that are
# fetched are used, which the counts confirm.

# %% fold="Code of the figure"
ONE_WARP = tiles_kernel(4, 1)
one_warp = ONE_WARP.on(decoding(ONE_WARP, 4, 1, 16, 1))
traced = one_warp.simulate(trace=Trace())
names = list(traced.buffers)


def lane_of(name):
    """For each piece of 16 bytes of an array the lane that loads it."""
    seen = traced.accesses
    mine = (seen.buffer == names.index(name)) & (seen.space == 0)
    lanes = np.full(16 * 16, -1)
    lanes[seen.index[mine] // 8] = seen.lane[mine]
    return lanes.reshape(16, 16)


PIECES = {name: lane_of(name) for name in "KV"}


KEYS_OF_LANES = PIECES["K"][:8, :8]


def of_lane(lane):
    """The state in which the pieces of the keys that a lane loads are marked."""
    rows, pieces = (", ".join(map(str, np.unique(at))) for at in np.nonzero(PIECES["K"] == lane))
    said = f"Of rows {rows} of K lane {lane} loads the pieces {pieces}."
    return State(said, arrays={"K": KEYS_OF_LANES}, reads={"K": lane == KEYS_OF_LANES})


show(
    stepped(
        [of_lane(lane) for lane in range(32)],
        start=5,
        title="Of the keys a lane loads four pieces in each of two rows",
        caption="Eight of a tile's 16 keys down, eight of the 16 pieces of a key across: in each cell stands the lane that loads these 16 bytes, from the simulator's trace of one warp. The other three quarters look the same. The slider goes through the lanes.",
    )
)
rows, pieces = np.nonzero(PIECES["V"] == 5)
publish(values={"rows": len(set(rows)), "pieces": len(rows) // len(set(rows))})

# %% [markdown]
# ## The last block combines
#
# A second launch reads the parts, which is little work, but it has to begin. So the blocks do as those of
# the fast sum did: each leaves its part, counts itself in, and the last of a group of heads goes on. To
# combine as many as 64 shares, a warp takes a query, a lane two shares. All of their $L$ come with one
# latency; after maximum and sum over lanes the parts come with a second one.

# %%
TILES.region("together")

# %% [markdown]
# ## Predict

# %% fold="Code of the prediction"
from tilewise import Table

CLOCK_MHZ = GPU.boost_mhz
BYTES_A_CLOCK = GB_PER_S * 1e3 / GPU.sms / CLOCK_MHZ


KEY_BYTES = cache_bytes(1, 1, 1)


def at_batch_1(clocks):
    """Microseconds for 32,768 keys of 8 heads, spread over all SMs."""
    return clocks * KV_HEADS * 32768 / GPU.sms / CLOCK_MHZ


def per_key(kernel, launches):
    """Instructions of warps and sectors for each key of a group of four heads: by difference."""
    found = []
    for keys in (256, 512):
        instructions = sectors = 0
        for launch in launches(kernel, 4, 1, keys, 1):
            counts = launch.simulate().counts
            instructions += counts.issued
            sectors += counts.global_load.sectors
        found.append((instructions, sectors))
    return tuple((after - before) / 256 for before, after in zip(*found, strict=True))


def in_one(kernel, *sizes):
    return [kernel.on(decoding(kernel, *sizes))]


WAYS = {
    "a warp a key, one query": per_key(ALONE, in_two),
    "a warp a key, four queries": per_key(ROWS, in_two),
    "fragments from memory": per_key(TILES, in_one),
}


def key_clocks(way):
    """Clocks of an SM for a key by bytes from memory and by instructions."""
    return KEY_BYTES / BYTES_A_CLOCK, WAYS[way][0] / 4


show(
    Table(
        ["way", "instructions a key", "sectors a key", "by instructions, µs", "by bytes, µs"],
        [
            [
                way,
                round(WAYS[way][0]),
                round(WAYS[way][1]),
                *(at_batch_1(one) for one in key_clocks(way)[::-1]),
            ]
            for way in WAYS
        ],
        caption="One key for its four queries: instructions of warps and sectors as the simulator counts them, and what all 32,768 keys of 8 heads take on 132 SMs by either limit, at four instructions a clock and the rate of the fastest probe of memory. Instructions are those of PTX.",
    )
)
publish(
    rows={
        "per_key": WAYS["a warp a key, four queries"][0],
        "issue_us": at_batch_1(WAYS["a warp a key, four queries"][0] / 4),
        "key_clocks": key_clocks("a warp a key, four queries")[1],
        "alone_us": at_batch_1(WAYS["a warp a key, one query"][0] / 4),
    },
    tiled={
        "per_key": WAYS["fragments from memory"][0],
        "issue_us": at_batch_1(WAYS["fragments from memory"][0] / 4),
        "times": WAYS["a warp a key, four queries"][0] / WAYS["fragments from memory"][0],
        "in_flight_kb": 8 * 32 * 16 * 16 / 1024,
        "wasted": 1 - (16 * 4 / 16 + 8 * 4 / 8) / (16 + 8),  # for 16 keys: 16 and 8 instructions
    },
    chip={
        "sms": GPU.sms,
        "bytes_clock": BYTES_A_CLOCK,
        "key_clocks": KEY_BYTES / BYTES_A_CLOCK,
        "bytes_us": at_batch_1(KEY_BYTES / BYTES_A_CLOCK),
        "eight_us": at_batch_1(WAYS["a warp a key, four queries"][0] / 4) * GPU.sms / KV_HEADS,
    },
)

# %% [markdown]
# For 32,768 keys at batch 1 the bytes take {{ chip.bytes_us | us }}. The instructions of a warp a key take
# {{ rows.issue_us | us }} with four queries in a block and {{ rows.alone_us | us }} with one, and those of
# the fragments {{ tiled.issue_us | us }}, because {{ tiled.per_key | .0f }} are enough for a key. Both run
# at the same time, so the rows should be slower than memory and the fragments not. Without shares eight
# blocks work, and their instructions take {{ chip.eight_us | us }}.

# %% [markdown]
# With 8 warps an SM has up to {{ tiled.in_flight_kb | .0f }} KB on their way, more than a latency of any
# kind needs. A row is 256 bytes and wanted whole, so the loads also tell the L2 to fetch 256 bytes at a
# time; a variant does not. What no limit contains is the beginning, before the first bytes come, and the
# end, when the last block combines. Large batches hide both.

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
decoded = measure(
    "decoding",
    variants={
        "a warp a key, one share": one_share,
        "one query a block, shares": in_rows(ALONE),
        "four queries a block, shares": in_rows(ROWS),
        "fragments": in_fragments(TILES, 1),
        "fragments, twice the shares": in_fragments(TILES, 1, 2),
        "fragments, rows not ahead": in_fragments(tiles_kernel(ahead=""), 1),
        "fragments, 2 blocks of 6 warps": in_fragments(tiles_kernel(4, 6, 2), 2),
        "fragments, 3 blocks of 4 warps": in_fragments(tiles_kernel(4, 4, 3), 3),
        "a copy": copy,
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
    reasons={"*": "What it takes"},
    fold="All 11 rows",
    guess=Guess(
        "Batch 1, 32,768 keys: how many times as fast as one share are the fragments?",
        of="fragments",
        over="a warp a key, one share",
        at={"batch": 1, "N": 32768},
        between=(1.0, 200.0),
        models={
            "SMs with a block": 128 / 8,
            "bytes and operations are the same": 1.0,
        },
        because="Eight blocks cannot ask for enough bytes; 128 can, and then the bytes decide, not the instructions.",
    ),
)

# %% [markdown]
# Batches are timed in the next cell, in the same way but with numbers that are drawn on the GPU, for a cache
# of a gigabyte takes a host long to fill. It goes over all versions twice.

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

# %% [markdown]
# ## What it takes


# %% fold="Code of the figure"
PRINTED = dict(zip(LIBRARIES, (CUDNN, FLASH_2), strict=True))  # what the batches' cell calls them
US = medians_us(decoded, "batch")
KEYS = {1: ALONE_TEXT["N"], 16: 8192, 64: 4096}
AGAIN = []  # how far the second pass over a batch is from the first
for batch, label, first_us, again_us in printed_rows(
    "attention/decoding", "batches", r"batch (\d+), \d+ keys, (.+): ([\d.]+) us .+, again ([\d.]+) us"
):
    US[PRINTED.get(label, label), int(batch)] = first_us
    AGAIN.append(abs(again_us / first_us - 1))


def gb_per_s(label, batch):
    return cache_bytes(batch, KEYS[batch]) / US[label, batch] / 1e3


SHOWN = ["four queries a block, shares", "fragments", CUDNN, FLASH_2, "a copy"]
REACHED = {
    f"batch {batch}, {keys:,} keys": {label: gb_per_s(label, batch) for label in SHOWN}
    for batch, keys in KEYS.items()
}
if complete(*US.values()):
    assert min(rates["fragments"] / rates["a copy"] for rates in list(REACHED.values())[1:]) > 0.9, (
        "the title says that fragments come near the copy's rate in large batches"
    )
    show(
        bars(
            REACHED,
            x="GB/s of the cache",
            form=",.0f",
            roles={
                "four queries a block, shares": "lane",
                "fragments": "tile",
                CUDNN: "ink",
                FLASH_2: "muted",
                "a copy": "global",
            },
            title="Fragments straight from memory come near the copy's rate in large batches",
            caption="Bytes of keys and values over the time of one step on an {machine}; 32 heads, 8 heads of keys, BF16. The copy moves as many bytes, half of them written.",
        )
    )
NAMES = {
    "one": "a warp a key, one share",
    "alone": "one query a block, shares",
    "rows": "four queries a block, shares",
    "tiles": "fragments",
    "cudnn": CUDNN,
    "flash": FLASH_2,
    "copy": "a copy",
}
publish(
    seen={f"{name}_{batch}": US[label, batch] for batch in KEYS for name, label in NAMES.items()},
    of_copy={f"at_{batch}": US["a copy", batch] / US["fragments", batch] for batch in KEYS},
    reached={
        "tiles": gb_per_s("fragments", 1),
        "over_us": US["fragments", 1] - at_batch_1(KEY_BYTES / BYTES_A_CLOCK),
        "rows_times": US["four queries a block, shares", 1]
        / at_batch_1(WAYS["a warp a key, four queries"][0] / 4),
        "alone_times": US["one query a block, shares", 1]
        / at_batch_1(WAYS["a warp a key, one query"][0] / 4),
        "cudnn_16": US[CUDNN, 16] / US["fragments", 16],
        "cudnn_64": US[CUDNN, 64] / US["fragments", 64],
        "not_ahead": US["fragments, rows not ahead", 16] / US["fragments", 16],
        "again": max(AGAIN, default=np.nan),
    },
)

# %% [markdown]
# At batch 1 the fragments take {{ seen.tiles_1 | us }}, which is {{ reached.tiles | ,.0f }} GB/s, cuDNN
# {{ seen.cudnn_1 | us }}, and the copy {{ seen.copy_1 | us }}. Over what the bytes need
# {{ reached.over_us | us }} are left for beginning and end. At batch 16 they take {{ seen.tiles_16 | us }},
# {{ of_copy.at_16 | .1% }} of the copy's rate, at batch 64 {{ seen.tiles_64 | us }},
# {{ of_copy.at_64 | .1% }}; cuDNN takes {{ reached.cudnn_16 | .2f }} times as long at batch 16 and
# {{ reached.cudnn_64 | .2f }} times at 64. Where
# the L2 is not told of whole rows, batch 16 takes {{ reached.not_ahead | .2f }} times as long. The two passes over the
# batches differ by {{ reached.again | .1% }} at most.

# %% [markdown]
# The rows in shares take {{ seen.rows_1 | us }}, {{ reached.rows_times | .2f }} times what their instructions
# need, and with one query to a block {{ seen.alone_1 | us }}, {{ reached.alone_times | .1f }} times. One
# share for each head takes {{ seen.one_1 | us }} where its instructions need {{ chip.eight_us | us }}. A
# count of instructions does not contain what a warp waits for between a load and its sum over lanes, and
# with 8 warps on an SM little else runs meanwhile. Whether one query a block also fetches keys more than
# once from memory is not shown here.

# %% [markdown]
# How exact is it? The next cell ran on an H100 and compares with 64-bit floats the largest error of the
# fragments and of cuDNN, with keys that no tile divides and with large logits.

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
publish(errors=printed_errors("attention/decoding", "cuDNN"))

# %% [markdown]
# The largest error is {{ errors.most | .1e }}, and the worst ratio of ours to cuDNN's is
# {{ errors.worst_times | .1f }}.

# %% [markdown]
# ## The answer
#
# The copy of {{ model.mb | .0f }} MB takes {{ seen.copy_1 | us }}, and one step of attention
# over {{ model.keys | , }} keys {{ seen.tiles_1 | us }}, {{ of_copy.at_1 | .0% }} of its rate; large batches
# come to {{ of_copy.at_16 | .0% }} and more. What brings it there is not a tile. It is to ask
# for the bytes from every SM, to fetch each of them once for all queries that want it, and to spend so
# few instructions on a key that nothing but memory is waited for.

# %% [markdown]
# ## Takeaways
#
# - A decoding step reads the whole KV cache for a few operations a byte: the intensity is the number of
#   query heads that share a head of keys.
# - With one query there is nothing to split but the keys; each share leaves a mean and its log-sum-exp.
# - Loads of 16 bytes can be fragments as they come, because neither product minds the order of what it
#   sums over; keys and values then never see shared memory.
# - Most of what the matrix units do here is thrown away, and it still takes {{ tiled.times | .0f }} times
#   fewer instructions than sums over lanes.
# - The last block of a head can combine all shares, with two latencies in place of a launch.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

RAGGED = r"""
extern "C" __global__
void ragged(const float* q, const float* K, const float* V, const int* lengths,
            float* out, int rows, int heads, int sharing, int N, int d, float scale) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* k = K + (OWNER) * N * d;
    const float* v = V + (OWNER) * N * d;
    float m = -INFINITY, z = 0.0f, o[8] = {};
    for (int j = 0; j < LENGTH; ++j) {
        float s = 0.0f;
        for (int c = 0; c < d; ++c) s += q[row * d + c] * k[j * d + c];
        float top = fmaxf(m, s * scale), f = expf(m - top), p = expf(s * scale - top);
        m = top;
        z = z * f + p;
        for (int c = 0; c < 8 && c < d; ++c) o[c] = o[c] * f + p * v[j * d + c];
    }
    for (int c = 0; c < 8 && c < d; ++c) out[row * d + c] = o[c] / z;
}
"""
RIGHT = Kernel(RAGGED, defines={"OWNER": "row / sharing", "LENGTH": "lengths[row / heads]"})
IN_TURN = Kernel(RAGGED, defines={"OWNER": "row % (rows / sharing)", "LENGTH": "lengths[row / heads]"})
FULL = Kernel(RAGGED, defines={"OWNER": "row / sharing", "LENGTH": "N"})
BY_GROUP = Kernel(RAGGED, defines={"OWNER": "row / sharing", "LENGTH": "lengths[row / sharing / heads]"})


def ragged_tests(kernel):
    random = np.random.default_rng(7)
    for texts, heads, sharing, N, d in ((3, 4, 2, 9, 8), (2, 6, 3, 13, 5), (4, 2, 1, 6, 4)):
        rows, kv = texts * heads, texts * heads // sharing
        q = random.normal(size=(rows, d)).astype(np.float32)
        K, V = random.normal(size=(2, kv, N, d)).astype(np.float32)
        lengths = random.permutation(np.arange(N - texts + 1, N + 1)).astype(np.int32)
        out = np.full_like(q, np.nan)
        kernel.simulate(q, K, V, lengths, out, rows, heads, sharing, N, d, d**-0.5, grid=1, block=64)
        for row in range(rows):
            n, group = lengths[row // heads], row // sharing
            p = np.exp(K[group, :n] @ q[row].astype(float) * d**-0.5)
            where = f"{texts} texts, {heads} heads, {sharing} to a head of keys: row {row}"
            assert np.allclose(out[row], p @ V[group, :n] / p.sum(), rtol=0, atol=1e-5), where


exercise(
    "Texts of different lengths",
    """
    A batch holds texts that are not equally long. Their caches have room for `N` keys each, of which only the
    first `lengths[text]` count. A row of `q` is a head of a text: the heads of text 0 come first, then those of
    text 1. Heads of keys lie in the same order, and `sharing` neighbouring heads share one. Write OWNER, the head
    of keys of a row, and LENGTH, how many keys it has. The tests compare three batches with 64-bit floats.
    """,
    answer=RIGHT,
    tests=ragged_tests,
    wrong=[IN_TURN, FULL, BY_GROUP],
    hint="Counted over all texts, row r is head r of queries. Which head of keys is that, and which text?",
)
