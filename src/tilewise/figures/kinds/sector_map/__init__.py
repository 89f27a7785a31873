"""A sector map: the 32 lanes of a warp above the memory that they read, coloured by sector.

In: strides and offsets. Out: a Figure with the element of every lane for every position of its two sliders.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.figures.figure import Figure
from tilewise.models import sectors_of_stride

LANES, LINE, SECTOR = 32, 32, 8
"""Lanes of a warp, and elements of 4 bytes in a cache line and in a sector."""
ROW, AROUND, NARROW_AROUND = 18, 220, 248
"""Height in px of a row of memory, and of the rest of the figure on a wide and a narrow screen."""


def sector_map(
    strides: Sequence[int],
    offsets: Sequence[int],
    *,
    start: tuple[int, int],
    title: str,
    caption: str,
) -> Figure:
    """Return a figure with 32 lanes, the cache lines that they touch, and sliders for stride and offset.

    Args:
        strides: values of the first slider: from lane to lane, in elements of 4 bytes.
        offsets: values of the second slider: of lane 0, in elements.
        start: the stride and the offset shown first.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.

    Raises:
        ValueError: the start is not a position of the sliders, or a stride or an offset is negative.
    """
    if start[0] not in strides or start[1] not in offsets:
        raise ValueError(f"a sector map starts at a stride and an offset of its sliders, not at {start}")
    if min(*strides, *offsets, 0) < 0:
        raise ValueError("a sector map needs strides and offsets of at least 0")
    elements = {
        (stride, offset): [offset + lane * stride for lane in range(LANES)]
        for stride in strides
        for offset in offsets
    }
    rows = max(max(of) for of in elements.values()) // LINE + 1
    first = (strides[0], offsets[0])
    shown = dict.fromkeys(
        [(stride, start[1]) for stride in strides] + [(start[0], offset) for offset in offsets], first
    )
    return Figure(
        title=title,
        caption=caption,
        alt="The 32 lanes of a warp above the memory they read, a cache line of four sectors per row. Lanes "
        "served by one sector have its colour. Each line below is a position of the sliders.",
        height=AROUND + ROW * rows,
        narrow_height=NARROW_AROUND + ROW * rows,
        kind="sector_map",
        spec={
            "strides": list(strides),
            "offsets": list(offsets),
            "start": [list(strides).index(start[0]), list(offsets).index(start[1])],
            "rows": rows,
            "elements": list(elements.values()),
            "said": [_cost_text(*position) for position in elements],
        },
        steps=tuple(
            f"stride {position[0]}, offset {position[1]}: {_cost_text(*position)}" for position in shown
        ),
    )


def _cost_text(stride: int, offset: int) -> str:
    """Describe the bytes that one request fetches and uses."""
    sectors = sectors_of_stride(stride, offset=4 * offset)
    used = 4 * (LANES if stride else 1)
    many = "sector" if sectors == 1 else "sectors"
    return (
        f"{sectors} {many}, {32 * sectors:,} bytes fetched, {100 * used / (32 * sectors):.3g}% of them used"
    )
