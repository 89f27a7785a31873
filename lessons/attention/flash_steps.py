# ---
# title: "FlashAttention in FP32, step by step"
# needs: [attention/flash_forward, matmul/register_tiles, matmul/tiles_and_waves]
# further: attention/flash_forward
# summary: "Kernel 6 spends most of its time on something other than FMAs. Which of five changes help, and can attention run in half of PyTorch's time?"
# description: "FP32 FlashAttention optimised by its cycle counter: larger register tiles by splitting d, transposed operands, a ring of column stages, and three ways to combine splits of the keys."
# date: 2026-11-23
# tags: [FlashAttention, FP32, clusters, split-KV]
# ---

# %% [markdown]
# A block of [Kernel 6](flash_forward.py) has {{ floor.us | us }} of FMAs to execute and runs alone on its SM. The
# kernel takes {{ old.us | us }}, {{ old.of_torch | .0% }} of the time of PyTorch's three operations. Can FP32 attention
# without tensor cores run in half of PyTorch's time, {{ goal.us | us }}?
#
# [The lesson's timeline](flash_forward.py#kernel-6-against-pytorch) shows where the cycles of a block go. The next five
# sections each make one change, aimed at one of its parts. Some of them turn out to make the kernel slower.

# %% fold="Code of the numbers"
import numpy as np

from tilewise import Kernel, Table, exercise, gpu_here, parallel, publish, show, tiles
from tilewise.figures import bars
from tilewise.kernel.chains import as_case, run_chain
from tilewise.kernel.edits import edited
from tilewise.measurements import printed_numbers, recorded, recorded_device
from tilewise.measurements.attention import attention

GPU = recorded_device()


def old_us(variant, N=1024):
    """A median of Kernel 6's lesson, in microseconds."""
    return recorded(f"attention_flash.{variant}.n_{N}_d_128.median")


PRODUCTS = 2 * 64 * 128 * 128 // 32  # FMAs of warps in a block's two GEMMs
FLOOR = PRODUCTS / 4
WAS = printed_numbers("attention/flash_forward", "clocks", r"^(.+): (\d+) (?:clocks|ns)")
publish(
    floor={"us": FLOOR / GPU.boost_mhz},
    old={
        "us": old_us("kernel_6_flash"),
        "of_torch": old_us("kernel_6_flash") / old_us("torch_three_operations"),
    },
    goal={"us": old_us("torch_three_operations") / 2},
    eight={"us": old_us("_64_x_128_8_x_8_per_thread")},
    was={"per_product": (WAS["scores"] + WAS["mean"]) / FLOOR},
)

# %% [markdown]
# ## Larger register tiles: two threads split d
#
# A thread of Kernel 6 has 4 × 8 accumulators. With 8 × 8, it would load 16 elements for 64 FMAs instead of 12 for 32: a
# third less per FMA. But a block has only 64 × 128 scores, enough for just 128 threads: one warp per scheduler. While
# that warp waits, its scheduler issues nothing. With that shape, Kernel 6 takes {{ eight.us | us }}.
#
# So let two threads share a tile of 64 accumulators, each summing *half of the terms*. In $QK^T$, warps 0 to 3 process
# the first 64 columns of $q$ and $k$, and warps 4 to 7 the others. In $PV$, each half of the warps processes half of
# the keys. That gives eight warps again, each loading as few elements per FMA as with an 8 × 8 tile.
#
# ## Transposed operands: alternating register banks
#
# An FMA reads three registers, and the register file has two banks, each of which delivers one register per
# cycle.[^banks] Kernel 6 loads four adjacent columns of a row into four adjacent registers. So the elements of a
# *single* column are four registers apart, all in the same bank. In a transposed tile, eight queries of one column are
# adjacent, so they land in registers of alternating banks. For this reason, $q$ is transposed during the copy, which
# then moves 4 bytes at a time, and the probabilities are transposed when they're stored.
#
# [^banks]: [Register banks and operand reuse](../matmul/register_tiles_banks.py) measures the cost of register bank
#     conflicts.


# %% tab="Pseudocode"
def flash_steps(Q, K, V, bias, part, tops, sums, O, scale, share):
    shares, heads, N, d = part.shape
    for h, i in parallel(heads, N):
        for w in range(shares):
            own = range(w * share, min(len(bias), (w + 1) * share))
            m, z, o = -np.inf, 0.0, np.zeros(d)
            for tile in tiles(len(own), 128):
                keys = [own[t] for t in tile]
                # [scores
                # [multiply
                low = K[h, keys, :64] @ Q[h, i, :64]
                high = K[h, keys, 64:] @ Q[h, i, 64:]
                # multiply]
                # [exchange
                s = (low + high) * scale + bias[keys]
                # exchange]
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
            # [parts
            part[w, h, i], tops[w, h, i], sums[w, h, i] = o, m, z
            # parts]
        # [last
        # [cluster
        row_max = max(tops[:, h, i])
        z, o = 0.0, np.zeros(d)
        for w in range(shares):
            weight = np.exp(tops[w, h, i] - row_max) if row_max > -np.inf else 0.0
            z, o = z + weight * sums[w, h, i], o + weight * part[w, h, i]
        O[h, i] = o / z if z > 0 else 0.0
        # cluster]
        # last]


# %% tab="CUDA C"
STEPS = r"""
#define TILE_ROWS 64
#define TILE_KEYS 128
#define WIDE 132              // row stride of k or v: 128 elements and 16 bytes
#define WIDE_Q 68             // row stride of transposed q or p: 64 elements and 16 bytes
#define PART 16               // columns of either half of d per pipeline stage

// Copies 16 or 4 bytes to shared memory; zeros where there is nothing to read.
template <int BYTES> __device__ void copy(float* to, const float* from, bool there) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                     :: "r"(at), "l"(from), "r"(there ? 4 : 0) : "memory");
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's copies, all but the latest groups.
template <int LATEST> __device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LATEST) : "memory");
}

// One stage of COUNT rows of X, transposed: a column of X becomes a row of the tile.
template <int COUNT>
__device__ void load_transposed(float* tile, int wide, const float* X, int piece, int first, int end) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int r = 4 * (warp % 4) + lane / 8, c = 64 * (warp / 4) + PART * piece + lane % 8;
    const float* from = X + (first + r) * 128 + c;  // beyond the end nothing is read
    tile += c * wide + r;
    #pragma unroll
    for (int n = 0; n < COUNT; n += 16)
        #pragma unroll
        for (int b = 0; b < PART; b += 8)
            copy<4>(tile + b * wide + n, from + n * 128 + b, first + r + n < end);
}

// One stage of the keys.
__device__ void load_keys(float* k, const float* K, int piece, int first, int end) {
#if TURNED
    load_transposed<TILE_KEYS>(k, WIDE, K, piece, first, end);
#else
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int r = 8 * (warp % 4) + lane % 8, c = 64 * (warp / 4) + PART * piece + lane / 8 * 4;
    K += (first + r) * 128 + c;
    k += r * WIDE + c;
    #pragma unroll
    for (int n = 0; n < TILE_KEYS; n += 32)
        copy<16>(k + n * WIDE, K + n * 128, first + r + n < end);
#endif
}

// One half of the values.
__device__ void load_values(float* v, const float* V, int part, int first, int end) {
    int r = TILE_KEYS / 2 * part + threadIdx.x / 32, c = threadIdx.x % 32 * 4;
    V += (first + r) * 128 + c;
    v += r * WIDE + c;
    #pragma unroll
    for (int n = 0; n < TILE_KEYS / 2; n += 8)
        copy<16>(v + n * WIDE, V + n * 128, first + r + n < end);
}

__device__ float& of(float4& x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

// [multiply
// sum[r][c] += x[r] * b[c] for eight queries, eight elements of a row of a transposed tile.
__device__ void outer(float (&sum)[8][8], const float* x, const float (&b)[8]) {
    float4 x0 = *(const float4*)x, x1 = *(const float4*)(x + 8);
    float a[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
    #pragma unroll
    for (int c = 0; c < 8; ++c)
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int r = c % 2 ? 7 - i : i;  // down a column, up the next
            sum[r][c] += a[r] * b[c];
        }
}

// A row of y has one element for each of the eight columns: transposed keys, or values.
template <int STEPS> __device__ void multiply(float (&sum)[8][8], const float* x, const float* y) {
    #pragma unroll 8
    for (int t = 0; t < STEPS; ++t) {
        float4 y0 = *(const float4*)&y[t * WIDE], y1 = *(const float4*)&y[t * WIDE + 64];
        float b[8] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
        outer(sum, x + t * WIDE_Q, b);
    }
}
// multiply]

// [rows
// y is row-major: one row for each of the eight columns, four elements per load.
template <int STEPS> __device__ void multiply_rows(float (&sum)[8][8], const float* x, const float* y) {
    #pragma unroll 2
    for (int t = 0; t < STEPS; t += 4, x += 4 * WIDE_Q) {
        float4 row[8];
        float b[4][8];
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            row[c] = *(const float4*)&y[16 * c * WIDE + t];
            b[0][c] = row[c].x;
            b[1][c] = row[c].y;
            b[2][c] = row[c].z;
            b[3][c] = row[c].w;
        }
        outer(sum, x, b[0]);
        outer(sum, x + WIDE_Q, b[1]);
        outer(sum, x + 2 * WIDE_Q, b[2]);
        outer(sum, x + 3 * WIDE_Q, b[3]);
    }
}
// rows]

// [exchange
// Synchronises the two warps that share accumulators.
__device__ void pair_sync(int pair) {
    asm volatile("barrier.sync %0, 64;" :: "r"(1 + pair) : "memory");
}

// Two threads have 64 partial accumulators each, over half of the terms; each keeps 32 complete ones.
__device__ void combine_halves(float4 (&keep)[8], const float (&sum)[8][8], float* exchange, int pair, int half) {
    exchange += threadIdx.x % 32 * WIDE_Q;
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
        float4 low = make_float4(sum[0][c], sum[1][c], sum[2][c], sum[3][c]);
        float4 high = make_float4(sum[4][c], sum[5][c], sum[6][c], sum[7][c]);
        keep[c] = half ? high : low;
        float* place = exchange + (64 * (c % 2) + 32 * half) * WIDE_Q + 4 * (c / 2);
        *(float4*)place = half ? low : high;
    }
    pair_sync(pair);  // what is given away is in shared memory
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
        float* place = exchange + (64 * (c % 2) + 32 * (1 - half)) * WIDE_Q + 4 * (c / 2);
        float4 other = *(float4*)place;
        keep[c].x += other.x;
        keep[c].y += other.y;
        keep[c].z += other.z;
        keep[c].w += other.w;
    }
    pair_sync(pair);  // the exchange area may be overwritten
}
// exchange]

#if JOIN == 1
__device__ unsigned arrivals[65536];  // of splits, for every eight queries
#endif

#if JOIN == 2
// The address of the same variable in another block of the cluster.
__device__ unsigned remote_addr(const float* place, int block) {
    unsigned here = (unsigned)__cvta_generic_to_shared(place), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
    return there;
}

__device__ float ld_cluster(unsigned at) {
    float x;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
    return x;
}

__device__ float4 ld_cluster4(unsigned at) {
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(at) : "memory");
    return x;
}

__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
#endif

// O = softmax(scale * Q K^T + bias) V with the keys split over blocks. FP32, contiguous: Q and O
// [heads][N][128], K and V [heads][M][128], bias [M] (-infinity hides a key); part
// [splits][heads][N][128], tops and sums [splits][heads][N]. Base addresses are multiples of 16 bytes;
// any N and M. Each split has `share` keys, a multiple of 128. TURNED: K is transposed in shared
// memory. JOIN: 0 leaves part, tops (maxima) and sums for a second launch; 1, the last-arriving warp
// combines them; 2, a cluster of SHARES blocks does, and part, tops and sums stay unused.
// Grid (ceil(N / 64), splits, heads), 256 threads, 205,056 bytes of dynamic shared memory; sm_80 or
// newer with that much shared memory, sm_90 for JOIN 2. JOIN 1: at most 32 splits and 65,536 / 8
// query tiles over all heads, one launch at a time, since `arrivals` is global. d = 128 only.
extern "C" __global__ void
#if JOIN == 2
__cluster_dims__(1, SHARES, 1)
#endif
__launch_bounds__(256, 1)
flash_steps(const float* Q, const float* K, const float* V, const float* bias,
            float* part, float* tops, float* sums, float* O,
            int N, int M, int share, float scale) {
    extern __shared__ float4 smem[];
    float* q = (float*)smem;           // transposed
    float* k = q + 128 * WIDE_Q;        // transposed if TURNED
    float* v = k + 128 * WIDE;
    float* p = v + TILE_KEYS * WIDE;    // transposed
    float* factor = p + TILE_KEYS * WIDE_Q;
    int head = blockIdx.z, i0 = blockIdx.x * TILE_ROWS;
    int first = blockIdx.y * share, last = min(M, first + share);
    Q += (long long)head * N * 128;
    K += (long long)head * M * 128;
    V += (long long)head * M * 128;
    #pragma unroll 1
    for (int piece = 0; piece < 2; ++piece) {
        load_transposed<TILE_ROWS>(q, WIDE_Q, Q, piece, i0, N);
        load_keys(k, K, piece, first, last);
        commit();
    }
#if JOIN == 2
    cluster_arrive();  // this block is running
#endif
    int warp = threadIdx.x / 32, pair = warp % 4, half = warp / 4;
    int lane = threadIdx.x % 32, lane_col = lane / 2, four = 4 * (lane % 2);
    float* own = p + 16 * pair;         // the 16 queries of two warps
#if TURNED
#define KEY(j) (4 * lane_col + (j) % 4 + (j) / 4 * 64)  // a thread's eight of the keys
#else
#define KEY(j) (lane_col + 16 * (j))
#endif
    int row = 16 * pair + 8 * half + four;  // a thread's first of the four that it keeps
    float m[4], z[4], o[8][8] = {};
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        m[i] = -INFINITY;
        z[i] = 0.0f;
    }
    for (int j0 = first; j0 < last; j0 += TILE_KEYS) {
        float key_bias[8];
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int key = j0 + KEY(j);
            key_bias[j] = key < last ? bias[key] : -INFINITY;
        }
        // [scores
        float s[8][8] = {};
        #pragma unroll 1
        for (int piece = 0; piece < 4; ++piece) {
            wait_copies<1>();
            __syncthreads();  // this stage of q and k is there, and the previous one was used
            if (piece < 2) {
                if (j0 == first) load_transposed<TILE_ROWS>(q, WIDE_Q, Q, piece + 2, i0, N);
                load_keys(k, K, piece + 2, j0, last);
                load_values(v, V, piece, j0, last);
            } else if (j0 + TILE_KEYS < last) {
                load_keys(k, K, piece - 2, j0 + TILE_KEYS, last);
            }
            commit();
            int c = 64 * half + PART * piece;
#if TURNED
            multiply<PART>(s, q + c * WIDE_Q + 16 * pair + four, k + c * WIDE + 4 * lane_col);
#else
            multiply_rows<PART>(s, q + c * WIDE_Q + 16 * pair + four, k + lane_col * WIDE + c);
#endif
        }
        float4 keep[8];
        combine_halves(keep, s, own, pair, half);
        // scores]
        // [softmax
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float row_max = m[i];
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                of(keep[j], i) = of(keep[j], i) * scale + key_bias[j];
                row_max = fmaxf(row_max, of(keep[j], i));
            }
            for (int h = 2; h < 32; h *= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, h));
            float shift = row_max == -INFINITY ? 0.0f : row_max;
            float alpha = expf(m[i] - shift);
            m[i] = row_max;
            z[i] *= alpha;  // this lane's partial sum
            #pragma unroll
            for (int j = 0; j < 8; ++j) z[i] += of(keep[j], i) = expf(of(keep[j], i) - shift);
            if (lane_col == 0) factor[row + i] = alpha;
        }
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            *(float4*)&p[KEY(j) * WIDE_Q + row] = keep[j];
        // softmax]
        __syncthreads();  // p is there, from both warps; v has been since the last piece
        // [mean
        if (j0 > first)
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                float alpha = factor[16 * pair + four + i % 4 + i / 4 * 8];
                #pragma unroll
                for (int c = 0; c < 8; ++c) o[i][c] *= alpha;
            }
        multiply<64>(o, own + 64 * half * WIDE_Q + four, v + 64 * half * WIDE + 4 * lane_col);
        // mean]
    }
    if (first >= last) {  // a split without keys has not waited yet
        wait_copies<0>();
        __syncthreads();
    }
    pair_sync(pair);  // neither warp needs p any longer
    float4 keep[8];
    combine_halves(keep, o, own, pair, half);
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        for (int h = 2; h < 32; h *= 2) z[i] += __shfl_xor_sync(~0u, z[i], h);
#if JOIN != 2
    // [parts
    long long rows = (long long)gridDim.z * N, from = (long long)head * N + i0;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i0 + row + i >= N) continue;
        long long at = blockIdx.y * rows + from + row + i;
        #pragma unroll
        for (int c = 0; c < 8; c += 4)
            __stcg((float4*)&part[at * 128 + 16 * c + 4 * lane_col],
                   make_float4(of(keep[c], i), of(keep[c + 1], i), of(keep[c + 2], i), of(keep[c + 3], i)));
        if (lane_col == 0) {
            __stcg(&tops[at], m[i]);
            __stcg(&sums[at], z[i]);
        }
    }
    // parts]
#endif
#if JOIN == 1
    // [last
    int shares = gridDim.y, begin = 16 * pair + 8 * half, rest = min(8, N - i0 - begin);
    __threadfence();  // this warp's results are visible before its arrival counts
    __syncwarp();
    unsigned before = 0;
    if (lane == 0) before = atomicInc(&arrivals[(head * gridDim.x + blockIdx.x) * 8 + warp], shares - 1);
    if (__shfl_sync(~0u, before, 0) != shares - 1) return;
    __threadfence();  // and it reads what the others wrote
    float weight[8], over[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        bool there = lane < shares && i < rest;
        long long at = lane * rows + from + begin + i;
        weight[i] = there ? __ldcg(&tops[at]) : -INFINITY;
        over[i] = there ? __ldcg(&sums[at]) : 0.0f;
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        float row_max = weight[i];
        for (int h = 1; h < 32; h *= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, h));
        weight[i] = expf(weight[i] - (row_max == -INFINITY ? 0.0f : row_max));
        over[i] *= weight[i];
        for (int h = 1; h < 32; h *= 2) over[i] += __shfl_xor_sync(~0u, over[i], h);
        over[i] = over[i] > 0.0f ? 1.0f / over[i] : 0.0f;
    }
    float4 sum[8] = {};
    #pragma unroll 4
    for (int w = 0; w < shares; ++w)
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            float share_weight = __shfl_sync(~0u, weight[i], w) * over[i];
            if (i >= rest) continue;
            float4 x = __ldcg((const float4*)&part[(w * rows + from + begin + i) * 128 + 4 * lane]);
            sum[i].x += share_weight * x.x;
            sum[i].y += share_weight * x.y;
            sum[i].z += share_weight * x.z;
            sum[i].w += share_weight * x.w;
        }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        if (i < rest) *(float4*)&O[(from + begin + i) * 128 + 4 * lane] = sum[i];
    // last]
#endif
#if JOIN == 2
    // [cluster
    #pragma unroll
    for (int i = 0; i < 4; ++i) {  // overwrites k, with m and z after each row
        float* at = k + (row + i) * WIDE;
        #pragma unroll
        for (int c = 0; c < 8; c += 4)
            *(float4*)&at[16 * c + 4 * lane_col] =
                make_float4(of(keep[c], i), of(keep[c + 1], i), of(keep[c + 2], i), of(keep[c + 3], i));
        if (lane_col == 0) {
            at[128] = m[i];
            at[129] = z[i];
        }
    }
    cluster_wait();  // every block of the cluster is running
    cluster_arrive();
    cluster_wait();  // and has its results in shared memory
    const int each = (TILE_ROWS + SHARES - 1) / SHARES;  // rows that a block combines
    int begin = blockIdx.y * each, end = min(TILE_ROWS, begin + each);
    #pragma unroll 1
    for (int r = begin + warp; r < end; r += 8) {
        float row_max = -INFINITY, total = 0.0f, their_top[SHARES], their_sum[SHARES];
        float4 x[SHARES], all = {};
        #pragma unroll
        for (int w = 0; w < SHARES; ++w) {
            unsigned there = remote_addr(k + r * WIDE, w);
            their_top[w] = ld_cluster(there + 512);
            their_sum[w] = ld_cluster(there + 516);
            x[w] = ld_cluster4(there + 16 * lane);
            row_max = fmaxf(row_max, their_top[w]);
        }
        if (row_max == -INFINITY) row_max = 0.0f;
        #pragma unroll
        for (int w = 0; w < SHARES; ++w) {
            float weight = expf(their_top[w] - row_max);
            total += weight * their_sum[w];
            all.x += weight * x[w].x;
            all.y += weight * x[w].y;
            all.z += weight * x[w].z;
            all.w += weight * x[w].w;
        }
        float over = total > 0.0f ? 1.0f / total : 0.0f;
        all = {all.x * over, all.y * over, all.z * over, all.w * over};
        if (i0 + r < N) *(float4*)&O[((long long)head * N + i0 + r) * 128 + 4 * lane] = all;
    }
    cluster_arrive();
    cluster_wait();  // no other block reads this block's shared memory any longer
    // cluster]
#endif
}
"""


def steps(turned, join, shares=1):
    """The kernel: whether k is transposed, and how splits are combined.

    Later (0), by the last one (1), or in a cluster (2).
    """
    sizes = {"TURNED": turned, "JOIN": join, **({"SHARES": shares} if join == 2 else {})}
    return Kernel(STEPS, defines=sizes, options=("-std=c++17",))


SHARED_BYTES = 4 * (128 * (68 + 132) + 128 * (132 + 68) + 64)
LATER, LAST, CLUSTER = (steps(0, join) for join in range(3))

# %% [markdown]
# Both GEMMs are sums of outer products, so they share one function. In $QK^T$, `x` is the transposed $q$ and `y` the
# transposed $k$. In $PV$, `x` holds the transposed probabilities, and `y` is $v$, which needs no transposing.

# %%
LATER.region("multiply")

# %% [markdown]
# After each GEMM, two threads have 64 partial accumulators each. They exchange half of them, so that each ends up with
# 32 complete sums: four queries by eight keys. Warps exchange values only in pairs, so named barriers for 64 threads
# are enough: one before the partner's values are read and one after. Remove either, and the simulator reports a race.

# %%
LATER.region("exchange")

# %% [markdown]
# ## A ring of column stages
#
# $QK^T$ consumes $q$ and $k$ one column at a time, but Kernel 6 waits until all 96 KiB have arrived. Here, a stage holds
# 16 columns of each half of $d$, 24 KiB in all. Two stages are in flight while a third is used. The
# loads of $v$ are interleaved with these stages, and this tile's last stages are followed directly by the next tile's
# first.

# %%
LATER.region("scores")

# %% [markdown]
# ## K row-major: transposing takes more copy instructions
#
# To transpose a tile of $k$, the warps of the block execute 512 copy instructions in all, and each copies 4 bytes per
# thread. In row-major order, 128 instructions of 16 bytes per thread would do. Only one of the two operands has to
# alternate between register banks. So we also write a second version, which leaves $k$
# row-major: a thread's eight keys are 16 rows apart, and it loads four elements of each at a time.

# %%
LATER.region("rows")

# %% [markdown]
# ## Three ways to combine the splits
#
# At $N$ = 1,024, the keys are split over eight blocks, and their results must be combined. Each block computes an
# unnormalised $o$ with its $m$ and $z$.
#
# **A second launch**, as in Kernel 6, reads 4 MB of partial results. If the number of splits is known at compile time,
# all loads of this second launch can be in flight at once.
#
# **The last-arriving block.** A warp writes its results, executes a fence and increments a counter. The warp that
# arrives last for a group of eight queries reads and combines all splits. No warp waits, and the counter ends up back
# at zero.

# %%
LAST.region("last")

# %% [markdown]
# **A cluster.** The eight splits of a query tile form a \thread block cluster. They write their results to shared
# memory, and after the cluster barrier, each block combines an eighth of the queries from the shared memory of all
# eight.

# %%
CLUSTER.region("cluster")

# %% [markdown]
# Without the last cluster barrier, a block could exit while another is still reading its shared memory. All blocks of a
# cluster must also fit into one GPC at the same time, and each of ours needs an SM to itself. The driver knows how many
# such clusters fit:

# %% fold="Code that asks the driver" needs="gpu" record="clusters"
if gpu_here():
    import ctypes

    import cupy

    class Attribute(ctypes.Structure):
        _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]

    class Launch(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
            ("stream", ctypes.c_void_p),
            ("attributes", ctypes.c_void_p),
            ("count", ctypes.c_uint),
        ]

    for size in (2, 4, 8):
        module = cupy.RawModule(code=steps(0, 2, size).gpu_source, options=("-std=c++17",))
        function = module.get_function("flash_steps")
        function.max_dynamic_shared_size_bytes = SHARED_BYTES
        shape = Attribute(4, b"", (ctypes.c_uint * 16)(1, size, 1))  # 4: the cluster's extents
        asked = Launch(16, 8, 1, 256, 1, 1, SHARED_BYTES, None, ctypes.addressof(shape), 1)
        found = ctypes.c_int()
        code = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveClusters(
            ctypes.byref(found), ctypes.c_void_p(function.kernel.ptr), ctypes.byref(asked)
        )
        print(f"clusters of {size}: {found.value if code == 0 else 'unknown'} at once")

# %% fold="Code of the numbers"
FIT = printed_numbers("attention/flash_steps", "clusters", r"of (\d): (\d+) at")
publish(clusters={"fit": FIT[8], "sms": GPU.sms})

# %% [markdown]
# Only {{ clusters.fit | .0f }} clusters of eight fit at once, but 16 are needed, even though {{ clusters.sms }} SMs would
# be enough for 16 × 8 blocks. The last cluster has to wait for a second
# wave.

# %% fold="The second launch"
COMBINE_SOURCE = r"""
extern "C" __global__
void combine(const float* part, const float* tops, const float* sums, float* O, int rows) {
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
        weight[w] = expf(weight[w] - row_max);
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
from tilewise import agree, case, ceil_div, check, expect_hazard, normal, output
from tilewise.kernels.from_lesson import from_lesson

COMBINE = Kernel(
    r"""
extern "C" __global__
void combine(const float* part, const float* tops, const float* sums, float* O, int rows, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four elements of a row
    int row = at / 32, c = at % 32 * 4;
    if (row >= rows) return;
    float row_max = -INFINITY, z = 0.0f;
    for (int w = 0; w < shares; ++w) row_max = fmaxf(row_max, tops[w * rows + row]);
    if (row_max == -INFINITY) row_max = 0.0f;  // no key in any split
    float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll 8
    for (int w = 0; w < shares; ++w) {
        float weight = expf(tops[w * rows + row] - row_max);
        float4 x = *(const float4*)&part[((long long)w * rows + row) * 128 + c];
        z += weight * sums[w * rows + row];
        o.x += weight * x.x;
        o.y += weight * x.y;
        o.z += weight * x.z;
        o.w += weight * x.w;
    }
    float over = z > 0.0f ? 1.0f / z : 0.0f;
    *(float4*)&O[(long long)row * 128 + c] =
        make_float4(o.x * over, o.y * over, o.z * over, o.w * over);
}
"""
)


right_answer, masked, torch_three_operations, torch_fused = from_lesson(
    "attention/flash_forward", "right_answer", "masked", "torch_three_operations", "torch_fused"
)


def of_heads(heads, N, M, shares, bias=None, stretch=1.0):
    """Inputs and outputs of some heads."""
    arrays = {
        "Q": normal(heads, N, 128, scale=stretch),
        "K": normal(heads, M, 128),
        "V": normal(heads, M, 128),
        "bias": normal(M) if bias is None else bias,
    }
    written = {
        "part": output(shares, heads, N, 128),
        "tops": output(shares, heads, N),
        "sums": output(shares, heads, N),
        "O": output(heads, N, 128),
    }
    sizes = {"N": N, "M": M, "rows": heads * N, "shares": shares, "share": ceil_div(M, shares * 128) * 128}
    return case(**arrays, **written, **sizes, scale=128**-0.5)


def launches_of(turned, join, inputs):
    """One launch, or two: splits are combined by the second kernel from Kernel 6 (0), or with all loads at once (3)."""
    shares, N, rows = (inputs.values[name] for name in ("shares", "N", "rows"))
    grid = (ceil_div(N, 64), shares, rows // N)
    first = steps(turned, join % 3, shares).on(inputs, grid=grid, block=256, shared_bytes=SHARED_BYTES)
    if join in (1, 2):
        return [first]
    later = COMBINE if join == 0 else Kernel(COMBINE_SOURCE, defines={"SHARES": shares})
    return [first, later.on(inputs, grid=ceil_div(32 * rows, 256), block=256)]


AWKWARD = {
    "two heads, 150 keys in two splits": of_heads(2, 70, 150, 2),
    "three tiles per split": of_heads(1, 33, 700, 2),
    "large logits": of_heads(1, 65, 130, 2, stretch=30.0),
    "a first tile that is masked": of_heads(1, 20, 200, 1, masked(200, 140)),
    "a split that is masked": of_heads(1, 20, 200, 2, masked(200, 130)),
    "no key at all": of_heads(1, 70, 65, 2, masked(65, 65)),
}
ONE_LAUNCH = [launches_of(0, 1, one)[0] for one in AWKWARD.values()]
agree(flash_steps, LAST, [as_case(one) for one in ONE_LAUNCH], rtol=2e-5, atol=2e-4)
for name, inputs in AWKWARD.items():
    runs = [
        run_chain(launches_of(turned, join, inputs))
        for turned, join in ((1, 0), (0, 0), (0, 1), (0, 2), (0, 3))
    ]
    room = 1e-4 if name == "large logits" else 2e-6
    got, right = np.stack([run["O"] for run in runs]), np.stack([right_answer(run) for run in runs])
    check(got, right, atol=room, name=name)

whole_tile = launches_of(0, 0, of_heads(1, 64, 128, 1))[0]
in_two_blocks = launches_of(0, 2, of_heads(1, 64, 256, 2))[0]
no_key = launches_of(0, 2, AWKWARD["no key at all"])[0]
for launch, text, hazard in (
    (whole_tile, "pair_sync(pair);  // what is given away is in shared memory", "race"),
    (whole_tile, "pair_sync(pair);  // the exchange area may be overwritten", "race"),
    (
        in_two_blocks,
        "cluster_arrive();\n    cluster_wait();  // no other block reads this block's shared memory any longer",
        "cluster",
    ),
    (no_key, "        wait_copies<0>();\n        __syncthreads();\n", "undelivered"),
):
    expect_hazard(edited(launch, (text, "")), hazard)

# %% [markdown]
# Run both versions on 64 queries and 128 keys. Which one copies K with fewer requests?

# %% fold="Code of the run"
from tilewise import try_it

ONE_TILE = of_heads(1, 64, 128, 1)
FORMS = {"K row-major": 0, "K transposed": 1}
try_it({name: launches_of(turned, 0, ONE_TILE)[0] for name, turned in FORMS.items()})

# %% fold="Code of the measurement"


from tilewise import Guess, constant, measure


def timed_case(N, shares):
    """One head whose bias is zero, so that a library computes the same."""
    arrays = {"Q": normal(N, 128), "K": normal(N, 128), "V": normal(N, 128), "bias": constant(N, value=0.0)}
    written = {name: output(shares, 1, N) for name in ("tops", "sums")}
    written |= {"part": output(shares, 1, N, 128), "O": output(N, 128)}  # O last: what a library writes
    sizes = {"N": N, "M": N, "rows": N, "shares": shares, "share": ceil_div(N, shares * 128) * 128}
    return case(**arrays, **written, **sizes, scale=128**-0.5)


def version(turned, join):
    """A version with as many splits, 1, 2, 4 or 8, as fill the SMs."""

    def launches(N, d):
        most = min(ceil_div(N, 128), GPU.sms // ceil_div(N, 64))
        shares = max(one for one in (1, 2, 4, 8) if one <= max(1, most))
        return launches_of(turned, join, timed_case(N, shares))

    return launches


VERSIONS = {
    "split d, K transposed": version(1, 0),
    "K row-major": version(0, 0),
    "last-arriving block combines": version(0, 1),
    "cluster combines": version(0, 2),
    "second launch, all loads at once": version(0, 3),
}
BEST = "second launch, all loads at once"
ladder = measure(
    "attention_flash_steps",
    variants=VERSIONS,
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}, {"N": 4096, "d": 128}],
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations, "torch, fused": torch_fused},
    reference=attention,
    tolerance=2e-5,
    counts=("sectors", "wavefronts"),
    reasons={"*": "Result: which changes helped?"},
    fold="All 21 rows",
    guess=Guess(
        "N = 1,024: how much faster than PyTorch's three operations is the fastest version?",
        of=BEST,
        over="torch, three operations",
        at={"N": 1024, "d": 128},
        between=(0.5, 6.0),
        models={"Kernel 6": float(old_us("torch_three_operations") / old_us("kernel_6_flash"))},
        because="The FMAs are the same; what changed is how many other instructions and waits surround them.",
    ),
)

# %% fold="Code of the figure"
from tilewise.measurements import complete, medians_us

us = medians_us(ladder, "N")
at_1024 = {
    "Kernel 6": old_us("kernel_6_flash"),
    **{name: us[name, 1024] for name in VERSIONS},
    "torch, three operations": us["torch, three operations", 1024],
}
CLUSTERED = "cluster combines"
if complete(*at_1024.values()):
    assert at_1024[BEST] == min(at_1024.values()), "the title says that a second launch wins"
    assert at_1024[CLUSTERED] > 1.5 * at_1024[BEST], "the text says a second wave"
    show(
        bars(
            at_1024,
            x="time [µs]",
            form=".1f",
            roles={name: "waste" if "torch" in name else "measured" for name in at_1024},
            title="The second launch wins; the cluster that doesn't fit loses",
            caption="One head, N = 1,024, d = 128, FP32, on an {machine}: Kernel 6, the versions on this page, each with one change, and PyTorch's three operations.",
        )
    )
three_us = at_1024["torch, three operations"]
turned_us, lying_us, last_us, cluster_us, best_us = (us[name, 1024] for name in VERSIONS)
if complete(*us.values(), three_us):
    for N in (256, 4096):
        assert us[CLUSTERED, N] == min(us[name, N] for name in VERSIONS), "a takeaway: fastest if all fit"
    assert three_us / 2 < best_us < three_us, "the answer says that it is not done in half of PyTorch's time"
publish(
    seen={
        "best_us": best_us,
        "of_torch": best_us / three_us,
        "lying_gain": turned_us / lying_us - 1,
        "last_us": last_us,
        "cluster_us": cluster_us,
        "long_of_torch": us[BEST, 4096] / us["torch, three operations", 4096],
        "short_us": us[BEST, 256],
        "short_torch_us": us["torch, three operations", 256],
    },
    in_cluster={"short_us": us[CLUSTERED, 256]},
)

# %% [markdown]
# ## Result: which changes helped?
#
# At N = 1,024, the fastest version leaves $k$ row-major and combines the splits in a second launch that issues all its
# loads at once. It takes {{ seen.best_us | us }}, {{ seen.of_torch | .0% }} of PyTorch's time. Leaving $k$ row-major
# gained {{ seen.lying_gain | .0% }}: transposing it costs more in copies than it saves in register bank conflicts. The
# version with the last-arriving block is slower, at {{ seen.last_us | us }}. There, one warp reads all splits of eight
# queries, whereas the second launch uses eight warps.
#
# The cluster version takes {{ seen.cluster_us | us }} because of its second wave. At N = 256, each block has the same
# work, but only four clusters of two are needed. All fit, and the same kernel takes {{ in_cluster.short_us | us }}. At
# N = 4,096, there are again two splits per query tile, and all clusters fit. At both sizes, the cluster version is the
# fastest.
#
# At N = 4,096, the version with the second launch takes {{ seen.long_of_torch | .0% }} of PyTorch's time. At N = 256,
# it's no faster than PyTorch, at {{ seen.short_us | us }} compared with {{ seen.short_torch_us | us }}: four query
# tiles with two splits each make only eight blocks.

# %% fold="The kernel with stamps"
PARTS = ("first piece", "scores", "softmax", "mean", "parts out")
MARKS = {
    "    V += (long long)head * M * 128;\n": 0,
    "            int c = 64 * half + PART * piece;\n": 1,
    "        // scores]\n": 2,
    "        __syncthreads();  // p is there, from both warps; v has been since the last piece\n": 3,
    "        // mean]\n": 4,
    "    // parts]\n": 5,
}
CLOCK = "if (threadIdx.x == 0@ONLY@) stamps[8 * (blockIdx.y * gridDim.x + blockIdx.x) + {}] = clock64();\n"


def with_stamps(kernel, also=""):
    """The kernel that notes 6 cycle counts of each block with one tile of keys; `also` is done at both ends."""
    text = kernel.source.replace("int share, float scale) {", "int share, float scale, long long* stamps) {")
    for mark, at in MARKS.items():
        assert text.count(mark) == 1, mark
        stamp = CLOCK.replace("@ONLY@", " && piece == 0" if at == 1 else "").format(at)
        ends = {0: also.format(6), 5: also.format(7)}.get(at, "")
        text = text.replace(mark, mark + ends + stamp if at == 0 else mark + stamp + ends)
    return Kernel(text, defines=kernel.defines, options=kernel.options)


inputs = of_heads(1, 70, 256, 2)
arrays = inputs.make() | {"stamps": np.zeros((4, 8), np.int64)}
stamped = case((2, 2, 1), 256, SHARED_BYTES, **inputs.values, stamps=arrays["stamps"])
with_stamps(LATER).on(stamped).simulate(arrays=arrays)
launches_of(0, 0, inputs)[1].run(arrays)
check(arrays["O"], right_answer(arrays), atol=2e-6, name="the kernel with stamps")

# %% fold="Code that notes the clock on a GPU" needs="gpu" record="clocks"
NANOSECONDS = """if (threadIdx.x == 0) {{
    long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    stamps[8 * (blockIdx.y * gridDim.x + blockIdx.x) + {}] = t;
}}
"""

if gpu_here():
    import cupy

    in_time = with_stamps(LATER, NANOSECONDS)
    generator = cupy.random.default_rng(6)
    arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
    arrays |= {"bias": cupy.zeros(1024, cupy.float32), "stamps": cupy.zeros((128, 8), cupy.int64)}
    arrays |= {"part": cupy.empty((8, 1024, 128), cupy.float32), "O": cupy.empty((1024, 128), cupy.float32)}
    arrays |= {name: cupy.empty((8, 1024), cupy.float32) for name in ("tops", "sums")}
    given = {**timed_case(1024, 8).values, **arrays}
    large, noted = cupy.zeros(2**26, cupy.float32), []
    for _ in range(9):
        large.sum()  # reads 256 MB, so that nothing of the inputs is left in the L2
        in_time(
            *(given[one.name] for one in in_time.parameters),
            grid=(16, 8, 1),
            block=256,
            shared_bytes=SHARED_BYTES,
        )
        noted.append(cupy.asnumpy(arrays["stamps"]))
    noted = np.stack(noted[1:])
    spent = np.diff(noted[:, :, :6], axis=2).reshape(-1, 5)
    for part, row in zip(PARTS, np.percentile(spent, (50, 5, 95), axis=0).T, strict=True):
        print(f"{part}: {row[0]:.0f} clocks, {row[1]:.0f} to {row[2]:.0f}")
    spans = noted[:, :, 7].max(axis=1) - noted[:, :, 6].min(axis=1)
    print(f"all blocks: {np.median(spans):.0f} ns")

# %% fold="Code of the table"
IS = printed_numbers("attention/flash_steps", "clocks", r"^(.+): (\d+) (?:clocks|ns)")
show(
    Table(
        ["part of a block", "Kernel 6", "fastest version"],
        [
            ["until the first FMA", WAS["first tiles"], IS["first piece"]],
            ["QKᵀ GEMM", WAS["scores"], IS["scores"]],
            ["softmax, and wait for v", WAS["softmax"] + WAS["barrier, v"], IS["softmax"]],
            ["PV GEMM", WAS["mean"], IS["mean"]],
            ["epilogue", WAS["parts out"], IS["parts out"]],
        ],
        caption="Median cycles of a block, N = 1,024, recorded on an {machine} with a cold L2. The second launch isn't included.",
    )
)
OUTSIDE_US = us[BEST, 1024] - IS["all blocks"] / 1000
publish(
    now={
        "per_product": (IS["scores"] + IS["mean"]) / FLOOR,
        "rest_us": OUTSIDE_US,
        "left_clocks": (old_us("torch_three_operations") / 2 - OUTSIDE_US) * GPU.boost_mhz / FLOOR,
    }
)

# %% [markdown]
# The first FMA starts earlier, but not in proportion to the stage's size: a stage has a quarter of the bytes and the
# same latency. Of the two GEMMs, $PV$ became faster and $QK^T$ slower. Between the FMAs of the latter, there are now
# four barriers, the copies for the next stages and their address arithmetic, and the exchange. Averaged over both
# GEMMs, an FMA takes {{ now.per_product | .2f }} scheduler cycles, down from {{ was.per_product | .2f }} in Kernel 6.
#
# Can attention run in half of PyTorch's time? With two launches, that's hardly possible. Half would be
# {{ goal.us | us }}, of which {{ now.rest_us | us }} are spent outside the blocks, on launch overhead and the kernel
# that combines the splits. That would leave a block {{ now.left_clocks | .2f }} cycles per FMA for all its work, less
# than the two GEMMs alone take now. [Tensor cores with split operands](matrix_units_fp32.py) get closer.
#
# ## Takeaways
#
# - When a block's tile is too small for large register tiles, two threads can share a register tile and split its
#   terms.
# - A ring of small stages lets work start early, but each stage has the full latency and costs a barrier.
# - Here, a cluster is the fastest way to combine splits if all clusters fit at once. If one doesn't, the kernel needs
#   two waves.
#
# ## In your own kernel
#
# Before you launch clusters, ask `cudaOccupancyMaxActiveClusters` how many fit at once: it can be fewer than the number
# of SMs divided by the cluster size. In Nsight Compute, `launch__waves_per_multiprocessor` counts blocks, so it misses
# such a second wave: for our kernel, it's below 1. An `sm__cycles_active.avg` far below `sm__cycles_active.max` reveals
# the second wave.

# %% fold="Code of the exercise"
exercise(
    "Named barriers for pairs of warps",
    "A block has eight warps, and warps w and w + 4 exchange values. A named barrier is `barrier.sync number, threads`, and numbers 1 to 15 are free. Which number and which count let each pair synchronise without stopping any other warp? What happens with the number 1 + w / 2, and what with a count of 32?",
    explanation="The number 1 + w % 4 with a count of 64: both warps of a pair compute the same number, and the barrier completes when both have arrived. With 1 + w / 2, warps 0 and 1 would share a barrier, and each would go on before its partner has written. With a count of 32, a warp waits for itself only.",
)
