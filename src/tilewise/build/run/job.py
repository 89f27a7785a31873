"""What the runner and the process that executes cells send each other.

In: a lesson's code cells and limits. Out: a ``Job`` for the process, and the ``Result`` of its messages.
This is the only module that both sides share, so that the process stays light.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from tilewise.errors import LessonError

GPU = "gpu"
"""The name in ``needs=`` that stands for a GPU rather than for a package."""
RECORDED_ON = "TILEWISE_RECORDED_ON"
"""The environment variable that names the machine whose records are read first."""
TOOLS = {"nvdisasm": "nvidia-cuda-nvdisasm", "nvrtc": "nvidia-cuda-nvrtc"}
"""The names in ``needs=`` of tools that cannot be imported, with the distributions that provide them."""


@dataclass(frozen=True)
class CodeCell:
    """A code cell, as the child needs it."""

    index: int
    """Its index among the lesson's code cells."""
    line: int
    """The line of its ``# %%``."""
    source_line: int
    """The line of its source's first line."""
    source: str
    """The code."""
    tab: str
    """The tab's title; empty for none."""
    tab_set: int
    """The set of tabs that it belongs to; -1 for none."""
    needs: tuple[str, ...]
    """Packages that it needs; without them it is skipped."""
    record: str
    """The text record that replaces its output; empty for none."""


@dataclass(frozen=True)
class Job:
    """A lesson to execute."""

    root: str
    """The project's root, an absolute path; the child's current folder."""
    path: str
    """The lesson's file relative to the root."""
    lesson_id: str
    """The lesson's id."""
    lines: tuple[str, ...]
    """The whole file, for tracebacks and ``inspect.getsource``."""
    cells: tuple[CodeCell, ...]
    """The code cells in order."""
    time_limit_s: float
    """The time after which the lesson is stopped."""
    output_limit: int
    """The limit on printed characters, over all cells."""
    records: str
    """The folder of the records, an absolute path."""
    machines: tuple[str, ...]
    """The subfolders of the further machines whose records cells also run with."""
    course_machines: tuple[str, ...]
    """The machines on which every claim of the lessons has to hold."""


@dataclass
class CellResult:
    """The outputs, published values and kernels of one cell."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    """Encoded outputs, in order."""
    published: dict[str, Any] = field(default_factory=dict)
    """Values for prose."""
    skipped: list[str] = field(default_factory=list)
    """The needs that this machine lacks."""
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each kernel that it bound to a name, as an encoded output."""
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By further machine: the encoded outputs with its records, where they differ."""
    published_by: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By further machine: the values for prose that differ."""


@dataclass
class Result:
    """The results of a lesson's cells, the kernels that it launched and the files that it read."""

    cells: dict[int, CellResult] = field(default_factory=dict)
    """By cell, in order."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    """Each kernel that it built, with its successful launches, as encoded by ``kernel.saved_launches``."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Files and folders read, relative to the root or absolute, each with the hash of its content."""

    @cached_property
    def digest(self) -> str:
        """A hash of the cells' results; only valid after the run has ended."""
        cells = {index: asdict(cell) for index, cell in self.cells.items()}
        return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:24]


def error_to_dict(error: LessonError) -> dict[str, Any]:
    """A lesson error as a JSON object."""
    return {
        "path": error.path,
        "line": error.line,
        "message": error.message,
        "repair": error.repair,
        "details": error.details,
    }
