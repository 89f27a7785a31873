"""Which rows of a record a run of the tests recomputes: others whenever any key of the record changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def sample(keys: Iterable[str], count: int) -> tuple[str, ...]:
    """So many of the keys, picked by a hash that depends on all of them."""
    every = sorted(set(keys))
    seed = "".join(every)
    return tuple(sorted(every, key=lambda key: hashlib.sha256(f"{seed}{key}".encode()).digest())[:count])
