"""A pointer into an array: a kernel gets ``x + 3`` and may use what is before it.

In: an array and an element of it. Out: an argument for the simulator, which finds the whole array valid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, eq=False)
class InnerPointer:
    """A pointer to an element of an array that is not its first."""

    source: Any
    """The array, or the name that it has in a case."""
    first: int
    """The element that index 0 means."""

    @property
    def name(self) -> str | None:
        """The name of its array in a case; None where it holds the array itself."""
        return self.source if isinstance(self.source, str) else None

    def of(self, array: Any) -> InnerPointer:
        """The same pointer into an array."""
        return replace(self, source=array)
