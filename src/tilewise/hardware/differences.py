"""Known differences between the simulator's counts and the hardware's, each with its reason.

In: nothing. Out: ``KNOWN``. A difference is an exact number, hardware less simulator: one more or less and
the test fails. Reasons are shown on the page "What the simulator counts".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why counts differ."""

    title: str
    """In a few words."""
    text: str
    """In a paragraph, for the page."""


MERGED = Reason(
    "shared loads merged",
    "NVIDIA's compiler makes one wide shared load of several narrow ones that lie side by side, in one "
    "line or across the turns of a loop that it has unrolled. The simulator counts the loads as clang "
    "leaves them. Fewer requests are made, and a wide load whose lanes share places takes fewer passes than"
    " the narrow ones did together. A test that merges "
    "them in the source gets the hardware's numbers from the simulator.",
)
UNROLLED = Reason(
    "a ragged loop unrolled",
    "The lanes of a warp have different numbers of turns. NVIDIA's compiler first does single turns "
    "until a multiple of 4 is left, then 16 at a time, then 8, then 4; lanes that are in different "
    "stages load at different times. In the simulator all lanes that are still in the loop take each "
    "turn together. A test computes the hardware's numbers from these stages.",
)
TURNS = Reason(
    "atomics that take turns",
    "Several lanes of a request go for the same word. The simulator counts the sectors that are "
    "touched, each once; the hardware counts a sector as often as the most wanted word in it is wanted,"
    " once for each turn. Requests are equal. A test computes the hardware's number from the trace. "
    "Where all lanes add to one word the counts are equal, presumably since NVIDIA's compiler adds up "
    "within the warp first.",
)

KNOWN: Mapping[str, Mapping[str, tuple[int, Reason]]] = {
    "shared broadcast": {
        "shared load requests": (-96, MERGED),
        "shared load wavefronts": (-64, MERGED),
    },
    "shared neighbours": {
        "shared load requests": (-16, MERGED),
        "shared load wavefronts": (-64, MERGED),
    },
    "tiled matmul": {
        "shared load requests": (-3456, MERGED),
        "shared load wavefronts": (-2304, MERGED),
    },
    "ragged rows": {"global load requests": (41, UNROLLED), "global load sectors": (10, UNROLLED)},
    "histogram": {"global atomic sectors": (88, TURNS)},
    "sums of four": {"global atomic sectors": (48, TURNS)},
    "or of three": {"global atomic sectors": (62, TURNS)},
}
"""By specimen and count: the exact difference, hardware less simulator, and the reason."""
