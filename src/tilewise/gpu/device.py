"""This machine's GPU: whether there is one, its name, and its state.

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
    """Clocks, power and temperature at one moment; None for what could not be read."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_limit_w: float | None = None
    """The configured power limit."""
    temperature_c: float | None = None
    driver: str | None = None
    throttled_by: tuple[str, ...] = ()
    """Reasons for throttling, in words; empty if there are none or they cannot be read."""


def gpu_wanted() -> bool:
    """Whether the environment allows a GPU: ``TILEWISE_BACKEND=simulator`` and builds do not."""
    return (
        os.environ.get("TILEWISE_BACKEND", "") != "simulator" and os.environ.get("TILEWISE_BUILD", "") != "1"
    )


def gpu_fault() -> str | None:
    """Why no GPU can be used here, in one sentence; None if one can."""
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
    """CUDA's properties of the current device; call only if ``gpu_here()``."""
    import cupy

    values: Mapping[str, Any] = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    return values


def device_name() -> str:
    """The current device's name, from the driver."""
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
"""The only reason that throttles a healthy GPU."""
_REASONS = {
    0x04: POWER_CAP,
    0x08: "a hardware slowdown",
    0x20: "its temperature (software)",
    0x40: "its temperature (hardware)",
    0x80: "the power brake",
}


def state(identity: str = "0") -> State:
    """A GPU's current clocks, power and temperature from ``nvidia-smi``; empty if that is missing or fails.

    Args:
        identity: the GPU, by index or by PCI bus id.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return State()
    wanted = [*_QUERY.values(), "clocks_event_reasons.active"]
    # an older driver doesn't know the last field and then returns nothing
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
    """The output of ``nvidia-smi`` for one or all GPUs; None if it fails."""
    selection = [f"--id={identity}"] if identity else []
    command = [tool, *selection, f"--query-{of}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if process.returncode else process.stdout.strip().splitlines()


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
    """The number of other processes that compute on a GPU; None if it cannot be read.

    Call this after the process has used the GPU: process ids inside and outside a container may differ, so
    one listed process is assumed to be this one.

    Args:
        identity: the GPU, by index or by PCI bus id; empty: all GPUs of the machine.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    lines = _lines(tool, identity, ["pid"], "compute-apps")
    return (
        None if lines is None else max(len({line.strip() for line in lines if line.strip().isdigit()}) - 1, 0)
    )
