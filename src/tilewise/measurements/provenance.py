"""Provenance: where, when and with which versions a measurement was taken, without personal data.

In: the GPU's state, and the modules involved. Out: a plain mapping for a record, without host name, user
name, path or serial number.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tilewise.gpu import cublas_lt
from tilewise.gpu.device import State
from tilewise.models.devices import device
from tilewise.models.roofline import Ceilings

_PACKAGES = ("cupy", "numpy", "torch", "triton", "numba")


def versions() -> dict[str, str]:
    """Versions of CUDA's components and of all loaded packages and libraries."""
    result = {"python": ".".join(str(part) for part in sys.version_info[:3])}
    for name in _PACKAGES:
        if version := getattr(sys.modules.get(name), "__version__", None):
            result[name] = str(version)
    if "cupy" in sys.modules:
        result.update(_cuda_versions(sys.modules["cupy"]))
    if "torch" in sys.modules:
        result.update(_torch_versions(sys.modules["torch"]))
    return dict(sorted(result.items()))


def _cuda_versions(cupy: Any) -> dict[str, str]:
    result = {"cuda_runtime": _dotted(cupy.cuda.runtime.runtimeGetVersion())}
    with suppress(AttributeError, RuntimeError):
        result["nvrtc"] = ".".join(str(part) for part in cupy.cuda.nvrtc.getVersion())
    with suppress(ImportError, AttributeError):
        cub = importlib.import_module("cupy.cuda.cub").get_build_version()
        result["cub"] = f"{cub // 100000}.{cub // 100 % 1000}.{cub % 100}"
    if cublas := cublas_lt.version():
        result["cublas"] = cublas
    return result


def _torch_versions(torch: Any) -> dict[str, str]:
    try:
        cudnn = torch.backends.cudnn.version()
    except (AttributeError, RuntimeError):
        cudnn = None
    result = {"torch_cuda": str(torch.version.cuda)} if getattr(torch.version, "cuda", None) else {}
    if cudnn:
        result["cudnn"] = f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"
    return result


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def provenance(
    name: str,
    properties: Mapping[str, Any],
    now: State,
    ceilings: Ceilings,
    notes: list[str],
) -> dict[str, Any]:
    """A record's provenance.

    Args:
        name: the device's name as its driver gives it.
        properties: CUDA's properties of the device.
        now: clocks, power and temperature, read right after the GPU was busy.
        ceilings: what probes reached on the device.
        notes: sentences on oddities, e.g. a clock that fell.
    """
    return {
        "device": name,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "driver": now.driver,
        "sm_count": _whole(properties.get("multiProcessorCount")),
        "l2_bytes": _whole(properties.get("l2CacheSize")),
        "memory_bytes": _whole(properties.get("totalGlobalMem")),
        "sm_clock_mhz": now.sm_clock_mhz,
        "memory_clock_mhz": now.memory_clock_mhz,
        "power_limit_w": now.power_limit_w,
        "temperature_c": now.temperature_c,
        "ceilings": {
            "memory_gb_per_s": ceilings.memory_gb_per_s,
            "tflop_per_s": _units_at(name, now.sm_clock_mhz) or dict(ceilings.tflop_per_s),
            "launch_us": ceilings.launch_us,
            "probes": dict(ceilings.probes),
        },
        "versions": versions(),
        "notes": list(notes),
    }


def _units_at(name: str, sm_clock_mhz: float | None) -> dict[str, float]:
    """The peak rates of a device's units at a clock; empty if device or clock is unknown."""
    known = device(name)
    if known is None or not sm_clock_mhz:
        return {}
    return {kind: round(known.units_tflop_per_s(kind, sm_clock_mhz), 2) for kind in known.fma_per_sm_clock}


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
