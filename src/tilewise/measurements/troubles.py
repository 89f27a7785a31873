"""Troubles: what can go wrong with a GPU while an experiment is recorded, said so that it can be repaired.

In: an exception, or the states that were read beside the timing. Out: a ``Trouble`` with a sentence, a repair
and whether the run can go on. Nothing is recorded of an experiment that met one; its old record stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewise.errors import LessonError
from tilewise.gpu.device import POWER_CAP, State

CLOCK_FELL = 0.93
"""A clock below this share of its value before the timing has fallen."""
KEPT = "The old record is kept."

_LOST = re.compile(
    r"NoDevice|NO_DEVICE|Devices?Unavailable|DEVICE_UNAVAILABLE|EccUncorrectable|ECC_UNCORRECTABLE|"
    r"NvlinkUncorrectable|SystemNotReady|ErrorUnknown|ERROR_UNKNOWN|InitializationError|NOT_INITIALIZED",
    re.IGNORECASE,
)
_FAULTED = re.compile(
    r"IllegalAddress|ILLEGAL_ADDRESS|Launch(?:Failure|Timeout)|LAUNCH_(?:FAILED|TIMEOUT)|HardwareStackError|"
    r"IllegalInstruction|ILLEGAL_INSTRUCTION|MisalignedAddress|MISALIGNED_ADDRESS|InvalidPc|INVALID_PC"
)
_FULL = re.compile(r"OutOfMemory|MemoryAllocation|out of memory", re.IGNORECASE)


@dataclass(frozen=True)
class Trouble:
    """Why an experiment was not recorded."""

    message: str
    """What happened, in a sentence or two."""
    repair: str
    """What to do."""
    stop: bool = False
    """Whether nothing more can be recorded in this process."""


class GpuTrouble(Exception):  # noqa: N818 - a trouble that is under way
    """Raised while an experiment is timed for recording."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class RecordingStopped(BaseException):
    """Ends a run whose process can use its GPU no longer; no cell of a lesson may swallow it.

    Args:
        fault: what to tell.
    """

    def __init__(self, fault: LessonError) -> None:
        super().__init__(str(fault))
        self.fault = fault


def explain(error: BaseException, where: str, memory: Mapping[str, float] | None = None) -> Trouble:
    """What an exception during recording means.

    Args:
        error: what was raised.
        where: the case at which, e.g. ``n = 8``; empty where it is not known.
        memory: ``free_gb`` and ``total_gb`` of the GPU, where they could still be read.
    """
    if isinstance(error, GpuTrouble):
        return error.trouble
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    at = f" at {where}" if where else ""
    if _FULL.search(said) or isinstance(error, MemoryError):
        room = f" Its GPU has {memory['free_gb']:.1f} of {memory['total_gb']:.1f} GB free." if memory else ""
        return Trouble(
            f"the memory did not suffice{at} ({said}).{room} {KEPT}",
            "Stop what else uses the GPU, or record on one with more memory.",
        )
    if _LOST.search(said):
        return Trouble(
            f"the GPU is gone{at} ({said}). {KEPT}",
            "See what nvidia-smi says of it; then run the same command again: it goes on where it stopped.",
            stop=True,
        )
    if _FAULTED.search(said):
        return Trouble(
            f"a kernel faulted on the GPU{at} ({said}), and this process cannot use it any longer. {KEPT}",
            "Simulate the launch, which names the line (tilewise check); then run the same command again.",
            stop=True,
        )
    return Trouble(f"recording failed{at}: {said}. {KEPT}", "")


def memory_of_gpu() -> dict[str, float] | None:
    """Free and total memory of the current GPU in GB (1e9 bytes); None where it does not answer."""
    try:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
        free, total = cupy.cuda.runtime.memGetInfo()
    except Exception:  # a GPU that is in trouble may answer with anything
        return None
    return {"free_gb": free / 1e9, "total_gb": total / 1e9}


def company(others: int | None, where: str) -> Trouble | None:
    """The trouble of other processes on the GPU; None where it is ours alone or that cannot be read."""
    if not others:
        return None
    who = "another process computes" if others == 1 else f"{others} other processes compute"
    return Trouble(
        f"{who} on this GPU{where and f' at {where}'}: its times would be those of both. {KEPT}",
        "nvidia-smi lists them. Wait until they end, or choose another GPU by CUDA_VISIBLE_DEVICES.",
    )


def slowdown(before: State, during: State, where: str) -> Trouble | None:
    """The trouble of a clock that was held down while contenders were timed; None where it was not.

    A power cap is no trouble: it is how large products run on a device, and the record says so.

    Args:
        before: the state under load right before.
        during: the state with the lowest clock meanwhile.
        where: the case.
    """
    causes = [cause for cause in during.throttled_by if cause != POWER_CAP]
    fell = clock_fell(before, during)
    if not causes and (not fell or POWER_CAP in during.throttled_by):
        return None
    by = f" by {' and '.join(causes)}" if causes else ""
    clocks = f" from {before.sm_clock_mhz:.0f} to {during.sm_clock_mhz:.0f} MHz" if fell else ""
    return Trouble(
        f"the clock was held down{by} at {where}{clocks} while contenders were timed. {KEPT}",
        "Let the GPU cool, see to its air, or lock a clock that it can hold: nvidia-smi --lock-gpu-clocks.",
    )


def clock_fell(before: State, during: State) -> bool:
    """Whether the SM clock fell noticeably; False where it could not be read."""
    if not before.sm_clock_mhz or not during.sm_clock_mhz:
        return False
    return during.sm_clock_mhz < CLOCK_FELL * before.sm_clock_mhz


def counters_refused(said: str) -> tuple[str, str]:
    """What it means that Nsight Compute did not count: a sentence, and what to do.

    Args:
        said: what the tool printed, or the exception.
    """
    shown = " ".join(said.split())[-300:]
    if "ERR_NVGPUCTRPERM" in said or "permission" in said.lower():
        return (
            "Nsight Compute may not read this GPU's counters (ERR_NVGPUCTRPERM).",
            "An administrator can allow it to all users (NVreg_RestrictProfilingToAdminUsers=0), "
            "or run this as root. Without --counters the times alone are recorded.",
        )
    return (
        f"Nsight Compute did not count: {shown.rstrip('.')}.",
        "Without --counters the times alone are recorded.",
    )


def as_error(trouble: Trouble, experiment: Any) -> LessonError:
    """A trouble as a fault at the line of ``measure``."""
    made: LessonError = experiment.error(trouble.message, trouble.repair)
    return made
