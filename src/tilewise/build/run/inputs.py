"""Which files a lesson reads: detected from audit events, hashed by content.

In: the audit events of a process and its loaded modules. Out: paths with hashes, from which the runner
decides whether a cached result is valid. Only files of the project and loaded modules of tilewise count.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from stat import S_ISDIR

import tilewise

PACKAGE = Path(tilewise.__file__).resolve().parent
"""Where tilewise's own modules are."""
_PARSER = str(PACKAGE / "course") + os.sep
_SKIPPED = {".cache", ".git", ".venv", "__pycache__", "node_modules", "site", "dist", ".pytest_cache"}
_WATCHED = {"open", "os.listdir", "os.scandir"}


class Watch:
    """Records every file below a root that this process opens for reading, and every folder that it lists."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.resolve())
        self._seen: dict[str, None] = {}
        self.begun: set[str] = set()
        """The paths opened or listed since ``begin``."""
        self._on = True
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._on or event not in _WATCHED or not arguments:
            return
        if event != "open" and sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
            return  # a module search; ``stop`` adds the loaded modules
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        mode = arguments[1] if event == "open" and len(arguments) > 1 else "r"
        if isinstance(mode, str) and not set(mode).isdisjoint("wax+"):
            return
        if path is None or isinstance(path, str):
            full = os.path.abspath(path or ".")  # noqa: PTH100 - pathlib is too slow for every open
            if full.startswith(self._root):
                self._seen[full] = None
                self.begun.add(full)

    def begin(self) -> None:
        """Clear ``begun``."""
        self.begun.clear()

    def stop(self) -> list[str]:
        """Stop watching and return the absolute paths that were read, including loaded modules."""
        self._on = False
        paths = set(self._seen)
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and not file.endswith(".pyc"):
                paths.add(os.path.abspath(file))  # noqa: PTH100
        inside = (self._root + os.sep, str(PACKAGE) + os.sep)
        return sorted(path for path in paths if path.startswith(inside) and not _is_skipped(path, self._root))


def _is_skipped(path: str, root: str) -> bool:
    relative = Path(path.removeprefix(root))
    return not _SKIPPED.isdisjoint(relative.parts) or path.endswith(".pyc") or path.startswith(_PARSER)


def fingerprint(path: Path) -> str:
    """The hash of a file's content or of a folder's names; ``absent`` if the path does not exist."""
    try:
        if path.is_dir():
            names = sorted(entry.name for entry in path.iterdir() if entry.name not in _SKIPPED)
            return hashlib.sha256("\n".join(names).encode()).hexdigest()[:24]
        return hashlib.sha256(path.read_bytes()).hexdigest()[:24]
    except OSError:
        return "absent"


class Fingerprints:
    """Fingerprints, recomputed only when a file's modification time or size changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], str]] = {}

    def of(self, path: str) -> str:
        """As ``fingerprint``."""
        try:
            stat = os.stat(path)  # noqa: PTH116 - called for every input of every lesson at every save
        except OSError:
            return "absent"
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp or S_ISDIR(stat.st_mode):
            known = (stamp, fingerprint(Path(path)))
            self._known[path] = known
        return known[1]


def relative(paths: Iterable[str], root: Path) -> dict[str, str]:
    """Each path with its fingerprint; paths below the root are relative to it."""
    base = str(root.resolve()) + os.sep
    return {path.removeprefix(base): fingerprint(Path(path)) for path in paths}
