"""Caches lessons' results on disk under a hash of their code; valid while the files they read are unchanged.

In: a lesson's code cells and a result. Out: the same result later, or None. Prose is not part of the hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewise.build.file_cache import FileCache
from tilewise.build.run.inputs import Fingerprints
from tilewise.build.run.job import RECORDED_ON, TOOLS, CodeCell, Job, Result

_FORMAT = 4
_PACKAGES = ("numpy", "ziglang", "torch", "triton", "numba")
_SWITCHES = ("TILEWISE_STALE", RECORDED_ON, "TILEWISE_LESSONS")


class Store:
    """The cached results of one project."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._cache = FileCache(folder, at_most=500)
        self._fingerprints = Fingerprints()
        self._versions = [platform.python_version(), *(_version(name) for name in _PACKAGES)]

    def key(self, job: Job) -> str:
        """The hash of everything that a lesson's outputs depend on, except the files it reads."""
        switches = [os.environ.get(name, "") for name in _SWITCHES]
        cells = [_identity(cell) for cell in job.cells]
        decided = [
            _FORMAT,
            self._versions,
            switches,
            job.lesson_id,
            job.time_limit_s,
            job.output_limit,
            job.machines,
            cells,
            *_tools(job),
        ]
        return hashlib.sha256(json.dumps(decided).encode()).hexdigest()[:32]

    def get(self, key: str) -> Result | None:
        """The result cached under a key, if all its inputs are unchanged."""
        result: Result | None = self._cache.load(key, Result)
        return result if result is not None and self.holds(result) else None

    def put(self, key: str, result: Result) -> None:
        """Cache a result."""
        self._cache.store(key, result)
        self._cache.tidy()

    def holds(self, result: Result) -> bool:
        """Whether all inputs of a result are unchanged."""
        root = str(self._root)
        return all(
            self._fingerprints.of(os.path.join(root, path)) == mark  # noqa: PTH118 - for speed
            for path, mark in result.inputs.items()
        )


def _identity(cell: CodeCell) -> Sequence[object]:
    """The parts of a cell that decide its outputs; its position does not."""
    return (cell.source, cell.tab, cell.tab_set, cell.needs, cell.record)


def _tools(job: Job) -> list[str]:
    """The versions of the tools that a lesson's cells need."""
    tools = {name for cell in job.cells for name in cell.needs} & TOOLS.keys()
    return [f"{name} {_version(TOOLS[name])}" for name in sorted(tools)]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
