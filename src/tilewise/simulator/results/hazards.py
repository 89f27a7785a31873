"""Faults of a kernel, with messages that help its author find them.

In: the machine's findings. Out: ``Hazard`` with a message, ``HazardError``, and ``expect_hazard``, with which
a lesson shows a deliberate fault. The machine detects them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewise.errors import LessonError
from tilewise.simulator.engine.shared import HAZARD_KINDS

if TYPE_CHECKING:
    from tilewise.simulator.run import Run


@dataclass(frozen=True)
class Hazard:
    """A fault at a line of a kernel; equal faults are counted, not repeated."""

    kind: str
    """One of the values of ``HAZARD_KINDS``."""
    line: int
    """Line of the kernel's source, from 1; 0 if the compiler names none."""
    message: str
    """The first occurrence, with thread, block and element."""
    count: int = 1
    """Number of occurrences until the run stopped."""
    source_line: str = ""
    """The line's text."""
    caller: int = 0
    """If the line is in an inlined function: the line that called it; else 0."""
    caller_line: str = ""
    """That line's text."""
    repair: str = ""
    """How to fix it."""
    is_near: bool = False
    """Whether the compiler moved the instruction, so that ``line`` is a nearby line."""

    header: str = ""
    """Its place in a header, ``helper.cuh:12``, called from ``line``; empty if not in a header."""
    header_line: str = ""
    """That line's text."""

    @property
    def place(self) -> str:
        """The code at its line: ``, in `y[i] = 1;```; with the calling line if that differs."""
        where = f", near line {self.line}," if self.is_near else ", in"
        code = f"{where} `{self.source_line.strip()}`" if self.source_line else ""
        if self.header:
            called = f", called at line {self.line}, `{self.source_line.strip()}`" if self.source_line else ""
            near = "near" if self.is_near else "in"
            code = f", {near} `{self.header_line.strip()}` ({self.header}){called}"
        if self.caller:
            code += f", called at line {self.caller}, `{self.caller_line.strip()}`"
        return code

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class HazardError(LessonError):
    """A kernel ran into a hazard; the arguments' arrays keep their old contents.

    Attributes:
        run: counts and hazards so far.
    """

    def __init__(self, path: str, line: int, hazard: Hazard, run: Run) -> None:
        text = f"{hazard.kind}: {hazard.message}{hazard.place}."
        super().__init__(path, line, _moved(text, line - hazard.line if hazard.line else 0), hazard.repair)
        self.hazard = hazard
        self.run = run


def _moved(text: str, lines: int) -> str:
    """A message with the file's line numbers, for a kernel that begins ``lines`` lines down."""
    parts = text.split("`")  # every second part is code
    parts[::2] = [
        re.sub(r"\bline (\d+)", lambda match: f"line {int(match[1]) + lines}", part) for part in parts[::2]
    ]
    return "`".join(parts)


_REPAIRS = {
    "out of bounds": "Guard the access, or launch fewer threads.",
    "misaligned": "Access an address that is a multiple of the access's size.",
    "barrier": "Take the barrier out of the branch, so that every thread that has not exited reaches it.",
    "shuffle": "Name exactly the lanes that take part.",
    "race": "Put a barrier between the two accesses.",
    "uninitialised": "Write the word before it is read, and put a barrier in between if another warp does.",
    "steps": "Check the loop's condition, or allow more steps with max_steps.",
    "trap": "",
    "assert": "",
    "undelivered": "Wait for the copy: cp.async.wait_group by the thread that began it and a barrier for the "
    "others; or, by every thread that uses the data, the mbarrier's phase of the right parity, in which the "
    "bytes of all its copies are announced.",
    "read-only": "Pass an array that may be written.",
    "mbarrier": "Initialise it once, by one thread, with the number of arrivals of a phase, then a barrier.",
    "deadlock": "Count the arrivals and the bytes of each phase: all that are expected have to come, "
    "and no more.",
    "overwritten": "Wait before, and put a barrier or an mbarrier in between if another warp writes: "
    "cp.async.bulk.wait_group.read for a store, wgmma.wait_group for a wgmma. Both wait for committed groups "
    "only.",
    "proxy": "Put fence.proxy.async after the writes (fence.mbarrier_init after an initialisation), then the "
    "barrier.",
    "accumulator": "Put wgmma.fence before the first wgmma and after other uses of its registers, and "
    "wgmma.commit_group and wgmma.wait_group before its results are used.",
    "cluster": "Put a barrier.cluster.arrive and .wait before the first access and after the last.",
    "null": "Pass an array, or have the kernel test the pointer before it uses it.",
    "tensor map": "Take it as const __grid_constant__ TensorMap and pass a tensor_map(...).",
}


def repair_of(kind: str) -> str:
    """How to fix a hazard of a kind, in one sentence."""
    return _REPAIRS.get(kind, "")


class ExpectationError(AssertionError):
    """An expected hazard did not happen, or happened elsewhere."""


def expect_hazard(launch: Any, kind: str, *, line_with: str = "") -> Hazard:
    """Run code with a deliberate fault and show the hazard; of several in a launch, the requested kind.

    Args:
        launch: the result of ``kernel.on(case)``, or a function without arguments that runs a simulation.
        kind: ``race``, ``out of bounds``, ``misaligned``, ``barrier``, ``shuffle``, ``uninitialised``,
            ``steps``, ``trap``, ``read-only``, ``undelivered``, ``assert``, ``mbarrier``, ``deadlock``,
            ``overwritten``, ``proxy``, ``accumulator``, ``cluster``, ``tensor map`` or ``null``.
        line_with: part of the source line at which it must happen, or of the line that calls its function.

    Returns:
        The hazard.

    Raises:
        ExpectationError: no hazard happened, or another kind, or at another line.
        ValueError: there is no such kind.
    """
    if kind not in HAZARD_KINDS.values():
        raise ValueError(f'there is no hazard "{kind}"; there are {", ".join(HAZARD_KINDS.values())}')
    hazards = _provoke(launch, kind)
    hazard = next((hazard for hazard in hazards if _at(hazard, line_with)), None)
    hazard = hazard or next(iter(hazards), None)
    if hazard is None:
        raise ExpectationError(f"expected the hazard {kind}, and nothing happened")
    if hazard.kind != kind:
        raise ExpectationError(f"expected the hazard {kind}, and this happened: {hazard}, line {hazard.line}")
    if not _at(hazard, line_with):
        raise ExpectationError(
            f"the hazard {kind} happened at line {hazard.line}, `{hazard.source_line.strip()}`, "
            f"not at `{line_with}`"
        )
    from tilewise.outputs import HazardOutput, show

    line, text = hazard.line, hazard.source_line
    if hazard.caller and text.strip().startswith("asm"):  # the call says more than inline assembly
        line, text = hazard.caller, hazard.caller_line
    show(HazardOutput(hazard.kind, hazard.message, text, line))
    return hazard


def _at(hazard: Hazard, line_with: str) -> bool:
    """Whether a hazard happened at a line that contains a text."""
    wanted = _plain(line_with)
    return wanted in _plain(hazard.source_line) or wanted in _plain(hazard.caller_line)


def _plain(text: str) -> str:
    return "".join(text.split())


def _provoke(launch: Any, kind: str) -> tuple[Hazard, ...]:
    """The hazards of a kind, or else the first hazard.

    A launch continues past a first hazard of another kind; a function is called once and stops at the first.
    """
    simulate: Callable[..., Any] = launch.simulate if hasattr(launch, "simulate") else launch
    try:
        simulate()
    except HazardError as error:
        first = error.hazard
    else:
        return ()
    if not hasattr(launch, "simulate"):
        return (first,)
    try:
        hazards = simulate(hazards="collect").hazards
    except HazardError as error:
        hazards = error.run.hazards
    return tuple(hazard for hazard in hazards if hazard.kind == kind) or (first,)
