"""What a missing, broken or unwritable installation says, and that no array is written then."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tilewise.simulator import ToolchainError, compile_kernel
from tilewise.simulator.engine import machine

from .test_bad_input import BOUNDED, SCALE

MISSING: dict[str, Callable[[Path], str]] = {
    "no wheel": lambda _: "import sys; sys.modules['ziglang'] = None",
    "no program in it": lambda folder: (
        f"import ziglang; ziglang.__spec__.origin = {str(folder / '__init__.py')!r}"
    ),
}


def _without_clang(before: str, cache: Path) -> subprocess.CompletedProcess[str]:
    code = f"""
{before}
import numpy as np
from tilewise.simulator import ToolchainError
from tilewise import Kernel
y = np.arange(32, dtype=np.float32)
try:
    Kernel({BOUNDED!r}).simulate(y, grid=1, block=32)
except ToolchainError as error:
    print("said:", error)
print("kept:", y.tobytes() == np.arange(32, dtype=np.float32).tobytes())
"""
    environment = {**os.environ, "TILEWISE_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_clang_says_how_to_get_it(name, tmp_path):
    done = _without_clang(MISSING[name](tmp_path), tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert "said:" in done.stdout and "pip install" in done.stdout and "kept: True" in done.stdout


BROKEN = {
    "says nothing": ("exit 1", "failed with exit code 1"),
    "makes nothing": ("exit 0", "made no PTX"),
    "makes something else": ("echo .version 8.0", "made no PTX"),
    "is ended": ("kill -9 $$", "ended by signal 9"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_clang_that_breaks_is_the_installations_fault(name, tmp_path, monkeypatch):
    script, words = BROKEN[name]
    (tmp_path / "zig").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "zig").chmod(0o755)
    monkeypatch.setenv("TILEWISE_ZIG", str(tmp_path / "zig"))
    with pytest.raises(ToolchainError, match=words) as caught:
        compile_kernel(SCALE)
    assert "pip install" in str(caught.value) and "TILEWISE_ZIG" in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"\xe7" * 200])
def test_a_damaged_cache_is_made_anew(damage, tmp_path):
    environment = {**os.environ, "TILEWISE_CACHE": str(tmp_path)}
    shutil.copy(machine.prepare(), tmp_path)
    code = (
        "import numpy as np; from tilewise import Kernel; y = np.zeros(64, np.float32);"
        f"Kernel({BOUNDED!r}).simulate(y, grid=1, block=64); assert y.all()"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
        kept = list((tmp_path / "ptx").iterdir())
        assert len(kept) == 1 and b".target" in kept[0].read_bytes()
        kept[0].write_bytes(damage)


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match=r"file.* cannot be written: .*TILEWISE_CACHE"):
        compile_kernel(SCALE + "// kept nowhere yet\n")
