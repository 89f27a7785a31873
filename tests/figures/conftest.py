"""Runs as the simulator leaves them, small enough to be written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

FIELDS = (
    "step",
    "block",
    "warp",
    "lane",
    "line",
    "space",
    "kind",
    "size",
    "address",
    "buffer",
    "index",
    "value",
)


def _run(rows: list[tuple[float, ...]], buffers: tuple[str, ...]) -> Any:
    columns = np.array(rows, float).reshape(-1, len(FIELDS)).T
    arrays = {
        name: columns[at] if name == "value" else columns[at].astype(np.int64)
        for at, name in enumerate(FIELDS)
    }
    return SimpleNamespace(accesses=SimpleNamespace(**arrays), buffers=buffers)


@pytest.fixture
def make_run() -> Callable[[list[tuple[float, ...]], tuple[str, ...]], Any]:
    """``make_run(rows, buffers)``: a run whose trace has these rows, in the order of FIELDS."""
    return _run


@pytest.fixture
def addition() -> Any:
    """c = a + b for 40 elements under one block of 64 threads: two warps, three accesses each."""
    rows: list[tuple[float, ...]] = []
    step = 0
    for warp in range(2):
        for buffer, kind, line in ((0, 0, 3), (1, 0, 3), (2, 1, 4)):
            for lane in range(32):
                index = 32 * warp + lane
                if index < 40:
                    rows.append((step, 0, warp, lane, line, 0, kind, 4, 4 * index, buffer, index, index / 2))
            step += 1
    return _run(rows, ("a", "b", "c"))
