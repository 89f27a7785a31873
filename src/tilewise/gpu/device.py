"""The GPU of this machine: whether there is one, what it is called, and the state it is in.

In: nothing. Out: plain values from CuPy or ``nvidia-smi``. Nothing is imported and no GPU is touched until a
function is called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class State:
    """Clocks, power and heat at one moment; None for what could not be read."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_limit_w: float | None = None
    """The power limit that is set."""
    temperature_c: float | None = None
    driver: str | None = None
    throttled_by: tuple[str, ...] = ()
    """What holds the clock down, in words; empty where nothing does or it cannot be read."""


def gpu_wanted() -> bool:
    """Whether the environment leaves a GPU in use: ``TILEWISE_BACKEND=simulator`` and builds do not."""
    return (
        os.environ.get("TILEWISE_BACKEND", "") != "simulator" and os.environ.get("TILEWISE_BUILD", "") != "1"
    )


def gpu_fault() -> str | None:
    """Why no GPU can be used here, one sentence; None where one can."""
    if find_spec("cupy") is None:
        return "CuPy is not installed."
    try:
        import cupy
    except Exception as error:
        return f"CuPy does not import: {error}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy finds no GPU: {error}"
    return None if count else "CuPy finds no GPU."


def gpu_here() -> bool:
    """Whether a GPU is wanted and can be used."""
    return gpu_wanted() and gpu_fault() is None


def properties() -> Mapping[str, Any]:
    """What CUDA says of the current device; call only where ``gpu_here()``."""
    import cupy

    found: Mapping[str, Any] = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return found


def device_name() -> str:
    """The current device's name as its driver gives it."""
    name = properties()["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


_QUERY = {
    "sm_clock_mhz": "clocks.sm",
    "memory_clock_mhz": "clocks.mem",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
    "driver": "driver_version",
}
POWER_CAP = "the power cap"
"""The one thing that holds the clock of a healthy GPU down."""
_REASONS = {
    0x04: POWER_CAP,
    0x08: "a hardware slowdown",
    0x20: "its temperature (software)",
    0x40: "its temperature (hardware)",
    0x80: "the power brake",
}


def state(identity: str = "0") -> State:
    """Clocks, power and heat of a GPU now, by ``nvidia-smi``; empty where that is missing or fails.

    Args:
        identity: the GPU, by index or by PCI bus id.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return State()
    wanted = [*_QUERY.values(), "clocks_event_reasons.active"]
    # an older driver does not know the last field, and then answers nothing
    lines = _lines(tool, identity, wanted) or _lines(tool, identity, wanted[:-1])
    if not lines:
        return State()
    answers = [part.strip() for part in lines[0].split(",")]
    values: dict[str, Any] = {}
    for name, text in zip(_QUERY, answers, strict=False):
        values[name] = text if name == "driver" else _number(text)
    reasons = answers[len(_QUERY)] if len(answers) > len(_QUERY) else ""
    return State(**values, throttled_by=_throttled_by(reasons))


def _lines(tool: str, identity: str, fields: list[str], of: str = "gpu") -> list[str] | None:
    """What ``nvidia-smi`` answers for a GPU, or for all of them; None where it fails."""
    one = [f"--id={identity}"] if identity else []
    command = [tool, *one, f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout.strip().splitlines()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _throttled_by(text: str) -> tuple[str, ...]:
    try:
        mask = int(text, 16)
    except ValueError:
        return ()
    return tuple(words for bit, words in _REASONS.items() if mask & bit)


def others_computing(identity: str = "") -> int | None:
    """How many other processes compute on a GPU; None where that cannot be read.

    Where processes have other numbers outside of a container, this one may not be found by its own; one of
    those that are listed is then taken for it. So call this once the process has used the GPU.

    Args:
        identity: the GPU, by index or by PCI bus id; every GPU of the machine where not given.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    lines = _lines(tool, identity, ["pid"], "compute-apps")
    return None if lines is None else max(len({one.strip() for one in lines if one.strip().isdigit()}) - 1, 0)
