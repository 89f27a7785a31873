"""Faults that the documentation says are not found: should one be found some day, the page must say so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

NOT_FOUND = {
    "a read beyond a row of an array": "y[i] = x[(i / 8) * 8 + 8];",
    "a read beyond a member": "struct { int a[4], b[4]; } v; for (int k = 0; k < 4; ++k) v.b[k] = i;"
    " volatile int* p = v.a; y[i] = p[4 + i % 4];",
    "a local array that nobody wrote": "volatile int a[8]; if (x[0] < 0) a[i % 8] = 1; y[i] = a[i % 8];",
    "lanes of a warp through global memory": "y[i] = x[i]; int v = ((volatile int*)y)[i ^ 1]; y[i] = v;",
    "lanes of a warp across a shuffle": "__shared__ int s[64]; s[threadIdx.x] = i;"
    " int v = __shfl_xor_sync(0xffffffff, i, 1); y[i] = s[threadIdx.x ^ 1] + v;",
    "blocks that meet at different words": "y[i] = x[i]; __threadfence(); __syncthreads();"
    " if (threadIdx.x == 0) atomicAdd(go + blockIdx.x, 1); __syncthreads();"
    " if (blockIdx.x == 1) y[i] = y[i - 64];",
    "a fence of too small a scope": "y[i] = x[i]; __threadfence_block(); __syncthreads();"
    " if (threadIdx.x == 0) atomicAdd(go, 1); __syncthreads();"
    " if (blockIdx.x == 1) y[i] = y[i - 64];",
    "an atomic of too small a scope": 'asm volatile("red.relaxed.cta.global.add.s32 [%0], 1;" :: "l"(go));',
}


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_is_said_not_to_be_found_is_not(name: str) -> None:
    source = on_threads(NOT_FOUND[name], "const int* x, int* y, int* go")
    x, y, go = np.arange(256, dtype=np.int32), np.zeros(256, np.int32), np.zeros(4, np.int32)
    run = simulate(source, x, y, go, grid=2, block=64)
    assert not run.hazards
