"""Matrix multiplication with a bias and an activation.

In: two arrays whose last two axes are matrices, of any strides: a transposed view is a layout like another.
Out: their product. FP32 takes register tiles; BF16 and FP16 take tensor cores: on Hopper TMA and wgmma, after
a copy into padded rows where TMA cannot reach them, or mma.sync, which takes rows that begin anywhere.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from tilewise.cuda.cases import ceil_div
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernels.calls.arrays import (
    C_TYPES,
    Tensor,
    all_taken,
    at,
    constant,
    result,
    returned,
    workspace,
    wrong,
)
from tilewise.kernels.calls.launching import (
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
from tilewise.kernels.calls.matmul_choices import SMS, choose, load
from tilewise.kernels.calls.plans import planned
from tilewise.kernels.published import hilbert

ACTIVATIONS = {None: 0, "relu": 1, "gelu": 2, "silu": 3}
"""What may follow; `gelu` is the approximation by a hyperbolic tangent."""
_MOST_AT_ONCE = 65_535


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
    named = {"a": a, "b": b} | ({} if bias is None else {"bias": bias})
    left, right, *others = all_taken("matmul", named, dtype, out)
    added = others[0] if others else None
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
    names = ("GROUPS", "PARTS", "BN", "STAGES", "SPLIT", "CLUSTER_M", "CLUSTER_N", "TRANSPOSED")
    groups, parts, width, stages, split, down, across, transposed = (choice.settings[name] for name in names)
    (m, n), k, high = c.shape, a.shape[1], 64 * parts * groups
    by_columns = [_transposed(one) for one in (a, b)]
    stored = [one.of(one.data.T) if other else one for one, other in zip((a, b), by_columns, strict=True)]
    wide, steps = _for_tma(*stored)
    mapped = [(one, given.shape) for one, given in zip(wide, stored, strict=True)]
    if transposed:  # the transpose of a product is that of the transposes, the other way round
        m, n, by_columns, mapped = n, m, [not one for one in reversed(by_columns)], mapped[::-1]
    settings = {
        **choice.settings,
        **{"Number": C_TYPES[c.kind], "HALF": int(c.kind == "float16"), "CLUSTER": split * down * across},
        "A_COLUMNS": int(by_columns[0]),
        "B_ROWS": int(not by_columns[1]),
        "ACTIVATION": activation,
        "WIDE": load(_alignment(c), 2 * c.shape[1]) // 2,
    }
    a_map = _map(*mapped[0], (64 if by_columns[0] else high) // across)
    b_map = _map(*mapped[1], (width if by_columns[1] else 64) // down)
    bias_line = None if bias is None else bias.data
    columns = ceil_div(n, width * across)
    grid = ceil_div(m, high * down) * columns * down * across * split
    band = _band(columns * across) if grid <= SMS * choice.settings["PER_SM"] else 8
    arguments = (a_map, b_map, c.data.reshape(-1), bias_line, m, n, k, c.past(), band)
    tile = high * width * 4 if split > 1 else max(high * (width + 8), width * (high + 8)) * 2
    shared = max(stages * (high + width) * 128, tile)
    kernel = general("matmul_hopper", **settings)
    return [*steps, Step(kernel, arguments, grid, 128 * groups + (32 if parts == 1 else 128), shared)]


def _band(columns: int) -> int:
    """How many rows of clusters a band of some 32 blocks has, from 1 to 8.

    Blocks of one wave run side by side. Those that follow each other should ask the L2 cache for the same
    lines: by 1,431 random products on an H200 the rule, found after the fact, takes up to 35 % less time than
    bands of 8 rows, and 2 % less in the mean. Where there are more waves it makes no difference.
    """
    return 1 << max(0, min(3, round(math.log2(32 / columns))))


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
