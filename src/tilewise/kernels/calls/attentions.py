"""Attention with its log-sum-exp, and its gradients.

In: queries, keys and values as (batch, heads, length, d) or (batch, length, heads, d), of any strides. Out:
arrays of the same layout. The tensor-core kernels take contiguous heads of 64 or 128 columns: other layouts
and widths are copied first, and everything else takes a general kernel.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
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
    all_taken,
    at,
    constant,
    result,
    returned,
    same_place,
    taken,
    workspace,
    wrong,
)
from tilewise.kernels.calls.launching import (
    AMPERE,
    FILLED,
    HOPPER,
    Choice,
    Step,
    capability,
    dense,
    filling,
    general,
    multiprocessors,
    packing,
    run,
)
from tilewise.kernels.calls.plans import planned

LAYOUTS = {"BHSD": (0, 1, 2, 3), "BSHD": (0, 2, 1, 3)}
"""By name: the axes of an array that are batch, heads, length and columns."""
WIDEST = 256
"""Columns of a head that the general kernel has registers for."""
_MOST_HEADS = 65_535
"""Largest y extent of a grid, which counts the heads of all sequences."""


@dataclass(frozen=True)
class Problem:
    """The sizes of one call."""

    batch: int
    """Number of sequences."""
    heads: int
    """Query heads per sequence."""
    kv_heads: int
    """Heads of keys and values; divides `heads`."""
    queries: int
    """Length of the queries."""
    keys: int
    """Length of keys and values."""
    d: int
    """Columns of a head."""
    kind: str
    """Element type."""
    causal: bool
    """Whether query i sees only the keys up to i + shift."""
    shift: int
    """Of the causal mask; by default the last query sees the last key."""
    scale: float
    """Factor of the scores."""

    @property
    def share(self) -> int:
        """Query heads per KV head."""
        return self.heads // self.kv_heads


def choose(problem: Problem, arch: int) -> Choice:
    """Choose the kernel for a problem on a compute capability, such as 90."""
    number = {"Number": C_TYPES[problem.kind], "D": problem.d, "CAUSAL": int(problem.causal)}
    wide = 64 if problem.d <= 64 else 128
    plain = problem.kind == "float32" and problem.d == 128 and problem.share == 1 and not problem.causal
    if plain and arch >= AMPERE:
        sizes = {"D": 128, "ROWS": 4, "KEYS": 8, "WARPS": 8}
        return Choice("attention_fp32", "FP32, d = 128 and no mask: register tiles", sizes)
    if problem.kind != "bfloat16":
        why = f"no lesson has a fast kernel for {problem.kind} with d = {problem.d}"
        why += f", {problem.share} query heads a key" if problem.share > 1 else ""
        return Choice("general/attention", why + (" and a causal mask" if problem.causal else ""), number)
    crowded = problem.batch * problem.heads > _MOST_HEADS and arch != HOPPER
    if problem.d > 128 or not problem.scale > 0 or arch < AMPERE or crowded:
        why = (
            f"d = {problem.d} is more than 128"
            if problem.d > 128
            else "tensor-core kernels take the maximum before a positive scale"
            if not problem.scale > 0
            else f"more than {_MOST_HEADS:,} heads in all"
            if crowded
            else "BF16 tensor cores need a GPU of compute capability 8.0"
        )
        return Choice("general/attention", why, number)
    padded = "" if problem.d == wide else f", d = {problem.d} filled up to {wide}"
    if arch == HOPPER:
        settings = {"D": wide, "CAUSAL": int(problem.causal)}
        if split := _split(problem, wide):
            why = f"BF16 on Hopper, few queries: their keys split over {2 * split} warpgroups{padded}"
            return Choice("general/attention_split_hopper", why, {**settings, "SPLIT": split})
        settings["TURNS"] = 1
        return Choice("attention_hopper", f"BF16 on Hopper: wgmma, ping-pong, lists{padded}", settings)
    settings = {"D": wide, "CAUSAL": int(problem.causal), "TILES": 2, "KEYS": 64}
    return Choice("attention_mma", f"BF16 tensor cores by mma.sync{padded}", settings)


@dataclass(frozen=True)
class _Times:
    """Times of the two BF16 kernels on an H200, in µs, fitted to 154 random shapes with few queries."""

    launch_us: float
    """Launch of the kernel with lists."""
    step_us: float
    """128 queries and 128 keys on an SM."""
    split_us: float
    """Launch of the kernel that splits the keys."""
    split_step_us: float
    """64 queries and 256 keys on an SM."""


_TIMES = {64: _Times(5.9, 1.2, 3.4, 1.45), 128: _Times(6.1, 1.51, 3.1, 2.3)}
_MOST_TILES = 400
"""Tiles of 64 queries beyond which the kernel with lists is always chosen."""


def _split(problem: Problem, wide: int) -> int:
    """The number of blocks to split the keys of a query tile over; 0 if the lists should be faster."""
    heads, tiles = problem.batch * problem.heads, ceil_div(problem.queries, 64)
    if heads * tiles > _MOST_TILES:
        return 0
    times, sizes = (
        _TIMES[wide],
        (heads, problem.queries, problem.keys, problem.shift if problem.causal else None),
    )
    times_us = [(times.launch_us + times.step_us * _busiest(_spread(*sizes, workers=FILLED[1])), 0)]
    for split in (1, 2, 4):
        lists = _spread(*sizes, workers=FILLED[split] // split, high=64, at_once=2 * split, extra=2)
        times_us.append((times.split_us + times.split_step_us * _busiest(lists), split))
    return min(times_us)[1]


def choose_backward(problem: Problem, arch: int) -> Choice:
    """Choose the kernels that compute the gradients."""
    fits = (
        problem.kind == "bfloat16"
        and problem.d <= 128
        and problem.d % 8 == 0
        and problem.share == 1
        and problem.queries == problem.keys
    )
    fits = fits and problem.batch * problem.heads <= _MOST_HEADS
    if fits and arch == HOPPER and not (problem.causal and problem.shift):
        wide = 64 if problem.d <= 64 else 128
        kernel = "general/backward_hopper" if wide == 64 else "attention_backward_hopper"
        padded = "" if problem.d == wide else f", d = {problem.d} filled up to {wide} by the copies"
        why = f"BF16 on Hopper, as many keys as queries{padded}"
        return Choice(kernel, why, launch={"heads_first": int(problem.causal)})  # the longest blocks first
    number = {"Number": C_TYPES[problem.kind], "D": problem.d, "CAUSAL": int(problem.causal)}
    return Choice(
        "general/attention", "the tensor-core kernel takes BF16, d up to 128, N = M, no groups", number
    )


@planned
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    shift: int | None = None,
    scale: float | None = None,
    layout: str = "BHSD",
    dtype: str | None = None,
    out: Any = None,
    return_lse: bool = False,
) -> Any:
    """softmax(scale * q @ k.T) @ v for each head, accumulated in FP32.

    A query that sees no key gets zeros, and a log-sum-exp of minus infinity.

    Args:
        q: queries (batch, heads, N, d), float32, bfloat16 or float16, of any strides; d up to 256. Leading
            axes may be left out.
        k: keys (batch, KV heads, M, d), of the same type; KV heads divide heads.
        v: values, of the shape of `k`.
        causal: whether query i sees only keys up to i + shift.
        shift: of the causal mask; None takes M - N, so that the last query sees the last key. PyTorch's
            `is_causal` is 0.
        scale: factor of the scores; None takes 1 / sqrt(d).
        layout: "BHSD", or "BSHD" for (batch, N, heads, d).
        dtype: "bfloat16" if uint16 arrays of NumPy or CuPy hold BF16.
        out: a contiguous array of `q`'s shape and type to write to.
        return_lse: whether to also return the log-sum-exp of each row of scores.

    Returns:
        An array of the library, shape and type of `q`; with `return_lse` also (batch, heads, N) in float32.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    call = "attention"
    inputs = all_taken(call, {"q": q, "k": k, "v": v}, dtype, out)
    problem, heads = _problem(call, inputs, causal, shift, scale, layout)
    output = result(call, inputs[0], inputs[0].shape, problem.kind, out)
    leading = (problem.batch, problem.heads)[2 - max(0, len(inputs[0].shape) - 2) :]
    lse = result(call, inputs[0], (*leading, problem.queries), "float32")
    with at(inputs[0]):
        run(call, _forward(problem, heads, _heads(call, output, layout), lse))
    return (returned(output), returned(lse)) if return_lse else returned(output)


@planned
def attention_backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    *,
    causal: bool = False,
    shift: int | None = None,
    scale: float | None = None,
    layout: str = "BHSD",
    dtype: str | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients of `attention`.

    Args:
        dout: the gradient of the output.
        q: as passed to `attention`.
        k: likewise.
        v: likewise.
        out: the output of `attention`.
        lse: the log-sum-exp that it returned.
        causal: as passed to `attention`.
        shift: likewise.
        scale: likewise.
        layout: likewise.
        dtype: likewise.

    Returns:
        The gradients of q, k and v, in their shapes. On Hopper's tensor cores, the last bits of q's gradient
        differ from run to run.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    call = "attention_backward"
    inputs = all_taken(call, {"q": q, "k": k, "v": v, "out": out, "dout": dout}, dtype)
    sums = taken(call, "lse", lse, kinds=("float32",))
    same_place(call, inputs[0], sums)
    problem, _ = _problem(call, inputs[:3], causal, shift, scale, layout)
    for tensor in inputs[3:]:
        if tensor.shape != inputs[0].shape:
            raise wrong(
                call, tensor.name, f"has shape {tensor.shape}", f"Pass one of q's shape {inputs[0].shape}"
            )
    if sums.data.size != problem.batch * problem.heads * problem.queries:
        raise wrong(call, "lse", f"has shape {sums.shape}", "Pass what attention(..., return_lse=True) gave")
    gradients = [result(call, tensor, tensor.shape, problem.kind) for tensor in inputs[:3]]
    with at(inputs[0]):
        heads = [_heads(call, tensor, layout) for tensor in inputs]
        run(call, _backward(problem, heads, sums, [_heads(call, tensor, layout) for tensor in gradients]))
    return (returned(gradients[0]), returned(gradients[1]), returned(gradients[2]))


def _heads(call: str, tensor: Tensor, layout: str) -> Tensor:
    """A view of an array as (batch, heads, length, d)."""
    if layout not in LAYOUTS:
        raise KernelError(f"{call}: layout is {layout!r}. Pass {' or '.join(map(repr, LAYOUTS))}.")
    axes = len(tensor.shape)
    fewest = 2 if layout == "BHSD" else 3
    if not fewest <= axes <= 4:
        raise wrong(
            call, tensor.name, f"has shape {tensor.shape}", f"Pass {fewest} to 4 axes, the last of {layout}"
        )
    whole = tensor.data[(None,) * (4 - axes)]
    return tensor.of(whole.transpose(LAYOUTS[layout]))


def _problem(
    call: str,
    inputs: list[Tensor],
    causal: bool,
    shift: int | None,
    scale: float | None,
    layout: str,
) -> tuple[Problem, list[Tensor]]:
    q, k, v = heads = [_heads(call, tensor, layout) for tensor in inputs]
    if k.shape != v.shape:
        raise wrong(call, "v", f"has shape {inputs[2].shape}", f"Pass one of k's shape {inputs[1].shape}")
    (batch, count, queries, d), (kv_batch, kv_heads, keys, kv_d) = q.shape, k.shape
    if kv_batch != batch or kv_d != d:
        raise wrong(
            call,
            "k",
            f'has shape {inputs[1].shape}, and "q" has {inputs[0].shape} in the layout {layout}',
            "Pass arrays whose batch and last axis agree",
        )
    if count and (not kv_heads or count % kv_heads):
        raise wrong(call, "k", f"has {kv_heads} heads, which do not divide the {count} of q", "Change one")
    if not 1 <= d <= WIDEST:
        raise wrong(call, "q", f"has heads of {d} columns", f"Pass 1 to {WIDEST}")
    if max(queries, keys) >= 2**30 or batch * count >= 2**30:
        raise wrong(call, "q", f"has shape {inputs[0].shape}: counts do not fit 32 bits", "Pass fewer heads")
    if shift is not None and not causal:
        raise KernelError(
            f"{call}: shift is {shift}, and causal is False. Pass causal=True, or leave it away."
        )
    factor = d**-0.5 if scale is None else float(scale)
    if not math.isfinite(factor):
        raise KernelError(f"{call}: scale is {scale}. Pass a finite number.")
    by = keys - queries if shift is None else int(shift)
    by = max(-(2**30), min(by, 2**30)) if causal else keys
    sizes = (batch, count, max(kv_heads, 1), queries, keys, d, q.kind)
    return Problem(*sizes, causal=causal, shift=by, scale=factor), heads


def _forward(problem: Problem, heads: list[Tensor], output: Tensor, lse: Tensor) -> list[Step]:
    if 0 in output.shape:
        return []
    if not problem.keys:
        return [*filling(output.of(output.data), 0.0), *filling(lse, -np.inf)]
    choice = choose(problem, capability())
    width = choice.settings["D"]
    steps: list[Step] = []
    if choice.kernel.endswith("_hopper") and problem.d % 8 == 0:
        width = problem.d  # TMA pads tiles with zeros and doesn't store columns beyond d
    q, k, v = (_contiguous(tensor, width, steps) for tensor in heads)
    fits = output.contiguous and output.aligned() and width == problem.d
    target = (
        output if fits else output.of(workspace("attention", output, (*output.shape[:3], width), output.kind))
    )
    launch = _LAUNCHES[choice.kernel]
    steps += launch(choice, problem, q, k, v, target, lse.data.reshape(-1))
    return steps if fits else steps + packing("attention", target.of(target.data[..., : problem.d]), output)


def _contiguous(tensor: Tensor, width: int, steps: list[Step]) -> Tensor:
    """Contiguous heads of `width` columns; launches that copy them are appended to `steps`."""
    if tensor.shape[-1] == width:
        copy, more = dense("attention", tensor)
        steps += more
        return copy
    padded = tensor.of(workspace("attention", tensor, (*tensor.shape[:3], width), tensor.kind))
    steps += filling(padded, 0.0)
    steps += packing("attention", tensor, padded.of(padded.data[..., : tensor.shape[-1]]))
    return padded


def _flat(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.data.reshape(-1) for tensor in tensors)


def _sizes(problem: Problem) -> tuple[Any, ...]:
    return (problem.queries, problem.keys, problem.share, problem.shift, problem.scale)


def _general(
    choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Any
) -> list[Step]:
    grid = ceil_div(problem.queries, 16) * problem.batch * problem.heads
    wide = ceil_div(problem.d, 32) * 32
    shared = 4 * (64 * (wide + 1) + 16 * wide)
    arguments = (*_flat(q, k, v), lse, *_flat(o), *_sizes(problem))
    return [Step(choice.load("attention_forward"), arguments, grid, 128, shared)]


def _fp32(
    choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Any
) -> list[Step]:
    count = problem.batch * problem.heads
    bias = constant(q, np.zeros(problem.keys, np.float32))
    whole = ceil_div(problem.keys, 128) * 128  # one split of all keys
    sizes = (problem.queries, problem.keys, whole, problem.scale)
    shared = 4 * (64 * (128 + 4) + 128 * (128 + 4) + 128 * 128 + 64 * (128 + 16))
    steps = []
    for first in range(0, count, _MOST_HEADS):  # heads of one launch
        last = min(count, first + _MOST_HEADS)
        grid = (ceil_div(problem.queries, 64), 1, last - first)
        parts = [part.of(part.data.reshape(count, -1)[first:last]) for part in (q, k, v, o)]
        rows = lse.reshape(count, -1)[first:last].reshape(-1)
        arguments = (*_flat(*parts[:3]), bias, *_flat(parts[3]), rows, *sizes)
        steps.append(Step(choice.load(), arguments, grid, 256, shared))
    return steps


def _mma(
    choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Any
) -> list[Step]:
    sizes, count = choice.settings, problem.batch * problem.heads
    rows = 64 * sizes["TILES"]
    shared = 2 * sizes["D"] * (rows + 2 * sizes["KEYS"])
    arguments = (*_flat(q, k, v), lse, *_flat(o), *_sizes(problem))
    return [Step(choice.load(), arguments, (ceil_div(problem.queries, rows), count), 128, shared)]


def _hopper(
    choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Any
) -> list[Step]:
    count, width = problem.batch * problem.heads, choice.settings["D"]
    shift = problem.shift if problem.causal else None
    order = constant(q, _lists(count, problem.queries, problem.keys, shift, multiprocessors()))
    maps = [_map(array, high) for array, high in ((q, 64), (k, 128), (v, 128), (o, 64))]
    entries = int(order.shape[0] * order.shape[1])
    arguments = (*maps, lse, order, entries, *_sizes(problem))
    return [Step(choice.load(), arguments, int(order.shape[1]), 384, 128 * width * 14)]


def _split_hopper(
    choice: Choice, problem: Problem, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Any
) -> list[Step]:
    count, width, split = problem.batch * problem.heads, choice.settings["D"], choice.settings["SPLIT"]
    maps = [_map(array, high) for array, high in ((q, 64), (k, 128), (v, 128))]
    arguments = (*maps, *_flat(o), lse, count, o.shape[-1], *_sizes(problem))
    tile, stages = 256 * width, 4 if width == 64 else 3
    shared = 128 * width + 2 * stages * tile
    return [Step(choice.load(), arguments, ceil_div(problem.queries, 64) * count * split, 384, shared)]


_LAUNCHES: Mapping[str, Any] = {
    "general/attention_split_hopper": _split_hopper,
    "general/attention": _general,
    "attention_fp32": _fp32,
    "attention_mma": _mma,
    "attention_hopper": _hopper,
}


def _map(heads: Tensor, high: int) -> Any:
    """A tensor map of (heads, length, d) with boxes of `high` rows of one head."""
    stacked = heads.data.reshape(-1, *heads.shape[2:])
    return tensor_map(stacked, box=(1, high, 64), swizzle=128, dtype="bfloat16")


@cache
def _lists(heads: int, queries: int, keys: int, shift: int | None, blocks: int) -> Any:
    """(query tile, head) of each block, longest first, as (rounds, blocks, 2), padded with -1."""
    lists = _spread(heads, queries, keys, shift, blocks)
    order = np.full((max(map(len, lists)), len(lists), 2), -1, np.int32)
    for block, pieces in enumerate(lists):
        order[: len(pieces), block] = [piece for _, *piece in pieces]
    return order


def _spread(
    heads: int,
    queries: int,
    keys: int,
    shift: int | None,
    workers: int,
    *,
    high: int = 128,
    at_once: int = 1,
    extra: int = 1,
) -> list[list[tuple[int, int, int]]]:
    """(steps, query tile, head) of each worker, longest first: each goes to the worker that is free first.

    Args:
        heads: of all sequences.
        queries: rows of a head.
        keys: likewise.
        shift: of the causal mask; None if there is no mask.
        workers: the most there can be.
        high: rows of a query tile.
        at_once: key tiles per step.
        extra: fixed cost of a query tile, in steps.
    """

    def cost(tile: int) -> int:
        seen = keys if shift is None else min(keys, high * (tile + 1) + shift)
        return extra + max(1, ceil_div(seen, 128 * at_once))

    tiles = [(cost(tile), tile, head) for head in range(heads) for tile in range(ceil_div(queries, high))]
    lists: list[list[tuple[int, int, int]]] = [[] for _ in range(min(workers, len(tiles)))]
    load = [(0, worker) for worker in range(len(lists))]
    for piece in sorted(tiles, key=lambda tile: -tile[0]):
        so_far, worker = heapq.heappop(load)
        lists[worker].append(piece)
        heapq.heappush(load, (so_far + piece[0], worker))
    return lists


def _busiest(lists: list[list[tuple[int, int, int]]]) -> int:
    """The steps of the busiest worker."""
    return max(sum(steps for steps, *_ in pieces) for pieces in lists)


def _backward(problem: Problem, heads: list[Tensor], lse: Tensor, gradients: list[Tensor]) -> list[Step]:
    call = "attention_backward"
    if not (problem.batch * problem.heads * problem.queries and problem.keys):
        return [step for array in gradients for step in filling(array, 0.0)]
    choice = choose_backward(problem, capability())
    steps: list[Step] = []
    q, k, v, out, dout = (_contiguous(tensor, problem.d, steps) for tensor in heads)
    sums, more = dense(call, lse)
    steps += more
    outputs = []
    after: list[Step] = []
    for array in gradients:
        fits = array.contiguous and array.aligned()
        outputs.append(array if fits else array.of(workspace(call, array, array.shape, array.kind)))
        after += [] if fits else packing(call, outputs[-1], array)
    launch = _backward_general if choice.kernel == "general/attention" else _backward_hopper
    return [*steps, *launch(choice, problem, (q, k, v, out, dout), sums, outputs), *after]


def _backward_general(
    choice: Choice, problem: Problem, inputs: tuple[Tensor, ...], lse: Tensor, gradients: list[Tensor]
) -> list[Step]:
    q, k, v, out, dout = _flat(*inputs)
    count = problem.batch * problem.heads
    delta = workspace("attention_backward", lse, (count * problem.queries,), "float32")
    wide = ceil_div(problem.d, 32) * 32
    shared = 4 * (64 * (wide + 1) + 32 * wide)
    sums = lse.data.reshape(-1)
    dq, dk, dv = _flat(*gradients)
    first, second = choice.load("backward_queries"), choice.load("backward_keys")
    of_keys = (q, k, v, dout, sums, delta, dk, dv, *_sizes(problem))
    return [
        Step(
            first,
            (q, k, v, out, dout, sums, delta, dq, *_sizes(problem)),
            ceil_div(problem.queries, 16) * count,
            128,
            shared,
        ),
        Step(second, of_keys, ceil_div(problem.keys, 16) * problem.batch * problem.kv_heads, 128, shared),
    ]


def _backward_hopper(
    choice: Choice, problem: Problem, inputs: tuple[Tensor, ...], lse: Tensor, gradients: list[Tensor]
) -> list[Step]:
    call, count, n = "attention_backward", problem.batch * problem.heads, problem.queries
    padded, wide = ceil_div(n, 64) * 64, 128 if choice.lesson else 64
    q, k, v, out, dout = inputs
    dq, dk, dv = gradients
    delta, rows = (workspace(call, lse, (count, padded), "float32") for _ in range(2))
    sums = workspace(call, lse, (count, padded // 64, 2, wide // 16, 128, 4), "float32")
    boxes = ((q, 64), (dout, 64), (k, 128), (v, 128), (dk, 64), (dv, 64))
    maps = tuple(_map(array, high) for array, high in boxes)
    if problem.d == 128:
        prepare, finish = choice.load("prepare"), choice.load("finish")
    else:  # TMA pads tiles with zeros and doesn't store columns beyond d
        prepare, finish = (
            general("backward_narrow", f"{name}_narrow", D=problem.d, WIDE=wide)
            for name in ("prepare", "finish")
        )
    first = (*_flat(out, dout), lse.data.reshape(-1), delta, rows, sums, n, padded)
    heads_first, blocks = choice.launch["heads_first"], ceil_div(n, 128)
    second = (*maps, rows, delta, sums, padded, problem.scale, int(problem.causal), heads_first)
    grid = (count, blocks) if heads_first else (blocks, count)
    shared = 180_224 if choice.lesson else 114_688
    last = (sums, *_flat(dq), problem.scale, n, padded)
    return [
        Step(prepare, first, (padded * wide // 2048, count), 256),
        Step(choice.load("backward"), second, grid, 384, shared),
        Step(finish, last, (padded // 64, ceil_div(problem.d, wide // 2), count), 128),
    ]
