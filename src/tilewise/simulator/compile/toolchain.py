"""The paths of the compiler and the cache.

In: the installed ``ziglang`` wheel and the environment. Out: paths, or one clear error. Compiles nothing
itself. ``TILEWISE_ZIG`` names the ``zig`` program of another release, to try its clang.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path


class ToolchainError(RuntimeError):
    """The simulator's compiler is missing."""


CLANG = "ziglang 0.17.0, clang 22.1.8"
"""The version in the wheel."""


def zig() -> Path:
    """The ``zig`` program, which includes clang: from ``TILEWISE_ZIG``, else from the ``ziglang`` wheel.

    Raises:
        ToolchainError: the wheel is not installed, or its program is missing; ``TILEWISE_ZIG`` names no file.
    """
    stated = os.environ.get("TILEWISE_ZIG")
    if not stated:
        return _installed()
    if not Path(stated).is_file():
        raise ToolchainError(
            f"TILEWISE_ZIG is {stated}, which is no file. Name a zig program there, or unset it."
        )
    return Path(stated).absolute()


def clang() -> str:
    """The compiler's name in cache keys: each compiler's kernels are cached separately."""
    return f"{zig()} of {zig().stat().st_mtime_ns}" if os.environ.get("TILEWISE_ZIG") else CLANG


@cache
def _installed() -> Path:
    spec = find_spec("ziglang")
    folder = Path(spec.origin).parent if spec and spec.origin else None
    if folder is None:
        raise ToolchainError(
            "the simulator compiles kernels with the clang of the ziglang wheel, which is not installed. "
            'Install it: pip install "tilewise[simulator]".'
        )
    for name in ("zig", "zig.exe"):
        if (folder / name).exists():
            return folder / name
    raise ToolchainError(
        f"{folder} holds no zig program. Install the wheel again: pip install --force-reinstall ziglang."
    )


def keep(path: Path, text: str) -> None:
    """Write a file of the cache atomically.

    Raises:
        ToolchainError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise unwritable(path.parent, error) from None


def unwritable(folder: Path, error: OSError) -> ToolchainError:
    """The error for a cache folder that cannot be written."""
    return ToolchainError(
        f"the cache folder {folder} cannot be written: {error.strerror}. Free it, or name another "
        "in TILEWISE_CACHE."
    )


def cache_folder() -> Path:
    """The folder for compiled kernels and the compiled machine.

    ``TILEWISE_CACHE``, else ``.cache/tilewise`` of the project; outside a checkout ``tilewise`` in the user's
    cache folder.
    """
    stated = os.environ.get("TILEWISE_CACHE")
    if stated:
        return Path(stated)
    root = Path(__file__).resolve().parents[4]
    if (root / "pyproject.toml").exists() and (root / "lessons").is_dir():
        return root / ".cache" / "tilewise"
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tilewise"
