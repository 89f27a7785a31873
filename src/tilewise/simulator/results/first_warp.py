"""What the first warp of a run touched: the lanes of its first accesses, and the sectors or banks.

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

    Each row has its ``line``, a ``text``, what is ``counted``, the ``lanes``, and either ``sectors``, their
    numbers with the words used of each, or ``banks``, the number of words requested from each; the other one
    is None. A bulk copy of more than ``MOST_BYTES`` is counted in bytes and has no sectors; its writes to
    shared memory are left out.
    """
    entries: list[dict[str, Any]] = []
    left_out = 0
    for at in range(len(rows.step)):
        is_left_out = rows.block[at] != 0 or rows.warp[at] != 0 or rows.line[at] == 0
        if is_left_out or rows.space[at] > SHARED or rows.kind[at] >= len(VERBS):
            continue
        name = names[rows.buffer[at]] if 0 <= rows.buffer[at] < len(names) else "memory"
        key = f"{rows.line[at]} {rows.space[at]} {rows.kind[at]} {name}"
        same = [entry for entry in entries if entry["key"] == key]
        if len(same) == 0 and len(entries) < MOST_ROWS:
            entries.append({"key": key, "name": name, "first": at, "accesses": [at]})
        elif len(same) == 0:
            left_out += 1
        elif rows.step[at] == rows.step[same[0]["first"]]:
            same[0]["accesses"].append(at)
    drawn = [
        entry
        for entry in entries
        if rows.space[entry["first"]] != SHARED or _bytes(rows, entry["accesses"]) <= MOST_BYTES
    ]
    loads = [rows.line[entry["first"]] for entry in entries if rows.space[entry["first"]] != SHARED]
    pictured = [_row(rows, entry["name"], _once(rows, entry["accesses"], loads)) for entry in drawn]
    more = f" The first {len(pictured)} are shown." if left_out > 0 else ""
    sentences = [f"Warp 0 of block 0, the first time it executes each access.{more}"]
    if any(row["sectors"] is not None and len(row["sectors"]) > 0 for row in pictured):
        sentences.append("A box is a sector of eight words.")
    if any(row["banks"] is not None for row in pictured):
        sentences.append("A column is a bank.")
    return {"caption": " ".join(sentences), "rows": pictured}


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
    """The stores of the first of several asynchronous copies that arrive in one step.

    A lane's copy of several words, at most ``WIDEST`` bytes, is one access per word. A line that copies is
    also among the ``loads`` from global memory. A bulk copy, by one lane, is returned whole.
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
