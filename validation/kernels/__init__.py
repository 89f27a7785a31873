"""Small kernels, each with one idea and one launch, and ``OWN``, all of them by title of their group."""

from __future__ import annotations

from collections.abc import Mapping

from validation.kernels import (
    arithmetic,
    atomics,
    control_flow,
    global_memory,
    matrix_units,
    shared_memory,
    warps,
)
from validation.specimen import Specimen

OWN: Mapping[str, tuple[Specimen, ...]] = {
    "Global memory": global_memory.SPECIMENS,
    "Shared memory": shared_memory.SPECIMENS,
    "Wide shared loads": shared_memory.WIDE_LOADS,
    "Control flow": control_flow.SPECIMENS,
    "Atomics and other memories": atomics.SPECIMENS,
    "Arithmetic": arithmetic.SPECIMENS,
    "Warps and asynchronous copies": warps.SPECIMENS,
    "Tensor cores": matrix_units.SPECIMENS,
}
