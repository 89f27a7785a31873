"""References: matrix multiplications for measurements and checks, their inputs and float64 results.

In: sizes, or inputs from ``measure``. Out: recipes for a case, arrays by the outputs' names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise import bf16
from tilewise.cuda.cases import normal, output


def product_inputs(M: int, N: int, K: int) -> dict[str, Any]:  # noqa: N803 - as kernels name them
    """FP32 inputs of C = A B for a case; the results have a standard deviation of 1.

    Args:
        M: rows of A and C.
        N: columns of B and C.
        K: columns of A and rows of B.
    """
    arrays = {"A": normal(M, K), "B": normal(K, N, scale=K**-0.5), "C": output(M, N)}
    return arrays | {"M": M, "N": N, "K": K}


def matrix_product(A: Any, B: Any) -> dict[str, Any]:  # noqa: N803 - the names of the inputs
    """C = A B in float64, on the GPU if there is one.

    Args:
        A: M x K floats.
        B: K x N floats.
    """
    from tilewise.gpu.device import gpu_here

    if not gpu_here():
        return {"C": A @ B}
    import cupy

    return {"C": cupy.asnumpy(cupy.asarray(A) @ cupy.asarray(B))}


def bf16_product(arrays: Mapping[str, Any]) -> Any:
    """A B in float64, from the bits of two BF16 matrices.

    Args:
        arrays: ``A``, M x K 16-bit words, and ``B``, K x N.
    """
    return bf16.values(arrays["A"]).astype(np.float64) @ bf16.values(arrays["B"]).astype(np.float64)
