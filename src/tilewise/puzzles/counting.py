"""The least sectors and requests for some work: the arithmetic behind the budgets.

In: counts of 4-byte elements, of threads, of rows. Out: integers.
"""

from __future__ import annotations

from tilewise.cuda.cases import ceil_div

WARP = 32
"""Lanes of a warp."""
A_SECTOR = 8
"""4-byte elements in a 32-byte sector."""
MOST_A_RUN = 5
"""Most sectors of 32 adjacent elements, at any alignment."""


def sectors(numbers: int) -> int:
    """Sectors of an array of 4-byte elements, each counted once."""
    return ceil_div(numbers, A_SECTOR)


def runs(numbers: int) -> int:
    """Requests of whole warps to cover an array, one element per lane."""
    return ceil_div(numbers, WARP)


def row_sectors(rows: int, columns: int) -> int:
    """Most sectors that warps access as they read rows of any length."""
    return MOST_A_RUN * rows * runs(columns)
