# ---
# title: Matrix units
# needs: [matmul/register_tiles, memory/precision]
# summary: "The matrix units of an H100 multiply at a rate that no memory feeds by itself. How much of it is left once the numbers have to be brought?"
# description: "mma.sync and ldmatrix: fragments, swizzled shared memory, copies that run ahead. BF16 products with FP32 sums, counted before they are timed."
# date: 2026-11-21
# tags: [matrix units, mma, ldmatrix, swizzle, BF16]
# ---

# %% [markdown]
# Beside the units for single numbers, each SM has units that multiply small matrices, its
# tensor cores. Warps that do nothing else, on numbers that lie in their registers all the time, were
# recorded at {{ units.probe | .0f }} TFLOP/s in BF16. A product of two matrices of 4,096 rows and
# columns would take {{ units.ideal_us | us }} at that rate. But its numbers do not lie in registers.
# How near does a kernel come that has to bring them?

# %% [markdown]
# ## One instruction, two matrices
#
# `mma.sync` is an instruction of a whole warp. It multiplies a matrix of 16 × 16 with one of 16 × 8
# and adds the product to 16 × 8 sums: {{ units.flop | , }} operations at once, where a fused
# multiply-add of a warp does {{ units.fma_flop }}. The operands are BF16, the accumulators FP32, so
# that long sums do not stop growing. No lane has room for a matrix: its elements are spread over the
# registers of the warp, and what one lane holds of it is its fragment.[^shapes]
#
# [^shapes]: Often believed: that tensor cores work on tiles of 128 × 128. A tile of that size is what a
#     block makes. The instruction's matrices are small, and which sizes there are depends on the
#     generation: this one came with Ampere.
#
# ??? question "Why are they called tensor cores?"
#     The name promises more than there is. A tensor is an array with any number of axes, and one
#     instruction multiplies two small matrices and adds a third, nothing else. Programs bring larger
#     arrays into that form: axes that are summed away are joined into one, axes that both operands
#     share become a batch of products, one after the other.
#
# ??? definition "Fragment | fragments"
#     The elements of a small matrix that one lane holds in its registers for a matrix instruction.

# %% [markdown]
# The first kernel is one warp with one such tile of $C$. Element by element it fetches what its
# fragments need from global memory. Write lane as $4g + t$: the lane then has rows $g$ and $g + 8$ of
# $A$ and $C$, and column $g$ of $B$.


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

// D += A B for one warp: 16x16 times 16x8, two BF16 to a register
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

extern "C" __global__
void one_tile(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    int i = blockIdx.y * 16, j = blockIdx.x * 8;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < K; k += 16) {
        unsigned a[4], b[2];
        // [fragments
        #pragma unroll
        for (int r = 0; r < 4; ++r) {  // two neighbours of a row in each
            int row = i + g + r % 2 * 8, col = k + 2 * t + r / 2 * 8;
            a[r] = bits(A, row, col, M, K) | bits(A, row, col + 1, M, K) << 16;
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {  // two neighbours of a column
            int row = k + 2 * t + r * 8, col = j + g;
            b[r] = bits(B, row, col, K, N) | bits(B, row + 1, col, K, N) << 16;
        }
        // fragments]
        mma(d, a, b);
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        int row = i + g + r / 2 * 8, col = j + 2 * t + r % 2;
        if (row < M && col < N) C[(size_t)row * N + col] = __float2bfloat16(d[r]);
    }
}
""")

# %% fold="Code of the check"
from tilewise import (
    Guess,
    Table,
    Trace,
    agree,
    case,
    ceil_div,
    check,
    expect_hazard,
    integers,
    measure,
    normal,
    output,
    publish,
    show,
)
from tilewise.figures import State, bars, stepped
from tilewise.measurements import complete, medians_us, recorded, recorded_device
from tilewise.measurements.references import bf16_product, matrix_product


def product(M, N, K, tile, block, shared_bytes=0, whole=False):
    """Inputs of C = A B and a launch with a block for each tile of C; whole numbers make sums exact."""
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

PROBE = recorded("reads.ceilings.probes.bf16_matrix_tflop_per_s")
GPU = recorded_device()
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
UNITS = GPU.units_tflop_per_s("bf16_matrix")  # an instruction of theirs in every cycle: for counts of cycles
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]  # operations of an SM's matrix units in a clock
publish(
    units={
        "flop": 2 * 16 * 8 * 16,
        "fma_flop": 2 * 32,
        "probe": PROBE,
        "probe_share": PROBE / PEAK,
        "ideal_us": 2 * 4096**3 / PROBE / 1e6,
        "a_clock": A_CLOCK,
        "probe_clock": A_CLOCK * PROBE / UNITS,
        "bytes": 2 * (16 * 16 + 16 * 8),
        "intensity": 2 * 16 * 8 * 16 / (2 * (16 * 16 + 16 * 8)),
        "banks_intensity": A_CLOCK / 128,
        "ridge": PEAK * 1e12 / (recorded("reads.ceilings.memory_gb_per_s") * 1e9),
    }
)

# %% [markdown]
# Which lane holds which element? The figure asks the kernel itself. It runs on one tile, and for every
# element the trace tells which lane fetched it, or wrote it. Step through the
# lanes.

# %% fold="Code of the figure"
TILE = ONE_TILE.on(one_warp(16, 8, 16))
seen = TILE.simulate(trace=Trace()).accesses


def holder(name, shape):
    """For each element of an array the lane that loads or stores it, as traced."""
    mine = seen.buffer == list("ABC").index(name)
    lanes = np.full(shape, -1)
    lanes.reshape(-1)[seen.index[mine]] = seen.lane[mine]
    return lanes


HOLDERS = {"A": holder("A", (16, 16)), "B": holder("B", (16, 8)), "C": holder("C", (16, 8))}
assert all((held >= 0).all() for held in HOLDERS.values()), "an element that no lane holds"


def of_lane(lane, names):
    mine = {name: HOLDERS[name] == lane for name in names}
    said = []
    for name, mask in mine.items():
        rows, columns = ({int(at) for at in np.argwhere(mask)[:, axis]} for axis in (0, 1))
        said.append(
            f"{mask.sum()} of {name}, in rows {', '.join(map(str, sorted(rows)))} "
            f"and columns {', '.join(map(str, sorted(columns)))}"
        )
    return State(
        f"Lane {lane} holds {'; and '.join(said)}.", arrays={n: HOLDERS[n] for n in names}, reads=mine
    )


show(
    stepped(
        [of_lane(lane, "A") for lane in range(32)],
        start=5,
        title="A lane holds four pairs of neighbours from two rows of A",
        caption="The fragments of A in mma.sync with 16 × 8 × 16: in each cell stands the lane that holds the element, as a simulated run of the kernel fetched it. The slider goes through the lanes, from 0.",
    )
)
show(
    stepped(
        [of_lane(lane, "BC") for lane in range(32)],
        start=5,
        title="Of B a lane holds pieces of one column, of C two pairs of sums",
        caption="The fragments of B, and of the sums that become C: in each cell stands the lane that fetched or wrote the element. The slider goes through the lanes, from 0.",
    )
)

# %% [markdown]
# ## What the matrix units ask for
#
# For each instruction this warp fetches {{ units.bytes }} bytes, so its intensity is
# {{ units.intensity | .1f }} FLOP a byte. The fastest memory probe of the recorded GPU and its peak (data sheet) meet at
# {{ units.ridge | .0f }} FLOP a byte of device memory. A tile of 128 × 128 in shared memory, as in the
# lesson on register tiles, brings a block's traffic near enough to that, and the L2 does the rest. But
# now shared memory itself has a ridge. It delivers 128 bytes a clock, and the matrix units of an SM do
# {{ units.a_clock | , }} operations in that time: {{ units.banks_intensity | .0f }} for each byte.
# So what matters next is how large a tile one warp makes from the fragments that it has read. Even four
# warps of 64 × 64 keep the banks busy longer than the matrix units.


# %% fold="Code of the table"
def asked(rows, columns):
    """A warp's tile: sums a lane, FLOP for each byte read, and the share of the matrix units' clocks that banks allow."""
    intensity = rows * columns / (rows + columns)
    written = 128 * 128 / (128 + 128)  # FLOP for each byte that the block brings
    busy = A_CLOCK / 128 * (1 / intensity + 1 / written)  # clocks of the banks for one of the matrix units
    return rows * columns // 32, intensity, f"{min(1.0, 1 / busy):.0%}"


WARP_TILES = ((16, 8), (32, 32), (64, 32), (64, 64), (128, 64))
show(
    Table(
        ["tile of a warp", "sums a lane", "FLOP a byte of shared memory", "share that banks allow"],
        [[f"{rows} × {columns}", *asked(rows, columns)] for rows, columns in WARP_TILES],
        caption="FLOP for each byte that the warps of a block of 128 × 128 read from shared memory, and the fraction of the cycles of the tensor cores that one wavefront per cycle allows, the block's writes counted in. A lane has at most 255 registers. A model.",
    )
)


# %% [markdown]
# ## Through shared memory
#
# A block of four warps makes 128 × 128 of $C$ from slabs of 64 along $K$, each warp 64 × 64 from
# fragments that it uses several times. `ldmatrix` reads them: four matrices of 8 × 8 in one
# instruction, for each of which eight lanes give the addresses of eight rows of 16 bytes, a chunk
# each. What a lane gets is not what it pointed to but just what its fragment wants. $B$ lies with its
# rows along $N$ and is wanted by columns; `.trans` turns each matrix on the way.
#
# ??? definition "Slab | slabs"
#     The piece of a block's rows of $A$, or columns of $B$, that lies in shared memory at a time.


# %% tab="Pseudocode"
def through_shared(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 128):
        for cols in tiles(N, 128):
            d = np.zeros((len(rows), len(cols)))
            for ks in tiles(K, 64):
                # [bring
                a_slab, b_slab = A[rows][:, ks], B[ks][:, cols]
                # bring]
                # [multiply
                for k in tiles(len(ks), 16):
                    d += a_slab[:, k] @ b_slab[k]
                # multiply]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
SWIZZLED = Kernel(
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// D += A B for one warp: 16x16 times 16x8, two BF16 to a register
static __device__ void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four matrices of 8x8: lane l brings the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_turned(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// where a chunk of 16 bytes of a slab's row lies
static __device__ int place(int row, int chunk, int chunks) {
    return row * chunks + (SWIZZLE ? chunk ^ row % 8 : chunk);
}
// HEIGHT rows of CHUNKS chunks of X, from (row, col) on; zeros outside
template <int HEIGHT, int CHUNKS>
static __device__ void bring(uint4* slab, const Bf16* X, int row, int col,
                             int rows, int cols) {
    int chunk = threadIdx.x % CHUNKS, at = col + chunk * 8;
    #pragma unroll
    for (int r = threadIdx.x / CHUNKS; r < HEIGHT; r += 128 / CHUNKS) {
        bool there = row + r < rows && at < cols;
        uint4 zeros = {0, 0, 0, 0};
        const uint4* from = (const uint4*)&X[(size_t)(row + r) * cols + at];
        slab[place(r, chunk, CHUNKS)] = there ? *from : zeros;
    }
}

extern "C" __global__ void __launch_bounds__(128)
through_shared(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    __shared__ uint4 a_slab[128 * 8], b_slab[64 * 16];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.y * 128, j = blockIdx.x * 128;
    int wi = warp / 2 * 64, wj = warp % 2 * 64;
    float d[4][8][4] = {};
    for (int k = 0; k < K; k += 64) {
        // [bring
        bring<128, 8>(a_slab, A, i, k, M, K);
        bring<64, 16>(b_slab, B, k, j, K, N);
        // bring]
        __syncthreads();
        // [multiply
        #pragma unroll
        for (int s = 0; s < 4; ++s) {  // 16 along K at a time
            unsigned a[4][4], b[4][4];
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                ldmatrix(a[m], &a_slab[place(wi + 16 * m + lane % 16,
                                             2 * s + lane / 16, 8)]);
            #pragma unroll
            for (int n = 0; n < 4; ++n)
                ldmatrix_turned(b[n],
                    &b_slab[place(16 * s + lane % 16,
                                  wj / 8 + 2 * n + lane / 16, 16)]);
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                #pragma unroll
                for (int n = 0; n < 8; ++n)
                    mma(d[m][n], a[m], &b[n / 2][n % 2 * 2]);
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
                        __floats2bfloat162_rn(d[m][n][r], d[m][n][r + 1]);
            }
}
""",
    defines={"SWIZZLE": 1},
)

# %%
SWIZZLED.region("multiply")

# %% [markdown]
# A chunk that sticks out over $K$ or $N$ is taken as zeros, so both must be multiples of 8 here; $M$
# may be anything. What to do with other sizes is a lesson of its own.

# %% fold="Code of the check"
PLAIN = Kernel(SWIZZLED.source, defines={"SWIZZLE": 0})


def four_warps(M, N, K, stages=0, **more):
    return product(M, N, K, (128, 128), 128, shared_bytes=stages * 2**15, **more)


RAGGED = [(136, 72, 72), (45, 136, 200)]
agree(through_shared, SWIZZLED, [four_warps(*size, whole=True) for size in RAGGED])
agree(through_shared, PLAIN, [four_warps(*size, whole=True) for size in RAGGED])

# %% [markdown]
# ## Eight rows in four banks
#
# A row of the slab of $A$ is 64 numbers, 128 bytes, which is once through all the banks. The eight rows
# of a matrix lie 128 bytes apart, so the same chunk of each is in the same four banks: eight passes in
# place of one, a bank conflict of the worst kind for this instruction. Longer rows would help and cost
# room. The other way is to store the chunks of row $r$ in another order, chunk $c$ at place
# $c \oplus r \bmod 8$, the exclusive or of the two numbers. Eight rows then have their chunk $c$ in
# eight different places, and nothing grows. That is a swizzle; in the kernel it is the one line of
# `place`, `row * chunks + (chunk ^ row % 8)`.

# %% fold="Code of the figure"
LAYOUT_CASE = four_warps(128, 128, 64)


def layout(kernel):
    """Which chunk of its row lies at each place of the first eight rows of A's slab: as the stores went."""
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


PLACES = {"plain": layout(PLAIN), "swizzled": layout(SWIZZLED)}


def reading(chunk):
    """The state in which one matrix, a chunk of eight rows, is read."""
    mine = {name: held == chunk for name, held in PLACES.items()}
    passes = {name: int(mask.sum(axis=0).max()) for name, mask in mine.items()}
    text = (
        f"ldmatrix reads chunk {chunk} of eight rows: {passes['plain']} passes over the banks where it lies "
        f"plain, {passes['swizzled']} where it is swizzled."
    )
    return State(text, arrays=PLACES, reads=mine)


show(
    stepped(
        [reading(chunk) for chunk in range(8)],
        start=2,
        title="Swizzled, the same chunk of eight rows lies in eight different places",
        caption="Eight rows of a slab, with a row's 128 bytes from left to right: which chunk of 16 bytes lies where, as the kernel stored it. Places below each other are in the same four banks. The slider picks the chunk that is read.",
    )
)

# %% [markdown]
# The simulator counts the passes over the banks, which it calls wavefronts, for one block and
# {{ counted.depth }} along $K$: {{ counted.plain | , }} for the loads of the plain layout and
# {{ counted.swizzled | , }} for those of the swizzled one, {{ counted.times | .0f }} times fewer. An
# `ldmatrix` with four matrices cannot do with less than four.

# %% [markdown]
# ## Copies that run ahead
#
# In both versions a block first waits for its slab and then multiplies, and only the other blocks on
# the SM fill the gap. Since Ampere a thread can begin a copy from global to shared memory that passes
# by its registers and for which it does not wait: `cp.async`. Copies are committed in groups, and
# `wait_group n` waits until at most `n` of the own groups are under way. With three pairs of slabs in
# shared memory, a ring, the copies run two slabs ahead.


# %% tab="Pseudocode"
def ring(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 128):
        for cols in tiles(N, 128):
            d = np.zeros((len(rows), len(cols)))
            # [stages
            under_way = []
            for ks in tiles(K, 64):
                under_way.append((A[rows][:, ks], B[ks][:, cols]))
                if len(under_way) == 3:
                    a_slab, b_slab = under_way.pop(0)
                    d += a_slab @ b_slab
            for a_slab, b_slab in under_way:
                d += a_slab @ b_slab
            # stages]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
RING = Kernel(
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// D += A B for one warp: 16x16 times 16x8, two BF16 to a register
static __device__ void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four matrices of 8x8: lane l brings the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_turned(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// where a chunk of 16 bytes of a slab's row lies
static __device__ int place(int row, int chunk, int chunks) {
    return row * chunks + (chunk ^ row % 8);
}
// New: 16 bytes go from global to shared memory by themselves
static __device__ void copy(uint4* to, const Bf16* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)),
                    "l"(from), "r"(bytes) : "memory");  // the rest: zeros
}
// HEIGHT rows of CHUNKS chunks of X, from (row, col) on; zeros outside
template <int HEIGHT, int CHUNKS>
static __device__ void bring(uint4* slab, const Bf16* X, int row, int col,
                             int rows, int cols) {
    int chunk = threadIdx.x % CHUNKS, at = col + chunk * 8;
    #pragma unroll
    for (int r = threadIdx.x / CHUNKS; r < HEIGHT; r += 128 / CHUNKS) {
        bool there = row + r < rows && at < cols;
        const Bf16* from = there ? &X[(size_t)(row + r) * cols + at] : X;
        copy(&slab[place(r, chunk, CHUNKS)], from, there ? 16 : 0);
    }
}

extern "C" __global__ void __launch_bounds__(128)
ring(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(128) uint4 memory[];  // New: STAGES pairs
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.y * 128, j = blockIdx.x * 128;
    int wi = warp / 2 * 64, wj = warp % 2 * 64;
    float d[4][8][4] = {};
    // [stages
    int slabs = (K + 63) / 64;
    auto begin = [&](int t) {  // New: slab t, as one group of copies
        uint4* stage = memory + t % STAGES * 2048;
        if (t < slabs) {
            bring<128, 8>(stage, A, i, t * 64, M, K);
            bring<64, 16>(stage + 1024, B, t * 64, j, K, N);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int t = 0; t < STAGES - 1; ++t) begin(t);
    for (int t = 0; t < slabs; ++t) {
        asm volatile("cp.async.wait_group %0;"
                     :: "n"(STAGES - 2) : "memory");  // own copies of slab t
        __syncthreads();  // everybody's; and slab t - 1 has been read
        begin(t + STAGES - 1);
        uint4 *a_slab = memory + t % STAGES * 2048, *b_slab = a_slab + 1024;
        // stages]
        #pragma unroll
        for (int s = 0; s < 4; ++s) {  // 16 along K at a time
            unsigned a[4][4], b[4][4];
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                ldmatrix(a[m], &a_slab[place(wi + 16 * m + lane % 16,
                                             2 * s + lane / 16, 8)]);
            #pragma unroll
            for (int n = 0; n < 4; ++n)
                ldmatrix_turned(b[n],
                    &b_slab[place(16 * s + lane % 16,
                                  wj / 8 + 2 * n + lane / 16, 16)]);
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                #pragma unroll
                for (int n = 0; n < 8; ++n)
                    mma(d[m][n], a[m], &b[n / 2][n % 2 * 2]);
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
                        __floats2bfloat162_rn(d[m][n][r], d[m][n][r + 1]);
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
# Two things keep the ring in order. `wait_group` makes sure of the copies that a thread began itself,
# and the barrier behind it of everybody's. The same barrier keeps the copies into a stage from
# starting while some warp still multiplies what lies there, which is why `begin` stands behind it.
# Take either away and the simulator says so.

# %% fold="Code of the check"


def with_fault(text, instead):
    assert RING.source.count(text) == 1
    return Kernel(RING.source.replace(text, instead), defines={"STAGES": 3})


LATE = with_fault('"n"(STAGES - 2)', '"n"(STAGES - 1)')
ALONE = with_fault("__syncthreads();", "")
ring_case = four_warps(136, 72, 392, stages=3)
expect_hazard(LATE.on(ring_case), "undelivered", line_with="ldmatrix(a[m]")
expect_hazard(ALONE.on(ring_case), "uninitialised", line_with="ldmatrix(a[m]")

# %% [markdown]
# ## What it should take
#
# Three things must be done for a slab, and each has its pace. The tensor cores of an SM do
# {{ units.a_clock | , }} operations per cycle, and with this instruction {{ units.probe_clock | ,.0f }} of them by
# the probe. The banks do one wavefront per cycle. The four schedulers issue one instruction per cycle each.
# The simulator counted wavefronts and instructions of the \PTX; the slowest of the three gives an estimate.

# %% fold="Code of the prediction"
DEPTH = 512
VARIANTS = {
    "from global memory": (ONE_TILE, one_warp),
    "through shared memory": (PLAIN, four_warps),
    "swizzled": (SWIZZLED, four_warps),
    "three stages": (RING, lambda M, N, K: four_warps(M, N, K, stages=3)),
}


def a_slab_costs(kernel, of):
    """Clocks of an SM for 128 x 128 x 64: matrix units at the probed rate, banks, issue; by difference."""
    deep, flat = (kernel.on(of(128, 128, depth)).simulate().counts for depth in (DEPTH, 64))
    slabs = DEPTH // 64 - 1
    loads, stores = (
        (getattr(deep, kind).wavefronts - getattr(flat, kind).wavefronts) / slabs
        for kind in ("shared_load", "shared_store")
    )
    issue = (deep.issued - flat.issued) / slabs / 4
    return {"matrix units": UNITS_CLOCKS, "banks": loads + stores, "issue": issue}, loads


UNITS_CLOCKS = 2 * 128 * 128 * 64 / (A_CLOCK * PROBE / UNITS)
COSTS, LOADS = {}, {}
for label, (kernel, of) in VARIANTS.items():
    COSTS[label], LOADS[label] = a_slab_costs(kernel, of)
ESTIMATES = {  # TFLOP/s
    label: UNITS * 2 * 128 * 128 * 64 / A_CLOCK / max(cost.values()) for label, cost in COSTS.items()
}
show(
    bars(
        COSTS,
        x="clocks of an SM for 128 × 128 × 64",
        roles={"matrix units": "predicted", "banks": "read", "issue": "block"},
        form=",.0f",
        title="Swizzled, the banks need less time than the matrix units",
        caption="What one SM has to do for 128 × 128 sums and 64 along K: operations at the probed rate of mma.sync, wavefronts at one a clock, instructions at four a clock. Wavefronts and instructions from the simulator, at the level of PTX.",
    )
)
publish(
    counted={
        "depth": 64,
        "plain": int(LOADS["through shared memory"]),
        "swizzled": int(LOADS["swizzled"]),
        "times": LOADS["through shared memory"] / LOADS["swizzled"],
    },
    estimate={
        "global": ESTIMATES["from global memory"] / PEAK,
        "for_a_mma": 4 * COSTS["from global memory"]["issue"] / (8 * 16 * 4),
        "plain": ESTIMATES["through shared memory"] / PEAK,
        "swizzled": ESTIMATES["swizzled"] / PEAK,
        "swizzled_tflop": ESTIMATES["swizzled"],
        "gain": ESTIMATES["swizzled"] / ESTIMATES["through shared memory"],
        "us": 2 * 4096**3 / ESTIMATES["three stages"] / 1e6,
    },
)

# %% [markdown]
# Straight from global memory it is the instructions that decide: {{ estimate.for_a_mma | .0f }} of them for
# every `mma`, so about {{ estimate.global | .1%  }} of the peak (data sheet). With conflicts the banks allow
# {{ estimate.plain | .0%  }}. Swizzled, they are quicker than the matrix units, and the estimate becomes what
# `mma.sync` does by itself, {{ estimate.swizzled | .0%  }} or {{ estimate.swizzled_tflop | .0f }} TFLOP/s: by
# this model {{ estimate.gain | .1f }} times as much. None of this counts waiting, which the ring is to
# hide.


# %% fold="Code of the measurement"
def launched(label):
    kernel, of = VARIANTS[label]
    return lambda n: kernel.on(of(n, n, n))


def torch_matmul(arrays):
    import torch

    A, B, C = (
        torch.as_tensor(arrays[name].view("int16"), device="cuda").view(torch.bfloat16) for name in "ABC"
    )
    return lambda: torch.matmul(A, B, out=C) is None


def cublas_lt(arrays):
    from tilewise.gpu.cublas_lt import fastest

    return fastest(*(arrays[name] for name in "ABC"))


PLAIN_PASSES = 4 * 32 * 4 * 8 + 32768 // 128  # 32 ldmatrix a warp, 8 times their 4 passes; stores of 32 KB
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
    reasons={"*": "What it should take"},
    guess=Guess(
        "How many times as fast does the swizzle make the kernel?",
        of="swizzled",
        over="through shared memory",
        at={"n": 4096},
        between=(1.0, 10.0),
        models={"the banks": PLAIN_PASSES / UNITS_CLOCKS},
        because="The model leaves out all waiting: for the slab, for the barrier, for the last fragment.",
    ),
)

# %% fold="Code of the table"
check(PLAIN_PASSES, COSTS["through shared memory"]["banks"], rtol=0.0, name="passes by formula and by count")
RATES = {label: 2 * n**3 / us / 1e6 for (label, n), us in medians_us(products, "n").items() if n == 4096}
if complete(RATES):
    shares = {label: f"{RATES[label] / estimate:.0%}" for label, estimate in ESTIMATES.items()}
    show(
        Table(
            ["version", "estimate by counts, TFLOP/s", "recorded, TFLOP/s", "share of that"],
            [
                [label, round(ESTIMATES[label]) if label in shares else None, round(rate), shares.get(label)]
                for label, rate in RATES.items()
            ],
            caption="BF16 products with FP32 sums at n = 4,096, random numbers, on an {machine}: what the slowest of tensor cores, banks and issue allows by the counts above, and what was recorded.",
        )
    )
_, SHARED, SWIZZLED_RATE, AHEAD, CUBLAS = (RATES.get(label, np.nan) for label in (*VARIANTS, "cuBLAS"))
publish(
    reached={
        "gain": SWIZZLED_RATE / SHARED,
        "swizzled": SWIZZLED_RATE / ESTIMATES["swizzled"],
        "ahead": AHEAD / SWIZZLED_RATE,
        "us": 2 * 4096**3 / AHEAD / 1e6,
        "of_probe": AHEAD / PROBE,
        "cublas": CUBLAS,
    }
)

# %% [markdown]
# The order is as predicted, the sizes are not. The swizzle was to make the kernel {{ estimate.gain | .1f }}
# times as fast and made it {{ reached.gain | .1f }} times, for the banks were not what it waited for. Both
# versions fetch a slab, wait for it, store it, wait for each other and multiply, and swizzled the kernel
# comes to {{ reached.swizzled | .0% }} of the estimate. Only when copies run ahead is that
# waiting gone: {{ reached.ahead | .1f }} times as fast again, {{ reached.of_probe | .0% }} of what the
# instruction does alone. Within a slab nothing runs ahead, a warp fetches fragments and then multiplies,
# and the model has no place for that either. cuBLAS, at {{ reached.cublas | .0f }} TFLOP/s, is faster than
# `mma.sync` alone: it must use another instruction.

# %% [markdown]
# ## How exact it is
#
# Products of two BF16 numbers are exact in FP32, sums are not, and at the end the result is rounded to
# BF16. Which of the two errors counts? The check compares with sums in 64 bits, in units of the
# rounding at the end: half the distance between neighbouring BF16 numbers at the largest result.

# %% fold="Code of the check"
from tilewise import bf16

EXACT_CASE = four_warps(128, 128, 2048, stages=3)
held = RING.on(EXACT_CASE).run()
right = bf16_product(held)
got = bf16.values(held["C"]).astype(np.float64)
check(got, right, rtol=2**-8, atol=2**-12 * np.abs(right).max(), name="C against sums in 64 bits")
best = bf16.values(bf16.bits(right)).astype(np.float64)
scale = np.abs(right).max()
publish(
    error={
        "K": 2048,
        "largest": np.abs(got - right).max() / scale,
        "rounding": np.abs(best - right).max() / scale,
    }
)

# %% [markdown]
# The way of the numbers, bit by bit, for one result of the same product: two of 16 bits, their
# product, the sum that it joins, and what is stored if the sum ends here. The last bits of the
# product are 0 every time: 8 and 8 significant bits make 16, and FP32 has 24.

# %% fold="Code of the figure"
from tilewise.figures import BitFormat, Held, bit_fields


def held_in(value, short):
    return f"{int(bf16.bits(value)):016b}" if short else f"{int(np.float32(value).view(np.uint32)):032b}"


left, above = (bf16.values(x).astype(np.float64) for x in (held["A"][0], held["B"][:, 0]))
path, total = {}, np.float32(0)
for k, (a, b) in enumerate(zip(left, above, strict=True)):
    before, total = total, np.float32(total + np.float32(a * b))
    exact = np.float64(np.float32(a * b)) == a * b
    stored = float(bf16.values(bf16.bits(total)))
    if k + 1 in (1, 2, 3, 4, 8, 16, 64, 256, 1024, 2048):
        path[f"{k + 1:,}"] = [
            Held(held_in(a, True), f"{a:.4g}"),
            Held(held_in(b, True), f"{b:.4g}"),
            Held(held_in(a * b, False), f"{a * b:.6g}{', exactly' if exact else ''}"),
            Held(held_in(before, False), f"{before:.6g}"),
            Held(held_in(total, False), f"{total:.6g}"),
            Held(held_in(total, True), f"{stored:.4g}, {abs(stored - total) / abs(total):.2%} off"),
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
        title="Short numbers in, an exact product, a long sum, and one rounding at the end",
        caption="The terms of one result, added one after the other; the unit itself adds sixteen with one instruction, in an order of its own. Set bits are filled: sign, exponent, fraction.",
    )
)

# %% [markdown]
# With {{ error.K | , }} terms the largest error is {{ error.largest | .2%  }} of the largest result, and
# rounding the exact result to BF16 alone gives {{ error.rounding | .2%  }}. The sums in FP32 add next to
# nothing. The rule for all products here: at most twice the error of the library's own result in the
# same precision.

# %% [markdown]
# ## The libraries
#
# Nobody has to write this to multiply two matrices. cuBLAS is the maker's closed library of products
# for every size and type, what `torch.matmul` calls. cuDNN is the one for operations of neural networks
# such as convolution and attention. CUTLASS is open: templates in C++ from which such kernels are put
# together. What one gains by knowing their insides is the reason for their numbers, and for every
# operation that is nearly, but not quite, a product.
#
# ??? definition "cuDNN"
#     NVIDIA's closed library of tuned operations of neural networks, such as convolution and attention.
#
# ??? definition "CUTLASS"
#     NVIDIA's open C++ templates from which fast matrix kernels are put together.

# %% [markdown]
# ## The answer
#
# A kernel on `mma.sync` that brings its numbers can hope for {{ estimate.us | us }} for the product of 4,096,
# as much as one that brings none, because swizzled banks keep pace with the instruction. Ours took
# {{ reached.us | us }}: {{ reached.of_probe | .0% }} of that rate, once its copies ran ahead. The banks would
# not keep pace with the matrix units themselves: a warp that reads its own fragments of 64 × 64 asks them for
# as much as they have. To go further, the units must read shared memory without the detour through registers.

# %% [markdown]
# ## Takeaways
#
# - `mma.sync` multiplies 16 × 16 by 16 × 8 for a warp: {{ units.flop | , }} operations, BF16 in, FP32
#   sums, each lane with a fragment.
# - `ldmatrix` brings four matrices of 8 × 8 with one instruction and takes four wavefronts at best; rows
#   of 128 bytes in plain order make it {{ counted.times | .0f }} times as many.
# - A swizzle, $c \oplus r \bmod 8$, removes all of these conflicts and costs no room. It gains what was
#   waited for: little before copies ran ahead.
# - The shared memory of an H100 has a ridge of {{ units.banks_intensity | .0f }} FLOP a byte; a warp's
#   tile of 64 × 64 just reaches it.
# - Alone, `mma.sync` was recorded at {{ units.probe_share | .0%  }} of the peak of the H100's tensor cores
#   (data sheet).


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

SLAB_OF_32 = r"""
static __device__ int place(int row, int chunk) {
    return row * 4 + PLACE;
}
extern "C" __global__ void fragments(const uint4* X, unsigned* out) {
    __shared__ uint4 slab[16 * 4];
    int lane = threadIdx.x;
    for (int c = lane; c < 64; c += 32) slab[place(c / 4, c % 4)] = X[c];
    __syncwarp();
    for (int k = 0; k < 2; ++k) {
        unsigned r[4];
        asm volatile(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
            : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
            : "r"((unsigned)__cvta_generic_to_shared(
                  &slab[place(lane % 16, 2 * k + lane / 16)])) : "memory");
        for (int i = 0; i < 4; ++i) out[(k * 4 + i) * 32 + lane] = r[i];
    }
}
"""


def with_place(text):
    return Kernel(SLAB_OF_32, defines={"PLACE": text})


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
    Make the slab only 32 numbers deep: a row of A has four chunks, and two rows share the 128 bytes of all
    banks. Which place within its row must chunk `chunk` of row `row` have, so that every `ldmatrix` still takes
    four wavefronts? Fill in `PLACE` in `place`. The tests compare the fragments and count.
    """,
    answer=with_place("(chunk ^ row / 2 % 4)"),
    tests=fragment_tests,
    wrong=[with_place("chunk"), with_place("(chunk ^ row % 4)"), with_place("(chunk ^ row / 4 % 4)")],
    hint="Rows 0, 2, 4 and 6 begin in the same bank.",
)

# %% [markdown]
# Hopper's answer to the last question, an instruction of four warps that takes its operands from shared
# memory, and a unit that brings them there, is the subject of [The Hopper machine](hopper.py).
