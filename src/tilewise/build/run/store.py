"""Keeps what lessons showed on disk, under the hash of their code, while what they read is unchanged.

In: a lesson's code cells and a result. Out: the same result later, or nothing. Prose is no part of the
hash. Files are written whole or not at all, and one that cannot be read counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewise.build.run.inputs import Fingerprints
from tilewise.build.run.job import RECORDED_ON, TOOLS, CodeCell, Job, Result

log = logging.getLogger("mkdocs.plugins.tilewise")

_FORMAT = 3
_PACKAGES = ("numpy", "ziglang", "torch", "triton", "numba")
_SWITCHES = ("TILEWISE_STALE", RECORDED_ON, "TILEWISE_LESSONS")


class Store:
    """Kept results of one project, the latest ``at_most`` of them."""

    at_most = 500

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        self._fingerprints = Fingerprints()
        self._versions = [platform.python_version(), *(_version(name) for name in _PACKAGES)]

    def key(self, job: Job) -> str:
        """The hash of everything that decides what a lesson shows, but for what it reads."""
        switches = [os.environ.get(name, "") for name in _SWITCHES]
        cells = [_identity(cell) for cell in job.cells]
        decided = [
            _FORMAT,
            self._versions,
            switches,
            job.lesson_id,
            job.time_limit_s,
            job.machines,
            cells,
            *_tools(job),
        ]
        return hashlib.sha256(json.dumps(decided).encode()).hexdigest()[:32]

    def get(self, key: str) -> Result | None:
        """The result kept under a key, if all that it read is still the same."""
        try:
            result = Result.from_dict(json.loads(self._file(key).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return result if self.holds(result) else None

    def holds(self, result: Result) -> bool:
        """Whether everything that a result was made from is unchanged."""
        root = str(self._root)
        return all(
            self._fingerprints.of(os.path.join(root, path)) == mark  # noqa: PTH118 - as above all, quick
            for path, mark in result.inputs.items()
        )

    def put(self, key: str, result: Result) -> None:
        """Keep a result; writes a file in the cache's folder, or nothing where the disk is full."""
        file = self._file(key)
        made = file.with_name(f"{file.name}.{os.getpid()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(json.dumps(result.to_dict(), ensure_ascii=False), encoding="utf-8")
            made.replace(file)
        except OSError as error:
            made.unlink(missing_ok=True)
            log.warning(f"{self._folder} cannot be written ({error.strerror}): lessons run again every time.")
        with suppress(OSError):  # another process may clear up at the same time
            kept = sorted(self._folder.glob("*.json"), key=lambda entry: entry.stat().st_mtime_ns)
            for old in kept[: -self.at_most]:
                old.unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _identity(cell: CodeCell) -> Sequence[object]:
    """What of a cell decides its outputs: not where it stands."""
    return (cell.source, cell.tab, cell.tab_set, cell.needs, cell.record)


def _tools(job: Job) -> list[str]:
    """The versions of the tools that a lesson's cells ask for."""
    asked = {name for cell in job.cells for name in cell.needs} & TOOLS.keys()
    return [f"{name} {_version(TOOLS[name])}" for name in sorted(asked)]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
