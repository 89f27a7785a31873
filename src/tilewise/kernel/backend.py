"""Where kernels run in this process: on a GPU or on the simulator.

In: the environment and the GPUs that CuPy finds. Out: one word, printed once to stderr.
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
    """Return where kernels run in this process; decided and printed to stderr on the first call.

    The environment variable TILEWISE_BACKEND (`gpu` or `simulator`) takes precedence; without it, a GPU is
    used if CuPy finds one. Call `backend.cache_clear()` after changing the variable.

    Raises:
        KernelError: TILEWISE_BACKEND has another value, or requests a GPU that is missing.
    """
    return chosen(os.environ.get("TILEWISE_BACKEND", ""))


@cache
def chosen(wanted: str) -> Literal["gpu", "simulator"]:
    """Return the backend for a value of TILEWISE_BACKEND, empty if it is not set."""
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
