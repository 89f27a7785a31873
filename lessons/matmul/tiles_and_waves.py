# ---
# title: Tiles and waves
# needs: [machine/warps, matmul/tiling]
# summary: "One row and one column more, and 128 tiles become 153, on 132 processors. How many times as long does the product take?"
# description: "Why a slightly larger product can cost far more: tiles that are mostly empty, and a last wave for a few SMs."
# date: 2026-11-21
# tags: [tiles, waves, quantisation]
# ---

# %% [markdown]
# A product of {{ ask.n | , }} rows and columns is cut into tiles of 256 × 128, one for each block:
# {{ ask.tiles }} blocks, and an H100 has {{ ask.sms }} SMs. Now the result gets one more row and one
# more column, {{ ask.more | .1% }} more elements, and {{ ask.tiles_more }} tiles cover it. How many
# times as long does the product take?

# %% [markdown]
# ## Whole tiles only
#
# A block computes a whole tile or none. Where the matrix ends inside a tile, the rest of the tile is
# computed for nothing: the threads beyond the edge go through the same loop over k, and a guard at the
# end keeps them from storing. That is tile quantisation. Set the number of columns and look at what
# one column more costs.
#
# ??? definition "Tile quantisation"
#     The rounding up of a matrix to whole tiles, so that work is done for elements that do not exist.

# %% fold="Code of the figure"
import numpy as np

from tilewise import (
    Table,
    agree,
    case,
    ceil_div,
    gpu_here,
    measure,
    normal,
    output,
    publish,
    show,
    tiles,
)
from tilewise.figures import Answer, Meter, Plot, Series, Slider, calculator, heat_map, line_chart
from tilewise.models import device, waves
from tilewise.models.occupancy import LIMITS, occupancy

SMS = device("H100 SXM").sms
ROOM, SIDE = 12, 4
SIDE_OF_A_TILE = 32  # of the kernel further down


def covered(rows, columns):
    """Elements of the result as 1, of its tiles beyond the edge as 0.45, nothing as 0."""
    drawn = np.zeros((ROOM, ROOM))
    drawn[: ceil_div(rows, SIDE) * SIDE, : ceil_div(columns, SIDE) * SIDE] = 0.45
    drawn[:rows, :columns] = 1.0
    return drawn


COLUMNS = range(4, 13)
show(
    heat_map(
        {"elements computed": np.stack([covered(8, columns) for columns in COLUMNS])},
        steps=list(COLUMNS),
        step_name="columns",
        start=5,
        x="column",
        y="row",
        role="tile",
        ranges={"elements computed": (0, 1)},
        key=False,
        title="The ninth column costs as much as a twelfth: two more tiles of 4 × 4",
        caption="Small numbers: a result of 8 rows and 4 to 12 columns in tiles of 4 × 4. Full colour: elements of the result, pale: computed for nothing, empty: not computed.",
        alt="A grid of 12 rows and 12 columns: the elements of the result are filled, the rest of their tiles is pale.",
    )
)


# %% [markdown]
# In numbers, for tiles of 128 × 128 and the lecture's example of 256 columns and one more:


# %%
def tiles_of(rows, columns, high, wide):
    """How many tiles cover the result, and how much of their area it is."""
    count = ceil_div(rows, high) * ceil_div(columns, wide)
    return count, rows * columns / (count * high * wide)


SIZES = ((256, 256), (256, 257), (257, 257))
show(
    Table(
        ["rows × columns", "tiles of 128 × 128", "useful share of their area"],
        [
            [f"{rows} × {columns}", count, f"{share:.1%}"]
            for rows, columns in SIZES
            for count, share in [tiles_of(rows, columns, 128, 128)]
        ],
        caption="One more column adds two tiles, one more row and column add five.",
    )
)

# %% [markdown]
# ## One wave after another
#
# The second loss comes from the other side, the number of SMs. As many blocks as fit start at once:
# $S$ SMs with room for $b$ blocks each take $S \cdot b$ of them. The next ones have to wait until a
# place is free. If all blocks take equally long, all places become free at the same moment, and the
# grid goes through the device in waves. The last wave may be nearly empty, and it takes as long as a
# full one.
#
# ??? definition "Wave | waves"
#     As many blocks of a launch as the device can hold at a time, which start together if all blocks
#     take equally long.
#
# ??? definition "Wave quantisation"
#     The rounding up of a launch to whole waves, so that SMs idle while the last one runs.

# %% [markdown]
# With $t$ for the time of a block, a launch of $n$ blocks takes
#
# $$T = \left\lceil \frac{n}{S \cdot b} \right\rceil \cdot t.$$
#
# For one block an SM, {{ ask.tiles }} blocks are one wave on an H100 and {{ ask.tiles_more }} are two,
# of which the second has {{ ask.last }} blocks and {{ ask.idle }} SMs with nothing to do. The figure
# shows which SM gets how many blocks.

# %% fold="Code of the figure"
import re

from tilewise.measurements import Numbers, complete, medians_us, text_record

WAITED = text_record("matmul/tiles_and_waves", "waiting_blocks")
SAID = WAITED.text if WAITED else ""
STAIRS = Numbers()
for room, pairs in re.findall(r"room for (\d+), blocks and us: (.*)", SAID):
    STAIRS |= {(int(room), int(n)): float(us) for n, us in re.findall(r"(\d+) ([\d.]+)", pairs)}
RAN = {
    blocks: np.array(found.split(), int)
    for blocks, found in re.findall(r"(\d+) blocks, how many each SM ran: (.*)", SAID)
}
if RAN:
    assert (RAN["153"] == 2).sum() == 21, "the title says that 21 SMs run two"
    show(
        heat_map(
            {"blocks run": np.stack([found.reshape(11, 12) for found in RAN.values()])},
            steps=list(RAN),
            step_name="blocks",
            start=3,
            x="SM, twelve in a row",
            y="row of SMs",
            role="block",
            ranges={"blocks run": (0, 3)},
            title="For 153 blocks, 21 SMs run two and all others wait for them",
            caption="How many blocks each of the 132 SMs runs, with room for one at a time: as each block noted it on an {machine}. The launch takes as long as the SM that has most.",
            alt="; ".join(
                f"{blocks} blocks: {int((found == found.max()).sum())} SMs run {found.max()}, "
                f"{int((found == 0).sum())} run none"
                for blocks, found in RAN.items()
            )
            + ".",
        )
    )
publish(
    ask={
        "n": 2048,
        "sms": SMS,
        "tiles": tiles_of(2048, 2048, 256, 128)[0],
        "tiles_more": tiles_of(2049, 2049, 256, 128)[0],
        "more": 2049**2 / 2048**2 - 1,
        "last": waves(153, SMS).last,
        "idle": SMS - waves(153, SMS).last,
        "model": waves(153, SMS).waves / waves(128, SMS).waves,
    },
)

# %% [markdown]
# ## Blocks that only wait
#
# The model has two assumptions in it: that blocks take equally long, and that a place is all that a
# block needs. So measure first with blocks for which both hold. Each looks at the clock, and again,
# until {{ stand.cycles | , }} cycles are over, {{ stand.us | .1f }} µs at {{ stand.ghz | .2f }} GHz.
# It uses next to nothing, so it cannot matter who else is on its SM. Shared memory that nobody
# touches sets how many blocks fit. Predict: the time rises by {{ stand.us | .1f }} µs behind every
# {{ ask.sms }} blocks with room for one on each SM, and behind every {{ stand.two }} with room for
# two.

# %% needs="gpu" record="waiting_blocks" fold="The kernel that waits, and its launches"
WAIT = r"""
extern "C" __global__
void wait(int* sm, long long cycles) {
    long long start = clock64();
    unsigned here;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
    while (clock64() - start < cycles) {}  // takes its time, and no unit's
    if (threadIdx.x == 0) sm[blockIdx.x] = here;
}
"""
CYCLES, ROOMS, LISTED = 40_000, (1, 2, 4), (128, 132, 133, 153, 264, 265)

if gpu_here():
    import cupy

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    kernel = cupy.RawKernel(WAIT, "wait")
    given = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    sms, most = given["multiProcessorCount"], given["sharedMemPerBlockOptin"]
    kernel.max_dynamic_shared_size_bytes = most
    sm = cupy.zeros(8 * sms, np.int32)
    shared = {1: most, 2: most // 2 - 1024, 4: most // 4 - 1024}  # so that just so many fit on an SM

    def waiting(blocks, room):
        """A launch of blocks of 64 threads, of which each SM has room for so many."""
        values = (sm, np.int64(CYCLES))
        return lambda: kernel((blocks,), (64,), values, shared_mem=shared[room])

    counts = sorted(
        {*range(12, 4 * sms + 24, 12), *(e + d for e in range(sms, 4 * sms + 1, sms) for d in (0, 1))}
    )
    print(f"{CYCLES} cycles a block, {sms} SMs")
    for room in ROOMS:
        contenders = [Contender(f"{blocks} blocks", waiting(blocks, room)) for blocks in counts]
        timings = time_contenders(contenders, Plan(repetitions=5, flush=False))
        pairs = [f"{blocks} {one.median:.1f}" for blocks, one in zip(counts, timings)]
        print(f"room for {room}, blocks and us: {', '.join(pairs)}")
    for blocks in LISTED:
        waiting(blocks, 1)()
        on_each = np.bincount(cupy.asnumpy(sm[:blocks]), minlength=sms)
        print(f"{blocks} blocks, how many each SM ran: {' '.join(map(str, on_each))}")

# %% fold="Code of the figure"
BOOST_GHZ = device("H100 SXM").boost_mhz / 1000
CLOCK_GHZ = (WAITED.provenance.get("sm_clock_mhz") or 1000 * BOOST_GHZ) / 1000 if WAITED else BOOST_GHZ
BLOCK_US = 40_000 / CLOCK_GHZ / 1000
FIRST_US = min(STAIRS.values(), default=BLOCK_US) - BLOCK_US  # the launch


def model_us(room, blocks):
    return FIRST_US + BLOCK_US * waves(blocks, SMS, room).waves


counts = range(1, 553)
lines = []
for room, role in ((1, "block"), (2, "tile"), (4, "read")):
    seen = {blocks: us for (fits, blocks), us in STAIRS.items() if fits == room}
    model = [model_us(room, blocks) for blocks in counts]
    lines += [
        Series(f"room for {room}", list(seen), list(seen.values()), role=role, line=False),
        Series(f"model, room for {room}", counts, model, role="predicted", marks=False),
    ]
WORST = max((abs(1 - model_us(*key) / us) for key, us in STAIRS.items()), default=np.nan)
if STAIRS:
    assert WORST < 0.03, "the title says that the times climb a staircase with a step for each wave"
    show(
        line_chart(
            lines,
            x="blocks",
            y="time [µs]",
            y_range=(0, 6 * BLOCK_US),
            title="Blocks that only wait climb a staircase with a step for each wave",
            caption="Launches of 1 to 552 blocks that all wait equally long, on 132 SMs with room for one, two or four of them. Dashed: whole waves times the time of a block.",
        )
    )
publish(
    stand={
        "cycles": 40_000,
        "us": BLOCK_US,
        "ghz": CLOCK_GHZ,
        "two": 2 * SMS,
        "at_132": STAIRS[1, 132],
        "at_133": STAIRS[1, 133],
        "two_at_264": STAIRS[2, 264],
        "two_at_265": STAIRS[2, 265],
        "ratio": STAIRS[1, 133] / STAIRS[1, 132],
        "worst": WORST,
    }
)

# %% [markdown]
# {{ ask.sms }} blocks take {{ stand.at_132 | .1f }} µs and one more takes {{ stand.at_133 | .1f }}.
# With room for two on each SM the step is behind {{ stand.two }} blocks: from
# {{ stand.two_at_264 | .1f }} to {{ stand.two_at_265 | .1f }} µs. No recorded time is further than
# {{ stand.worst | .1%}} from the model. Does occupancy help a product as well, then? Two tiles on an SM
# would let {{ stand.two }} tiles pass in one wave.

# %% [markdown]
# ## Blocks that work
#
# A tile does not wait, it computes. This is the tiled product of an earlier lesson with tiles of
# 32 × 32, a thread for each element. A block has 1,024 threads, and {{ fit.blocks }} of them fit on an
# SM.


# %% tab="Pseudocode"
def product(A, B, C):
    (M, N), K = C.shape, len(B)
    for rows in tiles(M, SIDE_OF_A_TILE):
        for columns in tiles(N, SIDE_OF_A_TILE):  # each pair is a block
            sums = np.zeros((len(rows), len(columns)))
            for ks in tiles(K, SIDE_OF_A_TILE):
                sums += A[rows][:, ks] @ B[ks][:, columns]
            C[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = sums


# %% tab="CUDA C"
from tilewise import Kernel

PRODUCT = Kernel(r"""
#define T 32
extern "C" __global__
void product(const float* A, const float* B, float* C,
             int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        a[y][x] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        b[y][x] = k + y < K && col < N ? B[(k + y) * N + col] : 0.0f;
        __syncthreads();
        for (int j = 0; j < T; ++j) sum += a[y][j] * b[j][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
""")


# %% fold="Code of the cases"
def multiplied(M, N, K, shared_bytes=0):
    arrays = {"A": normal(M, K), "B": normal(K, N, scale=K**-0.5), "C": output(M, N)}
    grid = (ceil_div(N, SIDE_OF_A_TILE), ceil_div(M, SIDE_OF_A_TILE))
    block = (SIDE_OF_A_TILE, SIDE_OF_A_TILE)
    return case(**arrays, M=M, N=N, K=K, grid=grid, block=block, shared_bytes=shared_bytes)


agree(product, PRODUCT, [multiplied(33, 65, 40), multiplied(50, 31, 7)], rtol=1e-4, atol=1e-4)

# %% [markdown]
# Two models, then. If places are what counts, {{ fit.slots }} tiles are one wave and take as long as
# one tile. But a tile keeps its SM busy: by the simulator's count it asks shared memory for
# {{ fit.loads | .0f }} numbers for each multiply-add, and an SM's shared memory serves one warp at a
# time, whoever asks. Then two tiles on an SM take turns, each takes longer for the other, and what
# counts is how many tiles the busiest SM has to do, resident or not: $\lceil n / S \rceil$, with a step
# behind {{ ask.sms }} tiles already. To tell the two apart, the same kernel is also launched with
# shared memory that it does not use, so that one block fills an SM.

# %% fold="Code of the measurement"
from tilewise.measurements import Guess

ROWS, DEPTH = 352, 4096  # 11 tiles of 32 rows; the sums are 4,096 long
WIDTHS = (128, 256, 352, 384, 385, 512, 640, 768, 769, 896, 1024, 1152, 1153)
FIT = occupancy(1024, 32, 2 * 4 * SIDE_OF_A_TILE**2)
ALONE_BYTES = LIMITS[9, 0].shared_bytes // 2  # so much for one block leaves no room for a second


def library_product(arrays):
    import cupy

    A, B, C = (arrays[name] for name in "ABC")
    return lambda: cupy.matmul(A, B, out=C)


steps = measure(
    "tiles_of_a_product",
    variants={
        "room for two": lambda M, N, K: PRODUCT.on(multiplied(M, N, K)),
        "room for one": lambda M, N, K: PRODUCT.on(multiplied(M, N, K, ALONE_BYTES)),
    },
    cases=[{"M": ROWS, "N": N, "K": DEPTH} for N in WIDTHS],
    count_case={"M": 64, "N": 33, "K": 96},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cupy.matmul": library_product},
    reference=lambda A, B: {"C": A @ B},
    tolerance=2e-4,
    counts=(),
    reasons={"*": "Blocks that work"},
    fold=f"All {3 * len(WIDTHS)} rows: 352 rows, 128 to 1,153 columns, K = 4,096",
    guess=Guess(
        "264 tiles, two for each SM: how many times as fast is the kernel if both fit at a time as if one does?",
        of="room for two",
        over="room for one",
        at={"M": ROWS, "N": 768, "K": DEPTH},
        between=(0.5, 4.0),
        models={
            "places count": waves(264, SMS, 1).waves / waves(264, SMS, 2).waves,
            "tiles of the busiest SM count": 1.0,
        },
        because="Two tiles on an SM share what serves them; what the second gains is only the time that the first spends waiting.",
    ),
)

# %% fold="Code of the numbers"
counted = PRODUCT.on(multiplied(64, 64, 64)).simulate().counts
publish(
    fit={
        "blocks": FIT.blocks_per_sm,
        "slots": FIT.blocks_per_sm * SMS,
        "loads": counted.shared_load.requests * 32 / 64**3,
    }
)


# %% fold="Code of the figure"
US = medians_us(steps, "N")
if complete(US):
    step, step_of_two = (US[label, 385] / US[label, 384] for label in ("room for one", "room for two"))
    assert step > 1.5 > step_of_two > 1.1, "the title: most of a wave, and less where two share an SM"
    tiles_at = {N: tiles_of(ROWS, N, SIDE_OF_A_TILE, SIDE_OF_A_TILE)[0] for N in WIDTHS}
    grid = np.arange(44, 412)
    model = US["room for one", 384] * np.ceil(grid / SMS)
    show(
        line_chart(
            [
                *(
                    Series(label, list(tiles_at.values()), [US[label, N] for N in WIDTHS], role=role)
                    for label, role in (
                        ("room for one", "block"),
                        ("room for two", "tile"),
                        ("cupy.matmul", "read"),
                    )
                    if (label, 384) in US
                ),
                Series("model: tiles of the busiest SM", grid, model, role="predicted", marks=False),
            ],
            x="tiles of 32 × 32",
            y="time [µs]",
            title="One more column of tiles costs most of a wave, and less where two tiles share an SM",
            caption="A product with 352 rows and sums of 4,096 terms, 128 to 1,153 columns, on an {machine}. Dashed: tiles of the SM that has most, times the time of the first wave with room for one.",
        )
    )
publish(
    work={
        "step": US["room for one", 385] / US["room for one", 384],
        "whole_step": US["room for one", 512] / US["room for one", 384],
        "two_whole_step": US["room for two", 512] / US["room for two", 384],
        "two_step": US["room for two", 385] / US["room for two", 384],
        "two_late_step": US["room for two", 769] / US["room for two", 768],
        "gain": US["room for one", 768] / US["room for two", 768],
        "library_step": US["cupy.matmul", 385] / US["cupy.matmul", 384],
        "narrow": US["room for two", 384] / US["room for two", 128],
        "more": 385 / 384 - 1,
    }
)

# %% [markdown]
# From 384 to 385 columns, {{ work.more | .1% }} more work, the kernel with room for one takes
# {{ work.step | .2f }} times as long, and {{ work.whole_step | .2f }} times at 512, where the last tiles
# are whole: a tile with a single column of $B$ loads less. With room for two it is
# {{ work.two_step | .2f }} and {{ work.two_whole_step | .2f }} times. So there is a step behind
# {{ ask.sms }} tiles even where {{ fit.slots }} fit, but a lower one. At {{ fit.slots }} tiles room for
# two makes the product {{ work.gain | .2f }} times as fast, between the two models: what lies above 1 is
# waiting that the other tile hides, and the rest of the way to 2 is what sharing costs. At the next
# step, behind {{ fit.slots }} tiles, it takes {{ work.two_late_step | .2f }} times as long.

# %% [markdown]
# To the left of the first step the figure is flat: 384 columns take {{ work.narrow | .2f }} times as
# long as 128, for three times{from: 384 / 128} the work. That is the same loss seen from the other
# side, SMs without a tile.[^idle] The library's row goes its own way. From 384 to 385 it takes
# {{ work.library_step | .2f }} times as long: it has kernels with other tiles, and with the sums cut in
# pieces, and picks one for each size.
#
# [^idle]: Where the sources differ: the lecture lets the SMs of nearly empty tiles idle. They are busy,
#     with elements that do not exist; idle are those that have no tile at all. Its advice is that tiles
#     should be much larger than the number of SMs. What should be much larger is the number of tiles.

# %% [markdown]
# ## Choosing a tile
#
# Both losses together say how much of the device's time goes into elements of the result:
#
# $$\frac{M \cdot N}{\lceil n / S \rceil \cdot S \cdot \text{area of a tile}}.$$
#
# Small tiles lose less of either kind. But a larger tile uses each number that it loads more often, so
# the choice is between waste and traffic, and it depends on the size. Move the sliders. For which
# sizes does an A100 with its {{ a100 }} SMs lose most, and which of them are harmless on an H100?


# %% fold="Code of the figure"
A100_SMS = device("A100 SXM 80 GB").sms
SHAPES = {"64 × 64": (64, 64), "128 × 128": (128, 128), "256 × 128": (256, 128)}
ASKED = sorted({*range(256, 4097, 128), 257, 1409, 1790, 1793, 1794, 2049, 2305, 2817, 3585, 4095})
EVERY = sorted({*range(256, 4097, 32), *(n + 1 for n in range(256, 4096, 32))})


def used(n, shape, sms):
    """The share of the SMs' time that goes into elements of an n x n result, one tile on an SM at a time."""
    high, wide = SHAPES[shape]
    count, useful = tiles_of(n, n, high, wide)
    return count, useful, waves(count, sms), useful * waves(count, sms).busy_share


CURVES = {
    (shape, sms): [(float(n), used(n, shape, sms)[3]) for n in EVERY]
    for shape in SHAPES
    for sms in (A100_SMS, SMS)
}


def losses(rows_and_columns, tile, SMs):
    n, sms = rows_and_columns, int(SMs.split()[0])
    count, useful, found, share = used(n, tile, sms)
    if count <= sms:
        verdict = f"One wave, {sms - count} of {sms} SMs without a tile."
    elif found.last:
        verdict = f"{found.waves} waves; in the last one {sms - found.last} of {sms} SMs idle."
    else:
        verdict = f"{found.waves} full waves."
    limits = ("useful share of the tiles",) if useful < found.busy_share else ("SM time with a tile",)
    return Answer(
        [count, useful, found.busy_share, share],
        verdict,
        limits,
        lines=[(f"{tile}, {sms} SMs", "predicted", CURVES[tile, sms])],
        point=(float(n), share),
    )


show(
    calculator(
        [
            Slider("rows and columns", ASKED, 2049),
            Slider("tile", list(SHAPES), "256 × 128"),
            Slider("SMs", [f"{A100_SMS} (A100)", f"{SMS} (H100)"], f"{SMS} (H100)"),
        ],
        losses,
        meters=[
            Meter("tiles", 1024, "", "tile", ",.0f"),
            Meter("useful share of the tiles", 1.0, "", "block", ".1%"),
            Meter("SM time with a tile", 1.0, "", "block", ".1%"),
            Meter("both: time spent on the result", 1.0, "", "predicted", ".1%"),
        ],
        plot=Plot("rows and columns", "share of the time", (0, 4200), (0, 1)),
        title="From 2,048 to 2,049 an H100 falls into a second wave; an A100 did so at 1,793",
        caption="Square results in tiles of three shapes, one tile on an SM at a time: the share of the SMs' time that is spent on elements of the result. A model; memory plays no part in it.",
    )
)

# %% fold="Code of the numbers"
before, after = (tiles_of(n, n, 256, 128)[0] for n in (1792, 1794))
publish(
    a100=A100_SMS,
    puzzle={
        "before": before,
        "after": after,
        "last": waves(after, A100_SMS).last,
        "ratio": waves(after, A100_SMS).waves / waves(before, A100_SMS).waves,
        "here": waves(after, SMS).waves,
    },
)

# %% [markdown]
# The lecture's puzzle is in there: on an A100, 1,792 rows and columns are {{ puzzle.before }} tiles of
# 256 × 128, and 1,794 are {{ puzzle.after }}, {{ puzzle.last }} too many for its {{ a100 }} SMs. By the
# model the product takes {{ puzzle.ratio | .0f }} times as long. Nothing of the kind happens on an H100,
# which has both in {{ puzzle.here }} wave. A size that is good on one device says nothing about
# another; a rule does: aim at a number of tiles just below a multiple of the SMs, or at many waves. In
# a launch of $w$ waves the last one costs at most $1/w$ of the time.

# %% [markdown]
# ## The answer
#
# {{ ask.model | .0f }} times by the model: {{ ask.tiles_more }} tiles on {{ ask.sms }} SMs are two
# waves, and {{ ask.tiles }} are one. Blocks that only wait take {{ stand.ratio | .2f }} times as long
# from {{ ask.sms }} to one more, and a tiled product {{ work.step | .2f }} times from 132 tiles to 143.

# %% [markdown]
# ## Takeaways
#
# - A result is rounded up to whole tiles; what lies beyond the edge is computed all the same.
# - A launch is rounded up to whole waves of SMs × blocks an SM, if blocks only need a place.
# - Blocks that keep their SM busy share it: a second resident tile made this product
#   {{ work.gain | .1f }} times as fast and not twice.
# - Many waves make the last one cheap; small tiles do so too, and pay in traffic.
# - The edges depend on the number of SMs. What falls off one on an A100 need not on an H100.

# %% fold="The whole cell, with two wrong answers that the tests turn down"
from tilewise import exercise


def best_tile(M, N, sms, rates):
    def time_of(tile):
        high, wide = tile
        count = -(-M // high) * -(-N // wide)
        return -(-count // sms) * high * wide / rates[tile]

    return min(sorted(rates), key=time_of)


def only_the_fastest(M, N, sms, rates):
    return max(sorted(rates), key=lambda tile: rates[tile])


def fewest_waves(M, N, sms, rates):
    return min(sorted(rates), key=lambda tile: -(-(-(-M // tile[0]) * -(-N // tile[1])) // sms))


RATES = {(64, 64): 0.55, (128, 64): 0.7, (128, 128): 0.85, (256, 128): 1.0}  # made up, 1 for the best


def best_tile_tests(answer):
    random = np.random.default_rng(3)
    for _ in range(60):
        M, N = (int(size) for size in random.integers(1, 4000, 2))
        sms = int(random.choice([4, 108, 132]))
        given = answer(M, N, sms, RATES)
        busiest = {}
        for tile, rate in RATES.items():  # deal the tiles out, one by one
            work = [0.0] * sms
            for at in range(ceil_div(M, tile[0]) * ceil_div(N, tile[1])):
                work[at % sms] += tile[0] * tile[1] / rate
            busiest[tile] = max(work)
        least = min(busiest.values())
        assert busiest[given] <= least * (1 + 1e-9), f"{M} x {N} on {sms} SMs: {given} is not the fastest"


exercise(
    "Which tile?",
    """
    A library has kernels for several tiles. `rates` maps each tile `(high, wide)` to the rate at which an SM
    works on one, as a share of the best: large tiles are faster. Write `best_tile(M, N, sms, rates)`, which returns the tile with
    which an `M` × `N` result is done first, one tile on an SM at a time. The tests draw 60 sizes and deal out the tiles one by one.
    """,
    answer=best_tile,
    tests=best_tile_tests,
    wrong=[only_the_fastest, fewest_waves],
    hint="The time of a tile is its area over its rate; the busiest SM has as many as there are waves.",
)

# %% [markdown]
# By this model 4,096 and 4,097 rows and columns hardly differ, and yet the second product can be
# several times as slow. What else changes with one more column is the place where each row begins.
# That is the subject of [the wavy plot](alignment.py).
