"""Messages about an answer to a puzzle, the same on the command line and on the page.

In: facts from ``judging`` and ``wrong_values``, or from ``site/web/run/judge.js`` on the page. Out:
sentences. ``browser`` translates this module to JavaScript, so it uses only plain texts and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LONGEST = 300
"""Maximum length of a message, in characters."""
EMPTY = "the gaps are still empty."
FILL_IN = "Write your code here, save the file and run the check again."
_REPAIRS = {
    "out of bounds": "Add a bounds check, or correct the index.",
    "steps": "Check the loop's condition and its increment.",
    "mbarrier": "Compare the arrivals of a phase with the number that init set, and wait for a phase to end "
    "before you arrive for the next one.",
    "tensor map": "Give coordinates in elements, x first; x is a multiple of 16 bytes.",
}
"""Repairs of hazards whose usual repair does not apply to puzzles."""
_TWICE = (
    "Two copies write to the same place. Check the destinations and the mask, or wait for the first copy."
)
"""The repair if a copy overwrites one that is in flight."""


def solved(sizes: int) -> str:
    """An answer is right."""
    return f"solved. Correct for all {sizes} sizes and within the budget."


def signature(name: str, parameters: Sequence[Sequence[str]]) -> str:
    """A kernel's name and parameters, each a type and a name."""
    listed = ", ".join([f"{ctype} {parameter}" for ctype, parameter in parameters])
    return f"{name}({listed})"


def other_kernel(actual: str) -> str:
    """An answer's kernel has another signature."""
    return f"the kernel is now `{actual}`."


def keep_kernel(wanted: str) -> str:
    """What to do about that."""
    return f"The puzzle launches `{wanted}`; keep that line as it was in the original file."


def launched(label: str, shape: str) -> str:
    """The launch that failed."""
    return f"Launched with {label}{shape}."


def shape(grid: Sequence[int], block: Sequence[int]) -> str:
    """The launch in a few words, after a comma."""
    blocks = _extents(grid)
    plural = "" if blocks == "1" else "s"
    return f", {blocks} block{plural} of {_extents(block)} threads"


def _extents(extents: Sequence[int]) -> str:
    used = 3 if extents[2] > 1 else 2 if extents[1] > 1 else 1
    return " x ".join([str(extent) for extent in extents[:used]])


def hazard_line(hazard: Any) -> int:
    """The kernel's own line; if the hazard is in a function that it calls, the line of the call."""
    line: int = hazard.caller if hazard.caller > 0 else hazard.line
    return line


def hazard_message(hazard: Any, message: str) -> str:
    """A hazard as a message that fits on a line.

    Args:
        hazard: the hazard.
        message: its message with its place, which may be too long.
    """
    short = f"{hazard.kind}: {hazard.message}"
    whole = f"{short}, in `{hazard.caller_line.strip()}`." if hazard.caller > 0 else message
    return whole if len(whole) <= LONGEST else f"{short}."


def hazard_repair(hazard: Any) -> str:
    """The repair of a hazard."""
    if hazard.kind == "undelivered" and hazard.message.find(" writes ") >= 0:
        return _TWICE
    repair: str = _REPAIRS.get(hazard.kind, hazard.repair)
    return repair


def wrong_value(name: str, index: str, actual: str, right: str, wrong: int, size: int) -> str:
    """An output is wrong; this is its first wrong element."""
    return (
        f"{name}{index} is {actual}, but should be {right}; {wrong:,} of {size:,} values are wrong, "
        f"and this is the first."
    )


def diagnosis(
    name: str, written: int, was_kept: bool, must_stay: bool, is_nan: bool, belongs: str, is_all: bool
) -> str:
    """What a wrong element suggests.

    Args:
        name: the output's.
        written: how many of its elements changed.
        was_kept: whether this one did not.
        must_stay: whether the right value is the one from before the launch.
        is_nan: whether it is NaN.
        belongs: the index of the only element that should have this value; empty if there is none.
        is_all: whether every element is wrong.
    """
    if was_kept and written == 0:
        return f"No thread wrote to {name}: check the bounds check and the store."
    if was_kept:
        return (
            "It still holds its value from before the launch: no thread wrote to it, or one wrote the same "
            "value back. Check the index, the bounds check and the range of each loop."
        )
    if must_stay:
        return "The kernel must not change this element. Check the index and the bounds check."
    if is_nan:
        return (
            "This NaN was computed: from a value that was never written, or as infinity minus infinity "
            "or 0 / 0. Check what is read before it is written, and what can be infinite or 0."
        )
    if belongs:
        return f"That value belongs in {name}{belongs}: compare the index you read with the one you write."
    if is_all:
        return "Every value is wrong: check the formula first, then which inputs each thread reads."
    return "Compute this element by hand, and compare the inputs you need with those that the thread reads."


def over_budget(count: int, most: int, words: str, label: str, shape: str, by_line: int) -> str:
    """An answer is over budget.

    Args:
        count: its count.
        most: the budget.
        words: what is counted.
        label: the sizes of the launch.
        shape: the launch.
        by_line: the count of the worst line; 0 if no line can be named.
    """
    worst_line = f" This line accounts for {by_line:,} of them." if by_line else ""
    counted = f"over budget by {count - most:,}: {count:,} {words} with {label}{shape}"
    return f"{counted}; the budget is {most:,}.{worst_line}"


def budget_repair(repair: str, most: int, because: str) -> str:
    """What to do about that."""
    return f"{repair} Why {most:,} is enough: {because}."
