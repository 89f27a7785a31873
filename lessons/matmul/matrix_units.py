# ---
# title: "Tensor cores: mma, ldmatrix and swizzled shared memory"
# needs: [matmul/register_tiles, memory/precision]
# summary: "Four tensor cores per SM multiply faster than a kernel can load. How much of their rate is left once a GEMM has to feed them?"
# description: "BF16 GEMM on tensor cores: mma.sync fragments, ldmatrix, an XOR swizzle against bank conflicts, and a three-stage cp.async pipeline, each counted before it is timed."
# date: 2026-11-21
# tags: [tensor cores, mma, ldmatrix, swizzle, BF16]
# ---

# %% [markdown]
# On an H100, warps that do nothing but multiply matrices in their registers run at {{ units.probe | .0f }} TFLOP/s in
# BF16. At that rate, multiplying two 4,096 × 4,096 matrices takes {{ units.ideal_us | us }}. Our first kernel does
# every multiplication on the tensor cores too, but it takes {{ reached.first_ms | .0f }} ms,
# {{ reached.first_times | .0f }}× longer.
#
# Tensor cores are so fast that most of the work is *feeding* them, and every fast GEMM and attention kernel is designed
# around this. This lesson feeds them in three steps: through shared memory, with a swizzle against bank conflicts, and
# with loads that stay in flight. How close do they get to {{ units.ideal_us | us }}?

# %% fold="Code of the figure"
from tilewise import show
from tilewise.figures import bars
from tilewise.measurements import recorded, recorded_device

GPU = recorded_device()
PROBE = recorded("reads.ceilings.probes.bf16_matrix_tflop_per_s")
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
show(
    bars(
        {
            "first kernel": recorded("matrix_products.from_global_memory.n_4096.tflop_per_s"),
            "mma.sync from registers": PROBE,
            "peak (data sheet)": PEAK,
        },
        roles={"first kernel": "waste", "mma.sync from registers": "read", "peak (data sheet)": "predicted"},
        x="BF16 rate [TFLOP/s]",
        title="The first kernel leaves the tensor cores idle",
        caption="BF16 throughput on an {machine}: this lesson's first kernel multiplying 4,096 × 4,096 matrices, warps that execute nothing but mma.sync on their registers, and the data sheet's peak.",
    )
)

# %% [markdown]
# ## mma.sync: one warp, one small tile
#
# Each SM has four tensor cores, which multiply small matrices. The warp-wide instruction `mma.sync` computes D = A B +
# D, where A is 16 × 16, B is 16 × 8, and D is 16 × 8. That's 4,096 floating-point operations in one instruction; a
# warp's fused multiply-add performs 64. A and B are BF16. D, the accumulator, is FP32: in BF16, [a long sum would soon
# stop growing](../memory/precision.py).
#
# No thread holds a whole matrix. The elements are spread over the registers of the 32 lanes, and the part that one
# lane holds is its *fragment*.[^shapes]
#
# [^shapes]: *A common misconception:* tensor cores work on tiles of 128 × 128. That's the size of a block's tile; the
#     instruction's shape is much smaller.
#
# ??? question "Why are they called tensor cores?"
#     The name promises more than the hardware delivers. A tensor is an array with any number of axes, but one
#     instruction only multiplies two small matrices and adds a third. Libraries map larger operations onto it: axes
#     that are summed over are merged into one, and axes that both operands share become a batch of matrix
#     multiplications.
#
# ??? definition "Fragment | fragments"
#     The elements of a small matrix that one lane holds in its registers for a matrix instruction.

# %% [markdown]
# In the first kernel, one warp computes one 16 × 8 tile of $C$. It loads its fragments from global memory, element by
# element. The [PTX manual](https://docs.nvidia.com/cuda/parallel-thread-execution/) says which elements belong to
# which lane: lane $4g + t$ holds elements of rows $g$ and $g + 8$ of $A$ and $C$, and of column $g$ of $B$.


# %% tab="Pseudocode"
import numpy as np

from tilewise import tiles


def one_tile(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 16):
        for cols in tiles(N, 8):
            d = np.zeros((len(rows), len(cols)))
            for ks in tiles(K, 16):
                # [fragments
                a, b = A[rows][:, ks], B[ks][:, cols]
                # fragments]
                d += a @ b
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
from tilewise import Kernel

ONE_TILE = Kernel(r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// D += A B for one warp: 16x16 times 16x8, two BF16 per register
static __device__ void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// the bits of X[row][col], zero outside
static __device__ unsigned bits(const Bf16* X, int row, int col,
                                int rows, int cols) {
    if (row >= rows || col >= cols) return 0;
    return __bfloat16_as_ushort(X[(size_t)row * cols + col]);
}

// C = A B, row-major BF16, any sizes: one warp per 16x8 tile of C.
// Grid (ceil(N / 8), ceil(M / 16)), block 32; sm_80 and later.
extern "C" __global__
void one_tile(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    int i = blockIdx.y * 16, j = blockIdx.x * 8;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < K; k += 16) {
        unsigned a[4], b[2];
        // [fragments
        #pragma unroll
        for (int r = 0; r < 4; ++r) {  // two neighbours in a row
            int row = i + g + r % 2 * 8, col = k + 2 * t + r / 2 * 8;
            a[r] = bits(A, row, col, M, K) | bits(A, row, col + 1, M, K) << 16;
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {  // two neighbours in a column
            int row = k + 2 * t + r * 8, col = j + g;
            b[r] = bits(B, row, col, K, N) | bits(B, row + 1, col, K, N) << 16;
        }
        // fragments]
        mma(acc, a, b);
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        int row = i + g + r / 2 * 8, col = j + 2 * t + r % 2;
        if (row < M && col < N) C[(size_t)row * N + col] = __float2bfloat16(acc[r]);
    }
}
""")

# %%
ONE_TILE.region("fragments")

# %% [markdown]
# Launch it with one warp for one tile. Every element of $A$ is 1 and every element of $B$ is 0.5, so each element of
# $C$ is 16 × 0.5:

# %%
from tilewise import bf16

A, B = bf16.bits(np.ones((16, 16))), bf16.bits(np.full((16, 8), 0.5))
C = np.zeros((16, 8), np.uint16)
ONE_TILE(A, B, C, 16, 8, 16, grid=(1, 1), block=32)
print(bf16.values(C)[0])

# %% fold="Code of the check"
from tilewise import Table, Trace, agree, case, ceil_div, check, integers, normal, output, publish
from tilewise.figures import State, stepped
from tilewise.measurements import complete, medians_us
from tilewise.measurements.references import bf16_product, matrix_product


def product(M, N, K, tile, block, shared_bytes=0, whole=False):
    """Inputs of C = A B and a launch with one block per tile of C; integers make the sums exact."""
    if whole:
        A, B = (integers(*shape, low=-2, high=3, dtype="bfloat16") for shape in ((M, K), (K, N)))
    else:
        A, B = normal(M, K, dtype="bfloat16"), normal(K, N, dtype="bfloat16")
    grid = (ceil_div(N, tile[1]), ceil_div(M, tile[0]))
    C = output(M, N, dtype="bfloat16")
    return case(A=A, B=B, C=C, M=M, N=N, K=K, grid=grid, block=block, shared_bytes=shared_bytes)


def one_warp(M, N, K, **more):
    return product(M, N, K, (16, 8), 32, **more)


agree(one_tile, ONE_TILE, [one_warp(35, 21, 40, whole=True), one_warp(18, 9, 50, whole=True)])

UNITS = GPU.units_tflop_per_s("bf16_matrix")  # if they start an instruction in every cycle
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]  # operations of an SM's tensor cores per cycle
publish(
    units={
        "probe": PROBE,
        "ideal_us": 2 * 4096**3 / PROBE / 1e6,
        "a_clock": A_CLOCK,
        "probe_clock": A_CLOCK * PROBE / UNITS,
        "intensity": 2 * 16 * 8 * 16 / (2 * (16 * 16 + 16 * 8)),
        "ridge": PEAK * 1e3 / GPU.memory_gb_per_s,
    }
)

# %% [markdown]
# Which lane holds which element? Step through the lanes:

# %% fold="Code of the figure"
TILE = ONE_TILE.on(one_warp(16, 8, 16))
seen = TILE.simulate(trace=Trace()).accesses


def holder(name, shape):
    """For each element of an array, the lane that loads or stores it, as traced."""
    mine = seen.buffer == list("ABC").index(name)
    lanes = np.full(shape, -1)
    lanes.reshape(-1)[seen.index[mine]] = seen.lane[mine]
    return lanes


HOLDERS = {"A": holder("A", (16, 16)), "B": holder("B", (16, 8)), "C": holder("C", (16, 8))}
assert all((held >= 0).all() for held in HOLDERS.values()), "an element that no lane holds"


def listed(name, numbers):
    """Numbers as a sentence has them."""
    *others, last = map(str, numbers)
    return f"{name}s {', '.join(others)} and {last}" if others else f"{name} {last}"


def of_lane(lane, names):
    mine = {name: HOLDERS[name] == lane for name in names}
    texts = []
    for name, mask in mine.items():
        rows, columns = (np.unique(at) for at in np.nonzero(mask))
        texts.append(f"{mask.sum()} elements of {name} ({listed('row', rows)}, {listed('column', columns)})")
    return State(
        f"Lane {lane} holds {' and '.join(texts)}.", arrays={n: HOLDERS[n] for n in names}, reads=mine
    )


show(
    stepped(
        [of_lane(lane, "A") for lane in range(32)],
        start=5,
        title="Each lane holds four pairs of adjacent elements from two rows of A",
        caption="The fragments of A for mma.sync m16n8k16. Each cell shows the lane that holds the element.",
    )
)
show(
    stepped(
        [of_lane(lane, "BC") for lane in range(32)],
        start=5,
        title="Each lane holds four elements of B and four accumulators",
        caption="The fragments of B, and of the accumulators that become C. Each cell shows the lane that loads or stores the element.",
    )
)

# %% [markdown]
# ## The ridge point of shared memory
#
# For each `mma.sync`, the warp loads 768 bytes, which gives an intensity of {{ units.intensity | .1f }} FLOP per byte.
# An H100's [ridge point](../speed/roofline.py) for device memory is {{ units.ridge | .0f }}. A block that computes a
# tile of 128 × 128 from shared memory, as in [register tiling](register_tiles.py), raises the intensity to 64. That's
# still below the ridge point, but L2 serves most of its loads, and L2 is faster than device memory.
#
# The fragments then come from shared memory, which has a ridge point of its own. It delivers 128 bytes per cycle, while
# an SM's tensor cores can perform {{ units.a_clock | , }} operations, so a kernel needs 32 FLOP per byte. A warp that
# computes an $m × n$ tile performs $mn / (m + n)$ FLOP per byte: {{ units.intensity | .1f }} with a 16 × 8 tile and
# exactly 32 with a 64 × 64 tile. So make the warp's tile as large as the registers allow. If you count the block's
# stores to shared memory as well, even four warps with 64 × 64 tiles keep the tensor cores busy for at most
# {{ warp_tile.busy }} of the time.


# %% fold="Code of the table"
def ridge_row(rows, columns):
    """A warp's tile: accumulators per lane, FLOP per byte read, and the part of the cycles that banks allow."""
    intensity = rows * columns / (rows + columns)
    written = 128 * 128 / (128 + 128)  # FLOP for each byte that the block stores to shared memory
    busy = A_CLOCK / 128 * (1 / intensity + 1 / written)  # cycles of the banks for one of the tensor cores
    return rows * columns // 32, f"{intensity:.2g}", f"{min(1.0, 1 / busy):.0%}"


WARP_TILES = ((16, 8), (32, 32), (64, 32), (64, 64), (128, 64))
publish(warp_tile={"busy": ridge_row(64, 64)[2]})
show(
    Table(
        ["warp tile", "accumulators per lane", "FLOP per byte of shared memory", "tensor cores busy at most"],
        [[f"{rows} × {columns}", *ridge_row(rows, columns)] for rows, columns in WARP_TILES],
        caption="FLOP for each byte that the warps of a 128 × 128 block tile read from shared memory, and the fraction of cycles in which they can keep the tensor cores busy, including the block's stores. A lane has at most 255 registers. All values are computed, not measured.",
    )
)


# %% [markdown]
# ## ldmatrix: fragments from shared memory
#
# A block of four warps computes a 128 × 128 tile of $C$, of which each warp computes 64 × 64. The block loads $A$ and
# $B$ into shared memory in *slabs* that are 64 deep along $K$, and each warp uses a fragment several times before it
# loads the next.
#
# `ldmatrix` loads fragments. One instruction loads four 8 × 8 matrices of 16-bit elements; for each matrix, eight lanes
# pass the addresses of its eight 16-byte rows. Such a row of eight elements is called a *chunk*. A lane receives the
# elements of its fragment, not the row that it points to. The fragments of $B$ are columns, so the kernel uses
# `.trans`, which transposes each 8 × 8 matrix.
#
# ??? definition "Slab | slabs"
#     The part of a block's rows of $A$, or of its columns of $B$, that is in shared memory at one time.


# %% tab="Pseudocode"
def through_shared(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 128):
        for cols in tiles(N, 128):
            d = np.zeros((len(rows), len(cols)))
            for ks in tiles(K, 64):
                # [load
                smem_a, smem_b = A[rows][:, ks], B[ks][:, cols]
                # load]
                # [multiply
                for k in tiles(len(ks), 16):
                    d += smem_a[:, k] @ smem_b[k]
                # multiply]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
SWIZZLED = Kernel(
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// D += A B for one warp: 16x16 times 16x8, two BF16 per register
static __device__ void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four 8x8 matrices: lane l passes the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_trans(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// index of a 16-byte chunk of a row, in chunks
static __device__ int chunk_index(int row, int chunk, int chunks) {
    return row * chunks + (SWIZZLE ? chunk ^ row % 8 : chunk);
}
// loads HEIGHT rows of CHUNKS chunks of X, from (row, col) on; zeros outside
template <int HEIGHT, int CHUNKS>
static __device__ void load_tile(uint4* slab, const Bf16* X, int row, int col,
                             int rows, int cols) {
    int chunk = threadIdx.x % CHUNKS, at = col + chunk * 8;
    #pragma unroll
    for (int r = threadIdx.x / CHUNKS; r < HEIGHT; r += 128 / CHUNKS) {
        bool inside = row + r < rows && at < cols;
        uint4 zeros = {0, 0, 0, 0};
        const uint4* from = (const uint4*)&X[(size_t)(row + r) * cols + at];
        slab[chunk_index(r, chunk, CHUNKS)] = inside ? *from : zeros;
    }
}

// C = A B, row-major BF16; K and N multiples of 8, 16-byte aligned.
// Grid (ceil(N / 128), ceil(M / 128)), block 128; sm_80 and later.
extern "C" __global__ void __launch_bounds__(128)
through_shared(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    __shared__ uint4 smem_a[128 * 8], smem_b[64 * 16];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.y * 128, j = blockIdx.x * 128;
    int wi = warp / 2 * 64, wj = warp % 2 * 64;
    float acc[4][8][4] = {};
    for (int k = 0; k < K; k += 64) {
        // [load
        load_tile<128, 8>(smem_a, A, i, k, M, K);
        load_tile<64, 16>(smem_b, B, k, j, K, N);
        // load]
        __syncthreads();
        // [multiply
        #pragma unroll
        for (int s = 0; s < 4; ++s) {  // 16 along K at a time
            unsigned a[4][4], b[4][4];
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                ldmatrix(a[m], &smem_a[chunk_index(wi + 16 * m + lane % 16,
                                             2 * s + lane / 16, 8)]);
            #pragma unroll
            for (int n = 0; n < 4; ++n)
                ldmatrix_trans(b[n],
                    &smem_b[chunk_index(16 * s + lane % 16,
                                  wj / 8 + 2 * n + lane / 16, 16)]);
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                #pragma unroll
                for (int n = 0; n < 8; ++n)
                    mma(acc[m][n], a[m], &b[n / 2][n % 2 * 2]);
        }
        // multiply]
        __syncthreads();
    }
    #pragma unroll
    for (int m = 0; m < 4; ++m)
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int r = 0; r < 4; r += 2) {
                int row = i + wi + 16 * m + lane / 4 + r * 4;
                int col = j + wj + 8 * n + lane % 4 * 2;
                if (row < M && col < N)
                    *(__nv_bfloat162*)&C[(size_t)row * N + col] =
                        __floats2bfloat162_rn(acc[m][n][r], acc[m][n][r + 1]);
            }
}
""",
    defines={"SWIZZLE": 1},
)

# %%
SWIZZLED.region("multiply")

# %% [markdown]
# The kernel loads whole chunks and replaces those outside the matrix with zeros. So $K$ and $N$ must be multiples of 8,
# but $M$ can have any value. [Alignment](alignment.py) deals with other sizes.

# %% fold="Code of the check"
PLAIN = Kernel(SWIZZLED.source, defines={"SWIZZLE": 0})


def four_warps(M, N, K, stages=0, **more):
    return product(M, N, K, (128, 128), 128, shared_bytes=stages * 2**15, **more)


RAGGED = [(136, 72, 72), (45, 136, 200)]
agree(through_shared, SWIZZLED, [four_warps(*size, whole=True) for size in RAGGED])
agree(through_shared, PLAIN, [four_warps(*size, whole=True) for size in RAGGED])

# %% [markdown]
# Run the kernel with and without the swizzle, which the next section explains. Which count changes, and by how much?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    four_warps,
    {"row-major": PLAIN, "swizzled": SWIZZLED},
    M=(1, 64, 128),
    N=[64, 8, 16, 32, 96, 128],
    K=[64, 8, 16, 32, 96, 128],
)

# %% [markdown]
# ## Swizzling: how to avoid an 8-way bank conflict
#
# A row of the slab of $A$ has 64 elements. These 128 bytes cover all 32 banks once. So in the plain, row-major layout,
# the eight rows of an 8 × 8 matrix start in the same bank, and their chunks need the same four banks: [eight
# wavefronts](../memory/banks.py) instead of one.
#
# A *swizzle* removes the conflict without padding. Store chunk $c$ of row $r$ at position $c \oplus (r \bmod 8)$, where
# $\oplus$ is the exclusive or. Chunk 2, for example, is at position 2 in row 0, at 3 in row 1, at 0 in row 2, at 1 in
# row 3, and so on: eight different positions. In the kernel, that's one line in `chunk_index`:
# `row * chunks + (chunk ^ row % 8)`.

# %% fold="Code of the figure"
LAYOUT_CASE = four_warps(128, 128, 64)


def layout(kernel):
    """Which chunk of its row is at each position in the first eight rows of A's slab: as the stores went."""
    run = kernel.on(LAYOUT_CASE).simulate(trace=Trace(warps=[0, 1]))
    stored = run.accesses.where((run.accesses.space == 1) & (run.accesses.kind == 1))
    first = stored.where(stored.step == stored.step.min())
    start = int(first.address.min())
    held = np.full((8, 8), -1)
    for thread, address in zip(32 * first.warp + first.lane, first.address, strict=True):
        at = (int(address) - start) // 16
        held[at // 8, at % 8] = thread % 8  # a thread stores chunk thread % 8 of row thread / 8
    assert (held >= 0).all()
    return held


POSITIONS = {"row-major": layout(PLAIN), "swizzled": layout(SWIZZLED)}


def reading(chunk):
    """The state in which one matrix, a chunk of eight rows, is read."""
    mine = {name: held == chunk for name, held in POSITIONS.items()}
    needed = {name: int(mask.sum(axis=0).max()) for name, mask in mine.items()}
    text = (
        f"ldmatrix reads chunk {chunk} of eight rows: {needed['row-major']} wavefronts in the row-major layout, "
        f"{needed['swizzled']} in the swizzled one."
    )
    return State(text, arrays=POSITIONS, reads=mine)


show(
    stepped(
        [reading(chunk) for chunk in range(8)],
        start=2,
        title="The swizzle spreads a column of chunks over all banks",
        caption="Eight rows of a slab; a row has 128 bytes. Each cell shows which 16-byte chunk of the row is stored there. Cells in one column share four banks.",
    )
)

assert [2 ^ row for row in range(8)] == [2, 3, 0, 1, 6, 7, 4, 5], "the positions of chunk 2"

# %% [markdown]
# With the swizzle, the simulator counts {{ counted.times | .0f }}× fewer wavefronts for these loads. That's the
# minimum: four wavefronts for an `ldmatrix` with four matrices.

# %% [markdown]
# ## cp.async: three stages in flight
#
# So far, a block waits for its slab and then multiplies. Only the other blocks on the SM can fill the gap.
# [`cp.async`](register_tiles.py), available since Ampere, copies data from global to shared memory without going
# through registers, and the thread doesn't wait for the copy. A thread commits its copies in groups, and
# `wait_group n` waits until at most `n` of its groups are still in flight.
#
# The block keeps three *stages* in shared memory, each a pair of slabs, and uses them as a ring, so the loads run two
# slabs ahead.


# %% tab="Pseudocode"
def ring(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 128):
        for cols in tiles(N, 128):
            d = np.zeros((len(rows), len(cols)))
            # [stages
            in_flight = []
            for ks in tiles(K, 64):
                in_flight.append((A[rows][:, ks], B[ks][:, cols]))
                if len(in_flight) == 3:
                    smem_a, smem_b = in_flight.pop(0)
                    d += smem_a @ smem_b
            for smem_a, smem_b in in_flight:
                d += smem_a @ smem_b
            # stages]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
RING = Kernel(
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// D += A B for one warp: 16x16 times 16x8, two BF16 per register
static __device__ void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four 8x8 matrices: lane l passes the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_trans(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// index of a 16-byte chunk of a row, in chunks
static __device__ int chunk_index(int row, int chunk, int chunks) {
    return row * chunks + (chunk ^ row % 8);
}
// New: starts a copy of 16 bytes from global to shared memory
static __device__ void cp_async(uint4* to, const Bf16* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)),
                    "l"(from), "r"(bytes) : "memory");  // the rest is zeros
}
// loads HEIGHT rows of CHUNKS chunks of X, from (row, col) on; zeros outside
template <int HEIGHT, int CHUNKS>
static __device__ void load_tile(uint4* slab, const Bf16* X, int row, int col,
                             int rows, int cols) {
    int chunk = threadIdx.x % CHUNKS, at = col + chunk * 8;
    #pragma unroll
    for (int r = threadIdx.x / CHUNKS; r < HEIGHT; r += 128 / CHUNKS) {
        bool inside = row + r < rows && at < cols;
        const Bf16* from = inside ? &X[(size_t)(row + r) * cols + at] : X;
        cp_async(&slab[chunk_index(r, chunk, CHUNKS)], from, inside ? 16 : 0);
    }
}

// C = A B, row-major BF16; K and N multiples of 8, 16-byte aligned.
// Grid (ceil(N / 128), ceil(M / 128)), block 128, STAGES x 32 KiB of
// dynamic shared memory; sm_80 and later.
extern "C" __global__ void __launch_bounds__(128)
ring(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(128) uint4 smem[];  // New: STAGES pairs
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.y * 128, j = blockIdx.x * 128;
    int wi = warp / 2 * 64, wj = warp % 2 * 64;
    float acc[4][8][4] = {};
    // [stages
    int slabs = (K + 63) / 64;
    auto load_stage = [&](int t) {  // New: loads slab t as one group of copies
        uint4* stage = smem + t % STAGES * 2048;
        if (t < slabs) {
            load_tile<128, 8>(stage, A, i, t * 64, M, K);
            load_tile<64, 16>(stage + 1024, B, t * 64, j, K, N);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int t = 0; t < STAGES - 1; ++t) load_stage(t);
    for (int t = 0; t < slabs; ++t) {
        asm volatile("cp.async.wait_group %0;"
                     :: "n"(STAGES - 2) : "memory");  // own copies of slab t
        __syncthreads();  // all threads'; slab t - 1 has been read
        load_stage(t + STAGES - 1);
        uint4 *smem_a = smem + t % STAGES * 2048, *smem_b = smem_a + 1024;
        // stages]
        #pragma unroll
        for (int s = 0; s < 4; ++s) {  // 16 along K at a time
            unsigned a[4][4], b[4][4];
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                ldmatrix(a[m], &smem_a[chunk_index(wi + 16 * m + lane % 16,
                                             2 * s + lane / 16, 8)]);
            #pragma unroll
            for (int n = 0; n < 4; ++n)
                ldmatrix_trans(b[n],
                    &smem_b[chunk_index(16 * s + lane % 16,
                                  wj / 8 + 2 * n + lane / 16, 16)]);
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                #pragma unroll
                for (int n = 0; n < 8; ++n)
                    mma(acc[m][n], a[m], &b[n / 2][n % 2 * 2]);
        }
    }
    #pragma unroll
    for (int m = 0; m < 4; ++m)
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int r = 0; r < 4; r += 2) {
                int row = i + wi + 16 * m + lane / 4 + r * 4;
                int col = j + wj + 8 * n + lane % 4 * 2;
                if (row < M && col < N)
                    *(__nv_bfloat162*)&C[(size_t)row * N + col] =
                        __floats2bfloat162_rn(acc[m][n][r], acc[m][n][r + 1]);
            }
}
""",
    defines={"STAGES": 3},
)

# %%
RING.region("stages")

# %% fold="Code of the check"
agree(ring, RING, [four_warps(*size, stages=3, whole=True) for size in [*RAGGED, (70, 40, 392)]])

# %% [markdown]
# Two things keep the ring in order. `wait_group` makes sure that a thread's own copies have arrived, and the barrier
# after it makes sure that all other threads' copies have arrived too. The same barrier keeps a new copy from
# overwriting a stage that some warp is still reading, which is why `load_stage` comes after it. If you loosen the
# wait or remove the barrier, the simulator reports it:


# %% fold="Code of the check"
from tilewise import expect_hazard
from tilewise.kernel.edits import edited

ragged = RING.on(four_warps(136, 72, 392, stages=3))
late = edited(ragged, ('"n"(STAGES - 2)', '"n"(STAGES - 1)'))
expect_hazard(late, "undelivered", line_with="ldmatrix(a[m]")
expect_hazard(edited(ragged, ("__syncthreads();", "")), "uninitialised", line_with="ldmatrix_trans(b[n]")

# %% [markdown]
# ## Estimate: tensor cores, banks and issue slots
#
# How fast should each version be? Every slab takes time on three resources. An SM's tensor cores can perform
# {{ units.a_clock | , }} operations per cycle, of which `mma.sync` alone reaches {{ units.probe_clock | ,.0f }} at the
# recorded clock, which is higher than the data sheet's. Shared memory serves one wavefront per cycle. The four warp
# schedulers each issue one instruction per cycle. The simulator counts the wavefronts and the \PTX instructions. The
# slowest resource determines the estimate.

# %% fold="Code of the prediction"
DEPTH = 512
VARIANTS = {
    "from global memory": (ONE_TILE, one_warp),
    "through shared memory": (PLAIN, four_warps),
    "swizzled": (SWIZZLED, four_warps),
    "three stages": (RING, lambda M, N, K: four_warps(M, N, K, stages=3)),
}


def slab_cycles(kernel, of):
    """Cycles of an SM for 128 x 128 x 64: tensor cores at the probed rate, banks, issue; by difference."""
    deep, flat = (kernel.on(of(128, 128, depth)).simulate().counts for depth in (DEPTH, 64))
    slabs = DEPTH // 64 - 1
    loads, stores = (
        (getattr(deep, kind).wavefronts - getattr(flat, kind).wavefronts) / slabs
        for kind in ("shared_load", "shared_store")
    )
    issue = (deep.issued - flat.issued) / slabs / 4
    return {"tensor cores": TENSOR_CYCLES, "banks": loads + stores, "issue": issue}, loads


TENSOR_CYCLES = 2 * 128 * 128 * 64 / (A_CLOCK * PROBE / UNITS)
COSTS, LOADS = {}, {}
for label, (kernel, of) in VARIANTS.items():
    COSTS[label], LOADS[label] = slab_cycles(kernel, of)
ESTIMATES = {  # TFLOP/s
    label: UNITS * 2 * 128 * 128 * 64 / A_CLOCK / max(cost.values()) for label, cost in COSTS.items()
}
show(
    bars(
        COSTS,
        x="cycles of an SM for 128 × 128 × 64",
        roles={"tensor cores": "predicted", "banks": "read", "issue": "block"},
        form=",.0f",
        title="With the swizzle, the banks are no longer the bottleneck",
        caption="Cycles that one SM needs for a 128 × 128 tile and a depth of 64 along K, by resource.",
    )
)
publish(
    counted={"times": LOADS["through shared memory"] / LOADS["swizzled"]},
    estimate={
        "global": ESTIMATES["from global memory"] / PEAK,
        "for_a_mma": 4 * COSTS["from global memory"]["issue"] / (8 * 16 * 4),
        "plain": ESTIMATES["through shared memory"] / PEAK,
        "gain": ESTIMATES["swizzled"] / ESTIMATES["through shared memory"],
        "us": 2 * 4096**3 / ESTIMATES["three stages"] / 1e6,
    },
)

# %% [markdown]
# When the fragments come straight from global memory, instructions are the bottleneck: {{ estimate.for_a_mma | .0f }}
# for every `mma.sync`, which leaves {{ estimate.global | .0% }} of the data sheet's peak. With conflicts, the banks
# allow {{ estimate.plain | .0% }}. With the swizzle, the banks are slightly faster than `mma.sync`, so the estimate is
# the rate of `mma.sync` alone, {{ units.probe | .0f }} TFLOP/s. The swizzle should therefore make the kernel
# {{ estimate.gain | .1f }}× faster.


# %% fold="Code of the measurement"
from tilewise import Guess, measure
from tilewise.kernels.from_lesson import from_lesson

(cublas_lt,) = from_lesson("matmul/register_tiles", "cublas_lt")


def launched(label):
    kernel, of = VARIANTS[label]
    return lambda n: kernel.on(of(n, n, n))


def torch_matmul(arrays):
    import torch

    A, B, C = (
        torch.as_tensor(arrays[name].view("int16"), device="cuda").view(torch.bfloat16) for name in "ABC"
    )
    return lambda: torch.matmul(A, B, out=C) is None


PLAIN_WAVEFRONTS = 4 * 32 * 4 * 8 + 32768 // 128  # 32 ldmatrix per warp at 8 x 4 wavefronts; stores of 32 KiB
products = measure(
    "matrix_products",
    variants={label: launched(label) for label in VARIANTS},
    cases=[{"n": 2048}, {"n": 4096}],
    count_case={"n": 128},
    bytes=lambda n: 2 * 3 * n * n,
    flop=lambda n: 2 * n**3,
    arithmetic="bf16_matrix",
    counts=("wavefronts", "instructions"),
    library={"cuBLAS": torch_matmul, "cuBLASLt, best of 10 algorithms": cublas_lt},
    reference=matrix_product,
    tolerance=2**-8,
    reasons={"*": "Estimate: tensor cores, banks and issue slots"},
    fold="All rows",
    guess=Guess(
        "How much faster does the swizzle make the kernel?",
        of="swizzled",
        over="through shared memory",
        at={"n": 4096},
        between=(1.0, 10.0),
        models={"the banks": PLAIN_WAVEFRONTS / TENSOR_CYCLES},
        because="The model leaves out all waiting: for the slab, for the barrier and for the last fragment.",
    ),
)

# %% fold="Code of the figure"
check(PLAIN_WAVEFRONTS, COSTS["through shared memory"]["banks"], name="wavefronts by formula and by count")
RATES = {label: 2 * n**3 / us / 1e6 for (label, n), us in medians_us(products, "n").items() if n == 4096}
if complete(RATES):
    assert RATES["three stages"] / RATES["swizzled"] > RATES["swizzled"] / RATES["through shared memory"], (
        "the title"
    )
    show(
        bars(
            {label: {"estimate": ESTIMATES[label], "recorded": RATES[label]} for label in ESTIMATES},
            roles={"estimate": "predicted", "recorded": "tile"},
            x="rate [TFLOP/s]",
            form=",.0f",
            title="Keeping loads in flight helps more than the swizzle",
            caption="BF16 GEMM with FP32 accumulators at n = 4,096 on an {machine}: the throughput that the slowest resource allows, according to the counts above, and the measured throughput.",
        )
    )
FIRST, SHARED, SWIZZLED_RATE, AHEAD, CUBLAS = (RATES.get(label, np.nan) for label in (*VARIANTS, "cuBLAS"))
publish(
    reached={
        "first_ms": 2 * 4096**3 / FIRST / 1e9,
        "first_times": PROBE / FIRST,
        "first_share": FIRST / PROBE,
        "blocks": 227 // (3 * 32),
        "gain": SWIZZLED_RATE / SHARED,
        "ahead": AHEAD / SWIZZLED_RATE,
        "us": 2 * 4096**3 / AHEAD / 1e6,
        "of_probe": AHEAD / PROBE,
        "cublas": CUBLAS,
    }
)

# %% [markdown]
# The versions rank as predicted, but the factors are off. The swizzle makes the kernel {{ reached.gain | .1f }}×
# faster, not {{ estimate.gain | .1f }}×, because the banks weren't what the kernel was waiting for: in both versions,
# loading a slab, waiting for it and multiplying happen in sequence. The pipeline, which keeps the swizzle, removes that
# wait. It makes the kernel another {{ reached.ahead | .1f }}× faster, bringing it to {{ reached.of_probe | .0% }} of
# the rate of `mma.sync` alone.
#
# The estimate also leaves out latency while a slab is being processed: an SM holds only {{ reached.blocks }} blocks
# with 96 KiB of shared memory each, so each scheduler has only two warps to switch between. And cuBLAS, at
# {{ reached.cublas | .0f }} TFLOP/s, beats even `mma.sync` alone: it must be using another instruction.

# %% [markdown]
# ## Numerical error: one rounding to BF16
#
# The product of two BF16 values is exact in FP32: two 8-bit significands have a 16-bit product, and FP32 has 24 bits.
# The sum is rounded at each step, and the result is rounded once more, to BF16. Which error is larger? Follow one
# element of $C$ bit by bit.

# %% fold="Code of the check"
EXACT_CASE = four_warps(128, 128, 2048, stages=3)
held = RING.on(EXACT_CASE).run()
right = bf16_product(held)
got = bf16.values(held["C"]).astype(np.float64)
check(got, right, rtol=2**-8, atol=2**-12 * np.abs(right).max(), name="C against FP64 sums")
publish(error={"largest": np.abs(got - right).max() / np.abs(right).max()})

# %% fold="Code of the figure"
from tilewise.figures import BitFormat, Held, bit_fields


def bits_of(value, short):
    return f"{int(bf16.bits(value)):016b}" if short else f"{int(np.float32(value).view(np.uint32)):032b}"


left, above = (bf16.values(x).astype(np.float64) for x in (held["A"][0], held["B"][:, 0]))
path, total = {}, np.float32(0)
for k, (a, b) in enumerate(zip(left, above, strict=True)):
    before, total = total, np.float32(total + np.float32(a * b))
    exact = np.float64(np.float32(a * b)) == a * b
    stored = float(bf16.values(bf16.bits(total)))
    if k + 1 in (1, 2, 3, 4, 8, 16, 64, 256, 1024, 2048):
        path[f"{k + 1:,}"] = [
            Held(bits_of(a, True), f"{a:.4g}"),
            Held(bits_of(b, True), f"{b:.4g}"),
            Held(bits_of(a * b, False), f"{a * b:.6g}{', exactly' if exact else ''}"),
            Held(bits_of(before, False), f"{before:.6g}"),
            Held(bits_of(total, False), f"{total:.6g}"),
            Held(bits_of(total, True), f"{stored:.4g}, {abs(stored - total) / abs(total):.2%} off"),
        ]
show(
    bit_fields(
        [
            BitFormat("a, BF16", 8, 7),
            BitFormat("b, BF16", 8, 7),
            BitFormat("a · b, FP32", 8, 23),
            BitFormat("sum so far, FP32", 8, 23),
            BitFormat("sum, FP32", 8, 23),
            BitFormat("stored, BF16", 8, 7),
        ],
        path,
        start="3",
        step_name="term",
        title="An exact product, an FP32 sum, one rounding to BF16",
        caption="The terms of one element of C, added one after the other; the tensor core adds sixteen per instruction, in its own order. Set bits are filled; from the left: sign, exponent, fraction.",
    )
)

# %% [markdown]
# With 2,048 terms, the kernel's largest error is {{ error.largest | .2% }} of the largest result. Rounding the exact
# result to BF16 gives the same error, so the FP32 sum adds next to nothing.

# %% [markdown]
# ## Libraries: cuBLAS, cuDNN and CUTLASS
#
# `torch.matmul` calls cuBLAS, NVIDIA's closed-source GEMM library; cuDNN covers convolution and attention.
# [CUTLASS](https://github.com/NVIDIA/cutlass) provides open-source C++ templates for such kernels.
#
# ??? definition "cuDNN"
#     NVIDIA's closed-source library of tuned operations for neural networks, such as convolution and attention.
#
# ??? definition "CUTLASS"
#     NVIDIA's open-source C++ templates from which fast matrix kernels are built.

# %% [markdown]
# ## The answer
#
# `mma.sync` needs {{ estimate.us | us }} without any loads, and our best kernel takes {{ reached.us | us }}. That's
# {{ reached.of_probe | .0% }} of the rate of `mma.sync`, up from {{ reached.first_share | .0% }}. Going beyond that
# rate, as cuBLAS does, takes Hopper's `wgmma`.

# %% [markdown]
# ## Takeaways
#
# - With `mma.sync`, a warp multiplies a 16 × 16 by a 16 × 8 matrix, with BF16 inputs and FP32 accumulators. Each lane
#   holds a fragment of each matrix.
# - `ldmatrix` loads four 8 × 8 matrices in four wavefronts. In a row-major layout with rows of 128 bytes, it needs
#   {{ counted.times | .0f }}× as many because of bank conflicts. The swizzle $c \oplus (r \bmod 8)$ removes all of them
#   and needs no extra memory.
# - Removing a bottleneck only helps if the kernel waits for it: the swizzle made the kernel {{ reached.gain | .1f }}×
#   faster, and keeping loads in flight made it another {{ reached.ahead | .1f }}× faster.
#
# ## In your own kernel
#
# In Nsight Compute, `sm__inst_executed_pipe_tensor.sum` shows whether the tensor cores are used, and *Stall Long
# \Scoreboard* (`smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio`) shows whether warps wait for
# global memory. Add stages before you deal with bank conflicts, and then divide
# `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum` by the number of `ldmatrix` instructions: more than four
# wavefronts for each means that the layout needs a swizzle.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise

SLAB_OF_32 = r"""
static __device__ int chunk_index(int row, int chunk) {
    return row * 4 + POSITION;
}
extern "C" __global__ void fragments(const uint4* X, unsigned* out) {
    __shared__ uint4 smem[16 * 4];
    int lane = threadIdx.x;
    for (int c = lane; c < 64; c += 32) smem[chunk_index(c / 4, c % 4)] = X[c];
    __syncwarp();
    for (int k = 0; k < 2; ++k) {
        unsigned r[4];
        asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
            : "r"((unsigned)__cvta_generic_to_shared(
                  &smem[chunk_index(lane % 16, 2 * k + lane / 16)])) : "memory");
        for (int i = 0; i < 4; ++i) out[(k * 4 + i) * 32 + lane] = r[i];
    }
}
"""


def with_position(text):
    return Kernel(SLAB_OF_32, defines={"POSITION": text})


def fragment_tests(kernel):
    X = np.random.default_rng(7).integers(0, 2**32, (64, 4), dtype=np.uint32)
    out = np.zeros((2, 4, 32), np.uint32)
    run = kernel.simulate(X, out, grid=1, block=32)
    chunks = X.reshape(16, 4, 4)  # row, chunk, word
    for k in range(2):
        for i in range(4):
            expected = chunks[8 * (i % 2) :, 2 * k + i // 2][:8].reshape(-1)
            assert np.array_equal(out[k, i], expected), "a fragment holds the wrong elements"
    load = run.counts.shared_load
    assert load.wavefronts == 4 * load.requests, (
        f"{load.wavefronts / load.requests:.0f} wavefronts for an ldmatrix, not 4"
    )


exercise(
    "Rows of 64 bytes",
    """
    Make the slab only 32 elements deep. A row of A then has four chunks, and two rows fill all 32 banks. At which
    position in its row do you store chunk `chunk` of row `row`, so that every `ldmatrix` still takes four wavefronts?
    Fill in `POSITION` in `chunk_index`. The tests compare the fragments and count wavefronts.
    """,
    answer=with_position("(chunk ^ row / 2 % 4)"),
    tests=fragment_tests,
    wrong=[
        with_position("chunk"),
        with_position("(chunk ^ row % 4)"),
        with_position("(chunk ^ row / 4 % 4)"),
    ],
    hint="Rows 0, 2, 4 and 6 start in the same bank.",
)

# %% [markdown]
# Hopper's `wgmma` is an instruction that four warps execute together and that reads its operands from shared memory.
# Before we get there, [Alignment](alignment.py) shows why $K$ and $N$ should be multiples of 8.
