"""Traffic of memory, counted a second time: by NumPy, from the accesses of a trace.

In: `Run.accesses`. Out: requests, sectors, lines, wavefronts, as the documentation defines them. Written from
those definitions, not from the machine.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tilewise.simulator import Counts, GlobalCounts, Run, SharedCounts

GLOBAL, SHARED = 0, 1
LOAD, STORE, ATOMIC = 0, 1, 2
Lane = list[tuple[int, int]]
"""What one lane asked for in one request: addresses and sizes."""


def requests(run: Run, space: int, kind: int) -> list[dict[int, Lane]]:
    """The accesses of each warp instruction, by lane."""
    seen = run.accesses
    found: dict[tuple[int, int, int], dict[int, Lane]] = defaultdict(lambda: defaultdict(list))
    for row in np.flatnonzero((seen.space == space) & (seen.kind == kind)):
        key = int(seen.block[row]), int(seen.warp[row]), int(seen.step[row])
        found[key][int(seen.lane[row])].append((int(seen.address[row]), int(seen.size[row])))
    return list(found.values())


def _global(run: Run, kind: int) -> GlobalCounts:
    totals = [0] * 5
    for lanes in requests(run, GLOBAL, kind):
        touched = {
            address + byte for lane in lanes.values() for address, size in lane for byte in range(size)
        }
        useful = sum(size for lane in lanes.values() for _, size in lane)
        parts = (
            1,
            len({one // 32 for one in touched}),
            len({one // 128 for one in touched}),
            useful,
            len(lanes),
        )
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return GlobalCounts(*totals)


def _passes(lanes: dict[int, Lane]) -> int:
    """Wavefronts: a pass gives each bank one word; wide accesses go by half warps or quarters."""
    wide = max(sum(size for _, size in lane) for lane in lanes.values())
    together = 32 * 4 // max(wide, 4)
    total = 0
    for first in range(0, 32, together):
        banks: dict[int, set[int]] = defaultdict(set)
        for lane in range(first, first + together):
            for address, size in lanes.get(lane, []):
                for word in range(address // 4, (address + size - 1) // 4 + 1):
                    banks[word % 32].add(word)
        total += max(map(len, banks.values()), default=0)
    return total


def _shared(run: Run, kind: int) -> SharedCounts:
    totals = [0] * 4
    for lanes in requests(run, SHARED, kind):
        useful = sum(size for lane in lanes.values() for _, size in lane)
        parts = (1, _passes(lanes), useful, len(lanes))
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return SharedCounts(*totals)


def differences(run: Run) -> list[str]:
    """Where the counts of a traced run differ from those made here."""
    counts: Counts = run.counts
    pairs = {
        "global load": (counts.global_load, _global(run, LOAD)),
        "global store": (counts.global_store, _global(run, STORE)),
        "global atomic": (counts.global_atomic, _global(run, ATOMIC)),
        "shared load": (counts.shared_load, _shared(run, LOAD)),
        "shared store": (counts.shared_store, _shared(run, STORE)),
        "shared atomic": (counts.shared_atomic, _shared(run, ATOMIC)),
    }
    return [f"{name}: {said}, and not {found}" for name, (said, found) in pairs.items() if said != found]
