# ---
# title: "Register tiling: FP32 GEMM close to cuBLAS"
# needs: [speed/occupancy, memory/precision, matmul/tiling]
# summary: "A thread with one accumulator reads two elements from shared memory per multiply-add. How close to cuBLAS does it get with 64 accumulators?"
# description: "FP32 matrix multiplication, optimised one idea at a time: 1-D and 2-D register tiles, float4 loads, warp tiles and cp.async double buffering, compared with cuBLAS."
# date: 2026-11-23
# tags: [GEMM, register tiling, double buffering, cp.async, cuBLAS]
# ---

# %% [markdown]
# The tiled kernel of the last lesson reaches {{ start.shared | .1f }} TFLOP/s for 4,096-square matrices. cuBLAS
# reaches {{ start.cublas | .0f }} TFLOP/s on the same GPU, with the same FP32 units.
#
# Most of the gap comes from reading shared memory. In that kernel, a thread reads two elements for every multiply-add.
# Give each thread a small tile of C instead of one element, keep the tile in registers, and every element that it reads
# serves many multiply-adds. That's *register tiling*, the idea behind every fast \GEMM.

# %% fold="Imports, and code of the figure"
import re
from itertools import pairwise

import numpy as np

from tilewise import Guess, Kernel, Table, measure, parallel, publish, show, tiles
from tilewise.figures import bars, heat_map
from tilewise.kernel.machine_code import available as can_disassemble
from tilewise.kernel.machine_code import machine_code
from tilewise.kernel.nvrtc import available, compile_kernel
from tilewise.measurements import Numbers, complete, medians_us, recorded, recorded_device
from tilewise.measurements.references import matrix_product
from tilewise.models import stated
from tilewise.models.occupancy import occupancy

GPU = recorded_device()
PEAK = stated(GPU).tflop_per_s["fp32"]
AT_4096 = "m_4096_n_4096_k_4096.tflop_per_s"


def loads_per_fma(rows, columns):
    """Elements read from shared memory per multiply-add of a thread with rows × columns accumulators."""
    return (rows + columns) / (rows * columns)


SHAPES = ((1, 1), (8, 1), (8, 8))
LOADS = {f"{rows} × {columns} accumulators": loads_per_fma(rows, columns) for rows, columns in SHAPES}
publish(
    start={
        "shared": recorded(f"fp32_ladder.shared_memory_tile.{AT_4096}"),
        "cublas": recorded(f"fp32_ladder.cublas.{AT_4096}"),
        "peak": PEAK,
    }
)
assert loads_per_fma(1, 1) / loads_per_fma(8, 8) == 8, "the title says eightfold"
show(
    bars(
        LOADS,
        x="elements read from shared memory per multiply-add",
        form=".3g",
        title="An 8 × 8 register tile cuts shared-memory reads eightfold",
        caption="Elements that a thread reads from shared memory per multiply-add, by the shape of its register tile: (rows + columns) / (rows · columns).",
    )
)

# %% [markdown]
# ## Why reads from shared memory are the bottleneck
#
# An SM has four warp schedulers, and each issues one instruction per cycle. All four can issue a fused multiply-add
# (FFMA) in the same cycle. Loads and stores are different: the four schedulers share one load/store (LSU) pipe, which
# handles one wavefront per cycle. In the time of even a single-wavefront load, an SM could therefore issue four FFMAs,
# each for a whole warp. With two such loads per FFMA, the FP32 units can't exceed an eighth of their peak, however many
# warps you have. (The tiled kernel does slightly better, because the compiler merges some of its loads.)
#
# Take a thread with 2 × 2 accumulators. For each k it reads two elements of A's column and two of B's row, and it uses each of them
# twice: four reads for four FFMAs. With $R \times C$ accumulators, it reads $R + C$ elements for $R \cdot C$ FFMAs:
#
# $$
# \text{reads per FFMA} = \frac{R + C}{R \cdot C}
# $$
#
# The kernels below get to 8 × 8 in small steps, much as in Simon Boehm's
# [How to Optimize a CUDA Matmul Kernel](https://siboehm.com/articles/22/CUDA-MMM).
#
# ??? definition "Register tile | register tiles | register tiling"
#     The accumulators that one thread keeps in registers while it walks along k. Each element that it reads
#     serves a whole row or column of them.

# %% fold="The starting point: two naive kernels, and the tiled kernel of the last lesson"
NAIVE_UNCOALESCED = Kernel(r"""
// C = A B in FP32. A: M x K, B: K x N, C: M x N, all row-major; any sizes with fewer than 2^31 elements each.
// Grid ceil(M / 32) x ceil(N / 8), block 32 x 8; any GPU.
extern "C" __global__
void by_rows(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the rows of C
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    #pragma unroll 8
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
""")

NAIVE = Kernel(r"""
// The same with grid ceil(N / 32) x ceil(M / 8).
extern "C" __global__
void by_columns(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the columns of C
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    #pragma unroll 8
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
""")

SHARED_TILE = Kernel(r"""
// The same with grid ceil(N / 32) x ceil(M / 32), block 32 x 32.
extern "C" __global__
void shared_tile(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float smem_a[32][32], smem_b[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        smem_a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        smem_b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();  // both tiles are complete
        #pragma unroll
        for (int k = 0; k < 32; ++k) acc += smem_a[y][k] * smem_b[k][x];
        __syncthreads();  // nobody reads them any more
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
""")

# %% [markdown]
# ## 1-D register tiling: 8 × 1 accumulators per thread
#
# Give each thread eight elements of one column of C. The thread reads an element of B once and uses it eight times.


# %% fold="Code of a constant"
SIDE = 8  # accumulators per thread in one direction


# %% tab="Pseudocode"
def multiply_columns(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, SIDE):
        for col in parallel(N):  # each is a thread
            acc = np.zeros(len(rows))
            for k in range(K):
                b = B[k, col]
                for i in range(len(rows)):
                    acc[i] += A[rows[i], k] * b
            C[rows, col] = acc


# %% tab="CUDA C"
REGISTER_TILE_1D = Kernel(r"""
// C = A B in FP32. A: M x K, B: K x N, C: M x N, row-major; any sizes with
// fewer than 2^31 elements each. Grid ceil(N / 64) x ceil(M / 64), block 512.
extern "C" __global__ __launch_bounds__(512)
void column_of_eight(const float* A, const float* B, float* C,
                     int M, int N, int K) {
    __shared__ float smem_a[64][8], smem_b[8][64];
    int tid = threadIdx.x, x = tid % 64, y = tid / 64;
    int row0 = blockIdx.y * 64, col = blockIdx.x * 64 + x;
    float acc[8] = {};  // New: eight accumulators, one below the other
    for (int k0 = 0; k0 < K; k0 += 8) {
        int row = row0 + tid / 8, k = k0 + tid % 8;
        smem_a[tid / 8][tid % 8] = row < M && k < K ? A[row * K + k] : 0.0f;
        smem_b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();  // both tiles are complete
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            float b = smem_b[k][x];  // New: read once, used eight times
            #pragma unroll
            for (int i = 0; i < 8; ++i) acc[i] += smem_a[8 * y + i][k] * b;
        }
        __syncthreads();  // nobody reads them any more
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        int row = row0 + 8 * y + i;
        if (row < M && col < N) C[row * N + col] = acc[i];
    }
}
""")

# %% [markdown]
# Multiply a 100 × 70 matrix of ones by a 70 × 80 matrix of twos:

# %%
A, B = np.ones((100, 70), np.float32), np.full((70, 80), 2, np.float32)
C = np.zeros((100, 80), np.float32)
REGISTER_TILE_1D(A, B, C, 100, 80, 70, grid=(2, 2), block=512)
print(C[0, 0], C[99, 79], "= 70 times 1 times 2")

# %% [markdown]
# ## 2-D register tiling: outer products
#
# With a column of eight, a thread still reads nine elements for eight FFMAs, because each element of A serves only one accumulator.
# With a square of 8 × 8, each element serves eight. In each step
# of k, the thread reads eight elements of A into `frag_a` and eight of B into `frag_b`, and adds all 64 products to its
# accumulators. That's an *outer product*.
#
# ??? definition "Outer product | outer products"
#     All products of the elements of one vector with those of another, a matrix. A matrix multiplication is
#     a sum of outer products, one for each k.


# %% tab="Pseudocode"
def multiply_squares(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, SIDE):
        for columns in tiles(N, SIDE):  # each pair is a thread
            acc = np.zeros((len(rows), len(columns)))
            for k in range(K):
                frag_a, frag_b = A[rows, k], B[k, columns]
                for i, j in parallel(len(rows), len(columns)):
                    acc[i, j] += frag_a[i] * frag_b[j]
            C[np.ix_(rows, columns)] = acc


# %% tab="CUDA C"
REGISTER_TILE_2D = Kernel(r"""
// C = A B as above. Grid ceil(N / 128) x ceil(M / 128), block 256.
extern "C" __global__ __launch_bounds__(256)
void square_of_eight(const float* A, const float* B, float* C,
                     int M, int N, int K) {
    __shared__ float smem_a[128][8], smem_b[8][128];
    int tid = threadIdx.x, x = tid % 16, y = tid / 16;
    int row0 = blockIdx.y * 128, col0 = blockIdx.x * 128;
    float acc[8][8] = {};  // New: a square of accumulators
    for (int k0 = 0; k0 < K; k0 += 8) {
        #pragma unroll
        for (int p = 0; p < 4; ++p) {
            int m = tid / 8 + 32 * p, n = tid % 128, k = tid / 128 + 2 * p;
            bool in_a = row0 + m < M && k0 + tid % 8 < K;
            bool in_b = k0 + k < K && col0 + n < N;
            smem_a[m][tid % 8] = in_a ? A[(row0 + m) * K + k0 + tid % 8] : 0.0f;
            smem_b[k][n] = in_b ? B[(k0 + k) * N + col0 + n] : 0.0f;
        }
        __syncthreads();  // both tiles are complete
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            float frag_a[8], frag_b[8];  // New: 16 reads for 64 FFMAs
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                frag_a[i] = smem_a[8 * y + i][k], frag_b[i] = smem_b[k][8 * x + i];
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] += frag_a[i] * frag_b[j];
        }
        __syncthreads();  // nobody reads them any more
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int row = row0 + 8 * y + i, col = col0 + 8 * x + j;
            if (row < M && col < N) C[row * N + col] = acc[i][j];
        }
}
""")

# %% [markdown]
# The price is registers. With 64 accumulators and 16 operands, the compiler needs {{ takes.registers | .0f }} registers
# per thread, so only {{ takes.warps | .0f }} of the 64 possible warps, or two blocks, fit on an SM. For the FFMAs,
# that's enough: a thread has 64 FFMAs that don't depend on each other, and this instruction-level parallelism hides
# their latency just as more warps would.

# %% [markdown]
# ## float4 loads: 16 bytes per instruction
#
# A `float4` load reads four consecutive elements with one instruction. The rows of B are consecutive already. The eight
# elements of A come from one *column* of A's tile, so store that tile transposed: then they are consecutive too. Only
# the copying and reading of tiles change.

# %% fold="The whole kernel"
FLOAT4 = Kernel(r"""
#ifndef ALIGNED
#define ALIGNED 1  // K and N are multiples of 4
#endif
#ifndef WARP_TILES
#define WARP_TILES 0
#endif
// The first four of `valid` elements of a row; zeros for what is missing.
__device__ float4 load4(const float* from, int valid) {
    float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
#if ALIGNED
    if (valid > 0) v = *(const float4*)from;  // New: 16 bytes in one load
#else
    if (valid > 0) v.x = from[0];
    if (valid > 1) v.y = from[1];
    if (valid > 2) v.z = from[2];
    if (valid > 3) v.w = from[3];
#endif
    return v;
}

// C = A B as above. With ALIGNED, 4 must divide N and K, and A and B must start at multiples of 16 bytes.
// Grid ceil(N / 128) x ceil(M / 128), block 256.
extern "C" __global__ __launch_bounds__(256)
void wide(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ __align__(16) float smem_a[8][128], smem_b[8][128];  // New: A transposed
    int tid = threadIdx.x, row0 = blockIdx.y * 128, col0 = blockIdx.x * 128;
    // [layout
#if WARP_TILES
    int lane = tid % 32, warp_id = tid / 32;
    // New: 64 x 32 elements of C per warp
    int row = warp_id % 2 * 64 + lane / 4 * 4, next_rows = 32;
    int col = warp_id / 2 * 32 + lane % 4 * 4, next_cols = 16;
#else
    int row = tid / 16 * 8, next_rows = 4, col = tid % 16 * 8, next_cols = 4;
#endif
    // layout]
    float acc[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        // [copy
        int m = tid / 2, ka = k0 + tid % 2 * 4, kb = tid / 32, n = tid % 32 * 4;
        float4 a = load4(A + (row0 + m) * K + ka, row0 + m < M ? K - ka : 0);
        float4 b = load4(B + (k0 + kb) * N + col0 + n,
                         k0 + kb < K ? N - col0 - n : 0);
        smem_a[tid % 2 * 4 + 0][m] = a.x;  // New: a row of A becomes a column
        smem_a[tid % 2 * 4 + 1][m] = a.y;
        smem_a[tid % 2 * 4 + 2][m] = a.z;
        smem_a[tid % 2 * 4 + 3][m] = a.w;
        *(float4*)&smem_b[kb][n] = b;
        __syncthreads();  // both tiles are complete
        // copy]
        // [multiply
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            float frag_a[8], frag_b[8];  // New: 4 reads of 16 bytes for 64 FFMAs
            *(float4*)frag_a = *(float4*)&smem_a[k][row];
            *(float4*)(frag_a + 4) = *(float4*)&smem_a[k][row + next_rows];
            *(float4*)frag_b = *(float4*)&smem_b[k][col];
            *(float4*)(frag_b + 4) = *(float4*)&smem_b[k][col + next_cols];
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] += frag_a[i] * frag_b[j];
        }
        __syncthreads();  // nobody reads them any more
        // multiply]
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            int r = row0 + row + i % 4 + i / 4 * next_rows;
            int c = col0 + col + j % 4 + j / 4 * next_cols;
            if (r < M && c < N) C[r * N + c] = acc[i][j];
        }
}
""")

# %%
FLOAT4.region("copy")

# %%
FLOAT4.region("multiply")

# %% [markdown]
# An address for a `float4` must be a multiple of 16 bytes. If the rows of a matrix aren't a multiple of four elements
# long, most of them don't start at such an address, so the kernel is compiled a second time with four plain loads in
# `load4`.

# %% [markdown]
# ## Warp tiles: read fewer distinct words
#
# Shared memory broadcasts a word to any number of lanes. So the number of wavefronts depends on how many *distinct*
# words a warp reads, not on how many lanes read each of them.[^wide] So far, a warp computes a strip of 16 × 128
# elements of C and reads 16 + 128 elements per k. If it computes a 64 × 32 rectangle instead, it reads only 64 + 32.
#
# [^wide]: A 16-byte load [takes at least two wavefronts](tiling.py#shared-memory-becomes-the-bottleneck), even if all
#     lanes read the same four words.
#
# ??? definition "Warp tile | warp tiles"
#     The part of the block's tile of C that one warp computes.


# %% fold="Code of the figure"
def owners(warp_tiles):
    """The warp that computes each 16 by 16 piece of a 128 by 128 tile."""
    rows, columns = np.mgrid[0:128:16, 0:128:16]
    return rows // 64 + columns // 32 * 2 if warp_tiles else rows // 16


assert (64 + 32) / (16 + 128) == 2 / 3, "the title says a third"
show(
    heat_map(
        {"strips: 16 × 128 per warp": owners(False), "warp tiles: 64 × 32": owners(True)},
        x="column / 16",
        y="row / 16",
        role="warp",
        key=False,
        form=".0f",
        title="Warp tiles of 64 × 32 read a third less",
        caption="Which of the eight warps computes which part of a block's tile of 128 × 128 elements of C, in pieces of 16 × 16. A strip needs 144 elements of A and B per k; a warp tile needs 96.",
    )
)

# %% [markdown]
# Only the assignment of rows and columns to threads changes. The new assignment also splits each thread's eight columns
# into two groups of four, 16 columns apart, so that the lanes of one `float4` load read neighbouring addresses and
# cause no bank conflicts.

# %%
FLOAT4.region("layout")

# %% [markdown]
# ## Double buffering with cp.async
#
# So far, a block alternates between copying a tile and multiplying, with a barrier after each. While it copies, only
# the other block on the SM multiplies. *Double buffering* overlaps copying and multiplying within a block. It keeps
# two stages in shared memory: while the block multiplies one, the next tile is in flight to the other. `cp.async`
# copies from global to shared memory without going through registers, and the thread doesn't wait. The thread *commits*
# its copies as a group, and later waits for the oldest group.
#
# ??? definition "Double buffering"
#     Filling one buffer while another, filled before, is in use. With more than two buffers, they are usually
#     called stages.
#
# ??? definition "cp.async | asynchronous copies"
#     An instruction (from compute capability 8.0 on) that copies 4, 8 or 16 bytes from global to shared memory while
#     its thread continues. A thread commits its copies in groups and waits for groups.
#
# ??? question "Can the next tile be fetched while this one is used?"
#     Yes, but it takes a second buffer. A thread that waits at a barrier issues no loads, so without a second
#     buffer only other blocks on the SM can fill the gap. The second buffer costs shared memory, and
#     so perhaps resident blocks; [the results](#results-from-naive-to-cublas) show that the trade pays off here. On [tensor
#     cores](matrix_units.py), three stages are usual.

# %% fold="The whole kernel"
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
#define COLUMNS 8  // accumulators per thread: 8 rows of COLUMNS
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
#define GROUP 16  // unrolled steps of k
#define UNROLL _Pragma("unroll")

// [copy
// Asynchronous copies of 4 and 16 bytes. Outside the matrix they write zeros.
__device__ void cp_async4(unsigned to, const float* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
__device__ void cp_async16(unsigned to, const float* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void cp_async_wait() {  // for all but the newest STAGES - 2 groups
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
}
// copy]

// [order
#define FMA(i, j) acc[i][j] += element(frag_a[u], i) * element(frag_b[u], j);
#define COL_DOWN(j) FMA(0, j) FMA(1, j) FMA(2, j) FMA(3, j) \
                FMA(4, j) FMA(5, j) FMA(6, j) FMA(7, j)
#define COL_UP(j)   FMA(7, j) FMA(6, j) FMA(5, j) FMA(4, j) \
                FMA(3, j) FMA(2, j) FMA(1, j) FMA(0, j)
#if SNAKE
#define TWO_COLS(j) COL_DOWN(j) COL_UP(j + 1)  // New: back up from where it ended
#else
#define TWO_COLS(j) COL_DOWN(j) COL_DOWN(j + 1)
#endif
#if COLUMNS == 16
#define OUTER_PRODUCT TWO_COLS(0) TWO_COLS(2) TWO_COLS(4) TWO_COLS(6) TWO_COLS(8) TWO_COLS(10) TWO_COLS(12) TWO_COLS(14)
#else
#define OUTER_PRODUCT TWO_COLS(0) TWO_COLS(2) TWO_COLS(4) TWO_COLS(6)
#endif
// order]
__device__ float element(const float4* v, int i) {
    float4 f = v[i / 4];
    return i % 4 == 0 ? f.x : i % 4 == 1 ? f.y : i % 4 == 2 ? f.z : f.w;
}

// [fetch
#if ALIGNED
#define B_WIDTH 4
#define COPY_B cp_async16
#else
#define B_WIDTH 1
#define COPY_B cp_async4
#endif
#define B_ROWS (256 * B_WIDTH / WIDTH)  // rows of B that the block copies at once

struct Source {
    const float* rows[4];  // of A, where this thread copies next
    const float* b;
    int a_k, b_k;          // its k in A's tile and in B's
    unsigned to_a, to_b;   // shared-memory addresses in the first stage
};

// Starts the copies of one stage: DEEP columns of A, transposed, and DEEP rows of B.
__device__ void fetch(Source& from, unsigned stage, int left, int N) {
    UNROLL for (int r = 0; r < 4; ++r) {
        UNROLL for (int p = 0; p < DEEP; p += 8)
            cp_async4(from.to_a + stage + 4 * (p * A_ROW + 4 * r),
                  from.rows[r] + p, from.a_k + p < left);
        from.rows[r] += DEEP;
    }
    UNROLL for (int p = 0; p < DEEP; p += B_ROWS) {
        COPY_B(from.to_b + stage + 4 * p * WIDTH, from.b, from.b_k + p < left);
        from.b += (size_t)B_ROWS * N;
    }
}
// fetch]

// C = A B in FP32. A: M x K, B: K x N, C: M x N, row-major. With ALIGNED, 4 must divide N, and B and C
// must start at multiples of 16 bytes. Grid ceil(M / 128) * ceil(N / (16 * COLUMNS)), block 256,
// 4 * STAGES * STAGE bytes of shared memory; compute capability 8.0 or later.
// SPLIT: gridDim.y blocks take a part of K each, none of them empty, and C holds gridDim.y matrices.
extern "C" __global__ __launch_bounds__(256, COLUMNS == 16 ? 1 : 2)
void staged(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ __align__(16) float smem[];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    // [tiles
    int tile_rows = (M + ROWS - 1) / ROWS, tile_cols = (N + WIDTH - 1) / WIDTH;
    int band = blockIdx.x / (8 * tile_cols), at = blockIdx.x % (8 * tile_cols);
    int in_band = min(8, tile_rows - 8 * band);  // bands of 8 tile rows, for reuse in L2
    int row0 = (8 * band + at % in_band) * ROWS, col0 = at / in_band * WIDTH;
    // tiles]
    int row = warp_id % 2 * 64 + lane / 2 % 8 * 4;
    int col = warp_id / 2 * (WIDTH / 4) + (lane % 2 + lane / 16 * 2) * 4;
    // [source
    Source from;
    int m = warp_id * 16 + lane / 8, n = threadIdx.x % (WIDTH / B_WIDTH) * B_WIDTH;
    from.a_k = lane % 8;
    from.b_k = threadIdx.x / (WIDTH / B_WIDTH);
    UNROLL for (int r = 0; r < 4; ++r)  // beyond M: another row, not stored
        from.rows[r] = A + (size_t)min(row0 + m + 4 * r, M - 1) * K + from.a_k;
    from.b = B + (size_t)from.b_k * N + min(col0 + n, N - B_WIDTH);
    float* smem_b = smem + DEEP * A_ROW;
    from.to_a = (unsigned)__cvta_generic_to_shared(smem + from.a_k * A_ROW + m);
    from.to_b = (unsigned)__cvta_generic_to_shared(smem_b + from.b_k * WIDTH + n);
    // source]
    // [split
    int length = K;  // along k, for this block
#if SPLIT
    int part_k = ((K + DEEP - 1) / DEEP + gridDim.y - 1) / gridDim.y * DEEP;
    int start = blockIdx.y * part_k;
    length = min(part_k, K - start);
    UNROLL for (int r = 0; r < 4; ++r) from.rows[r] += start;
    from.b += (size_t)start * N;
    C += (size_t)blockIdx.y * M * N;  // one partial matrix per part
#endif
    // split]
    int steps = (length + DEEP - 1) / DEEP;
    float acc[8][COLUMNS] = {};
    float4 frag_a[2][2], frag_b[2][COLUMNS / 4];
    UNROLL for (int p = 0; p < STAGES - 1; ++p) {
        if (p < steps) fetch(from, 4 * p * STAGE, length - p * DEEP, N);
        cp_async_commit();
    }
    cp_async_wait();
    __syncthreads();  // the first stage has arrived
    const float* pa = smem + row;
    const float* pb = smem_b + col;
#define LOAD_FRAGMENTS(to, k) \
    UNROLL for (int h = 0; h < 2; ++h) \
        frag_a[to][h] = *(const float4*)(pa + (k) * A_ROW + 32 * h); \
    UNROLL for (int h = 0; h < COLUMNS / 4; ++h) \
        frag_b[to][h] = *(const float4*)(pb + (k) * WIDTH + 16 * h);
    LOAD_FRAGMENTS(0, 0)
    // [pipeline
    for (int step = 0, now = 0; step < steps; ++step) {
        int after = step + STAGES - 1;
        unsigned stage = 4 * (after % STAGES) * STAGE;
        if (after < length / DEEP) fetch(from, stage, DEEP, N);
        else if (after < steps) fetch(from, stage, length % DEEP, N);
        cp_async_commit();
        int next = step + 1 < steps ? (now + 1) % STAGES : now;
        _Pragma("unroll 1")
        for (int done = GROUP; done <= DEEP; done += GROUP) {
            UNROLL for (int k = 0; k < GROUP; ++k) {
                const int u = k % 2;  // the fragments in use
                if (k < GROUP - 1) {
                    LOAD_FRAGMENTS(1 - u, k + 1)
                } else {
                    pa += GROUP * A_ROW;
                    pb += GROUP * WIDTH;
                    if (done == DEEP) {
                        cp_async_wait();
                        __syncthreads();  // next stage arrived, this one is read
                        pa = smem + next * STAGE + row;
                        pb = smem_b + next * STAGE + col;
                    }
                    LOAD_FRAGMENTS(0, 0)
                }
                OUTER_PRODUCT
            }
        }
        now = next;
    }
    // pipeline]
    // [store
#if LOOSE
#define RESULT(x) ((x) + 0.0f)  // New: a copy, in another register
#else
#define RESULT(x) (x)
#endif
    UNROLL for (int r = 0; r < 8; ++r) {
        int i = row0 + row + r % 4 + r / 4 * 32;
        UNROLL for (int h = 0; h < COLUMNS / 4; ++h) {
            int j = col0 + col + 16 * h;
            float* to = C + (size_t)i * N + j;
            float* v = &acc[r][4 * h];
#if ALIGNED
            if (i < M && j < N)
                *(float4*)to = make_float4(RESULT(v[0]), RESULT(v[1]),
                                           RESULT(v[2]), RESULT(v[3]));
#else
            UNROLL for (int c = 0; c < 4; ++c)
                if (i < M && j + c < N) to[c] = RESULT(v[c]);
#endif
        }
    }
    // store]
}
"""
)

# %% [markdown]
# Here's the main loop. It starts the copy of a later tile (`fetch`), and then multiplies the current one. It
# double-buffers registers, too: while the products of step `k` are computed, the operands of step `k` + 1 are loaded
# from shared memory. A single barrier per stage is enough: after it, the next stage has arrived, and every thread has
# finished reading the current one, which may then be overwritten.

# %%
STAGED.region("pipeline")

# %% [markdown]
# ### Padding: conflict-free copies into shared memory
#
# `cp.async` can't transpose a 16-byte piece as it copies it, so A is copied in pieces of 4 bytes: a warp copies eight
# neighbours along k from each of four rows of A. In the transposed tile, the eight neighbours are in eight different
# rows of 128 words, so all eight hit the same bank: an 8-way conflict. Four words of padding shift each row of the tile
# by four banks. Each row receives four elements, one per row of A, so the 8 × 4 elements then hit each of the 32 banks
# once.

# %% [markdown]
# ## Benchmark: all versions at 4,096
#
# How much is the 2-D tile of accumulators worth on its own?


# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div, check, normal, output


def product(M, N, K, grid, block, shared_bytes=0):
    """A matrix multiplication whose results have a standard deviation of 1."""
    arrays = {"A": normal(M, K), "B": normal(K, N, scale=K**-0.5), "C": output(M, N)}
    return case(**arrays, M=M, N=N, K=K, grid=grid, block=block, shared_bytes=shared_bytes)


def by_threads(kernel, width, height):
    return lambda M, N, K: kernel.on(
        product(M, N, K, (ceil_div(N, width), ceil_div(M, height)), (width, height))
    )


def by_lanes_down(M, N, K):
    return NAIVE_UNCOALESCED.on(product(M, N, K, (ceil_div(M, 32), ceil_div(N, 8)), (32, 8)))


def by_tiles(kernel, edge, threads):
    return lambda M, N, K: kernel.on(product(M, N, K, (ceil_div(N, edge), ceil_div(M, edge)), threads))


def wide(warp_tiles):
    """The kernel with float4 loads, compiled for rows that are aligned or for any."""

    def launch(M, N, K):
        aligned = int(N % 4 == 0 and K % 4 == 0)
        kernel = Kernel(FLOAT4.source, defines={"ALIGNED": aligned, "WARP_TILES": warp_tiles})
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


VERSIONS = {
    "naive, uncoalesced": by_lanes_down,
    "naive, coalesced": by_threads(NAIVE, 32, 8),
    "shared-memory tile": by_threads(SHARED_TILE, 32, 32),
    "1-D register tile": by_tiles(REGISTER_TILE_1D, 64, 512),
    "2-D register tile": by_tiles(REGISTER_TILE_2D, 128, 256),
    "float4 loads": wide(0),
    "warp tiles": wide(1),
    "double-buffered": staged(2, 0, 8, 0, 0),
    "double-buffered, padded": staged(2, 4, 8, 0, 0),
    "8 × 16 register tile": staged(4, 4, 16, 0, 0),
    "snake order": staged(4, 4, 16, 1, 0),
    "free accumulators": staged(4, 4, 16, 1, 1),
    "three stages": staged(3, 4, 16, 1, 1),
    "8 × 8 register tile, two blocks": staged(2, 4, 8, 1, 1),
}
HERE = list(VERSIONS)[:9]  # of this page; the other five are on the Further page
BEST = "three stages"
near = {"rtol": 1e-5, "atol": 1e-5}
for pseudocode, kernel, name, sizes in (
    (multiply_columns, REGISTER_TILE_1D, "1-D register tile", ((37, 41, 29), (70, 65, 9))),
    (multiply_squares, REGISTER_TILE_2D, "2-D register tile", ((37, 41, 29), (131, 70, 9))),
):
    agree(pseudocode, kernel, [VERSIONS[name](*size).case for size in sizes], **near)
for M, N, K in ((37, 41, 29), (131, 70, 65), (65, 260, 36)):
    results = []
    for version in VERSIONS.values():
        arrays = version(M, N, K).case.make()
        version(M, N, K).run(arrays)
        results.append(arrays["C"])
    right = np.float64(arrays["A"]) @ np.float64(arrays["B"])
    check(
        np.stack(results),
        np.stack([right] * len(results)),
        **near,
        name=f"all versions: {M} × {K} times {K} × {N}",
    )

# %% [markdown]
# Run the first five versions on small matrices. Divide the wavefronts of the shared-memory loads by the number of
# warp-wide multiply-adds, $MNK/32$.

# %% fold="Code of the run"
from tilewise import try_it


def small_product(M, N, K, grid, block):
    return case(A=normal(M, K), B=normal(K, N), C=output(M, N), M=M, N=N, K=K, grid=grid, block=block)


def by_tiles_of(width, height, threads):
    return lambda M, N, K: small_product(M, N, K, (ceil_div(N, width), ceil_div(M, height)), threads)


FIRST_FIVE = {
    "naive, coalesced": (NAIVE, by_tiles_of(32, 8, (32, 8))),
    "naive, uncoalesced": (
        NAIVE_UNCOALESCED,
        lambda M, N, K: small_product(M, N, K, (ceil_div(M, 32), ceil_div(N, 8)), (32, 8)),
    ),
    "shared-memory tile": (SHARED_TILE, by_tiles_of(32, 32, (32, 32))),
    "1-D register tile": (REGISTER_TILE_1D, by_tiles_of(64, 64, 512)),
    "2-D register tile": (REGISTER_TILE_2D, by_tiles_of(128, 128, 256)),
}
try_it(
    {name: make for name, (_, make) in FIRST_FIVE.items()},
    {name: kernel for name, (kernel, _) in FIRST_FIVE.items()},
    M=(1, 64, 128),
    N=(1, 64, 128),
    K=(1, 32, 64),
)

# %% fold="Code of the measurement"
from tilewise.kernels.from_lesson import from_lesson

(cublas,) = from_lesson("matmul/tiling", "cublas")
LT = "cuBLASLt, best of 10 algorithms"


def cublas_lt(arrays):
    from tilewise.gpu.cublas_lt import fastest

    return fastest(*(arrays[name] for name in "ABC"))


ladder = measure(
    "fp32_ladder",
    variants=VERSIONS,
    cases=[{"M": 4096, "N": 4096, "K": 4096}],
    count_case={"M": 128, "N": 256, "K": 64},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cuBLAS": cublas, LT: cublas_lt},
    reference=matrix_product,
    tolerance=1e-4,
    counts=("sectors", "wavefronts", "instructions"),
    reasons={"*": "Results: from naive to cuBLAS"},
    fold="All rows",
    guess=Guess(
        "How much faster is the 2-D register tile than the shared-memory tile with one accumulator per thread?",
        of="2-D register tile",
        over="shared-memory tile",
        between=(1.0, 16.0),
        models={"if only reads from shared memory counted": loads_per_fma(1, 1) / loads_per_fma(8, 8)},
        because="It reads an eighth of the elements, but with so few reads left, other limits take over.",
    ),
)
# %% [markdown]
# ## A bound from the SASS
#
# From the \SASS, NVIDIA's machine code, you can work out an upper bound on each version's rate. Count the instructions
# in the main loop: each scheduler issues one per cycle. Then count the loads and stores and multiply by four, because
# the four schedulers share one LSU pipe. With one warp on each scheduler, an iteration takes at least as many cycles as
# the larger of the two counts. The number of FFMAs divided by the larger count gives the fraction of the peak,
# {{ start.peak | .1f }} TFLOP/s (data sheet), that no run can exceed.

# %% fold="Code of the bound and the table"
MEMORY = ("LDS", "STS", "LDG", "STG", "LDGSTS")


def loop_of(version):
    """FFMAs, loads and stores, and all instructions of the main loop, in NVIDIA's SASS for an H100."""
    names = [one.name.split(".")[0] for one in machine_code(version(4096, 4096, 4096).kernel).loop()]
    return names.count("FFMA"), sum(names.count(name) for name in MEMORY), len(names)


def at_most(ffma, memory, instructions):
    """TFLOP/s that no run can exceed: a scheduler issues one instruction per cycle, an SM one load or store."""
    return PEAK * ffma / max(instructions, 4 * memory)


LOOPS = {name: loop_of(version) for name, version in VERSIONS.items()} if can_disassemble() is None else {}
BOUNDS = {name: at_most(*loop) for name, loop in LOOPS.items()}
SLUGS = {name: re.sub(r"\W+", "_", name) for name in (*VERSIONS, "cuBLAS")}
BEST_HERE = (*HERE, BEST)
if LOOPS:
    limited = {name: 4 * LOOPS[name][1] > LOOPS[name][2] for name in HERE}
    assert [name for name in HERE if limited[name]] == HERE[:3], "the text says which count is larger"
show(
    Table(
        ["version", "FFMA", "loads, stores", "all", "bound [TFLOP/s]"],
        [[name, *LOOPS.get(name, [None] * 3), round(BOUNDS.get(name, np.nan), 1)] for name in BEST_HERE],
        caption="Instructions of the main loop in NVIDIA's SASS for an H100, and the bound that follows from them. 'Three stages' is the last version on the further-reading page.",
    )
)
publish(issue_bound={SLUGS[name]: BOUNDS.get(name, np.nan) for name in VERSIONS})

# %% [markdown]
# Up to the shared-memory tile, the loads and stores bound the rate. From the 1-D register tile on, the total number
# of instructions is the limit, and the bound rises towards the peak.

# %% [markdown]
# ## Results: from naive to cuBLAS

# %% fold="Code of the figure"
US = medians_us(ladder)
RATE = Numbers({name: 2 * 4096**3 / time / 1e6 for name, time in US.items()})
if complete(RATE):
    bars_of = (*BEST_HERE, "cuBLAS")
    most = {name: BOUNDS.get(name, PEAK) for name in bars_of}
    assert all(RATE[name] < most[name] for name in bars_of), "the text says that no run can be faster"
    shown = {
        "all refinements" if name == BEST else name: {"measured": RATE[name]}
        | ({"bound by instructions": most[name]} if BOUNDS else {})
        for name in bars_of
    }
    assert 96.5 < 100 * RATE[BEST] / RATE["cuBLAS"] < 98.5, "the lesson's title says close to cuBLAS"
    assert (
        RATE["2-D register tile"] / RATE["1-D register tile"]
        > 1.7
        < RATE["1-D register tile"] / RATE["shared-memory tile"]
    )
    assert all(RATE[after] / RATE[before] < 1.2 for before, after in pairwise(HERE[4:]))
    show(
        bars(
            shown,
            x="TFLOP/s",
            form=".1f",
            roles={"measured": "measured", "bound by instructions": "predicted"},
            title="Register tiles do most of the work",
            caption="FP32 multiplication of 4,096-square matrices on an {machine}: the rate of each version, and the most that the instructions of its main loop allow. 'All refinements' is the last version on the further-reading page; for cuBLAS, the bound shown is the peak.",
        )
    )
taken = {"registers": np.nan, "warps": np.nan}
if available() is None:
    launch = VERSIONS["2-D register tile"](4096, 4096, 4096)
    [built] = compile_kernel(launch.kernel, ["sm_90"])
    resident = occupancy(256, built.registers, built.shared_bytes + launch.shared_bytes)
    taken = {"registers": built.registers, "warps": resident.warps_per_sm}
    launch = VERSIONS["warp tiles"](4096, 4096, 4096)
    [built] = compile_kernel(launch.kernel, ["sm_90"])
    assert occupancy(256, built.registers, built.shared_bytes).blocks_per_sm == 2, "the text: the other block"
publish(
    takes=taken,
    rate={slug: RATE[name] for name, slug in SLUGS.items()},
    of_cublas={slug: RATE[name] / RATE["cuBLAS"] for name, slug in SLUGS.items()},
    gain={SLUGS[after]: RATE[after] / RATE[before] for before, after in pairwise(VERSIONS)},
    tile={"times": RATE["2-D register tile"] / RATE["shared-memory tile"]},
)

# %% [markdown]
# The two register tiles give the largest gain, {{ tile.times | .1f }}× between them. After them, the bound hardly
# changes, and the remaining steps bring the kernel closer to it. Warp tiles gain another {{ gain.warp_tiles | .2f }}×,
# double buffering {{ gain.double_buffered | .2f }}×, and padding, which removes the 8-way conflicts,
# {{ gain.double_buffered_padded | .2f }}×. The kernel now reaches {{ of_cublas.double_buffered_padded | .0%}} of
# cuBLAS.
#
# A wider register tile, and an order of FFMAs that avoids register bank conflicts, bring the kernel to
# {{ of_cublas.three_stages | .0% }} of cuBLAS: see the further-reading page [Register banks and operand
# reuse](register_tiles_banks.py).
#
# ??? definition "Register bank | register banks"
#     One of the two parts of a scheduler's register file, for even and for odd register numbers. Each delivers one register
#     of a warp per cycle.

# %% [markdown]
# ## The answer
#
# With 64 accumulators per thread, 16-byte loads, warp tiles and double buffering, the kernel reaches
# {{ of_cublas.double_buffered_padded | .0% }} of cuBLAS, up from {{ of_cublas.shared_memory_tile | .0% }} with one
# accumulator. With the steps on the further-reading page, it reaches {{ of_cublas.three_stages | .0% }}, or
# {{ rate.three_stages | .0f }} TFLOP/s.

# %% [markdown]
# ## Takeaways
#
# - A thread with R × C accumulators in registers reads R + C elements for R · C multiply-adds. That's why fast \GEMM kernels compute
#   outer products of 8 × 8 or more per thread.
# - The four schedulers of an SM share one load/store pipe, so even a single-wavefront load costs as much time as
#   four FFMAs. Use 16-byte loads, and give each warp a tile that is close to square.
# - Double buffering with `cp.async` loads the next tile while the block multiplies the current one, with one barrier per tile.

# %% [markdown]
# ## In your own kernel
#
# If Nsight Compute's warp state statistics (`--section WarpStateStats`) show *Stall MIO Throttle* at the top and
# `l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed` is high, the LSU pipe is your limit: give each thread more accumulators, or load
# 16 bytes at a time. If *Stall Barrier* or *Stall Long \Scoreboard* is at the top instead, double-buffer.


# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def best_tile(registers, shared_bytes, stages, depth):
    best = (0.0, 0, 0)
    for rows in range(4, 33, 4):
        for columns in range(4, 33, 4):
            needed = rows * columns + 2 * (rows + columns) + 24
            height, width = 16 * rows, 16 * columns  # of the tile of 16 by 16 threads
            used = 4 * stages * depth * (height + width)
            if needed <= registers and used <= shared_bytes:
                best = max(best, (rows * columns / ((rows + columns) / 4), rows, columns))
    return best[1], best[2]


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
        assert rows % 4 == 0 and columns % 4 == 0, f"{rows} × {columns}: 16-byte loads need multiples of 4"
        needed = rows * columns + 2 * (rows + columns) + 24
        assert needed <= registers, f"{limits}: {rows} × {columns} needs {needed} registers"
        used = 4 * stages * depth * 16 * (rows + columns)
        assert used <= shared_bytes, f"{limits}: {rows} × {columns} needs {used} bytes of shared memory"
        right = best_tile(*limits)
        most = right[0] * right[1] / sum(right)
        assert np.isclose(rows * columns / (rows + columns), most), (
            f"{limits}: {right[0]} × {right[1]} reads less"
        )


exercise(
    "The shape of a register tile",
    """
    A thread has `rows` × `columns` accumulators, both multiples of 4, and two sets of operands, each of
    `rows + columns` registers. Addresses take another 24 registers. A block has 16 × 16 threads and keeps `stages` stages of
    its tiles, each `depth` deep in k, in shared memory. Write `best_tile(registers, shared_bytes, stages, depth)`, which returns the
    pair `(rows, columns)`, up to 32 each, with the fewest float4 loads per multiply-add.
    """,
    answer=best_tile,
    tests=tile_tests,
    wrong=[{"rows * columns / ((rows + columns) / 4)": "rows * columns"}, {" and used <= shared_bytes": ""}],
    hint="The loads per multiply-add are (rows + columns) / 4 over rows · columns. Try all shapes that fit.",
)

# %% [markdown]
# Next: why some sizes are slower than others, in [tile and wave quantisation](tiles_and_waves.py).
