# ---
# title: "FlashAttention on Hopper: ping-pong and overlap"
# needs: [matmul/hopper, attention/matrix_units]
# summary: "While softmax runs, the tensor cores wait. How much faster is attention if both run at the same time?"
# description: "Kernel 8 in six steps: wgmma with A from registers, V as an MN-major operand, two consumer warpgroups, overlap inside a warpgroup, ping-pong scheduling with named barriers, and a persistent tile scheduler."
# date: 2026-11-23
# tags: [FlashAttention, Hopper, wgmma, TMA, ping-pong]
# ---

# %% [markdown]
# FlashAttention alternates between GEMMs, which run on the tensor cores, and a softmax, which doesn't. On Hopper,
# `wgmma` is so fast that, judging by unit throughput alone, softmax takes {{ cycles.ratio | .0% }} as long as the GEMMs
# around it. A single warpgroup that alternates between the two reaches {{ hook.one | .0f }} TFLOP/s on an H200,
# {{ hook.one_of_peak | .0%}} of the data sheet's peak. The last kernel on this page does the same arithmetic *in a
# different order* and reaches {{ hook.eight | .0f }}.
#
# That kernel, *Kernel 8*, uses the ideas of [FlashAttention-3](https://arxiv.org/abs/2407.08608) by Shah et al.

# %% fold="Imports, and code of the figure"
import heapq

import numpy as np

from tilewise import Kernel, Table, bf16, parallel, publish, show, tensor_map, tiles
from tilewise.figures import Span, bars, timeline
from tilewise.kernel.edits import edited
from tilewise.measurements import complete, printed_rows, recorded
from tilewise.measurements.attention import DIFFICULT, bf16_inputs, check_difficult, right_answer
from tilewise.models import device

H100 = device("H100 SXM")  # an H200 has the same SMs
MACHINE = "NVIDIA H200"  # FlashAttention-3 was timed there
PEAK = H100.peak_tflop_per_s["bf16_matrix"]
STEPS = {
    "1 consumer warpgroup": "one_consumer",
    "2 consumer warpgroups": "two_consumers",
    "overlap inside a warpgroup": "overlap",
    "+ ping-pong": "overlap_ping_pong",
    "+ longest tile first: Kernel 8": "overlap_ping_pong_longest_first",
    "FlashAttention-2": "flashattention_2_torch_sdpa",
    "cuDNN": "cudnn_torch_sdpa",
}


def recorded_us(experiment, variant, N, d, causal):
    """Microseconds as recorded on an H200; NaN where they are not."""
    size = f"n_{N}_d_{d}_causal_{str(causal).lower()}"
    return recorded(f"{experiment}.{variant}.{size}.median", device=MACHINE)


def rate(variant, N=4096, d=128, causal=False):
    """TFLOP/s as recorded, with 2**22 elements in each array."""
    pairs = N * (N + 1) // 2 if causal else N * N
    us = recorded_us("attention_forward", variant, N, d, causal)
    return 4 * (2**22 // (N * d)) * pairs * d / us / 1e6


AT_4096 = {name: rate(variant) for name, variant in STEPS.items()}
if complete(*AT_4096.values()):
    assert AT_4096["+ longest tile first: Kernel 8"] > AT_4096["cuDNN"], "the text says: faster than cuDNN"
    show(
        bars(
            AT_4096,
            x="throughput [TFLOP/s]",
            form=".0f",
            roles=dict.fromkeys(AT_4096, "measured") | {"FlashAttention-2": "block", "cuDNN": "block"},
            title="The second warpgroup and the overlap bring the largest gains",
            caption="Forward pass with 8 heads, N = 4,096, d = 128 and no mask, recorded on an H200. FlashAttention-2 and cuDNN are called through PyTorch.",
        )
    )
publish(
    hook={
        "one": AT_4096["1 consumer warpgroup"],
        "one_of_peak": AT_4096["1 consumer warpgroup"] / PEAK,
        "eight": AT_4096["+ longest tile first: Kernel 8"],
        "eight_of_peak": AT_4096["+ longest tile first: Kernel 8"] / PEAK,
    }
)

# %% [markdown]
# ## Two units: one for GEMMs, one for exponentials
#
# Take a tile of 64 queries and 128 keys. Its two GEMMs, $QK^\top$ and $PV$, run on the tensor cores. Between them, each
# of its 8,192 scores needs an exponential, and an SM starts 16 `ex2` per cycle.[^ex2]
#
# [^ex2]: [CUDA C++ Programming Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#arithmetic-instructions),
#     throughput of native arithmetic instructions, compute capability 9.0.

# %% fold="Code of the table"
A_CLOCK = 2 * H100.fma_per_sm_clock["bf16_matrix"]


def clocks_of(d):
    """Cycles of an SM for 64 queries and 128 keys: one GEMM, the exponentials, all of softmax."""
    product = 2 * 64 * 128 * d // A_CLOCK
    exponentials = 64 * 128 // 16
    rest = 64 + 32 + d // 2  # instructions of a warp: maxima before; conversions and rescaling after
    return product, exponentials, exponentials + rest


show(
    Table(
        ["d", "both GEMMs", "exponentials", "all of softmax", "tensor cores busy, at best"],
        [
            [d, 2 * product, exponentials, softmax, f"{2 * product / (2 * product + softmax):.0%}"]
            for d, (product, exponentials, softmax) in ((d, clocks_of(d)) for d in (64, 128))
        ],
        caption="Cycles of an SM per tile of 64 queries and 128 keys, computed from the throughputs of its units. At best: if GEMMs and softmax never overlap. Softmax includes maxima, conversions and rescaling.",
    )
)
publish(
    cycles={
        "ratio": clocks_of(128)[2] / (2 * clocks_of(128)[0]),
        "tile": 2 * clocks_of(128)[0] + clocks_of(128)[2],
    }
)

# %% [markdown]
# ## RS-wgmma: P stays in registers
#
# Start with a kernel that can't overlap anything: one warpgroup, 64 queries, a single key tile. For now, V is stored
# transposed, as `[d][keys]`, so that all operands are K-major. Between the loads and the stores, there are three steps.
#
# 1. $S = QK^\top$. Q and K are in shared memory, so this is the `wgmma` of the GEMM, which CUTLASS calls the *SS* form.
# 2. Softmax, in place. [Four lanes share a row](../matmul/wgmma.py#the-accumulator-layout), so two shuffles give a row's
#    maximum.
# 3. $O = PV$. P is the left operand, and it's already in registers. The *RS* form of `wgmma` reads operand A from
#    registers, in [exactly the layout of an
#    accumulator](../matmul/wgmma.py#a-from-registers-d-of-one-wgmma-is-a-of-the-next). Round neighbouring pairs to
#    BF16, and P never touches shared memory.
#
# ??? definition "RS-wgmma | RS form"
#     `wgmma` with operand A in registers and B in shared memory. With both in shared memory it's the SS form.


# %% fold="The helper functions: mask, softmax, epilogue"
OPTIONS = ("-std=c++17", "-arch=sm_90a")
SHARED = r"""
#include "hopper.cuh"
#define KEYS 128                      // keys per tile
#define BOXES (D / 64)                // boxes of 64 columns per tile
#define Q_BYTES (64 * D * 2)          // queries of one consumer warpgroup
#define TILE_BYTES (KEYS * D * 2)     // a tile of K or of V

#define arrive(bar) mbarrier_arrive(bar)
// RS: P of 64 queries and 16 keys, from registers, times 16 keys and D columns of V
#if D == 128
#define wgmma_rs wgmma_m64n128k16_rs_mn
#else
#define wgmma_rs wgmma_m64n64k16_rs_mn
#endif
// [turns
// Ping-pong of the consumer warpgroups 1 and 2. Consumer 1 begins.
static __device__ void take_turn(int group) {
    if (TURNS) asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory");
}
static __device__ void pass_turn(int group) {
    if (TURNS) asm volatile("bar.arrive %0, 256;" :: "r"(4 - group) : "memory");
}
// turns]
// how many key tiles the rows from `first` on see: at least one
static __device__ int tiles_for(int first, int rows, int M, int shift) {
    int end = CAUSAL ? min(M, first + rows + shift) : M;
    return max(1, (end + KEYS - 1) / KEYS);
}
// [mask
// scores of the tile from `key` on that the two rows of a lane must not see become -infinity
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
// a lane's two rows of scores become probabilities; alpha rescales earlier sums
static __device__ void online_softmax_step(float (&s)[64], float (&row_max)[2],
                                           float (&sum)[2], float (&alpha)[2],
                                           float scale2) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float new_max = row_max[r];
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4)
            new_max = fmaxf(new_max, fmaxf(s[i], s[i + 1]));
        new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, 1));
        new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, 2));
        float base = new_max == -INFINITY ? 0.0f : new_max;  // no key yet
        alpha[r] = exp2f((row_max[r] - base) * scale2);
        row_max[r] = new_max;
        sum[r] *= alpha[r];
        base *= scale2;
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4) {
            s[i] = exp2f(s[i] * scale2 - base);
            s[i + 1] = exp2f(s[i + 1] * scale2 - base);
            sum[r] += s[i] + s[i + 1];
        }
    }
}
// softmax]
static __device__ void rescale(float (&o)[D / 2], const float (&alpha)[2]) {
    #pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] *= alpha[i / 2 % 2];
}
// accumulators to operand A of the next wgmma: two neighbouring columns per register
static __device__ void pack(unsigned (&p)[32], const float (&s)[64]) {
    #pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = pack_bf16x2(s[2 * i], s[2 * i + 1]);
}
// S = Q K^T, and O += P V or O = P V, of a tile
static __device__ void qk_gemm(float (&s)[64], u64 q, u64 k) {
    #pragma unroll
    for (int i = 0; i < D / 16; ++i)
        wgmma_m64n128k16(s, q + (i / 4 * 8192 + i % 4 * 32 >> 4),
               k + (i / 4 * KEYS * 128 + i % 4 * 32 >> 4), i);
}
// [pv
static __device__ void pv_gemm(float (&o)[D / 2], const unsigned (&p)[32], u64 v,
                                  int accumulate) {
    #pragma unroll
    for (int i = 0; i < KEYS / 16; ++i)  // New: 16 rows of V, 2,048 bytes
        wgmma_rs(o, &p[4 * i], v + (i * 2048 >> 4), accumulate | i);
}
// pv]
"""
STORE_ROWS = r"""
// O = o / sum, and L, for a lane's two rows; rows from N on don't exist
static __device__ void store_rows(Bf16* O, float* L, const float (&o)[D / 2], const float (&row_max)[2],
                                  const float (&row_sum)[2], int row, int head, int N, float scale) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float z = row_sum[r];  // of this lane's columns
        z += __shfl_xor_sync(~0u, z, 1);
        z += __shfl_xor_sync(~0u, z, 2);
        float inv_sum = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
        size_t i = (size_t)head * N + row + 8 * r;
        if (row + 8 * r >= N) continue;
        if (threadIdx.x % 4 == 0) L[i] = z > 0.0f ? row_max[r] * scale + logf(z) : -INFINITY;
        #pragma unroll
        for (int n = 2 * r; n < D / 2; n += 4)
            *(__nv_bfloat162*)&O[i * D + n / 4 * 8 + threadIdx.x % 4 * 2] =
                __floats2bfloat162_rn(o[n] * inv_sum, o[n + 1] * inv_sum);
    }
}
"""
HELPERS = SHARED + STORE_ROWS
TILE_DEFINES = {"D": 64, "CAUSAL": 0, "TURNS": 0}


# %% tab="Pseudocode"
def one_tile_rs(Q, K, Vt, O, L, scale):
    for h in parallel(len(Q)):
        # [tile
        s = scale * Q[h] @ K[h].T
        m = s.max(axis=1)
        p = np.exp(s - m[:, None])
        z = p.sum(axis=1)
        o = p @ Vt[h].T
        # tile]
        L[h] = m + np.log(z)
        O[h] = o / z[:, None]


# %% tab="CUDA C"
ONE_TILE_RS = Kernel(
    HELPERS
    + r"""
// D += A B, 64 x 64 x 16: A from registers, B in shared memory and K-major.
static __device__ void wgmma_m64n64k16_rs(float (&d)[32], const unsigned* a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
        : HOPPER_D32 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
// O = softmax(scale Q K^T) V of one key tile; L: log-sum-exp of each row. No mask. sm_90a.
// Q, K, O: [head][row][64], Vt: [head][64][key], BF16; L: [head][N]. Any N; M a multiple of 8, at most 128.
// Boxes of 1 x 64 x 64, for K 1 x 128 x 64; 128-byte swizzle.
// Grid: ceil(N / 64) x heads. Block: 128. Dynamic shared memory: 40 KB.
extern "C" __global__ void __launch_bounds__(128)
one_tile_rs(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
            const __grid_constant__ TensorMap vt_map, Bf16* O, float* L, int N, int M, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 full;
    unsigned char *q = smem, *k = q + Q_BYTES, *vt = k + TILE_BYTES;
    int first = blockIdx.x * 64, head = blockIdx.y;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, Q_BYTES + 2 * TILE_BYTES);
        tma_load_3d(q, &q_map, 0, first, head, &full);
        tma_load_3d(k, &k_map, 0, 0, head, &full);
        for (int c = 0; c < 2; ++c)  // 64 keys each
            tma_load_3d(vt + c * 8192, &vt_map, 64 * c, 0, head, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float s[64], o[D / 2], alpha[2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};
    int row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    // [tile
    wgmma_fence();
    qk_gemm(s, descriptor(q, 16, 1024), descriptor(k, 16, 1024));  // SS
    wgmma_commit();
    wgmma_wait<0>(s);
    mask(s, 0, row, M, 0);  // keys from M on
    online_softmax_step(s, row_max, row_sum, alpha, scale * 1.44269504f);
    unsigned p[32];
    pack(p, s);  // New: to BF16, two neighbours per register
    wgmma_fence();  // New: p was written by ordinary instructions
    #pragma unroll
    for (int i = 0; i < KEYS / 16; ++i)  // New: RS, 16 keys at a time
        wgmma_m64n64k16_rs(o, &p[4 * i], descriptor(vt + i / 4 * 8192 + i % 4 * 32, 16, 1024), i);
    wgmma_commit();
    wgmma_wait<0>(o);
    // tile]
    store_rows(O, L, o, row_max, row_sum, row, head, N, scale);
}
""",
    defines=TILE_DEFINES,
    options=OPTIONS,
)

# %%
ONE_TILE_RS.region("tile")

# %% [markdown]
# Run it: 64 queries and 96 keys with $d$ = 64. Q and K are zero, so every key has the same weight, and each row of O is the
# mean of V's rows. Row *j* of V holds the number *j* in every column.

# %%
q_bits, k_bits = bf16.bits(np.zeros((1, 64, 64))), bf16.bits(np.zeros((1, 96, 64)))
vt_bits = bf16.bits(np.arange(96.0)[None, None, :].repeat(64, axis=1))
out, lse = np.zeros((1, 64, 64), np.uint16), np.zeros((1, 64), np.float32)
swizzled = {"swizzle": 128, "dtype": "bfloat16"}
q_box = tensor_map(q_bits, box=(1, 64, 64), **swizzled)
k_box = tensor_map(k_bits, box=(1, 128, 64), **swizzled)
vt_box = tensor_map(vt_bits, box=(1, 64, 64), **swizzled)
ONE_TILE_RS(q_box, k_box, vt_box, out, lse, 64, 96, 0.125, grid=(1, 1), block=128, shared_bytes=640 * 64)
print(bf16.values(out)[0, 63, 5], "= the mean of 0 to 95")

# %% [markdown]
# The tensor maps have three dimensions: head, row and column. With two, a box at the end of one head would read the
# first rows of the next. With three, the TMA fills everything past the end of the head with zeros. But a key of zeros
# still has a score, 0, so `mask` sets the scores of keys that don't exist to −∞.
#
# The second `wgmma_fence` is easy to forget: ordinary instructions have just written `p`, and `wgmma` is about to read it. Without it, the
# simulator reports:


# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div, expect_hazard, normal


def small_case(N, M, d, heads=2, stretch=1.0, transposed=False):
    """A launch of one warpgroup per 64 queries; V is stored transposed if the kernel wants it so."""
    inputs_of = bf16_inputs(N, d, M, heads, stretch=stretch)
    boxes = {"q_map": ("Q", 64), "k_map": ("K", 128), "v_map": ("V", 128)}
    if transposed:
        del inputs_of["V"], boxes["v_map"]
        inputs_of["Vt"], boxes["vt_map"] = normal(heads, d, M, dtype="bfloat16"), ("Vt", d)
    return case(
        **inputs_of,
        **{
            name: tensor_map(array, box=(1, high, 64), swizzle=128, dtype="bfloat16")
            for name, (array, high) in boxes.items()
        },
        grid=(ceil_div(N, 64), heads),
        block=128,
        shared_bytes=640 * d,
    )


NEAR = {"rtol": 2**-7, "atol": 2**-7}
agree(
    one_tile_rs,
    ONE_TILE_RS,
    [small_case(70, 104, 64, transposed=True), small_case(33, 128, 64, stretch=20.0, transposed=True)],
    **NEAR,
)
expect_hazard(
    edited(ONE_TILE_RS, ("    wgmma_fence();  // New: p was", "    // p was")).on(
        small_case(64, 104, 64, transposed=True)
    ),
    "accumulator",
)

# %% [markdown]
# ## V as an MN-major operand
#
# Nobody stores V transposed. In $QK^\top$, the sum runs over $d$, which is contiguous in both Q and K: both are
# K-major. In $PV$, the sum runs over the keys, and V stores one key per row. So, as stored, V is MN-major, like B in
# the GEMM. Set the transpose bit to 1, leave SBO at 1,024, and change the other offsets:
#
# | operand | sum runs over | LBO | step per 16 elements of the sum |
# |---|---|---|---|
# | Q, 64 × $d$ | $d$, along the row | – | 32 bytes; 8,192 to the next 64 columns |
# | K, 128 × $d$ | $d$, along the row | – | 32 bytes; 16,384 to the next 64 columns |
# | V transposed, 64 × 128 | keys, along the row | – | 32 bytes; 8,192 to the next 64 keys |
# | V, 128 × $d$, MN-major | keys, down the rows | 16,384 | 16 rows: 2,048 bytes |
#
# In the kernel, V's box and descriptor change, and so does the offset from one `wgmma` to the next:


# %% fold="The kernel that reads V as it's stored"
def one_tile(Q, K, V, O, L, scale):
    one_tile_rs(Q, K, np.swapaxes(V, 1, 2), O, L, scale)


ONE_TILE_CUDA = r"""
// O = softmax(scale Q K^T) V of one key tile; L: log-sum-exp of each row. No mask. sm_90a.
// Q, K, V, O: [head][row][D], BF16, D = 64 or 128; L: [head][N]. Any N; M from 1 to 128.
// Boxes: 1 x 64 x 64 of Q, 1 x 128 x 64 of K and V, 128-byte swizzle.
// Grid: ceil(N / 64) x heads. Block: 128. Dynamic shared memory: 640 * D bytes.
extern "C" __global__ void __launch_bounds__(128)
one_tile(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
         const __grid_constant__ TensorMap v_map, Bf16* O, float* L,
         int N, int M, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 full;
    unsigned char *q = smem, *k = q + Q_BYTES, *v = k + TILE_BYTES;
    int first = blockIdx.x * 64, head = blockIdx.y;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        mbarrier_arrive_expect_tx(&full, Q_BYTES + 2 * TILE_BYTES);
        for (int c = 0; c < BOXES; ++c) {
            tma_load_3d(q + c * 8192, &q_map, 64 * c, first, head, &full);
            tma_load_3d(k + c * KEYS * 128, &k_map, 64 * c, 0, head, &full);
            tma_load_3d(v + c * KEYS * 128, &v_map, 64 * c, 0, head, &full);  // New: rows are keys
        }
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float s[64], o[D / 2], alpha[2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};
    int row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    // [tile
    wgmma_fence();
    qk_gemm(s, descriptor(q, 16, 1024), descriptor(k, 16, 1024));  // SS
    wgmma_commit();
    wgmma_wait<0>(s);
    mask(s, 0, row, M, 0);  // keys from M on
    online_softmax_step(s, row_max, row_sum, alpha, scale * 1.44269504f);
    unsigned p[32];
    pack(p, s);  // to BF16, two neighbours per register
    wgmma_fence();  // p was written by ordinary instructions
    pv_gemm(o, p, descriptor(v, KEYS * 128, 1024), 0);  // New: RS, V is MN-major
    wgmma_commit();
    wgmma_wait<0>(o);
    // tile]
    store_rows(O, L, o, row_max, row_sum, row, head, N, scale);
}
"""
ONE_TILE = Kernel(
    HELPERS + ONE_TILE_CUDA,
    defines=TILE_DEFINES,
    options=OPTIONS,
)


def with_width(of, width):
    return Kernel(of.source, of.name, defines={**of.defines, "D": width}, options=OPTIONS)


WIDE_TILE = with_width(ONE_TILE, 128)
agree(one_tile, ONE_TILE, [small_case(70, 100, 64), small_case(33, 128, 64, stretch=20.0)], **NEAR)
agree(one_tile, WIDE_TILE, [small_case(70, 57, 128), small_case(9, 128, 128)], **NEAR)

# %%
ONE_TILE.region("pv")

# %% [markdown]
# A tile of V with $d$ = 128 is two sub-tiles of 64 columns, and LBO is the distance between them. With $d$ = 64
# there's only one, and a wrong LBO goes unnoticed until somebody compiles for 128.

# %% fold="Code of the check"
WRONG_LBO = ("descriptor(v, KEYS * 128, 1024)", "descriptor(v, 16, 1024)")
for of, width in ((ONE_TILE, 64), (WIDE_TILE, 128)):
    got = edited(of, WRONG_LBO).on(small_case(64, 128, width)).run()
    off = np.abs(bf16.values(got["O"]) - right_answer(got)["O"]).max() > 2**-6
    assert off == (width == 128), "the text: a wrong LBO goes unnoticed with d = 64 only"

# %% [markdown]
# ## A loop over key tiles
#
# More keys need a loop and [online softmax](flash_forward.py): `online_softmax_step` returns the factor `alpha`, and
# the accumulators of O are multiplied by it before the next $PV$ adds to them.

# %% fold="The kernel with a loop"
ONE_WARPGROUP_CUDA = r"""
// As one_tile, for any number of keys: a loop over tiles of 128, with one buffer for K and V.
extern "C" __global__ void __launch_bounds__(128)
one_warpgroup(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
              const __grid_constant__ TensorMap v_map, Bf16* O, float* L, int N, int M, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 q_full, full;
    unsigned char *q = smem, *k = q + Q_BYTES, *v = k + TILE_BYTES;
    int first = blockIdx.x * 64, head = blockIdx.y;
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        mbarrier_init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        mbarrier_arrive_expect_tx(&q_full, Q_BYTES);
        for (int c = 0; c < BOXES; ++c) tma_load_3d(q + c * 8192, &q_map, 64 * c, first, head, &q_full);
    }
    __syncthreads();
    mbarrier_wait(&q_full, 0);
    float s[64], o[D / 2], alpha[2], row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {};
    unsigned p[32];
    int row = first + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    // [loop
    for (int t = 0; t < (M + KEYS - 1) / KEYS; ++t) {  // New
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, 2 * TILE_BYTES);
            for (int c = 0; c < BOXES; ++c) {
                tma_load_3d(k + c * KEYS * 128, &k_map, 64 * c, t * KEYS, head, &full);
                tma_load_3d(v + c * KEYS * 128, &v_map, 64 * c, t * KEYS, head, &full);
            }
        }
        mbarrier_wait(&full, t % 2);  // New: a phase per tile
        wgmma_fence();
        qk_gemm(s, descriptor(q, 16, 1024), descriptor(k, 16, 1024));
        wgmma_commit();
        wgmma_wait<0>(s);
        mask(s, t * KEYS, row, M, 0);
        online_softmax_step(s, row_max, row_sum, alpha, scale * 1.44269504f);
        if (t) rescale(o, alpha);  // New
        pack(p, s);
        wgmma_fence();
        pv_gemm(o, p, descriptor(v, KEYS * 128, 1024), t);  // New: t > 0: +=
        wgmma_commit();
        wgmma_wait<0>(o);
        __syncthreads();  // New: every warp has read the buffers
    }
    // loop]
    store_rows(O, L, o, row_max, row_sum, row, head, N, scale);
}
"""
ONE_WARPGROUP = Kernel(HELPERS + ONE_WARPGROUP_CUDA, defines=TILE_DEFINES, options=OPTIONS)


def one_warpgroup(Q, K, V, O, L, scale):
    for h in parallel(len(Q)):
        m, z, o = np.full(len(Q[h]), -np.inf), np.zeros(len(Q[h])), np.zeros(Q[h].shape)
        for own in tiles(len(K[h]), 128):
            s = scale * Q[h] @ K[h][own.start : own.stop].T
            row_max = np.maximum(m, s.max(axis=1))
            p, alpha = np.exp(s - row_max[:, None]), np.exp(m - row_max)
            m, z = row_max, alpha * z + p.sum(axis=1)
            o = alpha[:, None] * o + p @ V[h][own.start : own.stop]
        O[h], L[h] = o / z[:, None], m + np.log(z)


agree(one_warpgroup, ONE_WARPGROUP, [small_case(70, 300, 64), small_case(64, 129, 64, stretch=20.0)], **NEAR)
agree(
    one_warpgroup,
    with_width(ONE_WARPGROUP, 128),
    [small_case(40, 200, 128), small_case(70, 150, 128)],
    **NEAR,
)

# %%
ONE_WARPGROUP.region("loop")

# %% [markdown]
# This is FlashAttention on `wgmma`, complete and correct. But every step waits for the one before: while the tensor
# cores work, the other units wait, and vice versa.

# %% [markdown]
# ## Two consumer warpgroups
#
# As in [the GEMM](../matmul/hopper.py#warp-specialisation-producer-and-consumer-warpgroups), let a producer warpgroup
# load and two consumer warpgroups compute. Each consumer has its own 64 queries, and both read the same tiles of K and
# V. While one computes a softmax, the other may use the tensor cores.
#
# K and V have separate mbarriers: $QK^\top$ can start as soon as K has arrived, and K's buffer is free again long
# before V's. The producer loads the key tiles from last to first, so that only the first iterations need a mask.

# %% fold="The whole kernel, for one or two consumers"
FLASH_WGMMA = Kernel(
    SHARED
    + r"""
// O = softmax(scale Q K^T) V and the log-sum-exp L: a producer warpgroup and CONSUMERS consumers with
// 64 queries each. Q, O: [head][N][D], K, V: [head / share][M][D], BF16. L: [head][N] floats. D = 64 or
// 128; any N, M >= 1. Maps as for one_tile. share query heads use one head of K and V. CAUSAL: query i
// sees keys up to i + shift; a row without a key gets O = 0 and L = -infinity. TURNS needs CONSUMERS = 2.
// Grid: ceil(N / (64 * CONSUMERS)) x heads. Block: 128 * (1 + CONSUMERS). Dynamic shared memory:
// 128 * D * (CONSUMERS + 8) bytes, D = 128 with at most 2 consumers. sm_90a.
extern "C" __global__ void __launch_bounds__(128 + 128 * CONSUMERS, 1)
flash_wgmma(const __grid_constant__ TensorMap q_map,
            const __grid_constant__ TensorMap k_map,
            const __grid_constant__ TensorMap v_map, Bf16* O, float* L,
            int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 q_full, k_full[2], k_empty[2], v_full[2], v_empty[2];
    unsigned char *q = smem, *k = q + CONSUMERS * Q_BYTES, *v = k + 2 * TILE_BYTES;
    int group = threadIdx.x / 128, head = blockIdx.y;
    int first = blockIdx.x * 64 * CONSUMERS;
    int tiles = tiles_for(first, 64 * CONSUMERS, M, shift);
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        for (int b = 0; b < 2; ++b) {
            mbarrier_init(&k_full[b], 1);
            mbarrier_init(&v_full[b], 1);
            mbarrier_init(&k_empty[b], CONSUMERS);
            mbarrier_init(&v_empty[b], CONSUMERS);
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
            mbarrier_arrive_expect_tx(&q_full, CONSUMERS * Q_BYTES);
            for (int g = 0; g < CONSUMERS; ++g)
                for (int c = 0; c < BOXES; ++c)
                    tma_load_3d(q + g * Q_BYTES + c * 8192, &q_map, 64 * c, first + 64 * g,
                         head, &q_full);
            for (int t = 0; t < tiles; ++t) {  // from the last tile on
                int b = t % 2, row = (tiles - 1 - t) * KEYS;
                mbarrier_wait(&k_empty[b], t / 2 % 2 ^ 1);
                mbarrier_arrive_expect_tx(&k_full[b], TILE_BYTES);
                for (int c = 0; c < BOXES; ++c)
                    tma_load_3d(k + b * TILE_BYTES + c * KEYS * 128, &k_map, 64 * c, row,
                         head / share, &k_full[b]);
                mbarrier_wait(&v_empty[b], t / 2 % 2 ^ 1);
                mbarrier_arrive_expect_tx(&v_full[b], TILE_BYTES);
                for (int c = 0; c < BOXES; ++c)
                    tma_load_3d(v + b * TILE_BYTES + c * KEYS * 128, &v_map, 64 * c, row,
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
        float s[64], o[D / 2], row_max[2] = {-INFINITY, -INFINITY},
              sum[2] = {}, alpha[2];
        float scale2 = scale * 1.44269504f;  // exp(x) = exp2(x log2 e)
        unsigned p[32];
        u64 mine = descriptor(q + (group - 1) * Q_BYTES, 16, 1024);
        u64 keys = descriptor(k, 16, 1024),
            values = descriptor(v, KEYS * 128, 1024);
        mbarrier_wait(&q_full, 0);
        if (group == 2) pass_turn(group);
        take_turn(group);
        for (int t = 0; t < tiles; ++t) {
            int b = t % 2, key = (tiles - 1 - t) * KEYS;
            mbarrier_wait(&k_full[b], t / 2 % 2);  // New: from the producer
            wgmma_fence();
            qk_gemm(s, mine, keys + b * (TILE_BYTES >> 4));
            wgmma_commit();
            pass_turn(group);
            wgmma_wait<0>(s);
            wgmma_wait<0>(o);
            if (leader) arrive(&k_empty[b]);
            if (leader && t) arrive(&v_empty[b ^ 1]);  // New
            if (key + KEYS > M || (CAUSAL && key + KEYS > first + shift))
                mask(s, key, row, M, shift);
            online_softmax_step(s, row_max, sum, alpha, scale2);
            if (t) rescale(o, alpha);
            pack(p, s);
            mbarrier_wait(&v_full[b], t / 2 % 2);
            take_turn(group);
            wgmma_fence();
            pv_gemm(o, p, values + b * (TILE_BYTES >> 4), t);
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
            float inv_sum = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            size_t i = (size_t)head * N + row + 8 * r;
            if (row + 8 * r >= N) continue;
            if (lane % 4 == 0) L[i] = z > 0.0f ? row_max[r] * scale + logf(z) : -INFINITY;
            #pragma unroll
            for (int n = 2 * r; n < D / 2; n += 4)
                *(__nv_bfloat162*)&O[i * D + n / 4 * 8 + lane % 4 * 2] =
                    __floats2bfloat162_rn(o[n] * inv_sum, o[n + 1] * inv_sum);
        }
        // write]
    }
}
""",
    defines={"D": 128, "CAUSAL": 0, "CONSUMERS": 2, "TURNS": 0},
    options=OPTIONS,
)

# %%
FLASH_WGMMA.region("consumer")

# %% [markdown]
# The consumer lets $PV$ run until the next scores are needed, and its leader signals `k_empty` and `v_empty` as soon as
# a GEMM has read its buffer. `take_turn` and `pass_turn` compile to nothing as long as `TURNS` is 0; ignore them until
# the section on ping-pong.
#
# Leave out the wait for `k_full`, or both calls to `wgmma_wait<0>` before the softmax, and the simulator reports:


# %% fold="Code of the checks"
from tilewise import check, gpu_here, output


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
check_difficult(ONE, "of one consumer", ("a causal mask", "large logits"))
check_difficult(TWO, "of two consumers")
check_difficult(TURNS, "of two consumers, ping-pong")
no_key = TURNS(**DIFFICULT["queries without a key"])
spoilt = edited(no_key, ("new_max == -INFINITY ? 0.0f : new_max;", "new_max;")).run()
check(
    np.isnan(bf16.values(spoilt["O"])).any(axis=-1)[0],
    np.arange(150) < 80,
    name="rows that are NaN without the guard: those without a key",
)
ragged = TURNS(**DIFFICULT["keys that no tile divides"])
WAIT = "            wgmma_wait<0>(s);\n            wgmma_wait<0>(o);\n"
expect_hazard(
    edited(ragged, ("mbarrier_wait(&k_full[b], t / 2 % 2);", "")), "undelivered", line_with="qk_gemm(s, mine"
)
expect_hazard(edited(ragged, (WAIT, "")), "accumulator", line_with="mask(s, key, row")

# %% [markdown]
# Does the second consumer fill the gaps? In one block, each consumer reads its SM's clock twice per tile: when its
# scores are complete, and when P is packed.

# %% fold="Code of the figure"
STAMPED = printed_rows("attention/hopper", "clocks", r"^([^,]+), (\d+): (.+)$", MACHINE)
CLOCKS = {  # by kernel and d, cycles of (tile, consumer, scores or probabilities)
    place: np.array(
        [
            np.reshape([int(one) for one in numbers.split(",")], (-1, 2))
            for other, _, numbers in STAMPED
            if other == place
        ]
    )
    for place, *_ in STAMPED
}


def mean_clocks(name, width=128):
    """Cycles per tile, those from scores to P, and the offset of consumer 2 as a fraction of a tile."""
    own = CLOCKS.get(f"{name} {width}", np.full((2, 1, 2), np.nan))
    whole, soft = np.diff(own[:, :, 0], axis=0).mean(), (own[:, :, 1] - own[:, :, 0]).mean()
    behind = (own[:, -1, 0] - own[:, 0, 0]) / whole % 1
    return float(whole), float(soft), float(np.minimum(behind, 1 - behind).mean())


def spans_of(name, title, begin=4, end=7):
    """Softmax from scores to P; the rest is waiting for GEMMs, loads and turns."""
    own, spans = CLOCKS[f"{name} 128"], []
    start = int(own[begin].min())
    for consumer in range(own.shape[1]):
        for tile in range(begin, end):
            scores, packed = (int(one) - start for one in own[tile, consumer])
            after = int(own[tile + 1, consumer, 0]) - start
            row = title if own.shape[1] == 1 else f"{title}: {('first', 'second')[consumer]}"
            spans.append(Span(row, scores, packed, "softmax", "tile"))
            spans.append(Span(row, packed, after, "waits", "block"))
    return spans


if CLOCKS:
    show(
        timeline(
            spans_of("one", "1 consumer") + spans_of("untold", "2 consumers"),  # as recorded
            unit="cycles",
            title="The second consumer fills most of the first one's gaps",
            caption="Three key tiles in the middle of one block, d = 128, timed with its SM's clock on an H200. Between packing P and receiving the next scores, a consumer waits for its GEMMs and for K.",
        )
    )
publish(
    one={"tile": mean_clocks("one")[0]},
    two={"gain": AT_4096["2 consumer warpgroups"] / AT_4096["1 consumer warpgroup"]},
)

# %% [markdown]
# A single consumer takes {{ one.tile | ,.0f }} cycles per tile, although the throughput of the units would allow
# {{ cycles.tile | , }}. It has only one warp on each of the SM's four schedulers, and whenever that warp waits for a
# shuffle or a `wgmma`, its scheduler has nothing else to issue. With two consumers, the whole kernel is
# {{ two.gain | .1f }}× faster.
#
# ## Overlap inside a warpgroup
#
# A single warpgroup can overlap work, too. The softmax of tile $j$ doesn't need $PV$ of tile $j-1$ to be finished. So
# the warpgroup issues both GEMMs, $QK^\top$ for tile $j$ and then $PV$ for tile $j-1$, as two groups, and waits only
# for the first. While it computes the softmax, the tensor cores work on the second. FlashAttention-3 calls this
# *intra-warpgroup overlap*.

# %% fold="The changed consumer"
OVERLAP_CUDA = r"""        mbarrier_wait(&q_full, 0);
        mbarrier_wait(&k_full[0], 0);
        if (group == 2) pass_turn(group);
        take_turn(group);
        wgmma_fence();
        qk_gemm(s, mine, keys);  // New: the first scores, before the loop
        wgmma_commit();
        pass_turn(group);
        wgmma_wait<0>(s);
        if (leader) arrive(&k_empty[0]);
        mask(s, (tiles - 1) * KEYS, row, M, shift);
        online_softmax_step(s, row_max, sum, alpha, scale2);
        pack(p, s);
        // [overlap
        for (int t = 1; t < tiles; ++t) {
            int b = t % 2, key = (tiles - 1 - t) * KEYS;
            mbarrier_wait(&k_full[b], t / 2 % 2);
            mbarrier_wait(&v_full[b ^ 1], (t - 1) / 2 % 2);
            take_turn(group);
            wgmma_fence();
            qk_gemm(s, mine, keys + b * (TILE_BYTES >> 4));
            wgmma_commit();
            // New: PV of tile t - 1
            pv_gemm(o, p, values + (b ^ 1) * (TILE_BYTES >> 4), t > 1);
            wgmma_commit();
            pass_turn(group);
            wgmma_wait<1>(s);  // New: scores complete, PV still in flight
            if (leader) arrive(&k_empty[b]);
            if (CAUSAL && key + KEYS > first + shift)
                mask(s, key, row, M, shift);
            online_softmax_step(s, row_max, sum, alpha, scale2);
            wgmma_wait<0>(o);  // New: only now PV has to be complete
            if (leader) arrive(&v_empty[b ^ 1]);
            rescale(o, alpha);
            pack(p, s);
        }
        // overlap]
        mbarrier_wait(&v_full[(tiles - 1) % 2], (tiles - 1) / 2 % 2);
        take_turn(group);
        wgmma_fence();
        pv_gemm(o, p, values + (tiles - 1) % 2 * (TILE_BYTES >> 4), tiles > 1);  // New: the last one
        wgmma_commit();
        pass_turn(group);
        if (group == 1) take_turn(group);
        wgmma_wait<0>(o);
"""
BEFORE, _, LOOP = FLASH_WGMMA.source.partition("        mbarrier_wait(&q_full, 0);\n")
_, _, AFTER = LOOP.partition("        // consumer]\n")
OVERLAP_SOURCE = BEFORE + OVERLAP_CUDA + "        // consumer]\n" + AFTER
OVERLAP = Kernel(
    OVERLAP_SOURCE.replace("\nflash_wgmma(", "\nflash_overlap("), defines=FLASH_WGMMA.defines, options=OPTIONS
)

# %%
OVERLAP.region("overlap")

# %% [markdown]
# Groups complete in order, so after `wgmma_wait<1>` the scores are ready while $PV$ is still in flight. O may be
# rescaled, and P overwritten, only after `wgmma_wait<0>`. Let the first wait leave both groups in flight, and the
# simulator reports:

# %% fold="Code of the checks"


def of_overlap(turns):
    """The launches of two consumers, with this kernel."""

    def launch_overlap(N, d, causal=False, **more):
        other = of_wgmma(2, turns)(N, d, causal, **more)
        kernel_of = Kernel(OVERLAP.source, defines=other.kernel.defines, options=OPTIONS)
        return kernel_of.on(other.case)

    return launch_overlap


check_difficult(of_overlap(0), "with overlap")
check_difficult(of_overlap(1), "with overlap and ping-pong")
overlapping = of_overlap(1)(N=130, d=64, M=300)
expect_hazard(
    edited(overlapping, ("wgmma_wait<1>(s);", "wgmma_wait<2>(s);")),
    "accumulator",
    line_with="online_softmax_step(s",
)
expect_hazard(
    edited(overlapping, ("            wgmma_wait<0>(o);  // New: only", "            // only")), "accumulator"
)

# %% [markdown]
# In the timeline of one warpgroup, $PV$ now runs during the next softmax:

# %% fold="Code of the figure"


PRODUCT, _, SOFTMAX = clocks_of(128)


def one_after_the_other(count):
    """A warpgroup that never overlaps: both GEMMs of each tile around its softmax."""
    spans, start = [], 0
    for tile in range(count):
        for row, what, length, role in (
            ("before: tensor cores", "QK", PRODUCT, "block"),
            ("before: other units", "softmax", SOFTMAX, "tile"),
            ("before: tensor cores", "PV", PRODUCT, "block"),
        ):
            spans.append(Span(row, start, start + length, f"{what} {tile}", role))
            start += length
    return spans


def overlapped(count):
    """A warpgroup that issues QK of a tile and PV of the one before together, and waits for QK only."""
    spans, free, ready = [], 0, 0  # when the tensor cores are free, and when P of the last tile is packed
    for tile in range(count + 1):
        free = max(free, ready)
        if tile < count:
            spans.append(Span("overlap: tensor cores", free, free + PRODUCT, f"QK {tile}", "block"))
            free += PRODUCT
            ready = free + SOFTMAX
            spans.append(Span("overlap: other units", free, ready, f"softmax {tile}", "tile"))
        if tile:
            spans.append(Span("overlap: tensor cores", free, free + PRODUCT, f"PV {tile - 1}", "block"))
            free += PRODUCT
    return spans


BEFORE_IT, BESIDE = one_after_the_other(3), overlapped(3)
assert BESIDE[-1].stop < BEFORE_IT[-1].stop, "overlap saves time"
show(
    timeline(
        BEFORE_IT + BESIDE,
        unit="cycles",
        title="Overlap: PV of a tile runs during the softmax of the next one",
        caption="Three key tiles of one warpgroup with d = 128, without and with overlap, drawn from the cycle counts in the table at the top of this page; loads and all latencies are left out.",
    )
)

# %% [markdown]
# The price is registers. The new scores, the old P and O are all live at once: that's 160 registers per thread, not
# counting addresses and loop counters. So the consumers [raise their limit](../matmul/wgmma.py#the-register-budget) to
# 240 with `setmaxnreg`.
#
# With $d$ = 128, overlap makes the two consumers {{ overlap.gain_128 | .2f }}× faster.[^timed] With $d$ = 64, it *slows
# them down* to {{ overlap.gain_64 | .2f }}× their former speed.
#
# [^timed]: The timed kernel is Kernel 8 below, without ping-pong and with one tile per block.
#
# ## Ping-pong scheduling
#
# Both consumers now need the tensor cores in bursts: two GEMMs, then a softmax. If their bursts coincide, both finish
# late, and then both compute softmax at the same time, while the tensor cores have little to do. [A model of the
# units](hopper_measured.py#a-model-of-overlap) draws both cases: being in phase costs the most with $d$ = 64, where
# softmax takes longer than the GEMMs.
#
# *Ping-pong scheduling* forces them out of phase: a consumer may issue its GEMMs only when it has the turn, and it
# passes the turn on as soon as it has issued them. So one consumer's softmax coincides with the other's GEMMs.
#
# ??? definition "Ping-pong scheduling | ping-pong"
#     Two consumer warpgroups alternate: one uses the tensor cores while the other computes with ordinary units.
#
# The turn is a pair of [named barriers](../matmul/clusters.py#named-barriers-ids-and-counts). Each completes when 256
# threads have arrived: 128 that want the turn and wait with `bar.sync`, and 128 that pass it on with `bar.arrive`.
# Consumer 1 waits at barrier 2 and consumer 2 at barrier 3 before it issues its GEMMs; afterwards, each arrives at the
# other's barrier. To let consumer 1 begin, consumer 2 arrives at barrier 2 once in advance.

# %%
FLASH_WGMMA.region("turns")

# %% fold="Code of the check, with a delay of consumer 1"
SLOW = 'if (group == 1) for (int i = 0; i < 99; ++i) asm volatile("bar.sync 9, 128;" ::: "memory");'
LOGGED = Kernel(
    OVERLAP.source.replace(
        "int shift, float scale) {\n    extern", "int shift, float scale, int* log) {\n    extern"
    )
    .replace(
        "            qk_gemm(s, mine, keys + b",
        "            if (leader) log[atomicAdd(log, 1) + 1] = group;\n            qk_gemm(s, mine, keys + b",
    )
    .replace(
        "        for (int t = 1; t < tiles; ++t) {\n",
        "        for (int t = 1; t < tiles; ++t) {\n            SPIN\n",
    ),
    defines={**OVERLAP.defines, "D": 64, "SPIN": SLOW},
    options=OPTIONS,
)


def order_of_issue(turns, trips=6):
    """Which consumer issued its GEMMs first, second and so on, on the simulator."""
    from_case = of_overlap(turns)(N=128, d=64, M=128 * (trips + 1)).case
    log = np.zeros(2 * trips + 1, np.int32)
    kernel_of = Kernel(LOGGED.source, defines={**LOGGED.defines, "TURNS": turns}, options=OPTIONS)
    of_log = case(**from_case.values, log=log, grid=(1, 1), block=384, shared_bytes=128 * 64 * 10)
    return [int(one) for one in kernel_of.on(of_log).run()["log"][1:]]


ISSUED = {"free": order_of_issue(0), "ping-pong": order_of_issue(1)}
assert ISSUED["free"] != ISSUED["ping-pong"] == [1, 2] * 6, (
    "the text: only ping-pong forces them to alternate"
)

# %% fold="Code of the numbers"
if CLOCKS:
    assert mean_clocks("beside")[2] > 0.25, "the text says: out of phase"  # as recorded
publish(
    overlap={f"gain_{d}": rate("overlap", d=d) / rate("two_consumers", d=d) for d in (128, 64)},
    turns={
        **{f"gain_{d}": rate("overlap_ping_pong", d=d) / rate("overlap", d=d) for d in (128, 64)},
        "busy": 4 * clocks_of(128)[0] / mean_clocks("both")[0],
    },
)

# %% [markdown]
# With $d$ = 128, ping-pong gains nothing on the GPU: {{ turns.gain_128 | .2f }}×. With $d$ = 64, ping-pong makes the
# kernel with overlap {{ turns.gain_64 | .2f }}× faster, which makes up for the loss.[^phase] At two barrier
# instructions per tile, ping-pong is cheap insurance, so Kernel 8 always uses it. With $d$ = 128, the tensor cores are
# now busy {{ turns.busy | .0% }} of the time in the loop.
#
# [^phase]: The model doesn't explain this gain: in the timed blocks, the consumers were [out of phase even without
#     ping-pong](hopper_measured.py#where-the-rest-goes). The cause of the loss is unknown.
#
# ## Tile scheduling: persistent blocks, longest first
#
# One problem remains, outside the loop. Each block begins with a wait for its first tiles and ends with a store, and
# during both, the tensor cores idle. A *persistent* kernel launches one block per SM and gives each a list of query
# tiles. Then the first $QK^\top$ of the next tile is issued together with the last $PV$ of the current tile, and runs
# while the current tile is stored:

# %% fold="Kernel 8"
FLASH_HOPPER = Kernel(
    SHARED
    + r"""
// TMA store: a box of 64 columns of a consumer's O
static __device__ void tma_store_3d(const TensorMap* map, const void* base, int column, int row,
                             int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(smem_addr(base)), "r"(column), "r"(row), "r"(head) : "memory");
}
static __device__ void warpgroup_sync(int group) {  // a barrier of one warpgroup
    asm volatile("bar.sync %0, 128;" :: "r"(4 + group) : "memory");
}
// [write
// O of 64 queries, through shared memory
static __device__ void store_tile(unsigned char* smem_o, const TensorMap* o_map,
                             float (&o)[D / 2], const float (&inv_sum)[2],
                             int row, int head, int group) {
    int lane = threadIdx.x % 32, mine = threadIdx.x / 32 % 4 * 16 + lane % 16;
    bool leader = threadIdx.x % 128 == 0;
    if (leader) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    warpgroup_sync(group);  // the last TMA store has read the buffer
    #pragma unroll
    for (int n = 0; n < D / 8; n += 2) {  // 8 columns each
        const float* x = o + 4 * n;
        int chunk = (n % 8 + lane / 16) ^ mine % 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
            :: "r"(smem_addr(smem_o + n / 8 * 8192 + mine * 128 + chunk * 16)),
               "r"(pack_bf16x2(x[0] * inv_sum[0], x[1] * inv_sum[0])),
               "r"(pack_bf16x2(x[2] * inv_sum[1], x[3] * inv_sum[1])),
               "r"(pack_bf16x2(x[4] * inv_sum[0], x[5] * inv_sum[0])),
               "r"(pack_bf16x2(x[6] * inv_sum[1], x[7] * inv_sum[1])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    warpgroup_sync(group);
    if (leader) {
        for (int c = 0; c < BOXES; ++c)
            tma_store_3d(o_map, smem_o + c * 8192, 64 * c, row, head);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}
// write]

// Kernel 8: flash_overlap with a list of query tiles per block. order: [entry][block] pairs (tile of 128
// queries, head), filled up with (-1, -1) at the end of shorter lists; an empty list is allowed. count: all
// entries. Layouts, M, share, shift and CAUSAL as for flash_wgmma; o_map: boxes of 1 x 64 x 64.
// Grid: blocks, at most one per SM. Block: 384. Dynamic shared memory: 128 * D * 14 bytes. sm_90a.
extern "C" __global__ void __launch_bounds__(384, 1)
flash_hopper(const __grid_constant__ TensorMap q_map,
             const __grid_constant__ TensorMap k_map,
             const __grid_constant__ TensorMap v_map,
             const __grid_constant__ TensorMap o_map, float* L, const int2* order,
             int count, int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 q_full[2], q_empty[2];
    __shared__ __align__(8) u64 k_full[2], k_empty[2], v_full[2], v_empty[2];
    unsigned char *q = smem, *k = q + 4 * Q_BYTES, *v = k + 2 * TILE_BYTES;
    unsigned char* smem_o = v + 2 * TILE_BYTES;
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int b = 0; b < 2; ++b) {
            mbarrier_init(&q_full[b], 1);
            mbarrier_init(&k_full[b], 1);
            mbarrier_init(&v_full[b], 1);
            mbarrier_init(&q_empty[b], 2);
            mbarrier_init(&k_empty[b], 2);
            mbarrier_init(&v_empty[b], 2);
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
                if (head < 0) break;  // end of a shorter list
                mbarrier_wait(&q_empty[u % 2], u / 2 % 2 ^ 1);
                mbarrier_arrive_expect_tx(&q_full[u % 2], 2 * Q_BYTES);
                for (int g = 0; g < 2; ++g)
                    for (int c = 0; c < BOXES; ++c)
                        tma_load_3d(q + (u % 2 * 2 + g) * Q_BYTES + c * 8192, &q_map, 64 * c,
                             first + 64 * g, head, &q_full[u % 2]);
                for (int j = tiles_for(first, 128, M, shift) - 1; j >= 0; --j, ++t) {
                    int b = t % 2;
                    mbarrier_wait(&k_empty[b], t / 2 % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&k_full[b], TILE_BYTES);
                    for (int c = 0; c < BOXES; ++c)
                        tma_load_3d(k + b * TILE_BYTES + c * KEYS * 128, &k_map, 64 * c,
                             j * KEYS, head / share, &k_full[b]);
                    mbarrier_wait(&v_empty[b], t / 2 % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&v_full[b], TILE_BYTES);
                    for (int c = 0; c < BOXES; ++c)
                        tma_load_3d(v + b * TILE_BYTES + c * KEYS * 128, &v_map, 64 * c,
                             j * KEYS, head / share, &v_full[b]);
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int lane = threadIdx.x % 32, leader = threadIdx.x % 128 == 0;
    float s[64], o[D / 2], alpha[2], scale2 = scale * 1.44269504f;
    unsigned p[32];
    u64 mine = descriptor(q + (group - 1) * Q_BYTES, 16, 1024);
    u64 keys = descriptor(k, 16, 1024), values = descriptor(v, KEYS * 128, 1024);
    int t = 0, u = 0;
    int2 work = order[blockIdx.x];
    if (work.y < 0) return;  // an empty list
    if (group == 2) pass_turn(group);
    mbarrier_wait(&q_full[0], 0);
    mbarrier_wait(&k_full[0], 0);
    take_turn(group);
    wgmma_fence();
    qk_gemm(s, mine, keys);
    wgmma_commit();
    pass_turn(group);
    for (int n = blockIdx.x; work.y >= 0; n += gridDim.x, ++u) {  // New: a list
        int first = work.x * 128, head = work.y, j = tiles_for(first, 128, M, shift) - 1;
        int row = first + (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        float row_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
        wgmma_wait<0>(s);
        if (leader) arrive(&k_empty[t % 2]);
        if ((j + 1) * KEYS > M || CAUSAL) mask(s, j * KEYS, row, M, shift);
        online_softmax_step(s, row_max, sum, alpha, scale2);
        pack(p, s);
        int accumulate = 0;
        // [consumer
        for (--j; j >= 0; --j, ++t) {
            int b = t % 2;
            mbarrier_wait(&k_full[b ^ 1], (t + 1) / 2 % 2);
            take_turn(group);
            wgmma_fence();
            qk_gemm(s, mine + u % 2 * (2 * Q_BYTES >> 4),
                         keys + (b ^ 1) * (TILE_BYTES >> 4));
            wgmma_commit();
            mbarrier_wait(&v_full[b], t / 2 % 2);
            pv_gemm(o, p, values + b * (TILE_BYTES >> 4), accumulate);
            wgmma_commit();
            pass_turn(group);
            accumulate = 1;
            wgmma_wait<1>(s);  // PV of tile t is in flight
            if (leader) arrive(&k_empty[b ^ 1]);
            if (CAUSAL && (j + 1) * KEYS > first + shift)
                mask(s, j * KEYS, row, M, shift);
            online_softmax_step(s, row_max, sum, alpha, scale2);
            wgmma_wait<0>(o);
            if (leader) arrive(&v_empty[b]);
            rescale(o, alpha);
            pack(p, s);
        }
        // consumer]
        // [list
        mbarrier_wait(&v_full[t % 2], t / 2 % 2);
        if (leader) arrive(&q_empty[u % 2]);
        work = n + gridDim.x < count ? order[n + gridDim.x] : make_int2(0, -1);
        int more = work.y >= 0;  // no branch around wgmma
        if (more) {
            mbarrier_wait(&q_full[(u + 1) % 2], (u + 1) / 2 % 2);
            mbarrier_wait(&k_full[(t + 1) % 2], (t + 1) / 2 % 2);
        }
        take_turn(group);
        wgmma_fence();
        pv_gemm(o, p, values + t % 2 * (TILE_BYTES >> 4), accumulate);
        wgmma_commit();
        qk_gemm(s, mine + (u + more) % 2 * (2 * Q_BYTES >> 4),
                     keys + (t + more) % 2 * (TILE_BYTES >> 4));
        wgmma_commit();  // at the end of the list for nobody
        pass_turn(group);
        // list]
        float inv_sum[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float z = sum[r];
            z += __shfl_xor_sync(~0u, z, 1);
            z += __shfl_xor_sync(~0u, z, 2);
            inv_sum[r] = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            if (lane % 4 == 0 && row + 8 * r < N)
                L[(size_t)head * N + row + 8 * r] =
                    z > 0.0f ? row_max[r] * scale + logf(z) : -INFINITY;
        }
        wgmma_wait<1>(o);
        if (leader) arrive(&v_empty[t % 2]);
        ++t;
        store_tile(smem_o + (group - 1) * Q_BYTES, &o_map, o, inv_sum,
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
FLASH_HOPPER.region("list")

# %% [markdown]
# The lists also fix a load imbalance. Under a causal mask, the last query tile of a head sees all keys, and the first
# sees a single tile. With one block per tile, launched in order, the longest tiles of the last head start last.
# *Longest-processing-time-first* scheduling ([Graham, 1969](https://doi.org/10.1137/0117039)) sorts the tiles by length
# and gives each to the block with the least work so far. For two heads of 16,384 queries, the busiest of
# {{ schedule.sms }} SMs then has only {{ schedule.balanced | .1% }} more work than the average, instead of
# {{ schedule.order | .0% }}.


# %% fold="The scheduler"
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
check_difficult(FEW, "of Kernel 8")
check_difficult(of_hopper(turns=0, blocks=3), "of Kernel 8 without ping-pong")
check_difficult(
    of_hopper(turns=0, deal=one_each),
    "of one tile per block, no ping-pong",
    ("a causal mask", "large logits"),
)
check_difficult(of_hopper(turns=1, deal=one_idle), "with an idle block", ("a causal mask",))


def longest(schedule, heads, N, causal, blocks=SMS):
    """How much longer the longest list is than an even split, in key tiles."""
    costs = costs_of(heads, N, N, 0, causal)
    lists = schedule(costs, blocks)
    return max(sum(costs[piece] for piece in one) for one in lists) / (sum(costs.values()) / blocks) - 1


def in_order(costs, blocks):
    """One block per piece, launched in order: each goes to the SM that is free first."""
    lists, busy_until = [[] for _ in range(blocks)], [(0, block) for block in range(blocks)]
    for piece, cost in costs.items():
        so_far, block = heapq.heappop(busy_until)
        lists[block].append(piece)
        heapq.heappush(busy_until, (so_far + cost, block))
    return lists


publish(
    schedule={
        "sms": SMS,
        "order": longest(in_order, 2, 16384, True),
        "balanced": longest(dealt_out, 2, 16384, True),
        "gain": AT_4096["+ longest tile first: Kernel 8"] / AT_4096["+ ping-pong"],
        "gain_causal": rate("overlap_ping_pong_longest_first", causal=True)
        / rate("overlap_ping_pong", causal=True),
    }
)

# %% [markdown]
# Here are two heads of four query tiles on three SMs:

# %% fold="Code of the figure"
SMALL = {(i, h): i + 1 for h in range(2) for i in range(4)}  # key tiles of query tile i under a causal mask
SCHEDULES = {"in order": in_order(SMALL, 3), "longest first": dealt_out(SMALL, 3)}


def spans_of_lists(how):
    """When each SM works on which query tile."""
    for sm, pieces in enumerate(SCHEDULES[how], 1):
        start = 0
        for piece in pieces:
            i, h = piece
            yield Span(f"{how}, SM {sm}", start, start + SMALL[piece], str(i), "tile" if h else "block")
            start += SMALL[piece]


ENDS = {how: max(one.stop for one in spans_of_lists(how)) for how in SCHEDULES}
assert ENDS == {"in order": 9, "longest first": 7}, "the title says: 7 instead of 9"
show(
    timeline(
        [one for how in SCHEDULES for one in spans_of_lists(how)],
        unit="key tiles",
        title="Longest first finishes in the time that 7 key tiles take, instead of 9",
        caption="Under a causal mask, query tile 0 sees one key tile, and tile 3 sees four. The number in each bar is its query tile; the colour shows its head. Launched in order, with one block per query tile, each block starts on the first SM that becomes free.",
    )
)

# %% [markdown]
# Without a mask, where all tiles are equally long, lists make the kernel {{ schedule.gain | .2f }}× faster. Under a
# causal mask, they make it {{ schedule.gain_causal | .1f }}× [faster](hopper_scheduling.py).
#
# At the end of its list, a consumer issues its last $QK^\top$ once more and ignores the result: a branch around a
# `wgmma` could make the compiler [serialise the `wgmma`s](../matmul/wgmma.py#fence-commit-wait). O is stored with
# `stmatrix` and the TMA, [like C in the GEMM](../matmul/hopper.py#storing-c-stmatrix-and-tma). Without the proxy
# fence between the two, the simulator reports:

# %% fold="Code of the check"
FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
ragged = FEW(**DIFFICULT["keys that no tile divides"])
expect_hazard(edited(ragged, (FENCE, "")), "proxy", line_with="cp.async.bulk.tensor.3d.global")

# %% [markdown]
# Run Kernel 8 on 256 queries and keys. How many fewer bytes does the TMA load under a causal mask?

# %% fold="Code of the run"
from tilewise import try_it

try_it({"no mask": FEW(256, 64), "causal mask": FEW(256, 64, causal=True)})

# %% [markdown]
# ## Against cuDNN and FlashAttention-3
#
# At 4,096 queries and $d$ = 128, Kernel 8 reaches {{ hook.eight_of_peak | .0% }} of the peak, and
# {{ against.cudnn_128 | .2f }}× the throughput of cuDNN. With $d$ = 64, it falls behind, to
# {{ against.cudnn_64 | .0% }} of cuDNN's throughput. And
# [FlashAttention-3](https://github.com/Dao-AILab/flash-attention) itself is faster. On [its authors' own problem
# size](hopper_scheduling.py#16384-tokens), 16,384 tokens with 16 heads, Kernel 8 reaches {{ against.fa3 | .0% }} of its
# throughput without a mask, and {{ against.fa3_causal | .0% }} under a causal one.
#
# Kernel 8 is also as accurate as cuDNN: compared with a float64 result, its largest error is no greater than cuDNN's.
# The cycles and errors on this page come from this code:

# %% fold="The kernels with clock stamps"
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
    "untold": TWO,  # as recorded
    "in turns": TURNS,  # as recorded
    "beside": of_hopper(turns=0, deal=one_each),  # as recorded
    "both": of_hopper(turns=1, deal=one_each),
}
NARROW = ("beside", "both")  # as recorded
if not gpu_here():
    for label in ("in turns", "both"):  # as recorded
        launch = CLOCKED[label](N=200, d=128)
        drawn = launch.case.make()
        clocks = noted(launch, drawn | {"stamps": np.zeros((2, 2, 2), np.int64)}, 2)
        wide = {one: bf16.values(drawn[one]).astype(np.float64) for one in "QKV"}
        right = attended(**wide, share=1, shift=200, scale=128**-0.5)["O"]
        check(bf16.values(drawn["O"]), right, rtol=ROUNDED, atol=ROUNDED, name=f"O with stamps, {label}")
        assert (np.diff(clocks[:, :, 1]) > 0).all(), "weights before their logits"

# %% fold="The stamps, read on a GPU" needs="gpu" record="clocks"
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

# %% fold="Times without the store of O" needs="gpu" record="store"
NO_STORE = {  # a condition that no launch fulfils, so that the compiler keeps the work
    "flash_wgmma": ("if (row + 8 * r >= N) continue;", "if (row + 8 * r >= N || scale > 0.0f) continue;"),
    "flash_hopper": ("tma_store_3d(o_map, smem_o", "if (inv_sum[0] < 0.0f) tma_store_3d(o_map, smem_o"),
}


def without_store(launch):
    """The launch of a kernel that stores no O."""
    kernel, (old, new) = launch.kernel, NO_STORE[launch.kernel.name]
    assert kernel.source.count(old) == 1, old
    text = kernel.source.replace(old, new)
    return Kernel(text, kernel.name, defines=kernel.defines, options=OPTIONS).on(launch.case)


if gpu_here():
    from tilewise.measurements.side_by_side import Calls, timed_lines

    for d in (128, 64):
        for N, heads in ((2048, 2**22 // 2048 // d), (2048, 64), (4096, 2**22 // 4096 // d)):
            calls = Calls()
            for label, of in (
                ("two consumers", TWO),
                ("two consumers, ping-pong", TURNS),
                ("overlap", of_hopper(turns=0, deal=one_each)),
                ("overlap, ping-pong", of_hopper(turns=1, deal=one_each)),
                ("Kernel 8", of_hopper(turns=1)),
            ):
                calls.add(label, of(N=N, d=d, heads=heads))
                calls.add(f"{label}, no store", without_store(of(N=N, d=d, heads=heads)))
            print(timed_lines(f"d={d}, N={N}, {heads} heads", calls.by_label))

# %% fold="The stamps of later blocks" needs="gpu" record="late_clocks"
if gpu_here():
    import cupy

    print("kernel, d, block: cycles per tile of consumer 1, of consumer 2, offset as a fraction of a tile")
    for label, of in (("overlap", CLOCKED["beside"]), ("overlap, ping-pong", CLOCKED["both"])):
        for d in (64, 128):
            shape = (64, 2048, d)
            drawn = {name: cupy.random.standard_normal(shape, dtype=np.float32) for name in "QKV"}
            drawn = {name: bf16.bits(values) for name, values in drawn.items()}
            drawn |= {"O": cupy.zeros(shape, np.uint16), "L": cupy.zeros(shape[:2], np.float32)}
            launch = of(N=2048, d=d, heads=64)
            drawn["order"] = cupy.asarray(launch.case.values["order"])
            stamps = cupy.zeros(65, np.int64)  # the last one says which block notes its clock
            given = {**launch.case.values, **drawn, "stamps": stamps}
            first = with_stamps(launch.kernel)
            assert first.source.count("blockIdx.x == 0;") == 1
            text = first.source.replace("blockIdx.x == 0;", "blockIdx.x == stamps[64];")
            chosen = Kernel(text, first.name, defines=first.defines, options=OPTIONS)
            arguments = [
                given[one.name].of(drawn[one.name[0].upper()])
                if one.name.endswith("_map")
                else given[one.name]
                for one in chosen.parameters
            ]
            for block in (0, *range(40, 1000, 24)):
                stamps[64] = block
                for _ in range(2):
                    chosen(*arguments, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes)
                clocks = cupy.asnumpy(stamps)[:64].reshape(2, 2, 16)[:, 0, 2:15]
                whole = np.diff(clocks, axis=1).mean(axis=1)
                behind = (clocks[1] - clocks[0]) / whole[0] % 1
                offset = float(np.minimum(behind, 1 - behind).mean())
                print(f"{label}, {d}, {block}: {whole[0]:.0f}, {whole[1]:.0f}, {offset:.3f}")

# %% fold="Errors against float64" needs="gpu" record="errors"
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
both_off = printed_rows(
    "attention/hopper", "errors", r"Kernel 8 off by ([^,\s]+), CUDNN off by ([^,\s]+)", MACHINE
)
assert all(ours <= theirs for ours, theirs in both_off), "the text says: no larger than cuDNN's"


def of_16k(variant, causal, N=16384, d=128):
    """Microseconds as recorded for 16,384 tokens."""
    return recorded_us("attention_16k_tokens", variant, N, d, causal)


publish(
    against={
        "cudnn_128": AT_4096["+ longest tile first: Kernel 8"] / AT_4096["cuDNN"],
        "cudnn_64": rate("overlap_ping_pong_longest_first", d=64) / rate("cudnn_torch_sdpa", d=64),
        **{
            name: of_16k("flashattention_3_fa3_fwd", causal) / of_16k("longest_first_ping_pong", causal)
            for name, causal in (("fa3", False), ("fa3_causal", True))
        },
    }
)

# %% [markdown]
# ## Takeaways
#
# - P goes from the accumulators of $QK^\top$ to operand A of $PV$ without leaving registers, and V is read untransposed, as an MN-major
#   operand.
# - Softmax is hidden behind GEMMs in two ways: behind those of the other consumer, and behind $PV$ for the warpgroup's
#   own previous tile. Ping-pong keeps the two consumers out of phase. No overlap can beat the slower unit: with $d$ =
#   64, exponentials alone take as long as both GEMMs.
# - Persistent blocks with lists hide the start and the end of each tile, and longest-first scheduling balances the
#   load under a causal mask.
#
# ## In your own kernel
#
# In Nsight Compute, add `sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active`, the utilisation of the pipe that
# computes exponentials, to the utilisation of the tensor pipe: only a sum above 100% proves that the two overlap. No
# counter shows the relative phase of two warpgroups. To see it, let each warpgroup record `clock64()` at two points in
# its loop, and plot the result.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "Ping-pong with three warpgroups",
    "Three warpgroups of a block alternate: 0, 1, 2, then 0 again. You may use named barriers, but no block-wide one. At which barrier does each wait before its GEMMs, at which does it arrive afterwards, how many threads does a barrier count, and who lets warpgroup 0 begin?",
    hint="One barrier per warpgroup: it completes when its owner waits there and the previous warpgroup has arrived.",
    explanation="Warpgroup g waits at barrier 1 + g with `bar.sync` and arrives at barrier 1 + (g + 1) % 3 with `bar.arrive`. Each barrier counts 256 threads: the 128 of its owner, which wait, and the 128 of the warpgroup before it, which don't. Warpgroup 2 arrives once in advance, so at the end, warpgroup 0 waits once more for what warpgroup 2 passed last. With a count of 384, two warpgroups would have to pass the turn at once.",
)

# %% [markdown]
# Next comes the [backward pass](masks_and_backward.py), which needs five GEMMs per tile where the forward pass needs
# two.
