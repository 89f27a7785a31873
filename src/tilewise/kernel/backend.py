"""Where kernels run in this process: on a GPU or on the simulator.

In: the environment and what CuPy finds. Out: one word, said once to stderr.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Literal

from tilewise.cuda.kernel_source import KernelError
from tilewise.gpu import device


@cache
def backend() -> Literal["gpu", "simulator"]:
    """Where kernels run in this process; decided, and said to stderr, when first asked.

    The environment variable TILEWISE_BACKEND decides where it is `gpu` or `simulator`; else a GPU is used
    where CuPy finds one. Who changes the variable later calls `backend.cache_clear()`.

    Raises:
        KernelError: TILEWISE_BACKEND is something else, or asks for a GPU that is not there.
    """
    return chosen(os.environ.get("TILEWISE_BACKEND", ""))


@cache
def chosen(wanted: str) -> Literal["gpu", "simulator"]:
    """The backend for a value of TILEWISE_BACKEND, empty where it is not set."""
    if wanted not in ("", "gpu", "simulator"):
        raise KernelError(f'TILEWISE_BACKEND is "{wanted}". Set it to gpu or simulator, or unset it.')
    if wanted == "simulator":
        print("tilewise: kernels run on the simulator, as TILEWISE_BACKEND says.", file=sys.stderr)
        return "simulator"
    fault = device.gpu_fault()
    if fault is None:
        print(f"tilewise: kernels run on {device.device_name()} through CuPy.", file=sys.stderr)
        return "gpu"
    if wanted == "gpu":
        raise KernelError(
            f"TILEWISE_BACKEND asks for a GPU. {fault} Install CuPy for your CUDA, or unset it."
        )
    print(f"tilewise: kernels run on the simulator. {fault}", file=sys.stderr)
    return "simulator"
