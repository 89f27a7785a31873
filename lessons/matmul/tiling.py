# ---
# title: Tiled matrix multiplication in shared memory
# needs: [memory/precision, memory/banks]
# summary: "Tiles of 32 × 32 in shared memory cut the loads of a matrix multiplication by a factor of 32. How much faster does it get?"
# description: "Shared-memory tiling of a matrix multiplication: loads that fall with the tile size, two barriers per step, and why shared memory becomes the bottleneck."
# date: 2026-11-21
# tags: [GEMM, tiling, shared memory]
# ---

# %% [markdown]
# Multiply two matrices with {{ ask.n | , }} rows and columns each. Together they have {{ ask.elements_1e6 | .0f }}
# million elements. Yet with one thread per element of the result, the threads load {{ ask.loads_1e9 | .0f }} billion
# elements: every element is loaded {{ ask.n | , }} times.
#
# Now let the threads of a block share what they load, in *tiles* of 32 by 32 elements. Each element is then loaded only
# {{ answer.loads }} times. That's {{ answer.less | .0f }}× fewer loads.
#
# This part of the course is built on tiling: every fast matrix multiplication uses it, and so does FlashAttention.

# %% fold="Imports, and numbers of the question"
from math import ceil

import numpy as np

from tilewise import Guess, Trace, check, expect_hazard, measure, parallel, publish, show, tiles
from tilewise.figures import Series, State, line_chart, stepped
from tilewise.kernel.machine_code import available, machine_code
from tilewise.measurements import medians_us, recorded_device
from tilewise.measurements.references import matrix_product
from tilewise.models import stated

BIG = 4096
GPU = recorded_device()
publish(
    ask={
        "n": BIG,
        "elements_1e6": 2 * BIG**2 / 1e6,
        "loads_1e9": 2 * BIG**3 / 1e9,
    },
    answer={"loads": BIG // 32, "less": 2 * BIG**3 / (2 * BIG**3 // 32)},
)

# %% [markdown]
# ## Naive GEMM: two loads per multiply-add
#
# We compute $C = AB$, where $A$ is $M \times K$, $B$ is $K \times N$ and $C$ is $M \times N$, all row-major.
# Libraries call this operation *GEMM*. Element $C_{ij}$ is the sum of $A_{ik} B_{kj}$ over $k$. The naive
# kernel gives each element of $C$ to one thread.
#
# ??? definition "GEMM"
#     General matrix multiplication, after the routine of that name in BLAS, the standard library of linear
#     algebra: C ← αAB + βC. Here α = 1 and β = 0.


# %% tab="Pseudocode"
def multiply(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for i, j in parallel(M, N):
        acc = 0.0
        for k in range(K):
            acc += A[i, k] * B[k, j]
        C[i, j] = acc


# %% tab="CUDA C"
from tilewise import Kernel

MULTIPLY = Kernel(r"""
// C = A B, all row-major: A is M x K, B is K x N, C is M x N; each below 2^31 elements.
// Two-dimensional grid and block that cover N columns (x) and M rows (y); any sizes.
extern "C" __global__
void multiply(const float* A, const float* B, float* C,
              int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
""")

# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def multiply_numba(A, B, C):
    col, row = cuda.grid(2)
    (M, K), N = A.shape, B.shape[1]
    if row >= M or col >= N:
        return
    acc = np.float32(0)  # a plain 0.0 would make a 64-bit accumulator
    for k in range(K):
        acc += A[row, k] * B[k, col]
    C[row, col] = acc


# %% [markdown]
# Launch it on a small problem: 64 × 48 times 48 × 80. Blocks of 32 × 8 threads need a grid of 3 × 8.

# %%
A = np.linspace(-1, 1, 64 * 48, dtype=np.float32).reshape(64, 48)
B = np.linspace(1, 2, 48 * 80, dtype=np.float32).reshape(48, 80)
C = np.zeros((64, 80), np.float32)
MULTIPLY(A, B, C, 64, 80, 48, grid=(3, 8), block=(32, 8))  # M, N, K
print(np.allclose(C, A @ B, atol=1e-4))

# %% [markdown]
# The accesses are coalesced: neighbouring lanes read neighbouring elements of $B$, and they all read the same element
# of $A$. But each multiply-add needs two loads of 4 bytes, {{ far.gigabytes | .0f }} GB in all. If every lane's loads
# came from device memory, they would take {{ far.us | us }} at peak bandwidth. At peak throughput, the arithmetic takes
# only {{ far.arithmetic_us | us }}. Caches will serve many of the loads, but we can cut the number of loads without
# relying on cache hits.

# %% fold="Code of the numbers"
PEAKS = stated(GPU)
FLOP_PER_S = 1e12 * PEAKS.tflop_per_s["fp32"]
far_bytes = 2 * BIG**3 * 4
publish(
    far={
        "gigabytes": far_bytes / 1e9,
        "us": far_bytes / PEAKS.memory_gb_per_s / 1e3,
        "arithmetic_us": 2 * BIG**3 / FLOP_PER_S * 1e6,
    }
)

# %% [markdown]
# ## The iteration space of a GEMM
#
# Draw each multiply-add as a small cube at position $(i, j, k)$. The whole GEMM is then a box of
# $M \times N \times K$ cubes, its *iteration space*. Element $A_{ik}$ is needed by a whole line of cubes along
# $j$, and $B_{kj}$ by a line along $i$. A thread of the naive kernel computes one line of cubes along $k$. No two of these
# cubes need the same element, so the thread uses everything it loads exactly once.
#
# Cut out a cube with $T$ multiply-adds on each side instead. It contains $T^3$ multiply-adds but needs only $T^2$ elements
# of $A$ and $T^2$ of $B$. If a block loads those two tiles into shared memory, it can use every element
# $T$ times. That's *reuse*. Step through the box to see which tiles each cube reads.
#
# ??? definition "Reuse | reused"
#     Using a value that was loaded once for more than one operation. It divides the number of loads by the number of
#     uses.

# %% fold="Code of the figure"
SIDE, EDGE = 4, 2


def box_of_products():
    """Each step of multiplying two 4 x 4 matrices in 2 x 2 tiles: what is loaded, what is multiplied."""
    generator = np.random.default_rng(5)
    A, B = (generator.integers(1, 6, (SIDE, SIDE)).astype(float) for _ in "AB")
    C = np.zeros((SIDE, SIDE))
    steps = SIDE // EDGE
    states = [
        State(
            "Nothing is loaded yet, and all accumulators are 0.",
            arrays={"A": A, "B": B, "C": C.copy()},
            threads=[],
        )
    ]
    for row, column, depth in np.ndindex(steps, steps, steps):
        i, j, k = (slice(at * EDGE, at * EDGE + EDGE) for at in (row, column, depth))
        used = {name: np.zeros((SIDE, SIDE), bool) for name in "AB"}
        used["A"][i, k] = used["B"][k, j] = True
        C[i, j] += A[i, k] @ B[k, j]
        block = (depth * steps + row) * steps + column
        states.append(
            State(
                f"Block ({row}, {column}), step {depth}: one tile of A and one of B, {2 * EDGE**2} elements, "
                f"are enough for {EDGE**3} multiply-adds.",
                arrays={"A": A, "B": B, "C": C.copy()},
                reads=used,
                threads=range(block * EDGE**3, (block + 1) * EDGE**3),
            )
        )
    check(C, A @ B, name="C, tile by tile")
    return states


show(
    stepped(
        box_of_products(),
        grid=(SIDE // EDGE,) * 3,
        block=(EDGE,) * 3,
        cell="multiply-add",
        axes=("j", "i", "k"),
        view="3d",
        start=1,
        title="Each cube of work needs one tile of A and one of B",
        caption="The 64 multiply-adds of a 4 × 4 matrix multiplication, one small cube each, in tiles of 2 × 2. The lit cubes are what the step computes; the two tiles that it reads are marked in A and B.",
        alt="A box of 4 by 4 by 4 multiply-adds, cut into eight cubes of 2 by 2 by 2. Each step lights one cube, reads one tile of A and one of B, and adds to one tile of C.",
    )
)

# %% [markdown]
# ## The tiled kernel
#
# One block of $T \times T$ threads computes one tile of $C$. It walks along $K$ in steps of $T$. In each step:
#
# 1. Every thread loads one element of $A$ and one of $B$ into shared memory.
# 2. The block synchronises.
# 3. Every thread adds the product of a row of one tile and a column of the other to its accumulator.
# 4. The block synchronises again, and the next step overwrites the tiles.
#
# Where a tile extends past the edge of a matrix, threads store zeros, which don't change the sums. A thread beyond the
# edge mustn't simply return early, because other threads may need the elements that it loads. This is kernel 3 in Simon
# Boehm's [How to Optimize a CUDA Matmul Kernel](https://siboehm.com/articles/22/CUDA-MMM).

# %% fold="Code of a constant"
T = 32


# %% tab="Pseudocode"
def multiply_tiled(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, T):
        for columns in tiles(N, T):  # each pair is a block
            acc = np.zeros((len(rows), len(columns)))
            for ks in tiles(K, T):
                # [load
                smem_a, smem_b = {}, {}
                for i, k in parallel(len(rows), len(ks)):
                    smem_a[i, k] = A[rows[i], ks[k]]
                for k, j in parallel(len(ks), len(columns)):
                    smem_b[k, j] = B[ks[k], columns[j]]
                # load]
                # [multiply
                for i, j in parallel(len(rows), len(columns)):
                    for k in range(len(ks)):
                        acc[i, j] += smem_a[i, k] * smem_b[k, j]
                # multiply]
            for i, j in parallel(len(rows), len(columns)):
                C[rows[i], columns[j]] = acc[i, j]


# %% tab="CUDA C"
MULTIPLY_TILED = Kernel(
    r"""
// C = A B, all row-major: A is M x K, B is K x N, C is M x N; each below 2^31 elements.
// Block: T x T threads, T at most 32. Grid: ceil(N / T) x ceil(M / T) blocks. Any sizes.
extern "C" __global__
void multiply_tiled(const float* A, const float* B, float* C,
                    int M, int N, int K) {
    __shared__ float smem_a[T][T], smem_b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        // [load
        smem_a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        smem_b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();  // both tiles are complete
        // load]
        // [multiply
        for (int k = 0; k < T; ++k) acc += smem_a[y][k] * smem_b[k][x];
        __syncthreads();  // everyone has read them
        // multiply]
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
""",
    defines={"T": 32},
)


# %% tab="Numba" needs="numba"
W = 8  # 64 threads, because Numba's simulator makes each of them a Python thread


@cuda.jit
def multiply_tiled_numba(A, B, C):
    smem_a = cuda.shared.array((W, W), np.float32)
    smem_b = cuda.shared.array((W, W), np.float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    (M, K), N = A.shape, B.shape[1]
    acc = np.float32(0)
    for k0 in range(0, K, W):
        # [load
        smem_a[y, x] = A[row, k0 + x] if row < M and k0 + x < K else np.float32(0)
        smem_b[y, x] = B[k0 + y, col] if k0 + y < K and col < N else np.float32(0)
        cuda.syncthreads()  # both tiles are complete
        # load]
        # [multiply
        for k in range(W):
            acc += smem_a[y, k] * smem_b[k, x]
        cuda.syncthreads()  # everyone has read them
        # multiply]
    if row < M and col < N:
        C[row, col] = acc


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def gemm_tile(A, B, C, M, N, K, T: tl.constexpr):
    row = tl.program_id(1) * T + tl.arange(0, T)[:, None]
    col = tl.program_id(0) * T + tl.arange(0, T)[None, :]
    acc = tl.zeros((T, T), tl.float32)
    for k0 in range(0, K, T):
        # [load
        k = k0 + tl.arange(0, T)
        k_row, k_col = k[None, :], k[:, None]
        a = tl.load(A + row * K + k_row, mask=(row < M) & (k_row < K), other=0.0)
        b = tl.load(B + k_col * N + col, mask=(k_col < K) & (col < N), other=0.0)
        # load]
        # [multiply
        acc += tl.dot(a, b, input_precision="ieee")  # FP32 throughout
        # multiply]
    tl.store(C + row * N + col, acc, mask=(row < M) & (col < N))


def multiply_tiled_triton(A, B, C, M, N, K):
    grid = (triton.cdiv(N, 32), triton.cdiv(M, 32))
    gemm_tile[grid](A, B, C, M, N, K, T=32)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def multiply_torch(A, B, C):
    torch.matmul(A, B, out=C)


# %% [markdown]
# The launch needs one block per tile of $C$: a grid of 3 × 2. The Numba kernel matches the CUDA kernel line for line.
# The \Triton kernel mentions neither shared memory nor barriers: it describes the tiles, and the compiler decides where
# to put them.

# %%
C[:] = 0
MULTIPLY_TILED(A, B, C, 64, 80, 48, grid=(3, 2), block=(32, 32))  # M, N, K
print(np.allclose(C, A @ B, atol=1e-4))

# %% [markdown]
# Do all versions agree with the pseudocode? Test them at sizes that aren't multiples of the tile size.


# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div
from tilewise.measurements.references import product_inputs


def product(M, N, K, edge=None):
    """A GEMM with one block per edge x edge tile of the result, or per 32 x 8 elements without edge."""
    width, height = (edge, edge) if edge else (32, 8)
    grid = (ceil_div(N, width), ceil_div(M, height))
    return case(**product_inputs(M, N, K), grid=grid, block=(width, height))


def tiled(edge):
    return Kernel(MULTIPLY_TILED.source, defines={"T": edge})


SIZES = ((37, 41, 29), (65, 33, 70), (3, 40, 64))
near = {"rtol": 1e-5, "atol": 1e-5}
agree(multiply, MULTIPLY, [product(*size) for size in SIZES], **near)
agree(multiply_tiled, MULTIPLY_TILED, [product(*size, edge=T) for size in SIZES], **near)
few = ((9, 11, 13), (3, 17, 10))
agree(multiply_numba, MULTIPLY, [product(*size) for size in few], **near, by="Numba")
agree(multiply_tiled_numba, tiled(8), [product(*size, edge=8) for size in few], **near, by="Numba")
for function, by in {multiply_tiled_triton: "Triton", multiply_torch: "PyTorch"}.items():
    agree(function, MULTIPLY_TILED, [product(*size, edge=T) for size in SIZES], **near, by=by)


# %% [markdown]
# Now trace the first of the four blocks in a small launch: 8 × 8 matrices in 4 × 4 tiles. Watch the line that
# multiplies. A thread reads a row of `smem_a` and a column of `smem_b`. Three other threads read the same row, and
# three the same column, so every element is used four times.

# %% fold="Code of the figure"
show(
    stepped(
        tiled(4).on(product(8, 8, 8, edge=4)).simulate(trace=Trace(blocks=[0])),
        extent=(8, 8),
        axes=("j", "i"),
        start=2,
        title="Sixteen threads load two tiles and use each element four times",
        caption="The tiled kernel on 8 × 8 matrices in tiles of 4 × 4, block (0, 0), as the simulator ran it.",
    )
)

# %% [markdown]
# ??? question "Is a tile of A loaded only once?"
#     Once per block. A block reads each element $T$ times from shared memory, but blocks share nothing: all $N/T$
#     blocks in the same row of $C$ load the same tiles of $A$, and all $M/T$ blocks in the same column load the same
#     tiles of $B$. Larger tiles mean fewer such blocks, so they load less.

# %% [markdown]
# ## Why does each step need two barriers?
#
# The first barrier keeps threads from reading elements that other threads haven't stored yet. The second one keeps a
# fast warp from overwriting tiles that a slow warp is still reading. Without the second, the simulator reports a race
# on the marked line. Without the first, it reports a read of uninitialised shared memory. If threads beyond the edge
# return early, it reports the same error, because the elements that they should have stored are never written.

# %%
NO_SECOND_BARRIER = Kernel(r"""
// Wrong on purpose. 16 x 16 threads per block.
extern "C" __global__
void multiply_tiled(const float* A, const float* B, float* C,
                    int M, int N, int K) {
    __shared__ float smem_a[16][16], smem_b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        smem_a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        smem_b[y][x] =  // hazard: is another thread still reading smem_b?
            k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc += smem_a[y][k] * smem_b[k][x];
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
""")

# %% fold="Code of the checks"
from tilewise.kernel.edits import edited

NO_FIRST_BARRIER = edited(tiled(16), ("        __syncthreads();  // both tiles are complete\n", ""))
broken = product(32, 32, 32, edge=16)
expect_hazard(NO_SECOND_BARRIER.on(broken), "race", line_with="is another thread still reading smem_b?")
expect_hazard(NO_FIRST_BARRIER.on(broken), "uninitialised", line_with="acc +=")
EARLY_RETURN = edited(tiled(16), ("float acc", "if (row >= M || col >= N) return;\n    float acc"))
expect_hazard(EARLY_RETURN.on(product(8, 20, 32, edge=16)), "uninitialised", line_with="acc +=")

# %% [markdown]
# Run the four versions with $K$ = 32. For which sizes is the early return harmless?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    lambda M, N: product(M, N, 32, edge=16),
    {
        "both barriers": tiled(16),
        "without the first barrier": NO_FIRST_BARRIER,
        "without the second barrier": NO_SECOND_BARRIER,
        "early return": EARLY_RETURN,
    },
    M=(1, 32, 64),
    N=(1, 32, 64),
)

# %% [markdown]
# ## Global loads fall by a factor of the tile size
#
# A block takes $K/T$ steps and loads $2T^2$ elements in each. Over all $MN/T^2$ blocks, that makes $2MNK/T$ loads
# instead of $2MNK$. Does the simulator's count agree?


# %% fold="Code of the figure"
def loads_of(n, edge):
    """Elements that lanes load from global memory, and sectors, by the simulator; edge 1: no tiles."""
    launch = MULTIPLY.on(product(n, n, n)) if edge == 1 else tiled(edge).on(product(n, n, n, edge=edge))
    loads = launch.simulate().counts.global_load
    return loads.lane_accesses, loads.sectors


EDGES = (1, 2, 4, 8, 16, 32)
COUNTED = {edge: loads_of(64, edge) for edge in EDGES}
check([COUNTED[e][0] for e in EDGES], [2 * 64**3 // e for e in EDGES], name="loads with n = 64: 2n³ / T")
show(
    line_chart(
        [
            Series("loads by lanes", EDGES, [COUNTED[1][0] / COUNTED[e][0] for e in EDGES], role="read"),
            Series("sectors", EDGES, [COUNTED[1][1] / COUNTED[e][1] for e in EDGES], role="global"),
            Series("T", EDGES, EDGES, role="predicted", marks=False),
        ],
        x="tile size T",
        y="reduction vs. naive [×]",
        log_x=True,
        log_y=True,
        title="Loads fall by a factor of exactly T, sectors by less",
        caption="Loads from global memory by the naive kernel divided by those of the tiled kernel, for 64 × 64 matrices on the simulator: elements loaded by lanes, and 32-byte sectors requested.",
    )
)
FEWER_SECTORS = 5 * 32 / 8
check(FEWER_SECTORS, COUNTED[1][1] / COUNTED[32][1], name="sectors by formula and by count")
publish(
    fewer={
        "loads_32": COUNTED[1][0] / COUNTED[32][0],
        "sectors_32": COUNTED[1][1] / COUNTED[32][1],
        "sectors_2": COUNTED[2][1] / COUNTED[1][1],
    }
)

# %% [markdown]
# The number of loads falls by a factor of exactly $T$. The number of sectors falls by less, because the lanes of a warp
# already share sectors in the naive kernel: together, they need one sector of $A$ and four of $B$ per multiply-add.
# Over 32 values of $k$, that's 160 sectors. With $T$ = 32, a warp loads one row of each tile for the same 32 values, or
# 8 sectors: {{ fewer.sectors_32 | .0f }}× fewer. With 2 × 2 tiles, the kernel actually requests
# {{ fewer.sectors_2 | .1f }}× as many sectors as it would without tiling, because a row of two elements fills only a
# quarter of a sector.

# %% [markdown]
# ## Shared memory becomes the bottleneck
#
# The loads haven't disappeared: a thread still reads two elements per multiply-add, now from shared memory. An SM can
# issue four warp-wide multiply-adds per cycle, but its shared memory serves only one *wavefront*, a trip through its
# pipe, per cycle. With two wavefronts per multiply-add, an SM would reach at most an eighth of its peak.
#
# The compiler helps a little: it unrolls the loop over `k` and reads four neighbouring elements of a row of `smem_a`
# with one 16-byte load.

# %% fold="Code of the numbers"
WARP_FMAS = BIG**3 / 32
CYCLES_PER_US = GPU.sms * GPU.boost_mhz  # of all SMs together
WAVEFRONTS = 1 + 2 / 4  # per multiply-add: smem_b one, smem_a two for four
SHARED_US = WAVEFRONTS * WARP_FMAS / CYCLES_PER_US


def per_fma(kernel, name=""):
    """Instructions per multiply-add in a kernel's inner loop on an H100, or those whose names begin so."""
    names = [one.name for one in machine_code(kernel).loop()]
    return sum(one.startswith(name) for one in names) / names.count("FFMA.FTZ")


LOOP = {"of_8": np.nan, "of_32": np.nan}
if available() is None:  # NVRTC and nvdisasm are installed
    LOOP = {"of_8": per_fma(tiled(8)), "of_32": per_fma(tiled(32))}
    assert (per_fma(tiled(32), "LDS.128"), per_fma(tiled(32), "LDS")) == (1 / 4, 5 / 4), (
        "as WAVEFRONTS has it"
    )
    assert round(per_fma(MULTIPLY), 1) == round(LOOP["of_8"], 1), "the text says as many"
    assert (per_fma(tiled(8), "BAR"), per_fma(tiled(32), "BAR")) == (1 / 4, 1 / 16), "the text says how often"
publish(
    loop=LOOP,
    predicted={
        "wavefronts": WAVEFRONTS,
        "us": SHARED_US,
        "fraction": 2 * BIG**3 / FLOP_PER_S * 1e6 / SHARED_US,
        "naive_us": 2 * WARP_FMAS / CYCLES_PER_US,
        "memory_32_us": far_bytes / 32 / PEAKS.memory_gb_per_s / 1e3,
    },
)

# %% [markdown]
# A 4-byte load whose lanes all read one address takes one wavefront. A 16-byte load takes at least two, even as a
# broadcast, but here it serves four multiply-adds. That makes 1 + 2/4 = {{ predicted.wavefronts }} wavefronts per
# multiply-add. For {{ ask.n | , }} rows and columns, we can now estimate the time that each resource would need on its
# own:
#
# - Arithmetic, at peak throughput: {{ far.arithmetic_us | us }}.
# - Device memory with $T$ = 32, without any cache hits: {{ predicted.memory_32_us | us }}.
# - Shared memory, at one wavefront per cycle: {{ predicted.us | us }}, or {{ predicted.fraction | .0% }} of the
#   arithmetic peak.
#
# Shared memory should be the bottleneck. And the naive kernel? Many of its loads hit in L1, which is the same memory
# behind the same pipe. Even if all of them hit, each 4-byte load takes one wavefront, which adds up to at least
# {{ predicted.naive_us | us }}.

# %% [markdown]
# ## Benchmark: naive and tiled against cuBLAS


# %% fold="Code of the measurement"
def cublas(arrays):
    import cupy

    A, B, C = (arrays[name] for name in "ABC")
    return lambda: cupy.matmul(A, B, out=C)


def in_tiles(edge):
    return lambda n: tiled(edge).on(product(n, n, n, edge=edge))


product_rows = measure(
    "tiled_product",
    variants={"naive": lambda n: MULTIPLY.on(product(n, n, n))}
    | {f"{edge} × {edge} tiles": in_tiles(edge) for edge in (8, 16, 32)},
    cases=[{"n": 1024}, {"n": BIG}],
    count_case={"n": 128},
    bytes=lambda n: 3 * 4 * n * n,
    flop=lambda n: 2 * n**3,
    library={"cuBLAS": cublas},
    reference=matrix_product,
    tolerance=1e-4,
    counts=("requests", "sectors", "wavefronts"),
    reasons={"*": "Shared memory becomes the bottleneck"},
    fold="All ten rows",
    guess=Guess(
        "How much faster are 32 × 32 tiles than the naive kernel at n = 4,096?",
        of="32 × 32 tiles",
        over="naive",
        at={"n": BIG},
        between=(1.0, 40.0),
        models={"loads": 32.0, "sectors": FEWER_SECTORS, "wavefronts": 2 / WAVEFRONTS},
        because="Both kernels read two values per multiply-add, the naive kernel through L1 and the tiled one from shared memory.",
    ),
)


# %% fold="Code of the numbers"
US = medians_us(product_rows, "n")
NAIVE_US, TILED_US = US["naive", BIG], US["32 × 32 tiles", BIG]
publish(
    seen={
        "gain": NAIVE_US / TILED_US,
        "gain_16": NAIVE_US / US["16 × 16 tiles", BIG],
        "naive_us": NAIVE_US,
        "tiled_us": TILED_US,
        "slow_8": US["8 × 8 tiles", BIG] / NAIVE_US - 1,
        "times_predicted": TILED_US / SHARED_US,
    }
)
if np.isfinite(TILED_US):
    assert US["8 × 8 tiles", BIG] > NAIVE_US > US["16 × 16 tiles", BIG] > TILED_US > SHARED_US
    assert NAIVE_US > 2 * WARP_FMAS / CYCLES_PER_US, "a lower bound is not beaten"

# %% [markdown]
# With 32 × 32 tiles, the multiplication takes {{ seen.tiled_us | us }} instead of {{ seen.naive_us | us }}. That's only
# {{ seen.gain | .1f }}× faster, with {{ fewer.loads_32 | .0f }}× fewer loads. Tiling relieves L2 and device memory, but
# the pipe to shared memory and L1 still handles {{ predicted.wavefronts }} wavefronts per multiply-add instead of 2.
#
# With 16 × 16 tiles, the kernel is {{ seen.gain_16 | .1f }}× faster than the naive one, but with 8 × 8 tiles it's
# {{ seen.slow_8 | .0%}} slower. A small tile spreads the cost of its loads, stores and barriers over only a few
# multiply-adds. According to the \SASS, the loop with 8 × 8 tiles issues {{ loop.of_8 | .1f }} instructions per
# multiply-add, as many as the naive kernel, and has a barrier every four multiply-adds. With 32 × 32 tiles, it issues
# {{ loop.of_32 | .1f }} and has a barrier only every sixteen multiply-adds.
#
# The kernel with 32 × 32 tiles takes {{ seen.times_predicted | .1f }}× as long as its wavefronts alone would. Part of
# the difference is waiting: [an SM holds two of these blocks](tiles_and_waves.py#two-resident-blocks-share-one-sm), and
# while one loads its tiles or waits at a barrier, only the other keeps shared memory busy.

# %% [markdown]
# ## How large would a tile have to be?
#
# Two tiles of $T^2$ floats occupy $8T^2$ bytes and supply the operands for $2T^3$ operations. The intensity is
# therefore $T/4$ FLOP per byte: {{ edge.at_32 | .0f }} at $T$ = 32. The GPU's ridge point is {{ edge.ridge | .0f }}
# FLOP per byte, so $T$ must be at least {{ edge.needed | .0f }} for the kernel to be compute-bound without any help
# from caches.
#
# Tiles needn't be square. A block that computes a tile of $C$ with $R$ rows and $S$ columns has an intensity of
# $RS / 2(R + S)$. More rows and columns raise it. The depth of a step along $k$ cancels out: a deeper step means fewer
# barriers, but it costs shared memory.
#
# ??? definition "Shared-memory budget"
#     The shared memory that a block may use. It limits the tiles that a block can hold and how many blocks
#     are resident.


# %% fold="Code of the numbers"
RIDGE = FLOP_PER_S / PEAKS.memory_gb_per_s / 1e9
publish(edge={"at_32": 32 / 4, "ridge": RIDGE, "needed": ceil(4 * RIDGE)})

# %% [markdown]
# A block has at most 1,024 threads, so with one result per thread, $T$ can't exceed 32. Larger tiles need several
# results per thread: [register tiling](register_tiles.py).

# %% [markdown]
# ## The answer
#
# With 32 × 32 tiles, each element is loaded {{ answer.loads }} times instead of {{ ask.n | , }}, but the multiplication
# is only {{ seen.gain | .1f }}× faster. The caches had already served most of the redundant loads.

# %% [markdown]
# ## Takeaways
#
# - A block that loads one tile of each matrix into shared memory uses every element $T$ times, so global loads fall by
#   a factor of exactly $T$.
# - Each step needs two barriers, one before the tiles are read and one before they are overwritten. Zeros
#   beyond the edges make the kernel correct at every size.
# - The intensity, $T/4$ FLOP per byte, grows with the tile. The number of shared-memory reads per multiply-add doesn't
#   change, and we estimate that their wavefronts account for most of this kernel's time.

# %% [markdown]
# ## In your own kernel
#
# If several threads of a block load the same values in a loop, stage those values in shared memory, and check with
# compute-sanitizer's `racecheck` tool that no barrier is missing. Then compare two pipes in Nsight Compute:
# `l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed` and
# `sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed`. If the first is busier, let each thread compute more
# results.


# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise

TALL = r"""
extern "C" __global__
void multiply_tall(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[32][17], b[16][16];  // a 32 x 16 tile of C, two results per thread
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 32 + y, j = blockIdx.x * 16 + x;
    float s = 0.0f, t = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        bool inside = k0 + x < K;
        a[y][x] = i < M && inside ? A[i * K + k0 + x] : 0.0f;
        a[y + 16][x] = i + 16 < M && inside ? A[(i + 16) * K + k0 + x] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            s += a[y][k] * b[k][x];
            t += a[y + 16][k] * b[k][x];
        }
        __syncthreads();
    }
    if (i < M && j < N) C[i * N + j] = s;
    if (i + 16 < M && j < N) C[(i + 16) * N + j] = t;
}
"""
TWO_RESULTS = Kernel(TALL)
LOADS_TWICE = Kernel(r"""
extern "C" __global__
void multiply_tall(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][17], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, j = blockIdx.x * 16 + x;
    for (int half = 0; half < 2; ++half) {
        int i = blockIdx.y * 32 + 16 * half + y;
        float s = 0.0f;
        for (int k0 = 0; k0 < K; k0 += 16) {
            a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
            b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
            __syncthreads();
            for (int k = 0; k < 16; ++k) s += a[y][k] * b[k][x];
            __syncthreads();
        }
        if (i < M && j < N) C[i * N + j] = s;
    }
}
""")


def tall_tests(kernel):
    generator = np.random.default_rng(2)
    for M, N, K in ((37, 41, 29), (32, 16, 16), (65, 20, 50)):
        A, B = (generator.normal(size=shape).astype(np.float32) for shape in ((M, K), (K, N)))
        C = np.full((M, N), np.nan, np.float32)
        grid = (ceil_div(N, 16), ceil_div(M, 32))
        run = kernel.simulate(A, B, C, M, N, K, grid=grid, block=(16, 16))
        assert np.allclose(C, A @ B, rtol=1e-4, atol=1e-4), f"{M} × {K} times {K} × {N}: a result is wrong"
        loads = run.counts.global_load.lane_accesses
        most = M * K * ceil_div(N, 16) + K * N * ceil_div(M, 32)
        assert loads <= most, f"{M} × {K} times {K} × {N}: {loads} loads, and {most} are enough"


exercise(
    "Two results per thread",
    """
    Let blocks of 16 × 16 threads compute tiles of C with 32 rows and 16 columns: each thread computes two results, 16
    rows apart. Write `multiply_tall(A, B, C, M, N, K)`, launched with one block per tile. Before you start, work out
    how many elements are loaded in all. The tests compare every result, at sizes that aren't multiples of the tile,
    and count loads: an element of A may be loaded once per 16 columns of C, and an element of B once per 32 rows.
    """,
    answer=TWO_RESULTS,
    tests=tall_tests,
    wrong=[
        LOADS_TWICE,
        {"    if (i + 16 < M && j < N) C[(i + 16) * N + j] = t;\n": ""},
        {
            "i < M && inside": "inside",
            "i + 16 < M && inside": "inside",
            "bool inside = k0": "bool inside = i + 16 < M && k0",
        },
    ],
    hint="Load two elements of A and one of B in each step. The element of B that a thread reads from shared memory serves both accumulators.",
)

# %% [markdown]
# Next: reuse in registers, the subject of [register tiling](register_tiles.py).
