"""The engine precompiled for common platforms, for the wheel.

In: the engine's sources and zig, which cross-compiles. Out: a library per platform in ``built/``, and the one
for this machine. A checkout has none and compiles the engine for its own processor.

``make wheel`` builds them and packages the folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
import sys
from pathlib import Path

from tilewise.simulator.engine.shared import ENGINE

FOLDER = ENGINE / "built"
PLATFORMS = {
    ("Linux", "x86_64"): "x86_64-linux-gnu.2.17",
    ("Linux", "aarch64"): "aarch64-linux-gnu.2.17",
    ("Darwin", "x86_64"): "x86_64-macos.11.0",
    ("Darwin", "arm64"): "aarch64-macos.11.0",
    ("Windows", "AMD64"): "x86_64-windows-gnu",
}
"""Zig's names of the platforms, by ``platform.system()`` and ``platform.machine()``."""
FLAGS = (
    "-O2",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-std=gnu11",
    "-g0",
    "-fno-sanitize=all",
)
"""For every platform; results must not depend on it, so no operations are contracted."""
LIBRARY = ("-shared", "-fPIC")
"""For a library that Python loads."""
_NEEDED = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
"""The additional features of x86_64_v3, by Linux's names."""


def sources_hash() -> str:
    """A hash of the engine's sources and flags; 16 hexadecimal digits."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(ENGINE.glob("*.[chd]*"))]
    return hashlib.sha256("\0".join((*texts, *FLAGS)).encode()).hexdigest()[:16]


def library() -> Path | None:
    """The library for this machine; None if none was built from these sources."""
    target = PLATFORMS.get((platform.system(), platform.machine()))
    if target is None or not FOLDER.is_dir() or (target.startswith("x86_64") and not _has_avx2()):
        return None
    path = _path(target)
    return path if path.is_file() else None


def _path(target: str) -> Path:
    return FOLDER / f"{target}-{sources_hash()}.so"


def _has_avx2() -> bool:
    """Whether this processor has the instructions of x86_64_v3; False if unknown."""
    if sys.platform == "win32":
        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(40))
    if sys.platform == "darwin":
        process = subprocess.run(
            ["sysctl", "-n", "hw.optional.avx2_0"], capture_output=True, text=True, check=False
        )
        return process.stdout.strip() == "1"
    info = Path("/proc/cpuinfo")
    text = info.read_text(errors="replace") if info.exists() else ""
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(flags.split()) >= _NEEDED


def compile_engine(compiler: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compile the engine.

    Raises:
        OSError: the compiler cannot be run.
    """
    command = [str(compiler), "cc", *FLAGS, *options, "-Werror=switch", "-Wno-pass-failed"]
    return subprocess.run(
        [*command, "-o", str(out), str(ENGINE / "machine.c"), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> int:
    """Compile for every platform; delete libraries of other sources."""
    from tilewise.simulator.compile.toolchain import zig

    FOLDER.mkdir(exist_ok=True)
    wanted = {_path(target): target for target in PLATFORMS.values()}
    for old in set(FOLDER.iterdir()) - set(wanted):
        old.unlink()
    for path, target in wanted.items():
        processor = ["-mcpu=x86_64_v3"] if target.startswith("x86_64") else []
        process = compile_engine(zig(), path, *LIBRARY, "-target", target, *processor)
        if process.returncode:
            print(f"{target}: {process.stderr.strip()}", file=sys.stderr)
            return 1
        print(f"{target}: {path.stat().st_size / 1024:.0f} KiB")
    return 0
