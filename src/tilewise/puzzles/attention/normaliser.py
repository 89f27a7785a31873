"""The online softmax step: maximum and sum of exponentials of a row in one sweep, combined across lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import case, ceil_div, constant, normal, output
from tilewise.puzzles.counting import row_sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

_HEAD = """
extern "C" __global__
void normaliser(const float* S, float* row_max, float* row_sum,
                int rows, int cols) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float m = -INFINITY, z = 0.0f;
"""
CODE = (
    _HEAD
    + """\
    for (int col = lane; col < cols; col += 32) {
        float s = S[row * cols + col];
        // [gap update m and z with the score s
        float new_max = fmaxf(m, s);
        if (new_max > -INFINITY)
            z = z * expf(m - new_max) + expf(s - new_max);
        m = new_max;
        // gap]
    }
    for (int d = 16; d > 0; d /= 2) {
        float m2 = __shfl_xor_sync(0xffffffff, m, d);
        float z2 = __shfl_xor_sync(0xffffffff, z, d);
        // [gap combine m and z with the other lane's, m2 and z2
        float new_max = fmaxf(m, m2);
        if (new_max > -INFINITY)
            z = z * expf(m - new_max) + z2 * expf(m2 - new_max);
        m = new_max;
        // gap]
    }
    if (lane == 0) {
        row_max[row] = m;
        row_sum[row] = z;
    }
}
"""
)
PLAIN = (
    _HEAD
    + """\
    for (int col = lane; col < cols; col += 32)
        m = fmaxf(m, S[row * cols + col]);
    for (int d = 16; d > 0; d /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, d));
    for (int col = lane; col < cols; col += 32)
        if (m > -INFINITY) z += expf(S[row * cols + col] - m);
    for (int d = 16; d > 0; d /= 2) z += __shfl_xor_sync(0xffffffff, z, d);
    if (lane == 0) {
        row_max[row] = m;
        row_sum[row] = z;
    }
}
"""
)


def _trial(rows: int, cols: int, scale: float = 1.0, *, masked: bool = False) -> Trial:
    drawn = constant(rows * cols, value=-np.inf) if masked else normal(rows * cols, scale=scale)
    arrays: dict[str, Any] = {"S": drawn, "row_max": output(rows), "row_sum": output(rows)}
    what = ", all minus infinity" if masked else f", scores with standard deviation {scale:g}" * (scale > 1)
    label = f"rows = {rows}, cols = {cols}{what}"
    return Trial(label, case(ceil_div(rows, 4), 128, rows=rows, cols=cols, **arrays))


def _expected(v: Any) -> dict[str, Any]:
    scores = v["S"].reshape(v["rows"], v["cols"]).astype(np.float64)
    most = scores.max(axis=1)
    shift = np.where(np.isfinite(most), most, 0.0)
    total = np.exp(scores - shift[:, None]).sum(axis=1)
    return {"row_max": most.astype(np.float32), "row_sum": total.astype(np.float32)}


PUZZLE = Puzzle(
    title="The online softmax step",
    task="""
    For each row of scores `S`, write its maximum to `row_max` and the sum of exp(score - maximum) to
    `row_sum`. One warp processes a row and reads it once. Each lane keeps the maximum `m` of the scores
    it has seen and the sum `z` relative to that maximum; at the end, the lanes combine their pairs. A row
    may contain nothing but minus infinity, as when a mask hides every key. Its sum is then 0.
    """,
    launch="blocks of 4 warps, one warp per row.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(8, 512),
        _trial(1, 1),
        _trial(5, 33),
        _trial(3, 100, 100.0),
        _trial(2, 64, masked=True),
        _trial(9, 7, 100.0),
    ),
    expected=_expected,
    limits=(
        Limit(
            "global_load.sectors",
            lambda v: row_sectors(v["rows"], v["cols"]),
            "32 adjacent floats span at most 5 sectors, and nothing is read twice",
        ),
    ),
    blanks=(
        ("new_max > -INFINITY", "true"),
        (
            "z * expf(m - new_max) + expf(s - new_max)",
            "z + expf(s - new_max)",
            "z * expf(new_max - m) + expf(s - new_max)",
        ),
        ("z2 * expf(m2 - new_max)", "z2"),
    ),
    lesson="[the online softmax](../attention/softmax.py)",
    hints="""
    z is relative to the old maximum. Which factor makes it relative to the new one?

    exp(a - new) = exp(a - m) exp(m - new), for each term of z. To combine two lanes, take the
    same step with z2 exp(m2 - new) instead of exp(s - new).

    Minus infinity minus itself is NaN. If the new maximum is still minus infinity, there's
    nothing to add yet.
    """,
    after="""
    Two pairs (maximum, sum) combine into one, in any order, and that's all FlashAttention needs from
    softmax. A lane without a column keeps (minus infinity, 0), which changes nothing when it is combined.
    """,
    rtol=2e-5,
)
