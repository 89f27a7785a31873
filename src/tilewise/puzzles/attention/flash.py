"""FlashAttention forward in one kernel; each block of queries may load K and V once."""

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
    __shared__ float smem[QUERIES * (D + 1)];
    int first = blockIdx.x * QUERIES, t = threadIdx.x;
    for (int i = t; i < QUERIES * D; i += QUERIES)
        smem[i / D * (D + 1) + i % D] =
            first + i / D < N ? Q[first * D + i] : 0.0f;
    __syncthreads();
    float q[D], o[D] = {}, m = -INFINITY, z = 0.0f;
    for (int c = 0; c < D; ++c) q[c] = scale * smem[t * (D + 1) + c];
"""
_TAIL = """
    for (int c = 0; c < D; ++c) smem[t * (D + 1) + c] = o[c] / z;
    __syncthreads();
    for (int i = t; i < QUERIES * D; i += QUERIES)
        if (first + i / D < N) O[first * D + i] = smem[i / D * (D + 1) + i % D];
}
"""
CODE = (
    _HEAD
    + """\
    // [gap loop over tiles of keys and update m, z and o
    __shared__ float k[KEYS][D], v[KEYS][D];
    for (int j0 = 0; j0 < N; j0 += KEYS) {
        int count = min(KEYS, N - j0);
        for (int i = t; i < count * D; i += QUERIES) {
            k[i / D][i % D] = K[j0 * D + i];
            v[i / D][i % D] = V[j0 * D + i];
        }
        __syncthreads();
        for (int j = 0; j < count; ++j) {
            float s = 0.0f;
            for (int c = 0; c < D; ++c) s += q[c] * k[j][c];
            float new_max = fmaxf(m, s);
            float alpha = expf(m - new_max), p = expf(s - new_max);
            for (int c = 0; c < D; ++c) o[c] = alpha * o[c] + p * v[j][c];
            z = alpha * z + p;
            m = new_max;
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
        float new_max = fmaxf(m, s);
        float alpha = expf(m - new_max), p = expf(s - new_max);
        for (int c = 0; c < D; ++c) o[c] = alpha * o[c] + p * V[j * D + c];
        z = alpha * z + p;
        m = new_max;
    }"""
    + _TAIL
)
DEPTH = 16
"""Elements of a query, of a key and of a value."""


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
    """Two sectors per row: Q once, K and V once per block."""
    n = int(v["N"])
    return 2 * n * (1 + 2 * ceil_div(n, 64))


def _requests(v: Values) -> int:
    """One element per lane: Q once, K and V once per block."""
    blocks = ceil_div(v["N"], 64)
    return 32 * blocks + 2 * blocks * 8 * ceil_div(v["N"], 16)


PUZZLE = Puzzle(
    title="A small FlashAttention kernel",
    task="""
    Write softmax(scale Q K^T) V to `O` for `N` queries, keys and values of 16 elements each, all
    row-major. Each thread processes one query. The query's elements, already scaled, are in `q`. Update the
    running maximum `m`, the sum `z` and the unnormalised output `o`; the kernel divides by z and stores. No
    score may be written to global memory, and a block of 64 queries may load K and V only once.
    """,
    launch="blocks of 64 threads, one thread per query.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(128), _trial(1), _trial(70), _trial(33, 8.0), _trial(100)),
    expected=_expected,
    limits=(
        Limit(
            "global_load.sectors",
            _sectors,
            "a row of 16 floats fills 2 sectors; Q is read once, K and V once per block of 64 queries",
        ),
        Limit(
            "global_load.requests",
            _requests,
            "32 lanes load 32 elements with one request, and the block reads them from shared memory",
        ),
        Limit("global_store.sectors", lambda v: 2 * v["N"], "the output is stored once, and nothing else is"),
    ),
    blanks=(
        ("min(KEYS, N - j0)", "KEYS"),
        ("__syncthreads();", ""),
        ("alpha * o[c] + p * v[j][c]", "o[c] + p * v[j][c]"),
        ("__syncthreads();", ""),
    ),
    lesson="[FlashAttention's forward pass](../attention/flash_forward.py)",
    hints="""
    All 64 threads of a block need the same keys and values. Let them load 16 of each together,
    coalesced, into shared memory.

    For each key, compute the score s, the new maximum and two factors: exp(m - new) rescales z
    and o, and exp(s - new) is the weight of the key.

    Threads without a query must load and synchronise with the others. The last tile may have
    fewer than 16 keys, so loop only over those. You need a barrier after the loads and another
    before the next tile overwrites this one.
    """,
    after="""
    The N by N scores never leave the registers. Each block loads K and V once. With twice as many queries
    per block, there are half as many blocks, and so half the traffic.
    """,
    rtol=1e-4,
    atol=1e-5,
)
