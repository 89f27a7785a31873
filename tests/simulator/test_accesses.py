"""What a traced run hands to figures: who touched what when, sectors, banks and active masks."""

from __future__ import annotations

import numpy as np

from tests.simulator.kernels import on_threads, simulate
from tilewise.simulator import Run, Trace
from tilewise.simulator.shared import numbers

GLOBAL, SHARED, LOCAL = (numbers("SPACE")[name] for name in ("GLOBAL", "SHARED", "LOCAL"))
LOAD, STORE, ATOMIC = (numbers("KIND")[name] for name in ("LOAD", "STORE", "ATOMIC"))

MIXED = on_threads(
    """__shared__ float s[144];
__shared__ double d[32];
int a[4];
for (int k = 0; k < 4; ++k) a[k & (i + k)] = i;
s[threadIdx.x * 3] = x[i];
if (threadIdx.x % 3 == 1) d[threadIdx.x % 32] = x[i * 2];
__syncthreads();
float4 four = ((const float4*)x)[i % 16];
if (threadIdx.x < 20) y[i] = s[threadIdx.x * 6] + four.z + a[i & 3];
if (threadIdx.x % 32 == 7) atomicAdd(&y[i], (float)d[1]);
__syncthreads();
if (i == 40) s[5] = y[i];""",
    "const float* x, float* y",
)


def _mixed() -> Run:
    x, y = np.arange(192, dtype=np.float32), np.zeros(96, np.float32)
    return simulate(MIXED, x, y, grid=2, block=48, trace=Trace())


def test_masks_sectors_banks_and_intervals_of_known_instructions() -> None:
    run = _mixed()
    accesses, requests = run.accesses, run.accesses.requests()
    line = {text: number for number, text in enumerate(run.source.splitlines(), 1)}

    def at(text: str, space: int, kind: int, block: int, warp: int) -> int:
        found = np.flatnonzero(
            (requests.line == next(number for key, number in line.items() if text in key))
            & (requests.space == space)
            & (requests.kind == kind)
            & (requests.block == block)
            & (requests.warp == warp)
        )
        assert len(found) == 1
        return int(found[0])

    stored = at("s[threadIdx.x * 3] =", SHARED, STORE, 0, 0)
    assert requests.mask[stored] == 0xFFFFFFFF and requests.banks[stored] == 0xFFFFFFFF
    assert requests.interval[stored] == 0
    assert requests.mask[at("s[threadIdx.x * 3] =", SHARED, STORE, 0, 1)] == 0xFFFF  # half a warp
    doubles = at("d[threadIdx.x % 32] =", SHARED, STORE, 0, 0)
    lanes = [lane for lane in range(32) if lane % 3 == 1]
    assert requests.mask[doubles] == sum(1 << lane for lane in lanes)
    first = int(accesses.bank[(accesses.size == 8) & (accesses.lane == 1) & (accesses.warp == 0)][0])
    wanted = {(first + 2 * (lane - 1) + half) % 32 for lane in lanes for half in range(2)}
    assert requests.banks[doubles] == sum(1 << bank for bank in wanted)
    wide = at("float4 four", GLOBAL, LOAD, 0, 0)
    assert requests.sectors[wide] == 8 and requests.interval[wide] == 1
    assert requests.mask[at("atomicAdd", GLOBAL, ATOMIC, 1, 1)] == 1 << 7
    late = at("s[5] = y[i]", SHARED, STORE, 0, 1)
    assert requests.interval[late] == 2 and requests.mask[late] == 1 << 8
    assert (np.diff(requests.step[(requests.block == 1) & (requests.warp == 0)]) >= 0).all()


def test_sectors_count_from_their_array_and_banks_by_words() -> None:
    accesses = _mixed().accesses
    of_x = (accesses.space == GLOBAL) & (accesses.buffer == 0)
    assert of_x.any() and np.array_equal(accesses.sector[of_x], accesses.index[of_x] * 4 // 32)
    words = (accesses.space == SHARED) & (accesses.size == 4)
    assert np.array_equal(accesses.bank[words], accesses.address[words] // 4 % 32)
    assert (accesses.bank[accesses.space != SHARED] == -1).all()
    assert (accesses.sector[accesses.space != GLOBAL] == -1).all()
    assert {GLOBAL, SHARED, LOCAL} == set(accesses.space.tolist())
