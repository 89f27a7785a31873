"""Resources: what a launch takes of an SM, and how many of its blocks fit there by the driver's own answer.

In: an experiment's launches, compiled on this machine's GPU. Out: plain values for the record's method. The
model that has to agree with them is ``tilewise.models.occupancy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.options import carveout
from tilewise.gpu import cupy_backend

if TYPE_CHECKING:
    from tilewise.kernel.launch import Launch
    from tilewise.measurements.experiment import Experiment


def resources(experiment: Experiment) -> list[dict[str, Any]]:
    """What every launch of an experiment's timed cases takes, each different one once, in their order.

    Returns:
        Mappings with ``kernel``, ``threads`` of a block, ``registers`` of a thread, ``local_bytes`` of a
        thread, ``static_shared_bytes`` and ``dynamic_shared_bytes`` of a block, and the driver's
        ``blocks_per_sm``; also ``carveout``, the percentage that the kernel asks for as shared memory, or
        None.
    """
    found: list[dict[str, Any]] = []
    for parameters in experiment.cases:
        for label in experiment.variants:
            for launch in experiment.launches(label, parameters):
                taken = resources_of(launch)
                if taken not in found:
                    found.append(taken)
    return found


def resources_of(launch: Launch) -> dict[str, Any]:
    """What one launch takes of an SM, from the compiled kernel and the driver."""
    import cupy

    kernel = launch.kernel
    function = cupy_backend.compiled(kernel.gpu_source, kernel.name, kernel.options, kernel.wants_module)
    cupy_backend.allow(function, kernel.name, launch.shared_bytes, kernel.function.cluster)
    threads = int(np.prod(launch.block))
    fitting = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        function.kernel.ptr, threads, launch.shared_bytes
    )
    return {
        "kernel": kernel.name,
        "threads": threads,
        "registers": int(function.num_regs),
        "local_bytes": int(function.local_size_bytes),
        "static_shared_bytes": int(function.shared_size_bytes),
        "dynamic_shared_bytes": launch.shared_bytes,
        "blocks_per_sm": int(fitting),
        "carveout": carveout(kernel.options),
    }
