# ---
# title: Shared-memory bank conflicts and the transpose
# needs: [memory/coalescing, memory/barriers]
# summary: "A transpose through shared memory has coalesced reads and writes. How close does it get to a plain copy, and what slows it down?"
# description: "Bank conflicts in shared memory: predicted with one formula, counted, timed and removed. A matrix transpose in seven versions, up to the speed of a copy."
# date: 2026-11-21
# tags: [bank conflicts, shared memory, transpose]
# ---

# %% [markdown]
# Transposing a matrix moves every element once and computes nothing, so it should run at the speed of a
# copy. For {{ turn_model.side | , }} by {{ turn_model.side | , }} floats, a copy takes
# {{ ways_model.copy_us | us }}. PyTorch's `B.copy_(A.T)` takes {{ transposes.torch.median | us }}. How close to
# the copy can a transpose get?
#
# The fastest way is through shared memory, where the obstacle is *bank conflicts*. Expect them wherever a kernel writes
# a tile by rows and reads it by columns, including in matrix multiplication and attention.

# %% [markdown]
# ## Banks and wavefronts
#
# In the [tree reduction](barriers.py), shared memory served all lanes of a warp at once. That isn't always possible.
# Shared memory is divided into 32 *banks*, and the 4-byte word `w` is in bank `w % 32`. A single load or store
# instruction executed by a warp is called a *request*. In one *wavefront*, one trip through the shared-memory pipe,
# each bank reads or writes one word. If several lanes need different words from the same bank, the request needs one
# wavefront for each of those words. That's a *bank conflict*. Lanes that read the same word are served by one
# broadcast.
#
# ??? definition "Bank | banks"
#     One of the 32 equal, interleaved modules of shared memory. Each serves one 4-byte word per wavefront.
#
# ??? definition "Wavefront | wavefronts"
#     One trip through the shared-memory pipe, in which each bank serves one word. The number of wavefronts
#     a request needs is the largest number of distinct words it needs from any one bank.
#
# ??? definition "Bank conflict | bank conflicts"
#     A situation in which two or more lanes of one request need different words from the same bank, so
#     the request needs more than one wavefront.

# %% [markdown]
# Try a stride of 12, where lane `t` reads word `12 * t`. Lanes 0 to 7 need banks 0, 12, 24, 4, 16, 28, 8 and
# 20. Lane 8 reads word 96, which is in bank 0 again, and the sequence repeats. Each of these eight banks
# has to serve four lanes, so the load needs four wavefronts.
#
# For any stride of at least one word, the banks repeat after 32 / gcd(stride, 32) lanes, so each bank in use serves
# gcd(stride, 32) lanes:
#
# **wavefronts = gcd(stride, 32)**, the largest power of two, up to 32, that divides the stride.
#
# Every odd stride is therefore free of conflicts. Move the slider: lanes in one column of the map need the
# same bank, so each is served in a wavefront of its own.


# %% fold="Code of the figure"
from math import gcd

import numpy as np

from tilewise import Guess, measure, normal, parallel, publish, show, tiles
from tilewise.figures import Series, bars, heat_map, line_chart
from tilewise.measurements import medians_us, recorded, recorded_device
from tilewise.models import bound, stated

GPU = recorded_device()


def wavefront_of(stride):
    """For each lane and bank, the wavefront in which the bank serves the lane; 0 where it never does."""
    table = np.zeros((32, 32))
    for lane in range(32):
        bank = lane * stride % 32
        table[lane, bank] = np.count_nonzero(table[:, bank]) + 1
    return table


def wavefronts(stride):
    """Wavefronts of a load at a stride: the most lanes that one bank has to serve."""
    return int(wavefront_of(stride).max())


assert [wavefronts(stride) for stride in range(1, 33)] == [gcd(stride, 32) for stride in range(1, 33)]
assert [12 * lane % 32 for lane in range(9)] == [0, 12, 24, 4, 16, 28, 8, 20, 0]

SHOWN = [1, 2, 3, 4, 6, 8, 12, 16, 31, 32, 33]
show(
    heat_map(
        {"wavefront": np.stack([wavefront_of(stride) for stride in SHOWN])},
        steps=SHOWN,
        step_name="stride",
        start=SHOWN.index(2),
        x="bank",
        y="lane",
        role="shared",
        ranges={"wavefront": (0, 1)},
        form=".0f",
        key=False,
        height=520,
        title="A stride of 2 needs two wavefronts; an odd stride needs only one",
        caption="Which bank each of the 32 lanes of a warp reads from at a given stride in words, computed from bank = word % 32. Lanes in one column need the same bank; point at a cell for the wavefront that serves it, lower lanes first.",
        alt="A map of 32 lanes by 32 banks. A coloured cell marks the bank that a lane reads from.",
    )
)

# %% [markdown]
# To measure this, we need a kernel that does little but read shared memory at a given stride. In each
# iteration, a lane sums eight words from a single bank. The next iteration starts one word later, so the
# compiler can't eliminate the loads as redundant.


# %% tab="Pseudocode"
def read_strided(x, out, stride, rounds):
    for i in parallel(len(out)):
        lane = i % 32
        acc = 0
        for r in range(rounds):
            own = x[r % 32 :][lane * stride :]  # from the lane's first word on
            acc += sum(own[::32][:8])  # eight words of one bank
        out[i] = acc


# %% tab="CUDA C"
from tilewise import Kernel

READ_STRIDED = Kernel(r"""
// Each thread adds up words of shared memory, lane t from word t * stride on.
// x: 1,280 words. out: n sums. One-dimensional grid and block, whole warps.
extern "C" __global__
void read_strided(const int* x, int* out, int n, int stride, int rounds) {
    __shared__ int smem[1280];
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 1280; i += blockDim.x) smem[i] = x[i];
    __syncthreads();  // smem is filled
    int acc = 0;
    for (int r = 0; r < rounds; ++r) {
        const int* first = smem + lane * stride + r % 32;
        #pragma unroll
        for (int k = 0; k < 8; ++k) acc += first[32 * k];
    }
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = acc;
}
""")

# %% [markdown]
# Run one warp at a stride of 12.

# %%
x, out = np.ones(1280, np.int32), np.zeros(32, np.int32)
run = READ_STRIDED.simulate(x, out, 32, 12, 1, grid=1, block=32)  # n, stride, rounds
loads = run.counts.shared_load
print(loads.requests, "loads,", loads.wavefronts, "wavefronts")


# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div, constant, integers, output

for stride in range(1, 33):
    run = READ_STRIDED.simulate(x, out, 32, stride, 1, grid=1, block=32)
    assert run.counts.shared_load.wavefronts == gcd(stride, 32) * run.counts.shared_load.requests


def striding(stride, rounds, n, block=1024, x=None):
    return case(
        x=constant(1280, value=1, dtype="int32") if x is None else x,
        out=output(n, dtype="int32"),
        n=n,
        stride=stride,
        rounds=rounds,
        grid=ceil_div(n, block),
        block=block,
    )


words = integers(1280, low=-1000, high=1000)
agree(
    read_strided,
    READ_STRIDED,
    [striding(*how, words) for how in ((1, 3, 77, 64), (7, 5, 50, 32), (32, 33, 101, 96))],
)

# %% [markdown]
# Change the stride and watch the wavefronts of the loads from shared memory. Which strides have no conflict at all?

# %% fold="Code of the run"
from tilewise import try_it

try_it(lambda stride: striding(stride, 1, 32, 32), READ_STRIDED, stride=(1, 12, 32))

# %% [markdown]
# Does the GPU agree? An SM handles one wavefront per cycle, and with 64 warps there's always another load
# ready. Run time should therefore depend only on the number of wavefronts.

# %% fold="Code of the measurement"
STRIDES = range(1, 34)

bank_reads = measure(
    "bank_strides",
    variants={
        f"stride {stride}": lambda n, rounds, stride=stride: READ_STRIDED.on(striding(stride, rounds, n))
        for stride in STRIDES
    },
    cases=[{"n": 264 * 1024, "rounds": 128}],
    count_case={"n": 4 * 1024, "rounds": 2},
    reference=lambda n, rounds: {"out": np.full(n, 8 * rounds)},
    tolerance=0.0,
    counts=("wavefronts",),
    fold="All 33 strides",
)

# %% fold="Code of the figure"
bank_us = list(medians_us(bank_reads).values())
requests = 4 * 32 * 8 * 2  # of the loop, from 128 warps
by_counters = [
    (row["counted"] or {}).get("shared_load_wavefronts", np.nan) / requests for row in bank_reads.rows
]
model = [float(gcd(stride, 32)) for stride in STRIDES]
lines = [Series("gcd(stride, 32)", STRIDES, model, role="predicted", marks=False)]
if np.isfinite(by_counters).all():
    assert by_counters == model, "the text says that the counters agree with the formula"
    lines.append(Series("Nsight Compute", STRIDES, by_counters, role="read", line=False))
if np.isfinite(bank_us).all():
    lines.append(Series("time, stride 1 = 1", STRIDES, [us / bank_us[0] for us in bank_us], line=False))
    assert max(bank_us[::2]) < 1.02 * bank_us[0], "the title says that odd strides have no conflicts"
show(
    line_chart(
        lines,
        x="stride [4-byte words]",
        y="wavefronts per load",
        log_y=True,
        title="Odd strides have no conflicts; a stride of 32 has the most",
        caption="Wavefronts per shared-memory load at strides of 1 to 33 words, from the formula and from Nsight Compute's counter, and the measured time on an {machine} relative to a stride of 1.",
    )
)
LOOP_US = 264 // GPU.sms * 32 * 8 * 128 / GPU.boost_mhz
publish(
    bank_model={"of_32": wavefronts(32), "one_us": LOOP_US},
    bank_seen={"wavefront_us": (bank_us[31] - bank_us[0]) / (wavefronts(32) - 1)},
)

# %% [markdown]
# The GPU agrees. The model predicts {{ bank_model.one_us | us }} for one wavefront per load; in the measurement, each
# additional wavefront adds {{ bank_seen.wavefront_us | us }}.

# %% [markdown]
# ## Transposing through shared memory
#
# With one element per thread and no shared memory, either the reads or the writes of a transpose are uncoalesced.


# %% tab="Pseudocode"
def transpose(A, B):
    R, C = A.shape
    for r, c in parallel(R, C):
        B[c, r] = A[r, c]


# %% tab="CUDA C"
NAIVE_READS = Kernel(r"""
// B = A transposed. A: R x C, row-major; B: C x R, row-major; R * C < 2^31.
// Two-dimensional grid and block that cover C columns (x) and R rows (y).
extern "C" __global__
void transpose_coalesced_reads(const float* A, float* B, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along a row of A
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < R && c < C) B[c * R + r] = A[r * C + c];
}
""")

# %% fold="The other choice: coalesced writes"
NAIVE_WRITES = Kernel(r"""
// As above, but the grid covers R rows (x) and C columns (y).
extern "C" __global__
void transpose_coalesced_writes(const float* A, float* B, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along a row of B
    int c = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < R && c < C) B[c * R + r] = A[r * C + c];
}
""")

# %% [markdown]
# With shared memory, neither needs to be. A block loads a tile of 32 by 32 elements into shared memory row by row,
# synchronises, and then stores it column by column. A column of the tile is a row of the result, so both global
# accesses are coalesced.
#
# ??? definition "Tile | tiles | tiling"
#     A piece of a matrix that is loaded once into fast memory and used there; also the piece of the
#     result that a block computes.

# %%
TILED = Kernel(
    r"""
// B = A transposed. A: R x C, row-major; B: C x R, row-major; any R and C with R * C < 2^31.
// Block: 32 x 8 threads. Grid: ceil(C / 32) x ceil(R / 32) blocks.
extern "C" __global__
void transpose_tiled(const float* A, float* B, int R, int C) {
    __shared__ float tile[32][32 + PAD];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < R && left + x < C)
            tile[y][x] = A[(top + y) * C + left + x];  // a row of the tile
    __syncthreads();  // the tile is complete
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = tile[x][y];  // a column of the tile
}
""",
    defines={"PAD": 0},
)


# %% fold="Pseudocode"
def transpose_tiled(A, B):
    R, C = A.shape
    for rows in tiles(R, 32):
        for columns in tiles(C, 32):
            tile = {}
            for r, c in parallel(len(rows), len(columns)):
                tile[r, c] = A[rows[r], columns[c]]
            for c, r in parallel(len(columns), len(rows)):
                B[columns[c], rows[r]] = tile[r, c]


# %% [markdown]
# ## Padding: one unused word per row
#
# With `PAD` = 0 the rows of the tile are 32 words long, so reading a column means a stride of 32. All its elements are
# in the same bank, and the load takes {{ bank_model.of_32 }} wavefronts. Set `PAD` to 1, and each row gets a 33rd word
# that nobody uses. A column now has a stride of 33, which is odd, so it needs a single wavefront. The first figure shows
# both tiles, at strides 32 and 33: its lanes are the rows of the tile. Mark Harris's article
# [An Efficient Matrix Transpose in CUDA C/C++](https://developer.nvidia.com/blog/efficient-matrix-transpose-cuda-cc/)
# made the trick widely known.
#
# ??? definition "Padding"
#     Unused words at the end of each row, which shift the next row by that many banks.


# %% fold="The padded kernel and code of the checks"
PADDED = Kernel(TILED.source, defines={"PAD": 1})


def transposing(R, C, tile=(32, 8), block=(32, 8), along="read"):
    """A matrix to transpose, one block per tile, lanes along the rows that are read or written."""
    x, y = (C, R) if along == "read" else (R, C)
    grid = (ceil_div(x, tile[0]), ceil_div(y, tile[1]))
    return case(A=normal(R, C), B=output(C, R), R=R, C=C, grid=grid, block=block)


SHAPES = ((5, 3), (77, 50), (36, 68), (130, 64))
agree(transpose, NAIVE_READS, [transposing(R, C) for R, C in SHAPES])
agree(transpose, NAIVE_WRITES, [transposing(R, C, along="written") for R, C in SHAPES])
for kernel in (TILED, PADDED):
    agree(transpose_tiled, kernel, [transposing(R, C, tile=(32, 32)) for R, C in SHAPES])

# %% [markdown]
# ## Swizzling: float4 accesses without padding
#
# Padding has a drawback: `float4` accesses require 16-byte alignment, and most 33-word rows don't have it. A *swizzle*
# permutes the elements within each row instead.
#
# In the next kernel each thread loads a 4 by 4 block of the matrix, transposes it in registers, and stores it to shared
# memory as four `float4`s. Shared memory serves 16-byte accesses at different addresses eight lanes at a time, so each
# of those eight lanes must use a different group of four banks. Thread `(x, y)` of the block therefore stores its four
# `float4`s in slot `y ^ (x % 8)` of their rows, where `^` is exclusive or. With `y` = 1, for example, threads 0 to 7
# use slots 1, 0, 3, 2, 5, 4, 7 and 6: eight different slots. Threads that read the tile apply the same formula.
#
# ??? definition "Swizzle | swizzled"
#     A permutation of the elements within each row of shared memory, different from row to row, that
#     spreads a column over the banks without extra words.

# %%
FLOAT4_64 = Kernel(
    r"""
// B = A transposed. A: R x C, row-major; B: C x R, row-major; both aligned to 16 bytes.
// Any R and C with R * C < 2^31; fast where T divides both. T: 32 or 64, the tile's side.
// Block: T * T / 16 threads. Grid: ceil(C / T) x ceil(R / T), swapped if DOWN is 1.
extern "C" __global__
void transpose_float4(const float* A, float* B, int R, int C) {
    __shared__ float4 tile[T][T / 4];
    int left = T * (DOWN ? blockIdx.y : blockIdx.x);
    int top = T * (DOWN ? blockIdx.x : blockIdx.y);
    int x = threadIdx.x % (T / 4), y = threadIdx.x / (T / 4);
    if (left + T <= C && top + T <= R && R % 4 == 0 && C % 4 == 0) {
        float v[4][4];  // New: a 4 x 4 block per thread, in registers
        #pragma unroll
        for (int r = 0; r < 4; ++r)
            *(float4*)v[r] = *(const float4*)(A + (top + 4 * y + r) * C + left + 4 * x);
        #pragma unroll
        for (int c = 0; c < 4; ++c)  // New: its columns, swizzled
            tile[4 * x + c][y ^ x % 8] = make_float4(v[0][c], v[1][c], v[2][c], v[3][c]);
        __syncthreads();  // the tile is complete
        #pragma unroll
        for (int c = 0; c < 4; ++c)
            *(float4*)(B + (left + 4 * y + c) * R + top + 4 * x) = tile[4 * y + c][x ^ y % 8];
    } else {  // partial tile or unaligned rows: element by element
        for (int i = threadIdx.x; i < T * T; i += blockDim.x) {
            int r = top + i / T, c = left + i % T;
            if (r < R && c < C) B[c * R + r] = A[r * C + c];
        }
    }
}
""",
    defines={"T": 64, "DOWN": 0},
)

# %% fold="Smaller tiles, and consecutive blocks down a column; code of the checks"
FLOAT4_32 = Kernel(FLOAT4_64.source, defines={"T": 32, "DOWN": 0})
TURN_WIDE_DOWN = Kernel(FLOAT4_64.source, defines={"T": 64, "DOWN": 1})

for kernel, side, along in (
    (FLOAT4_32, 32, "read"),
    (FLOAT4_64, 64, "read"),
    (TURN_WIDE_DOWN, 64, "written"),
):
    agree(
        transpose,
        kernel,
        [transposing(R, C, (side, side), side * side // 16, along) for R, C in (*SHAPES, (128, 192))],
    )

# %% [markdown]
# ## Benchmark: seven transposes against a copy
#
# How much should padding help? At the data sheet's peak bandwidth, reading and writing the matrix once takes
# {{ turn_model.memory_us | us }}. In shared memory, a warp writes a row of the tile in one wavefront and reads a
# column in 32, or in one with padding. Over the whole matrix, at one wavefront per cycle on each SM, that's
# {{ turn_model.plain_us | us }} without padding and {{ turn_model.padded_us | us }} with it. If global and shared
# memory work at the same time, the slower of the two sets the pace.

# %% fold="Code of the measurement"
SIDE = 8192
VARIANTS = {
    "naive, coalesced reads": (NAIVE_READS, {}),
    "naive, coalesced writes": (NAIVE_WRITES, {"along": "written"}),
    "shared tile": (TILED, {"tile": (32, 32)}),
    "shared tile, padded": (PADDED, {"tile": (32, 32)}),
    "float4, swizzled, 32 x 32 tile": (FLOAT4_32, {"tile": (32, 32), "block": 64}),
    "float4, swizzled, 64 x 64 tile": (FLOAT4_64, {"tile": (64, 64), "block": 256}),
    "float4, 64 x 64, column-major blocks": (
        TURN_WIDE_DOWN,
        {"tile": (64, 64), "block": 256, "along": "written"},
    ),
}


def torch_transpose(arrays):
    import torch

    A, B = (torch.as_tensor(arrays[name], device="cuda") for name in "AB")
    return lambda: B.copy_(A.T)


def cupy_transpose(arrays):
    import cupy

    A, B = arrays["A"], arrays["B"]
    return lambda: cupy.copyto(B, A.T)


def transposing_with(label):
    kernel, how = VARIANTS[label]
    return lambda side: kernel.on(transposing(side, side, **how))


transposes = measure(
    "transposes",
    variants={label: transposing_with(label) for label in VARIANTS},
    cases=[{"side": SIDE}],
    count_case={"side": 256},
    bytes=lambda side: 8 * side * side,
    library={"torch": torch_transpose, "cupy": cupy_transpose},
    reference=lambda A: {"B": A.T},
    tolerance=0.0,
    counts=("sectors", "wavefronts"),
    reasons=dict.fromkeys(
        ("naive, coalesced reads", "naive, coalesced writes", "shared tile"),
        "Benchmark: seven transposes against a copy",
    ),
    fold="All nine rows",
    guess=Guess(
        "How much faster is the padded tile than the unpadded one?",
        of="shared tile, padded",
        over="shared tile",
        between=(0.5, 32),
        models={"shared-memory wavefronts": 33 / 2, "bytes": 1.0},
        because="Wavefronts and global memory traffic overlap, so neither ratio alone gives the speedup.",
    ),
)

# %% fold="Code that counts hits in L1 on a GPU" needs="gpu" record="l1_hits"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.profiling import LIMITS, STALLED, STALLS, profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def every_transpose():
        """Calls of all variants on the timed size."""
        calls = Calls()
        for label in VARIANTS:
            calls.add(label, transposing_with(label)(SIDE))
        return calls.by_label

    COUNTED = (
        *LIMITS,
        *(
            f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}{which}.sum"
            for op in ("ld", "st")
            for which in ("", "_lookup_hit", "_lookup_miss")
        ),
        *(STALLED.format(reason) for reason in STALLS),
    )
    print(table_of(profiled("memory/banks", "l1_hits", every_transpose, COUNTED)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import printed_profiles

naive_reads, naive_writes = (
    printed_profiles("memory/banks", "l1_hits")[f"naive, coalesced {which}"] for which in ("reads", "writes")
)
LOADED, WRITTEN = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "lts__t_sectors_op_write.sum"
l1 = {
    "hits": naive_writes[f"{LOADED}_lookup_hit.sum"] / naive_writes[f"{LOADED}.sum"],
    "written": naive_reads[WRITTEN] / naive_writes[WRITTEN],
}
assert not abs(l1["hits"] - 7 / 8) > 0.01, "the text says that eight warps share their sectors"
assert not l1["written"] < 7, "the text says that writes gain nothing in L1"

# %% [markdown]
# Of the naive kernels, the one with coalesced writes wins: it takes
# {{ transposes.naive_coalesced_writes.median | us }}, versus {{ transposes.naive_coalesced_reads.median | us }} for the
# other. The reason is L1: the eight warps of a block read from the same sectors. Uncoalesced writes gain nothing from
# L1, because it passes each of them on to L2.
#
# The unpadded tile takes {{ transposes.shared_tile.median | us }} and gains nothing over the better naive
# kernel: the strided access has only moved into shared memory. The padded tile takes
# {{ transposes.shared_tile_padded.median | us }}, which is {{ turn_seen.padded_of_copy | .0% }} of the rate of a copy.
#
# `float4` accesses alone don't help: with tiles of the same size, the kernel reaches
# {{ turn_seen.wide_32_of_copy | .0% }}. With 64 by 64 tiles it reaches {{ turn_seen.wide_64_of_copy | .0% }}; each
# block then has more bytes in flight and accesses longer contiguous runs of global memory.

# %% fold="Code of the figure"
COPY_GB_PER_S = recorded("transposes.ceilings.probes.copy_gb_per_s")
transpose_us = medians_us(transposes)
of_copy = {label: 8 * SIDE**2 / us / 1e3 / COPY_GB_PER_S for label, us in transpose_us.items()}
best = min(VARIANTS, key=transpose_us.get)
WAVEFRONT_US = SIDE**2 // 32 / GPU.sms / GPU.boost_mhz  # one for every warp's request
publish(
    turn_model={
        "side": SIDE,
        "memory_us": bound(stated(GPU), bytes_moved=8 * SIDE**2).time_us,
        "plain_us": WAVEFRONT_US * (1 + wavefronts(32)),
        "padded_us": WAVEFRONT_US * (1 + wavefronts(33)),
    },
    turn_seen={
        "plain_times": transpose_us["shared tile"] / (WAVEFRONT_US * (1 + wavefronts(32))),
        "padded_of_copy": of_copy["shared tile, padded"],
        "wide_32_of_copy": of_copy["float4, swizzled, 32 x 32 tile"],
        "wide_64_of_copy": of_copy["float4, swizzled, 64 x 64 tile"],
        "torch_of_copy": recorded("transposes.torch.gb_per_s") / COPY_GB_PER_S,
        "best_us": transpose_us[best],
        "best_of_copy": of_copy[best],
    },
)
show(
    bars(
        {label: 100 * fraction for label, fraction in of_copy.items()},
        x="speed relative to a device copy [%]",
        form=".1f",
        value_range=(0, 110),
        title="Without bank conflicts, a transpose nearly matches a copy",
        caption=f"Throughput of the transpose of {SIDE:,} by {SIDE:,} floats on an {{machine}}, as a percentage of the throughput of the driver's device-to-device copy on the same GPU.",
    )
)
if np.isfinite(COPY_GB_PER_S):
    assert of_copy[best] > 0.95, "the title says that it nearly matches a copy"
    naive_us = transpose_us["naive, coalesced writes"]
    assert naive_us < transpose_us["naive, coalesced reads"], "the text says that coalesced writes win"
    assert naive_us < transpose_us["shared tile"], "the text says that the unpadded tile takes no less"

# %% [markdown]
# ## Hiding bank conflicts behind memory traffic
#
# The unpadded tile takes {{ turn_seen.plain_times | .1f }}× as long as its wavefronts alone would. So how well do
# wavefronts and global memory traffic overlap? To find out, pad the tile's rows to 34, 36, 40 or 48 words. These row
# lengths cause 2-, 4-, 8- and 16-way conflicts: in an *n*-way conflict, *n* lanes need the same bank.

# %% fold="Code of the measurement"
WAYS = {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 0}  # lanes per bank, and the padding that causes it
assert all(gcd(32 + pad, 32) == ways for ways, pad in WAYS.items())


def padded_by(pad):
    kernel = Kernel(TILED.source, defines={"PAD": pad})
    return lambda side: kernel.on(transposing(side, side, tile=(32, 32)))


tile_conflicts = measure(
    "tile_conflicts",
    variants={
        (f"{ways}-way conflict" if ways > 1 else "no conflict") + f", rows of {32 + pad}": padded_by(pad)
        for ways, pad in WAYS.items()
    },
    cases=[{"side": SIDE}],
    count_case={"side": 256},
    bytes=lambda side: 8 * side * side,
    reference=lambda A: {"B": A.T},
    tolerance=0.0,
    counts=("sectors", "wavefronts"),
    reasons={"32-way conflict, rows of 32": "Hiding bank conflicts behind memory traffic"},
    fold="All six rows",
)

# %% fold="Code of the figure"
ways_us = list(medians_us(tile_conflicts).values())
wavefronts_us = {ways: WAVEFRONT_US * (1 + ways) for ways in WAYS}
COPY_US = 8 * SIDE**2 / COPY_GB_PER_S / 1e3
show(
    line_chart(
        [
            Series("wavefronts alone", list(WAYS), list(wavefronts_us.values()), role="predicted"),
            Series("bytes alone", list(WAYS), [COPY_US] * len(WAYS), role="predicted", marks=False),
            Series("recorded", list(WAYS), ways_us),
        ],
        x="lanes of a column in the same bank",
        y="time [µs]",
        title="Low-degree conflicts hide behind memory traffic; high-degree ones don't",
        caption=f"Run time of the {SIDE:,} by {SIDE:,} transpose with 32 by 32 tiles on an {{machine}}, with tile rows of 33, 34, 36, 40, 48 and 32 words. Dashed: the time that the wavefronts or the bytes would take alone.",
    )
)
if np.isfinite(ways_us).all():
    assert ways_us[2] < 1.02 * ways_us[0], "the title says that low-degree conflicts hide"
    assert ways_us[5] > 1.25 * max(COPY_US, wavefronts_us[32]), "the title says that high-degree ones don't"
    assert max(COPY_US, wavefronts_us[16]) < ways_us[4] < COPY_US + wavefronts_us[16]
publish(
    ways_model={"copy_us": COPY_US},
    ways_seen={"four_more": ways_us[2] / ways_us[0] - 1},
    ways_both={"of_32": COPY_US + wavefronts_us[32]},
)

# %% [markdown]
# A 4-way conflict is nearly free: it adds {{ ways_seen.four_more | .1% }} to the run time. With 32-way conflicts, the
# kernel takes {{ tile_conflicts._32_way_conflict_rows_of_32.median | us }}. That's longer than the wavefronts alone,
# {{ turn_model.plain_us | us }}, or the global memory traffic alone, {{ ways_model.copy_us | us }} as measured with a
# copy, but less than the {{ ways_both.of_32 | us }} that both would take back to back.
#
# So wavefronts and global memory traffic overlap, but only partly. Within a block, the barrier separates the global
# loads from the reads of the tile's columns, so only other blocks on the same SM can fill the gaps.

# %% [markdown]
# ## The answer
#
# The best transpose takes {{ turn_seen.best_us | us }}, which is {{ turn_seen.best_of_copy | .0% }} of the rate of a
# copy; PyTorch reaches {{ turn_seen.torch_of_copy | .0% }}. A transpose through shared memory comes close to the speed
# of a copy only if padding or a swizzle removes the 32-way bank conflicts from the reads of the tile's columns.

# %% [markdown]
# ## Takeaways
#
# - Shared memory has 32 banks, each 4 bytes wide. A load at a stride of *s* words takes gcd(*s*, 32)
#   wavefronts, so odd strides have no bank conflicts.
# - Transpose through a tile in shared memory: both global accesses are then coalesced, and padding or a
#   swizzle removes the bank conflicts.
# - Wavefronts overlap with global memory traffic, so conflicts of low degree are often free, and those of
#   high degree aren't.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, divide the wavefronts, `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum` (`_op_st` for
# stores), by the number of shared-memory instructions; `l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum`
# counts the excess. If there are several wavefronts per 4-byte load, find the lane stride, pad it to an odd number of
# words or swizzle, and check that the time improves too.

# %% fold="Code of the exercise, with four wrong answers that the tests reject"
from tilewise import Trace, exercise

SWIZZLED = Kernel(r"""
extern "C" __global__
void transpose_tiled(const float* A, float* B, int R, int C) {
    __shared__ float tile[32][32];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < R && left + x < C)
            tile[y][x ^ y] = A[(top + y) * C + left + x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = tile[x][y ^ x];
}
""")


def swizzle_tests(kernel):
    for R, C in ((64, 96), (33, 70), (5, 3)):
        A = np.arange(R * C, dtype=np.float32).reshape(R, C)
        B = np.full((C, R), np.nan, np.float32)
        grid = (ceil_div(C, 32), ceil_div(R, 32))
        run = kernel.simulate(A, B, R, C, grid=grid, block=(32, 8), trace=Trace())
        assert np.array_equal(B, A.T), f"{R} by {C}: B is not the transpose of A"
        counts = run.counts
        for name, one in (("stores", counts.shared_store), ("loads", counts.shared_load)):
            assert one.wavefronts == one.requests, f"{one.wavefronts} wavefronts for {one.requests} {name}"
        size = run.accesses.index[run.accesses.space == 1].max() + 1
        assert size <= 1024, f"the tile has at least {size} elements, not 1,024"


exercise(
    "A conflict-free tile without padding",
    """
    Padding costs 128 bytes of shared memory per tile. Write `transpose_tiled(A, B, R, C)` for blocks of 32 by 8
    threads, with a tile of exactly 32 by 32 floats and no bank conflicts. Swizzle the elements within
    each row when you store them, and apply the same swizzle when you load them. The tests compare every
    element, count the wavefronts of loads and stores, and check the size of the tile.
    """,
    answer=SWIZZLED,
    tests=swizzle_tests,
    wrong=[TILED, PADDED, {"[y ^ x]": "[y]"}, {"x ^ y]": "x ^ y % 8]", "y ^ x]": "y ^ x % 8]"}],
    hint="In row y, position x ^ y takes all 32 values as x runs from 0 to 31. What happens for a fixed x as y changes?",
    explanation="Element x of row y is at position x ^ y. For a fixed x, the 32 rows give 32 different positions and therefore 32 different banks.",
)

# %% [markdown]
# The next lesson is about [parallel reductions](reductions.py), in which threads combine many values into one.
