# ---
# title: Sums in registers
# needs: [speed/occupancy, matmul/tiling]
# summary: "One sum a thread, then 8, 64 and 128. How near to cuBLAS does a product of 4,096-square matrices come in twelve steps?"
# description: "A ladder of 32-bit matrix products from the plainest kernel to the library's rate: register tiles, wide loads, warp tiles, copies under way, register banks."
# date: 2026-11-21
# tags: [matrix product, registers, cp.async, cuBLAS]
# ---

# %% [markdown]
# The tiled product of the last lesson reads two numbers from shared memory for every multiply-add, and
# that is what it spends its time on. cuBLAS does the same multiply-adds with the same units, several
# times as fast. From the one to the other lead {{ ladder.rungs }} kernels, each with one idea more than
# the one before. How near do they come?

# %% fold="Imports"
import re
from itertools import pairwise

import numpy as np

from tilewise import (
    Guess,
    Kernel,
    Table,
    agree,
    case,
    ceil_div,
    check,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
)
from tilewise.figures import bars, heat_map
from tilewise.kernel.machine_code import available as can_disassemble
from tilewise.kernel.machine_code import machine_code
from tilewise.kernel.nvrtc import available, compile_kernel
from tilewise.measurements import Numbers, complete, medians_us, recorded_device
from tilewise.measurements.references import matrix_product
from tilewise.models import stated
from tilewise.models.occupancy import occupancy

GPU = recorded_device()
PEAK = stated(GPU).tflop_per_s["fp32"]
publish(ladder={"rungs": 14, "peak": PEAK})

# %% [markdown]
# ## A count to predict with
#
# An SM has four schedulers, and each issues one instruction of a warp in a cycle. Multiply-adds are
# issued by all four at once; loads from shared memory leave through one door, one pass a cycle. So per
# multiply-add of a warp two numbers matter: the instructions issued with it, and the passes through that
# door, which count four times. The larger one estimates the cycles that a scheduler spends on it.
#
# $$
# \text{cycles} = \max(\text{instructions},\; 4 \cdot \text{passes})
# $$
#
# One would be the peak, {{ ladder.peak | .1f }} TFLOP/s (data sheet). The simulator counts both
# in the \PTX. NVIDIA's compiler merges some loads on the way to the machine code, so a kernel may be faster than
# this: it is an estimate and not a bound.

# %% [markdown]
# In the first rung, `by_rows`, neighbouring lanes take neighbouring *rows* of $C$, and each reads from a
# row of $A$ of its own. The second is the plain kernel of the last lesson.

# %%
BY_ROWS = Kernel(r"""
extern "C" __global__
void by_rows(const float* A, const float* B, float* C, int M, int N, int K) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the rows of C
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= M || j >= N) return;
    float s = 0.0f;
    #pragma unroll 8
    for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
    C[i * N + j] = s;
}
""")

# %% fold="Two rungs of the last lesson"
BY_COLUMNS = Kernel(r"""
extern "C" __global__
void by_columns(const float* A, const float* B, float* C, int M, int N, int K) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the columns of C
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= M || j >= N) return;
    float s = 0.0f;
    #pragma unroll 8
    for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
    C[i * N + j] = s;
}
""")

SHARED_TILE = Kernel(r"""
extern "C" __global__
void shared_tile(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[32][32], b[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 32 + y, j = blockIdx.x * 32 + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();  // both tiles are there
        #pragma unroll
        for (int k = 0; k < 32; ++k) s += a[y][k] * b[k][x];
        __syncthreads();  // nobody needs them any more
    }
    if (i < M && j < N) C[i * N + j] = s;
}
""")

# %% [markdown]
# ## Eight sums, one below the other
#
# A number in a register can serve more than one sum. Give a thread eight results in a column of $C$: the
# number of $B$ is read once for all eight. It is the tiles' idea once more, one store further in. What
# is left are nine reads for eight multiply-adds.
#
# ??? definition "Register tile | register tiles"
#     The results that one thread keeps in registers while it walks along k. Each number that it reads
#     serves a whole row or column of them.


# %%
SIDE = 8  # sums of a thread in one direction


# %% tab="Pseudocode"
def multiply_columns(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, SIDE):
        for j in parallel(N):  # each is a thread
            s = np.zeros(len(rows))
            for k in range(K):
                v = B[k, j]
                for r in range(len(rows)):
                    s[r] += A[rows[r], k] * v
            C[rows, j] = s


# %% tab="CUDA C"
COLUMN_OF_EIGHT = Kernel(r"""
extern "C" __global__ __launch_bounds__(512)
void column_of_eight(const float* A, const float* B, float* C,
                     int M, int N, int K) {
    __shared__ float a[64][8], b[8][64];
    int t = threadIdx.x, x = t % 64, y = t / 64;
    int i0 = blockIdx.y * 64, j = blockIdx.x * 64 + x;
    float s[8] = {};  // New: eight sums a thread, one below the other
    for (int k0 = 0; k0 < K; k0 += 8) {
        int i = i0 + t / 8, k = k0 + t % 8;
        a[t / 8][t % 8] = i < M && k < K ? A[i * K + k] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();  // both tiles are there
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
            float v = b[q][x];  // New: read once, used eight times
            #pragma unroll
            for (int r = 0; r < 8; ++r) s[r] += a[8 * y + r][q] * v;
        }
        __syncthreads();  // nobody needs them any more
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        int i = i0 + 8 * y + r;
        if (i < M && j < N) C[i * N + j] = s[r];
    }
}
""")

# %% [markdown]
# ## A square of sums
#
# A column of eight reads 9 numbers for 8 multiply-adds, a square of 8 by 8 reads 16 for 64. In each step
# of $k$ the thread takes eight numbers of $A$ and eight of $B$ and adds all their products to its
# square: an outer product.
#
# ??? definition "Outer product | outer products"
#     All products of the numbers of one list with those of another, a matrix. A product of matrices is
#     a sum of outer products, one for each k.


# %% tab="Pseudocode"
def multiply_squares(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, SIDE):
        for columns in tiles(N, SIDE):  # each pair is a thread
            s = np.zeros((len(rows), len(columns)))
            for k in range(K):
                u, v = A[rows, k], B[k, columns]
                for r, c in parallel(len(rows), len(columns)):
                    s[r, c] += u[r] * v[c]
            C[np.ix_(rows, columns)] = s


# %% tab="CUDA C"
SQUARE_OF_EIGHT = Kernel(r"""
extern "C" __global__ __launch_bounds__(256)
void square_of_eight(const float* A, const float* B, float* C,
                     int M, int N, int K) {
    __shared__ float a[128][8], b[8][128];
    int t = threadIdx.x, x = t % 16, y = t / 16;
    int i0 = blockIdx.y * 128, j0 = blockIdx.x * 128;
    float s[8][8] = {};  // New: a square of sums
    for (int k0 = 0; k0 < K; k0 += 8) {
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            int m = t / 8 + 32 * p, n = t % 128, q = t / 128 + 2 * p;
            bool in_A = i0 + m < M && k0 + t % 8 < K;
            bool in_B = k0 + q < K && j0 + n < N;
            a[m][t % 8] = in_A ? A[(i0 + m) * K + k0 + t % 8] : 0.0f;
            b[q][n] = in_B ? B[(k0 + q) * N + j0 + n] : 0.0f;
        }
        __syncthreads();  // both tiles are there
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
            float u[8], v[8];
            #pragma unroll
            for (int r = 0; r < 8; ++r)
                u[r] = a[8 * y + r][q], v[r] = b[q][8 * x + r];
            #pragma unroll
            for (int r = 0; r < 8; ++r)
                #pragma unroll
                for (int c = 0; c < 8; ++c) s[r][c] += u[r] * v[c];
        }
        __syncthreads();  // nobody needs them any more
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r)
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            int i = i0 + 8 * y + r, j = j0 + 8 * x + c;
            if (i < M && j < N) C[i * N + j] = s[r][c];
        }
}
""")

# %% [markdown]
# The square costs registers: 64 for the sums, 16 for the numbers at work, and some for addresses.
# Occupancy falls, and may: 64 sums that do not wait for each other hide a latency as well as more warps
# would.

# %% [markdown]
# ## Sixteen bytes at a time
#
# A vectorised load asks for four numbers with one instruction. Along the rows of $B$ they lie ready;
# along the *columns* of $A$ they do not, so the tile of $A$ is put into shared memory turned. Where a
# row's length is no multiple of four, rows begin at addresses that no 16-byte load may have, and the
# kernel is compiled a second time with four plain loads in place of one.

# %%
WIDE = Kernel(r"""
#ifndef ALIGNED
#define ALIGNED 1  // K and N are multiples of 4
#endif
#ifndef WARP_TILES
#define WARP_TILES 0
#endif
// [four
// Four numbers of a row, of which `there` exist; zeros for the others.
__device__ float4 four(const float* from, int there) {
    float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
#if ALIGNED
    if (there > 0) v = *(const float4*)from;  // New: 16 bytes in one load
#else
    if (there > 0) v.x = from[0];
    if (there > 1) v.y = from[1];
    if (there > 2) v.z = from[2];
    if (there > 3) v.w = from[3];
#endif
    return v;
}
// four]

extern "C" __global__ __launch_bounds__(256)
void wide(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float a[8][128], b[8][128];  // New: a lies turned
    int t = threadIdx.x, i0 = blockIdx.y * 128, j0 = blockIdx.x * 128;
    // [places
#if WARP_TILES
    int lane = t % 32, warp = t / 32;
    int row = warp % 2 * 64 + lane / 4 * 4, next_rows = 32;  // New: 64 by 32
    int column = warp / 2 * 32 + lane % 4 * 4, next_columns = 16;
#else
    int row = t / 16 * 8, next_rows = 4, column = t % 16 * 8, next_columns = 4;
#endif
    // places]
    float s[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        // [fetch
        int m = t / 2, k = k0 + t % 2 * 4, q = t / 32, n = t % 32 * 4;
        float4 u = four(A + (i0 + m) * K + k, i0 + m < M ? K - k : 0);
        float4 v = four(B + (k0 + q) * N + j0 + n, k0 + q < K ? N - j0 - n : 0);
        a[t % 2 * 4 + 0][m] = u.x;
        a[t % 2 * 4 + 1][m] = u.y;
        a[t % 2 * 4 + 2][m] = u.z;
        a[t % 2 * 4 + 3][m] = u.w;
        *(float4*)&b[q][n] = v;
        __syncthreads();  // both tiles are there
        // fetch]
        // [multiply
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
            float ra[8], rb[8];
            *(float4*)ra = *(float4*)&a[q][row];
            *(float4*)(ra + 4) = *(float4*)&a[q][row + next_rows];
            *(float4*)rb = *(float4*)&b[q][column];
            *(float4*)(rb + 4) = *(float4*)&b[q][column + next_columns];
            #pragma unroll
            for (int r = 0; r < 8; ++r)
                #pragma unroll
                for (int c = 0; c < 8; ++c) s[r][c] += ra[r] * rb[c];
        }
        __syncthreads();  // nobody needs them any more
        // multiply]
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r)
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            int i = i0 + row + r % 4 + r / 4 * next_rows;
            int j = j0 + column + c % 4 + c / 4 * next_columns;
            if (i < M && j < N) C[i * N + j] = s[r][c];
        }
}
""")
WIDE.region("multiply")

# %% [markdown]
# ## A rectangle for each warp
#
# So far a warp computes a strip of 16 by 128 results and needs 16 + 128 numbers for each $k$. A warp
# whose results form a rectangle of 64 by 32 needs 64 + 32. Shared memory hands the same word to many
# lanes in one pass, so it is the *different* words that count. The lanes' columns are also interleaved
# in pieces of four, so that those of a request touch every bank once.
#
# ??? definition "Warp tile | warp tiles"
#     The results of the block's tile that one warp computes.


# %% fold="Code of the figure"
def owners(warp_tiles):
    """The warp that computes each 16 by 16 piece of a 128 by 128 tile."""
    rows, columns = np.mgrid[0:128:16, 0:128:16]
    return rows // 64 + columns // 32 * 2 if warp_tiles else rows // 16


show(
    heat_map(
        {"sixteen by sixteen threads": owners(False), "warp tiles": owners(True)},
        x="column / 16",
        y="row / 16",
        role="warp",
        key=False,
        form=".0f",
        title="A strip needs 144 numbers for its 2,048 results, a rectangle 96",
        caption="Which of eight warps computes what of a tile of 128 by 128 results, in pieces of 16 by 16: strips of 16 by 128, and rectangles of 64 by 32.",
    )
)

# %%
WIDE.region("places")

# %% [markdown]
# ## Copies under way
#
# Until now fetching and multiplying take turns, with a barrier behind each. Double buffering gives the
# next tiles places of their own and fetches them meanwhile. `cp.async` copies from global to shared
# memory by itself, past the registers. The thread goes on, closes a group of copies, and later waits
# until the oldest group has arrived.
#
# ??? question "Can the next tile be fetched while this one is used?"
#     Yes, and it does not come by itself. A thread that waits at a barrier asks for nothing; without
#     copies ahead only the other blocks on its SM fill the gap. One often reads that there is no
#     place to put the next tile because this one takes all of shared memory. The place is a matter of
#     choice: a second tile means fewer resident blocks or a smaller tile, and [the
#     ladder](#the-ladder) shows what that trade brings. With [matrix
#     units](matrix_units.py#cpasync-three-stages-in-flight) it is done three places deep.
#
# ??? definition "Double buffering"
#     Filling one place with what comes next while another, filled before, is in use; with more than
#     two places one speaks of stages.
#
# ??? definition "cp.async | asynchronous copies"
#     An instruction (from compute capability 8.0 on) that copies 4, 8 or 16 bytes from global to
#     shared memory while its thread goes on. Copies are closed into groups, and one waits for groups.

# %% fold="The kernel of the last seven rungs, whole"
STAGED = Kernel(
    r"""
#ifndef ALIGNED
#define ALIGNED 1  // N is a multiple of 4
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef COLUMNS
#define COLUMNS 8  // sums of a thread: 8 rows of so many columns
#endif
#ifndef SNAKE
#define SNAKE 0
#endif
#ifndef LOOSE
#define LOOSE 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define DEEP 32
#define ROWS 128
#define WIDTH (16 * COLUMNS)
#define A_ROW (ROWS + PAD)
#define STAGE (DEEP * (A_ROW + WIDTH))
#define GROUP 16  // steps of k that are written out
#define ALL _Pragma("unroll")

// [copy
// A copy goes on by itself. Where nothing is there, it writes zeros.
__device__ void copy4(unsigned to, const float* from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}
__device__ void copy16(unsigned to, const float* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ void close_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void wait_for_oldest() {  // all but the youngest STAGES - 2 groups
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
}
// copy]

// [order
#define ONE(i, j) s[i][j] += part(a[u], i) * part(b[u], j);
#define DOWN(j) ONE(0, j) ONE(1, j) ONE(2, j) ONE(3, j) \
                ONE(4, j) ONE(5, j) ONE(6, j) ONE(7, j)
#define UP(j)   ONE(7, j) ONE(6, j) ONE(5, j) ONE(4, j) \
                ONE(3, j) ONE(2, j) ONE(1, j) ONE(0, j)
#if SNAKE
#define TWO(j) DOWN(j) UP(j + 1)  // New: back up from where it ended
#else
#define TWO(j) DOWN(j) DOWN(j + 1)
#endif
#if COLUMNS == 16
#define ALL_SUMS TWO(0) TWO(2) TWO(4) TWO(6) TWO(8) TWO(10) TWO(12) TWO(14)
#else
#define ALL_SUMS TWO(0) TWO(2) TWO(4) TWO(6)
#endif
// order]
__device__ float part(const float4* v, int i) {
    float4 four = v[i / 4];
    return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
}

// [fetch
#if ALIGNED
#define EACH 4
#define COPY_B copy16
#else
#define EACH 1
#define COPY_B copy4
#endif
#define JUMP (256 * EACH / WIDTH)  // rows of B that the block copies at once

struct Source {
    const float* rows[4];  // of A, where this thread copies next
    const float* b;
    int q, row;            // its column of A's tile and its row of B's
    unsigned to_a, to_b;   // its places in the first stage
};

// One stage: DEEP columns of A, turned on the way, and DEEP rows of B.
__device__ void fetch(Source& from, unsigned stage, int left, int N) {
    ALL for (int r = 0; r < 4; ++r) {
        ALL for (int p = 0; p < DEEP; p += 8)
            copy4(from.to_a + stage + 4 * (p * A_ROW + 4 * r),
                  from.rows[r] + p, from.q + p < left);
        from.rows[r] += DEEP;
    }
    ALL for (int p = 0; p < DEEP; p += JUMP) {
        COPY_B(from.to_b + stage + 4 * p * WIDTH, from.b, from.row + p < left);
        from.b += (size_t)JUMP * N;
    }
}
// fetch]

extern "C" __global__ __launch_bounds__(256, COLUMNS == 16 ? 1 : 2)
void staged(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ __align__(16) float ring[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // [tiles
    int high = (M + ROWS - 1) / ROWS, across = (N + WIDTH - 1) / WIDTH;
    int band = blockIdx.x / (8 * across), at = blockIdx.x % (8 * across);
    int in_band = min(8, high - 8 * band);  // bands of 8 tiles share rows of L2
    int i0 = (8 * band + at % in_band) * ROWS, j0 = at / in_band * WIDTH;
    // tiles]
    int row = warp % 2 * 64 + lane / 2 % 8 * 4;
    int column = warp / 2 * (WIDTH / 4) + (lane % 2 + lane / 16 * 2) * 4;
    // [source
    Source from;
    int m = warp * 16 + lane / 8, n = threadIdx.x % (WIDTH / EACH) * EACH;
    from.q = lane % 8;
    from.row = threadIdx.x / (WIDTH / EACH);
    ALL for (int r = 0; r < 4; ++r)  // beyond M another row; its sums are not stored
        from.rows[r] = A + (size_t)min(i0 + m + 4 * r, M - 1) * K + from.q;
    from.b = B + (size_t)from.row * N + min(j0 + n, N - EACH);
    float* first_b = ring + DEEP * A_ROW;
    from.to_a = (unsigned)__cvta_generic_to_shared(ring + from.q * A_ROW + m);
    from.to_b = (unsigned)__cvta_generic_to_shared(first_b + from.row * WIDTH + n);
    // source]
    // [split
    int length = K;  // along k, for this block
#if SPLIT
    int share = ((K + DEEP - 1) / DEEP + gridDim.y - 1) / gridDim.y * DEEP;
    int start = blockIdx.y * share;
    length = min(share, K - start);
    ALL for (int r = 0; r < 4; ++r) from.rows[r] += start;
    from.b += (size_t)start * N;
    C += (size_t)blockIdx.y * M * N;  // a matrix for each part
#endif
    // split]
    int steps = (length + DEEP - 1) / DEEP;
    float s[8][COLUMNS] = {};
    float4 a[2][2], b[2][COLUMNS / 4];
    ALL for (int p = 0; p < STAGES - 1; ++p) {
        if (p < steps) fetch(from, 4 * p * STAGE, length - p * DEEP, N);
        close_group();
    }
    wait_for_oldest();
    __syncthreads();  // the first stage is there
    const float* pa = ring + row;
    const float* pb = first_b + column;
#define READ(to, q) \
    ALL for (int h = 0; h < 2; ++h) \
        a[to][h] = *(const float4*)(pa + (q) * A_ROW + 32 * h); \
    ALL for (int h = 0; h < COLUMNS / 4; ++h) \
        b[to][h] = *(const float4*)(pb + (q) * WIDTH + 16 * h);
    READ(0, 0)
    // [pipeline
    for (int step = 0, now = 0; step < steps; ++step) {
        int after = step + STAGES - 1;
        unsigned stage = 4 * (after % STAGES) * STAGE;
        if (after < length / DEEP) fetch(from, stage, DEEP, N);
        else if (after < steps) fetch(from, stage, length % DEEP, N);
        close_group();
        int next = step + 1 < steps ? (now + 1) % STAGES : now;
        _Pragma("unroll 1")
        for (int done = GROUP; done <= DEEP; done += GROUP) {
            ALL for (int q = 0; q < GROUP; ++q) {
                const int u = q % 2;  // these numbers are at work
                if (q < GROUP - 1) {
                    READ(1 - u, q + 1)
                } else {
                    pa += GROUP * A_ROW;
                    pb += GROUP * WIDTH;
                    if (done == DEEP) {
                        wait_for_oldest();
                        __syncthreads();  // one stage is there, one is read
                        pa = ring + next * STAGE + row;
                        pb = first_b + next * STAGE + column;
                    }
                    READ(0, 0)
                }
                ALL_SUMS
            }
        }
        now = next;
    }
    // pipeline]
    // [store
#if LOOSE
#define RESULT(x) ((x) + 0.0f)  // New: in another register
#else
#define RESULT(x) (x)
#endif
    ALL for (int r = 0; r < 8; ++r) {
        int i = i0 + row + r % 4 + r / 4 * 32;
        ALL for (int h = 0; h < COLUMNS / 4; ++h) {
            int j = j0 + column + 16 * h;
            float* to = C + (size_t)i * N + j;
            float* v = &s[r][4 * h];
#if ALIGNED
            if (i < M && j < N)
                *(float4*)to = make_float4(RESULT(v[0]), RESULT(v[1]),
                                           RESULT(v[2]), RESULT(v[3]));
#else
            ALL for (int c = 0; c < 4; ++c)
                if (i < M && j + c < N) to[c] = RESULT(v[c]);
#endif
        }
    }
    // store]
}
"""
)

# %% [markdown]
# The last seven rungs are one source, with stages, padding and columns to set by `#define`. In step `q`
# of a stage the numbers of step `q` + 1 are read, so that no multiply-add waits for them. The one
# barrier serves twice: the next stage has arrived for all threads, and all have read this one, so that
# it may be filled anew.

# %%
STAGED.region("pipeline")

# %% [markdown]
# $A$ has to be turned on its way, so it is copied in pieces of 4 bytes: a warp takes 8 neighbours along
# $k$ from each of 4 rows and puts them 8 rows of the turned tile apart.

# %%
STAGED.region("fetch")

# %% [markdown]
# ## Conflict-free on the way in
#
# The turned tile has rows of 128 words, so 8 places of a warp's copy lie in one bank, and the copy takes
# 8 passes. Four words of padding shift every row by four banks: 8 rows times 4 neighbours then meet all
# 32 banks once, and rows still begin at multiples of 16 bytes.

# %% [markdown]
# ## Twice as wide
#
# 8 by 16 sums a thread: six wide loads for 128 multiply-adds in place of eight. The block's tile becomes
# 128 by 256 and takes about all registers of an SM. Nothing else is resident to hide anything.

# %% [markdown]
# ## The order of the multiply-adds
#
# Every multiply-add reads three registers: a number of $A$, one of $B$ and the sum. Registers lie in two
# register banks, the even and the odd numbers, and a bank hands out one operand of a warp in a cycle. Of
# three operands two come from the same bank, unless one is still held from the instruction before: each
# place of an operand can keep its last one, and the machine code marks which.
#
# ??? definition "Register bank | register banks"
#     One of the parts of a register file that each deliver one operand of a warp a cycle. That there
#     are two on these GPUs, by even and odd register numbers, is known from experiments, not from the
#     maker.

# %% [markdown]
# So the order of the 128 products of a step matters. Down a column of the square the number of $B$ is
# kept; at the foot of a column *both* change, if the next one begins at the top again. If it goes back
# up, the number of $A$ stays for the turn. The compiler assigns the registers; the source can only offer
# it an order.

# %%
STAGED.region("order")

# %% [markdown]
# ## Sums that may lie anywhere
#
# There is a second tie. At the end a store of 16 bytes takes four sums from four registers in a row. So
# the compiler keeps four sums of a row side by side through the whole loop, and the eight sums of a
# *column* all lie in one bank. This rung adds zero to every sum before it is stored: now only the
# results have to lie in a row. (The compiler may not leave it out: -0 + 0 is +0.)

# %%
STAGED.region("store")

# %% [markdown]
# ## Stages and sums given back
#
# Two settings were chosen before the order was. Two stages under way already cover more time than a read
# from global memory takes: without the fourth no difference is predicted. And with 64 sums and two
# stages *two* blocks share an SM again, and one multiplies while the other waits; but the loop has more
# instructions and copies for each multiply-add: a loss is predicted.


# %% fold="Code of the checks"
def product(M, N, K, grid, block, shared_bytes=0):
    """A product whose results have a standard deviation of 1."""
    arrays = {"A": normal(M, K), "B": normal(K, N, scale=K**-0.5), "C": output(M, N)}
    return case(**arrays, M=M, N=N, K=K, grid=grid, block=block, shared_bytes=shared_bytes)


def by_threads(kernel, width, height):
    return lambda M, N, K: kernel.on(
        product(M, N, K, (ceil_div(N, width), ceil_div(M, height)), (width, height))
    )


def by_lanes_down(M, N, K):
    return BY_ROWS.on(product(M, N, K, (ceil_div(M, 32), ceil_div(N, 8)), (32, 8)))


def by_tiles(kernel, edge, threads):
    return lambda M, N, K: kernel.on(product(M, N, K, (ceil_div(N, edge), ceil_div(M, edge)), threads))


def wide(warp_tiles):
    """The kernel with wide loads, compiled for rows that are aligned or for any."""

    def launch(M, N, K):
        aligned = int(N % 4 == 0 and K % 4 == 0)
        kernel = Kernel(WIDE.source, defines={"ALIGNED": aligned, "WARP_TILES": warp_tiles})
        return kernel.on(product(M, N, K, (ceil_div(N, 128), ceil_div(M, 128)), 256))

    return launch


def staged(stages, pad, columns, snake, loose):

    def launch(M, N, K):
        settings = {"STAGES": stages, "PAD": pad, "COLUMNS": columns, "SNAKE": snake, "LOOSE": loose}
        kernel = Kernel(STAGED.source, defines={"ALIGNED": int(N % 4 == 0)} | settings)
        width = 16 * columns
        shared_bytes = 4 * stages * 32 * (128 + pad + width)
        return kernel.on(product(M, N, K, ceil_div(N, width) * ceil_div(M, 128), 256, shared_bytes))

    return launch


RUNGS = {
    "lanes along rows": by_lanes_down,
    "lanes along columns": by_threads(BY_COLUMNS, 32, 8),
    "shared tile": by_threads(SHARED_TILE, 32, 32),
    "column of 8 sums": by_tiles(COLUMN_OF_EIGHT, 64, 512),
    "square of 64 sums": by_tiles(SQUARE_OF_EIGHT, 128, 256),
    "wide loads": wide(0),
    "warp tiles": wide(1),
    "copies under way": staged(2, 0, 8, 0, 0),
    "padded": staged(2, 4, 8, 0, 0),
    "128 sums": staged(4, 4, 16, 0, 0),
    "order of multiply-adds": staged(4, 4, 16, 1, 0),
    "sums anywhere": staged(4, 4, 16, 1, 1),
    "three stages": staged(3, 4, 16, 1, 1),
    "64 sums again": staged(2, 4, 8, 1, 1),
}
BEST = "three stages"
near = {"rtol": 1e-5, "atol": 1e-5}
for pseudocode, kernel, name, sizes in (
    (multiply_columns, COLUMN_OF_EIGHT, "column of 8 sums", ((37, 41, 29), (70, 65, 9))),
    (multiply_squares, SQUARE_OF_EIGHT, "square of 64 sums", ((37, 41, 29), (131, 70, 9))),
):
    agree(pseudocode, kernel, [RUNGS[name](*size).case for size in sizes], **near)
for M, N, K in ((37, 41, 29), (131, 70, 65), (65, 260, 36)):
    results = []
    for rung in RUNGS.values():
        arrays = rung(M, N, K).case.make()
        rung(M, N, K).run(arrays)
        results.append(arrays["C"])
    right = np.float64(arrays["A"]) @ np.float64(arrays["B"])
    check(
        np.stack(results),
        np.stack([right] * len(results)),
        **near,
        name=f"all rungs: {M} × {K} times {K} × {N}",
    )

# %% [markdown]
# Every rung is checked at sizes that divide nothing, and the simulator finds no hazard in any of them.
# What NVIDIA's compiler makes of them for an H100:

# %% fold="Code of the table"
if available() is None:
    taken = []
    for name, rung in RUNGS.items():
        launch = rung(4096, 4096, 4096)
        threads = int(np.prod(launch.block))
        [found] = compile_kernel(launch.kernel, ["sm_90"])
        shared_bytes = found.shared_bytes + launch.shared_bytes
        warps = occupancy(threads, found.registers, shared_bytes).warps_per_sm
        taken.append([name, found.registers, found.spill_store_bytes, shared_bytes / 1024, warps])
    show(
        Table(
            ["rung", "registers a thread", "bytes spilled", "shared memory a block, KB", "warps on an SM"],
            taken,
            caption="Registers and shared memory of each rung by NVIDIA's compiler for an H100, and the resident warps that they allow.",
        )
    )

# %% [markdown]
# ## What the counts predict
#
# Two runs of one tile, with $K$ = 64 and $K$ = 32, differ by what 32 steps cost. In the first two rungs
# the door counts pieces of cache lines in place of banks: a request to 32 lines takes 32 passes.


# %% fold="Code of the table"
def steady(rung):
    """Instructions and passes for each multiply-add of a warp, from 32 further steps of k."""
    found = []
    for K in (32, 64):
        counts = rung(128, 256, K).simulate().counts
        shared = counts.shared_load.wavefronts + counts.shared_store.wavefronts
        passes = shared if shared else counts.global_load.lines
        found.append((counts.issued, passes, counts.shared_store.wavefronts))
    return (np.array(found[1]) - found[0]) / (128 * 256 * 32 / 32)


COUNTED = {name: steady(rung) for name, rung in RUNGS.items()}
CYCLES = {name: max(issued, 4 * passes) for name, (issued, passes, _) in COUNTED.items()}


def issue_bound(rung):
    """TFLOP/s that no run can pass: the peak, times the multiply-adds among the instructions of the loop."""
    loop = machine_code(rung(4096, 4096, 4096).kernel).loop()
    return PEAK * sum(one.name.startswith("FFMA") for one in loop) / len(loop)


SLUGS = {name: re.sub(r"\W+", "_", name) for name in (*RUNGS, "cuBLAS")}
BOUNDS = {name: issue_bound(rung) for name, rung in RUNGS.items()} if can_disassemble() is None else {}
show(
    Table(
        ["rung", "instructions", "passes", "cycles", "estimate, TFLOP/s", "issue bound, TFLOP/s"],
        [[name, *COUNTED[name][:2], CYCLES[name], PEAK / CYCLES[name], BOUNDS.get(name)] for name in RUNGS],
        caption="For each multiply-add of a warp, counted by the simulator in the PTX; cycles of a scheduler by the formula above; the peak divided by them, an estimate; and a bound, the peak times the share of multiply-adds among the machine instructions of the loop, by NVIDIA's compiler for an H100.",
    )
)
publish(
    counted={
        "copies_in": COUNTED["copies under way"][2],
        "padded_in": COUNTED["padded"][2],
        "wide_passes": COUNTED["wide loads"][1],
        "warp_passes": COUNTED["warp tiles"][1],
        "last_instructions": COUNTED["128 sums"][0],
    },
    issue_bound={SLUGS[name]: BOUNDS.get(name, np.nan) for name in RUNGS},
)

# %% [markdown]
# The door stands in the way up to the wide loads; warp tiles bring their passes from
# {{ counted.wide_passes | .3f }} to {{ counted.warp_passes | .3f }}, and from there on the instructions
# count. Padding takes the passes of the copies from {{ counted.copies_in | .3f }} to
# {{ counted.padded_in | .3f }}: no gain is predicted from it. Of order and registers these counts know
# nothing; by the argument above both should gain.

# %% [markdown]
# ## The ladder


# %% fold="Code of the measurement"
LT = "cuBLASLt, best of 10 algorithms"


def cublas(arrays):
    import cupy

    A, B, C = (arrays[name] for name in "ABC")
    return lambda: cupy.matmul(A, B, out=C)


def cublas_lt(arrays):
    from tilewise.gpu.cublas_lt import fastest

    return fastest(*(arrays[name] for name in "ABC"))


ladder = measure(
    "fp32_ladder",
    variants=RUNGS,
    cases=[{"M": 4096, "N": 4096, "K": 4096}],
    count_case={"M": 128, "N": 256, "K": 64},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cuBLAS": cublas, LT: cublas_lt},
    reference=matrix_product,
    tolerance=1e-4,
    counts=("sectors", "wavefronts", "instructions"),
    reasons={"*": "What the counts predict"},
    fold="All rows",
    guess=Guess(
        "How many times as fast is the rung with three stages as the shared tile?",
        of=BEST,
        over="shared tile",
        at={"M": 4096, "N": 4096, "K": 4096},
        between=(1.0, 40.0),
        models={"by passes of the shared tile": 4.0 * 2},  # two reads for each multiply-add
        because="The shared tile waits for shared memory, and the other for nothing but its own multiply-adds.",
    ),
)


# %% fold="Code of the figure"
US = medians_us(ladder)
RATE = Numbers({name: 2 * 4096**3 / time / 1e6 for name, time in US.items()})
if complete(RATE):
    fast = [PEAK / CYCLES[name] / RATE[name] for name in list(RUNGS)[5:]]
    assert min(fast) > 1.15, "the title says that the fast rungs wait as well"
    show(
        bars(
            {
                name: {"measured": RATE[name], "estimate by counts": min(PEAK / CYCLES[name], PEAK)}
                for name in RUNGS
            },
            x="TFLOP/s",
            form=".1f",
            roles={"measured": "measured", "estimate by counts": "predicted"},
            title="Counts hold for the slow rungs; the fast ones wait as well",
            caption="A product of 4,096-square matrices of 32-bit floats on an {machine}: the rate of each rung, and the estimate from the counts of the simulator, which three rungs pass because the compiler merges their loads.",
        )
    )
    show(
        Table(
            ["rung", "TFLOP/s", "times the one before", "of cuBLAS, %"],
            [
                [
                    name,
                    rate,
                    rate / RATE[before] if name in RUNGS and before else None,
                    100 * rate / RATE["cuBLAS"],
                ]
                for before, (name, rate) in zip(["", *RATE], RATE.items())
            ],
            caption="The ladder at 4,096 rows and columns, recorded on an {machine}, every rung beside the library in the same run.",
        )
    )
ratios = [RATE[name] * CYCLES[name] / PEAK for name in list(RUNGS)[:5]]
gains = {after: RATE[after] / RATE[before] for before, after in pairwise(RUNGS)}
publish(
    predicted={"warp_tiles": PEAK / CYCLES["warp tiles"]},
    early=max(max(ratio, 1 / ratio) for ratio in ratios),
    rate={slug: RATE[name] for name, slug in SLUGS.items()},
    share={slug: RATE[name] / RATE["cuBLAS"] for name, slug in SLUGS.items()},
    gain={SLUGS[name]: gain for name, gain in gains.items()}
    | {"sixty_four": RATE[BEST] / RATE["64 sums again"]},
    peak_share={"cublas": RATE["cuBLAS"] / PEAK, "last": RATE[BEST] / PEAK},
)

# %% [markdown]
# Up to the square of sums the larger count is right within a factor of {{ early | .1f }}. Three of these rungs
# are faster than it says, because the compiler merges their loads; none passes its issue bound. From the
# wide loads on the estimate is too high: {{ predicted.warp_tiles | .0f }} TFLOP/s were predicted for warp tiles and {{ rate.warp_tiles | .0f }} are recorded, and padding, from which no
# gain was predicted, makes the product {{ gain.padded | .2f }} times as fast. The count knows no
# waiting, at barriers, for memory or for the door; which of them costs what is not shown here.
#
# Each of the last steps is small. The snake gains a factor of {{ gain.order_of_multiply_adds | .3f }},
# sums anywhere {{ gain.sums_anywhere | .3f }}. The fourth stage was not worth its place: without it the
# factor is {{ gain.three_stages | .3f }}, unexplained. 64 sums and two blocks lose a factor of
# {{ gain.sixty_four | .3f }}.
#
# cuBLAS itself reaches {{ peak_share.cublas | .0% }} of the peak, the best rung
# {{ peak_share.last | .0% }}. Its {{ last.tiles }} tiles pass over {{ last.sms }} SMs in
# {{ last.rounds }} rounds, the last of which is not full: {{ last.full | .1% }} at best. And
# {{ counted.last_instructions | .2f }} instructions for a multiply-add, as the simulator counts them,
# leave {{ last.issue | .0% }} of the cycles to multiply-adds. The rest is waiting that no count here has
# found. The last round comes back in [a tile for two blocks](shared_tiles.py).

# %% fold="Code of the numbers"
LAST_TILES = ceil_div(4096, 128) * ceil_div(4096, 256)
ROUNDS = ceil_div(LAST_TILES, GPU.sms)
publish(
    last={
        "tiles": LAST_TILES,
        "sms": GPU.sms,
        "rounds": ROUNDS,
        "full": LAST_TILES / (ROUNDS * GPU.sms),
        "issue": 1 / COUNTED["128 sums"][0],
        "small_tiles": ceil_div(1024, 128) * ceil_div(1024, 256),
        "small_wide": ceil_div(1024, 128) ** 2,
    }
)

# %% [markdown]
# ## Other sizes
#
# At 1,024 rows and columns there are {{ last.small_tiles }} tiles of 128 by 256, or
# {{ last.small_wide }} of 128 by 128, for {{ last.sms }} SMs: most have nothing to do, and no order of
# multiply-adds helps. At awkward sizes every copy is one of 4 bytes; the work in the loop stays the
# same, so little should change.

# %% fold="Code of the measurement"
SIZES = [
    *((n, n, n) for n in (1024, 2048, 8192)),
    (16384, 1024, 2048),
    (2048, 8192, 1024),
    *((n, n, n) for n in (1793, 4095, 4097)),
]
sizes = measure(
    "fp32_sizes",
    variants={"128 by 128": RUNGS["64 sums again"], "128 by 256": RUNGS[BEST]},
    cases=[{"M": M, "N": N, "K": K} for M, N, K in SIZES],
    count_case={"M": 65, "N": 131, "K": 37},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cuBLAS": cublas, LT: cublas_lt},
    reference=matrix_product,
    tolerance=1e-4,
    reasons={"*": "Other sizes"},
    fold="All rows",
)

# %% fold="Code of the table"
AT = medians_us(sizes, "M", "N", "K")


def rate(name, M, N, K):
    return 2 * M * N * K / AT[name, M, N, K] / 1e6


def rates(*size):
    """TFLOP/s of both tiles and of cuBLAS, and the better of ours as a share of it."""
    found = [rate(name, *size) for name in ("128 by 128", "128 by 256", "cuBLAS")]
    return [*found, max(found[:2]) / found[2]]


RATES = {size: rates(*size) for size in SIZES}
show(
    Table(
        [
            "M × N × K",
            "128 by 128, TFLOP/s",
            "128 by 256, TFLOP/s",
            "cuBLAS, TFLOP/s",
            "best of ours / cuBLAS, %",
        ],
        [
            [" × ".join(f"{extent:,}" for extent in size), *found[:3], 100 * found[3]]
            for size, found in RATES.items()
        ],
        caption="Rates recorded on an {machine}, random numbers, inputs not in L2.",
    )
)

# %% [markdown]
# At 2,048 the better of the two is at {{ at.n2048.best | .1% }} and at 8,192 at {{ at.n8192.best | .1% }} of
# cuBLAS. At 1,024 the smaller tiles are {{ at.n1024.ratio | .1f }} times as fast as the larger and still
# at {{ at.n1024.best | .0% }}. And awkward sizes do cost something: at 4,095 the larger tiles reach
# {{ at.n4095.wide | .1f }} TFLOP/s, where it was {{ rate.three_stages | .1f }} at 4,096; rows begin
# anywhere, and $B$ is copied in pieces of 4 bytes in place of 16. At 4,097 there are also {{ at.tiles }}
# tiles in place of {{ last.tiles }}, a fifth round: {{ at.n4097.wide | .1f }}.

# %% fold="Code of the numbers"
publish(
    at={
        f"n{n}": {"narrow": narrow, "wide": wide, "ratio": narrow / wide, "best": best}
        for (n, *others), (narrow, wide, _, best) in RATES.items()
        if set(others) == {n}
    }
    | {"tiles": ceil_div(4097, 128) * ceil_div(4097, 256)}
)

# %% [markdown]
# ## Parts of k
#
# Where the tiles of $C$ are too few for the SMs, $K$ can be divided as well: several blocks take a part
# of $k$ each for the same tile, and a second launch adds their matrices up. That fills the SMs, and each
# part is written once and read once more.


# %% tab="Pseudocode"
def add_parts(C, total):
    parts, results = C.shape
    for i in parallel(results):
        s = 0.0
        for p in range(parts):
            s += C[p, i]
        total[i] = s


# %% tab="CUDA C"
ADD_PARTS = Kernel(r"""
extern "C" __global__
void add_parts(const float* C, float* total, int parts, int results) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= results) return;
    float s = 0.0f;
    #pragma unroll 4
    for (int p = 0; p < parts; ++p) s += C[(size_t)p * results + i];
    total[i] = s;
}
""")

# %%
STAGED.region("split")


# %% fold="Code of the measurement"
def adding(parts, results):
    arrays = {"C": normal(parts, results), "total": output(results)}
    return case(**arrays, parts=parts, results=results, grid=ceil_div(results, 256), block=256)


def in_parts(M, N, K, parts):
    """A product whose blocks take a part of k each, and the launch that adds the parts up."""
    steps = ceil_div(K, 32)
    parts = ceil_div(steps, ceil_div(steps, parts))  # none of them empty
    settings = {"STAGES": 2, "PAD": 4, "COLUMNS": 8, "SNAKE": 1, "LOOSE": 1, "SPLIT": 1}
    aligned = int(N % 4 == 0)
    spilling = "" if aligned else "// spills: on GPUs after Hopper, where rows begin anywhere\n"
    kernel = Kernel(STAGED.source + spilling, defines={"ALIGNED": aligned} | settings)
    inputs = case(
        A=normal(M, K),
        B=normal(K, N, scale=K**-0.5),
        C=output(parts, M, N),
        total=output(M, N),
        M=M,
        N=N,
        K=K,
        parts=parts,
        results=M * N,
        grid=(ceil_div(N, 128) * ceil_div(M, 128), parts),
        block=256,
        shared_bytes=4 * 2 * 32 * (128 + 4 + 128),
    )
    return [kernel.on(inputs), ADD_PARTS.on(inputs, grid=ceil_div(M * N, 256), block=256)]


agree(add_parts, ADD_PARTS, [adding(3, 300), adding(5, 129)], rtol=1e-6)
for M, N, K, parts in ((37, 41, 129, 2), (131, 260, 100, 4), (128, 128, 64, 5)):
    together, add_up = in_parts(M, N, K, parts)
    arrays = together.case.make()
    together.run(arrays)
    add_up.run(arrays)
    check(
        arrays["total"],
        np.float64(arrays["A"]) @ np.float64(arrays["B"]),
        **near,
        name=f"{arrays['parts']} parts: {M} × {K} times {K} × {N}",
    )


def cublas_total(arrays):
    import cupy

    A, B, total = (arrays[name] for name in ("A", "B", "total"))
    return lambda: cupy.matmul(A, B, out=total)


IN_PARTS = [(1024, 2), (1024, 4), (1024, 8), (4097, 2)]
parted = measure(
    "fp32_parts",
    variants={"parts of k": in_parts},
    cases=[{"M": n, "N": n, "K": n, "parts": parts} for n, parts in IN_PARTS],
    count_case={"M": 65, "N": 131, "K": 100, "parts": 3},
    bytes=lambda M, N, K, parts: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K, parts: 2 * M * N * K,
    library={"cuBLAS": cublas_total},
    reference=lambda A, B: {"total": matrix_product(A, B)["C"]},
    tolerance=1e-4,
    reasons={"*": "Parts of k"},
    fold="All 8 rows",
)


# %% fold="Code of the table"
def rounds(n, parts):
    return ceil_div(ceil_div(n, 128) ** 2 * parts, 2 * GPU.sms)  # two blocks on each


def steps_in_rounds(n, parts):
    return rounds(n, parts) * ceil_div(ceil_div(n, 32), parts)


def predicted_us(n, parts):
    """Rounds of so many steps at the pace of whole tiles, and the parts' way to memory and back."""
    whole, size = (US["64 sums again"], 4096) if n % 4 == 0 else (AT["128 by 128", n, n, n], n)
    traffic = (2 * parts + 1) * 4 * n * n / (GPU.memory_gb_per_s * 1e3)
    return whole * steps_in_rounds(n, parts) / steps_in_rounds(size, 1) + traffic


PARTED = medians_us(parted, "M", "parts")
if complete(PARTED):
    show(
        Table(
            ["n", "parts", "blocks", "rounds", "predicted, µs", "recorded, µs", "cuBLAS, µs"],
            [
                [
                    *(n, parts, ceil_div(n, 128) ** 2 * parts, rounds(n, parts), predicted_us(n, parts)),
                    *(PARTED[way, n, parts] for way in ("parts of k", "cuBLAS")),
                ]
                for n, parts in IN_PARTS
            ],
            caption="Products of n-square matrices with tiles of 128 by 128, two blocks on an SM, each tile's k in so many parts; predicted, and recorded on an {machine}.",
        )
    )
publish(
    parts={
        f"n{n}_{parts}": PARTED["cuBLAS", n, parts] / PARTED["parts of k", n, parts] for n, parts in IN_PARTS
    }
    | {"rate_4097": 2 * 4097**3 / PARTED["parts of k", 4097, 2] / 1e6}
)

# %% [markdown]
# At 1,024 four parts bring the product from {{ at.n1024.best | .2f }} to {{ parts.n1024_4 | .2f }} of
# cuBLAS's rate, two to {{ parts.n1024_2 | .2f }}, eight to {{ parts.n1024_8 | .2f }}. All but the two
# parts take longer than predicted. At 4,097 two parts were to save half a round and lose instead:
# {{ parts.rate_4097 | .1f }} TFLOP/s in place of {{ at.n4097.narrow | .1f }}. Why is not shown here.

# %% [markdown]
# ## The answer
#
# From a shared tile, {{ share.shared_tile | .0% }} of cuBLAS, the ladder leads to
# {{ share.three_stages | .1% }}: {{ rate.three_stages | .1f }} TFLOP/s in place of
# {{ rate.lanes_along_rows | .2f }} for the same multiply-adds.

# %% [markdown]
# ## Takeaways
#
# - Count for each multiply-add of a warp the instructions issued with it and, weighted by four, its
#   passes through shared memory: the larger estimates what it costs, before any waiting.
# - A number read from shared memory should serve many sums; an outer product of 8 by 8 or 8 by 16
#   numbers in registers does that.
# - Shared memory counts the different words that a warp reads: rectangles need fewer than strips.
# - Copies that are under way while the block multiplies, without conflicts on the way in, gain more
#   than the counts of instructions say.
# - Once loads are few, it matters which operand is kept, and in which register bank the next one lies.


# %% fold="The whole cell, with two wrong answers that the tests turn down"
from tilewise import exercise


def best_tile(registers, shared_bytes, stages, depth):
    best = (0.0, 0, 0)
    for rows in range(4, 33, 4):
        for columns in range(4, 33, 4):
            needed = rows * columns + 2 * (rows + columns) + 24
            height, width = 16 * rows, 16 * columns  # 256 threads stand 16 by 16
            held = 4 * stages * depth * (height + width)
            if needed <= registers and held <= shared_bytes:
                best = max(best, (rows * columns / ((rows + columns) / 4), rows, columns))
    return best[1], best[2]


def most_sums(registers, shared_bytes, stages, depth):
    fits = [
        (rows * columns, rows, columns)
        for rows in range(4, 33, 4)
        for columns in range(4, 33, 4)
        if rows * columns + 2 * (rows + columns) + 24 <= registers
        and 4 * stages * depth * 16 * (rows + columns) <= shared_bytes
    ]
    return max(fits)[1:]


def forgets_shared_memory(registers, shared_bytes, stages, depth):
    return best_tile(registers, 10**9, stages, depth)


def tile_tests(answer):
    given = [
        (255, 232_448, 4, 32),
        (128, 101_376, 2, 32),
        (255, 65_536, 4, 16),
        (168, 232_448, 3, 32),
        (255, 49_152, 2, 8),
    ]
    for limits in given:
        rows, columns = answer(*limits)
        registers, shared_bytes, stages, depth = limits
        assert rows % 4 == 0 and columns % 4 == 0, (
            f"{rows} by {columns}: loads of 16 bytes need multiples of 4"
        )
        needed = rows * columns + 2 * (rows + columns) + 24
        assert needed <= registers, f"{limits}: {rows} by {columns} needs {needed} registers"
        held = 4 * stages * depth * 16 * (rows + columns)
        assert held <= shared_bytes, f"{limits}: {rows} by {columns} needs {held} bytes of shared memory"
        right = best_tile(*limits)
        most = right[0] * right[1] / sum(right)
        assert np.isclose(rows * columns / (rows + columns), most), (
            f"{limits}: {right[0]} by {right[1]} reads less"
        )


exercise(
    "The shape of a register tile",
    """
    A thread keeps `rows` by `columns` sums, both multiples of 4, and two sets of the numbers at work, of
    `rows + columns` each; 24 registers go to addresses. A block has 16 by 16 threads and keeps so many stages of
    its tiles, `depth` deep, in shared memory. Write `best_tile(registers, shared_bytes, stages, depth)`: the
    `(rows, columns)` up to 32 with the fewest wide loads for each multiply-add. The tests compare at five limits.
    """,
    answer=best_tile,
    tests=tile_tests,
    wrong=[most_sums, forgets_shared_memory],
    hint="Loads for each multiply-add are (rows + columns) / 4 over rows · columns. Go through all shapes that fit.",
)

# %% [markdown]
# Why some sizes cost more than their share is the subject of the lesson on tiles and \waves.
