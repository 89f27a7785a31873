# ---
# title: Grids, blocks and threads in two and three dimensions
# needs: [kernels/first_kernel]
# summary: "With a 1,920 × 1,080 image and 256 threads per block, does it matter whether blocks are wide or tall?"
# description: "Give each thread a row and a column, check the bounds on every axis, and pick a block shape that suits memory."
# date: 2026-11-21
# tags: [grid, block, row-major]
# ---

# %% [markdown]
# Suppose you flip a 1,920 × 1,080 image left to right on a GPU, with one thread per pixel and 256 threads per block.
# You can arrange those 256 threads as a square, as one wide row or as one tall column. The result is the same, yet the
# slowest shape is several times slower than the fastest. How many 16 × 16 blocks cover the image, and which shape
# should you avoid?

# %% [markdown]
# ## Two-dimensional grids: row and column
#
# Each thread needs the row and the column of its pixel. CUDA lets a grid and a block have up to three
# axes, x, y and z, and `blockIdx`, `threadIdx` and `blockDim` have a component for each.[^limits] So
# the formula from the last lesson appears twice:
#
# ```c
# int col = blockIdx.x * blockDim.x + threadIdx.x;
# int row = blockIdx.y * blockDim.y + threadIdx.y;
# ```
#
# [^limits]: A block has at most 1,024 threads in total, and at most 64 along z. A grid has at most
#     65,535 blocks along y or z but 2³¹ − 1 along x.
#
# ??? definition "dim3"
#     CUDA's three-component type for grid and block dimensions. Components that you omit default
#     to 1.

# %% [markdown]
# Take an image 5 pixels wide and 3 high, with blocks of 4 × 2 threads: 4 along x and 2 along y. Round
# up on each axis: 2 blocks across and 2 down, so 32 threads for 15 pixels.
#
# Trace one thread by hand. By CUDA's convention, block and thread indices are written with x first: thread (0, 1) has
# threadIdx.x = 0 and threadIdx.y = 1. In block (1, 0) it computes col = 1 · 4 + 0 = 4 and row = 0 · 2 + 1 = 1. Hatched
# threads are outside the image, and the bounds check must stop them. The panel also names the thread's *warp*, one of
# the groups of 32 threads that run together, and its *lane*, the position within the warp.
#
# ??? definition "Warp | warps"
#     32 consecutively numbered threads of one block that execute together; the last warp of a block
#     may be partly filled.
#
# ??? definition "Lane | lanes"
#     A thread's position within its warp, 0 to 31.

# %% fold="Code of the figure"
import numpy as np

from tilewise import Kernel, Table, ceil_div, check, publish, show
from tilewise.figures import block_grid

show(
    block_grid(
        (2, 2),
        (4, 2),
        extent=(5, 3),
        axes=("col", "row"),
        title="Rounding up each axis leaves threads outside the image",
        caption="A two-dimensional launch, initially over an image of 5 × 3 pixels. The sliders set the grid, the block and the image. Hatched threads are outside the image and have no work.",
    )
)

# %% [markdown]
# ## Row-major order: from row and column to an index
#
# Memory has no rows. C and NumPy store an image row by row, in *row-major* order. To reach the pixel
# in a given row and column, skip `row` full rows and then `col` pixels, which gives the index
# `row * width + col`. Our thread's pixel has index 1 · 5 + 4 = 9, the last of its row, and index 10 is
# the first pixel of the next row.
#
# ??? definition "Row-major"
#     Stored row by row: with `width` columns, the element in row `row` and column `col` has the index
#     `row * width + col`, and neighbours in a row are neighbours in memory.

# %% [markdown]
# ## Mirror an image: one thread per pixel
#
# Each thread copies one pixel from its own row and the opposite column. The bounds check covers both axes, because each
# is rounded up separately.


# %% tab="Pseudocode"
from tilewise import parallel


def mirror(picture, mirrored):
    height, width = picture.shape
    for row, col in parallel(height, width):
        mirrored[row, col] = picture[row, width - 1 - col]


# %% tab="CUDA C"
MIRROR = Kernel(r"""
// Mirrors a row-major image of any width and height; one thread per pixel.
extern "C" __global__
void mirror(const float* picture, float* mirrored,
            int width, int height) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= width || row >= height) return;
    mirrored[row * width + col] = picture[row * width + (width - 1 - col)];
}
""")


# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def mirror_numba(picture, mirrored):
    col, row = cuda.grid(2)  # x, y
    height, width = picture.shape
    if col < width and row < height:
        mirrored[row, col] = picture[row, width - 1 - col]


# %% [markdown]
# Launch it on the 5 × 3 image. Without a GPU, this line runs on the course's simulator. Mind the
# order: `grid` and `block` list x first, while NumPy's shape lists rows first.[^order]
#
# [^order]: A common misconception: x must be the row, because indices are written `[row, col]`. CUDA
#     numbers threads along x first, so x belongs to the *last* index, the column.

# %%
picture = np.arange(15, dtype=np.float32).reshape(3, 5)
mirrored = np.zeros_like(picture)
MIRROR(picture, mirrored, 5, 3, grid=(2, 2), block=(4, 2))
print(mirrored)

# %% [markdown]
# Pick a thread and step through the same launch.

# %% fold="Code of the figure"
from tilewise import Trace, agree, case, expect_hazard, normal, output
from tilewise.figures import stepped


def mirroring(width, height, block):
    """One image to be mirrored by blocks of a given shape."""
    picture, mirrored = normal(height, width), output(height, width)
    grid = (ceil_div(width, block[0]), ceil_div(height, block[1]))
    arrays = {"picture": picture, "mirrored": mirrored}
    return case(**arrays, width=width, height=height, grid=grid, block=block)


traced = MIRROR.on(mirroring(5, 3, (4, 2))).simulate(trace=Trace())
requested, apart = traced.counts.global_load.sectors, ceil_div(15, 8)  # a sector has eight floats
show(
    stepped(
        traced,
        extent=(5, 3),
        axes=("col", "row"),
        title="Each thread reads the opposite column of its own row",
        caption="Four blocks of 4 × 2 threads mirror an image of 5 × 3 pixels. "
        f"The image fits in {apart} sectors, the 32-byte units of memory traffic, but the reads request {requested} in total: each block is one partly filled warp, and every warp makes its own requests for the sectors that it needs.",
    )
)

# %% [markdown]
# Test a kernel on sizes that aren't multiples of the block size. The course has three helpers for this: `case` bundles
# its arguments with a launch, `output` makes an array that the kernel must fill, and `agree` runs two versions and
# compares every element.

# %%
sizes = [(1, 1, (16, 16)), (37, 21, (16, 16)), (5, 70, (32, 8))]
agree(mirror, MIRROR, [mirroring(*size) for size in sizes], rtol=0.0)
agree(mirror_numba, MIRROR, [mirroring(*size) for size in sizes], by="Numba")

# %% [markdown]
# Back to the first question: how many blocks does an image of 1,920 × 1,080 pixels need? Across, it takes 1,920 / 16 =
# 120. Down, it takes 1,080 / 16 = 67.5, rounded up to 68. That makes 8,160 blocks.

# %% [markdown]
# ## The missing bounds check on one axis
#
# What if you forget the test on `col`? In row-major order, the index that follows the last one of a row is the first of
# the next row. A thread with col = 5 in row 0 therefore writes to column 0 of row 1, inside the array. Only in the last
# row does the write leave the array.
#
# In the next kernel, every element should receive its column number. The threads with col = 5, 6 and 7 in rows 0 and 1
# write into the next row, so {{ short.twice }} elements are each written by two threads from different blocks. Blocks
# can run concurrently, and nothing orders the two writes, so either value may remain. That's a *data \race*. Only the
# {{ short.outside }} stray writes from row 2 are out of bounds.

# %%
NO_GUARD_ON_COL = Kernel(r"""
extern "C" __global__
void own_column(int* column_of, int width, int height) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= height) return;
    column_of[row * width + col] = col;  // hazard: nothing stops col >= width
}
""")

field = case(
    column_of=output(3, 5, dtype="int32"),
    width=5,
    height=3,
    grid=(2, 2),
    block=(4, 2),
)
expect_hazard(NO_GUARD_ON_COL.on(field), "out of bounds", line_with="column_of[row * width")

# %% fold="Code of the count"
column_of = np.full((3, 5), -1, np.int32)
run = NO_GUARD_ON_COL.simulate(column_of, 5, 3, grid=(2, 2), block=(4, 2), hazards="collect")
writes = np.bincount(np.add.outer(np.arange(3) * 5, np.arange(8)).ravel())  # rows 0 to 2, col 0 to 7
outside = sum(hazard.count for hazard in run.hazards if hazard.kind == "out of bounds")
check(outside, writes[15:].sum(), name="writes out of bounds, reported and by hand")
publish(short={"twice": int((writes[:15] == 2).sum()), "outside": outside})

# %% [markdown]
# ## Three-dimensional grids
#
# A volume, such as a CT scan, needs a third line of index arithmetic, for z. The cell with coordinates x, y and
# z has the index `(z * height + y) * width + x`: x varies fastest, then y, then z. CUDA numbers the threads of a
# block in that order too. The next kernel records which block and thread visited each cell.

# %%
WHO_AM_I = Kernel(r"""
extern "C" __global__
void who_am_i(int* block_of, int* thread_of,
              int width, int height, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth) return;
    int cell = (z * height + y) * width + x;
    block_of[cell] = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x
                     + blockIdx.x;
    thread_of[cell] = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x
                      + threadIdx.x;
}
""")

# %% fold="Code of the check"
block_of, thread_of = (np.full((2, 3, 5), -1, np.int32) for _ in range(2))
WHO_AM_I(block_of, thread_of, 5, 3, 2, grid=(3, 2, 1), block=(2, 2, 2))
visitor = 8 * block_of + thread_of
check(np.unique(visitor).size, 30, name="30 cells, 30 visitors")

# %% [markdown]
# For 5 × 3 × 2 cells and blocks of 2 × 2 × 2 threads, we launch 3 × 2 × 1 blocks, or 48 threads for 30 cells. Switch the
# figure to 3-D to see the idle threads.

# %% fold="Code of the figure"
show(
    block_grid(
        (3, 2, 1),
        (2, 2, 2),
        extent=(5, 3, 2),
        title="Each of the three axes is rounded up separately",
        caption="A three-dimensional launch, initially over a volume of 5 × 3 × 2 cells. Threads outside the volume are hatched, or hollow in 3-D.",
    )
)

# %% [markdown]
# ## Warps and sectors: why block shape matters
#
# A GPU splits each block into warps of 32 consecutively numbered threads, and a load instruction
# executes for all 32 lanes of a warp at once. Data moves in sectors of 32 bytes, which hold eight
# floats. So the cost of a load depends on how many sectors the warp's 32 addresses fall into.
#
# Threads are numbered along x first. If the block's width is a multiple of 32, a warp covers 32 pixels of one row: 128
# contiguous bytes. If they start on a sector boundary, as they do here, they fill {{ touched.per_warp_row }} sectors,
# with every byte used. In a block one thread wide, the warp runs down a column, and each pixel needs its own sector:
# {{ touched.per_warp_column }} sectors, with one float used in each. For widths in between, a block *w* threads wide
# gives each warp 32 / *w* rows of *w* pixels. Below which width does the number of sectors rise?


# %%
def sectors_per_warp(block):
    """Sectors that a warp touches if each row of floats starts a new sector."""
    wide = min(block[0], 32)
    return (32 // wide) * ceil_div(wide * 4, 32)


# %% fold="Code of the count"
rows = []
for shape in [(256, 1), (32, 8), (16, 16), (8, 32), (4, 64), (2, 128), (1, 256)]:
    counts = MIRROR.on(mirroring(256, 256, shape)).simulate().counts
    counted = counts.global_load.sectors / counts.global_load.requests
    in_all = counts.global_load.sectors + counts.global_store.sectors
    rows.append([f"{shape[0]} x {shape[1]}", sectors_per_warp(shape), counted, in_all])
formula, counted = np.array([row[1:3] for row in rows]).T
check(counted, formula, name="sectors per warp, formula and count, for all seven shapes")
columns = [
    "block, x × y",
    "sectors per load, formula",
    "sectors per load, counted",
    "sectors, loads and stores",
]
show(
    Table(
        columns,
        rows,
        caption="Sectors of 32 bytes touched when blocks of 256 threads mirror an image of 256 × 256 pixels, counted by the simulator.",
    )
)
row, column = rows[0], rows[-1]
publish(touched={"ratio": column[3] / row[3], "per_warp_row": row[1], "per_warp_column": column[1]})

# %% [markdown]
# Try block shapes and image sizes of your own. The page runs the kernel again after each change.

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    lambda width, height, block_x, block_y: mirroring(width, height, (block_x, block_y)),
    MIRROR,
    width=(1, 64, 128),
    height=(1, 64, 128),
    block_x=(1, 16, 32),
    block_y=(1, 16, 32),
)

# %% [markdown]
# Down to a width of 8, nothing changes, because eight floats fill a sector. Below that, each halving of the width
# doubles the number of sectors, until a column touches {{ touched.ratio | .0f }} times as many as a row. Blocks of
# neighbouring columns request exactly the same sectors:

# %% fold="Code of the figure"
from tilewise.figures import heat_map

accesses = MIRROR.on(mirroring(32, 32, (1, 32))).simulate(trace=Trace(blocks=[0, 1])).accesses
maps = np.zeros((2, 32, 32))  # the elements of picture and of mirrored
maps.reshape(2, -1, 8)[accesses.buffer, accesses.index // 8] = 1  # the whole sector
maps.reshape(2, -1)[accesses.buffer, accesses.index] = 2
show(
    heat_map(
        {"picture, read": maps[0], "mirrored, written": maps[1]},
        x="col",
        y="row",
        role="read",
        form=".0f",
        key=False,
        title="Down a column, every row costs a new sector",
        caption="Two blocks, each 1 wide and 32 high, mirror an image of 32 × 32 pixels and write its first two columns. Solid cells are the elements used; faint cells are the rest of each sector.",
        alt="Two maps of 32 by 32 elements. In every row of picture, the last two elements are read, and the six before them share their sector. In every row of mirrored, the first two are written, and the six after them share their sector.",
    )
)

# %% [markdown]
# ## Measuring block shapes: wide versus tall
#
# How much does this cost on a real GPU? The lower bound in the table counts 8 bytes per pixel, 4 read
# and 4 written.
#
# If every sector request costs the same, cached or not, 1 × 256 blocks should be {{ touched.ratio | .0f }}× slower than
# 256 × 1 blocks. But a GPU has caches, small fast memories that keep recently used data. If they keep a sector until
# the neighbouring columns request it, those requests are nearly free.

# %% fold="Code of the measurement"
from tilewise import Guess, measure
from tilewise.measurements import recorded
from tilewise.models import sectors_of_stride


def cupy_mirror(arrays):
    import cupy

    return lambda: cupy.copyto(arrays["mirrored"], arrays["picture"][:, ::-1])


def torch_mirror(arrays):
    import torch

    picture = torch.as_tensor(arrays["picture"], device="cuda")
    return lambda: torch.flip(picture, [1])


mirrored_by = measure(
    "mirror",
    variants={
        "256 x 1": lambda width, height: MIRROR.on(mirroring(width, height, (256, 1))),
        "32 x 8": lambda width, height: MIRROR.on(mirroring(width, height, (32, 8))),
        "8 x 32": lambda width, height: MIRROR.on(mirroring(width, height, (8, 32))),
        "4 x 64": lambda width, height: MIRROR.on(mirroring(width, height, (4, 64))),
        "1 x 256": lambda width, height: MIRROR.on(mirroring(width, height, (1, 256))),
    },
    cases=[{"width": 1920, "height": 1080}, {"width": 8192, "height": 8192}],
    count_case={"width": 256, "height": 256},
    bytes=lambda width, height: 8 * width * height,
    library={"cupy, reversed view": cupy_mirror, "torch.flip": torch_mirror},
    reference=lambda picture: {"mirrored": picture[:, ::-1]},
    tolerance=0.0,
    reasons=dict.fromkeys(["8 x 32", "4 x 64", "1 x 256"], "Measuring block shapes: wide versus tall"),
    fold="All 14 rows",
    guess=Guess(
        "How much faster are 256 x 1 blocks than 1 x 256 blocks on the large image?",
        of="256 x 1",
        over="1 x 256",
        at={"width": 8192, "height": 8192},
        between=(0.5, 64),
        models={
            "every sector request costs the same": sectors_of_stride(8192) / sectors_of_stride(1),
            "caches make extra requests free": 1.0,
        },
        because="If your guess was well below the measured value, you relied too much on the caches.",
    ),
)
tall, flat = (recorded(f"mirror.{shape}.width_8192_height_8192.median") for shape in ("_1_x_256", "_256_x_1"))
publish(measured={"slower": tall / flat})
screen = [recorded(f"mirror.{shape}.width_1920_height_1080.median") for shape in ("_1_x_256", "_256_x_1")]
assert not np.isfinite(screen).all() or screen[0] > 3 * screen[1], "several times, says the first paragraph"

# %% fold="Code of the figure"
from itertools import pairwise

from tilewise.figures import bars
from tilewise.measurements import medians_us

large_us = {
    shape: us for (shape, width, _), us in medians_us(mirrored_by, "width", "height").items() if width == 8192
}
show(
    bars(
        large_us,
        roles=dict.fromkeys(large_us, "measured"),
        x="time [µs]",
        title="The narrower the block, the slower the kernel",
        caption="Mirroring an image of 8,192 × 8,192 pixels on an {machine}: blocks of 256 threads in five shapes (x × y), and two libraries for comparison.",
    )
)
if np.isfinite(list(large_us.values())).all():
    shapes_us = [large_us[shape] for shape in ("256 x 1", "32 x 8", "8 x 32", "4 x 64", "1 x 256")]
    assert all(after > 0.98 * before for before, after in pairwise(shapes_us)), "the title"

# %% [markdown]
# On the large image, 256 × 1 blocks take {{ mirror._256_x_1.width_8192_height_8192.median | us }} and 1 × 256 blocks
# take {{ mirror._1_x_256.width_8192_height_8192.median | us }}. That's {{ measured.slower | .2g }}× slower, close to
# the {{ touched.ratio | .0f }}× that the sectors predict, so the extra requests are far from free.
#
# Sectors aren't the only cost: blocks of 8 × 32 touch no more of them than blocks of 256 × 1 do, yet take
# {{ mirror._8_x_32.width_8192_height_8192.median | us }}. Each of their warps requests four separate pieces of memory,
# an access pattern that the lesson on [memory coalescing](../memory/coalescing.py) returns to.

# %% [markdown]
# ## Choosing a block shape
#
# The 1,920 × 1,080 image needs 8,160 blocks of 16 × 16. The shape to avoid is the tall
# column: it takes {{ mirror._1_x_256.width_1920_height_1080.median | us }}, compared with
# {{ mirror._256_x_1.width_1920_height_1080.median | us }} for the wide row. Map x to the columns of a
# row-major array, and make blocks at least 8 threads wide (for 4-byte elements), preferably 32.

# %% [markdown]
# ## Takeaways
#
# - A two-dimensional launch gives each thread a column, from x, and a row, from y. Round up and check
#   the bounds on each axis.
# - Without the check on the column, stray writes wrap into the next row. Only those after the last row
#   are out of bounds.
# - Threads are numbered along x first. A warp's load of 32 consecutive floats touches 4 sectors of 32
#   bytes if it starts on a sector boundary; down a column it touches 32.

# %% [markdown]
# ## In your own kernel
#
# Test with a width and a height that aren't multiples of the block size and compare every element, because
# `compute-sanitizer --tool memcheck` reports only reads and writes beyond an allocation. Then look in Nsight Compute at
# `l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio` for loads and at its counterpart with `op_st`
# for stores: 4 is ideal for floats, and a value near 32 means scattered accesses, for example by warps that run down
# the columns.

# %% fold="The whole cell, with four wrong answers that the tests reject"
from tilewise import exercise

ROTATE = Kernel(r"""
extern "C" __global__
void rotate(const float* image, float* rotated,
            int width, int height) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= width || row >= height) return;
    rotated[col * height + (height - 1 - row)] = image[row * width + col];
}
""")


def rotate_tests(kernel):
    for width, height in [(16, 16), (5, 33), (40, 3)]:
        image = np.arange(width * height, dtype=np.float32).reshape(height, width)
        rotated = np.full((width, height), np.nan, np.float32)
        grid = (ceil_div(width, 16), ceil_div(height, 16))
        kernel.simulate(image, rotated, width, height, grid=grid, block=(16, 16))
        assert np.array_equal(rotated, np.rot90(image, -1)), f"width={width}, height={height}"


exercise(
    "Rotate an image by 90 degrees",
    """
    Write `rotate(image, rotated, width, height)`, which rotates an image of any size clockwise by 90
    degrees: its top row becomes the rightmost column. `rotated` is `height` pixels wide and `width` high.
    Use one thread per pixel and blocks of 16 × 16. Which of the two arrays do your warps access row by
    row?
    """,
    answer=ROTATE,
    tests=rotate_tests,
    wrong=[
        {"col * height +": "col * width +"},
        {"(height - 1 - row)": "row"},
        {"col >= width || row >= height": "col >= height || row >= width"},
        {"    if (col >= width || row >= height) return;\n": ""},
    ],
    hint="To which row and which column of `rotated` does the pixel in row `row` and column `col` move? How wide is a row there?",
    explanation="""
    Consecutive threads read along a row of `image` but write down a column of `rotated`. If you swap x and
    y, the stores become contiguous and the loads no longer are.
    """,
)

# %% [markdown]
# Every pixel could have its own thread because no pixel depends on another. [Attention with one
# thread per query](serial_attention.py) has several nested loops, and not all of them can be mapped to
# grid axes.
