"""A trace's accesses split into array elements: a 4-byte word is two FP16 elements.

In: the accesses of a traced run, and the element type of each array. Out: columns for ``Rows``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tilewise.bf16 import values as bf16_values
from tilewise.figures.kinds.stepped.moments import SHARED, WORD_BYTES, Rows


def by_element(trace: Any, dtypes: Sequence[np.dtype[Any] | None], coded: Sequence[bool]) -> Rows:
    """Return a row for each element that an access touches.

    Args:
        trace: the accesses, ``Run.accesses``.
        dtypes: the element type of each buffer; None if unknown.
        coded: for each buffer, whether it contains BF16 as uint16.
    """
    columns = {field.name: np.asarray(getattr(trace, field.name)) for field in fields(Rows)}
    size, is_shared = columns["size"].astype(np.int64), columns["space"] == SHARED
    width = np.where(is_shared, size, WORD_BYTES)  # the trace's own unit if the type is unknown
    for number, dtype in enumerate(dtypes):
        if dtype is not None:
            width[columns["buffer"] == number] = dtype.itemsize
    parts = np.where((columns["buffer"] >= 0) & (size % width == 0), np.maximum(size // width, 1), 1)
    index = columns["index"].astype(np.int64)
    columns["index"] = np.where(is_shared & (parts > 1), index * parts, index)
    columns["size"] = size // parts
    row = np.repeat(np.arange(len(size)), parts)
    part = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
    columns = {name: column[row] for name, column in columns.items()}
    before = part * columns["size"]
    columns["index"] += part
    columns["address"] = columns["address"] + before.astype(np.uint64)
    value = columns["value"] = columns["value"].astype(np.float64)
    bits = np.asarray(trace.bits, np.uint64)[row] >> (8 * before).astype(np.uint64)
    for number, dtype in enumerate(dtypes):
        known = dtype if dtype is not None else np.dtype(np.float32)
        selected = columns["buffer"] == number
        selected &= columns["size"] == known.itemsize if dtype is not None else parts[row] > 1
        if selected.any() and known.kind in "fiub":
            numbers = trace.decoded(bits[selected], known)
            value[selected] = bf16_values(numbers) if coded[number] else numbers
    return Rows(**{name: column.tolist() for name, column in columns.items()})
