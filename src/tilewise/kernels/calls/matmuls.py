"""Matrix multiplication with a bias and an activation.

In: two arrays whose last two axes are matrices, of any strides, such as transposed views. Out: their product.
FP32 uses register tiles; BF16 and FP16 use tensor cores: on Hopper TMA and wgmma, after a copy into padded
rows if TMA cannot load them, or mma.sync, which takes rows of any alignment.
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
"""Activation functions; `gelu` is the tanh approximation."""
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
        dtype: "bfloat16" if uint16 arrays of NumPy or CuPy hold BF16.
        out: a contiguous array of the result's shape and type to write to.

    Returns:
        An array (..., M, N) of the library and type of `a`. In BF16, the fast kernels round the FP32
        accumulator before bias and activation.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    named = {"a": a, "b": b} | ({} if bias is None else {"bias": bias})
    left, right, *others = all_taken("matmul", named, dtype, out)
    bias_tensor = others[0] if others else None
    shape = _shape(left, right)
    if activation not in ACTIVATIONS:
        raise KernelError(f'matmul: activation is {activation!r}. Pass None, "relu", "gelu" or "silu".')
    if bias_tensor is not None and bias_tensor.shape != shape[-1:]:
        raise wrong(
            "matmul", "bias", f"has shape {bias_tensor.shape}", f"Pass {shape[-1]} elements, one a column"
        )
    product = result("matmul", left, shape, left.kind, out)
    with at(left):
        if 0 not in shape:
            run("matmul", _steps(left, right, bias_tensor, ACTIVATIONS[activation], product))
    return returned(product)


def _shape(left: Tensor, right: Tensor) -> tuple[int, ...]:
    for tensor in (left, right):
        if len(tensor.shape) < 2:
            raise wrong(
                "matmul", tensor.name, f"has shape {tensor.shape}", "Pass two axes or more, x[None] for a row"
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


def _steps(left: Tensor, right: Tensor, bias: Tensor | None, activation: int, output: Tensor) -> list[Step]:
    m, n = output.shape[-2:]
    k, matrices = left.shape[-1], int(np.prod(output.shape[:-2], dtype=object))
    a, before = _stacked(left, output.shape[:-2])
    b, more = _stacked(right, output.shape[:-2])
    steps = [*before, *more]
    if bias is not None and not bias.contiguous:
        bias, more = packed("matmul", bias)
        steps += more
    whole = b.aligned() and output.aligned()
    plain = (
        output.aligned()
        and n % 8 == 0
        and all(tensor.steps[2] == 1 or tensor.shape[2] == 1 for tensor in (a, b))
    )
    arch = capability()
    loads = (16, 16) if left.kind == "float32" else (_line(a)[2], _line(b)[2])
    pads = all(tensor.contiguous for tensor, bytes_ in zip((a, b), loads, strict=True) if bytes_ < 16)
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
        return [*steps, _general(choice, a, b, bias, activation, output, matrices)]
    product = output.of(output.data.reshape(matrices, m, n))
    if choice.kernel == "general/matmul_mma":
        if choice.launch["pads"]:
            a, b = (_wide(tensor, steps) for tensor in (a, b))
        return [*steps, _mma(choice, a, b, bias, activation, product)]
    for at_ in range(matrices):
        left, right = (tensor.of(tensor.data[at_ if tensor.shape[0] > 1 else 0]) for tensor in (a, b))
        into = output.of(product.data[at_])
        steps += _LAUNCHES[choice.kernel](choice, left, right, bias, activation, into)
    return steps


def _stacked(tensor: Tensor, leading: tuple[int, ...]) -> tuple[Tensor, list[Step]]:
    """A factor as a stack of evenly spaced matrices; one matrix if all products share it."""
    if all(extent == 1 for extent in tensor.shape[:-2]):
        return tensor.of(tensor.data.reshape(1, *tensor.shape[-2:])), []
    module = np if tensor.device is None else importlib.import_module("cupy")
    wide = tensor.of(module.broadcast_to(tensor.data, (*leading, *tensor.shape[-2:])))
    steps: list[Step] = []
    extents, strides = merged(wide, keep=2)
    if len(extents) > 3:
        wide, steps = packed("matmul", wide)
        extents, strides = merged(wide, keep=2)
    size = int(tensor.data.itemsize)
    as_strided = module.lib.stride_tricks.as_strided
    return tensor.of(as_strided(wide.data, extents, tuple(size * stride for stride in strides))), steps


def _mma(choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, output: Tensor) -> Step:
    """One launch for a batch of 16-bit GEMMs whose factors have contiguous rows or columns."""
    (matrices, m, n), k, sizes = output.shape, a.shape[2], choice.settings
    lines = [_line(tensor) for tensor in (a, b)]
    settings = {
        **sizes,
        **{"Number": C_TYPES[output.kind], "HALF": int(output.kind == "float16"), "ACTIVATION": activation},
        **{"A_BY_ROWS": int(lines[0][0]), "B_BY_ROWS": int(lines[1][0])},
        **{"A_LOAD": lines[0][2], "B_LOAD": lines[1][2], "WIDE": load(_alignment(output), 2 * n) // 2},
    }
    steps = [0 if tensor.shape[0] == 1 else tensor.steps[0] for tensor in (a, b)]
    arguments = (
        *(a.flat(), b.flat(), None if bias is None else bias.data, output.data.reshape(-1), m, n, k),
        *(lines[0][1], steps[0], lines[1][1], steps[1], a.past(), b.past(), output.past(), matrices),
    )
    high, wide, split = sizes["BM"], sizes["BN"], sizes["SPLIT"]
    shared = max(2 * sizes["STAGES"] * (high + wide) * 64, 4 * high * wide if split > 1 else 0)
    grid = (ceil_div(m, high) * ceil_div(n, wide) * split, min(matrices, _MOST_AT_ONCE))
    threads = 32 * sizes["WARPS_M"] * sizes["WARPS_N"]
    return Step(general("matmul_mma", **settings), arguments, grid, threads, shared)


def _wide(tensor: Tensor, steps: list[Step]) -> Tensor:
    """16-bit matrices with rows aligned to 16 bytes; launches that copy them are appended to `steps`."""
    count, rows, columns = tensor.shape
    if _line(tensor)[2] == 16:
        return tensor
    (padded,), more = _for_tma(tensor.of(tensor.data.reshape(count * rows, columns)))
    steps += more
    return tensor.of(padded.data.reshape(count, rows, -1)[..., :columns])


def _line(tensor: Tensor) -> tuple[bool, int, int]:
    """Whether 16-bit matrices are row-major, the line stride in elements, and bytes per load (0: gaps)."""
    by_rows = tensor.steps[2] == 1 or tensor.shape[2] == 1
    across, along = (1, 2) if by_rows else (2, 1)
    if tensor.shape[along] > 1 and tensor.steps[along] != 1:
        return by_rows, 0, 0
    pitch = tensor.steps[across] if tensor.shape[across] > 1 else tensor.shape[along]
    steps = [2 * tensor.steps[at] for at in (0, across) if tensor.shape[at] > 1]
    return by_rows, pitch, load(_alignment(tensor), *steps)


def _across(tensor: Tensor) -> bool:
    """Whether 128-byte segments of 16-bit matrices straddle two L2 cache lines; padded copies do not."""
    _, pitch, bytes_ = _line(tensor)
    return bytes_ == 16 and (2 * pitch % 128 != 0 or not tensor.aligned(128))


def _alignment(tensor: Tensor) -> int:
    """The alignment of an array in bytes, as the greatest of 16, 8, 4 and 2."""
    return next(size for size in (16, 8, 4, 2) if tensor.aligned(size))


def _general(
    choice: Choice,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    activation: int,
    output: Tensor,
    matrices: int,
) -> Step:
    m, n = output.shape[-2:]
    k = a.shape[-1]
    settings = {
        **choice.settings,
        "ACTIVATION": activation,
        "A_BY_ROWS": int(a.steps[2] <= a.steps[1]),
        "B_BY_ROWS": int(b.steps[2] <= b.steps[1]),
    }
    if k == 0:  # nothing is read, but pointers must be valid
        a, b = (tensor.of(workspace("matmul", tensor, (1, 1, 1), tensor.kind)) for tensor in (a, b))
    steps = [0 if tensor.shape[0] == 1 else tensor.steps[0] for tensor in (a, b)]
    arguments = (
        *(a.flat(), b.flat(), None if bias is None else bias.data, output.data.reshape(-1), m, n, k),
        *(a.steps[1], a.steps[2], steps[0], b.steps[1], b.steps[2], steps[1], matrices),
    )
    grid = (ceil_div(m, 64) * ceil_div(n, 64), min(matrices, _MOST_AT_ONCE))
    return Step(general("matmul", "matmul", **settings), arguments, grid, 256)


def _rows(a: Tensor, b: Tensor) -> tuple[list[Tensor], list[Step]]:
    """Both matrices row-major and contiguous, and the launches that copy them."""
    matrices, steps = [], []
    for tensor in (a, b):
        matrix, more = (tensor, []) if tensor.contiguous else packed("matmul", tensor)
        matrices.append(matrix)
        steps += more
    return matrices, steps


def _padded(b: Tensor) -> tuple[Tensor, list[Step]]:
    """A copy of an FP32 matrix with rows aligned to 16 bytes, and the launch that makes it."""
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
    target, across = c, n
    if n % 4 or not right.aligned() or not c.aligned():
        right, more = _padded(right)
        across = right.shape[1]
        steps += more
        target = c.of(workspace("matmul", c, (m, across), c.kind))
    width = 16 * sizes["COLUMNS"]
    shared = 4 * sizes["STAGES"] * 32 * (128 + sizes["PAD"] + width)
    arguments = (left.flat(), right.flat(), target.data.reshape(-1), m, across, k)
    steps.append(Step(choice.load(), arguments, ceil_div(across, width) * ceil_div(m, 128), 256, shared))
    steps += [] if target is c else packing("matmul", c.of(target.data[:, :n]), c)
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
    values = dict(zip(("a_map", "b_map", "c_map"), maps, strict=True))
    values |= {"order": order, "tiles": tiles, "K": a.shape[-1]}
    kernel = choice.load()
    shared = 4 * 49152 + 32768
    multiply = Step(
        kernel, tuple(values[parameter.name] for parameter in kernel.parameters), grid, 384, shared
    )
    return [*steps, multiply, *_epilogue(bias, activation, c)]


def _hopper(
    choice: Choice, a: Tensor, b: Tensor, bias: Tensor | None, activation: int, c: Tensor
) -> list[Step]:
    names = ("GROUPS", "PARTS", "BN", "STAGES", "SPLIT", "CLUSTER_M", "CLUSTER_N", "TRANSPOSED")
    groups, parts, width, stages, split, down, across, transposed = (choice.settings[name] for name in names)
    (m, n), k, high = c.shape, a.shape[1], 64 * parts * groups
    by_columns = [_transposed(tensor) for tensor in (a, b)]
    stored = [
        x.of(x.data.T) if columns_first else x for x, columns_first in zip((a, b), by_columns, strict=True)
    ]
    padded, steps = _for_tma(*stored)
    mapped = [(tensor, inside.shape) for tensor, inside in zip(padded, stored, strict=True)]
    if transposed:  # (A B)^T = B^T A^T
        m, n, by_columns, mapped = n, m, [not flag for flag in reversed(by_columns)], mapped[::-1]
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
    """The rows of clusters in a band of some 32 blocks, from 1 to 8.

    The blocks of one wave run concurrently, so consecutive ones should request the same L2 cache lines. On
    1,431 random products on an H200, the rule, fitted after the fact, takes up to 35 % less time than bands
    of 8 rows, and 2 % less on average. With more waves it makes no difference.
    """
    return 1 << max(0, min(3, round(math.log2(32 / columns))))


def _transposed(tensor: Tensor) -> bool:
    """Whether a matrix is not contiguous but its transpose is."""
    return not tensor.contiguous and bool(tensor.data.T.flags.c_contiguous)


def _for_tma(*tensors: Tensor) -> tuple[list[Tensor], list[Step]]:
    """Matrices with rows aligned to 16 bytes: themselves, or copies with padded rows."""
    padded: list[Tensor] = []
    steps: list[Step] = []
    pads: list[tuple[Any, ...]] = []
    for tensor in tensors:
        rows, columns = tensor.shape
        if tensor.contiguous and columns % 8 == 0 and tensor.aligned():
            padded.append(tensor)
            continue
        step = 64 if columns > 128 else 8  # 128 bytes: a line of the L2 cache
        pitch = ceil_div(columns, step) * step
        wide = tensor.of(workspace("matmul", tensor, (rows, pitch), tensor.kind))
        padded.append(wide)
        if tensor.contiguous:
            words = (whole.data.reshape(-1).view(np.uint16) for whole in (tensor, wide))
            pads.append((*words, rows, columns, pitch, tensor.past()))
        else:
            steps += packing("matmul", tensor, wide.of(wide.data[:, :columns]))
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
    return padded, steps


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


def _epilogue(bias: Tensor | None, activation: int, output: Tensor) -> list[Step]:
    if bias is None and not activation:
        return []
    settings = {"Number": C_TYPES[output.kind], "ACTIVATION": activation, "A_BY_ROWS": 1, "B_BY_ROWS": 1}
    count = int(output.data.size)
    arguments = (output.data.reshape(-1), None if bias is None else bias.data, count, output.shape[-1])
    return [Step(general("matmul", "epilogue", **settings), arguments, min(ceil_div(count, 256), 8192), 256)]
