"""Chooses the kernel and tile of a matrix multiplication by models of their times, fitted on an H200.

In: M, N, K, the element type and the memory layouts of the factors. Out: a ``Choice``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewise.cuda.cases import ceil_div
from tilewise.kernels.calls.arrays import C_TYPES
from tilewise.kernels.calls.launching import AMPERE, FILLED, HOPPER, Choice

MOST_PRODUCTS, SMS = 16, 132
"""Most products with a launch each; the number of SMs of an H200."""


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
    """Choose the kernel for matrices of a size.

    Args:
        m: rows of the first and of the product.
        n: columns of the second and of the product.
        k: columns of the first, rows of the second.
        kind: the element type.
        matrices: the number of products.
        arch: the compute capability, such as 90.
        rows: whether the rows of the FP32 product and of the second factor are aligned to 16 bytes.
        plain: whether both 16-bit factors are row-major and the product's rows aligned to 16 bytes.
        loads: of each 16-bit factor, the alignment of its contiguous rows or columns in bytes: 16, 8, 4 or 2;
            0 if neither are contiguous.
        pads: whether 16-bit factors aligned to less may be copied into padded rows for `general/matmul_mma`.
        a_rows: whether TMA loads rows of the first factor, which then is no transpose of a contiguous matrix.
        across: of each 16-bit factor, whether its lines are not aligned to 128 bytes.
    """
    number = {"Number": C_TYPES[kind]}
    if k == 0:
        return Choice("general/matmul", "there is nothing to add up", number)
    if kind != "float32" and arch >= AMPERE and 0 not in loads:
        return _tiles(m, n, k, kind, matrices, arch, plain, loads, pads, a_rows, across)
    if kind != "float32" and arch >= AMPERE:
        return Choice("general/matmul", "neither rows nor columns of a factor are without gaps", number)
    if matrices > MOST_PRODUCTS:
        return Choice("general/matmul", f"{matrices} products in one launch", number)
    if arch >= AMPERE:
        return _tiles_fp32(m, n, k, rows, arch)
    return Choice("general/matmul", f"the fast kernels for {kind} need a newer GPU", number)


@dataclass(frozen=True)
class Tile:
    """Settings of a general kernel, with what the models need."""

    settings: Mapping[str, int]
    """Values for `#define` lines, except SPLIT."""
    high: int
    """Rows of the product per block."""
    wide: int
    """Columns per block."""
    deep: int
    """Extent along k of one step."""
    per_sm: int
    """Blocks that fit on an SM."""
    splits: tuple[int, ...] = (1,)
    """Numbers of blocks that k may be split over."""
    busy_us: float = 0.0
    """Measured time of a block's step while other blocks run on the SM."""
    alone_us: float = 0.0
    """The same for a block alone on its SM."""


def _hopper_tile(
    groups: int,
    wide: int,
    stages: int,
    cluster: tuple[int, int] = (1, 1),
    *,
    most: int = 1,
    per_sm: int = 1,
    parts: int = 1,
    transposed: int = 0,
) -> Tile:
    settings = {"GROUPS": groups, "BN": wide, "STAGES": stages, "TRANSPOSED": transposed, "PARTS": parts}
    settings |= {"CLUSTER_M": cluster[0], "CLUSTER_N": cluster[1], "PER_SM": per_sm}
    splits = tuple(split for split in (1, 2, 3, 4, 6, 8) if split <= most)
    high = 64 * parts * groups
    high, wide = (wide, high) if transposed else (high, wide)
    return Tile(settings, high, wide, 64, per_sm, splits)


def _fp32_tile(
    high: int, wide: int, by: tuple[int, int], deep: int, stages: int, per_sm: int, *times: float
) -> Tile:
    settings = {"BM": high, "BN": wide, "ROWS": by[0], "COLS": by[1], "DEEP": deep, "STAGES": stages}
    settings |= {"SLICES": max(1, 128 * by[0] * by[1] // high // wide), "PER_SM": per_sm}
    return Tile(settings, high, wide, deep, per_sm, (1, 2, 3, 4, 6, 8), *times)


def _mma_tile(high: int, wide: int, warps: tuple[int, int], stages: int, per_sm: int, *times: float) -> Tile:
    settings = {
        "BM": high,
        "BN": wide,
        "WARPS_M": warps[0],
        "WARPS_N": warps[1],
        "STAGES": stages,
        "PER_SM": per_sm,
    }
    return Tile(settings, high, wide, 64, per_sm, (1, 2, 4, 8), *times)


MMA_TILES = (
    _mma_tile(32, 32, (2, 2), 4, 6, 0.149, 0.324),
    _mma_tile(32, 64, (1, 4), 4, 4, 0.19, 0.407),
    _mma_tile(64, 32, (2, 2), 4, 4, 0.217, 0.416),
    _mma_tile(128, 32, (4, 1), 4, 2, 0.341, 0.587),
    _mma_tile(64, 64, (2, 2), 4, 3, 0.266, 0.491),
    _mma_tile(128, 128, (2, 4), 3, 1, 0.633, 0.6),
)
"""Tiles of `general/matmul_mma`."""
WGMMA_TILES = (
    _hopper_tile(1, 64, 3, per_sm=4, most=8),
    _hopper_tile(1, 64, 12, most=8),
    _hopper_tile(1, 64, 10, (2, 1)),
    _hopper_tile(1, 64, 10, (2, 2)),
    _hopper_tile(1, 96, 10, (2, 1), transposed=1),
    _hopper_tile(1, 96, 10, (4, 1), transposed=1),
    _hopper_tile(1, 128, 3, per_sm=3, most=4),
    _hopper_tile(1, 128, 9, (4, 1)),
    _hopper_tile(1, 160, 8, (4, 1), transposed=1),
    _hopper_tile(1, 192, 7, (4, 1)),
    _hopper_tile(2, 64, 9, most=4),
    _hopper_tile(2, 64, 9, (1, 4)),
    _hopper_tile(2, 80, 8, (1, 4), transposed=1),
    _hopper_tile(2, 112, 7, transposed=1),
    _hopper_tile(2, 112, 7, (1, 2), transposed=1),
    _hopper_tile(2, 128, 3, per_sm=2, most=4),
    _hopper_tile(2, 128, 6, (2, 1)),
    _hopper_tile(2, 128, 7, most=4),
    _hopper_tile(2, 144, 6, (2, 1), transposed=1),
    _hopper_tile(2, 160, 6, transposed=1),
    _hopper_tile(2, 176, 5, (2, 1), transposed=1),
    _hopper_tile(2, 192, 5, most=4),
    _hopper_tile(2, 192, 5, (2, 1)),
    _hopper_tile(2, 224, 5, (2, 1), transposed=1),
    _hopper_tile(2, 256, 4, most=4),
    _hopper_tile(2, 160, 4, parts=2, transposed=1),
    _hopper_tile(2, 176, 4, parts=2, transposed=1),
    _hopper_tile(2, 192, 4, parts=2),
    _hopper_tile(2, 192, 4, parts=2, transposed=1),
    _hopper_tile(3, 64, 7, most=4),
    _hopper_tile(3, 64, 7, (1, 4)),
    _hopper_tile(3, 80, 6, (1, 4), transposed=1),
    _hopper_tile(3, 96, 6, transposed=1),
    _hopper_tile(3, 128, 5, most=4),
    _hopper_tile(3, 144, 5, transposed=1),
    _hopper_tile(3, 176, 4, transposed=1),
    _hopper_tile(3, 192, 4, most=4),
)
"""Tiles of `general/matmul_hopper`: of 346 timed, those nearest to the best times of 2,087 random products.

Blocks of a cluster load for each other. TMA loads a factor stored along k in boxes of any height, so tiles of
80, 96 or 112 rows are wgmma's columns of the transposed product if A is row-major: fewer SMs are idle in the
last wave. With two parts, a warpgroup has twice 64 rows, in up to 192 registers per thread. Tiles for a short
k have few stages, so that two to four blocks fit on an SM."""
FP32_TILES = (
    _fp32_tile(32, 32, (8, 4), 32, 4, 5, 0.252, 0.267),
    _fp32_tile(32, 64, (4, 8), 32, 3, 4, 0.399, 0.485),
    _fp32_tile(64, 64, (8, 8), 32, 3, 3, 0.777, 0.967),
    _fp32_tile(64, 128, (8, 8), 16, 4, 3, 0.665, 0.918),
    _fp32_tile(128, 128, (8, 8), 16, 4, 2, 1.41, 1.44),
)
"""Tiles of `general/matmul_fp32`."""


@dataclass(frozen=True)
class Overheads:
    """Times of a kernel besides those of its tiles.

    Fitted on an H200, together with the tiles' times, to the tiles and splits of some 800 products. Near the
    best time, the model is within 9 % of it; the chosen tiles take 1 to 3 % longer than the best.
    """

    launch_us: float
    """Per launch."""
    wave_us: float
    """Per wave of blocks."""
    results_us: float
    """Per wave and 8,192 results of a tile."""
    split_us: float
    """For the reduction over the blocks of a cluster."""
    sums_us: float
    """The same, per 8,192 results of an SM."""
    narrow_us: float
    """Extra per 8,192 results of an SM if the product's rows are aligned only to 4 or 8 bytes."""
    narrowest_us: float = 0.0
    """The same for 2 bytes."""
    fewer: float = 0.0
    """The fraction by which steps get faster as the fraction of busy SMs approaches zero."""
    byte_us: float = 0.0
    """Per byte of the three matrices."""


_MMA = Overheads(4.24, 0.638, 0.621, 0.676, 0.82, 0.659, 0.87, 0.289, 0.151e-6)
_FP32 = Overheads(4.51, 0.628, 0.634, 1.1, 0.462, 0.912)
_SLOWER = {16: 0.0, 8: 0.322, 4: 1.25, 2: 2.61}
"""By bytes per copy: the fraction that a factor adds to the time of steps in `general/matmul_mma`."""
_NARROW_B = 0.087
"""The same for B in FP32, with copies of less than 16 bytes."""
_PAD_US, _PAD_BYTE_US = 3.44, 2.41e-7
"""Copies of 16-bit factors into padded rows: per launch, and per byte read or written."""
_LESSON_US = {"launch": 5.15, "round": 1.034, "step": 0.592, "byte": 0.08e-6}
"""The lesson's BF16 kernel: per launch, wave of tiles, step of a tile, and byte of the matrices."""
_FP32_LESSON_US, _FP32_STEP_US = 8.49, {16: 5.28, 8: 2.8}
"""The lesson's FP32 kernel: per launch, and per step by columns per thread."""
_MANY_FLOP, _THROTTLED, _MOST_FLOP = 2e11, (0.043, 0.072), 6e11
"""Operations beyond which steps take longer; by which fraction in `general/matmul_hopper` and the lesson's
kernel; and beyond which nothing was fitted, and the lesson's order of tiles has the fewest L2 misses."""
_WGMMA_US = {
    "launch": 3.395,
    "wave": 1.22,
    "results": 0.442,
    "split": 1.092,
    "sums": 0.771,
    "cluster": 0.681,
    "byte": 0.14e-6,
}
"""`general/matmul_hopper`: per launch; per wave, and per 8,192 results of a tile; for the reduction over
blocks that split k, and per 8,192 results; for clusters; per byte of the three matrices."""
_COMPUTE_US, _SHORTER_US, _L2_US, _SM_US, _LATENCY_US = 0.5526, 0.0233, 0.4281, 0.2482, 0.6658
"""Bounds of a step: tensor cores, for a tile of 128 x 256, less a constant; the L2 cache, for 384 rows and
columns of each SM's tile, and the SM's link to it; a stage's latency, divided by the stages less one."""
_SHARED, _ACROSS = 0.445, 0.275
"""The exponent with which blocks that share a load relieve the L2 cache; the fraction by which a factor's
loads grow if each 128-byte segment straddles two lines."""
_NARROW_US = {16: 0.0, 8: 0.28, 4: 0.28, 2: 0.311}
"""By alignment of the product's rows in bytes: extra per 8,192 results of an SM."""


def _wgmma_us(
    tile: Tile, split: int, sizes: tuple[int, int, int], across: tuple[bool, bool], rows: int
) -> float:
    """Modelled microseconds of `general/matmul_hopper`.

    Fitted after the fact, on an H200, to times of 1,490 random products with 25 to 29 of these tiles each.
    For 636 others, it is within 6 % near the best time, and the chosen tiles take 2 % longer than the best.

    Args:
        tile: the tile.
        split: the number of blocks that k is split over.
        sizes: M, N and K.
        across: of each factor, whether its lines are not aligned to 128 bytes.
        rows: the alignment of the product's rows in bytes.
    """
    m, n, k = sizes
    us, settings, results = _WGMMA_US, tile.settings, tile.high * tile.wide / 8192
    down, beside = settings["CLUSTER_M"], settings["CLUSTER_N"]
    if settings["TRANSPOSED"]:
        down, beside = beside, down
    shared = down * beside
    blocks = ceil_div(m, tile.high * down) * ceil_div(n, tile.wide * beside) * shared * split
    on_sm, steps = ceil_div(blocks, FILLED[shared * split]), ceil_div(ceil_div(k, tile.deep), split)
    waves = ceil_div(on_sm, tile.per_sm)
    a, b = (size * (1 + _ACROSS * does) for size, does in zip((tile.high, tile.wide), across, strict=True))
    busy = min(1.0, blocks / SMS) * _L2_US
    bounds = (
        on_sm * (_COMPUTE_US * results / 4 - _SHORTER_US),
        on_sm * busy * (a / beside**_SHARED + b / down**_SHARED) / 384,
        on_sm * _SM_US * (a + b) / 384,
        waves * _LATENCY_US / (settings["STAGES"] - 1),
    )
    work = steps * math.sqrt(math.sqrt(sum(max(0.0, bound) ** 4 for bound in bounds)))
    work *= 1 + _THROTTLED[0] * (2 * m * n * k > _MANY_FLOP)
    time = us["launch"] + waves * (us["wave"] + us["results"] * results) + work
    time += us["byte"] * 2 * (m * k + k * n + m * n) + us["cluster"] * (shared > 1)
    time += on_sm * results * _NARROW_US[rows]
    return time + (us["split"] + us["sums"] * on_sm * results) * (split > 1)


def _time(
    tile: Tile,
    split: int,
    sizes: tuple[int, int, int],
    matrices: int,
    over: Overheads,
    slower: float,
    rows: int,
) -> float:
    """Modelled microseconds: waves of blocks with steps along k, which take longer by the fraction `slower`.

    Rows of the product are aligned to `rows` bytes.
    """
    m, n, k = sizes
    results = tile.high * tile.wide / 8192
    blocks = ceil_div(m, tile.high) * ceil_div(n, tile.wide) * split * matrices
    on_sm, steps = ceil_div(blocks, FILLED[split]), ceil_div(ceil_div(k, tile.deep), split)
    waves = ceil_div(on_sm, tile.per_sm)
    work = steps * max(on_sm * tile.busy_us, waves * tile.alone_us) * (1 + slower)
    work *= 1 - over.fewer * max(0.0, 1 - blocks / SMS)
    time = over.launch_us + waves * (over.wave_us + over.results_us * results) + work
    time += over.byte_us * 2 * matrices * (m * k + k * n + m * n)
    narrow_us = 0.0 if rows == 16 else over.narrowest_us if rows == 2 else over.narrow_us
    time += on_sm * results * narrow_us
    return time if split == 1 else time + over.split_us + over.sums_us * on_sm * results


def _best(
    tiles: Sequence[Tile], k: int, arch: int, time: Callable[[Tile, int], float]
) -> tuple[float, Tile, int]:
    """The least modelled time, with its tile and split."""
    timed = [
        (time(tile, split), at, split)
        for at, tile in enumerate(tiles)
        for split in (tile.splits if arch == HOPPER else (1,))
        if split <= max(1, ceil_div(k, tile.deep))
    ]
    least, at, split = min(timed)
    return least, tiles[at], split


def _why(kind: str, high: int, wide: int, split: int) -> str:
    return f"{kind}, tiles of {high} x {wide}" + (f", k split over {split} blocks" if split > 1 else "")


def _lesson_us(m: int, n: int, k: int) -> float:
    """Modelled microseconds of the lesson's BF16 kernel, fitted as `_wgmma_us` is."""
    us, rounds = _LESSON_US, ceil_div(ceil_div(m, 256) * ceil_div(n, 256), SMS // 2)
    step = us["step"] * (1 + _THROTTLED[1] * (2 * m * n * k > _MANY_FLOP))
    work = rounds * (us["round"] + ceil_div(k, 64) * step)
    return us["launch"] + work + us["byte"] * 2 * (m * k + k * n + m * n)


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
    """The 16-bit kernel and tile with the least modelled time."""
    sizes, name = (m, n, k), "BF16" if kind == "bfloat16" else "FP16"
    row = load(2 * n)
    narrow = [4.0 * k * lines for lines, bytes_ in ((m, loads[0]), (n, loads[1])) if bytes_ < 16]

    def padding(count: int) -> float:
        return _PAD_US + count * sum(narrow) * _PAD_BYTE_US if narrow else 0.0

    def mma(loads: tuple[int, int]) -> tuple[float, Tile, int]:
        def time(tile: Tile, split: int) -> float:
            if 2 in loads:  # registers hold the elements to be shifted
                tile = replace(tile, per_sm=min(3, tile.per_sm))
            slower = _SLOWER[loads[0]] * tile.high + _SLOWER[loads[1]] * tile.wide
            return _time(tile, split, sizes, matrices, _MMA, slower / (tile.high + tile.wide), row)

        return _best(MMA_TILES, k, arch, time)

    time, tile, split = mma(loads)
    best, launch = "general/matmul_mma", {"pads": 0}
    if narrow and pads and (matrices > 1 or arch != HOPPER):
        other_time, other_tile, other_split = mma((16, 16))
        if other_time + padding(matrices) < time:
            time, tile, split = other_time + padding(matrices), other_tile, other_split
            launch = {"pads": 1}
    if arch == HOPPER and matrices <= MOST_PRODUCTS:
        tiles = [tile for tile in WGMMA_TILES if a_rows or not tile.settings["TRANSPOSED"]]
        other_time, other_tile, other_split = _best(
            tiles, k, arch, lambda tile, split: _wgmma_us(tile, split, sizes, across, row)
        )
        if (other_time + padding(1)) * matrices < time:
            time, tile, split = (other_time + padding(1)) * matrices, other_tile, other_split
            best = "general/matmul_hopper"
        lesson = padding(1) + _lesson_us(m, n, k)
        if plain and kind == "bfloat16" and (lesson * matrices < time or 2 * m * n * k > _MOST_FLOP):
            why = "BF16 on Hopper: TMA, wgmma, clusters of two"
            return Choice("matmul_bf16", why, {"CLUSTER": 2, "STAGES": 4})
    return Choice(best, _why(name, tile.high, tile.wide, split), {**tile.settings, "SPLIT": split}, launch)


def _tiles_fp32(m: int, n: int, k: int, rows: bool, arch: int) -> Choice:
    """The FP32 kernel and tile with the least modelled time."""
    whole = rows and n % 4 == 0
    slower, row = (0.0, 16) if whole else (_NARROW_B, 4)
    time, tile, split = _best(
        FP32_TILES, k, arch, lambda tile, split: _time(tile, split, (m, n, k), 1, _FP32, slower, row)
    )
    why = _why("FP32", tile.high, tile.wide, split)
    choice = Choice("general/matmul_fp32", why, {**tile.settings, "SPLIT": split})
    padding = 0.0 if whole else 3.3 + k * n * 8 / 4.8e6 + m * n * 8 / 1.85e6
    for columns, name in ((16, "matmul_fp32"), (8, "matmul_fp32_narrow")):
        on_sm = ceil_div(ceil_div(m, 128) * ceil_div(n, 16 * columns), SMS)
        work = ceil_div(k, 32) * on_sm * _FP32_STEP_US[columns]
        if _FP32_LESSON_US + padding + work < time:
            sizes = {"ALIGNED": 1, "PAD": 4, "SNAKE": 1, "LOOSE": 1, "SPLIT": 0}
            sizes |= {"STAGES": 3 if columns == 16 else 2, "COLUMNS": columns}
            time = _FP32_LESSON_US + padding + work
            choice = Choice(name, _why("FP32", 128, 16 * columns, 1), sizes)
    return choice


def load(*bytes_: int) -> int:
    """The greatest of 16, 8, 4 and 2 that divides all of these."""
    return next(size for size in (16, 8, 4, 2) if all(count % size == 0 for count in bytes_))
