"""How few sectors and warps a piece of work needs: the arithmetic behind the budgets.

In: counts of 4-byte numbers, of threads, of rows. Out: whole numbers.
"""

from __future__ import annotations

from tilewise.cuda.cases import ceil_div

WARP = 32
"""Lanes of a warp."""
A_SECTOR = 8
"""Numbers of 4 bytes in a sector of 32."""
MOST_A_RUN = 5
"""Sectors that 32 numbers side by side lie in at most, wherever the first of them is."""


def sectors(numbers: int) -> int:
    """Sectors of an array of 4-byte numbers, each counted once."""
    return ceil_div(numbers, A_SECTOR)


def runs(numbers: int) -> int:
    """Requests of whole warps that cover so many numbers, one a lane."""
    return ceil_div(numbers, WARP)


def row_sectors(rows: int, columns: int) -> int:
    """Sectors that warps touch at most which walk along rows of any length."""
    return MOST_A_RUN * rows * runs(columns)
