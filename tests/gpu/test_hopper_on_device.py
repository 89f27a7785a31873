"""Hopper's instructions on a Hopper: the kernels of the simulator's own tests, bit for bit what it says.

Skipped, and counted as skipped, where there is no GPU of compute capability 9.0.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tests.simulator import test_bulk_copies, test_clusters, test_wgmma
from tilewise.gpu import backend, device
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.tensor_map import tensor_map


def _fault() -> str | None:
    fault = device.gpu_fault()
    if fault is not None:
        return fault
    capability = importlib.import_module("cupy").cuda.Device().compute_capability
    return None if capability == "90" else f"The GPU has compute capability {capability}, not 9.0."


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(_fault() is not None, reason=str(_fault()))]


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TILEWISE_BACKEND", "gpu")
    backend.chosen.cache_clear()
    assert backend.backend() == "gpu"
    yield
    backend.chosen.cache_clear()


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("turned", [False, True])
def test_layouts_of_wgmma(turned: bool, swizzle: int) -> None:
    a, b = test_wgmma.whole(64, 16), test_wgmma.whole(128, 16, seed=1)
    for layouts in ((turned, swizzle, False, 128), (False, 64, turned, swizzle)):
        assert np.array_equal(test_wgmma.multiply(a, b, layouts=layouts, launch=Kernel.__call__), a @ b.T)


@pytest.mark.parametrize(
    ("kind", "n", "k"), [("bf16", 8, 16), ("bf16", 256, 16), ("f16", 24, 16), ("tf32", 136, 8)]
)
def test_types_and_columns_of_wgmma(kind: str, n: int, k: int) -> None:
    a, b, c = test_wgmma.whole(64, k), test_wgmma.whole(n, k, seed=1), test_wgmma.whole(64, n, seed=2)
    for signs, sign in (((1, 1), 1), ((-1, 1), -1)):
        got = test_wgmma.multiply(a, b, kind, start=c, signs=signs, launch=Kernel.__call__)
        assert np.array_equal(got, c + sign * (a @ b.T))


def test_products_in_every_block_of_a_cluster() -> None:
    assert not any(apart.any() for apart in test_wgmma.in_a_cluster(" & 0x3ffff", Kernel.__call__))


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (-16, -3), (16, 9)])
def test_boxes_lie_in_shared_memory_as_the_simulator_says(swizzle: int, x: int, y: int) -> None:
    row = swizzle or 64
    a = np.random.default_rng(2).integers(0, 255, (24, 2 * row), dtype=np.uint8)
    there, _ = test_bulk_copies.box_of(a, (16, row), x, y, swizzle, launch=Kernel.__call__)
    here, _ = test_bulk_copies.box_of(a, (16, row), x, y, swizzle)
    assert np.array_equal(there, here)


def test_blocks_of_a_cluster_read_each_other() -> None:
    there, here = np.zeros(256, np.int32), np.zeros(256, np.int32)
    test_clusters.kernel("int* y", test_clusters.RING)(there, grid=8, block=32)
    test_clusters.kernel("int* y", test_clusters.RING).simulate(here, grid=8, block=32)
    assert np.array_equal(there, here)


def test_multicast() -> None:
    a = np.random.default_rng(3).integers(0, 50, (64, 32)).astype(np.float32)
    there, here = np.zeros(64, np.float32), np.zeros(64, np.float32)
    parameters = "const __grid_constant__ TensorMap A, float* y"
    made = test_clusters.kernel(parameters, test_clusters.PIPE, "2")
    made(tensor_map(a, box=(8, 32)), there, grid=2, block=32)
    made.simulate(tensor_map(a, box=(8, 32)), here, grid=2, block=32)
    assert np.array_equal(there, here)
