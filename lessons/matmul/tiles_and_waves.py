# ---
# title: Tile and wave quantisation
# needs: [machine/warps, speed/occupancy, matmul/tiling]
# summary: "One more row and one more column turn 128 tiles into 153, but the GPU has 132 SMs. How much slower does the matrix multiplication get?"
# description: "Why a slightly larger matrix multiplication can take far longer: partly empty tiles, and a last wave with work for few SMs."
# date: 2026-11-21
# tags: [tile quantisation, wave quantisation, occupancy]
# ---

# %% [markdown]
# Multiply two matrices of 2,048 rows and columns, with one 256 × 128 tile of the result per block. That makes 128
# blocks, and an H100 has 132 SMs: every block gets an SM to itself. Now add one row and one column. The result grows by
# {{ ask.more | .1% }}, but it takes 153 tiles to cover it. How much slower does the multiplication get?
#
# Two effects are at work: the number of tiles grows, and it grows past the number of SMs. The figure shows how many
# blocks each SM of an H100 ran, for launches of 128 to 265 blocks. Move the slider from 132 to 133.

# %% fold="Code of the figure"
import re

import numpy as np

from tilewise import (
    agree,
    case,
    ceil_div,
    gpu_here,
    measure,
    publish,
    show,
    tiles,
)
from tilewise.figures import Series, heat_map, line_chart
from tilewise.measurements import Numbers, complete, medians_us, text_record
from tilewise.models import device, waves
from tilewise.models.occupancy import LIMITS, occupancy

SMS = device("H100 SXM").sms
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
    assert (RAN["132"] == 1).all(), "the title says that every SM runs one"
    assert sorted(RAN["133"])[-2:] == [1, 2], "the title says that one SM runs two"
    show(
        heat_map(
            {"blocks run": np.stack([found.reshape(11, 12) for found in RAN.values()])},
            steps=list(RAN),
            step_name="blocks",
            start=1,
            x="SM, twelve in a row",
            y="row of SMs",
            role="block",
            ranges={"blocks run": (0, 3)},
            title="132 blocks: one per SM. 133: one SM runs two",
            caption="How many blocks each of the 132 SMs runs when only one fits on an SM at a time, recorded on an {machine}. The launch takes as long as the busiest SM.",
            alt="; ".join(
                f"{blocks} blocks: {int((found == found.max()).sum())} SMs run {found.max()}, "
                f"{int((found == 0).sum())} run none"
                for blocks, found in RAN.items()
            )
            + ".",
        )
    )

# %% [markdown]
# You'll run into both effects whenever you choose sizes: a batch of 257 instead of 256, or a hidden size that looked
# fine on another GPU. NVIDIA's [Matrix Multiplication Background User's
# Guide](https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html#dim-quantization)
# calls them *tile quantisation* and *wave quantisation*.

# %% [markdown]
# ## Tile quantisation: whole tiles only
#
# A block always computes a whole tile. Where the matrix ends inside a tile, the threads beyond the edge run the same
# loop over $k$, and a bounds check at the end keeps them from storing. Their work is wasted.
#
# Try tiles of 4 × 4 and a result of 8 rows. With 8 columns, 4 tiles cover it exactly. What does a ninth column cost? Move
# the slider.
#
# ??? definition "Tile quantisation"
#     The rounding up of a matrix to whole tiles, so that work is done for elements that don't exist.

# %% fold="Code of the figure"
ROOM, SIDE = 12, 4


def covered(rows, columns):
    """Elements of the result as 1, the rest of their tiles as 0.45, everything else as 0."""
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
        title="Nine columns cost as much as twelve",
        caption="A result of 8 rows and 4 to 12 columns in tiles of 4 × 4. Full colour: elements of the result. Pale: computed and thrown away. Empty: not computed.",
        alt="A grid of 12 rows and 12 columns: the elements of the result have full colour, the rest of their tiles is pale.",
    )
)


# %% [markdown]
# At the size of a real tile, 128 × 128, a single extra row and column more than double the number of tiles. A result of
# 256 × 256 elements takes four tiles, one of 256 × 257 takes six, and one of 257 × 257 takes nine.


# %% fold="Code of the numbers"
def tiles_of(rows, columns, tile_rows, tile_columns):
    """The number of tiles that cover a result, and the fraction of their area that is useful."""
    count = ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns)
    return count, rows * columns / (count * tile_rows * tile_columns)


SIZES = ((256, 256), (256, 257), (257, 257))
assert [tiles_of(*size, 128, 128)[0] for size in SIZES] == [4, 6, 9], "the text says so"

# %% [markdown]
# ## Wave quantisation: the last wave
#
# The second loss comes from the number of SMs. If $S$ SMs have room for $b$ blocks each, $S \cdot b$ blocks start at once.
# The others wait until a slot is free. If all blocks take equally long, all slots become free at the same moment, and the grid
# runs in *waves*. The last wave may be nearly empty, and it takes as long as a full one.
#
# Take four SMs with room for one block each. Eight blocks run in two full waves. Nine blocks need a third wave, in
# which three SMs are idle.
#
# In general, a launch of $n$ blocks that each take time $t$ takes
#
# $$T = \left\lceil \frac{n}{S \cdot b} \right\rceil \cdot t.$$
#
# ??? definition "Wave | waves"
#     As many blocks of a launch as the device can hold at a time. They start together if all blocks
#     take equally long.
#
# ??? definition "Wave quantisation"
#     The rounding up of a launch to whole waves, so that SMs are idle while the last one runs.

# %% fold="Code of the numbers"
assert [waves(blocks, 4).waves for blocks in (8, 9)] == [2, 3], "the text says so"
assert [tiles_of(n, n, 256, 128)[0] for n in (2048, 2049)] == [128, 153], "the text says so"
publish(
    ask={
        "more": 2049**2 / 2048**2 - 1,
        "model": waves(153, SMS).waves / waves(128, SMS).waves,
    }
)

# %% [markdown]
# ## A test with blocks that only wait
#
# The model assumes that blocks take equally long and that a slot is all they need. To test it, use blocks for which
# both are true: each reads the clock until {{ stand.cycles | , }} cycles have passed. We limit how many fit on an SM by
# allocating dynamic shared memory that the kernel never uses. According to the model, the time increases in steps:
# after every 132 blocks if one block fits on an SM, and after every 264 blocks if two fit.

# %% needs="gpu" record="waiting_blocks" fold="The kernel that waits, and its launches on a GPU"
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


def model_us(per_sm, blocks):
    return FIRST_US + BLOCK_US * waves(blocks, SMS, per_sm).waves


counts = range(1, 553)
lines = []
for per_sm, role in ((1, "block"), (2, "tile"), (4, "read")):
    seen = {blocks: us for (fits, blocks), us in STAIRS.items() if fits == per_sm}
    model = [model_us(per_sm, blocks) for blocks in counts]
    lines += [
        Series(f"{per_sm} per SM", list(seen), list(seen.values()), role=role, line=False),
        Series(f"model, {per_sm} per SM", counts, model, role="predicted", marks=False),
    ]
WORST = max((abs(1 - model_us(*key) / us) for key, us in STAIRS.items()), default=np.nan)
if STAIRS:
    assert WORST < 0.03, "the title says that every wave adds a step"
    show(
        line_chart(
            lines,
            x="blocks",
            y="time [µs]",
            y_range=(0, 6 * BLOCK_US),
            title="Each wave adds one step",
            caption="Launches of 12 to 540 blocks that all wait equally long, on 132 SMs, with room for one, two or four blocks per SM. Dashed: the launch overhead plus the number of waves times the time per block.",
        )
    )
publish(
    stand={
        "cycles": 40_000,
        "at_132": STAIRS[1, 132],
        "at_133": STAIRS[1, 133],
        "ratio": STAIRS[1, 133] / STAIRS[1, 132],
        "worst": WORST,
    }
)

# %% [markdown]
# 132 blocks take {{ stand.at_132 | .0f }} µs, and 133 take {{ stand.at_133 | .0f }} µs. With two blocks per SM, the
# step moves to 264 blocks. No measured time differs from the model by more than {{ stand.worst | .1%}}.
#
# Does a second resident block also move the step of a GEMM? If two tiles fit on an SM, 264 tiles should run in a single
# wave.

# %% [markdown]
# ## Two resident blocks share one SM
#
# A real tile doesn't just wait: it computes. Take [the tiled kernel](tiling.py#the-tiled-kernel) with 32 × 32 tiles
# again. A block has 1,024 threads, and {{ fit.blocks }} blocks fit on an SM.


# %% tab="Pseudocode"
SIDE_OF_A_TILE = 32


def product(A, B, C):
    (M, N), K = C.shape, len(B)
    for rows in tiles(M, SIDE_OF_A_TILE):
        for columns in tiles(N, SIDE_OF_A_TILE):  # each pair is a block
            acc = np.zeros((len(rows), len(columns)))
            for ks in tiles(K, SIDE_OF_A_TILE):
                acc += A[rows][:, ks] @ B[ks][:, columns]
            C[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = acc


# %% tab="CUDA C"
from tilewise import Kernel

PRODUCT = Kernel(r"""
#define T 32
// C = A B, all row-major: A is M x K, B is K x N, C is M x N; each below 2^31 elements.
// Block: 32 x 32 threads. Grid: ceil(N / 32) x ceil(M / 32) blocks. Any sizes.
extern "C" __global__
void product(const float* A, const float* B, float* C,
             int M, int N, int K) {
    __shared__ float smem_a[T][T], smem_b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        smem_a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        smem_b[y][x] = k0 + y < K && col < N ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < T; ++k) acc += smem_a[y][k] * smem_b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
""")

# %% fold="Code of the cases"
from tilewise.measurements.references import product_inputs


def multiplied(M, N, K, shared_bytes=0):
    grid = (ceil_div(N, SIDE_OF_A_TILE), ceil_div(M, SIDE_OF_A_TILE))
    block = (SIDE_OF_A_TILE, SIDE_OF_A_TILE)
    return case(**product_inputs(M, N, K), grid=grid, block=block, shared_bytes=shared_bytes)


agree(product, PRODUCT, [multiplied(33, 65, 40), multiplied(50, 31, 7)], rtol=1e-4, atol=1e-4)

# %% [markdown]
# Change M and N. How many instructions does a single row or column beyond a whole tile cost?

# %% fold="Code of the run"
from tilewise import try_it

try_it(lambda M, N: multiplied(M, N, 40), PRODUCT, M=(1, 33, 96), N=(1, 65, 96))

# %% [markdown]
# Two models are possible. If slots are the limit, {{ fit.slots }} tiles take two waves with one resident block per SM
# and a single wave with two. But a tile keeps its SM busy: it reads {{ fit.loads | .0f }} values from shared memory per
# multiply-add, and both tiles use the same pipe. If that pipe is the limit, a second resident block gains nothing. Then
# the time depends on $\lceil n / S \rceil$, the number of tiles that the busiest SM computes, whether or not they're
# resident at the same time. The first step then comes after only 132 tiles.
#
# To tell the two apart, we also launch the kernel with so much dynamic shared memory that only one block fits on an SM.

# %% fold="Code of the measurement"
from tilewise.measurements import Guess

ROWS, DEPTH = 352, 4096  # 11 tiles of 32 rows, and K
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
        "two blocks per SM": lambda M, N, K: PRODUCT.on(multiplied(M, N, K)),
        "one block per SM": lambda M, N, K: PRODUCT.on(multiplied(M, N, K, ALONE_BYTES)),
    },
    cases=[{"M": ROWS, "N": N, "K": DEPTH} for N in WIDTHS],
    count_case={"M": 64, "N": 33, "K": 96},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cupy.matmul": library_product},
    reference=lambda A, B: {"C": A @ B},
    tolerance=2e-4,
    counts=(),
    reasons={"*": "Two resident blocks share one SM"},
    fold=f"All {3 * len(WIDTHS)} rows: 352 rows, 128 to 1,153 columns, K = 4,096",
    guess=Guess(
        "With 264 tiles, two for each SM, how much faster is the kernel if both fit on the SM at the same time?",
        of="two blocks per SM",
        over="one block per SM",
        at={"M": ROWS, "N": 768, "K": DEPTH},
        between=(0.5, 4.0),
        models={
            "slots": waves(264, SMS, 1).waves / waves(264, SMS, 2).waves,
            "tiles of the busiest SM": 1.0,
        },
        because="Two tiles on an SM share its shared-memory pipe. The second one fills the gaps in which the first one waits.",
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
    step, step_of_two = (
        US[label, 385] / US[label, 384] for label in ("one block per SM", "two blocks per SM")
    )
    assert step > 1.5 > step_of_two > 1.1, "the title: a step at 132 tiles, lower with two per SM"
    tiles_at = {N: tiles_of(ROWS, N, SIDE_OF_A_TILE, SIDE_OF_A_TILE)[0] for N in WIDTHS}
    assert tiles_at[384] == SMS, "the title says that the step is after 132 tiles"
    grid = np.arange(44, 412)
    model = US["one block per SM", 384] * np.ceil(grid / SMS)
    show(
        line_chart(
            [
                *(
                    Series(label, list(tiles_at.values()), [US[label, N] for N in WIDTHS], role=role)
                    for label, role in (
                        ("one block per SM", "block"),
                        ("two blocks per SM", "tile"),
                        ("cupy.matmul", "read"),
                    )
                    if (label, 384) in US
                ),
                Series("model: tiles of the busiest SM", grid, model, role="predicted", marks=False),
            ],
            x="tiles of 32 × 32",
            y="time [µs]",
            title="The first step comes after 132 tiles, in both cases",
            caption="A GEMM with 352 rows, 128 to 1,153 columns and K = 4,096, on an {machine}. Dashed: the number of tiles on the busiest SM, multiplied by the duration of the first wave with one block per SM.",
        )
    )
publish(
    work={
        "step": US["one block per SM", 385] / US["one block per SM", 384] - 1,
        "two_step": US["two blocks per SM", 385] / US["two blocks per SM", 384] - 1,
        "gain": US["one block per SM", 768] / US["two blocks per SM", 768],
        "library_step": US["cupy.matmul", 385] / US["cupy.matmul", 384] - 1,
        "more": 385 / 384 - 1,
    }
)
if complete(US):
    assert abs(US["two blocks per SM", 384] / US["two blocks per SM", 128] - 1) < 0.02, (
        "the text: the same time"
    )

# %% [markdown]
# With 385 columns instead of 384, the work grows by only {{ work.more | .1% }}, but the number of tiles grows from 132
# to 143. With one block per SM, the time grows by {{ work.step | .0% }}; a full second wave would double it. A block
# whose tile has a single useful column loads almost none of $B$, so it can finish earlier.
#
# With two blocks per SM, there's still a step after 132 tiles, although {{ fit.slots }} fit, but the step is
# smaller: {{ work.two_step | .0% }}. At {{ fit.slots }} tiles, two resident blocks are {{ work.gain | .1f }}× faster
# than one. So neither model is exact: a second block can fill the gaps while the first one waits, but the rest of the
# time, the two share a pipe.
#
# cuBLAS takes only {{ work.library_step | .0% }} longer for 385 columns than for 384. It has kernels for many tile
# sizes and can also split $K$ among blocks.

# %% [markdown]
# ??? question "Do SMs with nearly empty tiles idle?"
#     No, although that's a common misconception. They're as busy as the others, with elements that don't exist. The
#     idle SMs are those that have no tile at all.

# %% [markdown]
# ## Choosing a tile
#
# Together, the two losses determine the fraction of the SMs' time that is spent on elements of the result:
#
# $$\frac{M \cdot N}{\lceil n / S \rceil \cdot S \cdot \text{area of a tile}}.$$
#
# Small tiles waste less in both ways, but a large tile reuses each element more often. You trade off waste against
# memory traffic, so the best tile depends on the size of the result.


# %% fold="Code of the figure"
EVERY = sorted({*range(256, 4097, 32), *(n + 1 for n in range(256, 4096, 32))})


def used(n, tile_rows, tile_columns):
    """The fraction of the SMs' time that goes into elements of an n x n result, one block per SM at a time."""
    count, useful = tiles_of(n, n, tile_rows, tile_columns)
    return useful * waves(count, SMS).busy_share


show(
    line_chart(
        [
            Series(
                f"{rows} × {columns} tiles",
                EVERY,
                [100 * used(n, rows, columns) for n in EVERY],
                role=role,
                marks=False,
            )
            for rows, columns, role in ((64, 64, "read"), (128, 128, "tile"), (256, 128, "block"))
        ],
        x="rows and columns",
        y="time spent on the result [%]",
        y_range=(0, 100),
        title="One more row and column can halve the utilisation",
        caption="Square results in tiles of three shapes on the 132 SMs of an H100, one block per SM at a time: the percentage of the SMs' time spent on elements of the result. The model ignores memory traffic.",
    )
)
assert used(2049, 256, 128) < 0.6 * used(2048, 256, 128), "the title says so"
NEAR = (1792, 1793, 4096, 4097)
assert [tiles_of(n, n, 256, 128)[0] for n in NEAR] == [98, 120, 512, 561], "the text says how many tiles"
assert [waves(tiles, SMS).waves for tiles in (98, 120, 512, 561)] == [1, 1, 4, 5], "the text says so"
A100_SMS = device("A100 SXM 80 GB").sms
assert (A100_SMS, *(waves(tiles, A100_SMS).waves for tiles in (98, 120))) == (108, 1, 2), "the text says so"

# %% [markdown]
# Horace He's [What Shapes Do Matrix Multiplications
# Like?](https://www.thonking.ai/p/what-shapes-do-matrix-multiplications) has a famous example. On an A100, which has
# 108 SMs, a result with 1,792 rows and columns takes 98 tiles of 256 × 128 and one wave. One with 1,793 takes 120 tiles
# and two waves. On an H100, both fit in one.
#
# Choose sizes and tiles so that the number of tiles is just under a multiple of the number of SMs, or so large that
# there are many waves. In a launch of $w$ waves, an almost empty last one wastes at most $1/w$ of the time.

# %% [markdown]
# ## The answer
#
# According to the model, the multiplication takes {{ ask.model | .0f }}× as long: 128 tiles on 132 SMs are one wave,
# and 153 are two. Two measurements support the model. With one more block than there are SMs, a launch of blocks that
# only wait takes {{ stand.ratio | .1f }}× as long. From 132 to 143 tiles, the time of the tiled GEMM above, with one
# block per SM, grows by {{ work.step | .0% }}: the time doesn't quite double, because the new tiles are nearly empty.

# %% [markdown]
# ## Takeaways
#
# - A result is rounded up to whole tiles, and a launch to whole waves. One more row or column can cost a whole wave.
# - Two resident blocks share an SM's pipes. The second one made this GEMM only {{ work.gain | .1f }}× faster.
# - In a launch of many waves, an almost empty last wave costs little. Small tiles give you more waves but more memory
#   traffic.

# %% [markdown]
# ## In your own kernel
#
# Look at `launch__waves_per_multiprocessor` in Nsight Compute: a value just above a small whole number, such as 1.05,
# means a nearly empty last wave. Then shrink the problem a little, choose a smaller tile, or let blocks share the last
# tiles, as [Stream-K](shared_tiles.py) does.

# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def best_tile(M, N, sms, rates):
    def time_of(tile):
        high, wide = tile
        count = -(-M // high) * -(-N // wide)
        return -(-count // sms) * high * wide / rates[tile]

    return min(sorted(rates), key=time_of)


RATES = {(64, 64): 0.55, (128, 64): 0.7, (128, 128): 0.85, (256, 128): 1.0}  # invented; 1 for the fastest


def best_tile_tests(answer):
    random = np.random.default_rng(3)
    for _ in range(60):
        M, N = (int(size) for size in random.integers(1, 4000, 2))
        sms = int(random.choice([4, 108, 132]))
        given = answer(M, N, sms, RATES)
        busiest = {}
        for tile, rate in RATES.items():  # assign the tiles to SMs, one by one
            work = [0.0] * sms
            for at in range(ceil_div(M, tile[0]) * ceil_div(N, tile[1])):
                work[at % sms] += tile[0] * tile[1] / rate
            busiest[tile] = max(work)
        least = min(busiest.values())
        assert busiest[given] <= least * (1 + 1e-9), f"{M} x {N} on {sms} SMs: {given} is not the fastest"


exercise(
    "Which tile?",
    """
    A library has kernels for several tiles. `rates` maps each tile `(rows, columns)` to the rate at which an SM computes such tiles,
    relative to the fastest: large tiles are faster. Write `best_tile(M, N, sms, rates)`, which returns the tile that finishes
    an `M` × `N` result first, with one block per SM at a time. The tests pick 60 sizes at random and assign the tiles to SMs one by one.
    """,
    answer=best_tile,
    tests=best_tile_tests,
    wrong=[
        {"-(-count // sms) * high * wide / rates[tile]": "-rates[tile]"},
        {" * high * wide / rates[tile]": ""},
    ],
    hint="The time of a tile is its area divided by its rate. The busiest SM has as many tiles as there are waves.",
)

# %% [markdown]
# With 4,097 rows and columns instead of 4,096, this model predicts five waves of 256 × 128 tiles instead of four. Yet
# the GEMM with 4,097 rows and columns can be several times slower: one more column also changes the address at which
# each row begins. See [alignment](alignment.py).
