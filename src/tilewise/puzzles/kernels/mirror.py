"""Two axes: mirror a row-major image."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.counting import row_sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void mirror(const float* in, float* out, int height, int width) {
    // [gap find this thread's pixel, check that it exists, and store it where it belongs
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && col < width) {
        out[row * width + (width - 1 - col)] = in[row * width + col];
    }
    // gap]
}
"""
BLOCK = (32, 4)


def _trial(height: int, width: int) -> Trial:
    grid = (ceil_div(width, BLOCK[0]), ceil_div(height, BLOCK[1]))
    pixels: dict[str, Any] = {"in": normal(height * width), "out": output(height * width)}
    return Trial(
        f"height = {height}, width = {width}", case(grid, BLOCK, height=height, width=width, **pixels)
    )


_WHY = "the lanes of a warp access 32 consecutive floats, which span at most 5 sectors"

PUZZLE = Puzzle(
    title="Mirror an image: two axes",
    task="""
    `in` is a row-major image with `height` rows of `width` pixels. Write its mirror image to `out`:
    reverse each row, but keep the order of the rows.
    """,
    launch="a two-dimensional grid of blocks of 32 × 4 threads (x × y), rounded up to cover the image.",
    code=CODE,
    trials=(_trial(20, 100), _trial(1, 1), _trial(7, 33), _trial(64, 32), _trial(3, 257)),
    expected=lambda v: {"out": v["in"].reshape(v["height"], v["width"])[:, ::-1].reshape(-1)},
    limits=(
        Limit("global_load.sectors", lambda v: row_sectors(v["height"], v["width"]), _WHY),
        Limit("global_store.sectors", lambda v: row_sectors(v["height"], v["width"]), _WHY),
    ),
    blanks=(
        ("row < height && col < width", "row < height || col < width", "row * width + col < height * width"),
        ("width - 1 - col", "width - col"),
        ("in[row * width + col]", "in[col * height + row]"),
    ),
    lesson="[grids in two dimensions](../kernels/grids.py)",
    hints="""
    Use the index formula once for x and once for y. Which of the two should be the column?

    Pixel (row, col) of a row-major image is element `row * width + col`. Column 0 moves to column
    `width - 1`.

    Take `col` from x and `row` from y, check both bounds, and write `out[row * width + (width - 1
    - col)]`.
    """,
    after="""
    The column comes from x because the lanes of a warp have consecutive values of `threadIdx.x`, and
    the pixels of a row are consecutive in memory. Reversing the order within 32 pixels costs nothing:
    they are in the same sectors.
    """,
)
