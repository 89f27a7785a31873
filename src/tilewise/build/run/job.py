"""What the runner and the process that executes cells send each other.

In: a lesson's code cells and limits. Out: a ``Job`` for the process, and the ``Result`` of its messages.
Both sides import only this module of each other, so that the process stays light.
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
"""The names in ``needs=`` of tools that cannot be imported, with the distributions that bring them."""


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
    """Which set of tabs it belongs to; -1 for none."""
    needs: tuple[str, ...]
    """Packages without which it is skipped."""
    record: str
    """The text record that stands in for it; empty for none."""


@dataclass(frozen=True)
class Job:
    """A lesson to execute."""

    root: str
    """The project's root, an absolute path; the child's current folder."""
    path: str
    """The lesson's file relative to the root."""
    lesson_id: str
    """Its id."""
    lines: tuple[str, ...]
    """The whole file, for tracebacks and ``inspect.getsource``."""
    cells: tuple[CodeCell, ...]
    """The code cells in order."""
    time_limit_s: float
    """After how long the lesson is stopped."""
    output_limit: int
    """How many characters of printed text are kept, all cells together."""
    records: str
    """The folder of the records, an absolute path."""
    machines: tuple[str, ...]
    """The folders in it of the further machines with whose records cells run, too."""
    course_machines: tuple[str, ...]
    """Those of the machines on which all that the lessons claim has to hold."""


@dataclass
class CellResult:
    """What one cell showed, published and defined."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    """Encoded outputs, in order."""
    published: dict[str, Any] = field(default_factory=dict)
    """Values for prose."""
    skipped: list[str] = field(default_factory=list)
    """What it needs and this machine lacks."""
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each kernel that it bound to a name, as an encoded output."""
    others: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By further machine: the encoded outputs with its records, where they differ."""
    published_by: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By further machine: the values for prose that differ."""


@dataclass
class Result:
    """What a lesson's cells gave, and what the lesson made and read."""

    cells: dict[int, CellResult] = field(default_factory=dict)
    """By cell, in order."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    """Each kernel that it made, with launches that went well, as ``gpu.launches`` encodes them."""
    inputs: dict[str, str] = field(default_factory=dict)
    """Files and folders read, relative to the root or absolute, each with the hash of its content."""

    @cached_property
    def digest(self) -> str:
        """A hash of what its cells gave; asked for once a run has ended."""
        cells = {index: asdict(cell) for index, cell in self.cells.items()}
        return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()[:24]


def error_to_dict(error: LessonError) -> dict[str, Any]:
    """A lesson error as JSON can hold it."""
    return {
        "path": error.path,
        "line": error.line,
        "message": error.message,
        "repair": error.repair,
        "details": error.details,
    }
