"""Problems: what can go wrong with a GPU while an experiment is recorded, with a repair.

In: an exception, or the GPU's states during the timing. Out: a ``GpuProblem``. An experiment with a problem
is not recorded and keeps its old record.
"""

from __future__ import annotations

import re

from tilewise.errors import LessonError
from tilewise.gpu.device import POWER_CAP, State

CLOCK_FELL = 0.93
"""A clock below this fraction of its value before the timing has fallen."""
KEPT = "The old record is kept."

_MEMORY_FULL = re.compile(r"OutOfMemory|MemoryAllocation|out of memory", re.IGNORECASE)
_GPU_FAILED = re.compile(r"cudaError|CUDA_ERROR")


class GpuProblem(Exception):  # noqa: N818 - with what to do
    """Why an experiment was not recorded.

    Args:
        message: what happened, in a sentence or two.
        repair: what to do.
        stop: whether this process can record nothing more.
    """

    def __init__(self, message: str, repair: str = "", stop: bool = False) -> None:
        super().__init__(message)
        self.message, self.repair, self.stop = message, repair, stop


class RecordingStopped(BaseException):
    """Ends a run whose process can no longer use its GPU; not to be caught by a lesson's cell.

    Args:
        fault: what to report.
    """

    def __init__(self, fault: LessonError) -> None:
        super().__init__(str(fault))
        self.fault = fault


def explain(error: BaseException) -> GpuProblem:
    """The problem behind an exception during recording."""
    if isinstance(error, GpuProblem):
        return error
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if _MEMORY_FULL.search(message) or isinstance(error, MemoryError):
        return GpuProblem(
            f"the memory did not suffice ({message}). {KEPT}",
            "Stop what else uses the GPU, or record on one with more memory.",
        )
    if _GPU_FAILED.search(message):
        return GpuProblem(
            f"the GPU failed, and this process cannot use it any longer ({message}). {KEPT}",
            "If a kernel faulted, simulate its launch, which names the line (tilewise check); else see what "
            "nvidia-smi says. Then run the same command again: it goes on where it stopped.",
            stop=True,
        )
    return GpuProblem(f"recording failed: {message}. {KEPT}")


def other_processes_problem(count: int, where: str) -> GpuProblem | None:
    """The problem of other processes that compute on the GPU; None if there are none."""
    if not count:
        return None
    others = "another process computes" if count == 1 else f"{count} other processes compute"
    return GpuProblem(
        f"{others} on this GPU at {where}: its times would be those of both. {KEPT}",
        "nvidia-smi lists them. Wait until they end, or choose another GPU by CUDA_VISIBLE_DEVICES.",
    )


def clock_problem(before: State, during: State, where: str) -> GpuProblem | None:
    """The problem of a clock that was throttled during the timing; None if it was not.

    The power cap is no problem: large GEMMs reach it on a healthy device, and the record says so.

    Args:
        before: the state under load right before.
        during: the state with the lowest clock.
        where: the case.
    """
    causes = [cause for cause in during.throttled_by if cause != POWER_CAP]
    fell = clock_fell(before, during)
    if not causes and (not fell or POWER_CAP in during.throttled_by):
        return None
    by = f" by {' and '.join(causes)}" if causes else ""
    clocks = f" from {before.sm_clock_mhz:.0f} to {during.sm_clock_mhz:.0f} MHz" if fell else ""
    return GpuProblem(
        f"the clock was held down{by} at {where}{clocks} during the timing. {KEPT}",
        "Let the GPU cool, see to its air, or lock a clock that it can hold: nvidia-smi --lock-gpu-clocks.",
    )


def clock_fell(before: State, during: State) -> bool:
    """Whether the SM clock fell noticeably; False if it could not be read."""
    if not before.sm_clock_mhz or not during.sm_clock_mhz:
        return False
    return during.sm_clock_mhz < CLOCK_FELL * before.sm_clock_mhz
