# ---
# title: "Alignment: why 4,095 is slower than 4,096"
# needs: [matmul/matrix_units, matmul/tiles_and_waves]
# summary: "Take one row and one column away from two 4,096 × 4,096 matrices. How much longer does their product take?"
# description: "The speed of cuBLAS over hundreds of matrix sizes: row strides, 16-byte alignment, and padding that makes awkward sizes several times faster, in GEMM and in a model's vocabulary."
# date: 2026-11-21
# tags: [alignment, padding, cuBLAS, BF16]
# ---

# %% [markdown]
# cuBLAS multiplies two 4,096 × 4,096 BF16 matrices in {{ plot.even_us | .0f }} µs. Now take one row and one column away
# from each. That's {{ ask.less | .2% }} less work, and the same number of [tiles](tiles_and_waves.py). How much longer
# can it take? Here are the rates at hundreds of sizes, coloured by the largest power of two that divides each.
#
# This happens outside benchmarks, too: GPT-2's vocabulary has 50,257 tokens, and rounding that up to 50,304 is a
# well-known trick for training the model faster.

# %% fold="Imports"
from importlib.util import find_spec

import numpy as np

from tilewise import ceil_div, check, gpu_here, measure, parallel, publish, show
from tilewise.figures import Series, bars, heat_map, line_chart
from tilewise.measurements import (
    Numbers,
    complete,
    medians_us,
    printed_numbers,
    printed_rows,
    recorded_device,
)
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
KINDS = {
    1: ("odd", "hazard"),
    2: ("divisible by 2", "waste"),
    4: ("divisible by 4", "write"),
    8: ("divisible by 8", "read"),
    16: ("divisible by 16", "tile"),
    32: ("by 32 or more", "block"),
}


def power_in(n):
    """The largest power of two that divides n, up to 32."""
    return min(n & -n, 32)


def tile_model(n):
    """The fraction of 132 SMs' time that an n x n result uses, in tiles of 256 x 128."""
    found = waves(ceil_div(n, 256) * ceil_div(n, 128), 132)
    return n * n / (found.blocks * 256 * 128) * found.busy_share


US = printed_numbers(HERE, "sweep", r"(\d+) ([\d.]+)")
RATES = Numbers({n: 2 * n**3 / us / 1e6 for n, us in US.items()})  # TFLOP/s
if RATES:
    TOP = max(RATES.values())
    SIZES = np.array(sorted({*range(256, 4609, 16), *(n + 1 for n in range(256, 4608, 32))}))
    drawn = []
    for kind, (label, role) in KINDS.items():
        mine = [n for n in RATES if power_in(n) == kind]
        drawn.append(Series(label, mine, [RATES[n] for n in mine], role=role, line=False))
    model = [TOP * tile_model(int(n)) for n in SIZES]
    show(
        line_chart(
            [*drawn, Series("tile and wave model", SIZES, model, role="predicted", marks=False)],
            x="rows and columns n",
            y="rate [TFLOP/s]",
            y_range=(0, 1.08 * TOP),
            height=460,
            title="Sizes that aren't divisible by 8 are several times slower",
            caption="Rate of cuBLAS for n × n BF16 matrices on an {machine}, coloured by the largest power of two that divides n. Dashed: the model of tile and wave quantisation on 132 SMs, scaled to the best recorded rate.",
        )
    )


# %% fold="Code of the numbers"
def band(kind):
    """The median rate of the sizes from 2,048 on with this power of two."""
    return np.median([rate for n, rate in RATES.items() if n >= 2048 and power_in(n) == kind] or [np.nan])


GPU = recorded_device()
publish(
    ask={"less": 1 - (4095 / 4096) ** 3},
    plot={
        "even_us": US[4096],
        "band1": band(1),
        "band8": band(8),
        "ridge_n": 3 * GPU.peak_tflop_per_s["bf16_matrix"] * 1e3 / GPU.memory_gb_per_s,
    },
)

# %% [markdown]
# Three effects overlap in this picture. The left part is a ramp, because small results have fewer tiles than the GPU
# has SMs.[^ramp] Then there's [wave quantisation](tiles_and_waves.py), which is softened by cuBLAS's choice among
# several tile shapes.
#
# And there are *bands*, which the model doesn't predict. From 2,048 on, odd sizes reach a median of
# {{ plot.band1 | .0f }} TFLOP/s; sizes divisible by 8 reach {{ plot.band8 | .0f }} TFLOP/s. Sizes whose largest
# power-of-two divisor is 2 or 4 are in between.
#
# [^ramp]: *A common misconception:* small matrix multiplications are slow because they're memory-bound. With ideal
#     reuse, a GEMM does n / 3 FLOP per byte of BF16, so it passes the GPU's ridge point near n =
#     {{ plot.ridge_n | .0f }}. Yet at n = 1,536 there are only 72 tiles of 256 × 128, for 132 SMs.

# %% [markdown]
# ## Row stride: where each row starts
#
# A row-major matrix stores one row after another. The distance between the starts of two rows, in elements, is the *row
# stride*. Take a small example: BF16 rows of 17 elements are 34 bytes long, so row 1 starts at byte 34, row 2 at byte
# 68, and only every eighth row starts at a multiple of 16 bytes. With 16 elements per row, every row does.
#
# ??? definition "Row stride | row strides"
#     The distance in memory between the first elements of two neighbouring rows, counted in elements; at least the
#     number of elements in a row.

# %% fold="Code of the figure"
WORDS, LINES = 16, 10  # a line of the figure is a sector: 32 bytes, 16 BF16


def laid_out(n):
    """Rows of n elements one after the other: a row's first element is 1, the others 0.55 or 0.25."""
    at = np.arange(WORDS * LINES)
    shade = np.where(at // n % 2 == 0, 0.55, 0.25)
    shade[at % n == 0] = 1.0
    return shade.reshape(LINES, WORDS)


STRIDES = range(8, 25)
show(
    heat_map(
        {"memory": np.stack([laid_out(n) for n in STRIDES])},
        steps=list(STRIDES),
        step_name="elements per row",
        start=STRIDES.index(17),
        x="element within 32 bytes",
        y="sector of 32 bytes",
        role="read",
        ranges={"memory": (0, 1)},
        key=False,
        title="Rows of 16 start on sector boundaries; rows of 17 start anywhere",
        caption="The first 320 bytes of a BF16 matrix. Full colour: the first element of a row; rows are shaded alternately. Columns 0 and 8 start at multiples of 16 bytes.",
        alt="; ".join(
            f"{n} elements per row: rows start at {', '.join(str(row * n % WORDS) for row in range(6))} of 16"
            for n in STRIDES
        )
        + ".",
    )
)

# %% [markdown]
# Misaligned rows cost time in two ways. You know the first from [coalescing](../memory/coalescing.py): a piece of a row
# that doesn't start at a sector boundary can touch one more sector. A row of a BF16 tile with 64 columns is 128 bytes
# long: it touches four sectors if it's aligned, and five if it isn't. That can't explain a factor of five.
#
# The second is that loads become narrower. A vectorised load of 16 bytes needs an address that is a multiple of 16.
# With aligned rows, a lane loads eight BF16 values with one instruction: `cp.async` or `ld.global.v4`. Hopper's
# hardware for copying whole tiles, the \TMA, accepts only strides that are multiples of 16 bytes. With odd row strides,
# every other row starts at an odd multiple of 2 bytes. A kernel that treats all rows alike must then load single
# elements, with one load instruction for each of them instead of one for eight. `cp.async` can't be used at all, since
# it copies at least 4 bytes.

# %% [markdown]
# This explanation makes a prediction. In $C = A B$, with $A$ of $M × K$, $B$ of $K × N$ and $C$ of $M × N$, the row
# strides are $K$, $N$ and $N$. $M$ isn't a row stride, so an odd $M$ should cost almost nothing.

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
    "none odd": (4096, 4096, 4096),
    "M odd": (4097, 4096, 4096),
    "K odd: rows of A": (4096, 4096, 4097),
    "N odd: rows of B and C": (4096, 4097, 4096),
    "all three odd": (4097, 4097, 4097),
}
PRINTED_US = printed_numbers(HERE, "one_size_odd", r"M (\d+), N (\d+), K (\d+): ([\d.]+) us")
ODD_US = {label: PRINTED_US[sizes] for label, sizes in NAMES.items()}
if complete(ODD_US):
    none, only_m, only_k, only_n, _ = ODD_US.values()
    assert only_m < 1.1 * none < 5 * none < min(only_k, only_n), "the title: M costs little, K and N do not"
    show(
        bars(
            ODD_US,
            x="time [µs]",
            title="An odd M is harmless; an odd K or N isn't",
            caption="GEMM of 4,096 × 4,096 BF16 matrices with cuBLAS on an {machine}, with one size, or all three, increased to 4,097.",
        )
    )
publish(
    odd={
        "more_m": ODD_US["M odd"] / ODD_US["none odd"] - 1,
        "K": ODD_US["K odd: rows of A"] / ODD_US["none odd"],
        "N": ODD_US["N odd: rows of B and C"] / ODD_US["none odd"],
        "all": ODD_US["all three odd"] / ODD_US["none odd"],
    }
)

# %% [markdown]
# An odd $M$ adds only {{ odd.more_m | .0% }}, even though it also needs another row of tiles. An odd $K$ makes the GEMM
# {{ odd.K | .1f }}× slower, and an odd $N$ makes it {{ odd.N | .1f }}× slower. One odd stride does all the damage: with
# all three sizes odd, the GEMM is {{ odd.all | .1f }}× slower.

# %% [markdown]
# ## Padding: a copy with an aligned stride
#
# The fix is padding: copy the matrix to one whose row stride is rounded up to a multiple of 8, with zeros in the extra
# columns. The zeros don't change the sums. Pad A and B before the GEMM, and copy C back after it.
#
# The first kernel copies a matrix from one row stride to another, to add or remove padding, with one element per lane.


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
// Copies rows x cols 16-bit elements from one row stride to another;
// zeros elsewhere. Grid (ceil(to_stride / block), up to 65535).
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

# %%
A = np.arange(1, 16, dtype=np.uint16).reshape(3, 5)
padded = np.zeros((3, 8), np.uint16)
BY_ELEMENTS(A, padded, 3, 5, 5, 3, 8, grid=(1, 3), block=32)
print(padded)

# %% [markdown]
# Can a lane move 16 bytes at once if the rows of the source or of the target are misaligned? It can: it stores 16
# aligned bytes, and loads the aligned 4-byte words that contain its eight elements. The lane needs four words, or five
# if the first element is the second half of a word. With five, each word that it stores combines halves of two adjacent
# words.

# %%
BY_PIECES = Kernel(r"""
__device__ unsigned word_at(const unsigned short* source,
                            long long word, long long total) {
    if (2 * word + 1 < total) return ((const unsigned*)source)[word];
    return source[2 * word];  // the last element, if it is alone
}

// As above; target 16-byte aligned, source 4-byte aligned.
// Grid (ceil((to_stride + 7) / 8 / block), up to 65535).
extern "C" __global__
void restride(const unsigned short* source, unsigned short* target,
              int rows, int cols, int from_stride,
              int to_rows, int to_stride) {
    long long total = (long long)(rows - 1) * from_stride + cols;
    int piece = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = blockIdx.y; row < to_rows; row += gridDim.y) {
        long long out = (long long)row * to_stride;
        // New: 8 elements at a multiple of 16 bytes of target
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
from tilewise import agree, case, integers, output

ARGUMENTS = ("rows", "cols", "from_stride", "to_rows", "to_stride")  # of both kernels


def moved(*shape, lane_elements=8):
    """A matrix of 16-bit words and a launch that copies it to another row stride."""
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
agree(restride, BY_ELEMENTS, [moved(*shape, lane_elements=1) for shape in SHAPES])
agree(restride, BY_PIECES, [moved(*shape) for shape in SHAPES])

# %% [markdown]
# The bounds check in `word_at` matters. If the number of elements is odd, the last one fills only half a word, and a
# 4-byte load of that word reads 2 bytes beyond the array. That usually goes undetected, but the simulator, like
# compute-sanitizer's `memcheck`, reports it:

# %%
from tilewise import expect_hazard

CARELESS = Kernel(BY_PIECES.source.replace("2 * word + 1 < total", "true"))
expect_hazard(CARELESS.on(moved(9, 17, 17, 9, 24)), "out of bounds", line_with="[word]")

# %% [markdown]
# Change the size of the matrix, which is padded to a row stride of 24. At which sizes does the missing check matter?

# %% fold="Code of the run"
from tilewise import try_it


def padded_to_24(rows, cols):
    return case(
        source=integers(rows, cols, low=0, high=65536, dtype="uint16"),
        target=output(rows, 24, dtype="uint16"),
        rows=rows,
        cols=cols,
        from_stride=cols,
        to_rows=rows,
        to_stride=24,
        grid=(1, rows),
        block=32,
    )


try_it(
    padded_to_24,
    {
        "16 bytes per lane": BY_PIECES,
        "16 bytes, no bounds check": CARELESS,
        "one element per lane": BY_ELEMENTS,
    },
    rows=(1, 9, 32),
    cols=(1, 17, 24),
)

# %% [markdown]
# ## The cost of a padding copy
#
# Every element is read once and written once. For n = 4,097, that's {{ copy.megabytes | .0f }} MB, or
# {{ copy.bound_us | .0f }} µs at the peak bandwidth (data sheet). But memory reaches its peak only with enough bytes
# [in flight](../speed/occupancy.py). A warp that moves one element per lane has 64 bytes in flight; one that moves 16
# bytes per lane has 512.

# %% fold="Code of the measurement"
from tilewise.measurements import Guess

ODD = (1793, 4095, 4097)


def even(n):
    return ceil_div(n, 8) * 8


def padding(kernel, lane_elements):
    """An n x n matrix that is padded, or one with padded rows that is copied back to a row stride of n."""

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
    variants={"one element per lane": padding(BY_ELEMENTS, 1), "16 bytes per lane": padding(BY_PIECES, 8)},
    cases=[{"n": n, "back": back} for n in ODD for back in (0, 1)],
    count_case={"n": 61, "back": 0},
    bytes=lambda n, back: 2 * n * (n + even(n)),
    library={"torch, pad or copy_": torch_pad, "CuPy, by slices": cupy_slices},
    reference=right_target,
    tolerance=0.0,
    counts=("requests", "sectors"),
    reasons={"*": "The cost of a padding copy"},
    fold="All 24 rows",
    guess=Guess(
        "How much faster is the copy with 16 bytes per lane than with one element per lane, at n = 4,097?",
        of="16 bytes per lane",
        over="one element per lane",
        at={"n": 4097, "back": 0},
        between=(0.5, 8.0),
        models={"bytes per lane": 8.0, "traffic alone": 1.0},
        because="More bytes in flight help until memory is saturated.",
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
            title="Only the 16-byte version comes close to the peak memory bandwidth",
            caption="A 4,097 × 4,097 matrix of 16-bit elements copied to rows of 4,104 on an {machine}, by our two kernels and by two libraries.",
        )
    )
COPIES_US = 2 * PAD_US["16 bytes per lane"] + COPY_US["16 bytes per lane", 4097, 1]
publish(
    copy={
        "megabytes": 2 * 4097 * (4097 + 4104) / 1e6,
        "bound_us": 2 * 4097 * (4097 + 4104) / GPU.memory_gb_per_s / 1e3,
        "narrow_us": PAD_US["one element per lane"],
        "wide_us": PAD_US["16 bytes per lane"],
        "three_us": COPIES_US,
    },
    saved={
        "even_us": US[4096],
        "predicted_us": US[4096] + COPIES_US,
        "predicted": US[4097] / (US[4096] + COPIES_US),
    },
)

# %% [markdown]
# With 16 bytes per lane, the copy takes {{ copy.wide_us | .0f }} µs, close to the bound. With one element per lane, it
# takes {{ copy.narrow_us | .0f }} µs. PyTorch is about as slow, because it copies twice: into a new, padded array, and
# from there to the target. Three fast copies, of A, B and C, take {{ copy.three_us | .0f }} µs. Are they worth it?

# %% [markdown]
# ## GEMM time, copies included
#
# With padded rows, the 4,097 GEMM should take about as long as the 4,096 one: {{ saved.even_us | .0f }} µs. With the
# three copies, we predict {{ saved.predicted_us | .0f }} µs, {{ saved.predicted | .1f }}× faster than doing nothing.
#
# You can save two of the three copy launches. One kernel can pad A and B together. And if the next operation accepts a
# row stride, as PyTorch's do, C needn't be copied back: its first n columns are the result.


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
    """Two n x n matrices, and outputs with rows and columns padded to a multiple of 8."""
    p = ceil_div(n, 8) * 8
    arrays = {name: integers(n, n, low=0, high=65536, dtype="uint16") for name in "AB"}
    room = {f"wide_{name}": output(p, p, dtype="uint16") for name in "AB"}
    return case(**arrays, **room, n=n, stride=p, grid=(ceil_div(p * p // 8, 1024), 2), block=256)


agree(pad_both, PAD_BOTH, [both(n) for n in (1, 8, 17, 31, 93, 100)])

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
WAYS_ERROR = printed_numbers(HERE, "odd_products", r"^(\d+), ([^:\n]+): largest error ([\d.]+)")
WAYS_US = printed_numbers(HERE, "odd_products", r"^(\d+), ([^:\n]+): ([\d.]+) us")
SHOWN = {
    "as it is": "unpadded",
    "sizes padded": "A, B, C padded",
    "strides padded": "only strides padded",
    "padded together": "A and B in one kernel",
    "padded together, C left wide": "the same, C left padded",
    "torch's pad and slices": "torch pad and slices",
    "kept padded": "already padded",
}
OWN = ("sizes padded", "strides padded", "padded together", "padded together, C left wide")


def gain(n, way):
    """How much faster than the unpadded GEMM."""
    return WAYS_US[n, "as it is"] / WAYS_US[n, way]


worst_error = max(WAYS_ERROR[n, way] / WAYS_ERROR[n, "as it is"] for n in ODD for way in OWN)
publish(
    gain={
        "n1793": gain(1793, "sizes padded"),
        "n4097": gain(4097, "sizes padded"),
        "wide": gain(4097, "padded together, C left wide"),
        "slower": 1 / gain(4097, "strides padded"),
    },
    ask_us=WAYS_US[4095, "as it is"],
    answer=WAYS_US[4095, "as it is"] / US[4096],
    copied_us=WAYS_US[4095, "sizes padded"],
)
if WAYS_US:
    check(worst_error <= 2.0, True, name="largest error, at most twice that of the unpadded GEMM")
    assert min(gain(n, "sizes padded") for n in ODD) > 2, "the title: several times over"
    show(
        bars(
            {
                f"n = {n:,}": {SHOWN[way]: 2 * n**3 / us / 1e6 for (m, way), us in WAYS_US.items() if m == n}
                for n in (1793, 4097)
            },
            roles=dict(
                zip(SHOWN.values(), ("waste", "tile", "block", "warp", "lane", "write", "read"), strict=True)
            ),
            x="rate [TFLOP/s]",
            title="Padding pays for its copies several times over",
            caption="BF16 GEMMs at two awkward sizes with cuBLAS on an {machine}, copies included. Already padded: the GEMM alone, for matrices that are always stored with padded rows.",
        )
    )

# %% [markdown]
# At 4,097, padding makes the GEMM {{ gain.n4097 | .1f }}× faster, copies included, close to the prediction. At 1,793
# it's {{ gain.n1793 | .1f }}× faster, because the copies take a larger fraction of the time: they grow with n², and the
# GEMM grows with n³. With A and B padded in one kernel and C left padded, the gain at 4,097 is {{ gain.wide | .1f }}×.
#
# For cuBLAS, aligned strides alone aren't enough: as long as the sizes are odd, it gains nothing from them. Copies
# included, the GEMM is actually {{ gain.slower | .1f }}× *slower* than without padding. So pad the sizes as well.

# %% [markdown]
# ## 50,257 tokens: GPT-2's vocabulary
#
# The last GEMM of the model, the projection, computes one logit for each token of the vocabulary. The weights are
# vocabulary × width, so their rows of 768 elements are aligned. The logits are tokens × 50,257, so their rows aren't.
# All three GEMMs access these misaligned rows: the forward pass writes the logits, and the two GEMMs of the \backward
# pass read their \gradient.
#
# Andrej Karpathy's [nanoGPT](https://github.com/karpathy/nanoGPT) rounds the vocabulary up to 50,304, the next multiple
# of 64. Does it have to be 64? We time six sizes.

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
THREE_US = r"^(\d+): forward (\d+) us, gradient of x (\d+) us, gradient of the weights (\d+) us"
WHOLE = Numbers({V: sum(us) / 1000 for V, *us in printed_rows(HERE, "projection", THREE_US)})  # in ms
if WHOLE:
    assert WHOLE[50264] < 1.1 * WHOLE[50304] < 0.3 * WHOLE[50257], "the title says that 8 is enough"
    show(
        bars(
            {f"V = {V:,.0f}": ms for V, ms in WHOLE.items()},
            x="time [ms]",
            title="A vocabulary divisible by 8 is enough",
            caption="Projection of 16,384 tokens of width 768 to six vocabulary sizes, together with the two GEMMs of its backward pass; BF16 with cuBLAS on an {machine}.",
        )
    )
publish(vocabulary={"times": WHOLE[50257] / WHOLE[50304], "added": 50304 / 50257 - 1})

# %% [markdown]
# With a vocabulary of 50,304 instead of 50,257, the three GEMMs are {{ vocabulary.times | .1f }}× faster, for
# {{ vocabulary.added | .2% }} more weights. A multiple of 8, 50,264, is just as good.

# %% [markdown]
# The projection is only part of a training step. Karpathy
# [reported](https://x.com/karpathy/status/1621578354024677377) that the whole step became 25%
# faster{from: Andrej Karpathy on nanoGPT, February 2023}. `torch.compile` can also [pad on its
# own](../toolbox/compilers.py#padding-at-compile-time).

# %% [markdown]
# ## Benchmark inputs: never time zeros
#
# All GEMMs on this page multiply random numbers. A wire whose value doesn't change consumes almost no energy, and a GPU
# at its power limit lowers its clock. [Horace He](https://www.thonking.ai/p/strangely-matrix-multiplications) showed in
# 2024 that matrix multiplications run faster on predictable data. If power is the reason, a matrix of ones should gain
# as much as one of zeros.

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

# %% needs="gpu torch" record="power" fold="Code that samples clock and power"
if gpu_here() and find_spec("torch"):
    import cupy
    import torch

    from tilewise.gpu.sampling import Sampler, nvml
    from tilewise.gpu.timing import Contender, Plan, time_contenders

    def repeated(A, B, C, many):
        """That many products in a row."""

        def run():
            for _ in range(many):
                torch.matmul(A, B, out=C)

        return run

    n = 4096
    for kind, made in (("normally distributed", torch.randn), ("all zeros", torch.zeros)):
        A, B = (made(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        C = torch.empty_like(A)
        for many, repetitions in ((1, 400), (20, 60), (200, 24)):
            run = repeated(A, B, C, many)
            run()
            meter = nvml(cupy.cuda.Device().pci_bus_id)
            assert meter is not None, "NVML does not know this GPU"
            with Sampler(meter) as sampler:
                plan = Plan(repetitions=repetitions, flush=False)
                [timing] = time_contenders([Contender(kind, run)], plan, sampler=sampler)
            clocks, watts = (
                " to ".join(f"{one:.0f}" for one in np.percentile(read, (20, 80)))
                if len(read)
                else "not read"
                for read in (timing.sm_clock_mhz, timing.power_w)
            )
            rate = 2 * n**3 * many / timing.median / 1e6
            print(f"{kind}, {many} in a row: {rate:.0f} TFLOP/s; SM clock {clocks} MHz; power {watts} W")

# %% fold="Code of the numbers"
FILLED = printed_numbers(HERE, "zeros", r"^(\d+), ([a-z ]+): (\d+) TFLOP/s")
CLOCK_MHZ, WATTS = (  # the 80th percentile of the samples, recorded on an H200
    printed_numbers(HERE, "power", rf"^([a-z ]+), (\d+) in a row: .* to (\d+) {unit}\b")
    for unit in ("MHz", "W")
)
LONE, REPEATED, ZEROS = ("normally distributed", 1), ("normally distributed", 200), ("all zeros", 200)
publish(
    zeros={
        "random": FILLED[4096, "normally distributed"],
        "more": FILLED[4096, "all zeros"] / FILLED[4096, "normally distributed"] - 1,
    },
    power={"clock_1": CLOCK_MHZ[LONE], "clock_200": CLOCK_MHZ[REPEATED]},
)
assert not CLOCK_MHZ[REPEATED] > 0.9 * CLOCK_MHZ[LONE], "the text says that the clock falls"
assert not WATTS[REPEATED] < 700 and not WATTS[ZEROS] > 500, "the text: only random numbers reach 700 W"
if RATES and FILLED:
    assert RATES[4096] > FILLED[4096, "normally distributed"], "the text says that a short run is faster"

# %% [markdown]
# Back-to-back GEMMs at n = 4,096 run at {{ zeros.random | .0f }} TFLOP/s on random numbers, and {{ zeros.more | .0% }}
# faster on zeros. Ones are about as fast as zeros, so it isn't the value zero that helps. A benchmark on such matrices
# shows rates that no real input reaches.
#
# An H200's clock confirms that power is the reason: it runs at {{ power.clock_1 | , }} MHz for a single GEMM on random
# numbers, but at no more than {{ power.clock_200 | , }} MHz for 200 in a row, which reach the power limit.

# %% [markdown]
# ## The answer
#
# The GEMM at n = 4,095 takes {{ ask_us | .0f }} µs. It's {{ answer | .1f }}× slower than the one at 4,096, although it
# does less work, because most of its rows start at addresses that 16-byte loads can't use. Padding, multiplying and
# copying the result back take {{ copied_us | .0f }} µs.

# %% [markdown]
# ## Takeaways
#
# - For 16-byte loads, every row stride must be a multiple of 16 bytes, which is 8 BF16 elements. For cuBLAS, pad the
#   sizes $K$ and $N$ themselves and not only the strides; $M$ can have any value.
# - Padding costs a copy of each matrix, but misaligned rows cost the GEMM far more. It's best to choose a padded size
#   from the start, for example for a vocabulary.
# - Never time a GEMM on zeros or ones: it can run faster than on real data.
#
# ## In your own kernel
#
# In Nsight Compute, read the kernel's name first: cuBLAS kernels that come from CUTLASS have `align1`, `align2` or
# `align8` in their names. Then check `smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct`, which falls if
# rows are misaligned. When you allocate a matrix, pad every dimension that is a row stride to a multiple of 16 bytes.


# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def aligned_views(n):
    views = []
    for first in range(8):
        begin = first * n
        views.append((begin - begin % 8, 8 * n, begin % 8))
    return views


def views_tests(answer):
    for n in (9, 17, 31, 100, 257):
        numbers = np.arange(40 * n + 8)
        views = answer(n)
        assert len(views) == 8, f"n = {n}: {len(views)} views"
        seen = {}
        for first, (base, stride, shift) in enumerate(views):
            assert base % 8 == 0 and stride % 8 == 0, f"n = {n}: view {first} has misaligned rows"
            for i in range(5):
                begin = base + i * stride + shift
                seen[first + 8 * i] = numbers[begin : begin + n]
        for row in range(40):
            assert (seen[row] == numbers[row * n : (row + 1) * n]).all(), f"n = {n}: row {row} is wrong"


exercise(
    "Eight matrices in one",
    """
    A BF16 matrix has rows of odd length `n`. Rows r and r + 8 start at the same offset within 16 bytes. So taking
    every eighth row gives part of a matrix that has aligned rows and starts a few elements earlier. Write
    `aligned_views(n)`, which returns eight tuples `(base, stride, shift)`; view k has the rows k, k + 8, k + 16 and so
    on. `base` and `stride` count elements and are multiples of 8. Row i of a view starts at
    `base + i * stride + shift`. Hardware that copies tiles of aligned matrices can use such views without padding.
    """,
    answer=aligned_views,
    tests=views_tests,
    wrong=[
        {"begin - begin % 8, 8 * n, begin % 8": "begin, 8 * n, 0"},
        {"8 * n,": "n,"},
        {"8 * n, begin % 8": "8 * n, first"},
    ],
    hint="Row k starts at element k · n. Go back from there to the previous multiple of 8.",
)
