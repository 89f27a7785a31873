"""Three steps, one store: intermediate results stay in registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, normal, output, uniform
from tilewise.puzzles.counting import runs, sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
extern "C" __global__
void scale_shift_squash(const float* x, const float* gain, const float* shift,
                        float* out, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // [gap compute all three steps, with one store at the end
    int column = i % columns;
    float y = x[i] * gain[column] + shift[column];
    out[i] = y / (1.0f + fabsf(y));
    // gap]
}
"""
PLAIN = """
extern "C" __global__
void scale_shift_squash(const float* x, const float* gain, const float* shift,
                        float* out, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i] * gain[i % columns];
    out[i] = out[i] + shift[i % columns];
    out[i] = out[i] / (1.0f + fabsf(out[i]));
}
"""


def _trial(rows: int, columns: int) -> Trial:
    n = rows * columns
    arrays: dict[str, Any] = {
        "x": normal(n),
        "gain": uniform(columns, low=0.5, high=2),
        "shift": normal(columns),
        "out": output(n),
    }
    return Trial(f"{rows} x {columns}", case(ceil_div(n, 128), 128, n=n, columns=columns, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    column = np.arange(v["n"]) % v["columns"]
    y = v["x"].astype(np.float64) * v["gain"][column] + v["shift"][column]
    return {"out": y / (1 + np.abs(y))}


PUZZLE = Puzzle(
    title="Three steps, one store",
    task="""
    `x` is a row-major matrix with `n` elements and rows of length `columns`. Multiply each element by the
    `gain` of its column, add the `shift` of its column, and squash the result y to `y / (1 + |y|)`.
    Write only this value to `out`.
    """,
    launch="a one-dimensional grid of 128-thread blocks, rounded up to cover n elements.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(16, 100), _trial(1, 1), _trial(100, 3), _trial(5, 128), _trial(1, 1023)),
    expected=_expected,
    rtol=1e-5,
    atol=1e-6,
    limits=(
        Limit("global_load.requests", lambda v: 3 * runs(v["n"]), "each warp loads x, gain and shift once"),
        Limit(
            "global_store.sectors",
            lambda v: sectors(v["n"]),
            "each result is stored once, and a sector holds 8 floats",
        ),
    ),
    blanks=(
        ("i % columns", "i / columns", "threadIdx.x % columns"),
        ("x[i] * gain[column] + shift[column]", "(x[i] + shift[column]) * gain[column]"),
        ("fabsf(y)", "y"),
    ),
    lesson="[arithmetic intensity](../speed/roofline.py)",
    hints="""
    Keep what a later step needs in a variable. A variable is in a register and costs no memory
    traffic.

    The last step needs y twice. Compute it once and give it a name.

    `float y = x[i] * gain[column] + shift[column];` followed by a single line that stores.
    """,
    after="""
    The naive kernel keeps its intermediate results in `out`. The compiler removes the loads from
    `out`, since each thread has just computed the value. But it isn't allowed to remove the first
    store, because `shift` and `out` might overlap. With a variable, that store is gone.
    """,
)
