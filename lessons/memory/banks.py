# ---
# title: Thirty-two banks
# needs: [memory/coalescing, memory/barriers]
# summary: "Through a tile in shared memory a transpose is coalesced on both sides. How close to a plain copy does it come?"
# description: "The banks of shared memory: conflicts predicted, counted twice, timed. A transpose in seven versions, up to the rate of a copy."
# date: 2026-11-21
# tags: [bank conflicts, shared memory, transpose]
# ---

# %% [markdown]
# To transpose a matrix is to read it along one axis and to write it along the other, so one side of it
# is a column, and a column is not coalesced. The way out is a detour: read rows into shared memory,
# wait, and take columns from there. A copy of {{ turn_model.side | , }} by
# {{ turn_model.side | , }} numbers takes {{ turn_model.memory_us | us }} at the GPU's peak (data sheet). How
# close to that does a transpose come, and what is in its way in shared memory?

# %% fold="Imports"
import numpy as np

from tilewise import (
    Guess,
    Trace,
    agree,
    case,
    ceil_div,
    constant,
    integers,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
)
from tilewise.figures import Series, bars, heat_map, line_chart
from tilewise.measurements import medians_us, recorded, recorded_device
from tilewise.models import bound, stated

GPU = recorded_device()

# %% [markdown]
# ## One word from each
#
# In the box of the [tree](barriers.py) lanes stood side by side, and one pass over shared memory served
# a whole warp. That is not so for every pattern. Shared memory is cut into 32 banks: word `w` of 4
# bytes lies in bank `w % 32`, and in one pass each bank hands out one word. Lanes that want different
# words of one bank are served one pass after the other, which is a bank conflict. Lanes that want the
# same word share it.
#
# ??? definition "Bank | banks"
#     One of 32 interleaved columns of shared memory; in a pass over it each hands out one word of 4
#     bytes.
#
# ??? definition "Bank conflict | bank conflicts"
#     Lanes of one request that want different words of the same bank and have to take turns.

# %% [markdown]
# Let lane `t` read word `t * stride`. With a stride of 2 the lanes meet in the 16 even banks, two in
# each; with 32 all of them want bank 0. With 33, or any odd stride, each has a bank to itself. The
# map shows which bank each lane needs, and in which pass it is served. Move the slider.


# %% fold="Code of the figure"
def passes_of(stride):
    """For each lane and bank, the pass in which the bank serves the lane; NaN where it never does."""
    table = np.full((32, 32), np.nan)
    for lane in range(32):
        bank = lane * stride % 32
        table[lane, bank] = np.isfinite(table[:, bank]).sum() + 1
    return table


def conflicts(stride):
    """Passes that a request at a stride takes: the most lanes that meet in one bank."""
    return int(np.nanmax(passes_of(stride)))


SHOWN = [1, 2, 3, 4, 6, 8, 16, 31, 32, 33]
show(
    heat_map(
        {"pass": np.stack([passes_of(stride) for stride in SHOWN])},
        steps=SHOWN,
        step_name="stride",
        start=1,
        x="bank",
        y="lane",
        role="shared",
        ranges={"pass": (-16, 32)},
        key=False,
        form=".0f",
        height=520,
        title="An odd stride takes one pass, a power of two as many as itself",
        caption="A warp whose lanes read words a stride apart: the bank that each of the 32 lanes needs, and the pass in which it is served. Lanes in one column of the map take turns, the darker the later. A model.",
    )
)

# %% [markdown]
# A kernel to see it: each lane reads from its own place, and goes on by one word from round to round
# so that no load can be left out as repeated. The eight loads of a round stand 32 words apart, in
# the same bank.


# %% tab="Pseudocode"
def read_banks(x, out, stride, rounds):
    for me in parallel(len(out)):
        lane = me % 32
        s = 0
        for r in range(rounds):
            for k in range(8):
                s += x[r % 32 :][32 * k :][::stride][lane]
        out[me] = s


# %% tab="CUDA C"
from tilewise import Kernel

READ_BANKS = Kernel(r"""
extern "C" __global__
void read_banks(const int* x, int* out, int n, int stride, int rounds) {
    __shared__ int box[1280];
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 1280; i += blockDim.x) box[i] = x[i];
    __syncthreads();  // the box is full
    int s = 0;
    for (int r = 0; r < rounds; ++r) {
        const int* from = box + lane * stride + r % 32;
        #pragma unroll
        for (int k = 0; k < 8; ++k) s += from[32 * k];
    }
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    if (me < n) out[me] = s;
}
""")


# %% fold="Code of the check"
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


words = integers(1280, low=-1000, high=1000, dtype="int32")
agree(
    read_banks,
    READ_BANKS,
    [striding(*how, words) for how in ((1, 3, 77, 64), (7, 5, 50, 32), (32, 33, 101, 96))],
    rtol=0.0,
)

# %% [markdown]
# A stride takes as many passes as it has factors of two, up to 32; that is
# {{ bank_model.of_2 }}, {{ bank_model.of_3 }} and {{ bank_model.of_12 }} for strides of 2, 3 and 12.
# An SM makes a pass a cycle. With all its 64 warps at work, reading should be a matter of passes
# alone, and a stride of 32 should take 32 times{from: the banks} as long as a stride of 1.

# %% fold="Code of the measurement"
STRIDES = range(1, 34)

bank_reads = measure(
    "bank_strides",
    variants={
        f"stride {stride}": lambda n, rounds, stride=stride: READ_BANKS.on(striding(stride, rounds, n))
        for stride in STRIDES
    },
    cases=[{"n": 264 * 1024, "rounds": 128}],
    count_case={"n": 4 * 1024, "rounds": 2},
    reference=lambda n, rounds: {"out": np.full(n, 8 * rounds)},
    tolerance=0.0,
    counts=("wavefronts",),
    fold="All 33 rows",
)

# %% fold="Code of the figure"
bank_us = list(medians_us(bank_reads).values())
loads = 4 * 32 * 8 * 2  # requests of the loop, from 128 warps
by_counters = [
    (row["counted"] or {}).get("shared_load_wavefronts", np.nan) / loads for row in bank_reads.rows
]
model = [float(conflicts(stride)) for stride in STRIDES]
lines = [Series("simulator", STRIDES, model, role="predicted", marks=False)]
if np.isfinite(by_counters).all():
    lines.append(Series("GPU's counters", STRIDES, by_counters, role="read", line=False))
if np.isfinite(bank_us).all():
    lines.append(Series("time, stride 1 = 1", STRIDES, [us / bank_us[0] for us in bank_us], line=False))
    assert max(bank_us[::2]) < 1.02 * bank_us[0], "the title says that odd strides have no conflicts"
show(
    line_chart(
        lines,
        x="stride [words of 4 bytes]",
        y="passes for a load",
        log_y=True,
        title="Conflicts follow the powers of two in the stride, and odd strides have none",
        caption="A warp's load from shared memory at strides of 1 to 33 words: the passes over the banks that it takes, and the recorded time on an {machine} where there is one.",
    )
)
PASSES_US = 264 // GPU.sms * 32 * 8 * 128 / GPU.boost_mhz
publish(
    bank_model={
        "of_2": conflicts(2),
        "of_3": conflicts(3),
        "of_12": conflicts(12),
        "of_32": conflicts(32),
        "one_us": PASSES_US,
    },
    bank_seen={
        "pass_us": (bank_us[31] - bank_us[0]) / (conflicts(32) - 1),
        "rest_us": bank_us[0] - PASSES_US,
        "times_32": bank_us[31] / bank_us[0],
        "times_33": bank_us[32] / bank_us[0],
    },
)

# %% [markdown]
# A stride of 1 takes {{ bank_strides.stride_1.median | us }} where a pass a cycle makes {{ bank_model.one_us | us }}.
# Each further pass, up to the {{ bank_model.of_32 }} of a stride of 32, adds {{ bank_seen.pass_us | us }}, as
# the model says. The {{ bank_seen.rest_us | .1f }} µs on top are the same for every stride: a launch, and the
# box to be filled. So a stride of 32 takes {{ bank_seen.times_32 | .1f }} times as long, and one of 33
# {{ bank_seen.times_33 | .2f }} times.

# %% [markdown]
# ## A tile that turns
#
# Now to the transpose. Kernel 3 of attention turned one of its matrices and left one side of that
# uncoalesced; no choice of lanes can help it. Two plain versions differ in which side suffers.


# %% tab="Pseudocode"
def turn(A, B):
    R, C = A.shape
    for r, c in parallel(R, C):
        B[c, r] = A[r, c]


# %% tab="CUDA C"
TURN_READING = Kernel(r"""
extern "C" __global__
void turn_reading(const float* A, float* B, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the rows of A
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < R && c < C) B[c * R + r] = A[r * C + c];
}
""")

# %% fold="The other way round: lanes along the rows of B"
TURN_WRITING = Kernel(r"""
extern "C" __global__
void turn_writing(const float* A, float* B, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the rows of B
    int c = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < R && c < C) B[c * R + r] = A[r * C + c];
}
""")

# %% [markdown]
# The detour goes through shared memory. A block reads a tile of 32 by 32 numbers, row by row, into a
# box; waits; and writes it column by column of the box, which is row by row of the result. Both sides
# in global memory are coalesced then, and the box has the column to bear. Its rows are 32 words
# long, so a column lies in a single bank.
#
# ??? definition "Tile | tiles | tiling"
#     A piece of a matrix that is loaded once into a small, near memory and used there many times;
#     also the piece of the result that a block computes.


# %% tab="Pseudocode"
def turn_tile(A, B):
    R, C = A.shape
    for rows in tiles(R, 32):
        for columns in tiles(C, 32):
            box = {}
            # [in
            for r, c in parallel(len(rows), len(columns)):
                box[r, c] = A[rows[r], columns[c]]
            # in]
            # [out
            for c, r in parallel(len(columns), len(rows)):
                B[columns[c], rows[r]] = box[r, c]
            # out]


# %% tab="CUDA C"
TURN_PLAIN = Kernel(
    r"""
extern "C" __global__
void turn_tile(const float* A, float* B, int R, int C) {
    __shared__ float box[32][32 + PAD];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    // [in
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < R && left + x < C)
            box[y][x] = A[(top + y) * C + left + x];
    // in]
    __syncthreads();  // the tile is there
    // [out
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = box[x][y];  // a column of the box
    // out]
}
""",
    defines={"PAD": 0},
)

# %% [markdown]
# The same text makes another kernel. With `PAD` = 1 each row of the box has a 33rd word that nobody uses.
# A column then has a stride of 33, which is odd. The map has the bank of every place: follow one
# column from top to bottom, without padding and with.
#
# ??? definition "Padding"
#     Words at the end of each row that hold nothing and only move the next row on.


# %% fold="The padded kernel; code of the checks and of the figure"
TURN_PADDED = Kernel(TURN_PLAIN.source, defines={"PAD": 1})


def turning(R, C, tile=(32, 8), block=(32, 8), along="read"):
    """A matrix to transpose in blocks over tiles of it, lanes along the rows read or written."""
    x, y = (C, R) if along == "read" else (R, C)
    grid = (ceil_div(x, tile[0]), ceil_div(y, tile[1]))
    return case(A=normal(R, C), B=output(C, R), R=R, C=C, grid=grid, block=block)


SHAPES = ((5, 3), (77, 50), (36, 68), (130, 64))
agree(turn, TURN_READING, [turning(R, C) for R, C in SHAPES], rtol=0.0)
agree(turn, TURN_WRITING, [turning(R, C, along="written") for R, C in SHAPES], rtol=0.0)
for kernel in (TURN_PLAIN, TURN_PADDED):
    agree(turn_tile, kernel, [turning(R, C, tile=(32, 32)) for R, C in SHAPES], rtol=0.0)

places = np.arange(32)[:, None], np.arange(32)[None, :]
show(
    heat_map(
        {"bank": np.stack([(places[0] * (32 + pad) + places[1]) % 32 for pad in (0, 1)])},
        steps=["none", "one word"],
        step_name="padding",
        x="column of the box",
        y="row of the box",
        role="shared",
        form=".0f",
        height=520,
        title="One unused word a row puts the places of a column into 32 different banks",
        caption="The bank of each of the 32 by 32 places of the box. Without padding a column is one bank from top to bottom; with one word of it the bank moves on from row to row.",
    )
)

# %% [markdown]
# How much that matters depends on what else takes time. For {{ turn_model.side | , }} by
# {{ turn_model.side | , }} numbers, each read and written once, the bytes take
# {{ turn_model.memory_us | us }} at the peak. Without padding each request of the tile makes
# one pass on its way in and 32 on its way out; at a pass a cycle for each SM, that is
# {{ turn_model.plain_us | us }}. With padding it is {{ turn_model.padded_us | us }}.
# Passes and bytes can be under way at the same time, so the plain tile should take as long as its
# passes and the padded one as long as its bytes.

# %% [markdown]
# The last version takes 16 bytes at a time, as streaming did. A thread reads four rows of four
# numbers, a tile of its own, turns it in its registers and puts it down as four pieces of 16 bytes.
# Such pieces are served for eight lanes at a time, and a 33rd word would break their alignment. So
# the place in the row is changed, not its length: piece `y` of row group `x` goes to `y ^ x % 8`, a
# different one for each of eight neighbours. That is called a swizzle; the same formula finds the
# piece again.
#
# ??? definition "Swizzle | swizzled"
#     A change of places within a row of shared memory, different from row to row, that spreads a
#     column over the banks without extra words.


# %% tab="Pseudocode"
def turn_wide(A, B):
    R, C = A.shape
    for r, c in parallel(R, C):
        B[c, r] = A[r, c]


# %% tab="CUDA C"
TURN_WIDE_64 = Kernel(
    r"""
extern "C" __global__
void turn_wide(const float* A, float* B, int R, int C) {
    __shared__ float4 box[T][T / 4];
    int left = T * (DOWN ? blockIdx.y : blockIdx.x);
    int top = T * (DOWN ? blockIdx.x : blockIdx.y);
    int x = threadIdx.x % (T / 4), y = threadIdx.x / (T / 4);
    if (left + T <= C && top + T <= R && R % 4 == 0 && C % 4 == 0) {
        float v[4][4];  // New: a tile of its own, in registers
        #pragma unroll
        for (int r = 0; r < 4; ++r)
            *(float4*)v[r] = *(const float4*)(A + (top + 4 * y + r) * C + left + 4 * x);
        #pragma unroll
        for (int c = 0; c < 4; ++c)  // New: its columns, swizzled
            box[4 * x + c][y ^ x % 8] = make_float4(v[0][c], v[1][c], v[2][c], v[3][c]);
        __syncthreads();  // the tile is there
        #pragma unroll
        for (int c = 0; c < 4; ++c)
            *(float4*)(B + (left + 4 * y + c) * R + top + 4 * x) = box[4 * y + c][x ^ y % 8];
    } else {  // an edge, or rows that are not aligned: number by number
        for (int i = threadIdx.x; i < T * T; i += blockDim.x) {
            int r = top + i / T, c = left + i % T;
            if (r < R && c < C) B[c * R + r] = A[r * C + c];
        }
    }
}
""",
    defines={"T": 64, "DOWN": 0},
)

# %% fold="The same with smaller tiles, and with blocks down the columns; code of the checks"
TURN_WIDE_32 = Kernel(TURN_WIDE_64.source, defines={"T": 32, "DOWN": 0})
TURN_WIDE_DOWN = Kernel(TURN_WIDE_64.source, defines={"T": 64, "DOWN": 1})

for kernel, side, along in (
    (TURN_WIDE_32, 32, "read"),
    (TURN_WIDE_64, 64, "read"),
    (TURN_WIDE_DOWN, 64, "written"),
):
    agree(
        turn_wide,
        kernel,
        [turning(R, C, (side, side), side * side // 16, along) for R, C in (*SHAPES, (128, 192))],
        rtol=0.0,
    )

# %% fold="Code of the measurement"
SIDE = 8192
TURNS = {
    "lanes along the rows read": (TURN_READING, {}),
    "lanes along the rows written": (TURN_WRITING, {"along": "written"}),
    "tile": (TURN_PLAIN, {"tile": (32, 32)}),
    "tile, padded": (TURN_PADDED, {"tile": (32, 32)}),
    "16 bytes, swizzled, tiles of 32": (TURN_WIDE_32, {"tile": (32, 32), "block": 64}),
    "16 bytes, swizzled, tiles of 64": (TURN_WIDE_64, {"tile": (64, 64), "block": 256}),
    "the same, blocks down the columns": (
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


def turning_by(label):
    kernel, how = TURNS[label]
    return lambda side: kernel.on(turning(side, side, **how))


turns = measure(
    "transposes",
    variants={label: turning_by(label) for label in TURNS},
    cases=[{"side": SIDE}],
    count_case={"side": 256},
    bytes=lambda side: 8 * side * side,
    library={"torch": torch_transpose, "cupy": cupy_transpose},
    reference=lambda A: {"B": A.T},
    tolerance=0.0,
    counts=("sectors", "wavefronts"),
    reasons=dict.fromkeys(
        ("lanes along the rows read", "lanes along the rows written", "tile"), "A tile that turns"
    ),
    fold="All nine rows",
    guess=Guess(
        "How many times as fast as the plain tile is the padded one?",
        of="tile, padded",
        over="tile",
        at={"side": SIDE},
        between=(0.5, 32),
        models={"passes over the banks": 33 / 2, "bytes": 1.0},
        because="Passes and bytes are under way at the same time, so neither ratio need be seen whole.",
    ),
)

# %% fold="Code of the figure"
TURN_COPY = recorded("transposes.ceilings.probes.copy_gb_per_s")
turn_us = medians_us(turns)
of_copy = {label: 8 * SIDE**2 / us / 1e3 / TURN_COPY for label, us in turn_us.items()}
best = min(TURNS, key=turn_us.get)
PASS_US = SIDE**2 // 32 / GPU.sms / GPU.boost_mhz  # of every request one
publish(
    turn_model={
        "side": SIDE,
        "memory_us": bound(stated(GPU), bytes_moved=8 * SIDE**2).time_us,
        "plain_us": PASS_US * (1 + conflicts(32)),
        "padded_us": PASS_US * (1 + conflicts(33)),
    },
    turn_seen={
        "plain_times": turn_us["tile"] / (PASS_US * (1 + conflicts(32))),
        "padded_times": 1 / of_copy["tile, padded"],
        "padded_of_copy": of_copy["tile, padded"],
        "wide_32_of_copy": of_copy["16 bytes, swizzled, tiles of 32"],
        "wide_64_of_copy": of_copy["16 bytes, swizzled, tiles of 64"],
        "wide_down_of_copy": of_copy["the same, blocks down the columns"],
        "torch_of_copy": recorded("transposes.torch.gb_per_s") / TURN_COPY,
        "best_us": turn_us[best],
        "best_of_copy": of_copy[best],
    },
)
show(
    bars(
        {label: 100 * share for label, share in of_copy.items()},
        x="share of the device copy's rate [%]",
        form=".1f",
        value_range=(0, 110),
        title="A tile alone moves the trouble into shared memory; without conflicts it comes close to a copy",
        caption=f"Bytes a second of the transpose of {SIDE:,} by {SIDE:,} numbers on an {{machine}}, read and written, as a share of the rate of the driver's own copy on the same GPU.",
    )
)
if np.isfinite(TURN_COPY):
    assert of_copy[best] > 0.95, "the title says that it comes close to a copy"

# %% [markdown]
# Lanes along the rows read take {{ transposes.lanes_along_the_rows_read.median | us }}, along the rows written
# {{ transposes.lanes_along_the_rows_written.median | us }}. The sectors are as many; what makes scattered writes so much dearer than
# scattered reads is not shown here. The plain tile, {{ transposes.tile.median | us }}, is no better than the
# second: it has traded sectors for passes. Padded it takes {{ transposes.tile_padded.median | us }},
# {{ turn_seen.padded_of_copy | .0% }} of the copy's rate, which is
# {{ transposes.ceilings.probes.copy_gb_per_s | ,.0f }} GB/s here.

# %% [markdown]
# Pieces of 16 bytes alone bring little: tiles of 32 reach {{ turn_seen.wide_32_of_copy | .0% }}.
# Tiles of 64, whose rows are longer in memory, reach {{ turn_seen.wide_64_of_copy | .1% }}, or
# {{ turn_seen.wide_down_of_copy | .1% }} where neighbouring blocks write side by side instead of reading
# side by side. torch reaches {{ turn_seen.torch_of_copy | .0% }}.

# %% [markdown]
# ## Passes beside bytes
#
# The padded tile takes {{ turn_seen.padded_times | .2f }} times its bytes at the copy's rate, the plain one
# {{ turn_seen.plain_times | .2f }} times its passes. Do passes and bytes wait for each other after all?
# There are tiles between the two: rows of 34, 36, 40 or 48 words make 2, 4, 8 or 16 lanes of a column
# meet in a bank. From kernel to kernel only the passes change, and one can see when they begin to count.

# %% fold="Code of the measurement"
WAYS = {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 0}  # lanes that meet in a bank, and the padding that does it


def padded_by(pad):
    kernel = Kernel(TURN_PLAIN.source, defines={"PAD": pad})
    return lambda side: kernel.on(turning(side, side, tile=(32, 32)))


tile_conflicts = measure(
    "tile_conflicts",
    variants={
        f"{ways} way{'s' if ways > 1 else ''}, rows of {32 + pad}": padded_by(pad)
        for ways, pad in WAYS.items()
    },
    cases=[{"side": SIDE}],
    count_case={"side": 256},
    bytes=lambda side: 8 * side * side,
    reference=lambda A: {"B": A.T},
    tolerance=0.0,
    counts=("sectors", "wavefronts"),
    reasons={"32 ways, rows of 32": "Passes beside bytes"},
    fold="All six rows",
)

# %% fold="Code of the figure"
ways_us = list(medians_us(tile_conflicts).values())
passes_us = {ways: PASS_US * (1 + ways) for ways in WAYS}
COPY_US = 8 * SIDE**2 / TURN_COPY / 1e3
show(
    line_chart(
        [
            Series("passes alone", list(WAYS), list(passes_us.values()), role="predicted"),
            Series("bytes alone", list(WAYS), [COPY_US] * len(WAYS), role="predicted", marks=False),
            Series("recorded", list(WAYS), ways_us),
        ],
        x="lanes of a column that meet in a bank",
        y="time [µs]",
        title="Few conflicts hide behind the bytes, many do not",
        caption=f"The transpose of {SIDE:,} by {SIDE:,} numbers through tiles of 32 by 32 on an {{machine}}: the time with rows of the box of 33, 34, 36, 40, 48 and 32 words, and what passes over the banks and bytes would take alone.",
    )
)
if np.isfinite(ways_us).all():
    assert ways_us[2] < 1.02 * ways_us[0], "the title says that few conflicts hide"
    assert ways_us[5] > 1.25 * max(COPY_US, passes_us[32]), "the title says that many do not"
publish(
    ways_model={"copy_us": COPY_US, "of_16": passes_us[16]},
    ways_both={"of_32": COPY_US + passes_us[32]},
)

# %% [markdown]
# Up to four lanes in a bank cost next to nothing: {{ tile_conflicts._1_way_rows_of_33.median | us }},
# {{ tile_conflicts._2_ways_rows_of_34.median | us }} and
# {{ tile_conflicts._4_ways_rows_of_36.median | us }}. Eight take {{ tile_conflicts._8_ways_rows_of_40.median | us }}.
# But sixteen take {{ tile_conflicts._16_ways_rows_of_48.median | us }}, far more than their passes alone,
# {{ ways_model.of_16 | us }}, or the bytes,
# {{ ways_model.copy_us | us }}. And all 32 take {{ tile_conflicts._32_ways_rows_of_32.median | us }}, more than either alone
# and less than {{ ways_both.of_32 | us }}, both in turn. So passes and bytes overlap, but not whole. A
# warp has no passes to make while it waits for its bytes, and asks for none while it waits for its passes;
# how often that leaves an SM with only one of the two is not counted here.

# %% [markdown]
# ## The answer
#
# The bytes of {{ turn_model.side | , }} by {{ turn_model.side | , }} numbers take
# {{ turn_model.memory_us | us }} at the peak, and the best transpose takes
# {{ turn_seen.best_us | us }}, {{ turn_seen.best_of_copy | .0% }} of the copy's rate. What is in the
# way is the column of the tile: without padding or a swizzle it lies in one bank, and each request for
# it takes {{ bank_model.of_32 }} passes.

# %% [markdown]
# ## Takeaways
#
# - Shared memory has 32 banks of words of 4 bytes; in a pass each hands out one word. Lanes that want
#   different words of one bank take turns, lanes that want the same word share it.
# - A stride takes as many passes as it has factors of two, up to {{ bank_model.of_32 }}; odd strides
#   have no conflicts.
# - A transpose goes through a tile in shared memory, so that both sides of it are coalesced. Padding or
#   a swizzle frees the column of the tile from conflicts.
# - Passes over the banks and bytes from memory are under way at the same time: a few conflicts cost
#   next to nothing beside the bytes, many cost more than the longer of the two.

# %% fold="The whole cell, with four wrong answers that the tests turn down"
from tilewise import exercise

SWIZZLED = Kernel(r"""
extern "C" __global__
void turn_tile(const float* A, float* B, int R, int C) {
    __shared__ float box[32][32];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < R && left + x < C)
            box[y][x ^ y] = A[(top + y) * C + left + x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = box[x][y ^ x];
}
""")

ONLY_ON_THE_WAY_IN = Kernel(SWIZZLED.source.replace("[y ^ x]", "[y]"))
EIGHT_PLACES_ONLY = Kernel(SWIZZLED.source.replace("x ^ y]", "x ^ y % 8]").replace("y ^ x]", "y ^ x % 8]"))


def swizzle_tests(kernel):
    for R, C in ((64, 96), (33, 70), (5, 3)):
        A = np.arange(R * C, dtype=np.float32).reshape(R, C)
        B = np.full((C, R), np.nan, np.float32)
        grid = (ceil_div(C, 32), ceil_div(R, 32))
        run = kernel.simulate(A, B, R, C, grid=grid, block=(32, 8), trace=Trace())
        assert np.array_equal(B, A.T), f"{R} by {C}: a number stands in a wrong place"
        counts = run.counts
        for way, one in (("writes", counts.shared_store), ("reads", counts.shared_load)):
            assert one.wavefronts == one.requests, f"{one.wavefronts} passes for {one.requests} {way}"
        places = run.accesses.index[run.accesses.space == 1].max() + 1
        assert places <= 1024, f"the box has {places} places or more, not 1,024"


exercise(
    "A tile without a word to spare",
    """
    Padding takes 128 bytes more for each tile. Write `turn_tile(A, B, R, C)` with a box of just 32 by 32
    floats and without bank conflicts, for blocks of 32 by 8 threads. Change places within a row, and find
    every number again on the way out. The tests compare every number, count the passes of reads and writes
    over the banks, and look at which places of the box are used.
    """,
    answer=SWIZZLED,
    tests=swizzle_tests,
    wrong=[TURN_PLAIN, TURN_PADDED, ONLY_ON_THE_WAY_IN, EIGHT_PLACES_ONLY],
    hint="In row y, the place x ^ y runs through all 32 places as x does, and for a fixed x as y does.",
    explanation="A column x of the tile lies at x ^ y in row y: 32 rows, 32 different banks.",
)

# %% [markdown]
# A tile that a block has read lies where all its threads can use it. Here each number of it was used
# once. Sums of many numbers, where threads hand each other what they have, come next.
