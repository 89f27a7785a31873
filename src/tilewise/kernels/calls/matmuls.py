"""Matrix multiplication with a bias and an activation.

In: two arrays whose last two axes are matrices, of any strides: a transposed view is a layout like another.
Out: their product. FP32 takes the register-tiled kernel; BF16 on Hopper takes TMA and wgmma, after a copy
into padded rows where TMA cannot reach them; everything else takes a general kernel.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilewise.cuda.cases import ceil_div
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernels.calls.arrays import (
    C_TYPES,
    Tensor,
    apart,
    at,
    constant,
    result,
    returned,
    same_kind,
    same_place,
    taken,
    workspace,
    wrong,
)
from tilewise.kernels.calls.launching import (
    AMPERE,
    HOPPER,
    Choice,
    Step,
    capability,
    general,
    merged,
    multiprocessors,
    packed,
    packing,
    run,
)
from tilewise.kernels.calls.plans import planned
from tilewise.kernels.published import hilbert

ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "silu": 3}
"""What may follow; `gelu` is the approximation by a hyperbolic tangent."""
_MANY, _SMALL, _SMS = 16, 128, 132
_MOST_AT_ONCE = 65_535


def choose(
    m: int,
    n: int,
    k: int,
    kind: str,
    *,
    matrices: int = 1,
    arch: int,
    rows: bool = True,
    plain: bool = True,
) -> Choice:
    """Which kernel multiplies matrices of a size.

    Args:
        m: rows of the first and of the product.
        n: columns of the second and of the product.
        k: columns of the first, rows of the second.
        kind: the element type.
        matrices: how many products.
        arch: the compute capability, such as 90.
        rows: whether the FP32 product and the second factor have rows at multiples of 16 bytes.
        plain: whether both BF16 factors are row-major, and every row of the product is at a multiple of 16 bytes.
    """
    number = {"Number": C_TYPES[kind]}
    if kind == "float16":
        return Choice("general/matmul", "no lesson multiplies FP16", number)
    if matrices > _MANY:
        return Choice("general/matmul", f"{matrices} products in one launch", number)
    if kind == "bfloat16" and k:
        if arch != HOPPER:
            return Choice("general/matmul", "the BF16 kernel needs a GPU of compute capability 9.0", number)
        return _tiles(m, n, k, plain)
    if max(m, n) < _SMALL or k == 0:
        return Choice("general/matmul", f"{m} x {n} is less than one tile of the fast kernels", number)
    if kind == "float32" and arch < AMPERE:
        return Choice("general/matmul", "the FP32 kernel needs a GPU of compute capability 8.0", number)
    wide = ceil_div(m, 128) * ceil_div(n, 256) >= 132
    settings = {"ALIGNED": int(n % 4 == 0 and rows), "PAD": 4, "SNAKE": 1, "LOOSE": 1}
    if wide:
        why = "FP32, enough tiles of 128 x 256 for every SM"
        return Choice("matmul_fp32", why, {**settings, "STAGES": 3, "COLUMNS": 16})
    why = "FP32, too few tiles of 128 x 256 for every SM"
    return Choice("matmul_fp32_narrow", why, {**settings, "STAGES": 2, "COLUMNS": 8})


@dataclass(frozen=True)
class Tile:
    """A setting of the BF16 kernels, with what was measured of it on an H200."""

    groups: int
    """Consumer warpgroups, of 64 rows each."""
    columns: int
    """Columns of a tile."""
    stages: int
    """Stages of 64 steps of k in shared memory."""
    per_sm: int
    """Blocks that an SM has room for."""
    step_us: float
    """Time of 64 steps of k where an SM has enough blocks."""


TILES = (
    Tile(1, 64, 4, 3, 0.13),
    Tile(1, 128, 4, 2, 0.22),
    Tile(2, 64, 4, 2, 0.22),
    Tile(2, 128, 3, 2, 0.40),
    Tile(2, 256, 4, 1, 0.80),
)
"""Of the general BF16 kernel."""
_ALONE_US, _BLOCK_US, _SPLIT_US, _LESSON_STEP_US = 0.30, 1.2, 1.0, 0.72


def _tiles(m: int, n: int, k: int, plain: bool) -> Choice:
    """The BF16 kernel and its tile that should be done first."""
    steps, found = ceil_div(k, 64), []
    for one in TILES:
        tiles = ceil_div(m, 64 * one.groups) * ceil_div(n, one.columns)
        for split in (1, 2, 4, 8):
            if split > 1 and (one.columns == 256 or tiles * split > 264 or split > steps):
                continue
            per_sm = ceil_div(tiles * split, _SMS)  # blocks that the busiest SM gets
            per_block = ceil_div(steps, split)
            waves = ceil_div(per_sm, one.per_sm)
            work = max(per_sm * per_block * one.step_us, waves * per_block * _ALONE_US)
            time = work + waves * _BLOCK_US + (_SPLIT_US if split > 1 else 0.0)
            settings = {"GROUPS": one.groups, "BN": one.columns, "STAGES": one.stages, "SPLIT": split}
            found.append((time, settings))
    time, settings = min(found, key=lambda pair: pair[0])
    rounds = ceil_div(ceil_div(m, 256) * ceil_div(n, 256), _SMS // 2)
    if plain and rounds * steps * _LESSON_STEP_US + 2 * _BLOCK_US < time:
        why = "BF16 on Hopper: TMA, wgmma, clusters of two"
        return Choice("matmul_bf16", why, {"CLUSTER": 2, "STAGES": 4})
    high, wide, split = 64 * settings["GROUPS"], settings["BN"], settings["SPLIT"]
    why = f"BF16 on Hopper: tiles of {high} x {wide}" + (f", k split over {split} blocks" if split > 1 else "")
    return Choice("general/matmul_hopper", why, settings)


@planned
def matmul(
    a: Any,
    b: Any,
    bias: Any = None,
    activation: str | None = None,
    *,
    dtype: str | None = None,
    out: Any = None,
) -> Any:
    """activation(a @ b + bias), accumulated in FP32.

    Args:
        a: (..., M, K), float32, bfloat16 or float16, of any strides, such as `a.T` has.
        b: (..., K, N), of the same type; leading axes broadcast.
        bias: (N,), of the same type, or None.
        activation: None, "relu", "gelu" or "silu".
        dtype: "bfloat16" where uint16 arrays of NumPy or CuPy hold BF16.
        out: a contiguous array of the result's shape and type to write to.

    Returns:
        An array (..., M, N) of the sort and type of `a`. In BF16 the FP32 sum is rounded before bias and
        activation where a fast kernel multiplies.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    left, right = taken("matmul", "a", a, dtype=dtype), taken("matmul", "b", b, dtype=dtype)
    added = None if bias is None else taken("matmul", "bias", bias, dtype=dtype, axes=(1,))
    every = [one for one in (left, right, added) if one is not None]
    same_place("matmul", *every)
    same_kind("matmul", *every)
    apart("matmul", out, a=a, b=b, **({} if bias is None else {"bias": bias}))
    shape = _shape(left, right)
    if activation not in ACTIVATIONS:
        raise KernelError(f'matmul: activation is {activation!r}. Pass None, "relu", "gelu" or "silu".')
    if added is not None and added.shape != shape[-1:]:
        raise wrong("matmul", "bias", f"has shape {added.shape}", f"Pass {shape[-1]} elements, one a column")
    made = result("matmul", left, shape, left.kind, out)
    with at(left):
        if 0 not in shape:
            run("matmul", _steps(left, right, added, ACTIVATIONS[activation], made))
    return returned(made)


def _shape(left: Tensor, right: Tensor) -> tuple[int, ...]:
    for one in (left, right):
        if len(one.shape) < 2:
            raise wrong(
                "matmul", one.name, f"has shape {one.shape}", "Pass two axes or more, x[None] for a row"
            )
    if left.shape[-1] != right.shape[-2]:
        raise wrong(
            "matmul",
            "b",
            f'has {right.shape[-2]} rows, and "a" has {left.shape[-1]} columns',
            "Pass matrices whose inner extents agree",
        )
    try:
        leading: tuple[int, ...] = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise wrong(
            "matmul", "b", f'has shape {right.shape}, and "a" has {left.shape}', "Make leading axes agree"
        ) from None
    shape = (*leading, left.shape[-2], right.shape[-1])
    if max(*shape, left.shape[-1]) >= 2**31:
        raise KernelError(f"matmul: {shape} has an extent of 2^31 or more. Pass fewer rows at a time.")
    return shape


def _steps(left: Tensor, right: Tensor, bias: Tensor | None, activation: int, made: Tensor) -> list[Step]:
    m, n = made.shape[-2:]
    k, matrices = left.shape[-1], int(np.prod(made.shape[:-2], dtype=object))
    a, before = _stacked(left, made.shape[:-2])
    b, more = _stacked(right, made.shape[:-2])
    steps = [*before, *more]
    if bias is not None and not bias.contiguous:
        bias, more = packed("matmul", bias)
        steps += more
    whole = b.aligned() and made.aligned()
    plain = made.aligned() and n % 8 == 0 and all(one.steps[2] == 1 or one.shape[2] == 1 for one in (a, b))
    arch = capability()
    choice = choose(m, n, k, left.kind, matrices=matrices, arch=arch, rows=whole, plain=plain)
    if choice.kernel == "general/matmul":
        return [*steps, _general(choice, a, b, bias, activation, made, matrices)]
    product = made.of(made.data.reshape(matrices, m, n))
    for at_ in range(matrices):
        left, right = (one.of(one.data[at_ if one.shape[0] > 1 else 0]) for one in (a, b))
        into = made.of(product.data[at_])
        if choice.kernel == "general/matmul_hopper":
            steps += _hopper(choice, left, right, bias, activation, into)
        else:
            steps += (_lesson if choice.kernel == "matmul_bf16" else _fp32)(choice, left, right, into)
    return steps if choice.kernel == "general/matmul_hopper" else steps + _epilogue(bias, activation, made)


def _stacked(given: Tensor, leading: tuple[int, ...]) -> tuple[Tensor, list[Step]]:
    """A factor as one stack of matrices, evenly apart; of one matrix where all products share it."""
    if all(extent == 1 for extent in given.shape[:-2]):
        return given.of(given.data.reshape(1, *given.shape[-2:])), []
    module = np if given.device is None else importlib.import_module("cupy")
    wide = given.of(module.broadcast_to(given.data, (*leading, *given.shape[-2:])))
    steps: list[Step] = []
    extents, strides = merged(wide, keep=2)
    if len(extents) > 3:
        wide, steps = packed("matmul", wide)
        extents, strides = merged(wide, keep=2)
    size = int(given.data.itemsize)
    as_strided = module.lib.stride_tricks.as_strided
    return given.of(as_strided(wide.data, extents, tuple(size * one for one in strides))), steps


def _general(
    choice: Choice,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    activation: int,
    made: Tensor,
    matrices: int,
) -> Step:
    m, n = made.shape[-2:]
    k = a.shape[-1]
    settings = {
        **choice.settings,
        "ACTIVATION": activation,
        "A_BY_ROWS": int(a.steps[2] <= a.steps[1]),
        "B_BY_ROWS": int(b.steps[2] <= b.steps[1]),
    }
    if k == 0:  # nothing is read, but a pointer must be one
        a, b = (one.of(workspace("matmul", one, (1, 1, 1), one.kind)) for one in (a, b))
    steps = [0 if one.shape[0] == 1 else one.steps[0] for one in (a, b)]
    arguments = (
        *(a.flat(), b.flat(), None if bias is None else bias.data, made.data.reshape(-1), m, n, k),
        *(a.steps[1], a.steps[2], steps[0], b.steps[1], b.steps[2], steps[1], matrices),
    )
    grid = (ceil_div(m, 64) * ceil_div(n, 64), min(matrices, _MOST_AT_ONCE))
    return Step(general("matmul", "matmul", **settings), arguments, grid, 256)


def _fp32(choice: Choice, a: Tensor, b: Tensor, c: Tensor) -> list[Step]:
    steps: list[Step] = []
    rows = []
    for one in (a, b):
        row, more = (one, []) if one.contiguous else packed("matmul", one)
        rows.append(row.flat())
        steps += more
    (m, n), k, sizes = c.shape, a.shape[-1], choice.settings
    width = 16 * sizes["COLUMNS"]
    shared = 4 * sizes["STAGES"] * 32 * (128 + sizes["PAD"] + width)
    grid = ceil_div(n, width) * ceil_div(m, 128)
    return [*steps, Step(choice.load(), (*rows, c.data.reshape(-1), m, n, k), grid, 256, shared)]


def _lesson(choice: Choice, a: Tensor, b: Tensor, c: Tensor) -> list[Step]:
    (left, right), steps = _for_tma(a, b)
    order = constant(c, _order(ceil_div(c.shape[0], 256), ceil_div(c.shape[1], 256)))
    tiles, clusters = len(order), multiprocessors() // 2
    grid = 2 * ceil_div(tiles, ceil_div(tiles, clusters))
    maps = (_map(left, a.shape, 128), _map(right, b.shape, 64), _map(c, c.shape, 64))
    given = dict(zip(("a_map", "b_map", "c_map"), maps, strict=True))
    given |= {"order": order, "tiles": tiles, "K": a.shape[-1]}
    kernel = choice.load()
    shared = 4 * 49152 + 32768
    return [*steps, Step(kernel, tuple(given[one.name] for one in kernel.parameters), grid, 384, shared)]


def _hopper(
    choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, c: Tensor
) -> list[Step]:
    groups, width, stages, split = (choice.settings[name] for name in ("GROUPS", "BN", "STAGES", "SPLIT"))
    (m, n), k, high = c.shape, a.shape[1], 64 * groups
    by_columns = [_transposed(one) for one in (a, b)]
    stored = [one.of(one.data.T) if other else one for one, other in zip((a, b), by_columns, strict=True)]
    (left, right), steps = _for_tma(*stored)
    settings = {
        **choice.settings,
        "A_COLUMNS": int(by_columns[0]),
        "B_ROWS": int(not by_columns[1]),
        "ACTIVATION": activation,
        "WIDE": int(n % 8 == 0 and c.aligned()),
    }
    a_map = _map(left, stored[0].shape, 64 if by_columns[0] else high)
    b_map = _map(right, stored[1].shape, width if by_columns[1] else 64)
    bias_line = None if bias is None else bias.data
    arguments = (a_map, b_map, c.data.reshape(-1), bias_line, m, n, k)
    tile = high * width * 4 if split > 1 else high * (width + 8) * 2
    shared = max(stages * (high + width) * 128, tile)
    grid = ceil_div(m, high) * ceil_div(n, width) * split
    kernel = general("matmul_hopper", **settings)
    return [*steps, Step(kernel, arguments, grid, 128 * groups + 32, shared)]


def _transposed(one: Tensor) -> bool:
    """Whether a matrix is the transpose of one without gaps, and not itself without gaps."""
    return not one.contiguous and bool(one.data.T.flags.c_contiguous)


def _for_tma(*given: Tensor) -> tuple[list[Tensor], list[Step]]:
    """Matrices whose rows begin at multiples of 16 bytes: themselves, or copies into wider rows."""
    made: list[Tensor] = []
    steps: list[Step] = []
    pads: list[tuple[Any, ...]] = []
    for one in given:
        rows, columns = one.shape
        if one.contiguous and columns % 8 == 0 and one.aligned():
            made.append(one)
            continue
        pitch = ceil_div(columns, 8) * 8
        wide = one.of(workspace("matmul", one, (rows, pitch), one.kind))
        made.append(wide)
        if one.contiguous:
            behind = next(few for few in range(8) if one.aligned(16, 2 * few))
            target = wide.data.reshape(-1)
            pads.append((one.data.reshape(-1), target, rows, columns, pitch, behind))
        else:
            steps += packing("matmul", one, wide.of(wide.data[:, :columns]))
    if pads:
        chunks = sum(rows * pitch // 8 for _, _, rows, _, pitch, _ in pads)
        pads += [(None, None, 0, 8, 8, 0)] * (2 - len(pads))
        arguments = (*pads[0], *pads[1])
        steps.append(Step(general("pad"), arguments, min(ceil_div(chunks, 256), 132 * 16), 256))
    return made, steps


def _map(wide: Tensor, inside: tuple[int, ...], height: int) -> Any:
    return tensor_map(wide.data, box=(height, 64), swizzle=128, shape=inside, dtype="bfloat16")


@cache
def _order(rows: int, columns: int) -> Any:
    return np.array(hilbert(rows, columns), np.int32)


def _epilogue(bias: Tensor | None, activation: int, made: Tensor) -> list[Step]:
    if bias is None and not activation:
        return []
    settings = {"Number": C_TYPES[made.kind], "ACTIVATION": activation, "A_BY_ROWS": 1, "B_BY_ROWS": 1}
    count = int(made.data.size)
    arguments = (made.data.reshape(-1), None if bias is None else bias.data, count, made.shape[-1])
    return [Step(general("matmul", "epilogue", **settings), arguments, min(ceil_div(count, 256), 8192), 256)]
