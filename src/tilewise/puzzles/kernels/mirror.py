"""Two axes: a picture, row by row, seen in a mirror."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.counting import row_sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void mirror(const float* in, float* out, int height, int width) {
    // [gap which pixel is this thread's, is there one, and where does it go?
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


_WHY = "warps walk along the rows, and 32 floats side by side lie in at most 5 sectors"

PUZZLE = Puzzle(
    name="kernels/mirror",
    title="A picture in the mirror",
    task="""
    `in` is a picture, row-major, `height` rows of `width` pixels. Write its mirror image to `out`: each
    row in the opposite order, the rows where they were.
    """,
    launch="blocks of 32 threads along x and 4 along y, and just enough of them along either axis.",
    code=CODE,
    trials=(_trial(20, 100), _trial(1, 1), _trial(7, 33), _trial(64, 32), _trial(3, 257)),
    expected=lambda v: {"out": v["in"].reshape(v["height"], v["width"])[:, ::-1].reshape(-1)},
    limits=(
        Limit("global_load.sectors", lambda v: row_sectors(v["height"], v["width"]), _WHY),
        Limit("global_store.sectors", lambda v: row_sectors(v["height"], v["width"]), _WHY),
    ),
    hints=(
        "The line of the first puzzle holds once for x and once for y. Which of the two should be "
        "the column?",
        "Pixel (row, col) of a row-major picture is element `row * width + col`. Column 0 goes to "
        "column `width - 1`.",
        "`col` from x, `row` from y, a guard for each, and `out[row * width + (width - 1 - col)]`.",
    ),
    after="""
    x is the column, because the lanes of a warp follow each other along x and the pixels of a row follow
    each other in memory. A backward order within a warp's 32 pixels costs nothing: they lie in the same
    sectors.
    """,
)
