"""The published kernels of the lessons, with their settings and a launch of each.

In: nothing. Out: ``PUBLISHED``, by name: the lesson and constant of the kernel, the fastest settings of the
lesson, and a function from sizes to a case. ``lesson_texts`` collects the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewise.cuda.cases import Case, case, ceil_div, integers, normal, output
from tilewise.cuda.tensor_map import tensor_map


@dataclass(frozen=True)
class Published:
    """A kernel that can be imported."""

    lesson: str
    """The lesson's id, e.g. ``matmul/register_tiles``."""
    constant: str
    """The lesson's constant with the kernel, e.g. ``STAGED``."""
    does: str
    """What it computes, one sentence."""
    inputs: Callable[..., Case] | None = None
    """From sizes by name to a case; None for kernels that only functions on arrays launch."""
    defines: Mapping[str, int | str] = field(default_factory=dict)
    """Values for its `#define` lines that the lesson sets."""
    entry: str | None = None
    """One of the text's kernels; None takes the constant's own."""
    options: tuple[str, ...] = ()
    """The lesson's compiler options."""


def _sum(n: int) -> Case:
    blocks = max(1, min(1056, ceil_div(n, 4096)))
    return case(x=normal(n), sums=output(blocks), total=output(1), n=n, grid=blocks, block=256)


def _transpose(R: int, C: int) -> Case:  # noqa: N803 - as the kernel names them
    return case(A=normal(R, C), B=output(C, R), R=R, C=C, grid=(ceil_div(R, 64), ceil_div(C, 64)), block=256)


def _product(
    M: int,  # noqa: N803 - as the kernel names them
    N: int,  # noqa: N803 - likewise
    K: int,  # noqa: N803 - likewise
    aligned: int,
    columns: int,
    stages: int,
) -> Case:
    if aligned and N % 4:
        repair = f"Take kernel(name, ALIGNED=0) and case_of(name, M={M}, N={N}, K={K}, aligned=0)."
        raise ValueError(
            f"N = {N}, which 4 does not divide, and the kernel loads 16 bytes at a time. {repair}"
        )
    width = 16 * columns
    return case(
        A=normal(M, K),
        B=normal(K, N, scale=K**-0.5),
        C=output(M, N),
        M=M,
        N=N,
        K=K,
        grid=ceil_div(N, width) * ceil_div(M, 128),
        block=256,
        shared_bytes=4 * stages * 32 * (128 + 4 + width),
    )


def _wide_product(M: int, N: int, K: int, aligned: int = 1) -> Case:  # noqa: N803 - as the kernel names them
    return _product(M, N, K, aligned, columns=16, stages=3)


def _narrow_product(M: int, N: int, K: int, aligned: int = 1) -> Case:  # noqa: N803 - as the kernel names them
    return _product(M, N, K, aligned, columns=8, stages=2)


def hilbert(rows: int, columns: int) -> list[tuple[int, int]]:
    """The tiles of a matrix along a Hilbert curve, so that tiles close in time share rows or columns.

    Args:
        rows: height of the matrix in tiles.
        columns: width of the matrix in tiles.

    Returns:
        (row, column) of each tile. The curve fills the smallest power-of-two square around the matrix; tiles
        outside the matrix are omitted.
    """
    side = 1
    while side < max(rows, columns):
        side *= 2
    path = []
    for step in range(side * side):
        i = j = 0
        size, rest = 1, step
        while size < side:
            down = rest // 2 % 2
            right = (rest ^ down) % 2
            if not right:
                if down:
                    i, j = size - 1 - i, size - 1 - j
                i, j = j, i
            i, j = i + size * down, j + size * right
            rest //= 4
            size *= 2
        if i < rows and j < columns:
            path.append((i, j))
    return path


def _hopper_product(M: int, N: int, K: int, sms: int = 132) -> Case:  # noqa: N803 - as the kernel names them
    order = hilbert(ceil_div(M, 256), ceil_div(N, 256))  # tiles of 128 by 256, two in a cluster
    rounds = ceil_div(len(order), sms // 2)  # the smallest grid for this number of rounds
    boxes = {"a_map": ("A", 128), "b_map": ("B", 64), "c_map": ("C", 64)}
    maps: dict[str, Any] = {
        name: tensor_map(array, box=(height, 64), swizzle=128, dtype="bfloat16")
        for name, (array, height) in boxes.items()
    }
    return case(
        A=normal(M, K, dtype="bfloat16"),
        B=normal(K, N, dtype="bfloat16", scale=K**-0.5),
        C=output(M, N, dtype="bfloat16"),
        order=np.array(order, np.int32),
        tiles=len(order),
        K=K,
        grid=2 * ceil_div(len(order), rounds),
        block=384,
        shared_bytes=4 * 49152 + 32768,
        **maps,
    )


def _padding(n: int) -> Case:
    stride = ceil_div(n, 8) * 8
    return case(
        A=integers(n, n, low=0, high=65536, dtype="uint16"),
        B=integers(n, n, low=0, high=65536, dtype="uint16"),
        wide_A=output(stride, stride, dtype="uint16"),
        wide_B=output(stride, stride, dtype="uint16"),
        n=n,
        stride=stride,
        grid=(ceil_div(stride**2 // 8, 1024), 2),
        block=256,
    )


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "sum_fp32": Published(
            lesson="memory/reductions",
            constant="FOUR",
            entry="sum_at_once",
            does="total[0] = the sum of x[0 .. n); `sums` is room for a number a block.",
            inputs=_sum,
            defines={"LOADS": 4},
        ),
        "transpose_fp32": Published(
            lesson="memory/banks",
            constant="TURN_WIDE_DOWN",
            does="B = A transposed, A of R rows and C columns.",
            inputs=_transpose,
            defines={"T": 64, "DOWN": 1},
        ),
        "matmul_fp32": Published(
            lesson="matmul/register_tiles",
            constant="STAGED",
            does="C = A B with A of M rows and K columns; where 4 does not divide N, set ALIGNED to 0.",
            inputs=_wide_product,
            defines={"ALIGNED": 1, "STAGES": 3, "PAD": 4, "COLUMNS": 16, "SNAKE": 1, "LOOSE": 1},
        ),
        "matmul_fp32_narrow": Published(
            lesson="matmul/register_tiles",
            constant="STAGED",
            does="The same with tiles of 128 by 128, two blocks on an SM: for smaller and for awkward sizes.",
            inputs=_narrow_product,
            defines={"ALIGNED": 1, "STAGES": 2, "PAD": 4, "COLUMNS": 8, "SNAKE": 1, "LOOSE": 1},
        ),
        "matmul_bf16": Published(
            lesson="matmul/hopper",
            constant="GEMM",
            does="C = A B in BF16, summed in 32 bits, on Hopper, by tensor maps; 8 must divide N and K.",
            inputs=_hopper_product,
            defines={"CLUSTER": 2, "STAGES": 4},
            options=("-std=c++17", "-arch=sm_90a"),
        ),
        "pad_both_16bit": Published(
            lesson="matmul/alignment",
            constant="PAD_BOTH",
            does="A and B, n by n numbers of 16 bits, to rows of `stride`, a multiple of 8, and as many.",
            inputs=_padding,
        ),
        "softmax_on_chip": Published(
            lesson="attention/softmax",
            constant="ON_CHIP",
            does="Y = softmax of each row of X, the row in registers, for up to TEAM * SHARE columns.",
            defines={"Number": "float", "TEAM": 8, "THREADS": 64, "SHARE": 8},
            options=("-std=c++17",),
        ),
        "softmax_long": Published(
            lesson="attention/softmax_long",
            constant="LONG",
            does="Y = softmax of each row of X, the row in the registers of a cluster's blocks, on Hopper.",
            defines={
                **{"Number": "float", "THREADS": 64, "SHARE": 8, "BLOCKS": 2},
                **{"SLOTS": 2, "AT_ONCE": 1, "LAG": 0},
            },
            options=("-std=c++17", "-arch=sm_90a"),
        ),
        "softmax_online": Published(
            lesson="attention/softmax",
            constant="SOFTMAX_THREE",
            entry="softmax_online",
            does="Y = softmax of each row of X in two passes, any length, aligned to 4 bytes.",
        ),
        "attention_fp32": Published(
            lesson="attention/flash_forward",
            constant="KERNEL_6",
            entry="flash_tiles",
            does="part = softmax(scale Q K^T + bias) V over a split of the keys, L its log-sum-exp; d = 128.",
            defines={"D": 128, "ROWS": 4, "KEYS": 8, "WARPS": 8},
            options=("-std=c++17",),
        ),
        "attention_mma": Published(
            lesson="attention/matrix_units",
            constant="FLASH_MMA",
            does="O = softmax(scale Q K^T) V in BF16 by mma.sync, L its log-sum-exp; d = 64 or 128.",
            defines={"D": 128, "CAUSAL": 0, "TILES": 2, "KEYS": 64},
        ),
        "attention_hopper": Published(
            lesson="attention/hopper",
            constant="FLASH_HOPPER",
            does="The same on Hopper: TMA, wgmma, ping-pong, a list of query tiles for each block.",
            defines={"D": 128, "CAUSAL": 0, "TURNS": 1},
            options=("-std=c++17", "-arch=sm_90a"),
        ),
        "decode_rows": Published(
            lesson="attention/decoding",
            constant="DECODE_ROWS",
            entry="decode_rows",
            does="part = attention of one query per head over a split of a BF16 cache; then combine_shares.",
            defines={"GROUP": 4, "WARPS": 8},
        ),
        "attention_backward_hopper": Published(
            lesson="attention/masks_and_backward",
            constant="BACKWARD",
            entry="backward",
            does="The gradients of attention in BF16 on Hopper; d = 128; before it prepare, after it finish.",
            options=("-std=c++17", "-arch=sm_90a"),
        ),
    }
)
"""All kernels of ``tilewise.kernels``, by name."""
