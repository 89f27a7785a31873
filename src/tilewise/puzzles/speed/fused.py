"""Three steps as one: what is computed stays in registers until it is done."""

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
    // [gap all three steps, with one store at the end
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
    name="speed/fused",
    title="Three steps, one store",
    task="""
    `x` is a row-major matrix of `n` elements in rows of `columns`. Multiply each element by the `gain` of
    its column, add the `shift` of its column, and squash the result y to `y / (1 + |y|)`. Write only that
    to `out`.
    """,
    launch="blocks of 128 threads, just enough for n.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(16, 100), _trial(1, 1), _trial(100, 3), _trial(5, 128), _trial(1, 1023)),
    expected=_expected,
    rtol=1e-5,
    atol=1e-6,
    limits=(
        Limit("global_load.requests", lambda v: 3 * runs(v["n"]), "a warp reads x, gain and shift once each"),
        Limit(
            "global_store.sectors",
            lambda v: sectors(v["n"]),
            "each result is stored once, 8 floats to a sector",
        ),
    ),
    hints=(
        "What a later step needs can stay in a variable; a variable lives in a register and costs no "
        "traffic.",
        "y is needed twice in the last step. Compute it once, and name it.",
        "`float y = x[i] * gain[column] + shift[column];` and then a single line that stores.",
    ),
    after="""
    The straightforward kernel keeps its half-done results in `out`. The compiler may not take those
    stores away: for all it knows, `shift` and `out` overlap. A variable says what is meant, and the
    traffic is gone.
    """,
)
