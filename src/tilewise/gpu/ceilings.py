"""Ceilings: the highest rates of this GPU, measured by probes.

In: nothing but the GPU. Out: ``models.Ceilings`` with the probes' results. Tensor cores are probed with
``mma.sync``, which every device since Ampere has, and on Hopper also with ``wgmma``, which alone reaches
their full rate there. Data-sheet peaks are in ``models.devices`` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.gpu.device import properties
from tilewise.gpu.timing import Contender, Plan, Timing, time_contenders
from tilewise.gpu.wgmma_probe import OPTIONS, STEPS, WARPGROUPS, WAVES, wgmma_flop, wgmma_source
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

MATRIX_SOURCE = r"""
extern "C" __global__ void matrix_chains(float* out, int steps) {
    unsigned a[4], b[2], seed = threadIdx.x * 2654435761u + 12345u;
    #pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = HALF | ((seed = seed * 1664525u + 1013904223u) & RANDOM);
    #pragma unroll
    for (int i = 0; i < 2; ++i) b[i] = HALF | ((seed = seed * 1664525u + 1013904223u) & RANDOM);
    float d[8][4] = {};
    for (int i = 0; i < steps; ++i) {
        #pragma unroll
        for (int c = 0; c < 8; ++c) {
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        }
    }
    float sum = 0.f;
    #pragma unroll
    for (int c = 0; c < 8; ++c) sum += d[c][0] + d[c][1] + d[c][2] + d[c][3];
    out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
"""Chains of MMAs on registers: eight independent chains per warp, no loads."""
MATRIX_DEFINES = {
    "fp16": {"KIND": '"f16"', "HALF": "0x38003800u", "RANDOM": "0x83ff83ffu"},
    "bf16": {"KIND": '"bf16"', "HALF": "0x3f003f00u", "RANDOM": "0x807f807fu"},
}
"""By element type: operands are pairs of values from 0.5 to 1 of either sign, since zeros are faster."""
MATRIX_STEPS = 2048
"""MMAs in a chain."""
MATRIX_GENERATION, WGMMA_GENERATION = 8, 9
"""Major compute capabilities: the first with this ``mma.sync``, and the one with ``wgmma``."""


def measure_ceilings() -> Ceilings:
    """Probe the current GPU; takes about a second."""
    import cupy

    names = ("copy_words", "read_words", "fma_chains", "nothing")
    kernels = {name: cupy.RawKernel(_SOURCE, name) for name in names}
    source, target = cupy.zeros(PROBE_BYTES, dtype=np.uint8), cupy.zeros(PROBE_BYTES, dtype=np.uint8)
    sink, wide = cupy.zeros(1, dtype=np.uint32), (PROBE_BYTES // (16 * _WORDS * 256),)
    sms = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
    grid = (sms * 64,)
    results = cupy.empty(grid[0] * 256, dtype=np.float32)
    chains = (results, np.float32(0.001), np.int32(_STEPS))
    generation = int(properties().get("major") or 0)
    kinds = MATRIX_DEFINES if generation >= MATRIX_GENERATION else ()
    probes = [
        Contender("copy", lambda: kernels["copy_words"](wide, (256,), (source, target))),
        Contender("memcpy", lambda: target.data.copy_from_device_async(source.data, PROBE_BYTES)),
        Contender("write", lambda: target.data.memset_async(0, PROBE_BYTES)),
        Contender("read", lambda: kernels["read_words"](wide, (256,), (source, sink))),
        Contender("fp32", lambda: kernels["fma_chains"](grid, (256,), chains)),
        Contender("launch", lambda: kernels["nothing"]((1,), (32,), ())),
        *(_matrix_probe(kind, grid[0] // 4, results) for kind in kinds),
        *([_wgmma_probe(sms * WAVES, results)] if generation == WGMMA_GENERATION else []),
    ]
    for probe in probes:
        probe.call()
    timings = {timing.label: timing for timing in time_contenders(probes, Plan(repetitions=40))}
    flop = {
        "fp32": 2.0 * grid[0] * 256 * _CHAINS * _STEPS,
        **dict.fromkeys(("fp16_matrix", "bf16_matrix"), matrix_flop(grid[0] // 4)),
        "wgmma_bf16": wgmma_flop(sms * WAVES),
    }
    return ceilings_from(timings, flop)


def matrix_flop(blocks: int) -> float:
    """Operations of one matrix probe: 8 warps per block, 8 chains per warp, MMAs of 16 x 8 x 16."""
    return blocks * 8.0 * 8 * MATRIX_STEPS * 2 * 16 * 8 * 16


def _matrix_probe(kind: str, blocks: int, results: Any) -> Contender:
    import cupy

    defines = "".join(f"#define {name} {value}\n" for name, value in MATRIX_DEFINES[kind].items())
    kernel = cupy.RawKernel(defines + MATRIX_SOURCE, "matrix_chains")
    return Contender(f"{kind}_matrix", lambda: kernel((blocks,), (256,), (results, np.int32(MATRIX_STEPS))))


def _wgmma_probe(blocks: int, results: Any) -> Contender:
    import cupy

    kernel = cupy.RawModule(code=wgmma_source(), options=OPTIONS).get_function("wgmma_chains")
    arguments = (results, np.int32(STEPS))
    return Contender("wgmma_bf16", lambda: kernel((blocks,), (WARPGROUPS * 128,), arguments))


def ceilings_from(timings: Mapping[str, Timing], flop: Mapping[str, float]) -> Ceilings:
    """Rates from the probes' times.

    Args:
        timings: of the probes ``copy``, ``memcpy``, ``write``, ``read`` and ``launch``, and of the device's
            arithmetic probes.
        flop: operations of each arithmetic probe.
    """
    reached = {kind: flop[kind] / timings[kind].median / 1e6 for kind in flop if kind in timings}
    probes: dict[str, float] = {
        "copy_gb_per_s": 2 * PROBE_BYTES / min(timings["copy"].median, timings["memcpy"].median) / 1e3,
        "read_gb_per_s": PROBE_BYTES / timings["read"].median / 1e3,
        "write_gb_per_s": PROBE_BYTES / timings["write"].median / 1e3,
        **{f"{kind}_tflop_per_s": rate for kind, rate in reached.items()},
    }
    probes = {probe: round(float(value), 2) for probe, value in probes.items()}
    memory = max(probes[f"{probe}_gb_per_s"] for probe in ("copy", "read", "write"))
    rates = {kind: probes[f"{kind}_tflop_per_s"] for kind in reached}
    return Ceilings(memory, rates, timings["launch"].median, probes)
