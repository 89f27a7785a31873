# ---
# title: Grids with several axes
# needs: [kernels/first_kernel]
# summary: "A picture of 1920 by 1080 pixels, 256 threads a block: does it matter whether a block is wide or tall?"
# description: "Map pictures and volumes on a launch, guard every axis, and see why x should run along the rows."
# date: 2026-11-21
# tags: [grid, block, row-major]
# ---

# %% [markdown]
# A picture is 1,920 pixels wide and 1,080 high, and a block has 256 threads. In squares of 16 by
# 16, how many blocks cover the picture? And when the same 256 threads form a column, 1 wide and
# 256 high, how many times as many sectors, the pieces of 32 bytes in which memory moves, do they
# touch as in a row? Both answers are counts, and this page makes them.

# %% [markdown]
# ## Two coordinates, then three
#
# A launch has up to three axes, called x, y and z, and both the grid and the block have a size
# along each. `blockIdx`, `threadIdx`, `blockDim` and `gridDim` carry `.x`, `.y` and `.z`, and
# every axis repeats the line of the last lesson: number of the block, times its size, plus the
# place inside.[^limits] In the kernel below each cell of a small volume takes down the number of
# the block and of the thread that came by. The three lines that begin with `cell`, `block_of` and
# `thread_of` turn three coordinates into one number, and x counts fastest: the next section needs
# that. The table that follows shows the outcome.
#
# [^limits]: A block holds at most 1,024 threads in all, and at most 64 along z. A grid has at most
#     65,535 blocks along y or z and 2,147,483,647 along x, so the longest axis of a problem belongs
#     on x for that reason alone.
#
# ??? definition "dim3"
#     CUDA's triple of sizes along x, y and z, in blocks for a grid and in threads for a block; a
#     size left out is 1.

# %%
import numpy as np

from tilewise import Kernel, Table, ceil_div, check, show

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

# %% [markdown]
# The guard now tests every axis, since each is rounded up on its own. The first case is a grid of
# 2 by 2 blocks, each of 2 by 2 threads, over a field of 4 by 4 cells. If all sixteen pairs of
# block and thread differ, every cell was visited once, by a thread of its own.


# %%
def owners(width, height, depth, block):
    """Who wrote each cell: block numbers, thread numbers, and the grid of blocks."""
    sizes = (width, height, depth)
    grid = tuple(ceil_div(size, along) for size, along in zip(sizes, block, strict=True))
    block_of = np.full((depth, height, width), -1, np.int32)
    thread_of = np.full((depth, height, width), -1, np.int32)
    WHO_AM_I(block_of, thread_of, width, height, depth, grid=grid, block=block)
    return block_of, thread_of, grid


block_of, thread_of, _ = owners(4, 4, 1, (2, 2, 1))
owner = block_of.ravel() * 4 + thread_of.ravel()
check(np.sort(owner), np.arange(16), rtol=0.0, name="16 cells, 16 owners")

# %% fold="Code of the table"
columns = ["y", *(f"x\u00a0=\u00a0{x}" for x in range(4))]
rows = [
    [y, *(f"block\u00a0{block_of[0, y, x]}, thread\u00a0{thread_of[0, y, x]}" for x in range(4))]
    for y in range(4)
]
caption = "Block and thread of each cell of a 4 by 4 field, numbered along x first: thread 1 is to the right of thread 0, not below it."
show(Table(columns, rows, caption=caption))

# %% [markdown]
# A volume of 5 by 3 by 2 cells does not divide into blocks of 2 by 2 by 2. Each axis rounds up by
# itself, which gives {{ volume.blocks }} blocks and {{ volume.threads }} threads for
# {{ volume.cells }} cells. In the explorer below, drag the sizes, pick a thread and switch to 3-D:
# the hatched threads (hollow in 3-D) are those that return at the guard. The panel also names the
# thread's warp and its lane, which the next section defines.

# %%
from tilewise import publish

block_of, thread_of, grid = owners(5, 3, 2, (2, 2, 2))
owner = block_of.ravel() * 8 + thread_of.ravel()
check(np.unique(owner).size, owner.size, rtol=0.0, name="30 cells, 30 owners")
blocks = int(np.prod(grid))
publish(volume={"cells": owner.size, "blocks": blocks, "threads": blocks * 8})

# %% fold="Code of the figure"
from tilewise.figures import block_grid

show(
    block_grid(
        grid,
        (2, 2, 2),
        extent=(5, 3, 2),
        title="Three axes round up one by one, so idle threads stand on several sides",
        caption="A grid of 3 by 2 by 1 blocks of 2 by 2 by 2 threads over a volume of 5 by 3 by 2 cells; threads outside the volume are hatched, in 3-D hollow.",
    )
)

# %% [markdown]
# ## x runs first
#
# The threads of a block are also numbered, and x runs fastest: first along x, then y, then z, as
# `thread_of` above spells out. The device takes a block's threads in groups of 32 consecutive
# numbers, the warps, and a thread's place in its warp is its lane. Memory is numbered too, and in
# C and NumPy alike a matrix lies row by row. Whether these two orders run the same way is up to
# the kernel.
#
# ??? definition "Warp | warps"
#     A group of 32 threads with consecutive numbers in one block, which the device runs together.
#
# ??? definition "Lane | lanes"
#     A thread's place in its warp, 0 to 31.
#
# ??? definition "Row-major"
#     Stored row by row: the element in row y and column x of a matrix `width` wide has the number y
#     · width + x, and neighbours in a row are neighbours in memory.

# %% [markdown]
# ## A picture in a mirror
#
# Mirroring needs both coordinates: each pixel comes from its own row and from the opposite
# column. The pseudocode hands out pairs; the kernel flattens a pair into one index, row times
# width plus column, since an address knows nothing of rows. y is the row and x the column, by
# habit and, as the counts will show, for a reason. The sizes below divide along neither axis.


# %% tab="Pseudocode"
from tilewise import parallel


def mirror(picture, mirrored):
    height, width = picture.shape
    for y, x in parallel(height, width):
        mirrored[y, x] = picture[y, width - 1 - x]


# %% tab="CUDA C"
MIRROR = Kernel(r"""
extern "C" __global__
void mirror(const float* picture, float* mirrored,
            int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;  // column
    int y = blockIdx.y * blockDim.y + threadIdx.y;  // row
    if (x >= width || y >= height) return;
    mirrored[y * width + x] = picture[y * width + (width - 1 - x)];
}
""")


# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def mirror_numba(picture, mirrored):
    x, y = cuda.grid(2)  # column, row
    height, width = picture.shape
    if x < width and y < height:
        mirrored[y, x] = picture[y, width - 1 - x]


# %% [markdown]
# Numba's arrays keep their axes, so its kernel flattens nothing; `grid(2)` still gives x first.

# %%
from tilewise import agree, case, expect_hazard, normal, output


def mirroring(width, height, block):
    """One picture to be mirrored by blocks of a given shape."""
    picture, mirrored = normal(height, width), output(height, width)
    grid = (ceil_div(width, block[0]), ceil_div(height, block[1]))
    arrays = {"picture": picture, "mirrored": mirrored}
    return case(**arrays, width=width, height=height, grid=grid, block=block)


sizes = [(1, 1, (16, 16)), (37, 21, (16, 16)), (5, 70, (32, 8))]
agree(mirror, MIRROR, [mirroring(*size) for size in sizes], rtol=0.0)
agree(mirror_numba, MIRROR, [mirroring(*size) for size in sizes], by="Numba")

wide, high = ceil_div(1920, 16), ceil_div(1080, 16)
hd = {"wide": wide, "high": high, "blocks": wide * high, "idle_rows": high * 16 - 1080}
publish(hd=hd)

# %% [markdown]
# A small case, step by step: a picture of 6 by 5 under 2 by 2 blocks of 4 by 4 threads. Pick a
# thread and move the slider: it reads as far from the right edge as it writes from the left, in
# one row. Threads past an edge have returned at the guard and take no part in either step. The
# device may run the blocks in any order; the figure lets all of them step at once.

# %% fold="Code of the figure"
from tilewise import Trace
from tilewise.figures import stepped

six_by_five = MIRROR.on(mirroring(6, 5, (4, 4)))
show(
    stepped(
        six_by_five.simulate(trace=Trace()),
        launch=six_by_five,
        extent=(6, 5),
        axes=("x", "y"),
        title="Each thread reads in its own row, from the opposite column",
        caption="A picture of 6 by 5 is mirrored by 2 by 2 blocks of 4 by 4 threads: first all read, then all write. Threads outside the picture are hatched, in 3-D hollow.",
    )
)

# %% [markdown]
# That settles the first count. 1,920 pixels are {{ hd.wide }} blocks of 16, and 1,080 rows are
# {{ hd.high }}, the last of them with {{ hd.idle_rows }} rows past the bottom edge:
# {{ hd.blocks | , }} blocks. Here the test on y turns threads away and the one on x has nothing
# to do.

# %% [markdown]
# ## One guard short
#
# In row-major order the place after the end of a row is the beginning of the next. A thread past
# the right edge therefore writes at the left edge of the row below, inside the array; only in the
# last row does it leave the array. Here each cell of a field 5 wide and 3 high should hold the
# number of its column. {{ short.wrong }} of 15 are wrong, and only {{ short.outside }} writes are
# out of bounds. Two threads wrote each wrong cell, and a GPU may let either of them win.

# %%
NO_GUARD_ON_X = Kernel(r"""
extern "C" __global__
void own_column(int* column_of, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y >= height) return;
    column_of[y * width + x] = x;  // hazard: nothing stops x >= width
}
""")

field = case(
    column_of=output(3, 5, dtype="int32"),
    width=5,
    height=3,
    grid=(2, 1),
    block=(4, 4),
)
expect_hazard(NO_GUARD_ON_X.on(field), "out of bounds", line_with="column_of[y * width")

# %% fold="Code of the table"
column_of = np.full((3, 5), -1, np.int32)
run = NO_GUARD_ON_X.simulate(column_of, 5, 3, grid=(2, 1), block=(4, 4), hazards="collect")
publish(
    short={
        "wrong": int((column_of != np.arange(5)).sum()),
        "outside": sum(hazard.count for hazard in run.hazards if hazard.kind == "out of bounds"),
    }
)
columns = ["y", *(f"x\u00a0=\u00a0{x}" for x in range(5))]
rows = [[y, *column_of[y].tolist()] for y in range(3)]
caption = "What the 15 cells hold after the simulator ran the kernel without the guard on x. Each should hold its own column, 0 to 4."
show(Table(columns, rows, caption=caption))

# %% [markdown]
# ## Wide or tall: predict
#
# A sector of 32 bytes holds eight pixels of four bytes. The 32 lanes of a warp that lies along a
# row read 128 bytes in a stretch: 4 sectors. In a block 1 wide the same 32 lanes form a column,
# each a whole row after the one before, and each needs a sector of its own: 32. Between the two, a
# warp covers several rows, each at least one sector. Below which width does a block touch more?


# %%
def sectors_per_warp(block):
    """Sectors that a warp touches in rows of floats that start on a sector."""
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
check(counted, formula, rtol=0.0, name="sectors a warp, formula and count, for all seven shapes")
columns = ["block, x by y", "sectors a warp, formula", "counted for reads", "sectors in all, counted"]
show(
    Table(
        columns,
        rows,
        caption="Sectors, pieces of 32 bytes, touched while a picture of 256 by 256 is mirrored by blocks of 256 threads, counted by the simulator.",
    )
)
row, column = rows[0][3], rows[-1][3]
publish(touched={"ratio": column / row, "share": row / column})

# %% [markdown]
# Down to a width of 8 nothing changes, since eight floats fill a sector; below that, every halving
# doubles the sectors. A column touches {{ touched.ratio | .0f }} times as many as a row. The map
# shows two such columns side by side: the second needs the very sectors that the first needs.

# %% fold="Code of the figure"
from tilewise.figures import heat_map

accesses = MIRROR.on(mirroring(32, 32, (1, 32))).simulate(trace=Trace(blocks=[0, 1])).accesses
maps = np.zeros((2, 32, 32))  # the elements of picture and of mirrored
maps.reshape(2, -1, 8)[accesses.buffer, accesses.index // 8] = 1  # all of the sector
maps.reshape(2, -1)[accesses.buffer, accesses.index] = 2
show(
    heat_map(
        {"picture, read": maps[0], "mirrored, written": maps[1]},
        x="x",
        y="y",
        role="read",
        form=".0f",
        key=False,
        title="A warp that forms a column touches a new sector in every row",
        caption="Two blocks, each 1 wide and 32 high, mirror a picture of 32 by 32, of which they write the first two columns. Full colour marks the elements that are read or written, half colour those that come along in the same sector of 32 bytes; each warp uses one float of the eight in it.",
        alt="Two maps of 32 by 32 elements. Of the picture the last two columns are read and the six before them come along, of the mirrored picture the first two are written and the six after them come along, in every row.",
    )
)

# %% [markdown]
# ## Measure
#
# Two sizes: the screen of 1,920 by 1,080, and 8,192 by 8,192 with some thirty times{from: the sizes} as many
# pixels. The bound is 8 bytes a pixel, once in and once out. If a sector costs its full time
# whenever it is asked for, columns take {{ touched.ratio | .0f }} times as long as rows. A cache,
# a small memory near the processors that keeps what was last used, could make the requests of the
# neighbouring columns cheap; then it is less.

# %% fold="Code of the measurement"
from tilewise import Guess, measure
from tilewise.models import sectors_of_stride


def cupy_mirror(arrays):
    import cupy

    return lambda: cupy.copyto(arrays["mirrored"], arrays["picture"][:, ::-1])


def torch_mirror(arrays):
    import torch

    picture = torch.as_tensor(arrays["picture"], device="cuda")
    return lambda: torch.flip(picture, [1])


measure(
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
    reasons=dict.fromkeys(["8 x 32", "4 x 64", "1 x 256"], "Measure"),
    guess=Guess(
        "How many times as fast do rows of 256 mirror the large picture as columns do?",
        of="256 x 1",
        over="1 x 256",
        at={"width": 8192, "height": 8192},
        between=(0.5, 64),
        models={
            "every sector costs its full time": sectors_of_stride(8192) / sectors_of_stride(1),
            "a cache makes sectors free": 1.0,
        },
        because="A guess well below the record trusts the cache too much.",
    ),
)

# %% [markdown]
# At 8,192 by 8,192 rows of 256 take {{ mirror._256_x_1.width_8192_height_8192.median | us }} and
# columns {{ mirror._1_x_256.width_8192_height_8192.median | us }}. The sectors allow columns
# {{ touched.share | .1% }} of the rows' speed, and
# {{ mirror._1_x_256.width_8192_height_8192.times_first | .1% }} is recorded. So a sector costs
# nearly its full time at every request; whether a cache or the device memory sends it, this
# measurement does not tell.

# %% [markdown]
# One row does not fit: blocks of 8 by 32 touch no more sectors than rows of 256 and take
# {{ mirror._8_x_32.width_8192_height_8192.median | us }}. Their warps touch four rows each, and
# sectors that lie apart. So the number of sectors is not all that counts. What else does is not
# shown on this page.

# %% [markdown]
# ## The answer
#
# {{ hd.blocks | , }} blocks of 16 by 16 cover the picture. The shape of a block of 256 matters:
# as a column it touches {{ touched.ratio | .0f }} times as many sectors of memory as in a row, for
# the same pixels, and the screen takes {{ mirror._1_x_256.width_1920_height_1080.median | us }}
# in place of {{ mirror._256_x_1.width_1920_height_1080.median | us }}. So x goes along the rows,
# and blocks are at least 8 floats wide, better 32.

# %% [markdown]
# ## Takeaways
#
# - A launch has up to three axes; each is rounded up, and each needs its own test in the guard.
# - In row-major order a missing test on x is silent in every row but the last.
# - The threads of a block are numbered along x first; with x along the rows of a row-major array,
#   neighbouring threads are neighbours in memory.
# - A warp along a row of floats touches 4 sectors of 32 bytes; a warp down a column touches 32.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

PRODUCT = Kernel(r"""
extern "C" __global__
void product(const float* A, const float* B, float* C,
             int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
""")

SQUARE_ONLY = Kernel(
    PRODUCT.source.replace("row >= M", "row >= N").replace("k < K", "k < N").replace("row * K", "row * N")
)
ROW_FROM_X = Kernel(PRODUCT.source.replace(".y", ".?").replace(".x", ".y").replace(".?", ".x"))
NO_GUARD = Kernel(PRODUCT.source.replace("    if (row >= M || col >= N) return;\n", ""))


def product_tests(kernel):
    for M, N, K in [(16, 16, 16), (5, 33, 7), (40, 3, 9)]:
        A = (np.arange(M * K, dtype=np.float32) % 7).reshape(M, K)
        B = (np.arange(K * N, dtype=np.float32) % 5).reshape(K, N)
        C = np.full((M, N), np.nan, np.float32)
        grid = (ceil_div(N, 16), ceil_div(M, 16))
        kernel.simulate(A, B, C, M, N, K, grid=grid, block=(16, 16))
        assert np.array_equal(C, A @ B), f"M={M}, N={N}, K={K}"


exercise(
    "A product of matrices that are not square",
    """
    Many a tutorial multiplies square matrices whose size divides by the block, and needs no guard. Write
    `product(A, B, C, M, N, K)` for an M × K matrix times a K × N matrix, both row-major, of any size, with
    one thread for each element of the result, launched in blocks of 16 by 16. Which of `row` and `col`
    comes from x?
    """,
    answer=PRODUCT,
    tests=product_tests,
    wrong=[SQUARE_ONLY, ROW_FROM_X, NO_GUARD],
    hint="The grid has N columns and M rows to cover; the loop over k is neither.",
)

# %% [markdown]
# The sum over `k` in the exercise stayed a loop, because every step of it needs the sum so far.
# Which loops can become axes and which must stay is the subject of [attention on one
# thread](serial_attention.py), which has ten.
