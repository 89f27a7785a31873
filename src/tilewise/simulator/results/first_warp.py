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
VERBS = ["loads from", "stores to", "atomics on"]


def first_warp(rows: Rows, names: Sequence[str]) -> dict[str, Any]:
    """Return a picture: a ``caption``, and ``rows`` for lines, arrays and kinds of access.

    Each row has its ``line``, a ``text``, what is ``counted``, the ``lanes``, and either ``sectors``, as
    numbers with the words that are used of each, or ``banks``, how many words are wanted of each; the other
    is None. A bulk copy, of more than ``MOST_BYTES``, is counted in bytes and has no sectors; what it writes
    to shared memory is left out.
    """
    found: list[dict[str, Any]] = []
    for at in range(len(rows.step)):
        other = rows.block[at] != 0 or rows.warp[at] != 0 or rows.line[at] == 0
        if other or rows.space[at] > SHARED or rows.kind[at] >= len(VERBS):
            continue
        name = names[rows.buffer[at]] if 0 <= rows.buffer[at] < len(names) else "memory"
        key = f"{rows.line[at]} {rows.space[at]} {rows.kind[at]} {name}"
        same = [one for one in found if one["key"] == key]
        if len(same) == 0 and len(found) < MOST_ROWS:
            found.append({"key": key, "name": name, "first": at, "accesses": [at]})
        elif len(same) > 0 and rows.step[at] == rows.step[same[0]["first"]]:
            same[0]["accesses"].append(at)
    drawn = [
        one
        for one in found
        if rows.space[one["first"]] != SHARED or _bytes(rows, one["accesses"]) <= MOST_BYTES
    ]
    made = [_row(rows, one["name"], one["accesses"]) for one in drawn]
    said = ["Warp 0 of block 0, the first time it executes each access."]
    if any(one["sectors"] is not None and len(one["sectors"]) > 0 for one in made):
        said.append("A box is a sector of eight words.")
    if any(one["banks"] is not None for one in made):
        said.append("A column is a bank.")
    return {"caption": " ".join(said), "rows": made}


def _row(rows: Rows, name: str, accesses: list[int]) -> dict[str, Any]:
    lanes = sorted({rows.lane[at] for at in accesses})
    if len(lanes) > 1:
        accesses = _first_of_each_lane(rows, accesses)
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


def _first_of_each_lane(rows: Rows, accesses: Sequence[int]) -> list[int]:
    """Asynchronous copies of several iterations arrive in one step; the first one is drawn."""
    seen: list[int] = []
    first: list[int] = []
    for at in accesses:
        if rows.lane[at] not in seen:
            seen.append(rows.lane[at])
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
