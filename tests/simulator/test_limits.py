"""Endless kernels and interrupted ones: both end, say so, and leave the arrays alone."""

import threading
from _thread import interrupt_main

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate
from tilewise import Kernel
from tilewise.simulator import MAX_STEPS, HazardError
from tilewise.simulator.engine import machine

ENDLESS = on_threads("while (go[0] > 0)\n  y[i] += 1;", "int* y, volatile int* go")


def test_an_endless_kernel_stops_by_itself_and_says_where(monkeypatch):
    fewer = MAX_STEPS // 256
    monkeypatch.setattr("tilewise.simulator.MAX_STEPS", fewer)  # what Kernel.simulate takes
    y = np.zeros(32, np.int32)
    with pytest.raises(HazardError, match=f"still running after {fewer:,} warp instructions") as caught:
        Kernel(ENDLESS).simulate(y, np.ones(1, np.int32), grid=1, block=32)
    assert caught.value.hazard.kind == "steps"
    assert caught.value.hazard.line in (3, 4)
    assert not y.any()


def test_a_launch_can_be_interrupted():
    y = np.zeros(32, np.int32)
    timer = threading.Timer(0.3, interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(ENDLESS, y, np.ones(1, np.int32), max_steps=1_000_000_000)
    timer.join()
    assert not y.any()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_slices_change_nothing(size, monkeypatch):
    source = on_threads(
        "__shared__ int s[96]; s[threadIdx.x] = x[i]; __syncthreads();\n"
        "int t = 0; for (int k = 0; k <= (i & 7); ++k) t += s[(threadIdx.x + k * 5) % 96];\n"
        "if (t & 1) t = __shfl_xor_sync(__activemask(), t, 0);\n__syncwarp(); atomicAdd(&y[i % 7], t);",
        "const int* x, int* y",
    )
    x = np.arange(192, dtype=np.int32) * 7919 % 1000
    whole, sliced = np.zeros(7, np.int32), np.zeros(7, np.int32)
    run = simulate(source, x, whole, grid=2, block=96)
    monkeypatch.setattr(machine, "SLICE", size)
    assert simulate(source, x, sliced, grid=2, block=96).lines == run.lines
    assert np.array_equal(whole, sliced)
