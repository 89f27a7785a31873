# ---
# title: Attention by the clock
# needs: [attention/flash_forward, matmul/register_tiles]
# summary: "What does Kernel 6 do in the time in which it could multiply? Its clocks say, and each change goes after one of them."
# description: "Kernel 6 again, in 32-bit floats: two warps to a sum, turned tiles, a ring of pieces, three ways to join shares."
# date: 2026-11-21
# tags: [attention, flash attention, clusters]
# ---

# %% [markdown]
# An SM needs {{ floor.us | us }} for the multiply-adds of one block of Kernel 6, and every block has an
# SM to itself. The kernel takes {{ old.us | us }} with its second launch, {{ old.of_torch | .0% }} of
# what torch's three operations take. Can the same sums be done in half of torch's time,
# {{ goal.us | us }}?

# %% fold="Imports"
import numpy as np

from tilewise import Kernel, agree, case, ceil_div, check, expect_hazard, gpu_here, parallel, publish, tiles
from tilewise.figures import bars
from tilewise.kernel.chains import as_case, run_chain
from tilewise.kernel.edits import edited
from tilewise.measurements import (
    complete,
    medians_us,
    printed_errors,
    printed_numbers,
    recorded,
    recorded_device,
)
from tilewise.measurements.attention import attention
from tilewise.models import stated

GPU = recorded_device()


def old_us(variant, N=1024):
    """A median of the lesson before, in microseconds."""
    return recorded(f"attention_flash.{variant}.n_{N}_d_128.median")


PRODUCTS = 2 * 64 * 128 * 128 // 32  # multiply-adds of warps in a block's two products
FLOOR = PRODUCTS / 4
publish(
    floor={"us": FLOOR / GPU.boost_mhz},
    old={
        "us": old_us("kernel_6_flash"),
        "of_torch": old_us("kernel_6_flash") / old_us("torch_three_operations"),
    },
    goal={"us": old_us("torch_three_operations") / 2},
    eight={"us": old_us("_64_x_128_8_x_8_per_thread")},
    piece={"kb": 4 * 2 * 16 * (64 + 128) / 1024},
    requests={"turned": 128 * 128 // 32, "lying": 128 * 128 // 128, "q": 64 * 128 // 32},
)

# %% [markdown]
# ## Where the time is
#
# The clocks of the lesson before name three places. Nothing is multiplied until the first tiles are
# there. The two products take {{ was.per_product | .2f }} clocks for each multiply-add of a warp and
# scheduler, where one would do. And {{ was.rest_us | us }} pass outside of the blocks: the way to the
# first launch, the second one, the events. Each is a section of this page.

# %% fold="Code of the numbers"
WAS = printed_numbers("attention/flash_forward", "clocks", r"^(.+): (\d+) (?:clocks|ns)")
publish(
    was={
        "per_product": (WAS["scores"] + WAS["mean"]) / FLOOR,
        "rest_us": old_us("kernel_6_flash") - WAS["all blocks"] / 1000,
        "first": WAS["first tiles"],
        "all_us": WAS["all blocks"] / 1000,
    }
)

# %% [markdown]
# ## More sums than threads have room for
#
# A thread of Kernel 6 has 4 by 8 sums. With 8 by 8 it would load 16 numbers for 64 multiply-adds
# in place of 12 for 32, a third less for each. But a block has only 64 times 128 logits, so that is
# 128 threads, one warp to a scheduler, and while that warp waits nobody works. The table of the lesson
# before has this shape as a variant: {{ eight.us | us }}.
#
# So two threads take the same 64 sums, and each of them *half the terms*. Warps 0 to 3 go through the
# first 64 columns of $q$ and $k$, warps 4 to 7 through the others; in the second product the
# halves are keys. There are eight warps again, and each loads as little as a square of 64 sums needs.

# %% [markdown]
# The lesson on sums in registers found a second reason to load otherwise. A
# multiply-add reads three registers from two banks. Kernel 6 takes four neighbours along $d$ with one
# load, so its numbers of several rows for *one* column lie four registers apart, all in one
# \register bank, and half of all sums lie there too. A turned tile, in which a column of $q$ is a row of 64
# queries, puts eight neighbours of one column side by side, in alternating banks. So $q$ is turned
# as it is copied, 4 bytes at a time as there, and the weights are as they are stored.


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
                # [whole
                s = (low + high) * scale + bias[keys]
                # whole]
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
            # [parts
            part[w, h, i], tops[w, h, i], sums[w, h, i] = o, m, z
            # parts]
        # [last
        # [cluster
        top = max(tops[:, h, i])
        z, o = 0.0, np.zeros(d)
        for w in range(shares):
            weight = np.exp(tops[w, h, i] - top) if top > -np.inf else 0.0
            z, o = z + weight * sums[w, h, i], o + weight * part[w, h, i]
        O[h, i] = o / z if z > 0 else 0.0
        # cluster]
        # last]


# %% tab="CUDA C"
STEPS = r"""
#define TILE_ROWS 64
#define TILE_KEYS 128
#define WIDE 132              // a row of k or v: 128 numbers and 16 bytes
#define WIDE_Q 68             // a row of q or p: 64 numbers and 16 bytes
#define PART 16               // columns of either half of d that come at once: a piece

// 16 or 4 bytes into shared memory; zeros where there is nothing to read.
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

// Wait for this thread's copies, all but the latest groups.
template <int LATEST> __device__ void arrived_but() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LATEST) : "memory");
}

// A piece of COUNT rows of X, turned: a column of X becomes a row of the tile.
template <int COUNT>
__device__ void load_turned(float* tile, int wide, const float* X, int piece, int first, int end) {
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

// A piece of the keys.
__device__ void load_keys(float* k, const float* K, int piece, int first, int end) {
#if TURNED
    load_turned<TILE_KEYS>(k, WIDE, K, piece, first, end);
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
// sum[r][c] += x[r] * b[c] for eight queries, which are eight numbers of a turned tile.
__device__ void outer(float (&sum)[8][8], const float* x, const float (&b)[8]) {
    float4 x0 = *(const float4*)x, x1 = *(const float4*)(x + 8);
    float a[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
    #pragma unroll
    for (int c = 0; c < 8; ++c)
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            int r = c % 2 ? 7 - i : i;  // down a column of the square, up the next
            sum[r][c] += a[r] * b[c];
        }
}

// y is turned, or needs not be: a row of it has a number for each of the eight columns.
template <int STEPS> __device__ void multiply(float (&sum)[8][8], const float* x, const float* y) {
    #pragma unroll 8
    for (int t = 0; t < STEPS; ++t) {
        float4 y0 = *(const float4*)&y[t * WIDE], y1 = *(const float4*)&y[t * WIDE + 64];
        float b[8] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
        outer(sum, x + t * WIDE_Q, b);
    }
}
// multiply]

// [lying
// y lies as it came: a row of it for each of the eight columns, four numbers of which are loaded at once.
template <int STEPS> __device__ void multiply_lying(float (&sum)[8][8], const float* x, const float* y) {
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
// lying]

// [whole
// The two warps that share their sums meet.
__device__ void meet(int pair) {
    asm volatile("barrier.sync %0, 64;" :: "r"(1 + pair) : "memory");
}

// Two threads have 64 sums over one half of the terms each; each keeps 32, over all terms.
__device__ void whole(float4 (&keep)[8], const float (&sum)[8][8], float* box, int pair, int half) {
    box += threadIdx.x % 32 * WIDE_Q;
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
        float4 low = make_float4(sum[0][c], sum[1][c], sum[2][c], sum[3][c]);
        float4 high = make_float4(sum[4][c], sum[5][c], sum[6][c], sum[7][c]);
        keep[c] = half ? high : low;
        float* place = box + (64 * (c % 2) + 32 * half) * WIDE_Q + 4 * (c / 2);
        *(float4*)place = half ? low : high;
    }
    meet(pair);  // what is given away lies in the box
    #pragma unroll
    for (int c = 0; c < 8; ++c) {
        float* place = box + (64 * (c % 2) + 32 * (1 - half)) * WIDE_Q + 4 * (c / 2);
        float4 other = *(float4*)place;
        keep[c].x += other.x;
        keep[c].y += other.y;
        keep[c].z += other.z;
        keep[c].w += other.w;
    }
    meet(pair);  // the box may be used again
}
// whole]

#if JOIN == 1
__device__ unsigned arrivals[65536];  // of shares, for every eight queries
#endif

#if JOIN == 2
// The place in another block's shared memory.
__device__ unsigned in_block(const float* place, int block) {
    unsigned here = (unsigned)__cvta_generic_to_shared(place), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
    return there;
}

__device__ float far(unsigned at) {
    float x;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
    return x;
}

__device__ float4 far4(unsigned at) {
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(at) : "memory");
    return x;
}

__device__ void arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
#endif

extern "C" __global__ void
#if JOIN == 2
__cluster_dims__(1, SHARES, 1)
#endif
__launch_bounds__(256, 1)
flash_steps(const float* Q, const float* K, const float* V, const float* bias,
            float* part, float* tops, float* sums, float* O,
            int N, int M, int share, float scale) {
    extern __shared__ float4 store[];
    float* q = (float*)store;           // turned
    float* k = q + 128 * WIDE_Q;        // turned
    float* v = k + 128 * WIDE;
    float* p = v + TILE_KEYS * WIDE;    // turned
    float* factor = p + TILE_KEYS * WIDE_Q;
    int head = blockIdx.z, i0 = blockIdx.x * TILE_ROWS;
    int first = blockIdx.y * share, last = min(M, first + share);
    Q += (long long)head * N * 128;
    K += (long long)head * M * 128;
    V += (long long)head * M * 128;
    #pragma unroll 1
    for (int piece = 0; piece < 2; ++piece) {
        load_turned<TILE_ROWS>(q, WIDE_Q, Q, piece, i0, N);
        load_keys(k, K, piece, first, last);
        commit();
    }
#if JOIN == 2
    arrive();  // this block has begun
#endif
    int warp = threadIdx.x / 32, pair = warp % 4, half = warp / 4;
    int lane = threadIdx.x % 32, mine = lane / 2, four = 4 * (lane % 2);
    float* own = p + 16 * pair;         // 16 queries of two warps
#if TURNED
#define KEY(j) (4 * mine + (j) % 4 + (j) / 4 * 64)  // a thread's eight of the keys
#else
#define KEY(j) (mine + 16 * (j))
#endif
    int row = 16 * pair + 8 * half + four;  // a thread's first of the four that it keeps
    float m[4], z[4], o[8][8] = {};
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        m[i] = -INFINITY;
        z[i] = 0.0f;
    }
    for (int j0 = first; j0 < last; j0 += TILE_KEYS) {
        float add[8];
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int key = j0 + KEY(j);
            add[j] = key < last ? bias[key] : -INFINITY;
        }
        // [scores
        float s[8][8] = {};
        #pragma unroll 1
        for (int piece = 0; piece < 4; ++piece) {
            arrived_but<1>();
            __syncthreads();  // this piece of q and k is there, and the one before was used
            if (piece < 2) {
                if (j0 == first) load_turned<TILE_ROWS>(q, WIDE_Q, Q, piece + 2, i0, N);
                load_keys(k, K, piece + 2, j0, last);
                load_values(v, V, piece, j0, last);
            } else if (j0 + TILE_KEYS < last) {
                load_keys(k, K, piece - 2, j0 + TILE_KEYS, last);
            }
            commit();
            int c = 64 * half + PART * piece;
#if TURNED
            multiply<PART>(s, q + c * WIDE_Q + 16 * pair + four, k + c * WIDE + 4 * mine);
#else
            multiply_lying<PART>(s, q + c * WIDE_Q + 16 * pair + four, k + mine * WIDE + c);
#endif
        }
        float4 keep[8];
        whole(keep, s, own, pair, half);
        // scores]
        // [softmax
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            float top = m[i];
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                of(keep[j], i) = of(keep[j], i) * scale + add[j];
                top = fmaxf(top, of(keep[j], i));
            }
            for (int h = 2; h < 32; h *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, h));
            float shift = top == -INFINITY ? 0.0f : top;
            float f = expf(m[i] - shift);
            m[i] = top;
            z[i] *= f;  // a lane's own share of the sum
            #pragma unroll
            for (int j = 0; j < 8; ++j) z[i] += of(keep[j], i) = expf(of(keep[j], i) - shift);
            if (mine == 0) factor[row + i] = f;
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
                float f = factor[16 * pair + four + i % 4 + i / 4 * 8];
                #pragma unroll
                for (int c = 0; c < 8; ++c) o[i][c] *= f;
            }
        multiply<64>(o, own + 64 * half * WIDE_Q + four, v + 64 * half * WIDE + 4 * mine);
        // mean]
    }
    if (first >= last) {  // nobody waited in a share without keys
        arrived_but<0>();
        __syncthreads();
    }
    meet(pair);  // neither warp needs p any more
    float4 keep[8];
    whole(keep, o, own, pair, half);
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
            __stcg((float4*)&part[at * 128 + 16 * c + 4 * mine],
                   make_float4(of(keep[c], i), of(keep[c + 1], i), of(keep[c + 2], i), of(keep[c + 3], i)));
        if (mine == 0) {
            __stcg(&tops[at], m[i]);
            __stcg(&sums[at], z[i]);
        }
    }
    // parts]
#endif
#if JOIN == 1
    // [last
    int shares = gridDim.y, begin = 16 * pair + 8 * half, rest = min(8, N - i0 - begin);
    __threadfence();  // this warp's parts are in place before its arrival counts
    __syncwarp();
    unsigned before = 0;
    if (lane == 0) before = atomicInc(&arrivals[(head * gridDim.x + blockIdx.x) * 8 + warp], shares - 1);
    if (__shfl_sync(~0u, before, 0) != shares - 1) return;
    __threadfence();  // and it reads what the others wrote, not an old copy
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
        float top = weight[i];
        for (int h = 1; h < 32; h *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, h));
        weight[i] = expf(weight[i] - (top == -INFINITY ? 0.0f : top));
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
    for (int i = 0; i < 4; ++i) {  // where k was, with m and z behind each row
        float* at = k + (row + i) * WIDE;
        #pragma unroll
        for (int c = 0; c < 8; c += 4)
            *(float4*)&at[16 * c + 4 * mine] =
                make_float4(of(keep[c], i), of(keep[c + 1], i), of(keep[c + 2], i), of(keep[c + 3], i));
        if (mine == 0) {
            at[128] = m[i];
            at[129] = z[i];
        }
    }
    wait();  // every block of the cluster has begun
    arrive();
    wait();  // and has its sums in its shared memory
    const int each = (TILE_ROWS + SHARES - 1) / SHARES;  // rows that a block joins
    int begin = blockIdx.y * each, end = min(TILE_ROWS, begin + each);
    #pragma unroll 1
    for (int r = begin + warp; r < end; r += 8) {
        float top = -INFINITY, total = 0.0f, their_top[SHARES], their_sum[SHARES];
        float4 x[SHARES], all = {};
        #pragma unroll
        for (int w = 0; w < SHARES; ++w) {
            unsigned there = in_block(k + r * WIDE, w);
            their_top[w] = far(there + 512);
            their_sum[w] = far(there + 516);
            x[w] = far4(there + 16 * lane);
            top = fmaxf(top, their_top[w]);
        }
        if (top == -INFINITY) top = 0.0f;
        #pragma unroll
        for (int w = 0; w < SHARES; ++w) {
            float weight = expf(their_top[w] - top);
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
    arrive();
    wait();  // nobody reads this block's shared memory any more
    // cluster]
#endif
}
"""


def steps(turned, join, shares=1):
    """The kernel: whether k is turned, and whether shares are joined later (0), by the last (1), or in a cluster."""
    sizes = {"TURNED": turned, "JOIN": join, **({"SHARES": shares} if join == 2 else {})}
    return Kernel(STEPS, defines=sizes, options=("-std=c++17",))


SHARED_BYTES = 4 * (128 * (68 + 132) + 128 * (132 + 68) + 64)
LATER, LAST, CLUSTER = (steps(0, join) for join in range(3))

# %% [markdown]
# Both products are the same sum of outer products. In the first, `x` is the turned $q$ and `y` the turned
# $k$; in the second, `x` is the turned weights and `y` is $v$, which is right as it is. Down a column of the square and
# up the next, as in the other lesson.

# %%
LATER.region("multiply")

# %% [markdown]
# ## Two halves of a sum
#
# Behind each product two threads have 64 sums over half the terms each. They do not send everything
# to one side: each gives 32 away and keeps 32, so that both have four whole queries of eight keys.
# The box that it goes through is the place where the weights will be stored a little later. Only two
# warps have to meet, so it is a barrier of 64 threads, one of four with a number of its own.

# %%
LATER.region("whole")

# %% [markdown]
# Two barriers stand in it. Without the first a thread takes from the box what has not been put there;
# without the second the weights are written over what a slower warp still has to take. Both
# are races, and named.

# %% [markdown]
# ## A ring of pieces
#
# The first product needs column after column of $q$ and $k$. Kernel 6 waits for all 96 KB of them; a piece of 16
# columns of either half is {{ piece.kb | .0f }} KB. So pieces form a ring, as the stages of a matrix product
# do: two are on their way while one is used, the values travel between them, and the next tile's first pieces
# travel behind this one's last.

# %%
LATER.region("scores")

# %% [markdown]
# ## The price of turning
#
# Turning $k$ takes {{ requests.turned }} copies of a warp for each tile where {{ requests.lying }} of 16 bytes would do; $q$
# takes {{ requests.q }}, but once. Only one side has to alternate between the banks, so $k$ may lie as it
# came. A thread's eight keys are then 16 rows apart, it takes four numbers of each at a time, and does four outer
# products with them.

# %%
LATER.region("lying")

# %% [markdown]
# ## What a share leaves
#
# A share of Kernel 6 leaves its mean and $L$: at the end of a block, when nothing else is left to do, every row
# takes a division and a logarithm, and the kernel that joins shares takes the exponential of it again. Here
# a share leaves what it has, $o$, $m$ and $z$, and there is one division for each row, at the very end.

# %%
LATER.region("parts")

# %% [markdown]
# ## Joined where they were made
#
# A second launch reads 4 MB of parts that were written a moment ago. There are two ways to do without
# it, and both have been on earlier pages. The last to come does it: a warp writes its part of eight
# queries, puts up a fence and counts itself in, and whichever of the eight shares comes last for
# these queries weighs all of them. Nobody waits, and the counter is zero again at the end.

# %%
LAST.region("last")

# %% [markdown]
# Or nothing is written at all. The shares of one query tile are launched as a \thread block cluster,
# each leaves its sums in its own shared memory, and behind the cluster's barrier each joins
# an eighth of the queries: for one row a warp reads eight rows from eight SMs.

# %%
CLUSTER.region("cluster")

# %% [markdown]
# The last barrier of the cluster is for the others: without it a block may end, and its shared memory with it,
# while a neighbour still reads. A share that has no keys asks for its first pieces like the others and skips the
# loop in which they are waited for; without a wait of its own, sums are written where copies are still to land.
# The simulator names both. But there is a condition that no barrier states: a cluster has to fit into one part
# of the chip, and all eight of its blocks want an SM to themselves. The driver knows how many clusters fit at once.

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
publish(clusters={"fit": FIT[8], "needed": 16, "sms": GPU.sms, "pairs": FIT[2]})

# %% [markdown]
# This H100 holds {{ clusters.fit | .0f }} clusters of eight such blocks at once, and {{ clusters.needed }} are needed, though its
# {{ clusters.sms }} SMs would do for them. The last cluster then has to wait until another is through.

# %% [markdown]
# The third way is to keep the second launch and make it shorter. The kernel that joins shares reads all
# maxima, then the parts, a wait after a wait. If the number of shares is known when it is compiled, all of its loads
# can be on their way at once.

# %%
COMBINE_SOURCE = r"""
extern "C" __global__
void combine(const float* part, const float* tops, const float* sums, float* O, int rows) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four numbers of a row
    int row = at / 32, c = at % 32 * 4;
    if (row >= rows) return;
    float weight[SHARES], sum[SHARES], top = -INFINITY, z = 0.0f;
    float4 x[SHARES], o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) {
        long long from = (long long)w * rows + row;
        weight[w] = tops[from];
        sum[w] = sums[from];
        x[w] = *(const float4*)&part[from * 128 + c];
    }
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) top = fmaxf(top, weight[w]);
    if (top == -INFINITY) top = 0.0f;  // no key in any share
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) {
        weight[w] = expf(weight[w] - top);
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
from tilewise import Guess, Table, constant, exercise, measure, normal, output, show

COMBINE = Kernel(
    r"""
extern "C" __global__
void combine(const float* part, const float* tops, const float* sums, float* O, int rows, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four numbers of a row
    int row = at / 32, c = at % 32 * 4;
    if (row >= rows) return;
    float top = -INFINITY, z = 0.0f;
    for (int w = 0; w < shares; ++w) top = fmaxf(top, tops[w * rows + row]);
    if (top == -INFINITY) top = 0.0f;  // no key in any share
    float4 o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll 8
    for (int w = 0; w < shares; ++w) {
        float weight = expf(tops[w * rows + row] - top);
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


def right_answer(run):
    return attention(*(run[one] for one in ("Q", "K", "V", "bias", "scale")))["O"]


def masked(M, first):
    """A bias under which the keys before `first` do not count."""
    return np.where(np.arange(M) < first, -np.inf, 0).astype(np.float32)


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
    """One launch, or two where shares are joined later: by the kernel from before (0), or with all loads at once (3)."""
    shares, N, rows = (inputs.values[name] for name in ("shares", "N", "rows"))
    grid = (ceil_div(N, 64), shares, rows // N)
    first = steps(turned, join % 3, shares).on(inputs, grid=grid, block=256, shared_bytes=SHARED_BYTES)
    if join in (1, 2):
        return [first]
    later = COMBINE if join == 0 else Kernel(COMBINE_SOURCE, defines={"SHARES": shares})
    return [first, later.on(inputs, grid=ceil_div(32 * rows, 256), block=256)]


AWKWARD = {
    "two heads, 150 keys in two shares": of_heads(2, 70, 150, 2),
    "three tiles to a share": of_heads(1, 33, 700, 2),
    "large logits": of_heads(1, 65, 130, 2, stretch=30.0),
    "a first tile that is masked": of_heads(1, 20, 200, 1, masked(200, 140)),
    "a share that is masked": of_heads(1, 20, 200, 2, masked(200, 130)),
    "no key at all": of_heads(1, 70, 65, 2, masked(65, 65)),
}
ONE_LAUNCH = [launches_of(0, 1, one)[0] for one in AWKWARD.values()]
agree(
    flash_steps,
    LAST,
    [as_case(one) for one in ONE_LAUNCH],
    rtol=2e-5,
    atol=2e-4,
)
for name, inputs in AWKWARD.items():
    runs = [
        run_chain(launches_of(turned, join, inputs))
        for turned, join in ((1, 0), (0, 0), (0, 1), (0, 2), (0, 3))
    ]
    room = 1e-4 if name == "large logits" else 2e-6
    got, right = np.stack([run["O"] for run in runs]), np.stack([right_answer(run) for run in runs])
    check(got, right, rtol=0.0, atol=room, name=name)

whole_tile = launches_of(0, 0, of_heads(1, 64, 128, 1))[0]
in_two_blocks = launches_of(0, 2, of_heads(1, 64, 256, 2))[0]
no_key = launches_of(0, 2, AWKWARD["no key at all"])[0]
for launch, text, hazard in (
    (whole_tile, "meet(pair);  // what is given away lies in the box", "race"),
    (whole_tile, "meet(pair);  // the box may be used again", "race"),
    (
        in_two_blocks,
        "arrive();\n    wait();  // nobody reads this block's shared memory any more",
        "cluster",
    ),
    (no_key, "        arrived_but<0>();\n        __syncthreads();\n", "undelivered"),
):
    expect_hazard(edited(launch, (text, "")), hazard)

# %% [markdown]
# ## Predict
#
# A count of instructions sees next to nothing of all this: as many multiply-adds, fewer loads, some selects
# for what is given away. Passes over shared memory, {{ counted.passes | , }}, were not the limit before. What
# counts do not see are register banks and waits. So the prediction leans on a
# measurement: a loop with 64 sums and turned tiles reached {{ loop.tflops | .1f }} TFLOP/s as a
# product of matrices, {{ loop.clocks | .2f }} clocks for a multiply-add.

# %% fold="Code of the prediction"
COUNTS = launches_of(0, 0, of_heads(1, 64, 128, 1))[0].simulate().counts
PASSES = COUNTS.shared_load.wavefronts + COUNTS.shared_store.wavefronts
PEAK = stated(GPU).tflop_per_s["fp32"]
RATE = recorded("fp32_ladder._8_8_register_tile_two_blocks.m_4096_n_4096_k_4096.tflop_per_s")
SWAPS = 2 * 2 * 8 * 8 * 4  # passes: two swaps, there and back, 8 warps, 8 pieces of 4 passes
block_clocks = {
    "first piece": WAS["first tiles"] / 4,
    "products": FLOOR * PEAK / RATE,
    "swaps": SWAPS,
    "softmax": WAS["softmax"],
}
publish(
    loop={"tflops": RATE, "clocks": PEAK / RATE},
    counted={"passes": PASSES},
    expected={"block_us": sum(block_clocks.values()) / GPU.boost_mhz},
)

# %% [markdown]
# Let the first piece take a quarter of what the first tiles took, the products the rate of that loop, the swaps their passes,
# and softmax what it took before. That is {{ expected.block_us | us }} for a block with $k$ as it lies, and more with $k$ turned, for its copies pass through the
# same door as the loads of the products. Around it stand the launch and the events,
# and what joins the shares: 4 MB through the L2 and another launch, or a fence, an atomic and the same
# bytes, all read by those SMs that come last, or a cluster's barriers and the second round
# that its last cluster needs. The second launch should win.

# %% fold="Code of the measurement"


def timed_case(N, shares):
    """One head whose bias is zero, so that a library computes the same."""
    arrays = {"Q": normal(N, 128), "K": normal(N, 128), "V": normal(N, 128), "bias": constant(N, value=0.0)}
    written = {name: output(shares, 1, N) for name in ("tops", "sums")}
    written |= {"part": output(shares, 1, N, 128), "O": output(N, 128)}  # O last: what a library writes
    sizes = {"N": N, "M": N, "rows": N, "shares": shares, "share": ceil_div(N, shares * 128) * 128}
    return case(**arrays, **written, **sizes, scale=128**-0.5)


def rung(turned, join):
    """A variant: as many shares, 1, 2, 4 or 8, as fill the SMs."""

    def launches(N, d):
        most = min(ceil_div(N, 128), GPU.sms // ceil_div(N, 64))
        shares = max(one for one in (1, 2, 4, 8) if one <= max(1, most))
        return launches_of(turned, join, timed_case(N, shares))

    return launches


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


RUNGS = {
    "two warps to a sum, k turned": rung(1, 0),
    "k as it lies": rung(0, 0),
    "joined by the last to come": rung(0, 1),
    "joined in a cluster": rung(0, 2),
    "joined later, all loads at once": rung(0, 3),
}
BEST = "joined later, all loads at once"
ladder = measure(
    "attention_flash_steps",
    variants=RUNGS,
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}, {"N": 4096, "d": 128}],
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations, "torch, fused": torch_fused},
    reference=attention,
    tolerance=2e-5,
    counts=("sectors", "wavefronts"),
    reasons={"*": "What it takes"},
    fold="All 21 rows",
    guess=Guess(
        "N = 1,024: how many times as fast as torch's three operations is the last rung?",
        of=BEST,
        over="torch, three operations",
        at={"N": 1024, "d": 128},
        between=(0.5, 6.0),
        models={"Kernel 6 before": float(old_us("torch_three_operations") / old_us("kernel_6_flash"))},
        because="The same multiply-adds; what changed is how much else stands around them.",
    ),
)

# %% [markdown]
# ## What it takes


# %% fold="Code of the figure"
us = medians_us(ladder, "N")
at_1024 = {
    "Kernel 6 before": old_us("kernel_6_flash"),
    **{name: us[name, 1024] for name in RUNGS},
    "torch, three operations": us["torch, three operations", 1024],
}
if complete(*at_1024.values()):
    assert at_1024[BEST] == min(at_1024.values()), "the title says that the last rung saves a little"
    assert at_1024["joined in a cluster"] > 1.5 * at_1024[BEST], "the title says a second round"
    show(
        bars(
            at_1024,
            x="time [µs]",
            form=".1f",
            roles={name: "waste" if "torch" in name else "measured" for name in at_1024},
            title="The last rung saves a little; a cluster that does not fit costs a second round",
            caption="One head, N = 1,024, d = 128, 32-bit floats on an {machine}, recorded: Kernel 6 of the lesson before, the rungs of this one, and torch's three operations.",
        )
    )
three_us = at_1024["torch, three operations"]
turned_us, lying_us, last_us, cluster_us, best_us = (us[name, 1024] for name in RUNGS)
CLUSTERED = "joined in a cluster"
LAUNCH_US = recorded("attention_flash_steps.ceilings.launch_us")
if complete(*us.values(), three_us):
    for N in (256, 4096):
        assert us[CLUSTERED, N] == min(us[name, N] for name in RUNGS), "a takeaway says: fastest if all fit"
    assert three_us / 2 < best_us < three_us, "the answer says that it is not done in half of torch's time"
publish(
    seen={
        "best_us": best_us,
        "torch_us": three_us,
        "of_torch": best_us / three_us,
        "old_torch_us": old_us("torch_three_operations"),
        "half_us": three_us / 2,
        "turned_us": turned_us,
        "lying_us": lying_us,
        "last_us": last_us,
        "cluster_us": cluster_us,
        "long_us": us[BEST, 4096],
        "long_of_torch": us[BEST, 4096] / us["torch, three operations", 4096],
        "short_us": us[BEST, 256],
        "short_torch_us": us["torch, three operations", 256],
        "small_tiles_us": old_us("_64_by_64_4_by_4_to_a_thread", 256),
    },
    in_cluster={
        "short_us": us[CLUSTERED, 256],
        "twice_us": 2 * us[CLUSTERED, 256] - LAUNCH_US,
        "launch_us": LAUNCH_US,
        "short_gain_us": us[BEST, 256] - us[CLUSTERED, 256],
        "long_gain_us": us[BEST, 4096] - us[CLUSTERED, 4096],
    },
)

# %% [markdown]
# At N = 1,024 the last rung takes {{ seen.best_us | us }}, {{ seen.of_torch | .0% }} of torch's three
# operations beside it; Kernel 6 took {{ old.us | us }} when they took {{ seen.old_torch_us | us }}. Turning $k$
# costs more than it brings: {{ seen.turned_us | us }}, and {{ seen.lying_us | us }} with $k$ as it lies. The second launch
# won, as predicted. Joined by the last to come it is {{ seen.last_us | us }}: one warp then reads all
# parts of eight queries, and in the second launch eight warps do.

# %% [markdown]
# In a cluster it is {{ seen.cluster_us | us }}, and the second round explains it. At N = 256 a block has as many
# queries and keys, but four clusters of two are all there is, and the same kernel takes
# {{ in_cluster.short_us | us }}. Twice that, less a launch of {{ in_cluster.launch_us | us }} that happens only once, is
# {{ in_cluster.twice_us | us }}. Where all clusters fit, this is in fact the fastest rung, by
# {{ in_cluster.short_gain_us | us }} at N = 256 and {{ in_cluster.long_gain_us | us }} at N = 4,096, where 64 of the
# {{ clusters.pairs | .0f }} pairs of SMs are taken.

# %% [markdown]
# At N = 4,096 the last rung takes {{ seen.long_us | us }}, {{ seen.long_of_torch | .0% }} of torch's time. At
# N = 256 it takes {{ seen.short_us | us }}, and torch is faster with {{ seen.short_torch_us | us }}: four query tiles and
# two shares are eight blocks, and the whole chip waits for eight SMs. Kernel 6 with tiles of 64 queries and
# 64 keys, twice as many blocks with half the work, took {{ seen.small_tiles_us | us }} there.

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
    """The kernel that notes 6 clocks of each block with one tile of keys; `also` is done at both ends."""
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
check(arrays["O"], right_answer(arrays), rtol=0.0, atol=2e-6, name="the kernel with stamps")

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
PAIRS = [
    ("until the first product", WAS["first tiles"], IS["first piece"], block_clocks["first piece"]),
    ("scores", WAS["scores"], IS["scores"], FLOOR / 2 * PEAK / RATE + SWAPS / 2),
    ("softmax, and v", WAS["softmax"] + WAS["barrier, v"], IS["softmax"], block_clocks["softmax"]),
    ("mean", WAS["mean"], IS["mean"], FLOOR / 2 * PEAK / RATE),
    ("parts out", WAS["parts out"], IS["parts out"], None),
]
show(
    Table(
        ["part of a block", "before", "now", "predicted"],
        PAIRS,
        caption="Median clocks of a block, N = 1,024, recorded on an {machine} from a cold L2: Kernel 6 of the lesson before, and the last rung of this one; the second launch is not in them.",
    )
)
publish(
    now={
        "per_product": (IS["scores"] + IS["mean"]) / FLOOR,
        "first": IS["first piece"],
        "all_us": IS["all blocks"] / 1000,
        "rest_us": us[BEST, 1024] - IS["all blocks"] / 1000,
        "left_us": (left_us := three_us / 2 - us[BEST, 1024] + IS["all blocks"] / 1000),
        "left_clocks": left_us * GPU.boost_mhz / FLOOR,
        "block_us": sum(IS[part] for part in PARTS) / GPU.boost_mhz,
        "parts_out": IS["parts out"],
    }
)

# %% [markdown]
# The parts add up to {{ now.block_us | us }}, and {{ expected.block_us | us }} were predicted. The first product begins after
# {{ now.first | ,.0f }} clocks, not after {{ was.first | ,.0f }}, but far from a quarter of that: a piece has fewer bytes and
# the same way to come. The {{ now.parts_out | ,.0f }} clocks in which parts go out were left out of the prediction.

# %% [markdown]
# The mean gained more than predicted, and the scores became slower. Between their products stand
# four barriers, the copies of the next pieces with all their addresses, and the swap, and a register bank is
# met more often when $k$ lies as it came; these clocks do not tell one from another. Over both products a
# multiply-add takes {{ now.per_product | .2f }} clocks after {{ was.per_product | .2f }}, where {{ loop.clocks | .2f }} were predicted. From the
# first block's beginning to the last one's end {{ now.all_us | us }} pass, after {{ was.all_us | us }}.

# %% [markdown]
# How exact is it? The sums are those of before in another order. The next cell ran on an H100: the largest
# error of the last rung and of torch's three operations against 64-bit floats, at N = 1,024.

# %% fold="Code that compares errors on a GPU" needs="gpu torch" record="errors"
if gpu_here():
    import cupy
    import torch

    generator = cupy.random.default_rng(9)
    for name, stretch, hidden in (
        ("normal numbers", 1, 0),
        ("queries thirty times as large", 30, 0),
        ("a first half that is masked", 1, 512),
    ):
        arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
        arrays["Q"] *= stretch
        arrays["bias"] = cupy.asarray(masked(1024, hidden))
        arrays["O"] = cupy.full((1024, 128), np.nan, cupy.float32)
        arrays["part"] = cupy.empty((8, 1024, 128), cupy.float32)
        arrays |= {name: cupy.empty((8, 1024), cupy.float32) for name in ("tops", "sums")}
        for launch in launches_of(0, 3, timed_case(1024, 8)):
            given = {**launch.case.values, **arrays}
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
publish(errors=printed_errors("attention/flash_steps", "torch"))

# %% [markdown]
# Ours is off by {{ errors.most | .1e }} at most, and in each of the three by no more than
# {{ errors.worst_times | .1f }} times what torch's operations are.

# %% [markdown]
# ## The answer
#
# No. Torch took {{ seen.torch_us | us }} beside these kernels, so half is {{ seen.half_us | us }}, and the last rung takes
# {{ seen.best_us | us }}, {{ seen.of_torch | .0% }}. Of that the blocks have {{ now.all_us | us }}, in which their multiply-adds alone would
# take {{ floor.us | us }}, and {{ now.rest_us | us }} lie outside of all blocks: events, two launches, and the
# joining of shares. Beside those, half of torch's time would leave a block {{ now.left_us | us }}: {{ now.left_clocks | .2f }} clocks
# for a multiply-add, and none for anything else. Where clusters fit, a launch less saves a microsecond or so;
# here they do not. What comes nearer to half is another unit: matrix units can multiply
# [32-bit floats in two halves](matrix_units.py#32-bit-floats-in-two-halves).

# %% [markdown]
# ## Takeaways
#
# - Clocks in the kernel say where a block's time is; counts of instructions could not have told these
#   kernels apart.
# - When a tile is too small for large squares of sums, two threads can share a square and divide its terms.
# - Turned operands put neighbours of one column in alternating register banks, but turning is paid for in copies
#   of 4 bytes.
# - A ring of pieces lets work begin with the first of them. A piece has the same way to come as a tile, and
#   costs a barrier.
# - Shares can be joined without a second launch. The last to come reads for all; a cluster is the fastest way
#   if all of them fit on the chip at once, and if one does not, everything takes two rounds.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
HALVES = r"""
// The sums of `each` numbers for 128 rows: threads t and t + 128 have one half of row t each.
extern "C" __global__ void __launch_bounds__(256)
row_sums(const float* x, float* sums, int each) {
    __shared__ float box[128];
    int t = threadIdx.x % 128, half = threadIdx.x / 128, warp = threadIdx.x / 32;
    float s = 0.0f;
    for (int j = 0; j < each / 2; ++j) s += x[t * each + half * (each / 2) + j];
    if (half == 1) box[t] = s;
    asm volatile("barrier.sync %0, %1;" :: "r"(NUMBER), "n"(THREADS) : "memory");
    if (half == 0) sums[t] = s + box[t];
}
"""
OF_PAIRS = Kernel(HALVES, defines={"NUMBER": "1 + warp % 4", "THREADS": 64})
OF_NEIGHBOURS = Kernel(HALVES, defines={"NUMBER": "1 + warp / 2", "THREADS": 64})
OF_ONE_WARP = Kernel(HALVES, defines={"NUMBER": "1 + warp", "THREADS": 32})
OF_HALVES = Kernel(HALVES, defines={"NUMBER": "1 + half", "THREADS": 128})


def sums_tests(kernel):
    random = np.random.default_rng(4)
    for each in (2, 8, 34):
        x = random.integers(-8, 9, (128, each)).astype(np.float32)
        sums = np.full(128, np.nan, np.float32)
        kernel.simulate(x, sums, each, grid=1, block=256)
        assert (sums == x.sum(axis=1)).all(), f"{each} numbers in a row"


exercise(
    "Who has to meet",
    """
    Threads t and t + 128 of a block of 256 each add up one half of row t; the second leaves its sum in a box and
    the first adds both. A barrier for all 256 threads would do, but only two warps at a time have anything to do
    with each other. Write NUMBER, which of the barriers 1 to 15 a warp comes to, and THREADS, how many come to it,
    so that each two warps meet and nobody else waits. The tests run three lengths, and the simulator's hazards
    count.
    """,
    answer=OF_PAIRS,
    tests=sums_tests,
    wrong=[OF_NEIGHBOURS, OF_ONE_WARP, OF_HALVES],
    hint="Warps 0 and 4 have the same rows, and so have 1 and 5, 2 and 6, 3 and 7.",
)

# %% [markdown]
# All of this is 32-bit arithmetic on the ordinary units. A language model runs its attention in 16 bits, on units that
# multiply whole tiles; there the softmax between two products becomes the slow part, and other things
# have to overlap. That is a lesson of its own.
