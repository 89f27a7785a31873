"""Matrix multiplication with a bias and an activation.

In: two arrays whose last two axes are matrices, of any strides: a transposed view is a layout like another.
Out: their product. FP32 takes register tiles; BF16 and FP16 take tensor cores: on Hopper TMA and wgmma, after
a copy into padded rows where TMA cannot reach them, or mma.sync, which takes rows that begin anywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    FILLED,
    HOPPER,
    WORDS,
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
_MANY, _SMS = 16, 132
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
    loads: tuple[int, int] = (16, 16),
    pads: bool = False,
    a_rows: bool = True,
    across: tuple[bool, bool] = (False, False),
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
        plain: whether both 16-bit factors are row-major, and rows of the product at multiples of 16 bytes.
        loads: of each 16-bit factor, the bytes at whose multiples its rows, or columns, begin: 16, 8, 4 or 2;
            0 where neither are without gaps.
        pads: whether 16-bit factors of less than 16 may be copied into wider rows for `general/matmul_mma`.
        a_rows: whether TMA loads rows of the first factor: it is not the transpose of one without gaps.
        across: of each 16-bit factor, whether its lines begin elsewhere than at multiples of 128 bytes.
    """
    number = {"Number": C_TYPES[kind]}
    if k == 0:
        return Choice("general/matmul", "there is nothing to add up", number)
    if kind != "float32" and arch >= AMPERE and 0 not in loads:
        return _tiles(m, n, k, kind, matrices, arch, plain, loads, pads, a_rows, across)
    if kind != "float32" and arch >= AMPERE:
        return Choice("general/matmul", "neither rows nor columns of a factor are without gaps", number)
    if matrices > _MANY:
        return Choice("general/matmul", f"{matrices} products in one launch", number)
    if arch >= AMPERE:
        return _tiles_fp32(m, n, k, rows, arch)
    return Choice("general/matmul", f"the fast kernels for {kind} need a newer GPU", number)


@dataclass(frozen=True)
class Tile:
    """A setting of a general kernel, with what was measured of it on an H200: models of time need it."""

    settings: Mapping[str, int]
    """Values for `#define` lines, but for SPLIT."""
    high: int
    """Rows of the product that a block computes."""
    wide: int
    """Columns."""
    deep: int
    """Steps of k at once."""
    per_sm: int
    """Blocks that an SM has room for."""
    busy_us: float
    """Time of `deep` steps of a block where the SM has others to turn to."""
    alone_us: float
    """The same where it has not."""
    splits: tuple[int, ...] = (1,)
    """Over how many blocks k may be split."""


def _hopper_tile(
    groups: int,
    wide: int,
    stages: int,
    pair: int,
    per_sm: int,
    busy: float,
    alone: float,
    most: int = 1,
    transposed: int = 0,
    parts: int = 1,
) -> Tile:
    settings = {"GROUPS": groups, "BN": wide, "STAGES": stages, "PAIR": pair, "TRANSPOSED": transposed}
    settings |= {"PARTS": parts, "PER_SM": per_sm}
    splits = tuple(one for one in (1, 2, 3, 4, 6, 8) if one <= most)
    high = 64 * parts * groups
    high, wide = (wide, high) if transposed else (high, wide)
    return Tile(settings, high, wide, 64, per_sm, busy, alone, splits)


def _fp32_tile(
    high: int, wide: int, by: tuple[int, int], deep: int, stages: int, per_sm: int, *times: float
) -> Tile:
    settings = {"BM": high, "BN": wide, "ROWS": by[0], "COLS": by[1], "DEEP": deep, "STAGES": stages}
    settings |= {"SLICES": max(1, 128 * by[0] * by[1] // high // wide), "PER_SM": per_sm}
    return Tile(settings, high, wide, deep, per_sm, times[0], times[1], (1, 2, 3, 4, 6, 8))


def _mma_tile(high: int, wide: int, warps: tuple[int, int], stages: int, per_sm: int, *times: float) -> Tile:
    settings = {
        "BM": high,
        "BN": wide,
        "WARPS_M": warps[0],
        "WARPS_N": warps[1],
        "STAGES": stages,
        "PER_SM": per_sm,
    }
    return Tile(settings, high, wide, 64, per_sm, times[0], times[1], (1, 2, 4, 8))


MMA_TILES = (
    _mma_tile(32, 32, (2, 2), 4, 6, 0.149, 0.324),
    _mma_tile(32, 64, (1, 4), 4, 4, 0.19, 0.407),
    _mma_tile(64, 32, (2, 2), 4, 4, 0.217, 0.416),
    _mma_tile(128, 32, (4, 1), 4, 2, 0.341, 0.587),
    _mma_tile(64, 64, (2, 2), 4, 3, 0.266, 0.491),
    _mma_tile(128, 128, (2, 4), 3, 1, 0.633, 0.6),
)
"""Of `general/matmul_mma`."""
WGMMA_TILES = (
    _hopper_tile(1, 64, 3, 1, 4, 0.16, 0.348, 8),
    _hopper_tile(1, 64, 12, 1, 1, 0.127, 0.127, 8),
    _hopper_tile(1, 96, 11, 2, 1, 0.162, 0.162, transposed=1),
    _hopper_tile(1, 128, 3, 1, 3, 0.237, 0.526, 4),
    _hopper_tile(1, 128, 9, 2, 1, 0.19, 0.19),
    _hopper_tile(1, 160, 8, 2, 1, 0.23, 0.23, transposed=1),
    _hopper_tile(1, 192, 7, 2, 1, 0.281, 0.281),
    _hopper_tile(2, 64, 9, 1, 1, 0.224, 0.224, 4),
    _hopper_tile(2, 96, 8, 2, 1, 0.273, 0.273, transposed=1),
    _hopper_tile(2, 128, 3, 1, 2, 0.342, 0.571, 4),
    _hopper_tile(2, 128, 6, 2, 1, 0.316, 0.316),
    _hopper_tile(2, 128, 7, 1, 1, 0.352, 0.352, transposed=1),
    _hopper_tile(2, 160, 6, 2, 1, 0.365, 0.365, transposed=1),
    _hopper_tile(2, 192, 5, 2, 1, 0.421, 0.421),
    _hopper_tile(2, 256, 4, 1, 1, 0.582, 0.582, 4),
    _hopper_tile(2, 192, 4, 1, 1, 0.8, 0.8, parts=2),
    _hopper_tile(3, 64, 7, 1, 1, 0.334, 0.334, 4),
    _hopper_tile(3, 128, 5, 1, 1, 0.478, 0.478, 4),
    _hopper_tile(3, 160, 4, 1, 1, 0.527, 0.527, transposed=1),
    _hopper_tile(3, 192, 4, 1, 1, 0.612, 0.612, 4),
)
"""Of `general/matmul_hopper`. TMA loads a factor stored along k in boxes of any height, so tiles of 96 and
160 rows are wgmma's columns of the transposed product, where A is row-major: fewer SMs stay empty in the last
wave. Of a tile of 256 x 192 a warpgroup has two parts of 64 rows, in 192 registers of each thread. Tiles for
a short k have few stages, so that an SM has room for three or four blocks."""
FP32_TILES = (
    _fp32_tile(32, 32, (8, 4), 32, 4, 5, 0.252, 0.267),
    _fp32_tile(32, 64, (4, 8), 32, 3, 4, 0.399, 0.485),
    _fp32_tile(64, 64, (8, 8), 32, 3, 3, 0.777, 0.967),
    _fp32_tile(64, 128, (8, 8), 16, 4, 3, 0.665, 0.918),
    _fp32_tile(128, 128, (8, 8), 16, 4, 2, 1.41, 1.44),
)
"""Of `general/matmul_fp32`."""


@dataclass(frozen=True)
class Overheads:
    """Times of a kernel besides its tiles'.

    Fitted, with the tiles' times, on an H200: for `general/matmul_hopper` to 1,417 random products whose rows
    begin at multiples of 16 bytes, with 53 tiles, of which those are left that choose best; for the others to
    the tiles and splits of some 800 products. Where a time is near the best, the model is within 9 % of it;
    the tiles that it chooses take 1 to 3 % longer than the best.
    """

    launch_us: float
    """Of the launch."""
    wave_us: float
    """Of a wave of blocks."""
    results_us: float
    """Of a wave, for 8,192 results of a tile."""
    split_us: float
    """Of adding up what the blocks of a cluster have."""
    sums_us: float
    """The same, more for 8,192 results of an SM."""
    narrow_us: float
    """More for 8,192 results of an SM where the product's rows begin at multiples of 4 or 8 bytes alone."""
    narrowest_us: float = 0.0
    """Where they begin at multiples of 2."""
    fewer: float = 0.0
    """By what part steps are faster as the part of the SMs that have a block goes to none."""
    byte_us: float = 0.0
    """For each byte of the three matrices."""
    pair_us: float = 0.0
    """Of two blocks that load for each other."""


_WGMMA = Overheads(3.69, 0.935, 0.43, 1.21, 0.419, 0.28, 0.311, 0.319, 0.189e-6, 0.668)
_MMA = Overheads(4.24, 0.638, 0.621, 0.676, 0.82, 0.659, 0.87, 0.289, 0.151e-6)
_FP32 = Overheads(4.51, 0.628, 0.634, 1.1, 0.462, 0.912)
_SLOWER = {16: 0.0, 8: 0.322, 4: 1.25, 2: 2.61}
"""By bytes of a copy: what part of its steps' time a factor adds to it in `general/matmul_mma`."""
_NARROW_B = 0.087
"""The same for B in FP32, for copies of less than 16 bytes."""
_PAD_US, _PAD_BYTE_US = 3.44, 2.41e-7
"""Of copying 16-bit factors into wider rows: of the launch, and of a byte read or written."""
_LESSON_US, _LESSON_ROUND_US, _LESSON_STEP_US = 5.62, 1.42, 0.624
_FP32_LESSON_US, _FP32_STEP_US = 8.49, {16: 5.28, 8: 2.8}
"""Of the lesson's FP32 kernel, beside its steps, and of a step, by columns of a thread."""
_IN_L2, _MISSED = 50_000_000, 0.0533
"""Bytes of the 16-bit factors beyond which a block that loads all of B alone takes this much longer."""
_MANY_FLOP, _THROTTLED = 2e11, 0.08
"""Operations beyond which these kernels take longer than modelled, and how much is added, as a part."""
_ACROSS = (0.302, 0.242)
"""By factor: what part of a step's time it adds, for its part of the bytes, where each piece of 128 bytes
that TMA loads is in two lines of the L2 cache."""


def _time(
    tile: Tile,
    split: int,
    sizes: tuple[int, int, int],
    matrices: int,
    over: Overheads,
    slower: float,
    rows: int,
) -> float:
    """Modelled microseconds: waves of blocks, with their steps of k, which take longer by a part `slower`.

    Rows of the product begin at multiples of `rows` bytes.
    """
    m, n, k = sizes
    pair, results = tile.settings.get("PAIR", 1), tile.high * tile.wide / 8192
    rows_of_pair, columns_of_pair = (1, pair) if tile.settings.get("TRANSPOSED") else (pair, 1)
    pairs = ceil_div(m, tile.high * rows_of_pair) * ceil_div(n, tile.wide * columns_of_pair)
    blocks = pairs * pair * split * matrices
    on_sm, steps = ceil_div(blocks, FILLED[split * pair]), ceil_div(ceil_div(k, tile.deep), split)
    waves = ceil_div(on_sm, tile.per_sm)
    work = steps * max(on_sm * tile.busy_us, waves * tile.alone_us) * (1 + slower)
    work *= 1 - over.fewer * max(0.0, 1 - blocks / _SMS)
    time = over.launch_us + waves * (over.wave_us + over.results_us * results) + work
    time += over.byte_us * 2 * matrices * (m * k + k * n + m * n) + over.pair_us * (pair - 1)
    narrow_us = 0.0 if rows == 16 else over.narrowest_us if rows == 2 else over.narrow_us
    time += on_sm * results * narrow_us
    return time if split == 1 else time + over.split_us + over.sums_us * on_sm * results


def _best(
    tiles: Sequence[Tile], k: int, arch: int, time: Callable[[Tile, int], float]
) -> tuple[float, Tile, int]:
    """The least modelled time, with its tile and split."""
    found = [
        (time(one, split), at, split)
        for at, one in enumerate(tiles)
        for split in (one.splits if arch == HOPPER else (1,))
        if split <= max(1, ceil_div(k, one.deep))
    ]
    least, at, split = min(found)
    return least, tiles[at], split


def _why(kind: str, high: int, wide: int, split: int) -> str:
    return f"{kind}, tiles of {high} x {wide}" + (f", k split over {split} blocks" if split > 1 else "")


def _tiles(
    m: int,
    n: int,
    k: int,
    kind: str,
    matrices: int,
    arch: int,
    plain: bool,
    loads: tuple[int, int],
    pads: bool,
    a_rows: bool,
    across: tuple[bool, bool],
) -> Choice:
    """The 16-bit kernel and its tile that should be done first."""
    sizes, name = (m, n, k), "BF16" if kind == "bfloat16" else "FP16"
    row = load(2 * n)
    narrow = [4.0 * k * lines for lines, bytes_ in ((m, loads[0]), (n, loads[1])) if bytes_ < 16]

    def padding(count: int) -> float:
        return _PAD_US + count * sum(narrow) * _PAD_BYTE_US if narrow else 0.0

    def mma(loads: tuple[int, int]) -> tuple[float, Tile, int]:
        def time(one: Tile, split: int) -> float:
            if 2 in loads:  # registers hold what is to be shifted
                one = replace(one, per_sm=min(3, one.per_sm))
            slower = _SLOWER[loads[0]] * one.high + _SLOWER[loads[1]] * one.wide
            return _time(one, split, sizes, matrices, _MMA, slower / (one.high + one.wide), row)

        return _best(MMA_TILES, k, arch, time)

    def wgmma(one: Tile, split: int) -> float:
        slower = _MISSED if one.settings["PAIR"] == 1 and 2 * k * (m + n) > _IN_L2 else 0.0
        slower += _THROTTLED if 2 * m * n * k > _MANY_FLOP else 0.0
        lengths = zip(_ACROSS, across, (one.high, one.wide), strict=True)
        slower += sum(part * lines for part, does, lines in lengths if does) / (one.high + one.wide)
        return _time(one, split, sizes, 1, _WGMMA, slower, row)

    time, tile, split = mma(loads)
    best, launch = "general/matmul_mma", {"pads": 0}
    if narrow and pads and (matrices > 1 or arch != HOPPER):
        other, other_tile, other_split = mma((16, 16))
        if other + padding(matrices) < time:
            time, tile, split = other + padding(matrices), other_tile, other_split
            launch = {"pads": 1}
    if arch == HOPPER and matrices <= _MANY:
        tiles = [one for one in WGMMA_TILES if a_rows or not one.settings["TRANSPOSED"]]
        other, other_tile, other_split = _best(tiles, k, arch, wgmma)
        if (other + padding(1)) * matrices < time:
            time, tile, split = (other + padding(1)) * matrices, other_tile, other_split
            best = "general/matmul_hopper"
        rounds = ceil_div(ceil_div(m, 256) * ceil_div(n, 256), _SMS // 2)
        lesson = _LESSON_US + padding(1) + rounds * (_LESSON_ROUND_US + ceil_div(k, 64) * _LESSON_STEP_US)
        if plain and kind == "bfloat16" and lesson * matrices < time:
            why = "BF16 on Hopper: TMA, wgmma, clusters of two"
            return Choice("matmul_bf16", why, {"CLUSTER": 2, "STAGES": 4})
    return Choice(best, _why(name, tile.high, tile.wide, split), {**tile.settings, "SPLIT": split}, launch)


def _tiles_fp32(m: int, n: int, k: int, rows: bool, arch: int) -> Choice:
    """The FP32 kernel and its tile that should be done first."""
    whole = rows and n % 4 == 0
    slower, row = (0.0, 16) if whole else (_NARROW_B, 4)
    time, tile, split = _best(
        FP32_TILES, k, arch, lambda one, split: _time(one, split, (m, n, k), 1, _FP32, slower, row)
    )
    why = _why("FP32", tile.high, tile.wide, split)
    choice = Choice("general/matmul_fp32", why, {**tile.settings, "SPLIT": split})
    padding = 0.0 if whole else 3.3 + k * n * 8 / 4.8e6 + m * n * 8 / 1.85e6
    for columns, name in ((16, "matmul_fp32"), (8, "matmul_fp32_narrow")):
        on_sm = ceil_div(ceil_div(m, 128) * ceil_div(n, 16 * columns), _SMS)
        work = ceil_div(k, 32) * on_sm * _FP32_STEP_US[columns]
        if _FP32_LESSON_US + padding + work < time:
            sizes = {"ALIGNED": 1, "PAD": 4, "SNAKE": 1, "LOOSE": 1, "SPLIT": 0}
            sizes |= {"STAGES": 3 if columns == 16 else 2, "COLUMNS": columns}
            time = _FP32_LESSON_US + padding + work
            choice = Choice(name, _why("FP32", 128, 16 * columns, 1), sizes)
    return choice


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
    loads = (16, 16) if left.kind == "float32" else (_line(a)[2], _line(b)[2])
    pads = all(one.contiguous for one, bytes_ in zip((a, b), loads, strict=True) if bytes_ < 16)
    choice = choose(
        *(m, n, k, left.kind),
        matrices=matrices,
        arch=arch,
        rows=whole,
        plain=plain,
        loads=loads,
        pads=pads,
        a_rows=not _transposed(a.of(a.data[0])),
        across=(_across(a), _across(b)),
    )
    if choice.kernel == "general/matmul":
        return [*steps, _general(choice, a, b, bias, activation, made, matrices)]
    product = made.of(made.data.reshape(matrices, m, n))
    if choice.kernel == "general/matmul_mma":
        if choice.launch["pads"]:
            a, b = (_wide(one, steps) for one in (a, b))
        return [*steps, _mma(choice, a, b, bias, activation, product)]
    for at_ in range(matrices):
        left, right = (one.of(one.data[at_ if one.shape[0] > 1 else 0]) for one in (a, b))
        into = made.of(product.data[at_])
        steps += _LAUNCHES[choice.kernel](choice, left, right, bias, activation, into)
    return steps


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


def _mma(choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, made: Tensor) -> Step:
    """One launch for a stack of 16-bit products whose factors have rows or columns without gaps."""
    (matrices, m, n), k, sizes = made.shape, a.shape[2], choice.settings
    lines = [_line(one) for one in (a, b)]
    settings = {
        **sizes,
        **{"Number": C_TYPES[made.kind], "HALF": int(made.kind == "float16"), "ACTIVATION": activation},
        **{"A_BY_ROWS": int(lines[0][0]), "B_BY_ROWS": int(lines[1][0])},
        **{"A_LOAD": lines[0][2], "B_LOAD": lines[1][2], "WIDE": load(_alignment(made), 2 * n) // 2},
    }
    steps = [0 if one.shape[0] == 1 else one.steps[0] for one in (a, b)]
    arguments = (
        *(a.flat(), b.flat(), None if bias is None else bias.data, made.data.reshape(-1), m, n, k),
        *(lines[0][1], steps[0], lines[1][1], steps[1], a.past(), b.past(), made.past(), matrices),
    )
    high, wide, split = sizes["BM"], sizes["BN"], sizes["SPLIT"]
    shared = max(2 * sizes["STAGES"] * (high + wide) * 64, 4 * high * wide if split > 1 else 0)
    grid = (ceil_div(m, high) * ceil_div(n, wide) * split, min(matrices, _MOST_AT_ONCE))
    threads = 32 * sizes["WARPS_M"] * sizes["WARPS_N"]
    return Step(general("matmul_mma", **settings), arguments, grid, threads, shared)


def _wide(one: Tensor, steps: list[Step]) -> Tensor:
    """16-bit matrices in rows at multiples of 16 bytes; what makes a copy is added to the steps."""
    count, rows, columns = one.shape
    if _line(one)[2] == 16:
        return one
    (wide,), more = _for_tma(one.of(one.data.reshape(count * rows, columns)))
    steps += more
    return one.of(wide.data.reshape(count, rows, -1)[..., :columns])


def _line(one: Tensor) -> tuple[bool, int, int]:
    """Whether 16-bit matrices are row-major, elements from line to line, bytes of a load or 0 for none."""
    by_rows = one.steps[2] == 1 or one.shape[2] == 1
    across, along = (1, 2) if by_rows else (2, 1)
    if one.shape[along] > 1 and one.steps[along] != 1:
        return by_rows, 0, 0
    pitch = one.steps[across] if one.shape[across] > 1 else one.shape[along]
    steps = [2 * one.steps[at] for at in (0, across) if one.shape[at] > 1]
    return by_rows, pitch, load(_alignment(one), *steps)


def _across(one: Tensor) -> bool:
    """Whether pieces of 128 bytes of 16-bit matrices are in two lines of the L2 cache; copies are not."""
    _, pitch, bytes_ = _line(one)
    return bytes_ == 16 and (2 * pitch % 128 != 0 or not one.aligned(128))


def _alignment(one: Tensor) -> int:
    """The greatest of 16, 8, 4 and 2 at whose multiple of bytes an array begins."""
    return next(size for size in (16, 8, 4, 2) if one.aligned(size))


def load(*bytes_: int) -> int:
    """The greatest of 16, 8, 4 and 2 that divides all of these."""
    return next(size for size in (16, 8, 4, 2) if all(one % size == 0 for one in bytes_))


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


def _rows(a: Tensor, b: Tensor) -> tuple[list[Tensor], list[Step]]:
    """Both matrices row-major without gaps, and what copies them."""
    made, steps = [], []
    for one in (a, b):
        row, more = (one, []) if one.contiguous else packed("matmul", one)
        made.append(row)
        steps += more
    return made, steps


def _padded(b: Tensor) -> tuple[Tensor, list[Step]]:
    """An FP32 matrix in rows at multiples of 16 bytes, and what copies it."""
    rows, columns = b.shape
    pitch = ceil_div(columns, 4) * 4
    wide = b.of(workspace("matmul", b, (rows, pitch), b.kind))
    words = (b.flat().view(np.uint32), wide.data.reshape(-1).view(np.uint32))
    arguments = (*words, rows, columns, pitch, b.past(), None, None, 0, 4, 4, 0)
    blocks = min(ceil_div(rows * pitch // 4, 256), 132 * 16)
    return wide, [Step(general("pad", "pad_two", Number=WORDS[4]), arguments, blocks, 256)]


def _fp32(
    choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, c: Tensor
) -> list[Step]:
    (left, right), steps = _rows(a, b)
    (m, n), k, sizes = c.shape, a.shape[-1], choice.settings
    room, across = c, n
    if n % 4 or not right.aligned() or not c.aligned():
        right, more = _padded(right)
        across = right.shape[1]
        steps += more
        room = c.of(workspace("matmul", c, (m, across), c.kind))
    width = 16 * sizes["COLUMNS"]
    shared = 4 * sizes["STAGES"] * 32 * (128 + sizes["PAD"] + width)
    arguments = (left.flat(), right.flat(), room.data.reshape(-1), m, across, k)
    steps.append(Step(choice.load(), arguments, ceil_div(across, width) * ceil_div(m, 128), 256, shared))
    steps += [] if room is c else packing("matmul", c.of(room.data[:, :n]), c)
    return steps + _epilogue(bias, activation, c)


def _fp32_tiles(
    choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, c: Tensor
) -> list[Step]:
    (left, right), steps = _rows(a, b)
    (m, n), k, sizes = c.shape, a.shape[-1], choice.settings
    high, wide, deep = sizes["BM"], sizes["BN"], sizes["DEEP"]
    rows = {"B_WIDTH": load(_alignment(right), 4 * n) // 4, "WIDE": int(n % 4 == 0 and c.aligned())}
    kernel = general("matmul_fp32", **sizes, **rows, ACTIVATION=activation)
    slices = sizes["SLICES"]
    threads = high // sizes["ROWS"] * (wide // sizes["COLS"]) * slices
    sums = slices * high * (wide + 16) if sizes["SPLIT"] * slices > 1 or not rows["WIDE"] else 0
    shared = 4 * max(sizes["STAGES"] * deep * (high + 4 + wide), sums)
    bias_line = None if bias is None else bias.data
    arguments = (left.flat(), right.flat(), c.data.reshape(-1), bias_line, m, n, k)
    grid = ceil_div(m, high) * ceil_div(n, wide) * sizes["SPLIT"]
    return [*steps, Step(kernel, arguments, grid, threads, shared)]


def _lesson(
    choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, c: Tensor
) -> list[Step]:
    (left, right), steps = _for_tma(a, b)
    order = constant(c, _order(ceil_div(c.shape[0], 256), ceil_div(c.shape[1], 256)))
    tiles, clusters = len(order), multiprocessors() // 2
    grid = 2 * ceil_div(tiles, ceil_div(tiles, clusters))
    maps = (_map(left, a.shape, 128), _map(right, b.shape, 64), _map(c, c.shape, 64))
    given = dict(zip(("a_map", "b_map", "c_map"), maps, strict=True))
    given |= {"order": order, "tiles": tiles, "K": a.shape[-1]}
    kernel = choice.load()
    shared = 4 * 49152 + 32768
    multiply = Step(kernel, tuple(given[one.name] for one in kernel.parameters), grid, 384, shared)
    return [*steps, multiply, *_epilogue(bias, activation, c)]


def _hopper(
    choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, c: Tensor
) -> list[Step]:
    names = ("GROUPS", "PARTS", "BN", "STAGES", "SPLIT", "PAIR", "TRANSPOSED")
    groups, parts, width, stages, split, pair, transposed = (choice.settings[name] for name in names)
    (m, n), k, high = c.shape, a.shape[1], 64 * parts * groups
    by_columns = [_transposed(one) for one in (a, b)]
    stored = [one.of(one.data.T) if other else one for one, other in zip((a, b), by_columns, strict=True)]
    wide, steps = _for_tma(*stored)
    mapped = [(one, given.shape) for one, given in zip(wide, stored, strict=True)]
    if transposed:  # the transpose of a product is that of the transposes, the other way round
        m, n, by_columns, mapped = n, m, [not one for one in reversed(by_columns)], mapped[::-1]
    settings = {
        **choice.settings,
        **{"Number": C_TYPES[c.kind], "HALF": int(c.kind == "float16"), "CLUSTER": split * pair},
        "A_COLUMNS": int(by_columns[0]),
        "B_ROWS": int(not by_columns[1]),
        "ACTIVATION": activation,
        "WIDE": load(_alignment(c), 2 * c.shape[1]) // 2,
    }
    a_map = _map(*mapped[0], 64 if by_columns[0] else high)
    b_map = _map(*mapped[1], (width if by_columns[1] else 64) // pair)
    bias_line = None if bias is None else bias.data
    arguments = (a_map, b_map, c.data.reshape(-1), bias_line, m, n, k, c.past())
    tile = high * width * 4 if split > 1 else max(high * (width + 8), width * (high + 8)) * 2
    shared = max(stages * (high + width) * 128, tile)
    grid = ceil_div(m, high * pair) * pair * ceil_div(n, width) * split
    kernel = general("matmul_hopper", **settings)
    return [*steps, Step(kernel, arguments, grid, 128 * groups + (32 if parts == 1 else 128), shared)]


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
        step = 64 if columns > 128 else 8  # 128 bytes: a line of the L2 cache
        pitch = ceil_div(columns, step) * step
        wide = one.of(workspace("matmul", one, (rows, pitch), one.kind))
        made.append(wide)
        if one.contiguous:
            words = (whole.data.reshape(-1).view(np.uint16) for whole in (one, wide))
            pads.append((*words, rows, columns, pitch, one.past()))
        else:
            steps += packing("matmul", one, wide.of(wide.data[:, :columns]))
    if pads:
        chunks = sum(rows * pitch // 8 for _, _, rows, _, pitch, _ in pads)
        pads += [(None, None, 0, 8, 8, 0)] * (2 - len(pads))
        arguments = (*pads[0], *pads[1])
        steps.append(
            Step(
                general("pad", "pad_two", Number=WORDS[2]),
                arguments,
                min(ceil_div(chunks, 256), 132 * 16),
                256,
            )
        )
    return made, steps


def _map(wide: Tensor, inside: tuple[int, ...], height: int) -> Any:
    return tensor_map(wide.data, box=(height, 64), swizzle=128, shape=inside, dtype=wide.kind)


_LAUNCHES: Mapping[str, Any] = {
    "matmul_bf16": _lesson,
    "general/matmul_hopper": _hopper,
    "matmul_fp32": _fp32,
    "matmul_fp32_narrow": _fp32,
    "general/matmul_fp32": _fp32_tiles,
}


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
