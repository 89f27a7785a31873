"""Launches that are proposed where a file says nothing of its own."""

from __future__ import annotations

from math import prod

import pytest

from tilewise import Kernel
from tilewise.cli.trace_plan import plan


@pytest.mark.parametrize("most", [8, 32, 128, 1024])
@pytest.mark.parametrize("flat", [True, False])
def test_a_block_keeps_what_the_kernel_promises(most: int, flat: bool) -> None:
    source = f"""extern "C" __global__ __launch_bounds__({most})
void k(float* y, int width, int height) {{ y[threadIdx.x + threadIdx.y] = width * height; }}"""
    planned = plan(Kernel(source).function, flat=flat)
    assert 1 <= prod(planned.block) <= most
    assert len(planned.block) == (1 if flat else 2)
    assert planned.arguments["width"] == planned.arguments["height"] == "32"
