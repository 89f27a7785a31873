"""Maximum and normaliser of a row in one pass, shares joined between lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import case, ceil_div, constant, normal, output
from tilewise.puzzles.counting import row_sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

_HEAD = """
extern "C" __global__
void normaliser(const float* S, float* most, float* total,
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
        // [gap let m and z take in s
        float higher = fmaxf(m, s);
        if (higher > -INFINITY)
            z = z * expf(m - higher) + expf(s - higher);
        m = higher;
        // gap]
    }
    for (int d = 16; d > 0; d /= 2) {
        float m2 = __shfl_xor_sync(0xffffffff, m, d);
        float z2 = __shfl_xor_sync(0xffffffff, z, d);
        // [gap join the other lane's share, m2 and z2, to this one's
        float higher = fmaxf(m, m2);
        if (higher > -INFINITY)
            z = z * expf(m - higher) + z2 * expf(m2 - higher);
        m = higher;
        // gap]
    }
    if (lane == 0) {
        most[row] = m;
        total[row] = z;
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
        most[row] = m;
        total[row] = z;
    }
}
"""
)


def _trial(rows: int, cols: int, scale: float = 1.0, *, masked: bool = False) -> Trial:
    drawn = constant(rows * cols, value=-np.inf) if masked else normal(rows * cols, scale=scale)
    arrays: dict[str, Any] = {"S": drawn, "most": output(rows), "total": output(rows)}
    said = ", all of them minus infinity" if masked else f", values up to {scale:g} or so" * (scale > 1)
    label = f"rows = {rows}, cols = {cols}{said}"
    return Trial(label, case(ceil_div(rows, 4), 128, rows=rows, cols=cols, **arrays))


def _expected(v: Any) -> dict[str, Any]:
    scores = v["S"].reshape(v["rows"], v["cols"]).astype(np.float64)
    most = scores.max(axis=1)
    shift = np.where(np.isfinite(most), most, 0.0)
    total = np.exp(scores - shift[:, None]).sum(axis=1)
    return {"most": most.astype(np.float32), "total": total.astype(np.float32)}


PUZZLE = Puzzle(
    name="attention/normaliser",
    title="A maximum that may still rise",
    task="""
    For each row of scores `S` write its maximum to `most`, and to `total` the sum of exp(score - maximum).
    A \\warp has one row and reads it once: each lane keeps the maximum so far and the sum that belongs to
    it, and at the end the lanes join their shares. A row may hold minus infinity only, as a mask leaves it;
    its sum is 0.
    """,
    launch="blocks of 4 warps, just enough warps for the rows.",
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
            "32 floats side by side lie in at most 5 sectors, and nothing is read twice",
        ),
    ),
    hints=(
        "z was summed up with the old maximum in the exponents. What must it be multiplied by when the "
        "maximum rises from m to a higher value?",
        "exp(a - higher) = exp(a - m) exp(m - higher), for each term of z. Joining two lanes is the same "
        "step with z2 in place of 1.",
        "Minus infinity less minus infinity is no number. Where the higher of both maxima is still minus "
        "infinity, there is nothing to add up.",
    ),
    after="""
    Two pairs (maximum, sum) join to one, in any order: that is all flash attention needs of the softmax. A
    lane without a column keeps (minus infinity, 0), which joins without changing anything.
    """,
    rtol=2e-5,
)
