"""The ribbon: blocks laid along an array, with the idle threads of the last one.

In: the number of elements and the block size. Out: a Figure with sliders for both. Drawing is left to
``web/figures/ribbon.js``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.figures.dims import MAX_BLOCK_THREADS
from tilewise.figures.figure import Figure


def ribbon(
    n: int,
    block: int,
    *,
    title: str,
    caption: str,
    blocks: Sequence[int] = (32, 64, 128, 256, 512, 1024),
    most: int | None = None,
    array: str = "c",
    alt: str | None = None,
) -> Figure:
    """Return the ribbon of blocks over an array of ``n`` elements.

    Args:
        n: elements of the array.
        block: threads in a block.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        blocks: block sizes that the slider offers; ``block`` is added.
        most: last value of the slider of ``n``; by default about twice ``n``.
        array: the array's name.
        alt: the text alternative; by default made from the sizes.

    Raises:
        ValueError: n is below 1, or a block size is not between 1 and 1,024.
    """
    sizes = sorted({*blocks, block})
    if n < 1 or sizes[0] < 1 or sizes[-1] > MAX_BLOCK_THREADS:
        raise ValueError(
            f"a ribbon takes n from 1 on and blocks of 1 to {MAX_BLOCK_THREADS} threads; n={n}, {sizes}"
        )
    rows = tuple(
        f"Blocks of {size:,} threads: {_ceil(n, size):,} blocks, {_ceil(n, size) * size:,} threads, "
        f"{_ceil(n, size) * size - n:,} idle."
        for size in sizes
    )
    count = _ceil(n, block)
    said = (
        f"An array {array} of {n:,} elements under {count:,} blocks of {block:,} threads. "
        f"Thread t of block b takes element b · {block:,} + t. The last block, {count - 1:,}, starts at "
        f"element {(count - 1) * block:,}; {count * block - n:,} of its threads are idle."
    )
    return Figure(
        title=title,
        caption=caption,
        alt=alt or said,
        height=460,
        narrow_height=490,
        kind="ribbon",
        spec={"n": n, "block": block, "blocks": sizes, "most": most or 2 * n, "array": array},
        steps=rows,
    )


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
