# ---
# title: "Padding further: multiples of 64, and faster copies"
# needs: [matmul/alignment]
# further: matmul/alignment
# summary: "A GEMM at n = 1,793 gains from rows padded to a multiple of 8. How much more does a multiple of 64 gain?"
# description: "Row strides padded to multiples of 8, 16, 32 and 64, a padding copy with 16-byte loads and stores, a 16-byte store that the compiler splits, and why reading misaligned rows directly doesn't pay."
# date: 2026-11-23
# tags: [alignment, padding, SASS]
# ---

# %% [markdown]
# In [Alignment](alignment.py), padding rows to the next multiple of 8 made a GEMM of 1,793 × 1,793 matrices
# {{ rounder.wide8 | .1f }}× faster, copies included. The sweep in that lesson contains a surprise. At n =
# {{ rounder.eight | , }}, the next multiple of 8, a GEMM takes {{ rounder.eight_us | .0f }} µs. At
# {{ rounder.thirty_two | , }}, the next multiple of 32, it takes only {{ rounder.thirty_two_us | .0f }} µs, although it
# does more work. So to which multiple should you pad? And can the padding copies themselves be made faster?

# %% fold="Imports"
from importlib.util import find_spec

import numpy as np

from tilewise import Kernel, agree, case, ceil_div, gpu_here, integers, output, parallel, publish
from tilewise.figures import bars
from tilewise.kernels.from_lesson import from_lesson
from tilewise.measurements import printed_numbers, recorded_device

BY_PIECES, PAD_BOTH = from_lesson("matmul/alignment", "BY_PIECES", "PAD_BOTH")

# %% [markdown]
# ## Row strides that are multiples of 64
#
# Rows of {{ rounder.eight | , }} BF16 elements start at multiples of 16 bytes, but most of them don't start at
# multiples of 128. If a GEMM reads such a misaligned row in 128-byte pieces, each piece spans two cache lines. With a
# stride that is a multiple of 32 elements, at least every other row is aligned; with a multiple of 64, every row is.
#
# To predict the gain, take the GEMM's time at the padded size from the sweep, and scale the copy time in proportion to
# the number of bytes moved. Padding both dimensions to multiples of 32 instead of 8 adds {{ rounder.grown | .1% }} to
# the writes and nothing to the reads. With C left padded, we predict {{ rounder.wide | .1f }}× for multiples of 32, and
# {{ rounder.wide64 | .1f }}× for multiples of 64.

# %% fold="Code of the numbers"
LESSON = "matmul/alignment"
US = printed_numbers(LESSON, "sweep", r"(\d+) ([\d.]+)")
WAYS_US = printed_numbers(LESSON, "odd_products", r"^(\d+), ([^:\n]+): ([\d.]+) us")
GPU = recorded_device()


def rounded(n, step):
    """The next multiple of a step."""
    return ceil_div(n, step) * step


def predicted_times(step, way, n=1793):
    """The speed-up over unpadded if only the GEMM and the bytes of the copies change from step 8."""
    grown = (rounded(n, step) / rounded(n, 8)) ** 2
    kept = WAYS_US[n, "kept padded"]
    product = kept + US[rounded(n, step)] - US[rounded(n, 8)]
    return WAYS_US[n, "as it is"] / (product + (WAYS_US[n, way] - kept) * (1 + grown) / 2)


publish(
    rounder={
        "wide8": WAYS_US[1793, "as it is"] / WAYS_US[1793, "padded together, C left wide"],
        "eight": rounded(1793, 8),
        "thirty_two": rounded(1793, 32),
        "eight_us": US[rounded(1793, 8)],
        "thirty_two_us": US[rounded(1793, 32)],
        "grown": (rounded(1793, 32) / rounded(1793, 8)) ** 2 - 1,
        "sixty_four": rounded(1793, 64),
        "wide": predicted_times(32, "padded together, C left wide"),
        "wide64": predicted_times(64, "padded together, C left wide"),
    }
)

# %% [markdown]
# ## A copy with 16-byte loads and stores
#
# In the lesson's kernel, a lane builds each 16-byte store from five 4-byte loads. But all pieces of a row have the same
# offset from a multiple of 16 bytes. So a lane can load the two aligned 16-byte pieces that it needs and shift them
# into place in up to three steps: by two words, by one word and by half a word. Its second piece is its neighbour's
# first, so L1 can serve it.


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
// 8 aligned elements; zeros where the matrix has no 8 more
__device__ uint4 chunk_at(const unsigned short* source, int chunk, int whole) {
    if (chunk < 0 || chunk >= whole) return make_uint4(0, 0, 0, 0);
    return ((const uint4*)source)[chunk];
}

// Copies A and B from one row stride to another; zeros elsewhere.
// 16-byte aligned, fewer than 2^31 elements; ROWS rows per thread.
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
        if (in + 8 > 8 * whole && left > 0)  // the last elements of the matrix
            for (int e = 0; e < min(left, 8); ++e)
                if (in + e >= 8 * whole)
                    v[e / 2] |= (unsigned)source[in + e] << 16 * (e % 2);
        if (row >= to_rows) break;
        if (begin >= 0 && begin + 8 <= to_stride) {
            uint4* pieces = (uint4*)target;  // index the array
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

# %% fold="Code of the check"
ARGUMENTS, SHAPES = from_lesson("matmul/alignment", "ARGUMENTS", "SHAPES")


def shape_by_rows(to_rows, to_stride, rows_of_a_lane, matrices=1):
    """Grid and block: a block has up to 256 pieces of some rows, in whole warps."""
    warps = ceil_div(to_stride + 7, 8 * 32)
    across = ceil_div(warps, 8)
    return (across, ceil_div(to_rows, rows_of_a_lane), matrices), 32 * ceil_div(warps, across)


def moved_by_rows(*shape):
    """Two matrices of 16-bit words and a launch that copies both to another row stride."""
    rows, _, from_stride, to_rows, to_stride = shape
    arrays = {name: integers(rows, from_stride, low=0, high=65536, dtype="uint16") for name in "AB"}
    room = {f"to_{name}": output(to_rows, to_stride, dtype="uint16") for name in "AB"}
    grid, block = shape_by_rows(to_rows, to_stride, 4, 2)
    return case(**arrays, **room, **dict(zip(ARGUMENTS, shape, strict=True)), grid=grid, block=block)


LONGER = ((4, 5, 5, 4, 7), (9, 2105, 2105, 12, 2112), (6, 2105, 2112, 6, 2105))
agree(restride_rows, BY_ROWS, [moved_by_rows(*shape) for shape in (*SHAPES, *LONGER)])

# %% [markdown]
# Change the row stride of the source; the target's is 24. At which strides does a piece need only one load?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    lambda rows, stride: moved_by_rows(rows, 17, stride, rows, 24),
    BY_ROWS,
    rows=(1, 9, 32),
    stride=(17, 17, 32),
)

# %% [markdown]
# ## A 16-byte store that the compiler splits
#
# `restride_rows` treats the target as an array of 16-byte pieces and stores to its elements by index. The lesson's
# `restride` instead takes a pointer to a BF16 element and casts it, and its 16-byte store doesn't appear in the \SASS:

# %% needs="nvrtc nvdisasm" fold="Code of the table"
from tilewise import Table, check, show
from tilewise.kernel.edits import edited
from tilewise.kernel.machine_code import available as can_disassemble
from tilewise.kernel.machine_code import machine_code

CAST = edited(
    BY_ROWS,
    ("uint4* pieces = (uint4*)target;  // index the array\n", ""),
    ("pieces[(out + begin) >> 3] =", "*(uint4*)(target + out + begin) ="),
)
assert "pieces" not in CAST.source
STORING = {
    "restride, cast element pointer": BY_PIECES,
    "pad_both, index": PAD_BOTH,
    "restride_rows, index": BY_ROWS,
    "restride_rows, cast element pointer": CAST,
}


if can_disassemble() is None:
    SPLIT = {}
    for label, kernel in STORING.items():
        names = [one.name for one in machine_code(kernel).instructions]
        SPLIT[label] = [names.count("STG.E.128"), names.count("STG.E")]
    through = [SPLIT["restride, cast element pointer"][0], SPLIT["restride_rows, cast element pointer"][0]]
    check(through, [0, 0], name="16-byte stores through a cast element pointer")
    show(
        Table(
            ["kernel, address of the store", "16-byte stores", "4-byte stores"],
            [[label, *counts] for label, counts in SPLIT.items()],
            caption="Stores in the SASS for an H100, without those of single elements at the ends of rows; restride_rows with four rows per thread, pad_both with four pieces.",
        )
    )

# %% [markdown]
# So the copy with "16 bytes per lane" in fact stores 4 bytes at a time.

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

# %% fold="Code of the figure"
STRIDED = printed_numbers(
    "matmul/alignment_strides", "rounder_strides", r"^(\d+), (\d+), ([^:\n]+): ([\d.]+) us"
)


def strided_times(n, step, way):
    """The speed-up over the unpadded GEMM of the same run."""
    return STRIDED[n, 8, "as it is"] / STRIDED[n, step, way]


SETTINGS = {
    "multiple of 8": (8, ""),
    "multiple of 16": (16, ""),
    "multiple of 32": (32, ""),
    "multiple of 64": (64, ""),
    "64, 16-byte loads": (64, ", by 2 rows"),
}
GAINS = {
    f"n = {n:,}": {
        label: strided_times(n, step, "C left wide" + more) for label, (step, more) in SETTINGS.items()
    }
    for n in (1793, 4097)
}
if STRIDED:
    assert GAINS["n = 1,793"]["multiple of 64"] > 1.1 * GAINS["n = 1,793"]["multiple of 8"], "the title"
    show(
        bars(
            GAINS,
            roles=dict(zip(SETTINGS, ("write", "block", "lane", "read", "tile"), strict=True)),
            x="speed-up over unpadded",
            title="Multiples of 64 beat multiples of 8; wider loads change nothing",
            caption="A BF16 GEMM with cuBLAS on an {machine}, with rows padded to different multiples. The padding copies are included; C is left padded. The bar labelled 16-byte loads uses the copy kernel from this page.",
        )
    )
BOUND_US = {n: 4 * (n**2 + rounded(n, 64) ** 2) / GPU.memory_gb_per_s / 1e3 for n in (1793, 4095)}
PADS_US = {n: STRIDED[n, 64, "pads, by 2 rows"] for n in BOUND_US}
FIXED_US = {n: PADS_US[n] - BOUND_US[n] for n in BOUND_US}
assert not FIXED_US[4095] > 1.3 * FIXED_US[1793], "the text: about the same at both sizes"
publish(
    gain64=GAINS["n = 1,793"]["multiple of 64"] / GAINS["n = 1,793"]["multiple of 8"] - 1,
    strided={
        "eight": GAINS["n = 1,793"]["multiple of 8"],
        "sixty_four": GAINS["n = 1,793"]["multiple of 64"],
    },
    parts={
        "pads": STRIDED[1793, 64, "pads"],
        "pads_new": PADS_US[1793],
        "of_peak_large": BOUND_US[4095] / PADS_US[4095],
        "of_peak": BOUND_US[1793] / PADS_US[1793],
        "fixed": FIXED_US[1793],
    },
)

# %% [markdown]
# In a new measurement at n = 1,793, the GEMM is {{ strided.eight | .1f }}× faster with multiples of 8 and
# {{ strided.sixty_four | .1f }}× faster with multiples of 64. For 64, the prediction was too low. It used the sweep's
# time at {{ rounder.sixty_four | , }}, but here only $K$ and $N$ are padded, and $M$ stays 1,793.
#
# The 16-byte loads gain nothing. Padding A and B takes {{ parts.pads_new | .1f }} µs with them and
# {{ parts.pads | .1f }} µs without. At 4,095, the padding copy runs at {{ parts.of_peak_large | .0% }} of the peak
# bandwidth (data sheet), so there's little left to gain from wider loads. At 1,793, it reaches only
# {{ parts.of_peak | .0% }}, but the time that the traffic doesn't account for is about {{ parts.fixed | .1f }} µs at
# both sizes. So it's mostly a fixed cost per launch.

# %% [markdown]
# ## Reading misaligned rows directly
#
# Why copy at all? A GEMM kernel could load misaligned rows one element at a time. Take a 128 × 128 tile and a slice of
# 32 along K, on an SM that starts one load or store per cycle. Loading {{ direct.elements | , }} elements and storing
# them to shared memory takes {{ direct.cycles | .0f }} cycles, and the fragment loads of eight warps, at 128 bytes per
# cycle, take another {{ direct.fragments | .0f }}. The tensor cores need {{ direct.matrix_cycles | .0f }}. So we
# estimate that such a kernel reaches at most {{ direct.share | .0% }} of the peak (data sheet).

# %% fold="Code of the numbers"
TILE_ELEMENTS = 2 * 128 * 32
ACCESSES = 2 * TILE_ELEMENTS // 32  # a load, and a store to shared memory, of 32 lanes each
FRAGMENT_CYCLES = 8 * (64 + 32) * 32 * 2 / 128  # eight warps of 64 x 32, 128 bytes per cycle
MATRIX_CYCLES = 128 * 128 * 32 / GPU.fma_per_sm_clock["bf16_matrix"]
SHARE = MATRIX_CYCLES / (ACCESSES + FRAGMENT_CYCLES)
publish(
    direct={
        "elements": TILE_ELEMENTS,
        "cycles": ACCESSES,
        "fragments": FRAGMENT_CYCLES,
        "matrix_cycles": MATRIX_CYCLES,
        "share": SHARE,
    }
)

# %% [markdown]
# ## Takeaways
#
# - When you can choose, pad row strides to a multiple of 64 BF16 elements, 128 bytes. At 1,793, that beats a multiple
#   of 8 by {{ gain64 | .0% }}.
# - A copy near the peak bandwidth gains nothing from wider loads; what's left is a fixed cost per launch.
# - A vector store through a cast element pointer can become four narrow ones. Only the \SASS shows it.
#
# ## In your own kernel
#
# Look for `STG.E.128` in the \SASS (Nsight Compute's source view, or `cuobjdump -sass`), and index an array of `uint4`
# instead of casting a pointer to an element. Pad a leading dimension to a multiple of 128 bytes when you allocate the matrix.


# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def unaligned_piece(chunks, first):
    both = np.concatenate([chunks[first // 8], chunks[(first + 7) // 8]])
    return both[first % 8 : first % 8 + 8]


def piece_tests(answer):
    chunks = np.arange(40).reshape(5, 8)
    for first in range(33):
        try:
            piece = answer(chunks, first)
        except IndexError:
            raise AssertionError(f"first = {first}: it loads a chunk beyond the matrix") from None
        assert list(piece) == list(range(first, first + 8)), f"first = {first}: the elements are wrong"


exercise(
    "Eight elements from two chunks",
    """
    `chunks[i]` loads the aligned 16-byte chunk i of a BF16 array, elements 8 i to 8 i + 7. Write
    `unaligned_piece(chunks, first)`, which returns the eight elements that start at `first`, from at most two chunks. It must
    not load a chunk that it doesn't need: the array may end with the last chunk that it does need.
    """,
    answer=unaligned_piece,
    tests=piece_tests,
    wrong=[
        lambda chunks, first: chunks[first // 8],
        {"(first + 7) // 8": "first // 8 + 1"},
        {"first % 8 : first % 8 + 8": "8 - first % 8 : 16 - first % 8"},
    ],
    hint="If `first` is a multiple of 8, one chunk is enough.",
)
