"""Attention of one new query per head over a cache of keys and values.

In: queries, a cache of any strides or in pages, and lengths. Out: one row per head. Keys are split over
blocks; a cluster or a second launch combines their results. 16-bit elements use tensor cores, with all query
heads of a KV head at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewise.cuda.cases import ceil_div
from tilewise.kernels.calls.arrays import (
    C_TYPES,
    Tensor,
    all_taken,
    at,
    result,
    returned,
    same_place,
    taken,
    workspace,
    wrong,
)
from tilewise.kernels.calls.attentions import WIDEST
from tilewise.kernels.calls.launching import (
    AMPERE,
    FILLED,
    HOPPER,
    Choice,
    Step,
    capability,
    dense,
    general,
    multiprocessors,
    packed,
    run,
)
from tilewise.kernels.calls.plans import planned

_CALL = "attention_decode"
_MOST_SPLITS, _BLOCKS_PER_SM, _CLUSTERS = 64, 3, (2, 4, 8)
_LAUNCH_US, _WAVE_US, _KEY_US, _KEY_ALONE_US = 4.19, 2.07, 0.00878, 0.0152
_BYTES_PER_US, _PART_WAVE, _LAST_BLOCKS = 4.53e6, 0.423, 0.196
"""Memory bandwidth, and the extra traffic time for a partial wave and for the last blocks."""


def choose(d: int, kind: str, *, whole: bool, arch: int) -> Choice:
    """Choose the kernel.

    Args:
        d: columns of a head.
        kind: the element type.
        whole: whether every row begins at a multiple of 16 bytes.
        arch: the compute capability, such as 90.
    """
    if kind != "float32" and d in (64, 128) and whole and arch >= AMPERE:
        why = f"{kind}, d = {d}: tensor cores, each key is loaded once for 16 query heads"
        return Choice(
            "general/decode_mma", why, {"Number": C_TYPES[kind], "HALF": int(kind == "float16"), "D": d}
        )
    why = f"{kind} with d = {d}" if whole else "rows that begin at no multiple of 16 bytes"
    return Choice("general/decode", why, {"Number": C_TYPES[kind], "D": d})


@planned
def attention_decode(
    q: Any,
    k: Any,
    v: Any,
    lengths: Any = None,
    table: Any = None,
    *,
    scale: float | None = None,
    dtype: str | None = None,
    out: Any = None,
) -> Any:
    """softmax(scale * q @ k.T) @ v with one query per head, accumulated in FP32.

    A sequence without keys gets zeros.

    Args:
        q: queries (batch, heads, d), float32, bfloat16 or float16; d up to 256.
        k: keys (batch, KV heads, N, d) of the same type, of any strides whose last axis is adjacent; KV heads
            divide heads. With `table`: pages (pages, KV heads, keys per page, d).
        v: values, of the shape of `k`.
        lengths: the number of keys of each sequence, (batch,) int32; None for all.
        table: the pages of each sequence in order, (batch, most pages) int32, for a paged cache.
        scale: factor of the scores; None takes 1 / sqrt(d).
        dtype: "bfloat16" if uint16 arrays of NumPy or CuPy hold BF16.
        out: a contiguous array of `q`'s shape and type to write to.

    Returns:
        An array of the library, shape and type of `q`.

    Raises:
        KernelError: an argument does not fit; nothing was written. Entries of `lengths` and `table` are
            checked only in NumPy arrays; on a GPU the check would synchronise.
    """
    inputs = all_taken(_CALL, {"q": q, "k": k, "v": v}, dtype, out)
    integers = [
        None if integer_array is None else taken(_CALL, name, integer_array, kinds=("int32",))
        for name, integer_array in (("lengths", lengths), ("table", table))
    ]
    same_place(_CALL, inputs[0], *(integer_array for integer_array in integers if integer_array is not None))
    _check(inputs, integers, lengths, table)
    output = result(_CALL, inputs[0], inputs[0].shape, inputs[0].kind, out)
    with at(inputs[0]):
        if 0 not in output.shape:
            factor = inputs[0].shape[-1] ** -0.5 if scale is None else float(scale)
            run(_CALL, _steps(inputs, integers, output, factor))
    return returned(output)


def _check(inputs: list[Tensor], integers: list[Tensor | None], lengths: Any, table: Any) -> None:
    q, k, v = inputs
    sizes, pages = integers
    if len(q.shape) != 3 or not 1 <= q.shape[-1] <= WIDEST:
        raise wrong(_CALL, "q", f"has shape {q.shape}", f"Pass (batch, heads, d), d from 1 to {WIDEST}")
    if len(k.shape) != 4 or k.shape[-1] != q.shape[-1] or (pages is None and k.shape[0] != q.shape[0]):
        raise wrong(_CALL, "k", f'has shape {k.shape}, and "q" has {q.shape}', "Pass (batch, heads, N, d)")
    if k.shape != v.shape:
        raise wrong(_CALL, "v", f"has shape {v.shape}", f"Pass one of k's shape {k.shape}")
    if q.shape[1] and (not k.shape[1] or q.shape[1] % k.shape[1]):
        raise wrong(
            _CALL, "k", f"has {k.shape[1]} heads, which do not divide the {q.shape[1]} of q", "Change one"
        )
    if q.shape[0] * q.shape[1] > 65_535:
        raise wrong(
            _CALL, "q", f"has {q.shape[0] * q.shape[1]:,} heads in all", "Pass at most 65,535 at once"
        )
    if sizes is not None and sizes.shape != q.shape[:1]:
        raise wrong(_CALL, "lengths", f"has shape {sizes.shape}", f"Pass one for each of {q.shape[0]}")
    if pages is not None and (len(pages.shape) != 2 or pages.shape[0] != q.shape[0] or sizes is None):
        raise wrong(_CALL, "table", f"has shape {pages.shape}", "Pass (batch, most pages), and lengths")
    most = k.shape[2] * (1 if pages is None else pages.shape[1])
    if isinstance(lengths, np.ndarray) and lengths.size and not 0 <= lengths.min() <= lengths.max() <= most:
        raise wrong(_CALL, "lengths", f"has values outside 0 to {most}", "Correct them")
    if isinstance(table, np.ndarray) and isinstance(lengths, np.ndarray):
        used = np.arange(table.shape[1]) * k.shape[2] < lengths[:, None]
        if np.any(used & ((table < 0) | (table >= k.shape[0]))):
            raise wrong(_CALL, "table", f"names pages outside 0 to {k.shape[0] - 1}", "Correct them")


def _steps(inputs: list[Tensor], integers: list[Tensor | None], output: Tensor, scale: float) -> list[Step]:
    q, k, v = inputs
    q, steps = dense(_CALL, q)
    (batch, heads, d), kv_heads = q.shape, k.shape[1]
    share, rows = heads // kv_heads, batch * heads
    n = k.shape[2] * (1 if integers[1] is None else integers[1].shape[1])
    caches = []
    for tensor in (k, v):
        adjacent = tensor.steps[-1] == 1 or d == 1
        cache, more = (tensor, []) if adjacent else packed(_CALL, tensor)
        caches.append(cache)
        steps += more
    lists = [None if tensor is None else dense(_CALL, tensor) for tensor in integers]
    for pair in lists:
        steps += [] if pair is None else pair[1]
    lengths, table = (None if pair is None else pair[0].data.reshape(-1) for pair in lists)
    pages = 0 if integers[1] is None else integers[1].shape[1]
    strides = [step for cache in caches for step in cache.steps[:3]]
    whole = n > 0 and all(cache.aligned() for cache in caches) and not any(step % 8 for step in strides)
    choice = choose(d, q.kind, whole=whole, arch=capability())
    pointers = (q.data.reshape(-1), *(_memory(cache) for cache in caches), lengths, table)
    cache_sizes = (max(1, k.shape[2]), pages, *strides, scale)
    flat, mma = output.data.reshape(-1), choice.kernel == "general/decode_mma"
    groups = ceil_div(share, 16) if mma else 1
    blocks = batch * kv_heads * groups if mma else rows
    splits = _splits(blocks, n, rows, d) if mma else ceil_div(3 * multiprocessors(), blocks)
    splits = max(1, min(_MOST_SPLITS, splits, ceil_div(n, 64)))
    split = max(16, ceil_div(ceil_div(n, splits), 16) * 16)
    if mma and (splits == 1 or (capability() == HOPPER and splits in _CLUSTERS)):
        kernel = general("decode_mma", **choice.settings, CLUSTER=splits, DIRECT=1)
        sizes = (heads, share, groups, n, split, *cache_sizes)
        return [
            *steps,
            Step(kernel, (*pointers, flat, None, None, *sizes), (splits, blocks), 128, _shared(d)),
        ]
    splits = max(1, ceil_div(n, split))
    part = workspace(_CALL, q, (splits, rows, d), "float32")
    sums = workspace(_CALL, q, (splits, rows), "float32")
    if mma:
        kernel = general("decode_mma", **choice.settings, CLUSTER=1, DIRECT=0)
        sizes = (heads, share, groups, n, split, *cache_sizes)
        first = Step(kernel, (*pointers, None, part, sums, *sizes), (splits, blocks), 128, _shared(d))
    else:
        sizes = (heads, share, n, split, *cache_sizes)
        first = Step(choice.load("decode_split"), (*pointers, part, sums, *sizes), (splits, rows), 128)
    combine = general("decode", "decode_combine", Number=C_TYPES[q.kind], D=d)
    last = Step(combine, (part, sums, flat, rows, splits), ceil_div(rows * d, 256), 256)
    return [*steps, first, last]


def _splits(blocks: int, n: int, rows: int, d: int) -> int:
    """The number of blocks to split the keys of a row over: the best by a model of times on an H200.

    The time is the longer of the loops' latency and the memory traffic, which slows down if the last wave of
    blocks is partial or there are few waves. Fitted to 380 random shapes: near the best time, the model is
    within 9 % of it.
    """
    sms, clusters = multiprocessors(), _CLUSTERS if capability() == HOPPER else ()

    def time(splits: int) -> float:
        slots = max(1, sms * FILLED[splits] // 132) if splits in clusters else sms
        on_sm, keys = ceil_div(blocks * splits, slots), max(16, ceil_div(ceil_div(n, splits), 16) * 16)
        waves, filled = ceil_div(on_sm, _BLOCKS_PER_SM), blocks * splits / (slots * _BLOCKS_PER_SM)
        latency = keys * d / 128 * max(waves * _KEY_ALONE_US, on_sm * _KEY_US)
        uneven = _PART_WAVE * (math.ceil(filled) / filled - 1) if filled > 1 else 0.0
        traffic = blocks * n * d * 4 / _BYTES_PER_US * (1 + uneven + _LAST_BLOCKS / max(filled, 1.0))
        work = _LAUNCH_US + max(latency, traffic) + waves * _WAVE_US
        if splits == 1:
            return work
        return work + (1.19 + 0.152 * splits if splits in clusters else 5.84 + splits * rows * d * 3e-6)

    return min(range(1, 1 + min(_MOST_SPLITS, max(1, n // 64))), key=time)


def _shared(d: int) -> int:
    """Bytes of shared memory of the tensor-core kernel: two stages of 16 keys for each of 4 warps."""
    return 4 * max(2 * 16 * d * 4, 16 * (d + 4) * 4)


def _memory(cache: Tensor) -> Any:
    """A cache's memory; for an empty one, a pointer that is not read."""
    return cache.flat() if math.prod(cache.shape) else workspace(_CALL, cache, (1,), cache.kind)
