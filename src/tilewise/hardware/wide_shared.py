"""Specimens of wide shared loads: which lanes of an 8- or 16-byte load share a pass over the banks.

In: nothing. Out: ``SPECIMENS``: one kernel for each width, with the places that lanes read given as data.
"""

from __future__ import annotations

import numpy as np

from tilewise.cases import Array, integers, normal, output
from tilewise.cases import case as a_case
from tilewise.gpu.kernel import Kernel
from tilewise.hardware.specimen import Specimen, specimen

PICK_8 = Kernel(r"""
extern "C" __global__
void pick_8(const float2* x, const int* place, float2* y) {
    __shared__ float2 tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];
    tile[t + 32] = x[t + 32];
    __syncthreads();
    y[t] = tile[place[t]];
}
""")

PICK_16 = Kernel(r"""
extern "C" __global__
void pick_16(const float4* x, const int* place, float4* y) {
    __shared__ float4 tile[64];
    int t = threadIdx.x;
    tile[t] = x[t];
    tile[t + 32] = x[t + 32];
    __syncthreads();
    y[t] = tile[place[t]];
}
""")


def _places() -> dict[str, Array]:
    """What each of 32 lanes reads, by a name."""
    lane = np.arange(32)
    found = {
        "one place": 0 * lane,
        "shared by 2": lane // 2,
        "shared by 4": lane // 4,
        "shared by 8": lane // 8,
        "shared by 16": lane // 16,
        "2 in turn": lane % 2,
        "4 in turn": lane % 4,
        "8 in turn": lane % 8,
        "16 in turn": lane % 16,
        "2 far apart in turn": lane % 2 * 32,
        "every other": 2 * lane,
        "half each": lane // 16 * 32,
        "tile of 8 by 4": lane // 8 * 16 + lane % 4,
    }
    random = {f"any of 64, draw {seed}": integers(32, low=0, high=64, seed=seed).make() for seed in (1, 2, 3)}
    few = {f"any of 8, draw {seed}": integers(32, low=0, high=8, seed=seed).make() * 8 for seed in (4, 5)}
    return {name: places.astype(np.int32) for name, places in {**found, **random, **few}.items()}


def _specimen(kernel: Kernel, width: int, name: str, places: Array) -> Specimen:
    inputs = a_case(x=normal(64, width), place=places, y=output(32, width), grid=1, block=32)
    return specimen(f"{4 * width} bytes, {name}", f"{4 * width}-byte shared loads: {name}", kernel, inputs)


SPECIMENS: tuple[Specimen, ...] = tuple(
    _specimen(kernel, width, name, places)
    for kernel, width in ((PICK_8, 2), (PICK_16, 4))
    for name, places in _places().items()
)
"""In the order of the tables."""
