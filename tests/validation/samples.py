"""Which rows of the records a run of the tests looks at."""

import hashlib
from collections.abc import Iterable

import pytest

from validation.specimen import Specimen


def sample(keys: Iterable[str], count: int) -> tuple[str, ...]:
    """So many of the keys, picked by a hash that depends on all of them: others whenever any key changes."""
    every = sorted(set(keys))
    seed = "".join(every)
    return tuple(sorted(every, key=lambda key: hashlib.sha256(f"{seed}{key}".encode()).digest())[:count])


def as_counted(specimen: Specimen, key: str | None) -> Specimen:
    """A lesson's specimen; skipped where the lesson is newer than its counters, which only a GPU can renew.

    Args:
        specimen: as the lesson has it now.
        key: its key when it was counted; None where it was not.
    """
    if specimen.key != key:
        pytest.skip("the lesson is newer than its counters")
    return specimen
