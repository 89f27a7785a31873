# ---
# title: The wavy plot
# needs: [matmul/matrix_units, matmul/tiles_and_waves]
# summary: "A product of 4,096 rows and columns, and one of 4,097. How many times as long does the second take?"
# description: "The rate of cuBLAS over hundreds of sizes explained: tiles, waves, the byte at which rows begin, and what padding costs."
# date: 2026-11-21
# tags: [alignment, padding, cuBLAS, BF16]
# ---

# %% [markdown]
# cuBLAS, NVIDIA's library, multiplies two BF16 matrices of {{ ask.even | , }} rows and columns. Then each
# of them gets one more row and one more column, {{ ask.more | .2% }} more work. The tiles and waves of
# the last lesson would add little. How many times as long does it take? Here is the whole picture
# first: the rate for hundreds of sizes of square matrices.

# %% fold="Imports"
import re
from importlib.util import find_spec

import numpy as np

from tilewise import (
    Table,
    agree,
    case,
    ceil_div,
    check,
    gpu_here,
    integers,
    measure,
    output,
    parallel,
    publish,
    show,
)
from tilewise.figures import Series, bars, heat_map, line_chart
from tilewise.measurements import Numbers, complete, medians_us, printed_numbers, text_record
from tilewise.models import waves

# %% needs="gpu torch" record="sweep" fold="Code of the sweep"
if gpu_here() and find_spec("torch"):
    import torch

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    MOST, STEPS = 4608, (1, 2, 4, 8, 16, 32, 64)  # each row of the record has one size of every kind
    torch.manual_seed(0)
    numbers = [torch.randn(MOST * MOST, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    room = torch.empty(MOST * MOST, device="cuda", dtype=torch.bfloat16)

    def square(n):
        """A product of n x n numbers, without anything between the rows."""
        A, B, C = (one[: n * n].view(n, n) for one in (*numbers, room))
        return lambda: torch.matmul(A, B, out=C)

    for base in range(192, MOST, 64):
        contenders = [Contender(str(base + step), square(base + step)) for step in STEPS]
        for one in contenders:
            one.call()  # whatever the library loads, it loads here
        timings = time_contenders(contenders, Plan(repetitions=9))
        print(", ".join(f"{one.label} {one.median:.1f}" for one in timings))

# %% fold="Code of the figure"
HERE = "matmul/alignment"
KINDS = {1: "hazard", 2: "waste", 4: "write", 8: "read", 16: "tile", 32: "block"}


def text_of(name):
    """What a recorded cell printed; nothing before it is recorded."""
    found = text_record(HERE, name)
    return found.text if found else ""


def power_in(n):
    """The largest power of two that divides n, 32 for all above."""
    return min(n & -n, 32)


def tile_model(n):
    """The share of 132 SMs' time that goes into an n x n result, in tiles of 256 x 128."""
    found = waves(ceil_div(n, 256) * ceil_div(n, 128), 132)
    return n * n / (found.blocks * 256 * 128) * found.busy_share


US = printed_numbers(HERE, "sweep", r"(\d+) ([\d.]+)")
RATES = Numbers({n: 2 * n**3 / us / 1e6 for n, us in US.items()})  # TFLOP/s
if RATES:
    TOP = max(RATES.values())
    SIZES = np.array(sorted({*range(256, 4609, 16), *(n + 1 for n in range(256, 4608, 32))}))
    drawn = []
    for kind, role in KINDS.items():
        mine = [n for n in RATES if power_in(n) == kind]
        label = f"{kind}" if kind < 32 else "32 and more"
        drawn.append(Series(label, mine, [RATES[n] for n in mine], role=role, line=False))
    model = [TOP * tile_model(int(n)) for n in SIZES]
    show(
        line_chart(
            [*drawn, Series("tiles and waves", SIZES, model, role="predicted", marks=False)],
            x="rows and columns n",
            y="rate [TFLOP/s]",
            y_range=(0, 1.08 * TOP),
            height=460,
            title="What decides most is the power of two that divides n, not n",
            caption="The rate of cuBLAS for n × n matrices of BF16 numbers on an {machine}, coloured by the largest power of two that divides n, and the model of tiles and waves on 132 SMs with its best rate set to the best recorded one.",
        )
    )


# %% fold="Code of the numbers"
def band(kind):
    """The median rate of the sizes from 2,048 on whose largest power of two is this."""
    return np.median([rate for n, rate in RATES.items() if n >= 2048 and power_in(n) == kind] or [np.nan])


publish(
    ask={"even": 4096, "odd": 4097, "more": (4097 / 4096) ** 3 - 1},
    plot={
        "even": RATES[4096],
        "odd": RATES[4097],
        "times": US[4097] / US[4096],
        **{f"band{kind}": band(kind) for kind in (1, 2, 4, 8, 16)},
        "tiles1536": ceil_div(1536, 256) * ceil_div(1536, 128),
        "of108": 72 / 108,
        "ridge_n": 3 * 312e12 / 2.039e12,
    },
)

# %% [markdown]
# Three things are in the picture. The left side is a ramp; the dashed model has one too, because a
# small result has fewer tiles than the device has SMs.[^ramp] Waves are there, though softer than the
# model's: the library has tiles of several shapes and chooses. And then there are bands, which the model
# knows nothing of. From 2,048 on, odd sizes reach {{ plot.band1 | .0f }} TFLOP/s in the median, those
# that 2 divides and not 4 {{ plot.band2 | .0f }}, and with 4 it is {{ plot.band4 | .0f }}, no more. With 8
# it is {{ plot.band8 | .0f }}, and with 16 {{ plot.band16 | .0f }}.[^which]
#
# [^ramp]: Where the sources differ: the lecture explains the ramp up to 1,536 by a lack of memory
#     bandwidth. With ideal reuse a product does n / 3 operations for each byte of 16-bit numbers, and an
#     A100's ridge is passed near n = {{ plot.ridge_n | .0f }}. At 1,536 there are {{ plot.tiles1536 }}
#     tiles of 256 × 128, enough for {{ plot.of108 | .0% }} of its SMs.
#
# [^which]: Where the sources differ: the lecture tells the drop behind 1,792 on the line of sizes with
#     a factor of 2. But 1,792 is 2⁸ · 7 and lies on the best line; on the other the step is from 1,790 to
#     1,794. From 1,792 to 1,794 the wave and the band change at once.

# %% [markdown]
# ## Where rows begin
#
# A matrix lies in memory row after row. With n numbers of 2 bytes in a row, row i begins at byte
# 2 · n · i. If n is a multiple of 8, every row begins at a multiple of 16 bytes. If n is odd, seven of
# eight rows do not. Move the slider and watch where rows begin: that distance between two rows,
# counted in elements, is the row stride.
#
# ??? definition "Row stride | row strides"
#     How many elements of memory lie between the first elements of two neighbouring rows; at least as
#     many as a row has.

# %% fold="Code of the figure"
WORDS, LINES = 16, 10  # a line of the figure is a sector: 32 bytes, 16 numbers


def laid_out(n):
    """Rows of n numbers one after the other: the first number of a row 1, its others 0.55 or 0.25."""
    at = np.arange(WORDS * LINES)
    shade = np.where(at // n % 2 == 0, 0.55, 0.25)
    shade[at % n == 0] = 1.0
    return shade.reshape(LINES, WORDS)


STRIDES = range(8, 25)
show(
    heat_map(
        {"memory": np.stack([laid_out(n) for n in STRIDES])},
        steps=list(STRIDES),
        step_name="numbers in a row",
        start=STRIDES.index(17),
        x="number within 32 bytes",
        y="sector of 32 bytes",
        role="read",
        ranges={"memory": (0, 1)},
        key=False,
        title="With 16 numbers in a row, each begins where a sector does; with 17, each begins elsewhere",
        caption="The first 320 bytes of a matrix of 16-bit numbers. Full colour: the first number of a row; rows are shaded in turn. Columns 0 and 8 are multiples of 16 bytes.",
        alt="; ".join(
            f"{n} numbers in a row: rows begin at {', '.join(str(row * n % WORDS) for row in range(6))} of 16"
            for n in STRIDES
        )
        + ".",
    )
)

# %% [markdown]
# What does that cost? One cost is known from coalescing: a piece of a row that does not begin at a
# sector touches one sector more. How much that is depends on the width of the piece.


# %%
def sectors_of_piece(first_byte, size_bytes):
    """How many sectors of 32 bytes a piece of a row touches."""
    return (first_byte + size_bytes - 1) // 32 - first_byte // 32 + 1


def extra(columns, element_bytes):
    """Sectors of a piece of a row, averaged over where rows of odd length begin, over those when aligned."""
    size = columns * element_bytes
    begins = [element_bytes * at for at in range(32 // element_bytes)]
    mean = np.mean([sectors_of_piece(first, size) for first in begins])
    return mean / sectors_of_piece(0, size)


PIECES = ((8, 4), (32, 4), (128, 4), (64, 2), (128, 2))
show(
    Table(
        ["columns of a tile", "bytes of a number", "sectors, aligned = 1"],
        [[columns, size, f"{extra(columns, size):.2f}"] for columns, size in PIECES],
        caption="Sectors that a row of a tile touches if rows begin anywhere, averaged over all places.",
    )
)
publish(cost={"tile": extra(64, 2), "narrow": extra(8, 4), "needed": 16, "plain": 2, "loads": 16 // 2})

# %% [markdown]
# A tile of 64 columns touches {{ cost.tile | .2f }} times the sectors.[^twice] That cannot explain the
# lowest band. The other cost is the width of a load: an address must be a multiple of the size that is
# loaded. With 16-byte rows a lane fetches 8 numbers at once, and an H100 has a unit that copies whole
# tiles, which takes rows that are multiples of {{ cost.needed }} bytes and no others. If rows begin at
# odd multiples of {{ cost.plain }} bytes, what is left are loads of one number: {{ cost.loads }} times
# as many of them, each with an instruction to issue and an address to work out.
#
# [^twice]: Where the sources differ: in the lecture one column more doubles the reads. That holds for
#     rows that are exactly one burst wide; with eight 32-bit numbers in a tile's row and sectors of 32
#     bytes it is {{ cost.narrow | .2f }} times. And what counts is where rows begin, in bytes: the row
#     stride times the size of a number.

# %% [markdown]
# If that is the reason, then it should matter which of the three sizes is odd. In $C = A B$ with $A$ of
# $M \times K$, $B$ of $K \times N$ and $C$ of $M \times N$, the row strides are $K$, $N$ and $N$. $M$ is no row
# stride of any of them. So predict: M = {{ ask.odd | , }} alone costs a few tiles, K spoils the rows of
# A, and N those of B and C.

# %% needs="gpu torch" record="one_size_odd" fold="Code of the five products"
if gpu_here() and find_spec("torch"):
    import torch

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    EDGES = (
        (4096, 4096, 4096),
        (4097, 4096, 4096),
        (4096, 4096, 4097),
        (4096, 4097, 4096),
        (4097, 4097, 4097),
    )

    def rectangle(M, N, K):
        """A product of normally distributed numbers, M x K by K x N."""
        A = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
        B = torch.randn(K, N, device="cuda", dtype=torch.bfloat16)
        C = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
        torch.matmul(A, B, out=C)
        return lambda: torch.matmul(A, B, out=C)

    timings = time_contenders(
        [Contender(f"M {M}, N {N}, K {K}", rectangle(M, N, K)) for M, N, K in EDGES], Plan(repetitions=21)
    )
    for one in timings:
        print(f"{one.label}: {one.median:.1f} us")

# %% fold="Code of the figure"
NAMES = {
    "none": (4096, 4096, 4096),
    "M": (4097, 4096, 4096),
    "K: rows of A": (4096, 4096, 4097),
    "N: rows of B and C": (4096, 4097, 4096),
    "all three": (4097, 4097, 4097),
}
SAID_US = printed_numbers(HERE, "one_size_odd", r"M (\d+), N (\d+), K (\d+): ([\d.]+) us")
ODD_US = {label: SAID_US[sizes] for label, sizes in NAMES.items()}
if complete(ODD_US):
    none, only_m, only_k, only_n, _ = ODD_US.values()
    assert only_m < 1.1 * none < 5 * none < min(only_k, only_n), "the title: M costs little, K and N do not"
    show(
        bars(
            ODD_US,
            x="time [µs]",
            title="An odd M costs little; an odd K or N spoils the rows",
            caption="Products of 4,096 × 4,096 matrices of BF16 numbers with cuBLAS on an {machine}, of which one size, or each, is 4,097.",
        )
    )
publish(odd={re.split(r"\W", label)[0]: us / ODD_US["none"] for label, us in ODD_US.items()})

# %% [markdown]
# With an odd M the product takes {{ odd.M | .2f }} times as long, with an odd K {{ odd.K | .2f }} times
# and with an odd N {{ odd.N | .2f }} times. All three together make it {{ odd.all | .2f }}, less than N
# alone: the losses do not add up, and a kernel for any rows serves them all.

# %% [markdown]
# ## Padding
#
# The cure is padding, as for banks, but in global memory: the rows get another stride, the next
# multiple of 8, with zeros in the columns that are added. For A and B that is a copy before the product,
# and for C one after it. Nothing else in the product changes, since a zero adds nothing. The first
# kernel moves a matrix from one stride to another with a lane for each element, in both directions.


# %% tab="Pseudocode"
def restride(source, target, rows, cols):
    to_rows, to_cols = target.shape
    for row, col in parallel(to_rows, to_cols):
        if row < rows and col < cols:
            target[row, col] = source[row, col]
        else:
            target[row, col] = 0


# %% tab="CUDA C"
from tilewise import Kernel

BY_ELEMENTS = Kernel(r"""
extern "C" __global__
void restride(const unsigned short* source, unsigned short* target,
              int rows, int cols, int from_stride,
              int to_rows, int to_stride) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= to_stride) return;
    for (int row = blockIdx.y; row < to_rows; row += gridDim.y) {
        unsigned short value = 0;
        if (row < rows && col < cols)
            value = source[(long long)row * from_stride + col];
        target[(long long)row * to_stride + col] = value;
    }
}
""")

# %% [markdown]
# Two bytes a lane, 64 a warp: by what [hiding latency](../speed/occupancy.py) found, so little in
# flight cannot fill the memory's path. Can a lane move 16 bytes, if the rows on one side begin
# anywhere? It can store 16 aligned bytes and read what belongs there in words of 4, which are aligned
# whatever the stride: four words, and a fifth if the first number wanted is the second half of a
# word. Then each pair to be stored consists of the halves of two neighbouring words.

# %%
BY_PIECES = Kernel(r"""
__device__ unsigned word_at(const unsigned short* source,
                            long long word, long long total) {
    if (2 * word + 1 < total) return ((const unsigned*)source)[word];
    return source[2 * word];  // the last number, if it is alone
}

extern "C" __global__
void restride(const unsigned short* source, unsigned short* target,
              int rows, int cols, int from_stride,
              int to_rows, int to_stride) {
    long long total = (long long)(rows - 1) * from_stride + cols;
    int piece = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = blockIdx.y; row < to_rows; row += gridDim.y) {
        long long out = (long long)row * to_stride;
        // New: 8 numbers that begin at a multiple of 16 bytes of target
        int begin = 8 * piece - (int)(out % 8);
        int left = row < rows ? cols - begin : 0;  // of the matrix
        long long in = (long long)row * from_stride + begin;
        if (begin >= to_stride) continue;
        if (begin >= 0 && begin + 8 <= to_stride) {
            int odd = (int)(in & 1);
            unsigned word[5], pair[4];
            for (int j = 0; j < 5; ++j)
                word[j] = left > 0 && 2 * j - odd < left
                    ? word_at(source, (in >> 1) + j, total) : 0;
            for (int j = 0; j < 4; ++j) {
                pair[j] = odd ? word[j] >> 16 | word[j + 1] << 16 : word[j];
                if (2 * j + 1 >= left) pair[j] &= 0xffff;
                if (2 * j >= left) pair[j] = 0;
            }
            *(uint4*)(target + out + begin)
                = make_uint4(pair[0], pair[1], pair[2], pair[3]);
        } else {  // the ends of a row
            for (int e = max(begin, 0); e < min(begin + 8, to_stride); ++e)
                target[out + e] = e - begin < left ? source[in + e - begin] : 0;
        }
    }
}
""")


# %% fold="Code of the cases"
ARGUMENTS = ("rows", "cols", "from_stride", "to_rows", "to_stride")  # as the kernels name them


def moved(*shape, lane_elements=8):
    """A matrix of 16-bit words that goes from one row stride to another."""
    rows, _, from_stride, to_rows, to_stride = shape
    return case(
        source=integers(rows, from_stride, low=0, high=65536, dtype="uint16"),
        target=output(to_rows, to_stride, dtype="uint16"),
        **dict(zip(ARGUMENTS, shape, strict=True)),
        grid=(ceil_div(ceil_div(to_stride + 7, lane_elements), 128), min(to_rows, 65535)),
        block=128,
    )


SHAPES = (
    (9, 17, 17, 9, 24),  # padded
    (9, 17, 24, 9, 17),  # and back
    (5, 13, 13, 16, 16),  # rows of zeros too
    (7, 31, 31, 7, 33),  # from odd to odd
    (3, 16, 16, 3, 16),  # nothing to do
    (1, 1, 1, 2, 8),
    (6, 5, 8, 6, 5),  # rows shorter than a piece
)
agree(restride, BY_ELEMENTS, [moved(*shape, lane_elements=1) for shape in SHAPES], rtol=0.0)
agree(restride, BY_PIECES, [moved(*shape) for shape in SHAPES], rtol=0.0)

# %% [markdown]
# One line deserves a look. If rows and columns are odd, so is the number of elements, and the word
# that holds the last one reaches 2 bytes beyond the end of the array. On most days nobody notices.
# Without the question in `word_at`, the simulator does:

# %%
from tilewise import expect_hazard

CARELESS = Kernel(BY_PIECES.source.replace("2 * word + 1 < total", "true"))
expect_hazard(CARELESS.on(moved(9, 17, 17, 9, 24)), "out of bounds", line_with="[word]")

# %% [markdown]
# ## What a copy costs
#
# The bound is the traffic: all numbers once in and once out. For n = {{ ask.odd | , }} that is
# {{ copy.megabytes | .1f }} MB, {{ copy.bound_us | .1f }} µs at the peak bandwidth. Predict before
# you look: a lane for each element keeps {{ copy.narrow_bytes }} bytes a warp under way, the pieces keep
# {{ copy.wide_bytes }}.

# %% fold="Code of the measurement"
from tilewise.measurements import Guess, recorded_device

ODD = (1793, 4095, 4097)


def even(n):
    return ceil_div(n, 8) * 8


def padding(kernel, lane_elements):
    """A matrix of n x n that is padded, or one with padded rows that goes back to n numbers in a row."""

    def launch(n, back):
        strides = (even(n), n) if back else (n, even(n))
        return kernel.on(moved(n, n, strides[0], n, strides[1], lane_elements=lane_elements))

    return launch


def torch_pad(arrays, n, back):
    import torch
    from torch.nn import functional

    source, target = (
        torch.as_tensor(arrays[name].view("int16"), device="cuda") for name in ("source", "target")
    )

    def run():
        target.copy_(source[:, :n] if back else functional.pad(source, (0, even(n) - n)))

    return run


def cupy_slices(arrays, n, back):
    source, target = arrays["source"], arrays["target"]

    def run():
        if back:
            target[...] = source[:, :n]
        else:
            target[:, :n] = source
            target[:, n:] = 0

    return run


def right_target(source, cols, to_rows, to_stride):
    target = np.zeros((to_rows, to_stride))
    target[: len(source), :cols] = source[:, :cols]
    return {"target": target}


copied = measure(
    "restride",
    variants={"an element a lane": padding(BY_ELEMENTS, 1), "16 bytes a lane": padding(BY_PIECES, 8)},
    cases=[{"n": n, "back": back} for n in ODD for back in (0, 1)],
    count_case={"n": 61, "back": 0},
    bytes=lambda n, back: 2 * n * (n + even(n)),
    library={"torch, pad or copy_": torch_pad, "CuPy, by slices": cupy_slices},
    reference=right_target,
    tolerance=0.0,
    counts=("requests", "sectors"),
    reasons={"*": "What a copy costs"},
    fold="All 24 rows",
    guess=Guess(
        "How many times as fast is the copy with 16 bytes a lane as with an element a lane, at n = 4,097?",
        of="16 bytes a lane",
        over="an element a lane",
        at={"n": 4097, "back": 0},
        between=(0.5, 8.0),
        models={"bytes of a lane": 8.0, "traffic alone": 1.0},
        because="More bytes under way help until the memory's path is full.",
    ),
)


# %% fold="Code of the figure"
COPY_US = medians_us(copied, "n", "back")
PAD_US = Numbers({label: us for (label, *size), us in COPY_US.items() if size == [4097, 0]})
if complete(PAD_US):
    show(
        bars(
            PAD_US,
            x="time [µs]",
            title="The copy is paid in bytes, and most ways of it pay more",
            caption="A matrix of 4,097 × 4,097 numbers of 16 bits copied to rows of 4,104 on an {machine}, by our two kernels and by two libraries.",
        )
    )
GPU = recorded_device()
COUNTED = [padding(*pair)(257, 0).simulate().counts for pair in ((BY_ELEMENTS, 1), (BY_PIECES, 8))]
REQUESTS = [one.global_load.requests + one.global_store.requests for one in COUNTED]
SECTORS = [one.global_load.sectors + one.global_store.sectors for one in COUNTED]
COPIES_US = 2 * PAD_US["16 bytes a lane"] + COPY_US["16 bytes a lane", 4097, 1]
publish(
    counted={"requests": REQUESTS[1] / REQUESTS[0], "sectors": SECTORS[1] / SECTORS[0]},
    copy={
        "megabytes": 2 * 4097 * (4097 + 4104) / 1e6,
        "bound_us": 2 * 4097 * (4097 + 4104) / GPU.memory_gb_per_s / 1e3,
        "narrow_bytes": 2 * 32,
        "wide_bytes": 16 * 32,
        "narrow_us": PAD_US["an element a lane"],
        "wide_us": PAD_US["16 bytes a lane"],
        "torch_us": PAD_US["torch, pad or copy_"],
        "three_us": COPIES_US,
    },
    saved={
        "even_us": US[4096],
        "odd_us": US[4097],
        "predicted_us": US[4096] + COPIES_US,
        "predicted": US[4097] / (US[4096] + COPIES_US),
    },
)

# %% [markdown]
# By the simulator, the pieces make {{ counted.requests | .2f }} times the requests of the other kernel
# and touch {{ counted.sectors | .1f }} times its sectors: a sector is asked for by up to five of a
# lane's loads, and L1 answers all but the first.[^split] At n = {{ ask.odd | , }} the copy takes
# {{ copy.wide_us | .1f }} µs in pieces and {{ copy.narrow_us | .1f }} µs element by element; PyTorch's
# takes {{ copy.torch_us | .1f }}, since `pad` makes an array of its own that is then copied. Three
# copies, two before the product and one behind it, are {{ copy.three_us | .0f }} µs. Whether that is
# much depends on what they save.
#
# [^split]: A lane's store of 16 bytes counts as one here. What the compiler makes of it is shown
#     [below](#a-rounder-stride).

# %% [markdown]
# ## The product, its copies counted in
#
# A product of {{ ask.odd | , }} with round rows should take about as long as one of {{ ask.even | , }}:
# {{ saved.even_us | .0f }} µs in the record above, against {{ saved.odd_us | .0f }} for the odd one.
# With the copies that predicts {{ saved.predicted_us | .0f }} µs, {{ saved.predicted | .1f }} times as
# fast as it is. There is a second way: leave the sizes odd and make only the strides even. Then no zeros
# are multiplied, but cuBLAS must have kernels that ask for strides and not for sizes.
#
# For small matrices three launches are many. One kernel can pad A and B together, with all loads of
# four pieces before the first store. And whoever takes rows with a stride, as PyTorch does, needs no copy
# of C: the first n columns of the wide result are the result.


# %% tab="Pseudocode"
def pad_both(A, B, wide_A, wide_B):
    n, stride = len(A), len(wide_A)
    for row, col in parallel(stride, stride):
        inside = row < n and col < n
        wide_A[row, col] = A[row, col] if inside else 0
        wide_B[row, col] = B[row, col] if inside else 0


# %% tab="CUDA C"
PAD_BOTH = Kernel(r"""
#define PIECES 4  // of a thread
__device__ unsigned word_at(const unsigned short* source,
                            long long word, long long total) {
    if (2 * word + 1 < total) return ((const unsigned*)source)[word];
    return source[2 * word];  // the last number, if it is alone
}

extern "C" __global__ __launch_bounds__(256)
void pad_both(const unsigned short* A, const unsigned short* B,
              unsigned short* wide_A, unsigned short* wide_B,
              int n, int stride) {
    const unsigned short* source = blockIdx.y == 0 ? A : B;
    uint4* target = (uint4*)(blockIdx.y == 0 ? wide_A : wide_B);
    int across = stride / 8;
    int first = blockIdx.x * PIECES * blockDim.x + threadIdx.x;
    unsigned word[PIECES][5];
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {  // New: the loads of all pieces
        int piece = first + p * blockDim.x, row = piece / across;
        int begin = piece % across * 8, left = row < n ? n - begin : 0;
        long long in = (long long)row * n + begin;
        for (int j = 0; j < 5; ++j)
            word[p][j] = left > 0 && 2 * j - (int)(in & 1) < left
                ? word_at(source, (in >> 1) + j, (long long)n * n) : 0;
    }
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {  // New: and then their stores
        int piece = first + p * blockDim.x, row = piece / across;
        int begin = piece % across * 8, left = row < n ? n - begin : 0;
        int odd = row & n & 1;  // begin is even
        unsigned pair[4];
        for (int j = 0; j < 4; ++j) {
            pair[j] = odd ? word[p][j] >> 16 | word[p][j + 1] << 16 : word[p][j];
            if (2 * j + 1 >= left) pair[j] &= 0xffff;
            if (2 * j >= left) pair[j] = 0;
        }
        if (row < stride)
            target[piece] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
}
""")


# %% fold="Code of the cases"
def both(n):
    """Two matrices of n x n, and room for them with rows of a multiple of 8, and as many rows."""
    p = ceil_div(n, 8) * 8
    arrays = {name: integers(n, n, low=0, high=65536, dtype="uint16") for name in "AB"}
    room = {f"wide_{name}": output(p, p, dtype="uint16") for name in "AB"}
    return case(**arrays, **room, n=n, stride=p, grid=(ceil_div(p * p // 8, 1024), 2), block=256)


agree(pad_both, PAD_BOTH, [both(n) for n in (1, 8, 17, 31, 93, 100)], rtol=0.0)

# %% needs="gpu torch" record="odd_products" fold="Code of the four ways"
if gpu_here() and find_spec("torch"):
    import cupy
    import torch
    from torch.nn import functional

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    restride_on_gpu = cupy.RawKernel(BY_PIECES.gpu_source, "restride")
    pad_both_on_gpu = cupy.RawKernel(PAD_BOTH.gpu_source, "pad_both")

    def words(tensor):
        """The same memory as 16-bit words for CuPy."""
        return cupy.asarray(tensor.view(torch.int16))

    def copying(source, target, cols, rows):
        """A launch that moves the first cols columns of a tensor to another with its own stride."""
        sizes = (rows, cols, source.shape[1], target.shape[0], target.shape[1])
        values = (words(source), words(target), *map(np.int32, sizes))
        grid = (ceil_div(ceil_div(target.shape[1] + 7, 8), 128), min(target.shape[0], 65535))
        return lambda: restride_on_gpu(grid, (128,), values)

    def empty(rows, columns):
        return torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)

    def ways(n):
        """By name, a function that multiplies A and B, and the n x n result that it leaves."""
        p = ceil_div(n, 8) * 8
        A, B, C = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        wide_A, wide_B, flat_B, wide_C = empty(n, p), empty(p, p), empty(n, p), empty(n, p)
        pad_A, pad_B, pad_rows_of_B = (
            copying(A, wide_A, n, n),
            copying(B, wide_B, n, n),
            copying(B, flat_B, n, n),
        )
        results = [torch.empty_like(C) for _ in range(5)]
        tall_A, tall_B = empty(p, p), empty(p, p)
        pads = (*(words(one) for one in (A, B, tall_A, tall_B)), np.int32(n), np.int32(p))
        back = [copying(wide_C, one, n, n) for one in results]

        def as_it_is():
            torch.matmul(A, B, out=results[0])

        def sizes_padded():
            pad_A()
            pad_B()
            torch.matmul(wide_A, wide_B, out=wide_C)
            back[1]()

        def strides_padded():
            pad_A()
            pad_rows_of_B()
            torch.matmul(wide_A[:, :n], flat_B[:, :n], out=wide_C[:, :n])
            back[2]()

        def padded_together():
            pad_both_on_gpu((ceil_div(p * p // 8, 1024), 2), (256,), pads)
            torch.matmul(tall_A[:n], tall_B, out=wide_C)

        def together_and_back():
            padded_together()
            back[4]()

        def torch_pad_and_slice():
            left, right = functional.pad(A, (0, p - n)), functional.pad(B, (0, p - n, 0, p - n))
            results[3].copy_(torch.matmul(left, right)[:, :n])

        def kept_padded():
            torch.matmul(wide_A, wide_B, out=wide_C)

        made = {
            "as it is": (as_it_is, results[0]),
            "sizes padded": (sizes_padded, results[1]),
            "strides padded": (strides_padded, results[2]),
            "padded together": (together_and_back, results[4]),
            "padded together, C left wide": (padded_together, wide_C[:, :n]),
            "torch's pad and slices": (torch_pad_and_slice, results[3]),
            "kept padded": (kept_padded, None),
        }
        some = torch.randint(n, (64,), device="cuda")
        return made, (A[some].double() @ B.double()), some

    for n in (1793, 4095, 4097):
        made, right, some = ways(n)
        for name, (call, result) in made.items():
            call()
            if result is not None:
                error = (result[some].double() - right).abs().max().item()
                print(
                    f"{n}, {name}: largest error {error:.3f} of numbers up to {right.abs().max().item():.0f}"
                )
        timings = time_contenders(
            [Contender(name, call) for name, (call, _) in made.items()], Plan(repetitions=21)
        )
        for one in timings:
            print(f"{n}, {one.label}: {one.median:.1f} us [{one.p20:.1f}, {one.p80:.1f}]")

# %% fold="Code of the figure"
WAYS_US, WAYS_ERROR = {}, {}
for n, name, error in re.findall(r"(?m)^(\d+), ([^:\n]+): largest error ([\d.]+)", text_of("odd_products")):
    WAYS_ERROR.setdefault(int(n), {})[name] = float(error)
WAYS_US = printed_numbers(HERE, "odd_products", r"^(\d+), ([^:\n]+): ([\d.]+) us")
OWN = ("sizes padded", "strides padded", "padded together", "padded together, C left wide")


def rate(n, way):
    return 2 * n**3 / WAYS_US[n, way] / 1e6


def gains(n):
    """What the ways bring at a size, beside the product as it is."""

    def times(way):
        return WAYS_US[n, "as it is"] / WAYS_US[n, way]

    return {
        "was": rate(n, "as it is"),
        "rate": rate(n, "sizes padded"),
        "times": times("sizes padded"),
        "torch": times("torch's pad and slices"),
        "copies": 1 - WAYS_US[n, "kept padded"] / WAYS_US[n, "sizes padded"],
        "strides": 1 / times("strides padded"),
        "together": times("padded together"),
        "wide": times("padded together, C left wide"),
    }


gain = {f"n{n}": gains(n) for n in ODD}
worst_error = max(
    (found[way] / found["as it is"] for found in WAYS_ERROR.values() for way in OWN), default=np.nan
)
publish(gain=gain, error=worst_error)
if WAYS_US:
    check(worst_error <= 2.0, True, name="largest error at most that of the plain product, doubled")
    assert min(one["times"] for one in gain.values()) > 2, "the title says: several times as fast"
    show(
        bars(
            {f"n = {n:,}": {way: rate(n, way) for m, way in WAYS_US if m == n} for n in ODD},
            roles={
                "as it is": "waste",
                "sizes padded": "tile",
                "strides padded": "block",
                "padded together": "warp",
                "padded together, C left wide": "lane",
                "torch's pad and slices": "write",
                "kept padded": "read",
            },
            x="rate [TFLOP/s]",
            title="Padded, multiplied and copied back, the awkward sizes are several times as fast",
            caption="Products of BF16 matrices of three awkward sizes with cuBLAS on an {machine}, copies counted in; kept padded is the product alone, for matrices that have round rows all their life.",
        )
    )

# %% [markdown]
# At 1,793 the copies bring {{ gain.n1793.was | .0f }} TFLOP/s to {{ gain.n1793.rate | .0f }},
# {{ gain.n1793.times | .1f }} times as fast; at 4,095 it is {{ gain.n4095.times | .1f }} times and at
# 4,097 {{ gain.n4097.times | .1f }}. With PyTorch's own functions in place of our kernel it is
# {{ gain.n1793.torch | .1f }}, {{ gain.n4095.torch | .1f }} and {{ gain.n4097.torch | .1f }} times. The
# copies are {{ gain.n1793.copies | .0% }} of the time at 1,793 and {{ gain.n4097.copies | .0% }} at
# 4,097, since they grow with n² and the product with n³. Even strides alone are no cure: at 4,097 they
# take {{ gain.n4097.strides | .2f }} times as long as nothing done at all. Sizes seem to decide which
# kernels cuBLAS considers. With A and B padded together it is {{ gain.n1793.together | .1f }},
# {{ gain.n4095.together | .1f }} and {{ gain.n4097.together | .1f }} times as fast as untouched, and with C
# left wide {{ gain.n1793.wide | .1f }}, {{ gain.n4095.wide | .1f }} and {{ gain.n4097.wide | .1f }}
# times. The largest error of any of them is at most {{ error | .2f }} times that of the plain product.

# %% [markdown]
# ## A rounder stride
#
# Why the next multiple of 8? The sweep has a better answer: {{ rounder.eight }} rows and columns take
# {{ rounder.eight_us | .1f }} µs, and {{ rounder.thirty_two }}, the next multiple of 32, take
# {{ rounder.thirty_two_us | .1f }}, though there are more of them. A row of {{ rounder.eight }} numbers begins at
# a multiple of 16 bytes and of no more, so in most rows a piece of 128 bytes lies in two lines. The copies
# grow by {{ rounder.grown | .1% }}. For {{ rounder.n | , }} that predicts {{ rounder.wide | .2f }} times as fast as
# untouched with C left wide, and {{ rounder.back | .2f }} times with C copied back. A multiple of 64,
# {{ rounder.sixty_four | , }}, takes {{ rounder.sixty_four_us | .1f }} µs in the sweep: by the same reckoning
# {{ rounder.wide64 | .2f }} and {{ rounder.back64 | .2f }} times, no better.


# %% fold="Code of the numbers"
def rounded(n, step):
    """The next multiple of a step."""
    return ceil_div(n, step) * step


def predicted_times(step, way, n=1793):
    """How many times as fast as untouched, if only the product and the bytes of the copies change from step 8."""
    grown = (rounded(n, step) / rounded(n, 8)) ** 2
    kept = WAYS_US[n, "kept padded"]
    product = kept + US[rounded(n, step)] - US[rounded(n, 8)]
    return WAYS_US[n, "as it is"] / (product + (WAYS_US[n, way] - kept) * (1 + grown) / 2)


publish(
    rounder={
        "n": 1793,
        "eight": rounded(1793, 8),
        "thirty_two": rounded(1793, 32),
        "eight_us": US[rounded(1793, 8)],
        "thirty_two_us": US[rounded(1793, 32)],
        "grown": (rounded(1793, 32) / rounded(1793, 8)) ** 2 - 1,
        "same": rounded(4095, 64),
        "sixty_four": rounded(1793, 64),
        "sixty_four_us": US[rounded(1793, 64)],
        "wide": predicted_times(32, "padded together, C left wide"),
        "back": predicted_times(32, "padded together"),
        "wide64": predicted_times(64, "padded together, C left wide"),
        "back64": predicted_times(64, "padded together"),
        "pads_us": 4 * (1793**2 + rounded(1793, 64) ** 2) / GPU.memory_gb_per_s / 1e3,
        "back_us": 4 * 1793**2 / GPU.memory_gb_per_s / 1e3,
    }
)

# %% [markdown]
# Can the copies be quicker too? A piece of 16 bytes takes five loads of one word each, whose lanes ask for
# words 16 bytes apart. But the first of its numbers decides where the piece lies between two aligned
# pieces of the source, and that is the same for a whole row. So a lane can load both, 16 bytes each, and shift:
# by two words, by one, by half of one. What a lane does not need its neighbour has just loaded, and L1
# has it. A block takes some rows, so that nothing is divided, and all loads of a lane come before its first
# store. At {{ rounder.n | , }} and rows of a multiple of 64 the traffic of both pads is {{ rounder.pads_us | .1f }} µs
# at the peak bandwidth, and that of the way back {{ rounder.back_us | .1f }}: so much of a copy's time stays
# whatever its loads are.


# %% tab="Pseudocode"
def restride_rows(A, B, to_A, to_B, rows, cols):
    to_rows, to_cols = to_A.shape
    for source, target in ((A, to_A), (B, to_B)):
        for row, col in parallel(to_rows, to_cols):
            inside = row < rows and col < cols
            # [shift
            target[row, col] = source[row, col] if inside else 0
            # shift]


# %% tab="CUDA C"
BY_ROWS = Kernel(
    r"""
// 8 numbers, aligned; zeros where the matrix has no 8 more
__device__ uint4 chunk_at(const unsigned short* source, int chunk, int whole) {
    if (chunk < 0 || chunk >= whole) return make_uint4(0, 0, 0, 0);
    return ((const uint4*)source)[chunk];
}

// All matrices have fewer than 2^31 numbers.
extern "C" __global__ __launch_bounds__(256)
void restride_rows(const unsigned short* A, const unsigned short* B,
                   unsigned short* to_A, unsigned short* to_B,
                   int rows, int cols, int from_stride,
                   int to_rows, int to_stride) {
    const unsigned short* source = blockIdx.z == 0 ? A : B;
    unsigned short* target = blockIdx.z == 0 ? to_A : to_B;
    int whole = ((rows - 1) * from_stride + cols) / 8;
    int piece = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 low[ROWS], high[ROWS];
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int row = blockIdx.y * ROWS + r;
        int begin = 8 * piece - row * to_stride % 8;  // aligned in target
        int in = row * from_stride + begin;
        bool any = row < rows && begin < cols;
        low[r] = chunk_at(source, any ? in >> 3 : -1, whole);  // New: 16 bytes each
        high[r] = chunk_at(source, any && in & 7 ? (in >> 3) + 1 : -1, whole);
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int row = blockIdx.y * ROWS + r, out = row * to_stride;
        int begin = 8 * piece - out % 8, left = row < rows ? cols - begin : 0;
        int in = row * from_stride + begin, skip = in & 7;
        // [shift
        unsigned v[8] = {low[r].x, low[r].y, low[r].z, low[r].w,
                         high[r].x, high[r].y, high[r].z, high[r].w};
        #pragma unroll
        for (int j = 0; j < 6; ++j)
            if (skip & 4) v[j] = v[j + 2];
        #pragma unroll
        for (int j = 0; j < 5; ++j)
            if (skip & 2) v[j] = v[j + 1];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (skip & 1) v[j] = v[j] >> 16 | v[j + 1] << 16;
            if (2 * j + 1 >= left) v[j] &= 0xffff;
            if (2 * j >= left) v[j] = 0;
        }
        // shift]
        if (in + 8 > 8 * whole && left > 0)  // the last numbers of the matrix
            for (int e = 0; e < min(left, 8); ++e)
                if (in + e >= 8 * whole)
                    v[e / 2] |= (unsigned)source[in + e] << 16 * (e % 2);
        if (row >= to_rows) break;
        if (begin >= 0 && begin + 8 <= to_stride) {
            uint4* pieces = (uint4*)target;  // of the array, not of a place in it
            pieces[(out + begin) >> 3] = make_uint4(v[0], v[1], v[2], v[3]);
        } else {  // the ends of a row
            #pragma unroll
            for (int e = 0; e < 8; ++e)
                if (begin + e >= 0 && begin + e < to_stride)
                    target[out + begin + e] = v[e / 2] >> 16 * (e % 2);
        }
    }
}
""",
    defines={"ROWS": 4},
)

# %%
BY_ROWS.region("shift")

# %% [markdown]
# A comment in the kernel says: of the array, not of a place in it. It matters. `BY_PIECES` stores through a
# pointer that it has moved by a number of elements, and the compiler makes of that something else than it
# says:

# %% needs="nvrtc nvdisasm" fold="Code of the table"
from tilewise.kernel.machine_code import available as can_disassemble
from tilewise.kernel.machine_code import machine_code

THROUGH_A_PLACE = BY_ROWS.source.replace(
    "uint4* pieces = (uint4*)target;  // of the array, not of a place in it\n", ""
).replace("pieces[(out + begin) >> 3] =", "*(uint4*)(target + out + begin) =")
assert "pieces" not in THROUGH_A_PLACE
STORING = {
    "restride, through a place in the array": BY_PIECES,
    "pad_both, by an index": PAD_BOTH,
    "restride_rows, by an index": BY_ROWS,
    "restride_rows, through a place": Kernel(THROUGH_A_PLACE, defines=BY_ROWS.defines),
}


if can_disassemble() is None:
    SPLIT = {}
    for label, kernel in STORING.items():
        names = [one.name for one in machine_code(kernel).instructions]
        SPLIT[label] = [names.count("STG.E.128"), names.count("STG.E")]
    through = [SPLIT["restride, through a place in the array"][0], SPLIT["restride_rows, through a place"][0]]
    check(through, [0, 0], name="stores of 16 bytes through a place")
    show(
        Table(
            ["kernel, its store of 16 bytes", "stores of 16 bytes", "of 4 bytes"],
            [[label, *counts] for label, counts in SPLIT.items()],
            caption="Stores in the machine code for an H100, those of single numbers at the ends of rows left out; restride_rows with four rows a lane, pad_both with four pieces.",
        )
    )

# %% [markdown]
# So the copy with 16 bytes a lane stores them by 4, and the simulator, which takes the kernel at its word, counts
# one request where the machine makes four.


# %% fold="Code of the cases"
def shape_by_rows(to_rows, to_stride, rows_of_a_lane, matrices=1):
    """Grid and block: a block has up to 256 pieces of some rows, in whole warps."""
    warps = ceil_div(to_stride + 7, 8 * 32)
    across = ceil_div(warps, 8)
    return (across, ceil_div(to_rows, rows_of_a_lane), matrices), 32 * ceil_div(warps, across)


def moved_by_rows(*shape):
    """Two matrices of 16-bit words that go from one row stride to another."""
    rows, _, from_stride, to_rows, to_stride = shape
    arrays = {name: integers(rows, from_stride, low=0, high=65536, dtype="uint16") for name in "AB"}
    room = {f"to_{name}": output(to_rows, to_stride, dtype="uint16") for name in "AB"}
    grid, block = shape_by_rows(to_rows, to_stride, 4, 2)
    return case(**arrays, **room, **dict(zip(ARGUMENTS, shape, strict=True)), grid=grid, block=block)


LONGER = ((4, 5, 5, 4, 7), (9, 2105, 2105, 12, 2112), (6, 2105, 2112, 6, 2105))
agree(restride_rows, BY_ROWS, [moved_by_rows(*shape) for shape in (*SHAPES, *LONGER)], rtol=0.0)

# %% needs="gpu torch" record="rounder_strides" fold="Code of the strides"
if gpu_here() and find_spec("torch"):
    import cupy
    import torch

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    restride_kernel = cupy.RawKernel(BY_PIECES.gpu_source, "restride")
    pad_both_kernel = cupy.RawKernel(PAD_BOTH.gpu_source, "pad_both")
    by_rows_kernels = {
        rows: cupy.RawKernel(Kernel(BY_ROWS.source, defines={"ROWS": rows}).gpu_source, "restride_rows")
        for rows in (2, 4)
    }

    def strided(n, step):
        """By name, functions that multiply by way of rows of a multiple of step, and their parts."""
        p = rounded(n, step)
        A, B, C, result = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        wide_A, wide_B, wide_C = (torch.empty(p, p, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        one, two, wide_one, wide_two, out, back = (
            cupy.asarray(each.view(torch.int16)) for each in (A, B, wide_A, wide_B, wide_C, result)
        )
        pads = (one, two, wide_one, wide_two, np.int32(n), np.int32(p))
        backs = (out, back, *map(np.int32, (n, n, p, n, n)))
        by_rows_pads = (one, two, wide_one, wide_two, *map(np.int32, (n, n, n, p, p)))
        by_rows_backs = (out, out, back, back, *map(np.int32, (n, n, p, n, n)))

        def multiply():
            torch.matmul(wide_A[:n], wide_B, out=wide_C[:n])

        def ways(pad, copy_back):
            def left_wide():
                pad()
                multiply()

            def copied_back():
                left_wide()
                copy_back()

            return {
                "pads": pad,
                "copy back": copy_back,
                "C left wide": left_wide,
                "C copied back": copied_back,
            }

        def by_rows(rows):
            """Both copies by the new kernel, a lane with so many rows."""
            kernel, to_wide, to_odd = (
                by_rows_kernels[rows],
                shape_by_rows(p, p, rows, 2),
                shape_by_rows(n, n, rows),
            )
            found = ways(
                lambda: kernel(to_wide[0], (to_wide[1],), by_rows_pads),
                lambda: kernel(to_odd[0], (to_odd[1],), by_rows_backs),
            )
            return {f"{name}, by {rows} rows": call for name, call in found.items()}

        made = {"as it is": lambda: torch.matmul(A, B, out=C), "product": multiply}
        made |= ways(
            lambda: pad_both_kernel((ceil_div(p * p // 8, 1024), 2), (256,), pads),
            lambda: restride_kernel((ceil_div(ceil_div(n + 7, 8), 128), n), (128,), backs),
        )
        made |= by_rows(2) | by_rows(4)
        made["as it is"]()
        apart = 0.0
        for name in ("C copied back", "C copied back, by 2 rows", "C copied back, by 4 rows"):
            for each in (wide_A, wide_B, wide_C, result):
                each.fill_(float("nan"))
            made[name]()
            for each in (wide_C[:n, :n], result):
                apart = max(apart, (each - C).abs().max().item())
        assert apart <= 0.01 * C.abs().max().item(), f"{n}, {step}: {apart} apart"
        print(f"{n}, {step}: at most {apart:.3f} apart from the plain product's {C.abs().max().item():.0f}")
        return made

    COMPARED = {
        8: ("as it is", "C left wide", "C copied back"),
        16: ("C left wide", "C copied back"),
        32: ("C left wide", "C copied back", "C left wide, by 4 rows", "C copied back, by 4 rows"),
    }
    for n in (1793, 4095, 4097):
        contenders = [
            Contender(f"{step}, {name}", call)
            for step in (8, 16, 32, 64)
            for name, call in strided(n, step).items()
            if name in COMPARED.get(step, (name,)) and (step, name) != (64, "as it is")
        ]
        for one in time_contenders(contenders, Plan(repetitions=21)):
            print(f"{n}, {one.label}: {one.median:.1f} us [{one.p20:.1f}, {one.p80:.1f}]")

# %% fold="Code of the table"
STRIDED = printed_numbers(HERE, "rounder_strides", r"^(\d+), (\d+), ([^:\n]+): ([\d.]+) us")


def strided_times(n, step, way):
    """How many times as fast as the plain product of the same run."""
    return STRIDED[n, 8, "as it is"] / STRIDED[n, step, way]


BOTH_WAYS = {"wide": "C left wide", "back": "C copied back"}
if STRIDED:
    rows = [[f"{step}", step, ""] for step in (8, 16, 32, 64)]
    rows += [[f"64, new copies, {many} rows a lane", 64, f", by {many} rows"] for many in (2, 4)]
    show(
        Table(
            ["rows of a multiple of", *(f"n = {n:,}, {way}" for n in ODD for way in BOTH_WAYS.values())],
            [
                [label, *(strided_times(n, step, way + more) for n in ODD for way in BOTH_WAYS.values())]
                for label, step, more in rows
            ],
            caption="How many times as fast as the plain product, pads and copies counted in, by the multiple to which rows are padded; BF16 with cuBLAS on an {machine}.",
        )
    )
SETTINGS = {"": (64, ""), "32": (32, ""), "8": (8, ""), "_new": (64, ", by 2 rows")}


def pads_share(n):
    """Both pads' traffic at the stated bandwidth, over the time of the new kernel."""
    bound_us = 4 * (n**2 + rounded(n, 64) ** 2) / GPU.memory_gb_per_s / 1e3
    return bound_us / STRIDED[n, 64, "pads, by 2 rows"]


publish(
    strided={
        f"n{n}": {
            name + end: strided_times(n, step, way + more)
            for end, (step, more) in SETTINGS.items()
            for name, way in BOTH_WAYS.items()
        }
        for n in ODD
    },
    parts={
        "pads": STRIDED[1793, 64, "pads"],
        "pads_new": STRIDED[1793, 64, "pads, by 2 rows"],
        "back": STRIDED[1793, 64, "copy back"],
        "back_new": STRIDED[1793, 64, "copy back, by 2 rows"],
        "pads_large": STRIDED[4095, 64, "pads"],
        "pads_new_large": STRIDED[4095, 64, "pads, by 2 rows"],
        "pads_share": pads_share(1793),
        "pads_share_large": pads_share(4095),
    },
)

# %% [markdown]
# At 1,793 rows of a multiple of 32 make the product {{ strided.n1793.wide32 | .2f }} and
# {{ strided.n1793.back32 | .2f }} times as fast, a little more than predicted, where a multiple of 8 gave
# {{ strided.n1793.wide8 | .2f }} and {{ strided.n1793.back8 | .2f }} in the same run. Against the prediction 64 is
# no worse: {{ strided.n1793.wide | .2f }} and {{ strided.n1793.back | .2f }}. The sweep's product of
# {{ rounder.sixty_four | , }} is larger than this one, which has no more than {{ rounder.n | , }} rows. At 4,095
# all four are {{ rounder.same | , }}, and the table shows how far equal things differ.
#
# The new copies do not keep their promise. Both pads take {{ parts.pads_new | .1f }} µs where the old kernel takes
# {{ parts.pads | .1f }}. At 4,095 it is {{ parts.pads_new_large | .1f }} and {{ parts.pads_large | .1f }}, which is
# {{ parts.pads_share_large | .0% }} of the peak bandwidth: there loads have little left to give. At 1,793 it is
# {{ parts.pads_share | .0% }}, and what the rest is, is not shown here. The way back, whose old kernel has the
# split stores, takes {{ parts.back_new | .1f }} in place of {{ parts.back | .1f }}. With both the product is
# {{ strided.n1793.wide_new | .2f }} and {{ strided.n1793.back_new | .2f }} times as fast as untouched, at 4,095
# {{ strided.n4095.wide_new | .2f }} and {{ strided.n4095.back_new | .2f }}, and at 4,097
# {{ strided.n4097.wide_new | .2f }} and {{ strided.n4097.back_new | .2f }}.

# %% [markdown]
# Why not read the rows as they are, in a kernel of our own? It could use the matrix units and loads of
# one number. Count for a tile of 128 × 128, 32 steps of k, and an SM that starts one access of a warp
# in a cycle: {{ direct.numbers | , }} numbers are {{ direct.cycles | .0f }} cycles of loads and of
# stores to shared memory, and eight warps that read their fragments from there
# {{ direct.fragments | .0f }} more. The multiplications take {{ direct.matrix_cycles | .0f }} at full
# rate. So such a kernel cannot pass {{ direct.share | .0%}} of the peak (data sheet), {{ direct.rate | .0f }}
# TFLOP/s. Words and shifts, as in the copy, would need fewer loads and pay for the
# shifts in every tile. Padding costs one pass over the data.

# %% fold="Code of the numbers"
TILE_NUMBERS = 2 * 128 * 32
ACCESSES = 2 * TILE_NUMBERS // 32  # a load, and a store to shared memory, of 32 lanes each
FRAGMENT_CYCLES = 8 * (64 + 32) * 32 * 2 / 128  # eight warps of 64 x 32, 128 bytes a cycle
MATRIX_CYCLES = 128 * 128 * 32 / GPU.fma_per_sm_clock["bf16_matrix"]
SHARE = MATRIX_CYCLES / (ACCESSES + FRAGMENT_CYCLES)
publish(
    direct={
        "numbers": TILE_NUMBERS,
        "cycles": ACCESSES,
        "fragments": FRAGMENT_CYCLES,
        "matrix_cycles": MATRIX_CYCLES,
        "share": SHARE,
        "rate": SHARE * GPU.peak_tflop_per_s["bf16_matrix"],
    }
)

# %% [markdown]
# ## 50,257 words
#
# Nobody chooses 4,097. But the vocabulary of GPT-2 has {{ vocabulary.words | , }} entries, which is
# 29 · 1733, and the last product of such a model, the projection, makes a number for each of them. Its
# weights are stored as vocabulary × width, rows of 768 numbers: aligned. What is not aligned are the
# logits, tokens × {{ vocabulary.words | , }}, written in the forward pass, and their \gradient, read
# twice in the \backward pass. A much quoted advice is to round up to {{ vocabulary.round | , }}, which is
# 64 · 786.[^nearest] Is the 64 needed? Going up by single steps shows what is.
#
# [^nearest]: Where the sources differ: the lecture calls it the nearest multiple of 64. It is the next
#     one; nearer is {{ vocabulary.nearest | , }}, which is too small. It credits occupancy, but no more
#     warps fit than before; a kernel for aligned rows can be chosen. And the numbers in the transcript
#     have lost a digit.

# %% needs="gpu torch" record="projection" fold="Code of the projection"
if gpu_here() and find_spec("torch"):
    import torch

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    TOKENS, WIDTH, WORDS_MOST = 16384, 768, 50304
    x = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)
    weights = torch.randn(WORDS_MOST, WIDTH, device="cuda", dtype=torch.bfloat16)
    logits, gradient = (
        torch.randn(TOKENS * WORDS_MOST, device="cuda", dtype=torch.bfloat16) for _ in range(2)
    )
    to_x, to_weights = torch.empty_like(x), torch.empty_like(weights)

    def passes(V):
        """The projection to V words and the two products of its backward pass."""
        W, L, G = weights[:V], logits[: TOKENS * V].view(TOKENS, V), gradient[: TOKENS * V].view(TOKENS, V)
        return {
            "forward": lambda: torch.matmul(x, W.t(), out=L),
            "gradient of x": lambda: torch.matmul(G, W, out=to_x),
            "gradient of the weights": lambda: torch.matmul(G.t(), x, out=to_weights[:V]),
        }

    for V in (50256, 50257, 50258, 50260, 50264, 50304):
        made = passes(V)
        for call in made.values():
            call()
        timings = time_contenders([Contender(name, call) for name, call in made.items()], Plan(repetitions=7))
        print(f"{V}: {', '.join(f'{one.label} {one.median:.0f} us' for one in timings)}")
    del logits, gradient

# %% fold="Code of the figure"
PASSES = {
    int(V): {name: float(us) / 1000 for name, us in re.findall(r"([a-z][a-z ]*) (\d+) us", rest)}
    for V, rest in re.findall(r"(\d{5}): (.*)", text_of("projection"))
}
WHOLE = Numbers({V: sum(found.values()) for V, found in PASSES.items()})
if PASSES:
    assert WHOLE[50264] < 1.1 * WHOLE[50304] < 0.3 * WHOLE[50257], "the title says that 8 is enough"
    show(
        bars(
            {f"V = {V:,}": found for V, found in PASSES.items()},
            roles={"forward": "block", "gradient of x": "tile", "gradient of the weights": "read"},
            x="time [ms]",
            title="A multiple of 8 is enough",
            caption="The projection of 16,384 tokens of width 768 to a vocabulary of six sizes, and the two products of its backward pass, BF16 with cuBLAS on an {machine}.",
        )
    )
publish(
    vocabulary={
        "words": 50257,
        "round": 50304,
        "nearest": 64 * round(50257 / 64),
        "was": WHOLE[50257],
        "eight": WHOLE[50264],
        "sixty_four": WHOLE[50304],
        "times": WHOLE[50257] / WHOLE[50304],
        "sixteen": WHOLE[50256],
        "added": 50304 / 50257 - 1,
    }
)

# %% [markdown]
# The three products take {{ vocabulary.was | .1f }} ms with {{ vocabulary.words | , }} words,
# {{ vocabulary.eight | .1f }} with 50,264, a multiple of 8, and {{ vocabulary.sixty_four | .1f }} with
# {{ vocabulary.round | , }}: {{ vocabulary.times | .1f }} times as fast, for {{ vocabulary.added | .2% }}
# more weights. That 50,256 words take {{ vocabulary.sixteen | .1f }} ms, less than 50,304, is unexplained.

# %% [markdown]
# ## The whole step
#
# The advice came with a number: 25 % faster{from: Andrej Karpathy on nanoGPT, February 2023}. That was a
# whole training step, of which the projection is a part. Here is one: the model of
# [Five bottlenecks](../speed/launches.py), with its layers compiled by `torch.compile`. The compiler can
# pad by itself, which is tried with the switch off and on.

# %% needs="gpu torch" record="training_steps" fold="Code of the training steps"
if gpu_here() and find_spec("torch"):
    import torch
    from torch import nn
    from torch.nn import functional

    LAYERS, WIDTH, HEADS, LENGTH, SEQUENCES, WORDS_USED = 12, 768, 12, 1024, 16, 50257
    torch.set_float32_matmul_precision("high")

    class Layer(nn.Module):
        """Attention and two products with a bend between them, each added to what came in."""

        def __init__(self):
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            parts = self.qkv(self.before(x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.down(functional.gelu(self.up(self.between(x))))

    def loss_of(x, weights, targets):
        """The projection to the vocabulary and the loss."""
        logits = functional.linear(x, weights)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def step_ms(words, head):
        """The median time of a training step in ms, layers compiled, projection and loss as given."""
        torch.manual_seed(0)
        embedding, places = nn.Embedding(words, WIDTH).cuda(), nn.Embedding(LENGTH, WIDTH).cuda()
        layers, norm = nn.ModuleList(Layer() for _ in range(LAYERS)).cuda(), nn.LayerNorm(WIDTH).cuda()
        for layer in layers:
            layer.compile()  # one compilation serves all twelve
        parts = (embedding, places, layers, norm)
        optimizer = torch.optim.AdamW([one for part in parts for one in part.parameters()], fused=True)
        tokens = torch.randint(WORDS_USED, (SEQUENCES, LENGTH + 1), device="cuda")
        times = []
        for _ in range(16):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            with torch.autocast("cuda", torch.bfloat16):
                x = embedding(tokens[:, :-1]) + places.weight
                for layer in layers:
                    x = layer(x)
                loss = head(norm(x), embedding.weight, tokens[:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        return float(np.median(times[6:]))

    off = {"shape_padding": False, "comprehensive_padding": False}
    on = {"shape_padding": True, "comprehensive_padding": True}
    for words, name, options in (
        (50257, "projection eager", None),
        (50304, "projection eager", None),
        (50257, "projection compiled, padding off", off),
        (50257, "projection compiled, padding on", on),
        (50304, "projection compiled, padding off", off),
    ):
        try:
            head = loss_of if options is None else torch.compile(loss_of, options=options, dynamic=False)
            print(f"{words} words, {name}: {step_ms(words, head):.2f} ms a step")
        except Exception as error:  # a compiler that gives up on one of them must not cost the others
            print(f"{words} words, {name}: {type(error).__name__}, {str(error).splitlines()[0][:90]}")

# %% fold="Code of the figure"
STEPS_MS = printed_numbers(HERE, "training_steps", r"^(\d+) words, ([^:\n]+): ([\d.]+) ms")
EAGER_MS = [STEPS_MS[words, "projection eager"] for words in (50257, 50304)]
OFF_MS = [STEPS_MS[words, "projection compiled, padding off"] for words in (50257, 50304)]
ON_MS = STEPS_MS[50257, "projection compiled, padding on"]
if STEPS_MS:
    assert ON_MS < 1.1 * OFF_MS[1] < 0.8 * OFF_MS[0], "the title says that the padding makes up for it"
    show(
        bars(
            {f"{words:,} words, {name}": ms for (words, name), ms in STEPS_MS.items()},
            x="time of a training step [ms]",
            title="The compiler's padding makes up for the awkward vocabulary",
            caption="Training steps of a language model with 12 layers of width 768 and 16,384 tokens a step, BF16 products, one {machine}; layers compiled, projection and loss as named.",
        )
    )
publish(
    step={
        "eager_odd": EAGER_MS[0],
        "eager_round": EAGER_MS[1],
        "eager_gain": EAGER_MS[0] / EAGER_MS[1] - 1,
        "on_odd": ON_MS,
        "off_round": OFF_MS[1],
        "off_gain": OFF_MS[0] / OFF_MS[1] - 1,
    }
)

# %% [markdown]
# With {{ vocabulary.round | , }} words in place of {{ vocabulary.words | , }}, steps are
# {{ step.eager_gain | .0%}} faster with an eager projection ({{ step.eager_odd | .1f }} and
# {{ step.eager_round | .1f }} ms) and {{ step.off_gain | .0% }} faster with a compiled one and its
# padding off. With the padding on, {{ vocabulary.words | , }} words take {{ step.on_odd | .1f }} ms a
# step, and the round vocabulary {{ step.off_round | .1f }}. So on another device, with another
# share of the step in the projection, the quoted 25 % may be right too; it is no constant.

# %% [markdown]
# ## What was multiplied
#
# All numbers on this page come from products of random numbers. That is no detail. A wire that keeps
# its value costs no energy, and a GPU that computes at full rate may be held back by its power limit. If
# so, any constant should do as well as zero. A table that was timed on such matrices shows rates that no
# real one reaches.[^zeros]
#
# [^zeros]: The lecture points to Horace He, who described it in 2024. How large the effect is depends
#     on the power limit.

# %% needs="gpu torch" record="zeros" fold="Code of the comparison"
if gpu_here() and find_spec("torch"):
    import torch

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    def filled(n, kind):
        """A product of two n x n matrices of one kind."""
        made = {
            "normally distributed": lambda: torch.randn(n, n, device="cuda", dtype=torch.bfloat16),
            "all ones": lambda: torch.ones(n, n, device="cuda", dtype=torch.bfloat16),
            "all zeros": lambda: torch.zeros(n, n, device="cuda", dtype=torch.bfloat16),
        }[kind]
        A, B, C = made(), made(), torch.empty(n, n, device="cuda", dtype=torch.bfloat16)
        torch.matmul(A, B, out=C)
        many = round(1.4e13 / n**3)  # tens of milliseconds, so that the clock has time to follow the power

        def run():
            for _ in range(many):
                torch.matmul(A, B, out=C)

        return many, run

    for n in (4096, 8192):
        for kind in ("normally distributed", "all ones", "all zeros"):  # one after the other, not in turn
            many, run = filled(n, kind)
            [timing] = time_contenders([Contender(kind, run)], Plan(repetitions=9, flush=False))
            print(f"{n}, {kind}: {2 * n**3 * many / timing.median / 1e6:.0f} TFLOP/s")

# %% fold="Code of the numbers"
FILLED = printed_numbers(HERE, "zeros", r"^(\d+), ([a-z ]+): (\d+) TFLOP/s")
publish(
    zeros={
        f"n{n}": {
            "random": FILLED[n, "normally distributed"],
            "zeros": FILLED[n, "all zeros"],
            "ones": FILLED[n, "all ones"],
            "more": FILLED[n, "all zeros"] / FILLED[n, "normally distributed"] - 1,
        }
        for n in (4096, 8192)
    }
)

# %% [markdown]
# In rows of products one after the other, zeros run at {{ zeros.n4096.zeros | .0f }} TFLOP/s and random
# numbers at {{ zeros.n4096.random | .0f }} at n = 4,096, {{ zeros.n4096.more | .0% }} faster, and
# {{ zeros.n8192.more | .0% }} faster at 8,192. Ones run at {{ zeros.n4096.ones | .0f }} and
# {{ zeros.n8192.ones | .0f }}: it is not the zero. (The clock was not recorded here.)

# %% [markdown]
# ## The answer
#
# {{ plot.times | .1f }} times as long: {{ plot.even | .0f }} TFLOP/s at {{ ask.even | , }} and
# {{ plot.odd | .0f }} at {{ ask.odd | , }}. One row more costs a few tiles. One column more makes every
# row begin at another byte, and kernels that load 16 bytes at a time are out. Padded, multiplied and
# copied back, the product of {{ ask.odd | , }} runs at {{ gain.n4097.rate | .0f }} TFLOP/s.

# %% [markdown]
# ## Takeaways
#
# - The wavy plot is three things: too few tiles on the left, waves, and bands by the power of two that
#   divides the row stride.
# - What must be round is where rows begin: the row stride in bytes, a multiple of 16. M may be anything.
# - Padding costs a pass over each matrix, and the product pays far more than that; best is a matrix that
#   is padded all its life, such as a vocabulary.
# - For BF16 a multiple of 8 leads out of the lowest bands. A rounder one can be worth more, here at
#   1,793; at 4,097 from 8 to 16 gained most of it.
# - What the compiler made of a wide store is in the machine code, and nowhere else.
# - Never time products of zeros.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def aligned_views(n):
    views = []
    for first in range(8):
        begin = first * n
        views.append((begin - begin % 8, 8 * n, begin % 8))
    return views


def rows_where_they_begin(n):
    return [(first * n, 8 * n, 0) for first in range(8)]


def every_row_in_turn(n):
    return [(first * n - first * n % 8, n, first * n % 8) for first in range(8)]


def shifted_by_the_row(n):
    return [(first * n - first * n % 8, 8 * n, first) for first in range(8)]


def views_tests(answer):
    for n in (9, 17, 31, 100, 257):
        numbers = np.arange(40 * n + 8)
        views = answer(n)
        assert len(views) == 8, f"n = {n}: {len(views)} views"
        seen = {}
        for first, (base, stride, shift) in enumerate(views):
            assert base % 8 == 0 and stride % 8 == 0, f"n = {n}: view {first} has rows that are not aligned"
            for i in range(5):
                begin = base + i * stride + shift
                seen[first + 8 * i] = numbers[begin : begin + n]
        for row in range(40):
            assert (seen[row] == numbers[row * n : (row + 1) * n]).all(), f"n = {n}: row {row} is another"


exercise(
    "Eight matrices in one",
    """
    A matrix of BF16 numbers has rows of odd length `n`. Row r and row r + 8 begin at the same place
    within 16 bytes. So every eighth row makes a matrix whose rows *are* aligned, if it begins a few numbers
    earlier. Write `aligned_views(n)`: a list of eight `(base, stride, shift)`, of which number k is for the rows k, k + 8,
    k + 16 and so on. `base` and `stride` count elements and are multiples of 8; the i-th of these rows begins at
    `base + i * stride + shift`. A unit that copies tiles of aligned matrices could use such views without any padding.
    """,
    answer=aligned_views,
    tests=views_tests,
    wrong=[rows_where_they_begin, every_row_in_turn, shifted_by_the_row],
    hint="Row k begins at element k · n. Go back from there to the multiple of 8 before it.",
)
