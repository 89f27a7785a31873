"""Attention forward in one kernel, within the traffic of one reading of K and V for each block."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

_HEAD = """
#define D 16
#define KEYS 16
#define QUERIES 64

extern "C" __global__
void attention(const float* Q, const float* K, const float* V,
               float* O, int N, float scale) {
    __shared__ float rows[QUERIES * (D + 1)];
    int first = blockIdx.x * QUERIES, t = threadIdx.x;
    for (int i = t; i < QUERIES * D; i += QUERIES)
        rows[i / D * (D + 1) + i % D] =
            first + i / D < N ? Q[first * D + i] : 0.0f;
    __syncthreads();
    float q[D], o[D] = {}, m = -INFINITY, z = 0.0f;
    for (int c = 0; c < D; ++c) q[c] = scale * rows[t * (D + 1) + c];
"""
_TAIL = """
    for (int c = 0; c < D; ++c) rows[t * (D + 1) + c] = o[c] / z;
    __syncthreads();
    for (int i = t; i < QUERIES * D; i += QUERIES)
        if (first + i / D < N) O[first * D + i] = rows[i / D * (D + 1) + i % D];
}
"""
CODE = (
    _HEAD
    + """\
    // [gap walk over the keys in tiles: m, z and o take in each of them
    __shared__ float k[KEYS][D], v[KEYS][D];
    for (int from = 0; from < N; from += KEYS) {
        int here = min(KEYS, N - from);
        for (int i = t; i < here * D; i += QUERIES) {
            k[i / D][i % D] = K[from * D + i];
            v[i / D][i % D] = V[from * D + i];
        }
        __syncthreads();
        for (int j = 0; j < here; ++j) {
            float s = 0.0f;
            for (int c = 0; c < D; ++c) s += q[c] * k[j][c];
            float higher = fmaxf(m, s);
            float fade = expf(m - higher), p = expf(s - higher);
            for (int c = 0; c < D; ++c) o[c] = fade * o[c] + p * v[j][c];
            z = fade * z + p;
            m = higher;
        }
        __syncthreads();
    }
    // gap]"""
    + _TAIL
)
PLAIN = (
    _HEAD
    + """\
    for (int j = 0; j < N; ++j) {
        float s = 0.0f;
        for (int c = 0; c < D; ++c) s += q[c] * K[j * D + c];
        float higher = fmaxf(m, s);
        float fade = expf(m - higher), p = expf(s - higher);
        for (int c = 0; c < D; ++c) o[c] = fade * o[c] + p * V[j * D + c];
        z = fade * z + p;
        m = higher;
    }"""
    + _TAIL
)
DEPTH = 16
"""Numbers of a query, of a key and of a value."""


def _trial(n: int, scale: float = 1.0) -> Trial:
    arrays: dict[str, Any] = {name: normal(n * DEPTH, scale=scale) for name in ("Q", "K")}
    arrays |= {"V": normal(n * DEPTH), "O": output(n * DEPTH)}
    label = f"N = {n}{', scores in the hundreds' * (scale > 1)}"
    return Trial(label, case(ceil_div(n, 64), 64, N=n, scale=np.float32(0.25), **arrays))


def _expected(v: Any) -> dict[str, Any]:
    queries, keys, values = (v[name].reshape(-1, DEPTH).astype(np.float64) for name in "QKV")
    scores = 0.25 * queries @ keys.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return {"O": (weights @ values / weights.sum(axis=1, keepdims=True)).astype(np.float32).reshape(-1)}


def _sectors(v: Values) -> int:
    """Two sectors a row: Q once, K and V once for each block."""
    n = int(v["N"])
    return 2 * n * (1 + 2 * ceil_div(n, 64))


def _requests(v: Values) -> int:
    """Of the 32 lanes of a warp, one number each: Q once, K and V once for each block."""
    blocks = ceil_div(v["N"], 64)
    return 32 * blocks + 2 * blocks * 8 * ceil_div(v["N"], 16)


PUZZLE = Puzzle(
    name="attention/flash",
    title="Attention without its matrix",
    task="""
    Write softmax(scale Q K^T) V to `O` for `N` queries, keys and values of 16 numbers each, all row-major.
    A thread has one query: its numbers, already scaled, are in `q`; it keeps the running maximum `m`, the
    normaliser `z` and the unnormalised output `o`. The kernel divides by z and stores. No score may travel
    to global memory, and a block of 64 queries may read K and V once.
    """,
    launch="blocks of 64 threads, a thread a query.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(128), _trial(1), _trial(70), _trial(33, 8.0), _trial(100)),
    expected=_expected,
    limits=(
        Limit(
            "global_load.sectors",
            _sectors,
            "a row of 16 floats fills 2 sectors; Q is read once, K and V once for each block of 64 queries",
        ),
        Limit(
            "global_load.requests",
            _requests,
            "32 lanes fetch 32 numbers with one request, and share them through shared memory",
        ),
        Limit("global_store.sectors", lambda v: 2 * v["N"], "only the output is stored, once"),
    ),
    hints=(
        "All 64 threads of a block need the same keys and values. Let them fetch 16 of each together, side "
        "by side, into shared memory.",
        "For each key: the score s, the higher of m and s, and two factors: exp(m - higher) for what z and "
        "o hold already, exp(s - higher) for what they take in.",
        "Threads whose query is past the end must fetch and wait with the others. The last tile may hold "
        "fewer than 16 keys: loop over those alone. A barrier after filling the tiles, another before they "
        "are filled again.",
    ),
    after="""
    The N by N scores have never been anywhere but in registers. Each block reads K and V once; with twice
    the queries to a block there are half as many blocks, and half the traffic.
    """,
    rtol=1e-4,
    atol=1e-5,
)
