"""Ceilings: what this GPU reaches at best, found by probes that do nothing else.

In: nothing but the GPU. Out: ``models.Ceilings`` with the probes behind them. Rates of matrix units are not
probed: they are units times the clock that was read under load, where the device table knows the units.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.gpu.device import device_name
from tilewise.gpu.timing import Contender, Plan, Timing, time_contenders
from tilewise.models.devices import device
from tilewise.models.roofline import Ceilings

PROBE_BYTES = 1 << 30
"""Bytes of each buffer that is read or written; far more than any L2."""
_CHAINS, _STEPS, _WORDS = 8, 4096, 4

_SOURCE = r"""
#define WORDS 4
extern "C" __global__ void copy_words(const uint4* from, uint4* to) {
    long long i = (long long)blockIdx.x * WORDS * blockDim.x + threadIdx.x;
    uint4 words[WORDS];
    #pragma unroll
    for (int j = 0; j < WORDS; ++j) words[j] = from[i + j * blockDim.x];
    #pragma unroll
    for (int j = 0; j < WORDS; ++j) to[i + j * blockDim.x] = words[j];
}
extern "C" __global__ void read_words(const uint4* from, unsigned* sink) {
    long long i = (long long)blockIdx.x * WORDS * blockDim.x + threadIdx.x;
    uint4 words[WORDS];
    unsigned mixed = 0;
    #pragma unroll
    for (int j = 0; j < WORDS; ++j) words[j] = from[i + j * blockDim.x];
    #pragma unroll
    for (int j = 0; j < WORDS; ++j) mixed |= words[j].x | words[j].y | words[j].z | words[j].w;
    if (mixed == 0x9e3779b9u) *sink = mixed;
}
extern "C" __global__ void fma_chains(float* out, float b, int steps) {
    float x[8];
    #pragma unroll
    for (int c = 0; c < 8; ++c) x[c] = threadIdx.x + c;
    #pragma unroll 16
    for (int i = 0; i < steps; ++i) {
        #pragma unroll
        for (int c = 0; c < 8; ++c) x[c] = fmaf(x[c], 0.999f, b);
    }
    float sum = 0.f;
    #pragma unroll
    for (int c = 0; c < 8; ++c) sum += x[c];
    out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void nothing() {}
"""


def measure_ceilings(sm_clock_mhz: float | None = None) -> tuple[Ceilings, float]:
    """Probe the current GPU; takes about a second.

    Args:
        sm_clock_mhz: the SM clock under load, for the rates of units that are not probed.

    Returns:
        The ceilings, and the microseconds between two events around nothing.
    """
    import cupy

    names = ("copy_words", "read_words", "fma_chains", "nothing")
    kernels = {name: cupy.RawKernel(_SOURCE, name) for name in names}
    one, two = cupy.zeros(PROBE_BYTES, dtype=np.uint8), cupy.zeros(PROBE_BYTES, dtype=np.uint8)
    sink, wide = cupy.zeros(1, dtype=np.uint32), (PROBE_BYTES // (16 * _WORDS * 256),)
    grid = (int(cupy.cuda.Device().attributes["MultiProcessorCount"]) * 64,)
    sums = cupy.empty(grid[0] * 256, dtype=np.float32)
    chains = (sums, np.float32(0.001), np.int32(_STEPS))
    probes = [
        Contender("copy", lambda: kernels["copy_words"](wide, (256,), (one, two))),
        Contender("memcpy", lambda: two.data.copy_from_device_async(one.data, PROBE_BYTES)),
        Contender("write", lambda: two.data.memset_async(0, PROBE_BYTES)),
        Contender("read", lambda: kernels["read_words"](wide, (256,), (one, sink))),
        Contender("fma", lambda: kernels["fma_chains"](grid, (256,), chains)),
        Contender("launch", lambda: kernels["nothing"]((1,), (32,), ())),
        Contender("events", lambda: None),
    ]
    for probe in probes:
        probe.call()
    timings = {timing.label: timing for timing in time_contenders(probes, Plan(repetitions=40))}
    return ceilings_from(timings, grid[0] * 256, device_name(), sm_clock_mhz), timings["events"].median


def ceilings_from(
    timings: dict[str, Timing], fma_threads: int, name: str, sm_clock_mhz: float | None
) -> Ceilings:
    """Rates from the probes' times.

    Args:
        timings: of the probes ``copy``, ``memcpy``, ``write``, ``read``, ``fma`` and ``launch``.
        fma_threads: threads of the fused multiply-add probe.
        name: the device's, for the units that are not probed.
        sm_clock_mhz: their clock; without it they are left out.
    """
    probes: dict[str, Any] = {
        "copy_gb_per_s": 2 * PROBE_BYTES / min(timings["copy"].median, timings["memcpy"].median) / 1e3,
        "read_gb_per_s": PROBE_BYTES / timings["read"].median / 1e3,
        "write_gb_per_s": PROBE_BYTES / timings["write"].median / 1e3,
        "fp32_tflop_per_s": 2.0 * fma_threads * _CHAINS * _STEPS / timings["fma"].median / 1e6,
    }
    probes = {probe: round(value, 2) for probe, value in probes.items()}
    rates = {"fp32": probes["fp32_tflop_per_s"]}
    known = device(name)
    if known is not None and sm_clock_mhz:
        for kind in known.fma_per_sm_clock:
            rates.setdefault(kind, round(known.peak_tflop_per_s(kind, sm_clock_mhz), 2))
    memory = max(probes[f"{probe}_gb_per_s"] for probe in ("copy", "read", "write"))
    return Ceilings(memory, rates, timings["launch"].median, "measured", probes)
