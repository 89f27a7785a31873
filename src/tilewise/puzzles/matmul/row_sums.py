"""What the puzzles share that sum the rows of a matrix in tiles of 32 columns, loaded by the TMA.

In: the rows of a tile. Out: a launch, its right result, and the budget of one load per tile.
"""

from __future__ import annotations

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.cuda.tensor_map import tensor_map
from tilewise.puzzles.model import Limit, Trial, Values


def trial(
    rows: int, cols: int, blocks: int | None = None, *, high: int = 32, threads: int = 32, swizzle: int = 128
) -> Trial:
    """A launch of one block for every ``high`` rows, or of so many blocks."""
    launch = case(
        blocks or ceil_div(rows, high),
        threads,
        x=integers(rows, cols, low=-8, high=9, dtype="float32"),
        map=tensor_map("x", box=(high, 32), swizzle=swizzle),
        out=output(rows),
        rows=rows,
        cols=cols,
    )
    return Trial(f"rows = {rows}, cols = {cols}", launch)


def expected(v: Values) -> dict[str, Array]:
    """The sums."""
    return {"out": v["x"].sum(axis=1)}


def one_load_per_tile(high: int = 32) -> Limit:
    """The budget."""
    return Limit(
        "bulk_load.requests",
        lambda v: ceil_div(v["rows"], high) * ceil_div(v["cols"], 32),
        "each tile is loaded once",
    )
