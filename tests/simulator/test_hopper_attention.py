"""Attention by tensor copies and wgmma: scores from shared memory, weights from registers, no false alarm."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.simulator.hopper import DEVICE, OPTIONS, bf16, line_of, wgmma
from tilewise.gpu import compile_gate
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.tensor_map import tensor_map
from tilewise.simulator import HazardError


def from_registers(n: int) -> str:
    """A device function `weigh(d, a, b)` with A in four registers and B turned."""
    count = n // 2
    registers = ", ".join(f"%{number}" for number in range(count))
    fragments = ", ".join(f"%{count + number}" for number in range(4))
    results = ", ".join(f'"+f"(d[{number}])' for number in range(count))
    return (
        f"DEVICE void weigh(float (&d)[{count}], const unsigned (&a)[4], u64 b) {{\n"
        f'    asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{registers}}}, "\n'
        f'        "{{{fragments}}}, %{count + 4}, 1, 1, 1, 1;"\n'
        f'        : {results} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)); }}\n'
    )


ATTENTION = r"""
DEVICE unsigned pair(float low, float high) {
    unsigned r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
// 64 queries of 64 elements against tiles of 64 keys and values; a producer warp, one warpgroup of consumers.
extern "C" __global__ void __launch_bounds__(160) attend(const __grid_constant__ TensorMap Q,
        const __grid_constant__ TensorMap K, const __grid_constant__ TensorMap V, float* out, int tiles) {
    __shared__ __align__(1024) unsigned char q[8192], k[2][8192], v[2][8192];
    __shared__ __align__(8) u64 ready, full[2], empty[2];
    if (threadIdx.x == 0) {
        init(&ready, 1);
        for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], 4); }
        fence_init();
    }
    __syncthreads();
    if (threadIdx.x >= 128) {
        if (threadIdx.x == 128) {
            expect(&ready, 8192);
            load_2d(q, &Q, 0, blockIdx.x * 64, &ready);
            for (int t = 0; t < tiles; ++t) {
                wait(&empty[t % 2], (t / 2 & 1) ^ 1);
                expect(&full[t % 2], 16384);
                load_2d(k[t % 2], &K, 0, t * 64, &full[t % 2]);
                load_2d(v[t % 2], &V, 0, t * 64, &full[t % 2]);
            }
        }
        return;
    }
    float o[32] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    wait(&ready, 0);
    for (int t = 0; t < tiles; ++t) {
        float s[32];
        wait(&full[t % 2], t / 2 & 1);
        wgmma_fence();
        #pragma unroll
        for (int e = 0; e < 4; ++e)
            multiply(s, descriptor(q + 32 * e, 16, 1024, 1),
                descriptor(k[t % 2] + 32 * e, 16, 1024, 1), e != 0);
        wgmma_commit();
        wgmma_wait<0>();
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float best = top[r];
            #pragma unroll
            for (int i = 0; i < 32; ++i) if (i / 2 % 2 == r) best = fmaxf(best, s[i] * 0.125f);
            best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
            best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
            float scale = expf(top[r] - best);
            top[r] = best; sum[r] *= scale;
            #pragma unroll
            for (int i = 0; i < 32; ++i) if (i / 2 % 2 == r) {
                s[i] = expf(s[i] * 0.125f - best); sum[r] += s[i]; o[i] *= scale;
            }
        }
        wgmma_fence();
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            unsigned p[4] = {pair(s[8 * e], s[8 * e + 1]), pair(s[8 * e + 2], s[8 * e + 3]),
                pair(s[8 * e + 4], s[8 * e + 5]), pair(s[8 * e + 6], s[8 * e + 7])};
            weigh(o, p, descriptor(v[t % 2] + 2048 * e, 8192, 1024, 1));
        }
        wgmma_commit();
        wgmma_wait<0>();
        if (threadIdx.x % 32 == 0) arrive(&empty[t % 2]);
    }
    int row = blockIdx.x * 64 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i)
        out[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = o[i] / sum[i / 2 % 2];
}
"""
SOURCE = DEVICE + wgmma(64) + from_registers(64) + ATTENTION


def attend(source: str = SOURCE, queries: int = 128, keys: int = 320) -> float:
    """The largest error against float64."""
    random = np.random.default_rng(4)
    q, k, v = (bf16(random.standard_normal((rows, 64))) for rows in (queries, keys, keys))
    out = np.full((queries, 64), np.nan, np.float32)
    maps = [tensor_map(one, box=(64, 64), swizzle=128, dtype="bfloat16") for one in (q, k, v)]
    kernel = Kernel(source, options=OPTIONS)
    kernel.simulate(*maps, out.reshape(-1), keys // 64, grid=queries // 64, block=160)
    wide = [(one.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for one in (q, k, v)]
    scores = wide[0] @ wide[1].T / 8
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    exact = weights @ wide[2] / weights.sum(axis=1, keepdims=True)
    return float(np.abs(out - exact).max())


def test_it_is_right_to_the_rounding_of_its_weights_and_without_hazards() -> None:
    assert attend() < 2e-3


@pytest.mark.skipif(compile_gate.available() is not None, reason=str(compile_gate.available()))
def test_nvrtc_accepts_the_same_text_without_spills() -> None:
    (resources,) = compile_gate.compile_kernel(Kernel(SOURCE, options=OPTIONS))
    assert not resources.spills


@pytest.mark.parametrize(
    ("find", "put", "kind", "line_with"),
    [
        ("    wait(&ready, 0);\n", "", "undelivered", "multiply(s, descriptor"),
        ("        wait(&full[t % 2], t / 2 & 1);\n", "", "undelivered", "multiply(s, descriptor"),
        ("init(&empty[s], 4)", "init(&empty[s], 1)", "deadlock", "wait(&full"),
        ("expect(&full[t % 2], 16384);", "expect(&full[t % 2], 8192);", "undelivered", "weigh(o, p"),
        ("        return;\n", 'asm volatile("barrier.sync 1, 160;");\nreturn;\n', "barrier", "barrier.sync"),
    ],
)  # fmt: skip
def test_planted_bugs(find: str, put: str, kind: str, line_with: str) -> None:
    assert SOURCE.count(find) == 1
    source = SOURCE.replace(find, put)
    with pytest.raises(HazardError) as caught:
        attend(source)
    hazard = caught.value.hazard
    assert hazard.kind == kind, str(caught.value)
    lines = [line_of(source, line_with, number) for number in range(source.count(line_with))]
    assert (hazard.caller or hazard.line) in lines, str(caught.value)


@pytest.mark.parametrize("number", [0, 1])
def test_results_touched_before_their_wait(number: int) -> None:
    found = [one.start() for one in re.finditer(r"        wgmma_wait<0>\(\);\n", SOURCE)][number]
    source = SOURCE[:found] + SOURCE[found:].replace("        wgmma_wait<0>();\n", "", 1)
    with pytest.raises(HazardError) as caught:
        attend(source)
    assert caught.value.hazard.kind == ("accumulator", "overwritten")[number], str(caught.value)
