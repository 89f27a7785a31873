"""What the first warp of a run touched: of its first accesses, the lanes, and the sectors or banks.

In: the accesses of a trace as columns. Out: rows for a picture, and its caption.
``simulator/browser/stepping.py`` translates this file for the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.figures.kinds.stepped.moments import BANKS, SECTOR_BYTES, SHARED, WORD_BYTES, Rows

MOST_ROWS = 6
MOST_BYTES = 2048
WIDEST = 16
LANES = 32
VERBS = ["loads from", "stores to", "atomics on"]


def first_warp(rows: Rows, names: Sequence[str]) -> dict[str, Any]:
    """Return a picture: a ``caption``, and ``rows`` for lines, arrays and kinds of access.

    Each row has its ``line``, a ``text``, what is ``counted``, the ``lanes``, and either ``sectors``, as
    numbers with the words that are used of each, or ``banks``, how many words are wanted of each; the other
    is None. A bulk copy, of more than ``MOST_BYTES``, is counted in bytes and has no sectors; what it writes
    to shared memory is left out.
    """
    found: list[dict[str, Any]] = []
    left_out = 0
    for at in range(len(rows.step)):
        other = rows.block[at] != 0 or rows.warp[at] != 0 or rows.line[at] == 0
        if other or rows.space[at] > SHARED or rows.kind[at] >= len(VERBS):
            continue
        name = names[rows.buffer[at]] if 0 <= rows.buffer[at] < len(names) else "memory"
        key = f"{rows.line[at]} {rows.space[at]} {rows.kind[at]} {name}"
        same = [one for one in found if one["key"] == key]
        if len(same) == 0 and len(found) < MOST_ROWS:
            found.append({"key": key, "name": name, "first": at, "accesses": [at]})
        elif len(same) == 0:
            left_out += 1
        elif rows.step[at] == rows.step[same[0]["first"]]:
            same[0]["accesses"].append(at)
    drawn = [
        one
        for one in found
        if rows.space[one["first"]] != SHARED or _bytes(rows, one["accesses"]) <= MOST_BYTES
    ]
    loads = [rows.line[one["first"]] for one in found if rows.space[one["first"]] != SHARED]
    made = [_row(rows, one["name"], _once(rows, one["accesses"], loads)) for one in drawn]
    more = f" The first {len(made)} are shown." if left_out > 0 else ""
    said = [f"Warp 0 of block 0, the first time it executes each access.{more}"]
    if any(one["sectors"] is not None and len(one["sectors"]) > 0 for one in made):
        said.append("A box is a sector of eight words.")
    if any(one["banks"] is not None for one in made):
        said.append("A column is a bank.")
    return {"caption": " ".join(said), "rows": made}


def _row(rows: Rows, name: str, accesses: list[int]) -> dict[str, Any]:
    lanes = sorted({rows.lane[at] for at in accesses})
    in_shared = rows.space[accesses[0]] == SHARED
    touched = f"{len(lanes)} {'lane' if len(lanes) == 1 else 'lanes'}"
    moved = _bytes(rows, accesses)
    words = []
    for at in accesses if moved <= MOST_BYTES else []:
        first = rows.address[at] // WORD_BYTES
        last = (rows.address[at] + rows.size[at] - 1) // WORD_BYTES
        for word in range(first, last + 1):
            words.append(word)
    words = sorted(set(words))
    sectors = None if in_shared else _sectors(words)
    banks = _banks(words) if in_shared else None
    counted = _counted(sectors, banks) if moved <= MOST_BYTES else f"{moved:,} bytes"
    return {
        "line": rows.line[accesses[0]],
        "text": f"{VERBS[rows.kind[accesses[0]]]} {name}: {touched}",
        "lanes": lanes,
        "counted": counted,
        "sectors": sectors,
        "banks": banks,
    }


def _once(rows: Rows, accesses: list[int], loads: Sequence[int]) -> list[int]:
    """Of asynchronous copies in several iterations, which arrive in one step, what the first one stores.

    A lane's copy of several words, at most ``WIDEST`` bytes, is an access for each word. A line that copies
    is one of ``loads`` from global memory, too. A bulk copy, by one lane, is whole.
    """
    is_copy = rows.space[accesses[0]] == SHARED and VERBS[rows.kind[accesses[0]]] == "stores to"
    lanes = {rows.lane[at] for at in accesses}
    if len(lanes) < 2 or not is_copy or rows.line[accesses[0]] not in loads:
        return accesses
    ends = [-1 for _ in range(LANES)]
    taken = [0 for _ in range(LANES)]
    first: list[int] = []
    for at in accesses:
        lane = rows.lane[at]
        goes_on = rows.address[at] == ends[lane] and taken[lane] < WIDEST
        if taken[lane] == 0 or goes_on:
            ends[lane] = rows.address[at] + rows.size[at]
            taken[lane] = taken[lane] + rows.size[at]
            first.append(at)
    return first


def _bytes(rows: Rows, accesses: list[int]) -> int:
    return sum(rows.size[at] for at in accesses)


def _counted(sectors: list[list[Any]] | None, banks: list[int] | None) -> str:
    if sectors is not None:
        return f"{len(sectors)} {'sector' if len(sectors) == 1 else 'sectors'}"
    most = max(banks if banks is not None else [0])
    return f"up to {most} {'word' if most == 1 else 'words'} per bank"


def _sectors(words: list[int]) -> list[list[Any]]:
    size = SECTOR_BYTES // WORD_BYTES
    return [
        [sector, [word % size for word in words if word // size == sector]]
        for sector in sorted({word // size for word in words})
    ]


def _banks(words: list[int]) -> list[int]:
    return [len([word for word in words if word % BANKS == bank]) for bank in range(BANKS)]
