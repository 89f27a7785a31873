# ---
# title: Attention on the Hopper machine
# needs: [matmul/hopper, attention/matrix_units]
# summary: "Exponentials come from a unit that matrix units wait for. How much of their rate is left for attention, and can one consumer's exponentials hide behind another's products?"
# description: "Kernel 8: flash attention with TMA and wgmma, two consumers that take turns, softmax beside a product, balanced lists of tiles; beside cuDNN."
# date: 2026-11-21
# tags: [attention, Hopper, wgmma, TMA, flash attention]
# ---

# %% [markdown]
# With $d$ = 128, the matrix units of an SM need {{ clocks.products_128 | , }} clocks for both products
# of 64 queries and 128 keys. The exponentials of the same tile need {{ clocks.exp | , }} clocks of
# another unit, and with $d$ = 64 both need equally long. A kernel that does one after the other keeps
# the matrix units busy for {{ clocks.alone_128 | .0% }} of its time at best. What does it take to hide one
# behind the other, and does the result reach the library's time?

# %% [markdown]
# ## Two units, one row of weights
#
# Kernel 6 kept logits and weights on chip and did its products with ordinary multiply-adds. The
# products now go to `wgmma`, which does 64 × 128 sums for 16 of $d$ at a time. Everything between the
# products stays where it was, in 32-bit floats: maxima, exponentials, sums, rescaling.
#
# $$s_{ij} = \tfrac{1}{\sqrt d}\,q_i \cdot k_j \qquad p_{ij} = 2^{(s_{ij} - m_i)\log_2 e}$$
#
# The scale and $\log_2 e$ become one factor, so a weight costs one multiply-add and one `ex2`, of which
# an SM starts sixteen in a clock.[^ex2]
#
# [^ex2]: CUDA C++ Programming Guide, throughput of native arithmetic instructions, compute capability 9.0.

# %% fold="Code of the numbers"
import heapq

import numpy as np

from tilewise import Kernel, Table, agree, case, ceil_div, gpu_here, normal, parallel, publish, show, tiles
from tilewise.figures import Series, Span, State, line_chart, stepped, timeline
from tilewise.kernel.edits import edited
from tilewise.kernel.nvrtc import available, compile_kernel
from tilewise.measurements import complete, printed_rows, rates, recorded, recorded_device, text_record
from tilewise.measurements.attention import DIFFICULT, check_difficult
from tilewise.models import device

GPU = recorded_device()
H100 = device("H100 SXM")  # an H200 has as many SMs
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]
EXPONENTIALS = 16  # a clock and SM
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]


def clocks_of(d):
    """Clocks of an SM for 64 queries and 128 keys: one product, the exponentials, all of softmax."""
    product = 2 * 64 * 128 * d // A_CLOCK
    exponentials = 64 * 128 // EXPONENTIALS
    rest = 64 + 32 + d // 2  # instructions of a warp: maxima before; conversions and rescaling after
    return product, exponentials, exponentials + rest


show(
    Table(
        ["d", "both products", "exponentials", "all of softmax", "one after the other: busy"],
        [
            [d, 2 * product, exponentials, softmax, f"{2 * product / (2 * product + softmax):.0%}"]
            for d, (product, exponentials, softmax) in ((d, clocks_of(d)) for d in (64, 128))
        ],
        caption="Clocks of an SM for a tile of 64 queries and 128 keys, reckoned from the rates of its units, and the share of the time for which the matrix units are busy if the steps follow each other. In softmax as a whole, a warp's maxima come before its exponentials, and conversions and rescaling after them.",
    )
)
publish(
    clocks={
        "products_128": 2 * clocks_of(128)[0],
        "exp": clocks_of(64)[1],
        "softmax_128": clocks_of(128)[2],
        "alone_128": 2 * clocks_of(128)[0] / (2 * clocks_of(128)[0] + clocks_of(128)[2]),
    }
)

# %% [markdown]
# ## Weights never leave the registers
#
# The first kernel has the parts of the last lesson on Hopper: a producer that brings tiles of keys
# and of values into a ring of two, and a consumer. $Q K^T$ takes both operands from shared memory. Its
# sums lie in the consumer's registers, and that is where softmax wants them: a lane has two rows, four
# lanes share a row. The second product takes its left operand from registers, in the very layout in
# which the first leaves its sums, two neighbours to a register once they are rounded to BF16. So
# logits become weights in place.

# %% [markdown]
# Both kernels of this page begin with the same helpers: barriers, copies and `wgmma` as before, then
# mask, softmax and rescaling for the registers of one lane.


# %% fold="What both kernels begin with"
OPTIONS = ("-std=c++17", "-arch=sm_90a")
SHARED = r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;
struct __align__(128) TensorMap { u64 opaque[16]; };
#define KEYS 128                      // of a key tile
#define BOXES (D / 64)                // boxes of 64 columns
#define Q_BYTES (64 * D * 2)          // the queries of a consumer
#define TILE_BYTES (KEYS * D * 2)     // a tile of keys, or of values

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
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
static __device__ void wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}
// a box of 64 columns of some rows of one head
static __device__ void load(void* to, const TensorMap* map, int column, int row,
                            int head, u64* bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(column), "r"(row),
                    "r"(head) : "memory");
}
// where wgmma finds a matrix: address, and two distances, in units of 16 bytes
static __device__ u64 matrix(const void* p, int lead, int stride) {
    return (u64)(at(p) & 0x3ffff) >> 4  // beyond 18 bits: the block's rank in its cluster
         | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32
         | 1ull << 62;  // rows of 128 bytes, swizzled
}
#define SUM(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOUR(i) SUM(i), SUM(i + 4), SUM(i + 8), SUM(i + 12)
#define LIST32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16," \
    "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define LIST64 LIST32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44," \
    "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
// 64 queries times 128 keys, 16 of D; keep = 0: begin at zero
static __device__ void scores(float (&d)[64], u64 q, u64 k, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LIST64 "}, "
        "%64, %65, p, 1, 1, 0, 0;\n}"
        : FOUR(0), FOUR(16), FOUR(32), FOUR(48) : "l"(q), "l"(k), "r"(keep));
}
// weights of 16 keys, which are in registers, times D columns of values
static __device__ void weigh(float (&d)[D / 2], const unsigned* p, u64 v, int keep) {
#if D == 128
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LIST64 "}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
        : FOUR(0), FOUR(16), FOUR(32), FOUR(48)
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v), "r"(keep));
#else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST32 "}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
        : FOUR(0), FOUR(16)
        : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v), "r"(keep));
#endif
}
static __device__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// until at most N groups are under way; names d, so that no use of it moves before this
template <int N> static __device__ void wgmma_wait(float (&d)[64]) {
    asm volatile("wgmma.wait_group.sync.aligned %64;"
        : FOUR(0), FOUR(16), FOUR(32), FOUR(48) : "n"(N) : "memory");
}
template <int N> static __device__ void wgmma_wait(float (&d)[32]) {
    asm volatile("wgmma.wait_group.sync.aligned %32;"
        : FOUR(0), FOUR(16) : "n"(N) : "memory");
}
static __device__ unsigned pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
// Two groups take turns at the matrix units; group 1 begins
static __device__ void take_turn(int group) {
    if (TURNS) asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory");
}
static __device__ void pass_turn(int group) {
    if (TURNS) asm volatile("bar.arrive %0, 256;" :: "r"(4 - group) : "memory");
}
// keys that rows from `first` on may see, and tiles that hold them: one at least
static __device__ int tiles_for(int first, int rows, int M, int shift) {
    int end = CAUSAL ? min(M, first + rows + shift) : M;
    return max(1, (end + KEYS - 1) / KEYS);
}
// [mask
// keys from `key` on that the two rows of a lane must not see
static __device__ void mask(float (&s)[64], int key, int row, int M, int shift) {
    int see = CAUSAL ? min(M - 1, row + shift) : M - 1;
    int see8 = CAUSAL ? min(M - 1, row + 8 + shift) : M - 1;
    key += threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < 64; ++i)
        if (key + i / 4 * 8 + i % 2 > (i / 2 % 2 ? see8 : see)) s[i] = -INFINITY;
}
// mask]
// [softmax
// logits of two rows become weights; worth: what the old sums count from now on
static __device__ void soften(float (&s)[64], float (&top)[2], float (&sum)[2],
                              float (&worth)[2], float scale2) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float now = top[r];
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4) now = fmaxf(now, fmaxf(s[i], s[i + 1]));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
        float from = now == -INFINITY ? 0.0f : now;  // no key yet: all weights 0
        worth[r] = exp2f((top[r] - from) * scale2);
        top[r] = now;
        sum[r] *= worth[r];
        from *= scale2;
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4) {
            s[i] = exp2f(s[i] * scale2 - from);
            s[i + 1] = exp2f(s[i + 1] * scale2 - from);
            sum[r] += s[i] + s[i + 1];
        }
    }
}
// softmax]
static __device__ void rescale(float (&o)[D / 2], const float (&worth)[2]) {
    #pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] *= worth[i / 2 % 2];
}
// sums lie as the next product wants its left operand: two neighbours a register
static __device__ void pack(unsigned (&p)[32], const float (&s)[64]) {
    #pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = pair(s[2 * i], s[2 * i + 1]);
}
// S = Q K^T and O += P V of a tile
static __device__ void begin_scores(float (&s)[64], u64 q, u64 k) {
    #pragma unroll
    for (int i = 0; i < D / 16; ++i)
        scores(s, q + (i / 4 * 8192 + i % 4 * 32 >> 4),
               k + (i / 4 * KEYS * 128 + i % 4 * 32 >> 4), i);
}
static __device__ void begin_mean(float (&o)[D / 2], const unsigned (&p)[32], u64 v,
                                  int keep) {
    #pragma unroll
    for (int i = 0; i < KEYS / 16; ++i)
        weigh(o, &p[4 * i], v + (i * 2048 >> 4), keep | i);
}
"""


# %% tab="Pseudocode"
def flash_wgmma(Q, K, V, L, O, share, shift, scale):
    heads, N, d = Q.shape
    M = K.shape[1]
    for h in parallel(heads):
        for rows in tiles(N, 128):
            i = np.array(rows)
            m, z = np.full(len(i), -np.inf), np.zeros(len(i))
            o = np.zeros((len(i), d))
            # [producer
            come = ((np.array(own), K[h // share, own], V[h // share, own]) for own in tiles(M, 128))
            # producer]
            # [consumer
            for j, k, v in come:
                s = scale * Q[h, i] @ k.T
                s[i[:, None] + shift < j] = -np.inf
                top = np.maximum(m, s.max(axis=1))
                start = np.where(top > -np.inf, top, 0.0)
                p, worth = np.exp(s - start[:, None]), np.exp(m - start)
                m, z = top, worth * z + p.sum(axis=1)
                o = worth[:, None] * o + p @ v
            # consumer]
            # [write
            some = z > 0
            O[h, i] = o / np.where(some, z, 1.0)[:, None]
            L[h, i] = np.where(some, m + np.log(np.where(some, z, 1.0)), -np.inf)
            # write]


# %% tab="CUDA C"
FLASH_WGMMA = Kernel(
    SHARED
    + r"""
// a producer, and consumers with 64 queries each
extern "C" __global__ void __launch_bounds__(128 + 128 * CONSUMERS, 1)
flash_wgmma(const __grid_constant__ TensorMap q_map,
            const __grid_constant__ TensorMap k_map,
            const __grid_constant__ TensorMap v_map, Bf16* O, float* L,
            int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 q_full, k_full[2], k_empty[2], v_full[2], v_empty[2];
    unsigned char *q = memory, *k = q + CONSUMERS * Q_BYTES, *v = k + 2 * TILE_BYTES;
    int group = threadIdx.x / 128, head = blockIdx.y;
    int first = blockIdx.x * 64 * CONSUMERS;
    int tiles = tiles_for(first, 64 * CONSUMERS, M, shift);
    if (threadIdx.x == 0) {
        init(&q_full, 1);
        for (int b = 0; b < 2; ++b) {
            init(&k_full[b], 1);
            init(&v_full[b], 1);
            init(&k_empty[b], CONSUMERS);
            init(&v_empty[b], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        // [producer
#if CONSUMERS > 1
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#endif
        if (threadIdx.x == 0) {
            expect(&q_full, CONSUMERS * Q_BYTES);
            for (int g = 0; g < CONSUMERS; ++g)
                for (int c = 0; c < BOXES; ++c)
                    load(q + g * Q_BYTES + c * 8192, &q_map, 64 * c, first + 64 * g,
                         head, &q_full);
            for (int t = 0; t < tiles; ++t) {  // from the last tile on
                int b = t % 2, row = (tiles - 1 - t) * KEYS;
                wait(&k_empty[b], t / 2 % 2 ^ 1);
                expect(&k_full[b], TILE_BYTES);
                for (int c = 0; c < BOXES; ++c)
                    load(k + b * TILE_BYTES + c * KEYS * 128, &k_map, 64 * c, row,
                         head / share, &k_full[b]);
                wait(&v_empty[b], t / 2 % 2 ^ 1);
                expect(&v_full[b], TILE_BYTES);
                for (int c = 0; c < BOXES; ++c)
                    load(v + b * TILE_BYTES + c * KEYS * 128, &v_map, 64 * c, row,
                         head / share, &v_full[b]);
            }
        }
        // producer]
    } else {
        // [consumer
#if CONSUMERS > 1
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
#endif
        int lane = threadIdx.x % 32, leader = threadIdx.x % 128 == 0;
        int row = first + (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        float s[64], o[D / 2], top[2] = {-INFINITY, -INFINITY}, sum[2] = {}, worth[2];
        float scale2 = scale * 1.44269504f;  // exp(x) = exp2(x log2 e)
        unsigned p[32];
        u64 mine = matrix(q + (group - 1) * Q_BYTES, 16, 1024);
        u64 keys = matrix(k, 16, 1024), values = matrix(v, KEYS * 128, 1024);
        wait(&q_full, 0);
        if (group == 2) pass_turn(group);
        take_turn(group);
        for (int t = 0; t < tiles; ++t) {
            int b = t % 2, key = (tiles - 1 - t) * KEYS;
            wait(&k_full[b], t / 2 % 2);
            wgmma_fence();
            begin_scores(s, mine, keys + b * (TILE_BYTES >> 4));
            wgmma_commit();
            pass_turn(group);
            wgmma_wait<0>(s);
            wgmma_wait<0>(o);
            if (leader) arrive(&k_empty[b]);
            if (leader && t) arrive(&v_empty[b ^ 1]);
            if (key + KEYS > M || (CAUSAL && key + KEYS > first + shift))
                mask(s, key, row, M, shift);
            soften(s, top, sum, worth, scale2);
            if (t) rescale(o, worth);
            pack(p, s);
            wait(&v_full[b], t / 2 % 2);
            take_turn(group);
            wgmma_fence();
            begin_mean(o, p, values + b * (TILE_BYTES >> 4), t);
            wgmma_commit();
        }
        pass_turn(group);
        if (group == 1) take_turn(group);
        wgmma_wait<0>(o);
        // consumer]
        // [write
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float z = sum[r];
            z += __shfl_xor_sync(~0u, z, 1);
            z += __shfl_xor_sync(~0u, z, 2);
            float share_of = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            size_t i = (size_t)head * N + row + 8 * r;
            if (row + 8 * r >= N) continue;
            if (lane % 4 == 0) L[i] = z > 0.0f ? top[r] * scale + logf(z) : -INFINITY;
            #pragma unroll
            for (int n = 2 * r; n < D / 2; n += 4)
                *(__nv_bfloat162*)&O[i * D + n / 4 * 8 + lane % 4 * 2] =
                    __floats2bfloat162_rn(o[n] * share_of, o[n + 1] * share_of);
        }
        // write]
    }
}
""",
    defines={"D": 128, "CAUSAL": 0, "CONSUMERS": 2, "TURNS": 0},
    options=OPTIONS,
)

# %%
FLASH_WGMMA.region("producer")

# %%
FLASH_WGMMA.region("consumer")

# %% [markdown]
# A lane masks what its two rows must not see, then makes weights of what is left. `see` is the last
# key that counts; behind it lie keys that do not exist, since no tile divides $M$, or that come later
# than the query. A causal mask lets query $i$ see keys up to $i$ plus a shift.[^shift]
#
# [^shift]: 0 in a model that attends to its own past. With `M - N` the last query sees the last
#     key: queries that continue a text whose earlier keys are kept. A negative shift leaves the first
#     queries without any key.

# %%
FLASH_WGMMA.region("mask")

# %%
FLASH_WGMMA.region("softmax")

# %% [markdown]
# The maximum of a row without any key so far is minus infinity, and the difference of two infinities
# is no number. `from` is 0 in that case, so all weights and the worth of the old sums are 0.

# %% [markdown]
# Tiles are taken from the last one on, so that only the first tiles of the loop need a mask. Several
# heads of queries may share a head of keys and values: `share` says how many, and the producer alone
# has to know.

# %% fold="Code of the checks"
from tilewise import Guess, bf16, check, expect_hazard, measure, output, tensor_map


def tiles_seen(first, M, shift, causal, rows=128):
    """Tiles of 128 keys that a tile of queries goes through."""
    return max(1, ceil_div(min(M, first + rows + shift) if causal else M, 128))


def inputs(N, d, M=None, heads=1, share=1, shift=None, causal=False, stretch=1.0, rows=64):
    """Arrays, sizes and tensor maps; without a mask the shift lets every query see every key."""
    M = N if M is None else M
    shift = (0 if causal else M) if shift is None else shift
    arrays = {
        "Q": normal(heads, N, d, scale=stretch, dtype="bfloat16"),
        "K": normal(heads // share, M, d, dtype="bfloat16"),
        "V": normal(heads // share, M, d, dtype="bfloat16"),
        "L": output(heads, N),
        "O": output(heads, N, d, dtype="bfloat16"),
    }
    boxes = {"q_map": ("Q", 64), "k_map": ("K", 128), "v_map": ("V", 128), "o_map": ("O", 64)}
    maps = {
        name: tensor_map(array, box=(1, high, 64), swizzle=128, dtype="bfloat16")
        for name, (array, high) in boxes.items()
    }
    return {**arrays, **maps, "N": N, "M": M, "share": share, "shift": shift, "scale": d**-0.5}


def of_wgmma(consumers, turns=0):
    """Kernel and launch for a width, a mask and inputs."""

    def launch(N, d, causal=False, heads=1, **more):
        defines = {"D": d, "CAUSAL": int(causal), "CONSUMERS": consumers, "TURNS": turns}
        made = case(
            **inputs(N, d, heads=heads, causal=causal, **more),
            grid=(ceil_div(N, 64 * consumers), heads),
            block=128 + 128 * consumers,
            shared_bytes=128 * d * (consumers + 8),
        )
        return Kernel(FLASH_WGMMA.source, defines=defines, options=OPTIONS).on(made)

    return launch


def attended(Q, K, V, share, shift, scale):
    """O and L in 64-bit floats, on the GPU where there is one; a query without a key gets zeros."""
    if gpu_here():
        import cupy as xp
    else:
        xp = np
    O, L = xp.zeros(Q.shape), xp.full(Q.shape[:2], -np.inf)
    N, M = Q.shape[1], K.shape[1]
    for h in range(len(Q)):
        k, v = xp.asarray(K[h // share]), xp.asarray(V[h // share])
        for rows in tiles(N, 2048):
            i, j = xp.arange(rows.start, rows.stop)[:, None], xp.arange(M)[None]
            s = float(scale) * xp.asarray(Q[h, rows.start : rows.stop]) @ k.T
            s = xp.where(j > i + int(shift), -np.inf, s)
            m = s.max(axis=1)
            p = xp.exp(s - xp.where(m > -np.inf, m, 0.0)[:, None])
            z = p.sum(axis=1)
            some = z > 0
            one = xp.where(some, z, 1.0)
            O[h, rows.start : rows.stop] = p @ v / one[:, None]
            L[h, rows.start : rows.stop] = xp.where(some, m + xp.log(one), -np.inf)
    return {"O": O if xp is np else xp.asnumpy(O), "L": L if xp is np else xp.asnumpy(L)}


ROUNDED = 2**-7  # weights and results are rounded to BF16, each to 2**-9
ONE, TWO, TURNS = of_wgmma(1), of_wgmma(2), of_wgmma(2, turns=1)
agree(
    flash_wgmma,
    TURNS(N=8, d=64, causal=True).kernel,
    [
        TURNS(N=150, d=64, M=200, causal=True, heads=4, share=2, shift=40).case,
        TURNS(N=140, d=64, M=60, causal=True, heads=2, shift=-70).case,
    ],
    rtol=ROUNDED,
    atol=ROUNDED,
)
check_difficult(ONE, "of one consumer", ("a causal mask", "large logits"))
check_difficult(TWO, "of two consumers")

# %% [markdown]
# Without the guard in `soften` the rows that see no key are no numbers any more. Without the wait for
# `k_full` the kernel multiplies what has not come, and without the wait for its products it reads sums
# that are not finished, which the simulator names.

# %% fold="Code of the check"


no_key = TURNS(**DIFFICULT["queries without a key"])
spoilt = edited(no_key, ("now == -INFINITY ? 0.0f : now;", "now;")).run()
check(
    np.isnan(bf16.values(spoilt["O"])).any(axis=-1)[0],
    np.arange(150) < 80,
    name="rows that are no numbers without the guard: those without a key",
)
ragged = TURNS(**DIFFICULT["keys that no tile divides"])
WAIT = "            wgmma_wait<0>(s);\n            wgmma_wait<0>(o);\n"
expect_hazard(
    edited(ragged, ("wait(&k_full[b], t / 2 % 2);", "")), "undelivered", line_with="begin_scores(s, mine"
)
expect_hazard(edited(ragged, (WAIT, "")), "accumulator", line_with="mask(s, key, row")

# %% [markdown]
# ## Two consumers take turns
#
# While one consumer makes weights, the matrix units could work for another. A second consumer brings
# its own 64 queries and shares the tiles of keys, so a clock of the matrix units asks the L2 for
# {{ asked.two | .0f }} bytes in place of {{ asked.one | .0f }}. But two consumers that begin together
# may stay together: both wait for the matrix units, which serve them in turn and finish both late,
# and then both want exponentials.
#
# They can be told to alternate, which is called ping-pong. Consumer 1 puts its products in and passes the turn;
# consumer 2 puts in its own while consumer 1 makes weights. The turn is a named barrier for 256
# threads: who has it passed `bar.arrive`s and goes on, who wants it `bar.sync`s and waits.
#
# ??? definition "Ping-pong"
#     Two consumers alternate: one uses the matrix units while the other computes with ordinary units.

# %% fold="Code of the figure"


def at_once(d, count):
    """Two consumers in lockstep: both products take twice as long, and so do both exponentials."""
    product, exponentials, softmax = clocks_of(d)
    spans, now = [], 0
    for t in range(count + 1):
        length = 2 * product * (1 if t in (0, count) else 2)
        work = softmax + exponentials if t < count else 0
        for consumer in (1, 2):
            row = f"together: {consumer}"
            spans.append(Span(row, now, now + length, "products", "block"))
            if work:
                spans.append(Span(row, now + length, now + length + work, "softmax", "tile"))
        now += length + work
    return spans, now


def in_turns(d, count):
    """Two consumers that pass a turn: products one after the other, softmax beside the other's."""
    product, _, softmax = clocks_of(d)
    spans, ready, free = [], [0, 0], 0
    for t in range(count + 1):
        for consumer in (0, 1):
            length = product * (1 if t in (0, count) else 2)
            start = max(ready[consumer], free)
            free = start + length
            row = f"in turns: {consumer + 1}"
            spans.append(Span(row, start, free, "products", "block"))
            ready[consumer] = free
            if t < count:
                ready[consumer] += softmax
                spans.append(Span(row, free, ready[consumer], "softmax", "tile"))
    return spans, free


TOGETHER, ALTERNATING = at_once(128, 3), in_turns(128, 3)
show(
    timeline(
        TOGETHER[0] + ALTERNATING[0],
        unit="clocks",
        title="In turns, softmax of one consumer runs beside products of the other",
        caption="Two consumers of one block on three tiles of keys, d = 128: a model with the clocks of the table above. Together both share each unit in equal halves; in turns a product has the matrix units to itself.",
    )
)


def share_busy(d, schedule, count=64):
    """Share of a long run for which the matrix units are busy."""
    return 2 * count * 2 * clocks_of(d)[0] / schedule(d, count)[1]


publish(
    asked={
        "one": 2 * 128 * 128 * 2 / (2 * clocks_of(128)[0]),
        "two": 2 * 128 * 128 * 2 / (4 * clocks_of(128)[0]),
    },
    busy={
        f"{name}_{d}": share_busy(d, schedule)
        for name, schedule in (("together", at_once), ("turns", in_turns))
        for d in (128, 64)
    },
)

# %% [markdown]
# The model says {{ busy.together_128 | .0% }} of the matrix units' rate for two that stay together and
# {{ busy.turns_128 | .0% }} for two in turns; with $d$ = 64 it says {{ busy.together_64 | .0% }} and
# {{ busy.turns_64 | .0% }}. Two consumers that are left untold lie somewhere in between: they may drift apart
# by themselves, and then stay so.

# %% fold="Code of the check"
check_difficult(TURNS, "of two consumers in turns")

# %% [markdown]
# ## Softmax beside the product of the tile before
#
# One consumer alone can overlap, too. The weights of a tile wait for its logits, but not for the mean of the tile
# before. So a consumer puts two products in, first the logits of this tile, then the mean of the one
# before, and waits for the first group only. It makes weights while the second group is still running.
# The price is registers: new logits, old weights and the mean are all alive at once,
# {{ alive.registers }} of a thread's registers.
#
# The same trick spans query tiles. In a persistent kernel the logits of the next query tile are put in
# together with the last mean of this one, and run while this one is divided and stored.


# %% tab="Pseudocode"
def flash_hopper(Q, K, V, L, O, order, share, shift, scale):
    _, N, d = Q.shape
    M, blocks = K.shape[1], order.shape[1]
    for block in parallel(blocks):
        # [list
        mine = [(i, h) for i, h in order[:, block] if h >= 0]
        # list]
        for tile, h in mine:
            i = np.arange(128 * tile, min(N, 128 * tile + 128))
            m, z = np.full(len(i), -np.inf), np.zeros(len(i))
            o, p, v = np.zeros((len(i), d)), np.zeros((len(i), M)), np.zeros((M, d))
            # [consumer
            for own in tiles(M, 128):
                j = np.array(own)
                s = scale * Q[h, i] @ K[h // share, j].T  # one group of wgmma
                o = o + p @ v  # New: the next group, of the tile before
                s[i[:, None] + shift < j] = -np.inf
                top = np.maximum(m, s.max(axis=1))
                start = np.where(top > -np.inf, top, 0.0)
                p, worth = np.exp(s - start[:, None]), np.exp(m - start)
                m, z = top, worth * z + p.sum(axis=1)
                o, v = worth[:, None] * o, V[h // share, j]
            o = o + p @ v
            # consumer]
            # [write
            some = z > 0
            O[h, i] = o / np.where(some, z, 1.0)[:, None]
            L[h, i] = np.where(some, m + np.log(np.where(some, z, 1.0)), -np.inf)
            # write]


# %% tab="CUDA C"
FLASH_HOPPER = Kernel(
    SHARED
    + r"""
// a box of 64 columns of a consumer's results
static __device__ void store(const TensorMap* map, const void* from, int column, int row,
                             int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(at(from)), "r"(column), "r"(row), "r"(head) : "memory");
}
static __device__ void meet(int group) {  // a barrier of one warpgroup
    asm volatile("bar.sync %0, 128;" :: "r"(4 + group) : "memory");
}
// [write
// the means of 64 queries by way of shared memory
static __device__ void write(unsigned char* room, const TensorMap* o_map,
                             float (&o)[D / 2], const float (&share_of)[2],
                             int row, int head, int group) {
    int lane = threadIdx.x % 32, mine = threadIdx.x / 32 % 4 * 16 + lane % 16;
    bool leader = threadIdx.x % 128 == 0;
    if (leader) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    meet(group);  // what was stored from here has been read
    #pragma unroll
    for (int n = 0; n < D / 8; n += 2) {  // 8 columns each
        const float* x = o + 4 * n;
        int chunk = (n % 8 + lane / 16) ^ mine % 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
            :: "r"(at(room + n / 8 * 8192 + mine * 128 + chunk * 16)),
               "r"(pair(x[0] * share_of[0], x[1] * share_of[0])),
               "r"(pair(x[2] * share_of[1], x[3] * share_of[1])),
               "r"(pair(x[4] * share_of[0], x[5] * share_of[0])),
               "r"(pair(x[6] * share_of[1], x[7] * share_of[1])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    meet(group);
    if (leader) {
        for (int c = 0; c < BOXES; ++c)
            store(o_map, room + c * 8192, 64 * c, row, head);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}
// write]

// a list of query tiles for each block; softmax beside the product of the tile before
extern "C" __global__ void __launch_bounds__(384, 1)
flash_hopper(const __grid_constant__ TensorMap q_map,
             const __grid_constant__ TensorMap k_map,
             const __grid_constant__ TensorMap v_map,
             const __grid_constant__ TensorMap o_map, float* L, const int2* order,
             int count, int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 q_full[2], q_empty[2];
    __shared__ __align__(8) u64 k_full[2], k_empty[2], v_full[2], v_empty[2];
    unsigned char *q = memory, *k = q + 4 * Q_BYTES, *v = k + 2 * TILE_BYTES;
    unsigned char* room = v + 2 * TILE_BYTES;
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int b = 0; b < 2; ++b) {
            init(&q_full[b], 1);
            init(&k_full[b], 1);
            init(&v_full[b], 1);
            init(&q_empty[b], 2);
            init(&k_empty[b], 2);
            init(&v_empty[b], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            int t = 0, u = 0;  // key tiles and query tiles so far
            for (int n = blockIdx.x; n < count; n += gridDim.x, ++u) {
                int first = order[n].x * 128, head = order[n].y;
                if (head < 0) break;  // the end of a shorter list
                wait(&q_empty[u % 2], u / 2 % 2 ^ 1);
                expect(&q_full[u % 2], 2 * Q_BYTES);
                for (int g = 0; g < 2; ++g)
                    for (int c = 0; c < BOXES; ++c)
                        load(q + (u % 2 * 2 + g) * Q_BYTES + c * 8192, &q_map, 64 * c,
                             first + 64 * g, head, &q_full[u % 2]);
                for (int j = tiles_for(first, 128, M, shift) - 1; j >= 0; --j, ++t) {
                    int b = t % 2;
                    wait(&k_empty[b], t / 2 % 2 ^ 1);
                    expect(&k_full[b], TILE_BYTES);
                    for (int c = 0; c < BOXES; ++c)
                        load(k + b * TILE_BYTES + c * KEYS * 128, &k_map, 64 * c,
                             j * KEYS, head / share, &k_full[b]);
                    wait(&v_empty[b], t / 2 % 2 ^ 1);
                    expect(&v_full[b], TILE_BYTES);
                    for (int c = 0; c < BOXES; ++c)
                        load(v + b * TILE_BYTES + c * KEYS * 128, &v_map, 64 * c,
                             j * KEYS, head / share, &v_full[b]);
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int lane = threadIdx.x % 32, leader = threadIdx.x % 128 == 0;
    float s[64], o[D / 2], worth[2], scale2 = scale * 1.44269504f;
    unsigned p[32];
    u64 mine = matrix(q + (group - 1) * Q_BYTES, 16, 1024);
    u64 keys = matrix(k, 16, 1024), values = matrix(v, KEYS * 128, 1024);
    int t = 0, u = 0;
    int2 next = order[blockIdx.x];
    if (next.y < 0) return;  // an empty list
    if (group == 2) pass_turn(group);
    wait(&q_full[0], 0);
    wait(&k_full[0], 0);
    take_turn(group);
    wgmma_fence();
    begin_scores(s, mine, keys);
    wgmma_commit();
    pass_turn(group);
    for (int n = blockIdx.x; next.y >= 0; n += gridDim.x, ++u) {  // New: a list
        int first = next.x * 128, head = next.y, j = tiles_for(first, 128, M, shift) - 1;
        int row = first + (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        float top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
        wgmma_wait<0>(s);
        if (leader) arrive(&k_empty[t % 2]);
        if ((j + 1) * KEYS > M || CAUSAL) mask(s, j * KEYS, row, M, shift);
        soften(s, top, sum, worth, scale2);
        pack(p, s);
        int keep = 0;
        // [consumer
        for (--j; j >= 0; --j, ++t) {
            int b = t % 2;
            wait(&k_full[b ^ 1], (t + 1) / 2 % 2);
            take_turn(group);
            wgmma_fence();
            begin_scores(s, mine + u % 2 * (2 * Q_BYTES >> 4),
                         keys + (b ^ 1) * (TILE_BYTES >> 4));
            wgmma_commit();
            wait(&v_full[b], t / 2 % 2);
            begin_mean(o, p, values + b * (TILE_BYTES >> 4), keep);
            wgmma_commit();
            pass_turn(group);
            keep = 1;
            wgmma_wait<1>(s);  // New: the mean of the tile before is under way
            if (leader) arrive(&k_empty[b ^ 1]);
            if (CAUSAL && (j + 1) * KEYS > first + shift)
                mask(s, j * KEYS, row, M, shift);
            soften(s, top, sum, worth, scale2);
            wgmma_wait<0>(o);
            if (leader) arrive(&v_empty[b]);
            rescale(o, worth);
            pack(p, s);
        }
        // consumer]
        // [list
        wait(&v_full[t % 2], t / 2 % 2);
        if (leader) arrive(&q_empty[u % 2]);
        next = n + gridDim.x < count ? order[n + gridDim.x] : make_int2(0, -1);
        int more = next.y >= 0;  // no branch around wgmma
        if (more) {
            wait(&q_full[(u + 1) % 2], (u + 1) / 2 % 2);
            wait(&k_full[(t + 1) % 2], (t + 1) / 2 % 2);
        }
        take_turn(group);
        wgmma_fence();
        begin_mean(o, p, values + t % 2 * (TILE_BYTES >> 4), keep);
        wgmma_commit();
        begin_scores(s, mine + (u + more) % 2 * (2 * Q_BYTES >> 4),
                     keys + (t + more) % 2 * (TILE_BYTES >> 4));
        wgmma_commit();  // at the end once more the same, for nobody
        pass_turn(group);
        // list]
        float share_of[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float z = sum[r];
            z += __shfl_xor_sync(~0u, z, 1);
            z += __shfl_xor_sync(~0u, z, 2);
            share_of[r] = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            if (lane % 4 == 0 && row + 8 * r < N)
                L[(size_t)head * N + row + 8 * r] =
                    z > 0.0f ? top[r] * scale + logf(z) : -INFINITY;
        }
        wgmma_wait<1>(o);
        if (leader) arrive(&v_empty[t % 2]);
        ++t;
        write(room + (group - 1) * Q_BYTES, &o_map, o, share_of,
              first + (group - 1) * 64, head, group);
    }
    wgmma_wait<0>(s);
    if (leader) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if (group == 1) take_turn(group);  // what group 2 passed last
}
""",
    defines={"D": 128, "CAUSAL": 0, "TURNS": 1},
    options=OPTIONS,
)

# %%
FLASH_HOPPER.region("consumer")

# %%
FLASH_HOPPER.region("list")

# %% [markdown]
# At the end of its list a consumer puts in the last logits once more, for nobody: a branch around a
# `wgmma` would make the compiler wait for each of them. Results leave by `stmatrix` and the copy unit,
# as in the last lesson on Hopper.

# %% [markdown]
# ## Who gets which tile
#
# Under a causal mask the last query tile of a head goes through all keys and the first through one
# tile. Blocks that take tiles in order of their number finish at different times. The order is data
# again: the host deals the tiles of all heads out, longest first, each to the block that has least to do
# so far. Blocks then work on many heads at once, whose keys and values should stay in the L2. On this page
# they have {{ deal.mb | .0f }} MB, and the L2 has {{ deal.l2 | .0f }} MB. More heads could be dealt out in
# groups that fit; this page does not try that.


# %%
def dealt_out(costs, blocks):
    """Lists of pieces for blocks: longest first, to the block with the least so far."""
    count = min(blocks, len(costs))
    lists, load = [[] for _ in range(count)], [(0, block) for block in range(count)]
    for piece in sorted(costs, key=costs.get, reverse=True):
        so_far, block = heapq.heappop(load)
        lists[block].append(piece)
        heapq.heappush(load, (so_far + costs[piece], block))
    return lists


# %% fold="Code of the checks"
SMS = H100.sms
ARRAY = 2**22  # numbers of each timed array


def costs_of(heads, N, M, shift, causal):
    """Key tiles of each (query tile, head), and one for what a query tile costs besides."""
    return {
        (i, h): 1 + tiles_seen(128 * i, M, shift, causal)
        for h in range(heads)
        for i in range(ceil_div(N, 128))
    }


def as_array(lists):
    """Lists of pairs as rounds by blocks by two, filled up with -1."""
    order = np.full((max(map(len, lists)), len(lists), 2), -1, np.int32)
    for block, one in enumerate(lists):
        order[: len(one), block] = np.reshape(one, (-1, 2))
    return order


def one_each(costs, blocks):
    """A block for every piece, in order."""
    return [[piece] for piece in costs]


def one_idle(costs, blocks):
    """A block for every piece, and one more, whose list is empty."""
    return [*one_each(costs, blocks), []]


def of_hopper(turns, deal=dealt_out, blocks=SMS):
    """Kernel and launch for a width, a mask and inputs."""

    def launch(N, d, causal=False, heads=1, **more):
        given = inputs(N, d, heads=heads, causal=causal, **more)
        order = as_array(deal(costs_of(heads, N, given["M"], given["shift"], causal), blocks))
        made = case(
            **given,
            order=order,
            count=order.shape[0] * order.shape[1],
            grid=order.shape[1],
            block=384,
            shared_bytes=128 * d * 14,
        )
        defines = {"D": d, "CAUSAL": int(causal), "TURNS": turns}
        return Kernel(FLASH_HOPPER.source, defines=defines, options=OPTIONS).on(made)

    return launch


FEW = of_hopper(turns=1, blocks=3)
agree(
    flash_hopper,
    FEW(N=8, d=64, causal=True).kernel,
    [
        FEW(N=270, d=64, M=200, causal=True, heads=4, share=2, shift=40).case,
        FEW(N=140, d=64, M=60, causal=True, heads=2, shift=-70).case,
    ],
    rtol=ROUNDED,
    atol=ROUNDED,
)
check_difficult(FEW, "of Kernel 8 in turns")
check_difficult(of_hopper(turns=0, blocks=3), "of Kernel 8 untold")
check_difficult(
    of_hopper(turns=0, deal=one_each), "of a block a tile, untold", ("a causal mask", "large logits")
)
check_difficult(of_hopper(turns=1, deal=one_idle), "with an idle block", ("a causal mask",))
ragged = FEW(**DIFFICULT["keys that no tile divides"])
FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
expect_hazard(edited(ragged, ("wgmma_wait<1>(s);", "wgmma_wait<2>(s);")), "accumulator", line_with="soften(s")
expect_hazard(edited(ragged, (FENCE, "")), "proxy", line_with="cp.async.bulk.tensor.3d.global")

# %% [markdown]
# The figure deals out two heads of four query tiles to three blocks under a causal mask: cells are key tiles, and at
# each step every block works on one of its own. Cells above the diagonal are never touched.

# %% fold="Code of the figure"


def dealt(lists, heads=2, rows=4):
    """States of heads x query tiles x key tiles as blocks work through their lists."""
    paths = [[(key, i, h) for i, h in one for key in range(i, -1, -1)] for one in lists]
    for at in range(max(map(len, paths))):
        busy = {block: path[at] for block, path in enumerate(paths) if at < len(path)}
        said = [
            f"block {block}: head {busy[block][2]}, queries {busy[block][1]}, keys {busy[block][0]}"
            if block in busy
            else f"block {block}: done"
            for block in range(len(paths))
        ]
        yield State(
            f"{'; '.join(said)}.",
            threads=[(h * rows + query) * rows + key for key, query, h in busy.values()],
            values={"blocks at work": len(busy)},
        )


SMALL = {(i, h): i + 1 for h in range(2) for i in range(4)}
show(
    stepped(
        list(dealt(dealt_out(SMALL, 3))),
        grid=1,
        block=(4, 4, 2),
        cell="key tile",
        axes=("key tile", "query tile", "head"),
        view="3d",
        title="Heads, query tiles, key tiles: what three blocks work on under a causal mask",
        caption="Two heads of four query tiles, dealt out to three blocks longest first. At each step every block works on one key tile, from the last one that its queries see to the first.",
    )
)


def longest(deal, heads, N, causal, blocks=SMS):
    """How much longer the longest list is than an even split, in key tiles."""
    costs = costs_of(heads, N, N, 0, causal)
    lists = deal(costs, blocks)
    return max(sum(costs[piece] for piece in one) for one in lists) / (sum(costs.values()) / blocks) - 1


def in_order(costs, blocks):
    """Pieces in order of their number, block after block."""
    return [list(costs)[block::blocks] for block in range(min(blocks, len(costs)))]


publish(
    dealt={
        "order": longest(in_order, 2, 16384, True),
        "balanced": longest(dealt_out, 2, 16384, True),
        "full": longest(dealt_out, 2, 16384, False),
        "sms": SMS,
    },
    deal={"mb": 2 * 2 * ARRAY / 1e6, "l2": GPU.l2_mb},  # keys and values, two bytes each
    alive={"registers": 64 + 32 + 64},
    fast={"lines": FLASH_HOPPER.source.strip().count("\n") + 1},
)

# %% [markdown]
# For two heads of 16,384 queries on {{ dealt.sms }} SMs the longest list is {{ dealt.order | .0% }} longer than
# an even split if tiles go out in order, and {{ dealt.balanced | .1% }} if they are dealt out this way.
# Without a mask all tiles are equal, and {{ dealt.full | .0% }} remain that no order removes.

# %% [markdown]
# ## What it should take
#
# Four rungs change when products and softmax run, and the last two change who does what. The
# model above gives each a share of the matrix units' rate; the compiler gives registers, and the
# simulator counts what is asked of the L2.

# %% fold="Code of the prediction"
LADDER = {
    "one consumer": of_wgmma(1),
    "two consumers": of_wgmma(2),
    "taking turns": of_wgmma(2, turns=1),
    "softmax beside a product": of_hopper(turns=0, deal=one_each),
    "beside, in turns": of_hopper(turns=1, deal=one_each),
    "dealt out": of_hopper(turns=0),
    "dealt out, in turns": of_hopper(turns=1),
}


def alone_beside(d):
    """Busy share of two consumers that overlap softmax with their own mean, if they stay together."""
    product, exponentials, softmax = clocks_of(d)
    return 4 * product / (2 * product + max(2 * product, softmax + exponentials))


MODEL = {
    "one consumer": lambda d: 2 * clocks_of(d)[0] / (2 * clocks_of(d)[0] + clocks_of(d)[2]),
    "two consumers": lambda d: share_busy(d, at_once),
    "taking turns": lambda d: share_busy(d, in_turns),
    "softmax beside a product": alone_beside,
    "beside, in turns": lambda d: share_busy(d, in_turns),
    "dealt out": alone_beside,
    "dealt out, in turns": lambda d: share_busy(d, in_turns),
}
COUNT_AT = {"N": 256, "d": 128, "causal": False}


def counted_of(launch_of):
    launch = launch_of(**COUNT_AT)
    counts = launch.simulate().counts
    work = 4 * 256 * 256 * 128
    registers = compile_kernel(launch.kernel, ["sm_90a"])[0].registers if available() is None else None
    return work / counts.bulk_load.useful_bytes, counts.global_store.requests, registers


COUNTED = {label: counted_of(launch_of) for label, launch_of in LADDER.items()}
show(
    Table(
        [
            "rung",
            "busy, d = 64",
            "busy, d = 128",
            "FLOP for a byte asked for",
            "ordinary stores",
            "registers",
        ],
        [[label, f"{MODEL[label](64):.0%}", f"{MODEL[label](128):.0%}", *COUNTED[label]] for label in LADDER],
        caption="The share of the matrix units' rate that the model allows, bytes and stores of 256 queries and keys with d = 128 as the simulator counts them, and registers a thread at the start from the compiler's report for an H100.",
    )
)

# %% [markdown]
# So the model expects most from the second consumer and from the order in which products and softmax
# meet, more so with $d$ = 64. Where it says {{ busy.turns_128 | .0% }}, something else will be the limit: a
# product alone does not reach the peak either, and dealing out matters under a mask only.

# %% fold="Code of the measurement"


def heads_of(N, d):
    """As many heads as fill the timed arrays; a few for the simulator."""
    return 2 if N < 512 else ARRAY // (N * d)


def launched(label):
    return lambda N, d, causal: LADDER[label](N=N, d=d, causal=causal, heads=heads_of(N, d))


def torch_backend(name):
    """torch's attention by one of its backends, on the same bits."""

    def made(arrays, N, d, causal):
        import cupy
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads = heads_of(N, d)
        shape = (max(1, heads // 16), min(heads, 16), N, d)
        Q, K, V = (
            torch.as_tensor(arrays[one].view(np.int16), device="cuda").view(torch.bfloat16).view(shape)
            for one in "QKV"
        )
        backend = getattr(SDPBackend, name)

        def run():
            with sdpa_kernel(backend):
                found = torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)
            return {"O": cupy.asarray(found.view(torch.int16)).view(np.uint16)}

        return run

    return made


FLASH_2, CUDNN = "FlashAttention-2 (torch SDPA)", "cuDNN (torch SDPA)"
BACKENDS = {"math (torch SDPA)": "MATH", FLASH_2: "FLASH_ATTENTION", CUDNN: "CUDNN_ATTENTION"}
SIZES = [
    {"N": N, "d": d, "causal": causal}
    for d in (128, 64)
    for causal in (False, True)
    for N in (512, 2048, 4096, 16384)
]


def flop_of(N, d, causal, heads=heads_of):
    """Operations for the pairs of a query and a key that it sees."""
    return 4 * heads(N, d) * (N * (N + 1) // 2 if causal else N * N) * d


ladder = measure(
    "attention_forward",
    variants={label: launched(label) for label in LADDER},
    cases=SIZES,
    count_case={"N": 256, "d": 64, "causal": True},
    bytes=lambda N, d, causal: heads_of(N, d) * N * (4 * 2 * d + 4),
    flop=flop_of,
    arithmetic="bf16_matrix",
    counts=("sectors", "instructions"),
    library={label: torch_backend(name) for label, name in BACKENDS.items()},
    reference=attended,
    tolerance=2**-7,
    within=8.0,
    reasons={"*": "What it should take"},
    fold="All rows",
    guess=Guess(
        "With d = 128 and N = 4,096, how many times as fast as one consumer is Kernel 8?",
        of="dealt out",
        over="one consumer",
        at={"N": 4096, "d": 128, "causal": False},
        between=(1.0, 5.0),
        models={"the matrix units' busy share": MODEL["beside, in turns"](128) / MODEL["one consumer"](128)},
        because="The model's answer is near because two errors nearly cancel: it puts both kernels too high, since it knows the rates of units and no waiting.",
    ),
)

# %% fold="Code of the figure"


RATES = rates(ladder, flop_of)
LENGTHS = (512, 2048, 4096, 16384)
KINDS = {
    "d = 128": (128, False),
    "d = 128, causal": (128, True),
    "d = 64": (64, False),
    "d = 64, causal": (64, True),
}
COMPLETE = complete(*RATES.values()) and (CUDNN, 4096, 128, False) in RATES


def eighth(d, causal):
    """The rung that is Kernel 8 for a width and a mask: a rule found by trial, not by a model."""
    return "dealt out, in turns" if d == 64 and not causal else "dealt out"


if COMPLETE:
    show(
        stepped(
            [
                line_chart(
                    [
                        Series(name, LENGTHS, [RATES[label, N, d, causal] for N in LENGTHS])
                        for name, label in (
                            ("one consumer", "one consumer"),
                            ("taking turns", "taking turns"),
                            ("Kernel 8", eighth(d, causal)),
                            ("FlashAttention-2", FLASH_2),
                            ("cuDNN", CUDNN),
                        )
                    ],
                    x="N",
                    y="TFLOP/s",
                    log_x=True,
                    title="-",
                    caption="-",
                )
                for d, causal in KINDS.values()
            ],
            list(KINDS),
            step_name="width and mask",
            title="From one consumer to Kernel 8, beside FlashAttention-2 and cuDNN",
            caption="Rates by the number of queries, for both widths and with and without a causal mask, recorded on an {machine}. Heads shrink as N grows, so that the arrays have the same size.",
        )
    )


def share_of(label, over, d, causal, lengths=LENGTHS, rates=RATES):
    """Least and most of a rung's rate as a share of another's, over lengths."""
    both = [rates[label, N, d, causal] / rates[over, N, d, causal] for N in lengths]
    return {"least": min(both), "most": max(both)}


def gained(label, over, d, causal, N=4096):
    """How many times the rate of one rung another has, for N queries."""
    return share_of(label, over, d, causal, [N])["most"]


LONG = (2048, 4096, 16384)
AT = (4096, 128, False)
EIGHT = eighth(*AT[1:])
IN_TURNS, UNTOLD = "dealt out, in turns", "dealt out"
IN_ORDER = {IN_TURNS: "beside, in turns", UNTOLD: "softmax beside a product"}  # a block for each tile
KIND_NAMES = {name.replace(" = ", "").replace(", ", "_"): kind for name, kind in KINDS.items()}


def lost(choice):
    """How much slower than the better of in turns and untold a choice by kind is, at worst."""
    shares = [
        share_of(choice(*kind), better, *kind)["least"]
        for kind in KINDS.values()
        for better in (IN_TURNS, UNTOLD)
    ]
    return 1 / min(shares) - 1


if COMPLETE:
    for name, kind in KINDS.items():
        of_cudnn = share_of(eighth(*kind), CUDNN, *kind, LONG)
        assert of_cudnn["most"] < 1 if name == "d = 64" else of_cudnn["least"] > 1, (
            f"the answer says whether Kernel 8 passes cuDNN, {name}"
        )
    UNDEALT = share_of(IN_ORDER[UNTOLD], CUDNN, 128, True, LONG)
    assert UNDEALT["most"] < 1.02, "the answer says that what passes cuDNN under a mask is the deal"
publish(
    cudnn={name: share_of(eighth(*kind), CUDNN, *kind, LONG) for name, kind in KIND_NAMES.items()},
    cudnn_short={
        name: share_of(eighth(*kind), CUDNN, *kind, [512])["least"] for name, kind in KIND_NAMES.items()
    },
    cudnn_in_order={
        name: share_of(IN_ORDER[eighth(*kind)], CUDNN, *kind, LONG) for name, kind in KIND_NAMES.items()
    },
    dealing={
        name: share_of(eighth(*kind), IN_ORDER[eighth(*kind)], *kind) for name, kind in KIND_NAMES.items()
    },
    turns={name: share_of(IN_TURNS, UNTOLD, *kind) for name, kind in KIND_NAMES.items()}
    | {f"model_{d}": MODEL[IN_TURNS](d) / MODEL[UNTOLD](d) for d in (128, 64)}
    | {"lost": lost(eighth), "lost_always": lost(lambda d, causal: IN_TURNS)},
    gain={
        f"{name}_{d}": gained(rung, over, d, False)
        for d in (128, 64)
        for name, rung, over in (
            ("second", "two consumers", "one consumer"),
            ("turns", "taking turns", "two consumers"),
            ("beside", "softmax beside a product", "two consumers"),
        )
    },
    seen={
        "eight": RATES[EIGHT, *AT],
        "of_peak": RATES[EIGHT, *AT] / PEAK,
        "eight_long": RATES[EIGHT, 16384, *AT[1:]],
        "one": RATES["one consumer", *AT] / PEAK,
        "two": RATES["two consumers", *AT] / PEAK,
        "turns": RATES["taking turns", *AT] / PEAK,
        "beside": RATES["softmax beside a product", *AT] / PEAK,
        "both": RATES["beside, in turns", *AT] / PEAK,
    },
)

# %% [markdown]
# As predicted, the second consumer brings most: {{ gain.second_128 | .2f }} times the rate at $N$ = 4,096
# with $d$ = 128. The order in which products and softmax meet brings less than the model promised. With $d$ =
# 128, turns alone give {{ gain.turns_128 | .2f }} times the rate and softmax beside a product
# {{ gain.beside_128 | .2f }} times. With $d$ = 64, where the model expected most of both, turns alone give
# {{ gain.turns_64 | .2f }} times, and softmax beside a product makes it slower: {{ gain.beside_64 | .2f }} times.

# %% [markdown]
# Do turns still pay? For two consumers that overlap softmax with their own products, too, the model
# promised {{ turns.model_128 | .2f }} times the rate with $d$ = 128 and {{ turns.model_64 | .2f }} times with
# $d$ = 64. Dealt out, turns give {{ turns.d128.least | .2f }} to {{ turns.d128.most | .2f }} times the
# rate with $d$ = 128 and {{ turns.d64.least | .2f }} to {{ turns.d64.most | .2f }} times with $d$ = 64; under a
# causal mask {{ turns.d128_causal.least | .2f }} to {{ turns.d128_causal.most | .2f }} and
# {{ turns.d64_causal.least | .2f }} to {{ turns.d64_causal.most | .2f }} times.

# %% [markdown]
# The line "Kernel 8" goes by a rule that a trial gave before this record: in turns with $d$ = 64 and no mask,
# untold otherwise. The record is kinder to turns. Against the better of the two, the rule takes up to
# {{ turns.lost | .1% }} longer, and turns everywhere would take up to {{ turns.lost_always | .1% }} longer. Whoever
# wants one kernel and no rule lets the consumers take turns.

# %% [markdown]
# Dealing out was to matter under a mask only. There it gives {{ dealing.d128_causal.least | .2f }} to
# {{ dealing.d128_causal.most | .2f }} times the rate with $d$ = 128. But without a mask it is not idle either,
# {{ dealing.d128.least | .2f }} to {{ dealing.d128.most | .2f }} times, and most for short rows: a block that
# goes on to its next query tile does not begin anew, and stores the last results beside the next products.

# %% [markdown]
# ## Where the clocks go
#
# A GPU can tell who waits for whom. In the next cells every consumer of one block notes the clock when
# its logits are there and when its weights are done. The stamps are the only change to the kernels.

# %% fold="The kernels with stamps"
STAMPS = {
    "flash_wgmma": {
        "            wgmma_wait<0>(o);\n            if (leader) arrive(&k_empty[b]);\n": (
            "            if (here) stamps[(2 * group - 2) * tiles + t] = clock64();\n"
        ),
        "            pack(p, s);\n": "            if (here) stamps[(2 * group - 1) * tiles + t] = clock64();\n",
        "        unsigned p[32];\n": "        bool here = leader && blockIdx.x + blockIdx.y == 0;\n",
    },
    "flash_hopper": {
        "            if (leader) arrive(&k_empty[b ^ 1]);\n": (
            "            if (here && u == 0) stamps[(2 * group - 2) * tiles + t + 1] = clock64();\n"
        ),
        "            pack(p, s);\n": (
            "            if (here && u == 0) stamps[(2 * group - 1) * tiles + t + 1] = clock64();\n"
        ),
        "    unsigned p[32];\n": (
            "    bool here = leader && blockIdx.x == 0;\n    int tiles = tiles_for(0, 128, M, shift);\n"
        ),
    },
}


def with_stamps(kernel):
    """The kernel in which the first block notes, for its first queries, logits and weights of each tile."""
    text = kernel.source
    for line, stamp in STAMPS[kernel.name].items():
        assert text.count(line) == 1, line
        text = text.replace(line, line + stamp)
    text = text.replace(
        "int shift, float scale) {\n    extern", "int shift, float scale,\n long long* stamps) {\n    extern"
    )
    return Kernel(text, kernel.name, defines=kernel.defines, options=OPTIONS)


def noted(launch, arrays, tiles_of):
    """Run a launch with stamps on these arrays: clocks by consumer, logits or weights, tile."""
    kernel = with_stamps(launch.kernel)
    given = {**launch.case.values, **arrays}
    arguments = [
        given[one.name].of(arrays[one.name[0].upper()]) if one.name.endswith("_map") else given[one.name]
        for one in kernel.parameters
    ]
    run = kernel if gpu_here() else kernel.simulate
    run(*arguments, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes)
    return arrays["stamps"]


CLOCKED = {
    "one": ONE,
    "untold": TWO,
    "in turns": TURNS,
    "beside": of_hopper(turns=0, deal=one_each),
    "both": of_hopper(turns=1, deal=one_each),
}
NARROW = ("beside", "both")  # also with d = 64
if not gpu_here():
    for label in ("in turns", "both"):
        launch = CLOCKED[label](N=200, d=128)
        drawn = launch.case.make()
        clocks = noted(launch, drawn | {"stamps": np.zeros((2, 2, 2), np.int64)}, 2)
        wide = {one: bf16.values(drawn[one]).astype(np.float64) for one in "QKV"}
        right = attended(**wide, share=1, shift=200, scale=128**-0.5)["O"]
        check(bf16.values(drawn["O"]), right, rtol=ROUNDED, atol=ROUNDED, name=f"O with stamps, {label}")
        assert (np.diff(clocks[:, :, 1]) > 0).all(), "weights before their logits"

# %% fold="Code that notes the clock on a GPU" needs="gpu" record="clocks"
if gpu_here():
    import cupy

    print("kernel, tile: logits there and weights done of consumer 1, of consumer 2; clocks of the SM")
    for label, d in [*((label, 128) for label in CLOCKED), *((label, 64) for label in NARROW)]:
        shape = (64, 2048, d)
        drawn = {name: cupy.random.standard_normal(shape, dtype=np.float32) for name in "QKV"}
        drawn = {name: bf16.bits(values) for name, values in drawn.items()}
        drawn |= {"O": cupy.zeros(shape, np.uint16), "L": cupy.zeros(shape[:2], np.float32)}
        launch = CLOCKED[label](N=2048, d=d, heads=64)
        if "order" in launch.case.values:
            drawn["order"] = cupy.asarray(launch.case.values["order"])
        drawn["stamps"] = cupy.zeros((2, 2, 16), np.int64)
        for _ in range(3):  # the last one is warm
            clocks = cupy.asnumpy(noted(launch, drawn, 16))
        for tile in range(2, 15):
            clock = (clocks[: 1 if label == "one" else 2, :, tile] - clocks[0, 0, 2]).reshape(-1)
            print(f"{label} {d}, {tile}: {', '.join(str(one) for one in clock)}")

# %% fold="Code of the figure"
CLOCKS = {}  # by kernel, clocks of (tile, consumer, logits or weights)
if said := text_record("attention/hopper", "clocks"):
    for line in said.text.splitlines()[1:]:
        place, numbers = line.split(":")
        CLOCKS.setdefault(place.split(",")[0], []).append([int(one) for one in numbers.split(",")])
CLOCKS = {label: np.array(one).reshape(len(one), -1, 2) for label, one in CLOCKS.items()}


def mean_clocks(label, d=128):
    """Clocks from tile to tile, of them from logits to weights, and consumer 2's distance from consumer 1."""
    if (mine := CLOCKS.get(f"{label} {d}")) is None:
        return np.nan, np.nan, np.nan
    whole, soft = np.diff(mine[:, :, 0], axis=0).mean(), (mine[:, :, 1] - mine[:, :, 0]).mean()
    behind = (mine[:, -1, 0] - mine[:, 0, 0]) / whole % 1
    return float(whole), float(soft), float(np.minimum(behind, 1 - behind).mean())


def spans_of(label, clocks, first=4, last=8):
    """Softmax from logits to weights, products from weights to the next logits."""
    spans, start = [], int(clocks[first].min())
    for consumer in (0, 1):
        for tile in range(first, last):
            logits, weights = (int(one) - start for one in clocks[tile, consumer])
            after = int(clocks[tile + 1, consumer, 0]) - start
            row = f"{label}: {consumer + 1}"
            spans.append(Span(row, logits, weights, "softmax", "tile"))
            spans.append(Span(row, weights, after, "products", "block"))
    return spans


if CLOCKS:
    assert mean_clocks("untold")[2] > 0.25, "the title says that two consumers overlap even untold"
    show(
        timeline(
            [
                span
                for label in ("untold", "in turns", "both")
                for span in spans_of(label, CLOCKS[f"{label} 128"])
            ],
            unit="clocks",
            title="Even untold, softmax of one consumer overlaps products of the other",
            caption="Two consumers by the clock of their SM: four tiles in the middle of one block, d = 128, recorded on an {machine}. Softmax from the moment when a consumer has its logits to its weights, then the wait for its turn and the logits of the next tile. From above: untold, in turns, and in turns with softmax beside a product.",
        )
    )
publish(
    tile={label.replace(" ", "_"): mean_clocks(label)[0] for label in CLOCKED},
    soft={label.replace(" ", "_"): mean_clocks(label)[1] for label in CLOCKED},
    apart={f"{label.replace(' ', '_')}_128": mean_clocks(label)[2] for label in CLOCKED if label != "one"}
    | {f"{label}_64": mean_clocks(label, 64)[2] for label in NARROW},
    narrow={label: mean_clocks(label, 64)[0] for label in NARROW},
    least={"one": 2 * clocks_of(128)[0], "two": 4 * clocks_of(128)[0], "narrow": 4 * clocks_of(64)[0]},
    model_one={"tile": 2 * clocks_of(128)[0] + clocks_of(128)[2], "busy": MODEL["one consumer"](128)},
    clocked={
        "products": mean_clocks("one")[0] - mean_clocks("one")[1],
        "busy": 2 * clocks_of(128)[0] / mean_clocks("one")[0],
        "busy_both": 4 * clocks_of(128)[0] / mean_clocks("both")[0],
    },
)

# %% [markdown]
# Why does one consumer miss its {{ model_one.busy | .0% }}? The model gave it {{ model_one.tile | , }} clocks for
# a tile, and it takes {{ tile.one | ,.0f }}: {{ soft.one | ,.0f }} between its logits and its weights in place of
# {{ clocks.softmax_128 }}, and {{ clocked.products | ,.0f }} from there to the next logits in place of
# {{ least.one | , }}. The model knows the rates of units, not how long an instruction waits for the one
# before. A consumer is one warp for each of an SM's four schedulers; while that warp waits for a maximum, a
# shuffle or the sums of a `wgmma`, its scheduler has no other. So the matrix units are busy for
# {{ clocked.busy | .0% }} of a tile.

# %% [markdown]
# A second consumer is that other warp. A tile for both takes {{ tile.untold | ,.0f }} clocks untold, and
# {{ tile.in_turns | ,.0f }} in turns. That is hardly a difference, since the two have drifted apart by themselves:
# {{ apart.untold_128 | .0% }} of a tile untold, {{ apart.in_turns_128 | .0% }} in turns. With softmax beside a
# product it is {{ tile.beside | ,.0f }} clocks untold, {{ apart.beside_128 | .0% }} apart, and
# {{ tile.both | ,.0f }} in turns. The matrix units allow {{ least.two | , }}: they are busy for
# {{ clocked.busy_both | .0% }} of the time.

# %% [markdown]
# With $d$ = 64 the stamps leave a riddle. The consumers of this block are {{ apart.beside_64 | .0% }} of a tile apart
# untold and {{ apart.both_64 | .0% }} in turns, and a tile takes {{ narrow.beside | ,.0f }} and
# {{ narrow.both | ,.0f }} clocks, where the matrix units allow {{ least.narrow | , }}. So turns don't help here,
# though the chart of rates has them ahead without a mask. The stamps are of one block, the first on its SM;
# whether later ones fall into step when nobody tells them, this record does not show.

# %% [markdown]
# How exact is it? The next cell ran on an H100 and compares Kernel 8, cuDNN and torch's unfused math
# backend with 64-bit floats: the largest error of each, in 16 heads of 1,000 queries and keys. Kernel 8 is left untold here;
# turns decide when a sum is made, not which. Where a mask leaves queries without a key, torch has no answer to
# compare with.

# %% fold="Code that compares errors on a GPU" needs="gpu" record="errors"
if gpu_here():
    import cupy
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    generator = cupy.random.default_rng(9)
    for name, stretch, causal, shift in (
        ("normal numbers", 1, False, 1000),
        ("a causal mask", 1, True, 0),
        ("queries thirty times as large", 30, False, 1000),
        ("queries without a key, and first tiles of minus infinity", 1, True, -300),
    ):
        drawn = {one: generator.standard_normal((16, 1000, 128), dtype=np.float32) for one in "QKV"}
        drawn["Q"] *= np.float32(stretch)
        bits = {one: bf16.bits(values) for one, values in drawn.items()}
        launch = of_hopper(turns=0)(N=1000, d=128, causal=causal, heads=16, shift=shift)
        given = {**bits, "L": cupy.zeros((16, 1000), np.float32), "O": cupy.zeros((16, 1000, 128), np.uint16)}
        given |= {"order": cupy.asarray(launch.case.values["order"])}
        values = {**launch.case.values, **given}
        arguments = [
            values[one.name].of(given[one.name[0].upper()]) if one.name.endswith("_map") else values[one.name]
            for one in launch.kernel.parameters
        ]
        launch.kernel(*arguments, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes)
        Q, K, V, O = (
            torch.as_tensor(given[one].view(np.int16), device="cuda").view(torch.bfloat16)[None]
            for one in "QKVO"
        )
        seen = torch.ones(1000, 1000, dtype=torch.bool, device="cuda").tril(shift if causal else 1000)
        S = (Q.double() @ K.double().mT * 128**-0.5).masked_fill(~seen, float("-inf"))
        exact = torch.nan_to_num(torch.softmax(S, dim=-1)) @ V.double()
        off = {"Kernel 8": (O.double() - exact).abs().max().item()}
        for label, backend in (("CUDNN", SDPBackend.CUDNN_ATTENTION), ("MATH", SDPBackend.MATH)):
            if shift >= 0:
                with sdpa_kernel(backend):
                    theirs = torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)
                off[label] = (theirs.double() - exact).abs().max().item()
        print(f"{name}: {', '.join(f'{label} off by {one:.3g}' for label, one in off.items())}")

# %% fold="Code of the numbers"
ERRORS = printed_rows("attention/hopper", "errors", r"Kernel 8 off by ([^,\s]+), CUDNN off by ([^,\s]+)")
NO_KEY = printed_rows("attention/hopper", "errors", r"Kernel 8 off by ([^,\s]+)$")
if ERRORS and NO_KEY:
    publish(
        errors={
            "most": max(off for off, *_ in ERRORS + NO_KEY),
            "worst_times": max(off / theirs for off, theirs in ERRORS),
            "no_key": NO_KEY[0][0],
        }
    )

# %% [markdown]
# The largest error is {{ errors.most | .1e }}, and the worst ratio of ours to cuDNN's is
# {{ errors.worst_times | .2f }}. With queries that see no key, and with first tiles that some rows see
# nothing of, it is {{ errors.no_key | .1e }}.

# %% [markdown]
# ## The whole way
#
# Here is every kernel for attention of this course, with what it computed when it was recorded. The first six
# use 32-bit floats and one head; Kernel 1 was too slow for the others' length. Kernels 7 and 8 use BF16 and more
# heads. So times compare only where problems are the same, and rates with care: more queries fill more SMs.

# %% fold="Code of the table"
WAY = (  # version, what is new, record, variant, N, heads; 1 head stands for 32-bit floats
    ("Kernel 1", "ten loops in one thread", "attention_one_thread", "kernel_1_one_thread", 256, 1),
    ("Kernel 2", "loops become axes", "attention_three_kernels", "kernel_2_three_kernels", 1024, 1),
    ("Kernel 3", "lanes along the queries", "attention_coalesced", "kernel_3_coalesced", 1024, 1),
    ("Kernel 4", "blocks share rows and sums", "attention_reduced", "kernel_4_reduced_by_blocks", 1024, 1),
    ("Kernel 5", "products in tiles", "attention_tiled", "kernel_5_tiles", 1024, 1),
    ("Kernel 6", "one pass; S and P never stored", "attention_flash", "kernel_6_flash", 1024, 1),
    ("Kernel 6", "the same", "attention_flash", "kernel_6_flash", 4096, 1),
    ("torch, three operations", "library", "attention_flash", "torch_three_operations", 4096, 1),
    ("Kernel 7", "matrix units by mma", "attention_mma", "kernel_7_32_queries_a_warp", 4096, 8),
    ("one consumer", "wgmma, copies by a producer", "attention_forward", "one_consumer", 4096, 8),
    ("taking turns", "a second consumer", "attention_forward", "taking_turns", 4096, 8),
    ("Kernel 8", "softmax beside a product, dealt out", "attention_forward", "dealt_out", 4096, 8),
    ("Kernel 8", "the same", "attention_forward", "dealt_out", 16384, 2),
    (FLASH_2, "library", "attention_forward", "flashattention_2_torch_sdpa", 16384, 2),
    (CUDNN, "library", "attention_forward", "cudnn_torch_sdpa", 16384, 2),
)


def on_the_way(record, variant, N, heads):
    """Microseconds, TFLOP/s and fraction of the peak of the units in use, as recorded; NaN if not."""
    size = f"n_{N}_d_128" + ("" if heads == 1 else "_causal_false")
    us = recorded(f"{record}.{variant}.{size}.median")
    tflop = 4 * heads * N * N * 128 / us / 1e6
    return us, tflop, tflop / GPU.peak_tflop_per_s["fp32" if heads == 1 else "bf16_matrix"]


def two_digits(value):
    """A number with two digits at least, and all digits in front of the point."""
    return f"{value:#.2g}" if value < 10 else f"{value:,.0f}"


FOUND = {(name, N): on_the_way(*of, N, heads) for name, _, *of, N, heads in WAY}
if np.isfinite(list(FOUND.values())).all():
    show(
        Table(
            ["version", "what is new", "numbers", "heads", "N", "µs", "TFLOP/s", "of the peak"],
            [
                [
                    name,
                    what,
                    "32-bit" if heads == 1 else "BF16",
                    heads,
                    N,
                    *(two_digits(one) for one in FOUND[name, N][:2]),
                    f"{two_digits(100 * FOUND[name, N][2])} %",
                ]
                for name, what, *_, N, heads in WAY
            ],
            caption="Attention from one thread to Kernel 8: d = 128, no mask, each row as its lesson recorded it on an {machine}. The peak is that of the data sheet, in FP32 for 32-bit floats and of the tensor cores for BF16.",
        )
    )
publish(
    way={
        "times": FOUND["Kernel 8", 4096][1] / FOUND["Kernel 1", 256][1] / 1e6,
        "six": FOUND["Kernel 6", 1024][1] / FOUND["Kernel 1", 256][1],
        "units": FOUND["Kernel 8", 4096][1] / FOUND["Kernel 6", 4096][1],
    }
)

# %% [markdown]
# From Kernel 1 to Kernel 8 the rate grows {{ way.times | .1f }} million times. {{ way.six | ,.0f }} times come with
# Kernel 6, which still multiplies 32-bit floats with ordinary instructions: threads, then reuse. The last
# {{ way.units | .0f }} times, from Kernel 6 to Kernel 8 at 4,096 queries, are matrix units, and all
# that it takes to keep them busy.

# %% [markdown]
# ## With many heads
#
# So far there were few heads. The authors of FlashAttention-3 time larger problems[^fa3]: always 16,384 tokens, cut
# into sequences of {{ many.shortest }} to {{ many.longest | , }}. A token has 2,048 numbers, so 16 heads with
# $d$ = 128 and 32 heads with $d$ = 64. What do you expect? With two heads under a causal mask, tiles scheduled in order left
# the busiest block with {{ dealt.order | .0% }} more work than an even split. With 16 heads of 16,384 queries it is
# {{ many.order | .1% }}, and {{ many.balanced | .1% }} if the longest tiles go first. Scheduling should gain less
# here, and the lead over cuDNN under a mask should shrink.
#
# [^fa3]: Shah and others, [FlashAttention-3](https://arxiv.org/abs/2407.08608), section 4.1 and figure 5, version 1.

# %% fold="Code of the measurement"
TOKENS = 2**14
CUTS = (512, 1024, 2048, 4096, 8192, 16384)
FLASH_3 = "FlashAttention-3 (fa3-fwd)"
BY_TOKENS = {
    "a block a tile": of_hopper(turns=0, deal=one_each),
    "dealt out": of_hopper(turns=0),
    "dealt out, in turns": of_hopper(turns=1),
}


def tokens_heads(N, d):
    """Heads of all sequences together; two for the simulator."""
    return 2 if N < 512 else TOKENS // N * 2048 // d


def cut(label):
    return lambda N, d, causal: BY_TOKENS[label](N=N, d=d, causal=causal, heads=tokens_heads(N, d))


def sequences(arrays, N, d):
    """Q, K and V as torch sees them: sequences, heads, queries or keys, numbers."""
    import torch

    shape = (-1, 2048 // d, N, d)
    bits = (torch.as_tensor(arrays[one].view(np.int16), device="cuda") for one in "QKV")
    return [one.view(torch.bfloat16).view(shape) for one in bits]


def by_sdpa(name):
    """torch's attention by one of its backends, on the same bits."""

    def made(arrays, N, d, causal):
        import cupy
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend, given = getattr(SDPBackend, name), sequences(arrays, N, d)

        def run():
            with sdpa_kernel(backend):
                found = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=causal)
            return {"O": cupy.asarray(found.view(torch.int16)).view(np.uint16)}

        return run

    return made


def flash_3(arrays, N, d, causal):
    """FlashAttention-3 from the package fa3-fwd, on the same bits, seen in its order of axes."""
    import cupy
    import torch
    from fa3_fwd_interface import flash_attn_func

    given = [one.transpose(1, 2) for one in sequences(arrays, N, d)]

    def run():
        found = flash_attn_func(*given, causal=causal)
        found = (found[0] if isinstance(found, tuple) else found).transpose(1, 2)
        return {"O": cupy.asarray(found.view(torch.int16)).view(np.uint16)}

    return run


def many_flop(N, d, causal):
    return flop_of(N, d, causal, tokens_heads)


MANY = measure(
    "attention_16k_tokens",
    variants={label: cut(label) for label in BY_TOKENS},
    cases=[{"N": N, "d": d, "causal": causal} for d, causal in KINDS.values() for N in CUTS],
    count_case={"N": 128, "d": 64, "causal": True},
    bytes=lambda N, d, causal: tokens_heads(N, d) * N * (4 * 2 * d + 4),
    flop=many_flop,
    arithmetic="bf16_matrix",
    counts=("sectors",),
    library={
        FLASH_2: by_sdpa("FLASH_ATTENTION"),
        CUDNN: by_sdpa("CUDNN_ATTENTION"),
        FLASH_3: flash_3,
    },
    reference=attended,
    tolerance=2**-7,
    within=8.0,
    reasons={"*": "What it should take"},
    fold="All rows",
)

# %% fold="Code of the tables"
PUBLISHED = {  # TFLOP/s of FlashAttention-3 on an H100 80GB SXM5, from the bars of figure 5
    (128, False): (467, 565, 625, 638, 646, 648),
    (128, True): (292, 423, 521, 579, 602, 616),
    (64, False): (333, 392, 460, 476, 496, 497),
    (64, True): (197, 265, 371, 420, 460, 473),
}
BY_CUT = rates(MANY, many_flop)


def many_share(label, over, d, causal):
    """Least and most of a rate as a share of another's, from 2,048 queries on."""
    return share_of(label, over, d, causal, CUTS[2:], BY_CUT)


if (FLASH_3, 4096, 128, False) in BY_CUT:
    for kind in KINDS.values():
        for rival in (eighth(*kind), CUDNN):
            assert many_share(rival, FLASH_3, *kind)["most"] < 1, "the text says who is fastest"
    show(
        Table(
            ["", "TFLOP/s", *(f"N = {N:,}" for N in CUTS)],
            [
                row
                for kind, (d, causal) in KINDS.items()
                for row in (
                    *(
                        [kind, name, *(round(BY_CUT[label, N, d, causal]) for N in CUTS)]
                        for name, label in (
                            ("a block a tile", "a block a tile"),
                            ("Kernel 8", eighth(d, causal)),
                            ("FlashAttention-2", FLASH_2),
                            ("cuDNN", CUDNN),
                            ("FlashAttention-3", FLASH_3),
                        )
                    ),
                    [kind, "published", *PUBLISHED[d, causal]],
                )
            ],
            caption="Rates by the length of a sequence, 16,384 tokens of 2,048 numbers in all, recorded on an H200. FlashAttention-3 is the package fa3-fwd 0.0.3. What its authors published was measured on an H100: the bars of figure 5 in the paper.",
        )
    )
publish(
    many={
        "shortest": CUTS[0],
        "longest": CUTS[-1],
        "order": longest(in_order, 16, 16384, True),
        "balanced": longest(dealt_out, 16, 16384, True),
    }
    | {
        f"{short}_{name}": many_share(eighth(*kind), over, *kind)
        for name, kind in KIND_NAMES.items()
        for short, over in (("cudnn", CUDNN), ("fa3", FLASH_3))
    }
    | {f"deal_{name}": many_share("dealt out", "a block a tile", *kind) for name, kind in KIND_NAMES.items()},
)

# %% [markdown]
# With $d$ = 128 and at least 2,048 queries, Kernel 8 runs on the H200 at {{ many.cudnn_d128.least | .0% }} to
# {{ many.cudnn_d128.most | .0% }} of cuDNN's rate without a mask, and at {{ many.cudnn_d128_causal.least | .0% }} to
# {{ many.cudnn_d128_causal.most | .0% }} under a causal mask. As predicted, the lead under a mask needed few heads. Scheduling
# tiles longest first still makes it {{ many.deal_d128_causal.least | .2f }} to
# {{ many.deal_d128_causal.most | .2f }} times as fast as one block per tile.
# With $d$ = 64 it reaches {{ many.cudnn_d64.least | .0% }} to {{ many.cudnn_d64.most | .0% }} of cuDNN's rate, and
# {{ many.cudnn_d64_causal.least | .0% }} to {{ many.cudnn_d64_causal.most | .0% }} under a mask.

# %% [markdown]
# From 2,048 queries on, FlashAttention-3 is the fastest on the H200. Kernel 8 reaches
# {{ many.fa3_d128.least | .0% }} to {{ many.fa3_d128.most | .0% }} of its rate with $d$ = 128, but only
# {{ many.fa3_d128_causal.least | .0% }} to {{ many.fa3_d128_causal.most | .0% }} under a causal mask. With $d$ = 64 it is
# {{ many.fa3_d64.least | .0% }} to {{ many.fa3_d64.most | .0% }}, and {{ many.fa3_d64_causal.least | .0% }} to
# {{ many.fa3_d64_causal.most | .0% }}. The package is newer than the paper, and at these lengths it is faster than the
# published bars. Why it loses less time under a mask, we haven't measured.

# %% [markdown]
# ## The answer
#
# At $N$ = 4,096 and $d$ = 128 one consumer reaches {{ seen.one | .0%  }} of the tensor cores' peak (data sheet), two
# reach {{ seen.two | .0%  }}, two in turns {{ seen.turns | .0%  }}, and with softmax beside the mean of the tile
# before it is {{ seen.beside | .0%  }} untold and {{ seen.both | .0%  }} in turns. Dealt out, Kernel 8
# does {{ seen.eight | .0f }} TFLOP/s, which is {{ seen.of_peak | .0% }}, and {{ seen.eight_long | .0f }} with
# 16,384 queries; it has {{ fast.lines }} lines.

# %% [markdown]
# With $d$ = 128 and 2,048 queries or more it passes cuDNN, called through torch SDPA:
# {{ cudnn.d128.least | .0% }} to {{ cudnn.d128.most | .0% }} of its rate. With 512 queries it stays behind,
# {{ cudnn_short.d128 | .0% }}, and so it does with $d$ = 64: {{ cudnn_short.d64 | .0% }} with 512 queries, then
# {{ cudnn.d64.least | .0% }} to {{ cudnn.d64.most | .0% }}. Under a causal mask it is ahead
# at every length, from 2,048 queries on at {{ cudnn.d128_causal.least | .0% }} to {{ cudnn.d128_causal.most | .0% }} with $d$ = 128 and
# {{ cudnn.d64_causal.least | .0% }} to {{ cudnn.d64_causal.most | .0% }} with $d$ = 64.

# %% [markdown]
# What passes the library there is the deal. With a block for each tile, in order, the same kernel reaches
# {{ cudnn_in_order.d128_causal.least | .0% }} to {{ cudnn_in_order.d128_causal.most | .0% }} of cuDNN's rate with
# $d$ = 128.

# %% [markdown]
# That lead needs few heads, which leave few query tiles per SM. With 16,384 tokens and all their heads, on an H200, Kernel 8 runs
# at {{ many.cudnn_d128_causal.least | .0% }} to {{ many.cudnn_d128_causal.most | .0% }} of cuDNN's rate under a mask, and
# FlashAttention-3 is faster than both: Kernel 8 reaches {{ many.fa3_d128.least | .0% }} of its rate with $d$ = 128
# and no mask, and {{ many.fa3_d128_causal.least | .0% }} under one.

# %% [markdown]
# ## Takeaways
#
# - Exponentials come from a unit of their own. What counts is when they run, not how many there are.
# - Sums of one `wgmma` are the left operand of the next: logits become weights in their registers. One
#   guard keeps rows without any key at zero weights.
# - Two overlaps hide softmax: behind the products of another consumer, which brought most, and behind
#   the consumer's own mean of the tile before. With $d$ = 64 and no mask, the latter slows an untold pair down.
# - With $d$ = 128 two consumers drift apart by themselves. Turns gain most with $d$ = 64, and cost next to
#   nothing where they don't gain.
# - Unequal pieces are dealt out longest first, by a list that the host makes. Under a causal mask with few
#   heads that brings more than turns.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def longest_first(costs, blocks):
    """The chapter's own way."""
    return dealt_out(dict(enumerate(costs)), blocks)


def round_robin(costs, blocks):
    return [list(range(len(costs)))[block::blocks] for block in range(blocks)]


def as_they_come(costs, blocks):
    lists, load = [[] for _ in range(blocks)], [0] * blocks
    for piece, cost in enumerate(costs):
        block = load.index(min(load))
        lists[block].append(piece)
        load[block] += cost
    return lists


def shortest_first(costs, blocks):
    lists, load = [[] for _ in range(blocks)], [0] * blocks
    for piece in sorted(range(len(costs)), key=lambda one: costs[one]):
        block = load.index(min(load))
        lists[block].append(piece)
        load[block] += costs[piece]
    return lists


def dealing_tests(deal):
    for heads, rows, blocks in ((1, 16, 5), (3, 32, 13), (4, 128, 132), (2, 7, 4)):
        costs = [i + 1 for _ in range(heads) for i in range(rows)]
        lists = deal(costs, blocks)
        assert sorted(piece for one in lists for piece in one) == list(range(len(costs))), (
            "not every piece once"
        )
        load = max(sum(costs[piece] for piece in one) for one in lists)
        least = max(*costs, sum(costs) / blocks)
        room = least + max(1, max(costs) // 8)
        assert load <= room, f"{heads} heads of {rows} tiles on {blocks} blocks: {load}, at most {room:.0f}"


exercise(
    "Deal out a triangle",
    """
    Under a causal mask query tile i goes through i + 1 key tiles. Write `deal(costs, blocks)`: it gets a list of
    costs and returns one list of piece numbers for each block, so that no block has much more to do than an
    even share. The tests add up the costs of every list.
    """,
    answer=longest_first,
    tests=dealing_tests,
    wrong=[round_robin, as_they_come, shortest_first],
    hint="A long piece at the end spoils a good split. A short one fits anywhere.",
)

# %% [markdown]
# One query instead of thousands turns all of this around: then there is next to nothing to multiply,
# and the keys have to be read. That is what a model does while it writes.
