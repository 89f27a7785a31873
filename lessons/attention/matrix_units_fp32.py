# ---
# title: "Split-half FP32 attention on tensor cores"
# needs: [attention/matrix_units]
# further: attention/matrix_units
# summary: "Tensor cores multiply FP16 numbers but not FP32. Can three FP16 multiplications give FP32 accuracy, and if so, how much time do they save over FMAs?"
# description: "FP32 attention on FP16 tensor cores: each element is split into a high and a low half, three MMAs replace one, with its accuracy, its range and its speed next to FP32 FMAs."
# date: 2026-11-23
# tags: [FP32, tensor cores, split-half GEMM, FP16]
# ---

# %% [markdown]
# [Kernel 7](matrix_units.py) rounds its operands to BF16. If you need FP32 accuracy, only FMAs are left: [the fastest
# FP32 kernel in this course](flash_steps.py) takes {{ ordinary.us | us }} for one head of 1,024 tokens with $d$ =
# 128, and PyTorch's three operations take {{ ordinary.torch_us | us }}. In {{ ordinary.us | us }}, at the rate we
# measured for `mma.sync`, FP16 tensor cores could perform the same two GEMMs {{ ordinary.products | .0f }} times
# over. Can we spend some of that headroom on accuracy?
#
# Yes. [Markidis et al.](https://arxiv.org/abs/1803.04014) represented an FP32 number as the sum of two FP16 numbers;
# [Ootomo and Yokota](https://arxiv.org/abs/2203.03341) scaled the second one and reached the accuracy of FP32. This page applies their scheme to
# both GEMMs of FlashAttention.

# %% fold="Imports, and the recorded times of FP32 kernels"
import numpy as np

from tilewise import Guess, Kernel, Table, check, constant, gpu_here, measure, parallel, publish, show, tiles
from tilewise.figures import Series, Span, bars, line_chart, timeline
from tilewise.kernel.chains import as_case, run_chain
from tilewise.kernel.edits import edited
from tilewise.measurements import printed_numbers, printed_rows, recorded, recorded_device
from tilewise.measurements.attention import attention

GPU = recorded_device()


def ordinary_us(variant, N=1024):
    """A median of the FP32 kernels with FMAs, in microseconds."""
    return recorded(f"attention_flash_steps.{variant}.n_{N}_d_128.median")


FP16_PROBE = recorded("attention_flash_steps.ceilings.probes.fp16_matrix_tflop_per_s")
FFMA, THREE = "second_launch_all_loads_at_once", "torch_three_operations"
publish(
    ordinary={
        "us": ordinary_us(FFMA),
        "torch_us": ordinary_us(THREE),
        "products": ordinary_us(FFMA) * 1e6 * FP16_PROBE / (4 * 1024**2 * 128),
    }
)

# %% [markdown]
# ## Splitting FP32 into two FP16 halves
#
# An FP16 number has 11 significant bits. Let $h$ be $x$ rounded to FP16, and let $l$ be the remainder times 2,048,
# rounded to FP16 as well. The factor makes $l$ about as large as $h$, so that it doesn't become subnormal. Then
# $x \approx h + l / 2048$, with 11 + 11 bits and one more from the sign of $l$: 23 of FP32's 24.
#
# Take $x$ = 3.1415927. Rounded to FP16, $h$ = 3.140625. The remainder, 0.00096774, times 2,048 is 1.981934, and in
# FP16 $l$ = 1.982422. Together, 3.140625 + 1.982422 / 2048 = 3.1415930, whereas $h$ alone has only three correct
# digits. The product of two such numbers is
#
# $$xy \approx h h' + (h l' + l h') / 2048 .$$
#
# So each product takes three `mma.sync` instructions instead of one. The fourth term, $l l'$, is small enough to leave
# out.


# %%
def halves(x):
    """High and low halves of x in FP16, as 64-bit floats."""
    high = np.float16(x)
    low = np.float16((x - high) * 2048)
    return np.float64(high), np.float64(low)


def three_mmas(x, y):
    """x @ y without the product of the low halves."""
    (high, low), (other, missing) = halves(x), halves(y)
    return high @ other + (high @ missing + low @ other) / 2048


# %% fold="Code of the table"
random = np.random.default_rng(7)
LEFT, RIGHT = (random.standard_normal((256, 128)).astype(np.float32) for _ in range(2))
EXACT = np.float64(LEFT) @ np.float64(RIGHT).T
(HIGH, LOW), (OTHER, MISSING) = halves(LEFT), halves(RIGHT.T)
in_order = np.zeros((256, 256), np.float32)
for at_once in range(128):
    in_order += LEFT[:, at_once, None] * RIGHT[None, :, at_once]
MADE = {
    "one: high × high": HIGH @ OTHER,
    "two: and high × low": HIGH @ OTHER + HIGH @ MISSING / 2048,
    "three: and low × high": three_mmas(LEFT, RIGHT.T),
    "four: and low × low": (HIGH + LOW / 2048) @ (OTHER + MISSING / 2048),
    "FP32, one addition after the other": in_order,
}
PRODUCTS_OFF = {label: np.abs(one - EXACT).max() / np.abs(EXACT).max() for label, one in MADE.items()}
show(
    Table(
        ["MMAs per product", "largest error"],
        [[label, f"{off:.1e}"] for label, off in PRODUCTS_OFF.items()],
        caption="Dot products of 128 normally distributed numbers, 65,536 of them: the largest error relative to the largest result. The first four rows are added in FP64, so that only the split counts.",
    )
)
assert PRODUCTS_OFF["three: and low × high"] < PRODUCTS_OFF["FP32, one addition after the other"]


def off_after_split(x):
    """The largest error of the halves relative to the number; NaN where a half is infinite."""
    high, low = halves(x)
    return np.max(np.abs(high + low / 2048 - np.float64(x)) / np.abs(np.float64(x)))


publish(
    split={
        "three": PRODUCTS_OFF["three: and low × high"],
        "in_order": PRODUCTS_OFF["FP32, one addition after the other"],
    }
)

pi = np.float32([3.1415927])
high, low = halves(pi)
check([high[0], low[0].round(6)], [3.140625, 1.982422], name="the text's halves")
check((high + low / 2048).round(7), [3.141593], name="the text's sum")

# %% [markdown]
# In dot products of 128 terms, splitting the operands and using three MMAs loses less accuracy than a chain of FP32
# additions does: the errors are {{ split.three | .1e }} and {{ split.in_order | .1e }}, relative to the largest result.
#
# ## The range of FP16
#
# The price is range. Above 65,504, the high half is infinite, and the result is NaN. Below $2^{-14}$, about 0.00006,
# FP16 numbers are subnormal: the halves lose bits, the low one first.

# %% fold="Code of the figure"
FIRM = random.uniform(1, 2, 2**14).astype(np.float32)
SPANS = [2.0**exponent for exponent in range(-30, 15)]
SPLIT_OFF = [off_after_split(FIRM * np.float32(span)) for span in SPANS]
show(
    line_chart(
        [
            Series("two FP16 halves", SPANS, SPLIT_OFF),
            Series("rounding of FP32", SPANS, [2.0**-24] * len(SPANS), role="predicted"),
        ],
        x="magnitude of x",
        y="largest relative error",
        log_x=True,
        log_y=True,
        title="Two halves nearly match FP32 from 0.0001 to 65,504",
        caption="The largest relative error of high + low / 2048 among 16,384 random numbers between each power of two and the next, compared with half a unit in the last place of FP32.",
    )
)
with np.errstate(all="ignore"):
    beyond = three_mmas(np.float32([[1e5]]), np.float32([[1.0]]))
check(beyond, np.full((1, 1), np.nan), name="1e5 by 1 in halves is NaN")

# %% [markdown]
# The softmax weights, $e^{x - m}$, are at most 1, and tiny ones hardly affect a sum in which the largest weight is 1.
# But the elements of $Q$, $K$ and $V$ must be of moderate magnitude. If you can't guarantee the range, scale each
# matrix first.
#
# ## The kernel: split once, in place
#
# Each block handles 64 queries and one split of the keys, of which it processes 128 at a time; a second launch combines
# the splits. Tiles arrive in shared memory as FP32. Each thread waits for its own copies to arrive and splits the
# elements in place: 64 FP32 elements occupy as many bytes as their 128 halves. After that, `ldmatrix` loads both halves
# in the same way.


# %% tab="Pseudocode"
def flash_halves(Q, K, V, bias, part, tops, sums, share, scale):
    shares, heads, N, d = part.shape
    for h in parallel(heads):
        for w in range(shares):
            own = range(w * share, min(len(bias), (w + 1) * share))
            m, z, o = np.full(N, -np.inf), np.zeros(N), np.zeros((N, d))
            for tile in tiles(len(own), 128):
                j = own[tile.start : tile.stop]
                # [scores
                s = np.log2(np.e) * (scale * three_mmas(Q[h], K[h, j].T) + bias[j])
                # scores]
                # [softmax
                row_max = np.maximum(m, s.max(axis=1))
                base = np.where(row_max > -np.inf, row_max, 0.0)
                p, alpha = np.exp2(s - base[:, None]), np.exp2(m - base)
                m, z = row_max, alpha * z + p.sum(axis=1)
                # softmax]
                # [mean
                o = alpha[:, None] * o + three_mmas(p, V[h, j])
                # mean]
            part[w, h] = o
            tops[w, h] = m
            sums[w, h] = z


# %% tab="CUDA C"
HALVES = r"""
// spills: a few values, where 255 registers do not hold all of them
#include <cuda_fp16.h>
#define LOG2E 1.44269504f
#define LOW_SCALE (1.0f / 2048)   // of a product with a low half
// x = high + low / 2048, as operands: 16 rows of 16 terms, 16 terms of 8 columns
struct Left { unsigned high[4], low[4]; };
struct Right { unsigned high[2], low[2]; };
// The swizzled position of a 16-byte chunk; a row has 32.
static __device__ int swizzle(int row, int chunk) { return row * 32 + (chunk ^ row % 8); }

// Starts copies of one half of the columns of COUNT rows of X from `first` on; zeros from `end` on.
template <int COUNT>
static __device__ void load_piece(float4* tile, const float* X, int piece, int first, int end) {
    int chunk = 16 * piece + threadIdx.x % 16;
    #pragma unroll
    for (int n = 0; n < COUNT; n += 16) {
        int r = threadIdx.x / 16 + n;
        bool there = first + r < end;
        const float* from = X + (there ? (long long)(first + r) * 128 + 4 * chunk : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"((unsigned)__cvta_generic_to_shared(&tile[swizzle(r, chunk)])),
               "l"(from), "r"(there ? 16 : 0) : "memory");
    }
}
static __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for this thread's copies, all but the latest groups.
template <int LATEST> static __device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LATEST) : "memory");
}

// [split
static __device__ void split(unsigned& high, unsigned& low, float x, float y) {
    __half2 h = __floats2half2_rn(x, y);
    float2 f = __half22float2(h);
    __half2 l = __floats2half2_rn((x - f.x) * 2048.0f, (y - f.y) * 2048.0f);
    high = *(unsigned*)&h;
    low = *(unsigned*)&l;
}
// Each thread splits what it copied. Of 64 elements, the high halves come first, then the low ones.
template <int COUNT> static __device__ void split_piece(float4* tile, int piece) {
    int c = threadIdx.x % 16, row = threadIdx.x / 16, start = 16 * piece;
    #pragma unroll
    for (int n = 0; n < COUNT; n += 64) {
        float4 x[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = tile[swizzle(row + n + 16 * i, start + c)];
        __syncwarp();  // all lanes have their numbers: these rows may be written
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            int r = row + n + 16 * i;
            uint2 high, low;
            split(high.x, low.x, x[i].x, x[i].y);
            split(high.y, low.y, x[i].z, x[i].w);
            ((uint2*)&tile[swizzle(r, start + c / 2)])[c % 2] = high;
            ((uint2*)&tile[swizzle(r, start + c / 2 + 8)])[c % 2] = low;
        }
    }
}
// split]
// The position of eight columns' high halves, or of their low halves.
static __device__ int half_chunk(int row, int eight, int low) {
    return swizzle(row, eight / 8 * 16 + eight % 8 + low * 8);
}
// Four 8x8 matrices: lane l passes the address of row l % 8 of matrix l / 8.
static __device__ void ldmatrix(unsigned* r, const float4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_trans(unsigned* r, const float4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// [three
static __device__ void mma(float (&d)[4], const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// sum + LOW_SCALE * rest += a * b; the product of the low halves is left out.
static __device__ void mma_split(float (&sum)[4], float (&rest)[4], const Left& a, const Right& b) {
    mma(sum, a.high, b.high);
    if (TERMS == 3) mma(rest, a.high, b.low);
    if (TERMS == 3) mma(rest, a.low, b.high);
}
// three]

// One split of the keys: part = sum of p V, tops = row maxima times log2(e), sums = sums of p, where
// p = exp2(log2(e) * (scale * Q K^T + bias) - tops). FP32, contiguous: Q [heads][N][128]; K and V
// [heads][M][128]; bias [M], -infinity hides a key; part [splits][heads][N][128]; tops and sums
// [splits][heads][N]. Base addresses are multiples of 16 bytes; any N and M. Each split has `share`
// keys, a multiple of 128. TERMS: MMAs per product, 3 or 1. Elements of Q, K and V are at most 65,504,
// and the error grows for elements below 2^-14; nothing checks that.
// Grid (ceil(N / 64), splits, heads), 256 threads, 163,840 bytes of dynamic shared memory; sm_80 or
// newer with that much shared memory. d = 128 only; no mask but the bias.
extern "C" __global__ void __launch_bounds__(256, 1)
flash_halves(const float* Q, const float* K, const float* V, const float* bias,
             float* part, float* tops, float* sums, int N, int M, int share, float scale) {
    extern __shared__ float4 smem[];
    float4 *q = smem, *k = q + 64 * 32, *v = k + 128 * 32;
    int head = blockIdx.z, i0 = blockIdx.x * 64;
    int first = blockIdx.y * share, last = min(M, first + share);
    Q += (long long)head * N * 128;
    K += (long long)head * M * 128;
    V += (long long)head * M * 128;
    #pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
        load_piece<64>(q, Q, piece, i0, N);
        load_piece<128>(k, K, piece, first, last);
        commit();
    }
    load_piece<128>(v, V, 0, first, last);
    load_piece<128>(v, V, 1, first, last);
    commit();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // half: of the keys; a lane's rows: row, row + 8
    int warp_row = warp % 4 * 16, half = warp / 4, row = warp_row + lane / 4;
    float o[16][4] = {}, row_max[2] = {-INFINITY, -INFINITY}, z[2] = {}, scale2 = scale * LOG2E;
    #pragma unroll 1
    for (int j0 = first; j0 < last; j0 += 128) {
        float add[8][2], s[8][4] = {}, rest[8][4] = {};
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            int j = j0 + 64 * half + i / 2 * 8 + lane % 4 * 2 + i % 2;
            add[i / 2][i % 2] = j < last ? bias[j] * LOG2E : -INFINITY;
        }
        // [scores
        #pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            if (piece) wait_copies<1>(); else wait_copies<2>();
            if (j0 == first) split_piece<64>(q, piece);
            split_piece<128>(k, piece);
            __syncthreads();  // this piece of q and k is there, from every warp
            #pragma unroll
            for (int c = 4 * piece; c < 4 * piece + 4; ++c) {
                Left a;
                ldmatrix(a.high, &q[half_chunk(warp_row + lane % 16, 2 * c + lane / 16, 0)]);
                ldmatrix(a.low, &q[half_chunk(warp_row + lane % 16, 2 * c + lane / 16, 1)]);
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    Right b;
                    ldmatrix(b.high, &k[half_chunk(64 * half + 8 * n + lane % 8,
                                                   2 * c + lane / 8 % 2, lane / 16)]);
                    float sum[4] = {};  // 16 terms; FP32 additions do the rest
                    mma_split(UNITS_ADD ? s[n] : sum, rest[n], a, b);
                    #pragma unroll
                    for (int i = 0; i < 4 && !UNITS_ADD; ++i) s[n][i] += sum[i];
                }
            }
        }
        // scores]
        // [softmax
        float alpha[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m_new = row_max[r];
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                float& x = s[i / 2][2 * r + i % 2];
                x = (x + rest[i / 2][2 * r + i % 2] * LOW_SCALE) * scale2 + add[i / 2][i % 2];
                m_new = fmaxf(m_new, x);
            }
            m_new = fmaxf(m_new, __shfl_xor_sync(~0u, m_new, 1));
            m_new = fmaxf(m_new, __shfl_xor_sync(~0u, m_new, 2));
            float from = m_new == -INFINITY ? 0.0f : m_new;  // no key yet: all weights 0
            alpha[r] = exp2f(row_max[r] - from);
            row_max[r] = m_new;
            z[r] *= alpha[r];  // this lane's partial sum
            #pragma unroll
            for (int i = 0; i < 16; ++i)
                z[r] += s[i / 2][2 * r + i % 2] = exp2f(s[i / 2][2 * r + i % 2] - from);
        }
        Left p[4];  // split in registers: the left operand of PV
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            split(p[i / 4].high[i % 4], p[i / 4].low[i % 4], s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
        // softmax]
        // [mean
        wait_copies<0>();
        split_piece<128>(v, 0);
        split_piece<128>(v, 1);
        __syncthreads();  // v is there, and nobody needs these keys any more
        #pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            if (j0 + 128 < last) load_piece<128>(k, K, piece, j0 + 128, last);
            commit();
        }
        #pragma unroll
        for (int n = 0; n < 16; ++n) {
            float sum[4] = {}, rest[4] = {};
            #pragma unroll
            for (int c = 0; c < 4; ++c) {
                Right b;
                ldmatrix_trans(b.high, &v[half_chunk(64 * half + 16 * c + lane % 16, n, lane / 16)]);
                mma_split(sum, rest, p[c], b);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                o[n][i] = o[n][i] * alpha[i / 2] + (sum[i] + rest[i] * LOW_SCALE);
        }
        // mean]
        if (j0 + 128 < last) {
            __syncthreads();  // nobody needs these values any more
            load_piece<128>(v, V, 0, j0 + 128, last);
            load_piece<128>(v, V, 1, j0 + 128, last);
        }
        commit();
    }
    if (first >= last) {  // a split without keys has not waited yet
        wait_copies<0>();
        __syncthreads();
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        z[r] += __shfl_xor_sync(~0u, z[r], 1);
        z[r] += __shfl_xor_sync(~0u, z[r], 2);
    }
    float4 keep[8], *exchange = k + lane;  // for the warp with the other keys
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        float4 low = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
        float4 high = make_float4(o[n + 8][0], o[n + 8][1], o[n + 8][2], o[n + 8][3]);
        keep[n] = half ? high : low;
        exchange[(9 * warp + n) * 32] = half ? low : high;
    }
    exchange[(9 * warp + 8) * 32] = make_float4(row_max[0], row_max[1], z[0], z[1]);
    asm volatile("barrier.sync %0, 64;" :: "r"(1 + warp % 4) : "memory");  // two warps only
    exchange += 9 * (warp ^ 4) * 32;
    float4 other_stats = exchange[8 * 32];
    float own_scale[2], theirs[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float other = r ? other_stats.y : other_stats.x, both = fmaxf(row_max[r], other);
        float from = both == -INFINITY ? 0.0f : both;
        own_scale[r] = exp2f(row_max[r] - from);
        theirs[r] = exp2f(other - from);
        z[r] = z[r] * own_scale[r] + (r ? other_stats.w : other_stats.z) * theirs[r];
        row_max[r] = both;
    }
    long long at = ((long long)blockIdx.y * gridDim.z + head) * N + i0 + row;
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        float4 x = keep[n], y = exchange[n * 32];
        float* to = part + at * 128 + 64 * half + 8 * n + lane % 4 * 2;
        float2 upper = {x.x * own_scale[0] + y.x * theirs[0], x.y * own_scale[0] + y.y * theirs[0]};
        float2 lower = {x.z * own_scale[1] + y.z * theirs[1], x.w * own_scale[1] + y.w * theirs[1]};
        if (i0 + row < N) __stcg((float2*)to, upper);
        if (i0 + row + 8 < N) __stcg((float2*)(to + 8 * 128), lower);
    }
    for (int r = 0; r < 2; ++r)
        if (half == 0 && lane % 4 == 0 && i0 + row + 8 * r < N) {
            __stcg(&tops[at + 8 * r], row_max[r]);  // in powers of two
            __stcg(&sums[at + 8 * r], z[r]);
        }
}
"""


def of_halves(terms, units_add=0):
    """The kernel: one MMA per product or three, and whether tensor cores accumulate the whole sum of a score."""
    return Kernel(HALVES, defines={"TERMS": terms, "UNITS_ADD": units_add}, options=("-std=c++17",))


THREE_PRODUCTS, ONE_PRODUCT = of_halves(3), of_halves(1)
HALVES_BYTES = 4 * 128 * (64 + 2 * 128)

# %%
THREE_PRODUCTS.region("split")

# %% [markdown]
# The halves of a lane's elements overwrite elements that other lanes of the same warp split, so a warp barrier
# separates the reads from the writes.

# %%
THREE_PRODUCTS.region("three")

# %% [markdown]
# The two MMAs with a low half have accumulators of their own, which are scaled once at the end. Tensor cores round the
# sums in their accumulators less accurately than FMAs do. So for $QK^T$, this kernel lets tensor cores add only 16
# terms at a time, and FP32 additions do the rest.
#
# Run it on two queries and three keys. All scores are 0, and the first three columns of $V$ are an identity matrix, so
# the unnormalised output divided by the sum of the weights is 1/3 in each of these columns:

# %%
Q, K, V = np.zeros((2, 128), np.float32), np.zeros((3, 128), np.float32), np.eye(3, 128, dtype=np.float32)
bias, part = np.zeros(3, np.float32), np.zeros((1, 1, 2, 128), np.float32)
tops, sums = np.zeros((1, 1, 2), np.float32), np.zeros((1, 1, 2), np.float32)
THREE_PRODUCTS(
    Q, K, V, bias, part, tops, sums, 2, 3, 128, 128**-0.5, grid=(1, 1, 1), block=256, shared_bytes=163840
)
print((part[0, 0, 0] / sums[0, 0, 0])[:4].round(3))

# %% fold="The second launch"
JOIN_HALVES = r"""
extern "C" __global__
void join_halves(const float* part, const float* tops, const float* sums, float* O, int rows) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four elements of a row
    int row = at / 32, c = at % 32 * 4;
    if (row >= rows) return;
    float weight[SHARES], sum[SHARES], row_max = -INFINITY, z = 0.0f;
    float4 x[SHARES], o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) {
        long long from = (long long)w * rows + row;
        weight[w] = tops[from];
        sum[w] = sums[from];
        x[w] = *(const float4*)&part[from * 128 + c];
    }
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) row_max = fmaxf(row_max, weight[w]);
    if (row_max == -INFINITY) row_max = 0.0f;  // no key in any split
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) {
        weight[w] = exp2f(weight[w] - row_max);
        z += weight[w] * sum[w];
        o.x += weight[w] * x[w].x;
        o.y += weight[w] * x[w].y;
        o.z += weight[w] * x[w].z;
        o.w += weight[w] * x[w].w;
    }
    float over = z > 0.0f ? 1.0f / z : 0.0f;
    *(float4*)&O[(long long)row * 128 + c] =
        make_float4(o.x * over, o.y * over, o.z * over, o.w * over);
}
"""

# %% fold="Code of the checks"


from tilewise import agree, case, ceil_div, expect_hazard, normal, output


def hidden(M, first):
    """A bias under which the keys before `first` do not count."""
    return np.where(np.arange(M) < first, -np.inf, 0).astype(np.float32)


def in_shares(N, M, shares, heads=1, bias=None, stretch=1.0):
    return case(
        Q=normal(heads, N, 128, scale=stretch),
        K=normal(heads, M, 128),
        V=normal(heads, M, 128),
        bias=normal(M) if bias is None else bias,
        part=output(shares, heads, N, 128),
        tops=output(shares, heads, N),
        sums=output(shares, heads, N),
        O=output(heads, N, 128),
        N=N,
        M=M,
        rows=heads * N,
        shares=shares,
        share=ceil_div(M, shares * 128) * 128,
        scale=128**-0.5,
    )


def halves_on(kernel, given):
    N, rows, shares = (given.values[name] for name in ("N", "rows", "shares"))
    grid = (ceil_div(N, 64), shares, rows // N)
    return kernel.on(given, grid=grid, block=256, shared_bytes=HALVES_BYTES)


def halves_launches(kernel, given):
    join = Kernel(JOIN_HALVES, defines={"SHARES": given.values["shares"]})
    return [halves_on(kernel, given), join.on(given, grid=ceil_div(given.values["rows"], 8), block=256)]


AWKWARD_32 = {
    "two heads, 150 keys in two splits": in_shares(70, 150, 2, heads=2),
    "three tiles per split": in_shares(33, 700, 2),
    "large logits": in_shares(65, 130, 2, stretch=30.0),
    "a first tile that is masked": in_shares(20, 200, 1, bias=hidden(200, 140)),
    "a split that is masked": in_shares(20, 200, 2, bias=hidden(200, 130)),
    "no key at all": in_shares(70, 65, 2, bias=hidden(65, 65)),
}
agree(
    flash_halves,
    THREE_PRODUCTS,
    [
        as_case(halves_on(THREE_PRODUCTS, AWKWARD_32[label]))
        for label in ("two heads, 150 keys in two splits", "three tiles per split", "a split that is masked")
    ],
    rtol=1e-5,
    atol=1e-5,
)


def check_halves(label, name, atol, terms=3, units_add=0):
    """Both launches on awkward inputs, compared with 64-bit floats."""
    run = run_chain(halves_launches(of_halves(terms, units_add), AWKWARD_32[label]))
    right = attention(*(run[one] for one in ("Q", "K", "V", "bias", "scale")))["O"]
    check(run["O"], right, atol=atol, name=name)


for label in AWKWARD_32:
    check_halves(label, f"split-half: {label}", 1e-4 if label == "large logits" else 2e-6)
SHARED_KEYS = "two heads, 150 keys in two splits"
check_halves(SHARED_KEYS, "three MMAs, all accumulated by tensor cores", 4e-6, 3, 1)
check_halves(SHARED_KEYS, "one MMA", 4e-3, 1)


LINE = "__syncwarp();  // all lanes have their numbers: these rows may be written"
LAST_WAIT = "        wait_copies<0>();\n        __syncthreads();\n    }\n"
expect_hazard(edited(halves_on(THREE_PRODUCTS, AWKWARD_32[SHARED_KEYS]), (LINE, "")), "race")
no_key = halves_on(THREE_PRODUCTS, AWKWARD_32["no key at all"])
expect_hazard(edited(no_key, (LAST_WAIT, "    }\n")), "undelivered")

# %% [markdown]
# Compare three MMAs per product with one. How many more instructions does the kernel execute?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    lambda queries, keys: as_case(halves_on(THREE_PRODUCTS, in_shares(queries, keys, 1))),
    {"three MMAs": THREE_PRODUCTS, "one MMA": ONE_PRODUCT},
    queries=(1, 16, 64),
    keys=(1, 32, 128),
)

# %% [markdown]
# ## Result: faster and as accurate

# %% fold="Code of the counts"
MMA_32 = 3 * 2 * 64 * 128 * 128 // (16 * 8 * 16)
MATRIX_32 = MMA_32 * 2 * 16 * 8 * 16 * GPU.sms * GPU.boost_mhz * 1e6 / (FP16_PROBE * 1e12)
TOLD = {  # cycles of each part, predicted before any of this ran
    "q and k there, split": 4000,
    "scores": 3000,
    "softmax": 700,
    "v there, split": 500,
    "mean": 3000,
    "swap": 500,
    "parts out": 1500,
}

# %% fold="Code of the measurement"


def zero_bias(N, shares):
    """One head whose bias is zero, so that a library computes the same."""
    return case(
        Q=normal(N, 128),
        K=normal(N, 128),
        V=normal(N, 128),
        bias=constant(N, value=0.0),
        part=output(shares, 1, N, 128),
        tops=output(shares, 1, N),
        sums=output(shares, 1, N),
        O=output(N, 128),  # last: what a library writes
        N=N,
        M=N,
        rows=N,
        shares=shares,
        share=ceil_div(N, shares * 128) * 128,
        scale=128**-0.5,
    )


def shares_that_fill(N):
    """As many shares, 1, 2, 4 or 8, as fill the SMs."""
    most = min(ceil_div(N, 128), GPU.sms // ceil_div(N, 64))
    return max(one for one in (1, 2, 4, 8) if one <= max(1, most))


def with_halves(terms, units_add=0):
    return lambda N, d: halves_launches(of_halves(terms, units_add), zero_bias(N, shares_that_fill(N)))


def torch_in_three(arrays):
    """Eager mode: two GEMMs and a softmax, in FP32."""
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


def torch_at_once(arrays):
    """PyTorch's fused attention in FP32."""
    import torch

    Q, K, V = (torch.as_tensor(arrays[name], device="cuda") for name in "QKV")
    scale = float(arrays["scale"])
    attention = torch.nn.functional.scaled_dot_product_attention

    def run():
        return attention(Q[None, None], K[None, None], V[None, None], scale=scale)[0, 0]

    return run


SIZES_32 = [{"N": N, "d": 128} for N in (256, 1000, 1024, 4096)]
UNITS, SPLIT, ONE = "three MMAs, tensor-core accumulators", "three MMAs", "one MMA"
in_halves = measure(
    "attention_halves",
    variants={UNITS: with_halves(3, 1), SPLIT: with_halves(3)},
    cases=SIZES_32,
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 3 * 4 * N * N * d,
    arithmetic="fp16_matrix",
    counts=("sectors", "wavefronts", "instructions"),
    library={"torch, three operations": torch_in_three, "torch, fused": torch_at_once},
    reference=attention,
    tolerance=2e-5,
    reasons={"*": "Result: faster and as accurate"},
    fold="All rows",
    guess=Guess(
        "At N = 1,024, how much faster are three MMAs than PyTorch's three FP32 operations?",
        of=SPLIT,
        over="torch, three operations",
        at={"N": 1024, "d": 128},
        between=(0.5, 8.0),
        models={"the FP32 kernel with FMAs": ordinary_us(THREE) / ordinary_us(FFMA)},
        because="The GEMMs got faster, but the work around them didn't.",
    ),
)

# %% fold="Code of the measurement with one MMA"
in_one = measure(
    "attention_halves_once",
    variants={ONE: with_halves(1)},
    cases=SIZES_32,
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    arithmetic="fp16_matrix",
    counts=("sectors", "wavefronts", "instructions"),
    reference=attention,
    tolerance=2e-3,
    reasons={"*": "Result: faster and as accurate"},
    fold="All rows with one MMA",
)

# %% fold="Code of the figure"
from tilewise.measurements import Numbers, complete, medians_us

US_32 = Numbers(medians_us(in_halves, "N") | medians_us(in_one, "N"))


def us_32(label, N=1024):
    return ordinary_us(FFMA, N) if label == "FMAs" else US_32[label, N]


IN_THREE = "torch, three operations"
SHOWN = {
    **{label: us_32(label) for label in ("torch, fused", IN_THREE, "FMAs", SPLIT)},
    "one MMA (FP16 accuracy)": us_32(ONE),
}
if complete(*US_32.values(), *SHOWN.values()):
    for N in (256, 1024, 4096):
        assert us_32(SPLIT, N) < us_32("FMAs", N), "a takeaway says less than FMAs"
    assert us_32(SPLIT) < us_32(IN_THREE), "the title"
    show(
        bars(
            SHOWN,
            roles={"three MMAs": "tile", "one MMA (FP16 accuracy)": "waste"},
            x="time [µs]",
            form=".1f",
            title="Three MMAs per product beat FMAs",
            caption="One head of FP32 attention, N = 1,024, d = 128, on an {machine}: PyTorch, the fastest kernel with FMAs, this page's kernel with three MMAs per product, and with the high halves only.",
        )
    )
publish(
    split_us={
        "three": us_32(SPLIT),
        "more": us_32(SPLIT) - us_32(ONE),
        "of_torch": us_32(IN_THREE) / us_32(SPLIT),
        "of_ordinary": us_32("FMAs") / us_32(SPLIT),
        "long_of_ordinary": us_32("FMAs", 4096) / us_32(SPLIT, 4096),
        "long_of_torch": us_32(IN_THREE, 4096) / us_32(SPLIT, 4096),
        "adding": us_32(SPLIT) / us_32(UNITS) - 1,
        "adding_long": us_32(SPLIT, 4096) / us_32(UNITS, 4096) - 1,
    }
)

# %% [markdown]
# At N = 1,024, the kernel with three MMAs takes {{ split_us.three | us }}. That's {{ split_us.of_ordinary | .1f }}×
# faster than FMAs and {{ split_us.of_torch | .1f }}× faster than PyTorch's three operations; at N = 4,096, it's
# {{ split_us.long_of_ordinary | .1f }}× and {{ split_us.long_of_torch | .1f }}×. With a single MMA per product, the
# kernel would save only another {{ split_us.more | us }}: GEMMs account for just half of a block's time, and the MMAs
# for only part of that half. The cycle counter shows how a block spends the rest:

# %% fold="The kernel with stamps"
PARTS_32 = tuple(TOLD)
MARKS_32 = {
    "    V += (long long)head * M * 128;\n": 0,
    "            __syncthreads();  // this piece of q and k is there, from every warp\n": 1,
    "        // scores]\n": 2,
    "        // softmax]\n": 3,
    "        __syncthreads();  // v is there, and nobody needs these keys any more\n": 4,
    "        // mean]\n": 5,
    "    long long at = ((long long)blockIdx.y * gridDim.z + head) * N + i0 + row;\n": 6,
    "            __stcg(&sums[at + 8 * r], z[r]);\n        }\n": 7,
}
STAMPED = HALVES.replace("int share, float scale) {", "int share, float scale, long long* stamps) {")
for mark, number in MARKS_32.items():
    assert STAMPED.count(mark) == 1, mark
    only = " && piece == 0" if number == 1 else ""
    STAMPED = STAMPED.replace(
        mark,
        f"{mark}if (threadIdx.x == 0{only})"
        f" stamps[8 * (blockIdx.y * gridDim.x + blockIdx.x) + {number}] = clock64();\n",
    )
WITH_STAMPS = Kernel(STAMPED, defines=THREE_PRODUCTS.defines, options=THREE_PRODUCTS.options)
stamped_case = in_shares(70, 256, 2)
arrays = stamped_case.make() | {"stamps": np.zeros((4, 8), np.int64)}
WITH_STAMPS.on(case((2, 2, 1), 256, HALVES_BYTES, **stamped_case.values, stamps=arrays["stamps"])).simulate(
    arrays=arrays
)
halves_launches(THREE_PRODUCTS, stamped_case)[1].run(arrays)
right = attention(*(arrays[one] for one in ("Q", "K", "V", "bias", "scale")))["O"]
check(arrays["O"], right, atol=2e-6, name="in halves, with stamps")

# %% fold="Code that notes the clock on a GPU" needs="gpu" record="halves_clocks"
if gpu_here():
    import cupy

    generator = cupy.random.default_rng(6)
    arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
    arrays |= {"bias": cupy.zeros(1024, cupy.float32), "stamps": cupy.zeros((128, 8), cupy.int64)}
    arrays |= {"part": cupy.empty((8, 1024, 128), cupy.float32)}
    arrays |= {name: cupy.empty((8, 1024), cupy.float32) for name in ("tops", "sums")}
    given = {**zero_bias(1024, 8).values, **arrays}
    large, noted = cupy.zeros(2**26, cupy.float32), []
    for _ in range(9):
        large.sum()  # reads 256 MB, so that nothing of the inputs is left in the L2
        WITH_STAMPS(
            *(given[one.name] for one in WITH_STAMPS.parameters),
            grid=(16, 8, 1),
            block=256,
            shared_bytes=HALVES_BYTES,
        )
        noted.append(cupy.asnumpy(arrays["stamps"]))
    spent = np.diff(np.stack(noted[1:]), axis=2).reshape(-1, 7)
    for part, row in zip(PARTS_32, np.percentile(spent, (50, 5, 95), axis=0).T, strict=True):
        print(f"{part}: {row[0]:.0f} clocks, {row[1]:.0f} to {row[2]:.0f}")
    print(f"a block: {np.median(spent.sum(axis=1)):.0f} clocks")

# %% fold="Code of the figure"
TOOK = printed_numbers("attention/matrix_units_fp32", "halves_clocks", r"^(.+): (\d+) clocks")
if TOOK:
    ends = np.cumsum([0.0, *(TOOK[part] for part in PARTS_32)])
    NAMES = ("load and split q, k", "QKᵀ GEMM", "softmax", "split v", "PV GEMM", "exchange", "epilogue")
    ROLES = ("read", "tile", "block", "read", "tile", "waste", "write")
    show(
        timeline(
            [
                Span(name, start, end, f"{end - start:.0f}", role)
                for name, start, end, role in zip(NAMES, ends, ends[1:], ROLES, strict=False)
            ],
            unit="cycles",
            title="Half of a block's time isn't spent on GEMMs",
            caption="Median number of cycles that a block spends in each part, for N = 1,024 with one key tile per split, recorded on an {machine} with a cold L2.",
        )
    )
    assert 0.4 < 1 - (TOOK["scores"] + TOOK["mean"]) / TOOK["a block"] < 0.6, "the title says half"
publish(took={"there": TOOK["q and k there, split"], "busy": MATRIX_32 / TOOK["a block"]})

# %% [markdown]
# The MMAs alone would need {{ took.busy | .0% }} of a block's cycles at the rate of `mma.sync`. Loading and splitting
# $q$ and $k$ takes {{ took.there | ,.0f }} cycles; with a single key tile per block, there's no other work to overlap
# with the loads.
#
# How accurate is it? The next cell ran on the GPU. It prints the largest error against FP64, relative to the largest
# result, at N = 1,024. "Three" and "one" are the numbers of MMAs per product; "by the units" means that the tensor
# cores add all terms.

# %% fold="Code that compares errors on a GPU" needs="gpu torch" record="halves_errors"
if gpu_here():
    import cupy
    import torch

    generator = cupy.random.default_rng(9)
    for name, stretch, height, first in (
        ("normal numbers", 1, 1, 0),
        ("queries thirty times as large", 30, 1, 0),
        ("a first half that is masked", 1, 1, 512),
        ("values of a thousandth", 1, 1e-3, 0),
        ("values of a millionth", 1, 1e-6, 0),
        ("values of a hundred thousand", 1, 1e5, 0),
    ):
        arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
        arrays["Q"] *= cupy.float32(stretch)
        arrays["V"] *= cupy.float32(height)
        arrays["bias"] = cupy.asarray(hidden(1024, first))
        Q, K, V, bias = (torch.as_tensor(arrays[one], device="cuda") for one in ("Q", "K", "V", "bias"))
        theirs = torch.softmax(Q @ K.T * 128**-0.5 + bias, dim=-1) @ V
        Q, K, V, bias = (one.double() for one in (Q, K, V, bias))
        exact = torch.softmax(Q @ K.T * 128**-0.5 + bias, dim=-1) @ V
        found = []
        for terms, units_add in ((3, 0), (3, 1), (1, 0)):
            arrays["O"] = cupy.full((1024, 128), np.nan, cupy.float32)
            arrays["part"] = cupy.empty((8, 1024, 128), cupy.float32)
            arrays |= {one: cupy.empty((8, 1024), cupy.float32) for one in ("tops", "sums")}
            for launch in halves_launches(of_halves(terms, units_add), zero_bias(1024, 8)):
                given = {**launch.case.values, **arrays}
                launch.kernel(
                    *(given[one.name] for one in launch.kernel.parameters),
                    grid=launch.grid,
                    block=launch.block,
                    shared_bytes=launch.shared_bytes or 0,
                )
            found.append(torch.as_tensor(arrays["O"], device="cuda"))
        off = [((one.double() - exact).abs().max() / exact.abs().max()).item() for one in (*found, theirs)]
        print(f"{name}: three {off[0]:.3g}, by the units {off[1]:.3g}, one {off[2]:.3g}, torch {off[3]:.3g}")

# %% fold="Code of the numbers"
ERRORS_32 = {
    name: offs
    for name, *offs in printed_rows(
        "attention/matrix_units_fp32",
        "halves_errors",
        r"^(.+): three (\S+), by the units (\S+), one (\S+), torch (\S+)$",
    )
}
if ERRORS_32:
    NORMAL, MICRO = ERRORS_32["normal numbers"], ERRORS_32["values of a millionth"]
    publish(
        off32={
            **dict(zip(("three", "units", "one", "torch"), NORMAL, strict=True)),
            "micro_times": MICRO[0] / MICRO[3],
            "by_units": NORMAL[1] / NORMAL[0],
        }
    )

# %% [markdown]
# For normally distributed inputs, three MMAs are off by {{ off32.three | .1e }} and PyTorch's FP32 operations by
# {{ off32.torch | .1e }}; one MMA is off by {{ off32.one | .1e }}. If tensor cores accumulate all terms, the error of
# three MMAs is {{ off32.by_units | .1f }}× larger. The separate additions that avoid it cost {{ split_us.adding | .1%}}
# of the time at N = 1,024 and {{ split_us.adding_long | .1% }} at 4,096.
#
# With values around 1e-6, the error is {{ off32.micro_times | .0f }}× PyTorch's, and with values around 100,000 the
# result is NaN.
#
# ## Takeaways
#
# - An FP32 number can be represented almost exactly as the sum of two FP16 numbers. Three MMAs per product preserve
#   FP32 accuracy and are faster than FMAs.
# - Scale the low half, and keep long sums out of the tensor cores' accumulators.
# - Elements must be between 0.0001 and 65,504 in magnitude; otherwise, scale them first.
#
# ## In your own kernel
#
# If `sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active` is high in Nsight Compute while
# `sm__inst_executed_pipe_tensor.sum` is 0, an FP32 GEMM runs on FMAs, and splitting its operands can move it to the
# tensor cores. Before you do, test the accuracy with your own data against FP64, small values included.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "Scale before you split",
    "The elements of a matrix are around 1e30, and those of another around 1e-6. By which factor do you multiply each before you split it, why should it be a power of two, and what do you do with the result of the GEMM?",
    hint="Multiplying by a power of two only changes the exponent.",
    explanation="By $2^{-\\lfloor \\log_2 \\max |x| \\rfloor}$: the largest element is then between 1 and 2, far below 65,504, and elements down to a ten-thousandth of it keep their bits. A power of two doesn't round. The result is divided by both factors.",
)
