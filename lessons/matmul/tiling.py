# ---
# title: A tile of each matrix
# needs: [memory/coalescing, memory/reductions]
# summary: "A product of two 4,096-square matrices needs each of its numbers 4,096 times. How often must they be loaded?"
# description: "Shared-memory tiles: loads that fall with the tile's edge, counted by simulator and hardware; what limits the rest. Kernel 5."
# date: 2026-11-21
# tags: [matrix product, tiling, shared memory]
# ---

# %% [markdown]
# The product of two matrices of {{ ask.n | , }} rows and columns is
# {{ ask.gigaflop | .0f }} billion operations on {{ ask.numbers_1e6 | .0f }} million numbers. Each
# number takes part in {{ ask.n | , }} of the sums. With a thread for each element of the result the
# loads ask for {{ ask.loads_1e9 | .0f }} billion numbers. How far can that be brought down by threads
# that share what they load, and by how much is the product sooner done?

# %% fold="Imports, and numbers of the question"
import numpy as np

from tilewise import (
    Guess,
    Table,
    Trace,
    agree,
    case,
    ceil_div,
    check,
    expect_hazard,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
)
from tilewise.figures import Answer, Meter, Series, Slider, State, calculator, line_chart, stepped
from tilewise.measurements import medians_us, recorded, recorded_device
from tilewise.measurements.references import matrix_product
from tilewise.measurements.slugs import name_slug
from tilewise.models import stated

BIG = 4096
GPU = recorded_device()
publish(
    ask={
        "n": BIG,
        "gigaflop": 2 * BIG**3 / 1e9,
        "numbers_1e6": 2 * BIG**2 / 1e6,
        "loads_1e9": 2 * BIG**3 / 1e9,
    }
)

# %% [markdown]
# ## Two loads for every multiplication
#
# $C = AB$, where $A$ is $M \times K$, $B$ is $K \times N$ and $C$ is $M \times N$, all stored row by
# row. $C_{ij}$ is the sum of $A_{ik} B_{kj}$ over $k$. The first kernel gives each element of $C$ to
# a thread. Neighbouring lanes take neighbouring columns $j$: they read neighbours in $B$, four
# sectors a request, and all the same number of $A$, one sector.


# %% tab="Pseudocode"
def multiply(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for i, j in parallel(M, N):
        s = 0.0
        for k in range(K):
            s += A[i, k] * B[k, j]
        C[i, j] = s


# %% tab="CUDA C"
from tilewise import Kernel

MULTIPLY = Kernel(r"""
extern "C" __global__
void multiply(const float* A, const float* B, float* C,
              int M, int N, int K) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= M || j >= N) return;
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += A[i * K + k] * B[k * N + j];
    C[i * N + j] = s;
}
""")

# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def multiply_numba(A, B, C):
    j, i = cuda.grid(2)
    (M, K), N = A.shape, B.shape[1]
    if i >= M or j >= N:
        return
    s = np.float32(0)  # a plain 0.0 has 64 bits, and so would the sum
    for k in range(K):
        s += A[i, k] * B[k, j]
    C[i, j] = s


# %% [markdown]
# Two loads stand beside every multiply-add. If each of them had to come from device memory, the
# {{ far.gigabytes | .0f }} GB would take {{ far.us | us }} at the GPU's peak bandwidth, and the
# arithmetic takes {{ far.arithmetic_us | us }}. Caches will catch a part. But what a kernel asks for
# can be brought down before any cache has to be lucky.

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
# ## The box of products
#
# Draw all $M \cdot N \cdot K$ multiply-adds as a box: one small cube for each $(i, j, k)$. The
# number $A_{ik}$ is needed by a whole line of cubes along $j$, and $B_{kj}$ by a line along $i$. A
# thread that walks along $k$ alone uses each number that it loads once. A block that takes a smaller
# cube of the box, $T$ in each direction, needs $T^2$ numbers of $A$ and $T^2$ of $B$ for $T^3$
# multiply-adds. It can load each of them once, keep them in shared memory, and use each $T$ times:
# that is reuse, and the $T \times T$ piece of a matrix is a tile. Step through the box and watch
# what is read.
#
# ??? definition "Reuse | reused"
#     Using a number that was loaded once for more than one operation. Loads fall by the factor by
#     which it is reused.

# %% fold="Code of the figure"
SIDE, EDGE = 4, 2


def box_of_products():
    """Every step of the tiled product of 4-square matrices in tiles of 2: what is loaded, what is multiplied."""
    generator = np.random.default_rng(5)
    A, B = (generator.integers(1, 6, (SIDE, SIDE)).astype(float) for _ in "AB")
    C = np.zeros((SIDE, SIDE))
    steps = SIDE // EDGE
    loaded = 0
    states = [
        State(
            "Nothing is loaded, and all sums are 0.",
            values={"numbers loaded": 0.0, "multiply-adds": 0.0},
            arrays={"A": A, "B": B, "C": C.copy()},
            threads=[],
        )
    ]
    done = 0
    for row, column, depth in np.ndindex(steps, steps, steps):
        i, j, k = (slice(at * EDGE, at * EDGE + EDGE) for at in (row, column, depth))
        used = {name: np.zeros((SIDE, SIDE), bool) for name in "AB"}
        used["A"][i, k] = used["B"][k, j] = True
        loaded += 2 * EDGE**2
        done += EDGE**3
        C[i, j] += A[i, k] @ B[k, j]
        block = (depth * steps + row) * steps + column
        states.append(
            State(
                f"Block ({row}, {column}), step {depth}: a tile of A and a tile of B, {2 * EDGE**2} numbers, "
                f"serve {EDGE**3} multiply-adds.",
                values={"numbers loaded": float(loaded), "multiply-adds": float(done)},
                arrays={"A": A, "B": B, "C": C.copy()},
                reads=used,
                threads=range(block * EDGE**3, (block + 1) * EDGE**3),
            )
        )
    check(C, A @ B, rtol=0.0, name="the product, tile by tile")
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
        title="Each small cube of the box needs one tile of A and one of B and adds to one of C",
        caption="The 64 multiply-adds of a product of 4-square matrices, one small cube each, in tiles of 2. Lit: what the step multiplies. Read in A and B: its two tiles. A model with small numbers.",
        alt="A box of 4 by 4 by 4 multiply-adds, cut into eight cubes of 2 by 2 by 2. Each step lights one cube, reads one tile of A and one of B and adds to one tile of C.",
    )
)

# %% [markdown]
# ## The tiled product
#
# A block of $T \times T$ threads computes a tile of $C$. In each step of its walk along $K$ every
# thread loads one number of $A$ and one of $B$ into shared memory, the block meets, every thread
# multiplies a row of the one tile with a column of the other, and the block meets again. Where a tile
# sticks out over a matrix, the thread puts a zero, which adds nothing to a sum. It must not return
# early, for others wait at the barrier.
#
# ??? question "Is a tile loaded again for every product in which it appears?"
#     Not by its block. A drawing that lists each product with its two factors names the same number
#     several times; it is loaded once a step, and the other times it is read from shared memory.
#     Other blocks do load it again: every block to the left and right of this one needs the same
#     tiles of $A$, every one above and below the same tiles of $B$. That is why a larger tile loads
#     less.

# %%
T = 32


# %% tab="Pseudocode"
def multiply_tiled(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, T):
        for columns in tiles(N, T):  # each pair is a block
            s = np.zeros((len(rows), len(columns)))
            for ks in tiles(K, T):
                # [fetch
                a, b = {}, {}
                for i, k in parallel(len(rows), len(ks)):
                    a[i, k] = A[rows[i], ks[k]]
                for k, j in parallel(len(ks), len(columns)):
                    b[k, j] = B[ks[k], columns[j]]
                # fetch]
                # [multiply
                for i, j in parallel(len(rows), len(columns)):
                    for k in range(len(ks)):
                        s[i, j] += a[i, k] * b[k, j]
                # multiply]
            for i, j in parallel(len(rows), len(columns)):
                C[rows[i], columns[j]] = s[i, j]


# %% tab="CUDA C"
MULTIPLY_TILED = Kernel(
    r"""
extern "C" __global__
void multiply_tiled(const float* A, const float* B, float* C,
                    int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * T + y, j = blockIdx.x * T + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        // [fetch
        a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();  // both tiles are there
        // fetch]
        // [multiply
        for (int k = 0; k < T; ++k) s += a[y][k] * b[k][x];
        __syncthreads();  // nobody needs them any more
        // multiply]
    }
    if (i < M && j < N) C[i * N + j] = s;
}
""",
    defines={"T": 32},
)


# %% tab="Numba" needs="numba"
W = 8  # 64 threads, since Numba's simulator makes each of them a thread of Python


@cuda.jit
def multiply_tiled_numba(A, B, C):
    a = cuda.shared.array((W, W), np.float32)
    b = cuda.shared.array((W, W), np.float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.grid(2)
    (M, K), N = A.shape, B.shape[1]
    s = np.float32(0)
    for k0 in range(0, K, W):
        # [fetch
        a[y, x] = A[i, k0 + x] if i < M and k0 + x < K else np.float32(0)
        b[y, x] = B[k0 + y, j] if k0 + y < K and j < N else np.float32(0)
        cuda.syncthreads()  # both tiles are there
        # fetch]
        # [multiply
        for k in range(W):
            s += a[y, k] * b[k, x]
        cuda.syncthreads()  # nobody needs them any more
        # multiply]
    if i < M and j < N:
        C[i, j] = s


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def tile_of_product(A, B, C, M, N, K, T: tl.constexpr):
    i = tl.program_id(1) * T + tl.arange(0, T)[:, None]
    j = tl.program_id(0) * T + tl.arange(0, T)[None, :]
    s = tl.zeros((T, T), tl.float32)
    for k0 in range(0, K, T):
        # [fetch
        k = k0 + tl.arange(0, T)
        across, down = k[None, :], k[:, None]
        a = tl.load(A + i * K + across, mask=(i < M) & (across < K), other=0.0)
        b = tl.load(B + down * N + j, mask=(down < K) & (j < N), other=0.0)
        # fetch]
        # [multiply
        s += tl.dot(a, b, input_precision="ieee")  # FP32 throughout
        # multiply]
    tl.store(C + i * N + j, s, mask=(i < M) & (j < N))


def multiply_tiled_triton(A, B, C, M, N, K):
    grid = (triton.cdiv(N, 32), triton.cdiv(M, 32))
    tile_of_product[grid](A, B, C, M, N, K, T=32)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def multiply_torch(A, B, C):
    torch.matmul(A, B, out=C)


# %% [markdown]
# Numba's kernel is the one in CUDA C, line by line. \Triton's has neither shared memory nor
# barriers: it says which tile is loaded and multiplied, and the compiler decides where the tile lies
# and who waits for whom.

# %% [markdown]
# All are compared on sizes that divide nothing, such as 37 × 29 times 29 × 41.


# %% fold="Code of the checks"
def product(M, N, K, edge=None):
    """A product with a block for each edge by edge tile of the result; without edge, 32 by 8 elements."""
    width, height = (edge, edge) if edge else (32, 8)
    return case(
        A=normal(M, K),
        B=normal(K, N, scale=K**-0.5),  # so that results have a standard deviation of 1
        C=output(M, N),
        M=M,
        N=N,
        K=K,
        grid=(ceil_div(N, width), ceil_div(M, height)),
        block=(width, height),
    )


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
for edge in (8, 16):
    arrays = product(37, 41, 29).make()
    tiled(edge).on(product(37, 41, 29, edge=edge)).run(arrays)
    check(arrays["C"], arrays["A"] @ arrays["B"], **near, name=f"37 × 29 times 29 × 41 in tiles of {edge}")

# %% [markdown]
# Again in small numbers, line by line: two 8-square matrices, tiles of 4, the first of four blocks. Watch
# the line that multiplies: a thread reads along its row of `a` and down its column of `b`, and so do
# the others of its row and column. That is where each number is used four times.

# %% fold="Code of the figure"
small = tiled(4).on(product(8, 8, 8, edge=4))
show(
    stepped(
        small.simulate(trace=Trace(blocks=[0])),
        launch=small,
        extent=(8, 8),
        axes=("j", "i"),
        start=2,
        title="Sixteen threads fill two tiles, meet, and read every number of them four times",
        caption="The tiled product of 8-square matrices in tiles of 4, block (0, 0), as the simulator ran it.",
    )
)

# %% [markdown]
# ## Two barriers
#
# The first barrier keeps a thread from reading places that others have not filled. The second keeps
# a fast thread, of another warp or of the same, from filling the next tiles while a slow one still
# reads these. Leave out either, and the simulator says where.

# %%
NO_FIRST_BARRIER = Kernel(r"""
extern "C" __global__
void multiply_tiled(const float* A, const float* B, float* C,
                    int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        for (int k = 0; k < 16; ++k)
            s += a[y][k] * b[k][x];  // hazard: is b there yet?
        __syncthreads();
    }
    if (i < M && j < N) C[i * N + j] = s;
}
""")

NO_SECOND_BARRIER = Kernel(r"""
extern "C" __global__
void multiply_tiled(const float* A, const float* B, float* C,
                    int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        b[y][x] =  // hazard: does another thread still read b?
            k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) s += a[y][k] * b[k][x];
    }
    if (i < M && j < N) C[i * N + j] = s;
}
""")

# %% fold="Code of the checks"
broken = product(32, 32, 32, edge=16)
expect_hazard(NO_FIRST_BARRIER.on(broken), "uninitialised", line_with="is b there yet?")
expect_hazard(NO_SECOND_BARRIER.on(broken), "race", line_with="does another thread still read b?")

# %% [markdown]
# ## Loads that fall with the tile
#
# The walk along $K$ has $K/T$ steps, and in each of them a block loads $2T^2$ numbers for its $T^2$
# sums. In all that is $2MNK/T$ in place of $2MNK$. A puzzle in small numbers: a product of two 4 × 4
# matrices. Element by element it takes {{ puzzle.one }} loads, in tiles of 2 it takes
# {{ puzzle.two }}, and in one tile of 4 each number is loaded once, {{ puzzle.four }} in all.[^count]
#
# [^count]: 128 operations on 128, 64 or 32 loads: 1, 2 or 4 operations a load. Some call 2 the best
#     there is; that is the best for tiles of 2. Divide by the 4 bytes of a number for FLOP a byte.


# %% fold="Code of the figure"
def loads_of(n, edge):
    """Numbers that lanes load from global memory, and sectors, by the simulator; edge 1: no tiles."""
    launch = MULTIPLY.on(product(n, n, n)) if edge == 1 else tiled(edge).on(product(n, n, n, edge=edge))
    loads = launch.simulate().counts.global_load
    return loads.lane_accesses, loads.sectors


puzzle = {edge: loads_of(4, edge)[0] for edge in (1, 2, 4)}
publish(puzzle={"one": puzzle[1], "two": puzzle[2], "four": puzzle[4]})
EDGES = (1, 2, 4, 8, 16, 32)
for n in (32, 64, 96):
    found = [loads_of(n, edge)[0] for edge in EDGES]
    check(found, [2 * n**3 // edge for edge in EDGES], name=f"loads of a product of {n}: 2n³ / T")
COUNTED = {edge: loads_of(64, edge) for edge in EDGES}
show(
    line_chart(
        [
            Series("loads by lanes", EDGES, [COUNTED[1][0] / COUNTED[e][0] for e in EDGES], role="read"),
            Series("sectors", EDGES, [COUNTED[1][1] / COUNTED[e][1] for e in EDGES], role="global"),
            Series("T", EDGES, EDGES, role="predicted", marks=False),
        ],
        x="edge of the tile T",
        y="times fewer than without tiles",
        log_x=True,
        log_y=True,
        title="Loads fall by the edge of the tile; sectors follow later and not as far",
        caption="A product of 64-square matrices on the simulator: what lanes load from global memory, and sectors asked for, without tiles divided by with tiles.",
    )
)
publish(
    fewer={
        "loads_32": COUNTED[1][0] / COUNTED[32][0],
        "sectors_32": COUNTED[1][1] / COUNTED[32][1],
        "sectors_2": COUNTED[2][1] / COUNTED[1][1],
        "naive_step": 5 * 32,
        "tiled_step": 8,
    }
)

# %% [markdown]
# Loads fall by $T$, to the digit. Sectors do not, and for a reason that speaks for the first kernel:
# a warp already shares. Its 32 lanes need one number of $A$, one sector, and a row of $B$, four. Over
# 32 values of $k$ that is {{ fewer.naive_step }} sectors. With $T$ = 32 a warp loads one row of either
# tile in that time, {{ fewer.tiled_step }} sectors, {{ fewer.sectors_32 | .0f }} times fewer. And
# tiles of 2 ask for {{ fewer.sectors_2 | .2f }} times *as many* sectors as no tiles at all: rows of
# two numbers fill a quarter of a sector.

# %% [markdown]
# ## What the tile does not change
#
# The numbers that are not loaded from global memory any more are read from shared memory instead:
# still two for each multiply-add. Shared memory serves one request of a warp a cycle, if its banks do
# not conflict, and they do not: the lanes read one word of `a`, or two, and neighbours of `b`. The SM
# could issue four multiply-adds of warps in that cycle. So an SM that needs two requests for each
# runs at an eighth of its peak. The compiler can help: it unrolls the loop and reads four neighbours
# of a row of `a` in one request of 16 bytes. That makes five requests for four multiply-adds.
#
# ??? definition "Shared-memory budget"
#     How much shared memory a block may take: it limits the tiles that a block can hold and how many
#     blocks are resident.

# %% fold="Code of the prediction"
WARP_FMAS = BIG**3 / 32
ISSUE_PER_US = GPU.sms * GPU.boost_mhz
SHARED_US = {"two": 2 * WARP_FMAS / ISSUE_PER_US, "merged": 1.25 * WARP_FMAS / ISSUE_PER_US}
publish(
    predicted={
        "two_us": SHARED_US["two"],
        "merged": 1.25,
        "merged_us": SHARED_US["merged"],
        "merged_share": 2 * BIG**3 / FLOP_PER_S * 1e6 / SHARED_US["merged"],
        "memory_8_us": far_bytes / 8 / PEAKS.memory_gb_per_s / 1e3,
        "memory_32_us": far_bytes / 32 / PEAKS.memory_gb_per_s / 1e3,
    }
)

# %% [markdown]
# One bound and two estimates, then, for {{ ask.n | , }} rows and columns. The bound is the arithmetic at its peak
# (data sheet): {{ far.arithmetic_us | us }}.
# Loads from device memory, if no cache helped: {{ predicted.memory_8_us | us }} at $T$ = 8 and
# {{ predicted.memory_32_us | us }} at $T$ = 32. Shared memory: {{ predicted.two_us | us }} with two
# requests for a multiply-add, {{ predicted.merged_us | us }} with merged ones,
# {{ predicted.merged_share | .0% }} of the peak. The prediction is the last of them, for every $T$
# that memory does not hold back longer. The library knows more than tiles; what, is the next lesson.


# %% fold="Code of the measurement"
def cublas(arrays):
    import cupy

    A, B, C = (arrays[name] for name in "ABC")
    return lambda: cupy.matmul(A, B, out=C)


def in_tiles(edge):
    return lambda n: tiled(edge).on(product(n, n, n, edge=edge))


FEWER_SECTORS = (1 + 4) * 32 / 8  # for 32 values of k: a number of A and a row of B each, against two rows
product_rows = measure(
    "tiled_product",
    variants={"no tiles": lambda n: MULTIPLY.on(product(n, n, n))}
    | {f"T = {edge}": in_tiles(edge) for edge in (8, 16, 32)},
    cases=[{"n": 1024}, {"n": BIG}],
    count_case={"n": 128},
    bytes=lambda n: 3 * 4 * n * n,
    flop=lambda n: 2 * n**3,
    library={"cuBLAS": cublas},
    reference=matrix_product,
    tolerance=1e-4,
    counts=("requests", "sectors", "wavefronts"),
    reasons={"*": "What the tile does not change"},
    guess=Guess(
        "How many times as fast is the product in tiles of 32 as without tiles, at n = 4,096?",
        of="T = 32",
        over="no tiles",
        at={"n": BIG},
        between=(1.0, 40.0),
        models={"by loads": 32.0, "by sectors": FEWER_SECTORS},
        because="Both kernels read two numbers for each multiply-add, the one through L1 and the other from shared memory.",
    ),
)


# %% fold="Code of the numbers"
check(FEWER_SECTORS, COUNTED[1][1] / COUNTED[32][1], rtol=0.0, name="sectors by formula and by count")
US = medians_us(product_rows, "n")
NAIVE_US, TILED_US = US["no tiles", BIG], US["T = 32", BIG]
publish(
    seen={
        "gain": NAIVE_US / TILED_US,
        "gain_16": NAIVE_US / US["T = 16", BIG],
        "gain_8": NAIVE_US / US["T = 8", BIG],
        "naive_us": NAIVE_US,
        "tiled_us": TILED_US,
        "times_predicted": TILED_US / SHARED_US["merged"],
        "cublas_share": US["cuBLAS", BIG] / TILED_US,
    }
)

# %% [markdown]
# Tiles of 32 take {{ seen.tiled_us | us }} in place of {{ seen.naive_us | us }}. That is
# {{ seen.gain | .2f }} times as fast, where loads fall {{ fewer.loads_32 | .0f }} times: of what the
# first kernel asked for the caches had caught most. Tiles of 16 gain {{ seen.gain_16 | .2f }}, and tiles
# of 8 are slower than none, at {{ seen.gain_8 | .2f }}; that barriers come after every eighth
# multiply-add may be why, and is not shown
# here. Tiles of 32 reach {{ seen.cublas_share | .0% }} of cuBLAS's rate.[^reload]
#
# [^reload]: A tile of $A$ is loaded again by every block in its row of blocks, $N/T$ of them: threads
#     of different blocks share nothing. Once it lies in shared memory each of its numbers is read
#     $T$ times there, $N$ times in all blocks together. Could the next tiles be fetched while these
#     are multiplied? Yes, into a second pair of places; that comes with the next lesson.

# %% [markdown]
# The prediction of {{ predicted.merged_us | us }} was too short by a factor of
# {{ seen.times_predicted | .2f }}.
#
# A part of it the H100's counters show, in Kernel 5 below, which has the same loop:
# {{ fifth_seen.passes | .2f }} passes for a multiply-add in place of {{ predicted.merged | .2f }}. So a
# request of 16 bytes takes two passes, though all lanes ask for the same place. That makes
# {{ passes.us | us }}. The rest, a factor of {{ passes.times | .2f }}, is in none of these counts.

# %% [markdown]
# ## The edge a tile would need
#
# Two tiles of $T^2$ numbers bring $2T^3$ operations for $8T^2$ bytes: $T/4$ FLOP a byte. At $T$ = 32
# that is {{ edge.at_32 | .0f }}, and the GPU's ridge lies at {{ edge.ridge | .0f }}: a tile has
# to be {{ edge.needed | .0f }} numbers wide before even a kernel that no cache helps is compute-bound.
# The tile's rows and columns count, its depth along $k$ does not: it cancels, and only costs shared
# memory. Move the sliders.


# %% fold="Code of the figure"
RIDGE = FLOP_PER_S / PEAKS.memory_gb_per_s / 1e9


def of_edges(rows, columns, depth):
    """Intensity of a block's tile against device memory, numbers loaded for each multiply-add, and bytes held."""
    intensity = 2 * rows * columns / (4 * (rows + columns))
    loads = (rows + columns) / (rows * columns)
    shared = 4 * depth * (rows + columns)
    verdict = "Compute-bound even without a cache." if intensity >= RIDGE else "Caches have to help."
    return Answer([intensity, loads, shared / 1024, rows * columns / 1024], verdict)


show(
    calculator(
        [
            Slider("rows", [4, 8, 16, 32, 64, 128, 256], 32),
            Slider("columns", [4, 8, 16, 32, 64, 128, 256], 32),
            Slider("depth", [8, 16, 32, 64], 32),
        ],
        of_edges,
        meters=[
            Meter("intensity, FLOP/B", 64, "", "predicted", ".1f"),
            Meter("loads a multiply-add", 0.5, "", "read", ".3f"),
            Meter("shared memory, KB", 128, "", "shared", ".1f"),
            Meter("sums a thread, of 1,024", 64, "", "registers", ".2f"),
        ],
        title="Rows and columns of a tile buy intensity; depth only costs shared memory",
        caption="A block that computes a tile of so many rows and columns of the result, in steps of a depth along k. The last meter: results for each thread of the largest block. A model.",
    )
)
publish(edge={"at_32": 32 / 4, "ridge": RIDGE, "needed": np.ceil(4 * RIDGE)})

# %% [markdown]
# A block has at most 1,024 threads, so with one result a thread $T$ ends at 32. Wider tiles need
# threads with several results each, and that turns out to help against the other bound, shared
# memory, as well.

# %% [markdown]
# ## Kernel 5: attention in tiles
#
# Attention has two products, $QK^\top$ and $PV$. The second is the kernel above. In the first, both
# matrices are stored along $k$, so column $j$ of $K^\top$ is row $j$ of $K$. A block loads a tile of
# rows of $K$, coalesced like one of $Q$, and reads it along its rows. There the lanes of a warp, which
# stand along $j$, read down a column of the tile: all in one bank, unless the rows are padded by one
# word.


# %% tab="Pseudocode"
def scores_tiled(Q, K, S, scale):
    N, d = Q.shape
    for queries in tiles(N, T):
        for keys in tiles(N, T):
            s = np.zeros((len(queries), len(keys)))
            for ks in tiles(d, T):
                q, rows_of_K = Q[np.ix_(queries, ks)], K[np.ix_(keys, ks)]
                for i, j in parallel(len(queries), len(keys)):
                    for k in range(len(ks)):
                        s[i, j] += q[i, k] * rows_of_K[j, k]
            for i, j in parallel(len(queries), len(keys)):
                S[queries[i], keys[j]] = s[i, j] * scale


# %% tab="CUDA C"
SCORES_TILED = Kernel(r"""
extern "C" __global__
void scores_tiled(const float* Q, const float* K, float* S,
                  int N, int d, float scale) {
    __shared__ float q[32][32], rows_of_K[32][33];  // New: padded rows
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 32 + y, j0 = blockIdx.x * 32;
    float s = 0.0f;
    for (int k0 = 0; k0 < d; k0 += 32) {
        bool inside = k0 + x < d;
        q[y][x] = i < N && inside ? Q[i * d + k0 + x] : 0.0f;
        rows_of_K[y][x] = j0 + y < N && inside ? K[(j0 + y) * d + k0 + x] : 0.0f;
        __syncthreads();  // both tiles are there
        for (int k = 0; k < 32; ++k) s += q[y][k] * rows_of_K[x][k];
        __syncthreads();  // nobody needs them any more
    }
    if (i < N && j0 + x < N) S[i * N + j0 + x] = s * scale;
}
""")

# %% [markdown]
# Softmax takes a warp for each row, as a variant of Kernel 4 did: its lanes go through the row side by
# side and combine their maxima, then their sums, by shuffles.


# %% tab="Pseudocode"
def softmax_by_warp(S, P):
    N = len(S)
    for i in parallel(N):
        m = max(S[i])
        z = sum(np.exp(S[i] - m))
        for j in parallel(N):
            P[i, j] = np.exp(S[i, j] - m) / z


# %% tab="CUDA C"
SOFTMAX_BY_WARP = Kernel(r"""
extern "C" __global__
void softmax_by_warp(const float* S, float* P, int N) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= N) return;  // a whole warp, or none of it
    float m = -INFINITY, z = 0.0f;
    for (int j = lane; j < N; j += 32) m = fmaxf(m, S[i * N + j]);
    for (int hop = 16; hop > 0; hop /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, hop));
    for (int j = lane; j < N; j += 32) z += expf(S[i * N + j] - m);
    for (int hop = 16; hop > 0; hop /= 2)
        z += __shfl_xor_sync(0xffffffff, z, hop);
    for (int j = lane; j < N; j += 32) P[i * N + j] = expf(S[i * N + j] - m) / z;
}
""")


# %% [markdown]
# The weighted sum is the tiled product with the names of attention.

# %% fold="The kernel of the weighted sum"
WEIGHTED_SUM_TILED = Kernel(r"""
extern "C" __global__
void weighted_sum_tiled(const float* P, const float* V, float* O,
                        int N, int d) {
    __shared__ float p[32][32], v[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 32 + y, c = blockIdx.x * 32 + x;
    float o = 0.0f;
    for (int j0 = 0; j0 < N; j0 += 32) {
        p[y][x] = i < N && j0 + x < N ? P[i * N + j0 + x] : 0.0f;
        v[y][x] = j0 + y < N && c < d ? V[(j0 + y) * d + c] : 0.0f;
        __syncthreads();  // both tiles are there
        for (int j = 0; j < 32; ++j) o += p[y][j] * v[j][x];
        __syncthreads();  // nobody needs them any more
    }
    if (i < N && c < d) O[i * d + c] = o;
}
""")


# %% fold="Code of the checks"
def attention(N, d):
    """One head, with room for scores and probabilities."""
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    written = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    return case(**inputs, **written, N=N, d=d, scale=d**-0.5, grid=1, block=1)


def kernel_5(N, d):
    """The three launches of Kernel 5, in the order in which the stream runs them."""
    inputs, rows = attention(N, d), ceil_div(N, 32)
    return [
        SCORES_TILED.on(inputs, grid=(rows, rows), block=(32, 32)),
        SOFTMAX_BY_WARP.on(inputs, grid=ceil_div(N, 8), block=256),
        WEIGHTED_SUM_TILED.on(inputs, grid=(ceil_div(d, 32), rows), block=(32, 32)),
    ]


def attended(Q, K, V, scale):
    """Every array that the steps write, in 64-bit floats."""
    S = scale * Q @ K.T
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    return {"S": S, "P": P, "O": P @ V}


def scores(N, d):
    grid = (ceil_div(N, 32), ceil_div(N, 32))
    return case(
        Q=normal(N, d), K=normal(N, d), S=output(N, N), N=N, d=d, scale=d**-0.5, grid=grid, block=(32, 32)
    )


def rows_of(N, scale=3.0):
    return case(S=normal(N, N, scale=scale), P=output(N, N), N=N, grid=ceil_div(N, 8), block=256)


agree(scores_tiled, SCORES_TILED, [scores(37, 41), scores(65, 7)], **near)
agree(softmax_by_warp, SOFTMAX_BY_WARP, [rows_of(37), rows_of(70), rows_of(21, scale=90.0)], **near)

arrays = attention(77, 45).make()
for launch in kernel_5(77, 45):
    launch.simulate(arrays=arrays)
inputs = {name: np.float64(arrays[name]) for name in ("Q", "K", "V", "scale")}
check(arrays["O"], attended(**inputs)["O"], rtol=1e-4, atol=1e-5, name="Kernel 5 against 64-bit NumPy")

# %% [markdown]
# The prediction counts requests to shared memory. Each of the two products has
# {{ fifth.fma_1e6 | .0f }} million multiply-adds. The weighted sum needs five requests for four of
# them, as above. In the scores both tiles lie along $k$, so both could be read in pieces of 16 bytes,
# were it not for the padding: rows of 33 words are aligned to nothing wider than a word. One request
# for each number of $K$ and a quarter for $Q$, then, as in the weighted sum. Together that is
# {{ fifth.products_us | us }}. Softmax reads three times and writes once, {{ fifth.megabytes | .0f }} MB
# a time, mostly to and from L2, and at the memory's rate would take {{ fifth.softmax_us | us }}.


# %% fold="Code of the prediction"
N_BIG, D_BIG = 1024, 128
fifth_fma = N_BIG**2 * D_BIG
products_us = 2 * 1.25 * fifth_fma / 32 / ISSUE_PER_US
softmax_us = 4 * 4 * N_BIG**2 / PEAKS.memory_gb_per_s / 1e3
lane_loads = [launch.simulate().counts.global_load.lane_accesses for launch in kernel_5(64, 64)]
check(lane_loads[0] + lane_loads[2], 2 * 2 * 64**3 // 32, name="loads of both products, N = d = 64")


def blocks_of(N):
    rows = ceil_div(N, T)
    return rows * rows, rows * ceil_div(D_BIG, T)


publish(
    fifth={
        "fma_1e6": fifth_fma / 1e6,
        "products_us": products_us,
        "softmax_us": softmax_us,
        "megabytes": 4 * N_BIG**2 / 1e6,
        "all_us": products_us + softmax_us,
        "sum_blocks": blocks_of(N_BIG)[1],
        "small_blocks": " and ".join(map(str, blocks_of(256))),
        "sms": GPU.sms,
    }
)

# %% fold="Code of the measurement"
tiled_attention = measure(
    "attention_tiled",
    variants={"Kernel 5: tiles": kernel_5},
    cases=[{"N": 256, "d": 128}, {"N": N_BIG, "d": D_BIG}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    reference=attended,
    tolerance=1e-4,
    reasons={"*": "Kernel 5: attention in tiles"},
)

steps = measure(
    "attention_tiled_steps",
    variants={
        "scores": lambda N, d: kernel_5(N, d)[:1],
        "scores, softmax": lambda N, d: kernel_5(N, d)[:2],
        "scores, softmax, sum": kernel_5,
    },
    cases=[{"N": N_BIG, "d": D_BIG}],
    count_case={"N": 64, "d": 32},
    reference=attended,
    tolerance=1e-4,
    fold="All three rows",
)


# %% fold="Code of the table"
def between(times_us, names):
    """The times of steps that were recorded one more at a time."""
    return dict(zip(names, np.diff([0.0, *times_us]), strict=True))


THIRD = ("turn", "turn_scores", "turn_scores_softmax", "turn_scores_softmax_sum")
UNTIL_3 = [recorded(f"attention_coalesced_steps.{slug}.n_1024_d_128.median") for slug in THIRD]
third_us = between(UNTIL_3, ("turn", "scores", "softmax", "sum"))
step_us = between(medians_us(steps).values(), ("scores", "softmax", "sum"))
estimate_us = {"scores": products_us / 2, "softmax": None, "sum": products_us / 2}
show(
    Table(
        ["step", "Kernel 3, µs", "Kernel 5, µs", "estimate by passes, µs"],
        [[name, third_us[name], step_us[name], us] for name, us in estimate_us.items()],
        caption="The steps at N = 1024, d = 128, recorded on an {machine} as the difference between two rows. Kernel 3 turned its arrays instead of tiling them.",
    )
)
VERSIONS = (
    ("Kernel 1: one thread", "ten loops in one thread", "attention_one_thread"),
    ("Kernel 2: three kernels", "five independent loops are axes", "attention_three_kernels"),
    ("Kernel 3: coalesced", "lanes along the queries, three arrays turned", "attention_coalesced"),
    (
        "Kernel 4: reduced by blocks",
        "rows of softmax and keys of the sum shared by a block",
        "attention_reduced",
    ),
    ("Kernel 5: tiles", "both products in tiles of 32", "attention_tiled"),
    ("torch, three operations", "library", "attention_three_kernels"),
)
show(
    Table(
        ["version", "what is new", "N = 256, µs", "N = 1024, µs"],
        [
            [name, what, *(None if np.isnan(us) else us for us in times)]
            for name, what, record in VERSIONS
            for slug in [f"{record}.{name_slug(name)}"]
            for times in [[recorded(f"{slug}.n_{N}_d_128.median") for N in (256, 1024)]]
        ],
        caption="Attention so far: 32-bit floats, one head, d = 128, on an {machine}. One thread is not timed at N = 1024.",
    )
)
FIFTH_US = medians_us(tiled_attention, "N")["Kernel 5: tiles", 1024]
counted = next((row["counted"] for row in tiled_attention.rows if row["counted"]), None) or {}
FIFTH_PASSES = counted.get("shared_load_wavefronts", np.nan) / (2 * 64 * 64 * 32 / 32)
PASSES_US = FIFTH_PASSES * WARP_FMAS / ISSUE_PER_US
publish(
    passes={"us": PASSES_US, "times": TILED_US / PASSES_US},
    fifth_seen={
        "us": FIFTH_US,
        "times": UNTIL_3[-1] / FIFTH_US,
        "passes": FIFTH_PASSES,
        "passes_us": FIFTH_PASSES * 2 * fifth_fma / 32 / ISSUE_PER_US,
        "products_us": step_us["scores"] + step_us["sum"],
    },
)

# %% [markdown]
# Kernel 5 takes {{ fifth_seen.us | us }} against a prediction of {{ fifth.all_us | us }}. It is
# {{ fifth_seen.times | .1f }} times as fast as Kernel 3, and needs no turned copies. But the products take
# {{ fifth_seen.products_us | us }}.
#
# By the H100's counters passes are {{ fifth_seen.passes | .2f }} for a multiply-add here, too, which makes
# {{ fifth_seen.passes_us | us }}.
#
# And there are few blocks: the weighted sum has
# {{ fifth.sum_blocks }}, one for an SM, and while it loads nobody multiplies. At N = 256 the two products
# have {{ fifth.small_blocks }} blocks for {{ fifth.sms }} SMs, and Kernel 4 is faster.

# %% [markdown]
# ## The answer
#
# {{ ask.n | , }} times each number is needed, and with tiles of 32 it is loaded
# {{ answer.loads }} times: {{ fewer.loads_32 | .0f }} times fewer loads, as counted. The product is
# {{ seen.gain | .2f }} times as fast, for what was read through L1 is now read from shared memory, two
# numbers for each multiply-add as before.

# %% fold="Code of the numbers"
publish(answer={"loads": BIG // 32})

# %% [markdown]
# ## Takeaways
#
# - A block that works on a tile of the result loads each number of two tiles once and uses it $T$
#   times: loads fall by $T$, to the digit.
# - Sectors fall less, because lanes of a warp share already without tiles, and tiles narrower than a
#   sector ask for more.
# - Two barriers a step: one before the tiles are read, one before they are overwritten.
# - Zeros where a tile sticks out make every size right; returning early would leave holes in the tiles.
# - Intensity grows with the edge, $T/4$ FLOP a byte. Reads from shared memory do not shrink: still
#   two numbers for each multiply-add, and their passes are most of this kernel's time.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

TALL = r"""
extern "C" __global__
void multiply_tall(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[32][17], b[16][16];  // a tile of 32 by 16 results, two a thread
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
UPPER_HALF_ONLY = Kernel(r"""
extern "C" __global__
void multiply_tall(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][17], b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * 32 + y, j = blockIdx.x * 16 + x;
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
""")
ONE_GUARD_FOR_BOTH = Kernel(
    TALL.replace("i < M && inside", "inside")
    .replace("i + 16 < M && inside", "inside")
    .replace("bool inside = k0", "bool inside = i + 16 < M && k0")
)


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
    "Two results a thread",
    """
    Blocks of 16 × 16 threads are to compute tiles of 32 rows and 16 columns of C: each thread two results, 16 rows
    apart. Write `multiply_tall(A, B, C, M, N, K)`, launched with a block for every such tile. First say how many numbers are
    loaded in all. The tests compare every result, at sizes that divide nothing, and count loads: each number of A may be
    loaded once for every 16 columns, each of B once for every 32 rows.
    """,
    answer=TWO_RESULTS,
    tests=tall_tests,
    wrong=[LOADS_TWICE, UPPER_HALF_ONLY, ONE_GUARD_FOR_BOTH],
    hint="Load two numbers of A and one of B in each step; the number of B that a thread reads serves both of its sums.",
)

# %% [markdown]
# In that exercise a number of $B$, once read from shared memory, serves two sums. That is reuse one
# level further in, in registers, and it is where the remaining factor to the library lies.
