"""Attention for measurements and checks: inputs, float64 references, and difficult cases.

In: sizes, or the arrays of a run. Out: arrays of cases, and reference results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewise import bf16
from tilewise.cuda.cases import normal, output
from tilewise.gpu.device import gpu_here
from tilewise.kernel.comparison import check
from tilewise.kernel.launch import Launch
from tilewise.measurements.readings import recorded
from tilewise.outputs import Column, Table

DIFFICULT: dict[str, dict[str, Any]] = {
    "keys that no tile divides": {"N": 100, "d": 64, "M": 200},
    "a causal mask": {"N": 200, "d": 64, "causal": True},
    "other lengths, four heads share two": {"N": 75, "d": 128, "M": 170, "heads": 4, "share": 2}
    | {"causal": True, "shift": 95},
    "queries without a key": {"N": 150, "d": 64, "M": 70, "causal": True, "shift": -80},
    "large logits": {"N": 70, "d": 128, "M": 140, "stretch": 30.0},
}
"""Sizes for ``bf16_inputs`` that attention kernels tend to get wrong."""
ROUNDED = 2**-7
"""The tolerance for BF16 results: weights and results are rounded, each to 2**-9."""

KERNELS = (
    ("1: one thread", "ten loops in one thread", "one_thread.kernel_1_one_thread"),
    ("2: three kernels", "independent loops as grid axes", "three_kernels.kernel_2_three_kernels"),
    ("3: coalesced", "lanes along the queries, arrays transposed", "coalesced.kernel_3_coalesced"),
    ("4: reduced", "reductions within a block", "reduced.kernel_4_reduced_by_blocks"),
    ("5: tiles", "both GEMMs tiled in shared memory", "tiled.kernel_5_tiles"),
    ("6: flash", "S and P never stored; keys split over blocks", "flash.kernel_6_flash"),
)
"""The FP32 attention kernels: number and name, what is new, and the row of the record."""


def attention_so_far(kernels: int) -> Table:
    """A table of the recorded times of the first attention kernels and of PyTorch.

    Args:
        kernels: how many; the sixth adds PyTorch's fused attention.
    """
    library = "flash" if kernels == len(KERNELS) else "three_kernels"
    rows = [(f"Kernel {name}", what, path) for name, what, path in KERNELS[:kernels]]
    rows.append(("torch, three operations", "library", f"{library}.torch_three_operations"))
    if library == "flash":
        rows.append(("torch, fused", "library", "flash.torch_fused"))
    return Table(
        ["version", "what is new", *(Column(f"N\u00a0=\u00a0{N:,}", "µs") for N in (256, 1024))],
        [
            [name, what, *(recorded(f"attention_{path}.n_{N}_d_128.median", None) for N in (256, 1024))]
            for name, what, path in rows
        ],
        caption="Attention so far: FP32, one head, d = 128, on an {machine}; Kernel 1 at N = 256 only.",
    )


def attention(Q: Any, K: Any, V: Any, bias: Any, scale: Any) -> dict[str, Any]:  # noqa: N803 - as kernels say
    """Attention with a bias on the logits, in float64.

    Args:
        Q: ... x N x d queries.
        K: ... x M x d keys.
        V: ... x M x d values.
        bias: added to the ... x N x M scaled logits; minus infinity masks a key.
        scale: the factor of the logits.

    Returns:
        ``O``, ... x N x d; zeros for a query without a key.
    """
    queries, keys, values, added = (np.asarray(array, np.float64) for array in (Q, K, V, bias))
    logits = scale * queries @ np.swapaxes(keys, -1, -2) + added
    top = logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits - np.where(top > -np.inf, top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    return {"O": weights @ values / np.where(total > 0, total, 1.0)}


def stored_attention(Q: Any, K: Any, V: Any, scale: Any) -> dict[str, Any]:  # noqa: N803 - as kernels say
    """Attention of one head in float64, with all intermediate matrices.

    Args:
        Q: N x d queries.
        K: M x d keys.
        V: M x d values.
        scale: the factor of the logits.

    Returns:
        ``S``, the N x M logits, ``P``, the weights, and ``O``, N x d.
    """
    queries, keys, values = (np.asarray(array, np.float64) for array in (Q, K, V))
    logits = scale * queries @ keys.T
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return {"S": logits, "P": weights, "O": weights @ values}


def shifted_attention(Q: Any, K: Any, V: Any, share: int, shift: int, scale: float) -> dict[str, Any]:  # noqa: N803
    """Attention with a shifted causal mask in float64, on the GPU if there is one.

    Args:
        Q: heads x N x d queries.
        K: (heads / share) x M x d keys.
        V: (heads / share) x M x d values.
        share: query heads per KV head.
        shift: query i attends to the keys up to i + shift.
        scale: the factor of the logits.

    Returns:
        ``O``, heads x N x d, and ``L``, heads x N, the log-sum-exps; zeros and minus infinity for a query
        without a key.
    """
    xp: Any = np
    if gpu_here():
        import cupy

        xp = cupy
    out, lse = xp.zeros(Q.shape), xp.full(Q.shape[:2], -np.inf)
    for h in range(len(Q)):
        k, v = xp.asarray(K[h // share]), xp.asarray(V[h // share])
        for start in range(0, Q.shape[1], 2048):
            rows = slice(start, min(start + 2048, Q.shape[1]))
            i, j = xp.arange(rows.start, rows.stop)[:, None], xp.arange(K.shape[1])[None]
            s = float(scale) * xp.asarray(Q[h, rows]) @ k.T
            s = xp.where(j > i + int(shift), -np.inf, s)
            m = s.max(axis=1)
            p = xp.exp(s - xp.where(m > -np.inf, m, 0.0)[:, None])
            z = p.sum(axis=1)
            some = xp.where(z > 0, z, 1.0)
            out[h, rows] = p @ v / some[:, None]
            lse[h, rows] = xp.where(z > 0, m + xp.log(some), -np.inf)
    return {"O": out if xp is np else xp.asnumpy(out), "L": lse if xp is np else xp.asnumpy(lse)}


def bf16_inputs(
    N: int,  # noqa: N803
    d: int,
    M: int | None = None,  # noqa: N803
    heads: int = 1,
    share: int = 1,
    shift: int | None = None,
    causal: bool = False,
    stretch: float = 1.0,
) -> dict[str, Any]:
    """BF16 inputs and outputs of ``shifted_attention`` for a case.

    Args:
        N: queries per head.
        d: head dimension.
        M: keys per head; N by default.
        heads: query heads.
        share: query heads per KV head.
        shift: of the mask; by default 0 if causal, else enough that every query attends to every key.
        causal: whether there is a mask.
        stretch: a factor for the queries.
    """
    keys = N if M is None else M
    of_keys = (heads // share, keys, d)
    return {
        "Q": normal(heads, N, d, scale=stretch, dtype="bfloat16"),
        "K": normal(*of_keys, dtype="bfloat16"),
        "V": normal(*of_keys, dtype="bfloat16"),
        "L": output(heads, N),
        "O": output(heads, N, d, dtype="bfloat16"),
        "N": N,
        "M": keys,
        "share": share,
        "shift": (0 if causal else keys) if shift is None else shift,
        "scale": d**-0.5,
    }


def right_answer(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """``shifted_attention`` of the BF16 inputs among a run's arrays."""
    wide = {name: bf16.values(arrays[name]).astype(np.float64) for name in "QKV"}
    return shifted_attention(**wide, **{name: arrays[name] for name in ("share", "shift", "scale")})


def check_difficult(launch_of: Callable[..., Launch], name: str, which: Any = tuple(DIFFICULT)) -> None:
    """Run difficult cases and compare O and L with float64.

    Args:
        launch_of: creates a launch with the sizes of a case of ``DIFFICULT``.
        name: the results' name on the page, e.g. ``of one consumer``.
        which: names of the cases.
    """
    runs = [launch_of(**DIFFICULT[case]).run() for case in which]
    answers = [right_answer(run) for run in runs]
    for array, tolerance in (("O", ROUNDED), ("L", 1e-5)):
        results = [(bf16.values(run[array]) if array == "O" else run[array]).ravel() for run in runs]
        check(
            np.concatenate(results),
            np.concatenate([answer[array].ravel() for answer in answers]),
            rtol=tolerance,
            atol=tolerance,
            name=f"{array} {name}, {len(runs)} difficult cases",
        )
