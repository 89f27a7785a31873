"""The resources of each kernel on each architecture, as NVIDIA's compiler reports them without a GPU.

In: the lessons' kernels, and the record that `validation/` makes of the compiler's reports. Out:
``kernel_faults`` for kernels that the record lacks or that spill registers undeclared, and the table of the
page "What the kernels take", which is made from the record alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from tilewise.cuda.headers import with_headers
from tilewise.cuda.kernel_source import define_text, tokens
from tilewise.cuda.options import architecture
from tilewise.errors import LessonError
from tilewise.gpu.cupy_backend import PRELUDE
from tilewise.kernel import nvrtc as compile_gate
from tilewise.kernel.nvrtc import ARCHITECTURES, Resources
from tilewise.measurements.key import digest
from tilewise.measurements.validation_file import FOLDER, RENEW, load
from tilewise.outputs import Cell, Column, Table

FORM = ("resources", 1)
"""The kind of record, and the version of its schema."""
FILE = "resources.json"
"""The record's file."""


@dataclass(frozen=True)
class ResourceRow:
    """One kernel."""

    title: str
    """The kernel's name and its defines, if any."""
    key: str
    """A hash of the compiler's input, without comments and layout."""
    spills: str
    """Why it spills registers, as declared in its source; empty if undeclared."""
    needs: str
    """The minimum architecture; empty if it runs on all."""
    taken: Mapping[str, Resources]
    """Resources by architecture, without those that the kernel does not support."""

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.title.partition(" with ")[0]

    @property
    def spilling(self) -> list[str]:
        """The architectures on which it spills registers."""
        return [name for name, resources in self.taken.items() if resources.spills]


@dataclass(frozen=True)
class ResourceRecord:
    """Every kernel of every lesson."""

    nvrtc: str
    """The version of the compiler, such as 13.5."""
    lessons: Mapping[str, tuple[ResourceRow, ...]]
    """By the lesson's id, in the order in which the lesson creates them."""


def kernel_key(
    source: str, name: str, defines: Mapping[str, int | float | str], options: Sequence[str]
) -> str:
    """A hash of NVRTC's input for a kernel, without comments and layout."""
    values = {macro: define_text(macro, value) for macro, value in defines.items()}
    return digest({"text": _text(source, tuple(options)), "name": name, "defines": values})[:16]


@lru_cache(maxsize=1024)
def _text(source: str, options: tuple[str, ...]) -> str:
    """A hash of what the kernels of a source share; cached, because a build needs hundreds of keys."""
    required = architecture(options)
    flags = [compile_gate.flags(options, target) for target in ((required,) if required else ARCHITECTURES)]
    return digest({"prelude": PRELUDE, "tokens": "\0".join(tokens(with_headers(source))), "flags": flags})


def encoded_key(kernel: Mapping[str, Any]) -> str:
    """The key of a kernel in the encoding of a lesson's run."""
    return kernel_key(kernel["source"], kernel["name"], kernel["defines"], kernel["options"])


def title(name: str, defines: Mapping[str, int | float | str]) -> str:
    """A kernel's name and its defines, if any."""
    values = ", ".join(f"{macro}={value}" for macro, value in defines.items())
    return f"{name} with {values}" if values else name


def kernel_faults(
    root: Path, kernels_by_lesson: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[LessonError]:
    """Faults of the lessons' kernels: outdated records and undeclared spills.

    Args:
        root: the folder ``lessons``; a project without `validation/records/` has no faults.
        kernels_by_lesson: kernels by the lesson's id, in the encoding of a lesson's run.

    Raises:
        LessonError: the record cannot be read.
    """
    if not (root.parent / FOLDER).is_dir():
        return
    record = load_resources(root.parent)
    for lesson in record.lessons:
        if not (root / f"{lesson}.py").is_file():
            yield LessonError(
                f"{FOLDER}/{FILE}", 0, f'it lists kernels of "{lesson}", which is no lesson.', RENEW
            )
    for lesson, kernels in kernels_by_lesson.items():
        rows = record.lessons.get(lesson, ())
        keys = [encoded_key(kernel) for kernel in kernels]
        if fault := _stale(kernels, rows, keys):
            line, message = fault
            yield LessonError(f"lessons/{lesson}.py", line, message, RENEW)
        lines = {key: kernel["line"] for key, kernel in zip(keys, kernels, strict=True)}
        for row in rows:
            if row.key in lines and (spill := spill_fault(row, rows)):
                yield LessonError(f"lessons/{lesson}.py", lines[row.key], *spill)


def _stale(
    kernels: Sequence[Mapping[str, Any]], rows: Sequence[ResourceRow], keys: Sequence[str]
) -> tuple[int, str] | None:
    """Line and message, if a lesson's kernels differ from those in the record."""
    recorded = [(row.key, row.spills) for row in rows]
    wanted = [
        (key, compile_gate.declared_spill(kernel["source"]) or "")
        for key, kernel in zip(keys, kernels, strict=True)
    ]
    for kernel, facts in zip(kernels, wanted, strict=True):
        if facts not in recorded:
            name = title(kernel["name"], kernel["defines"])
            return kernel["line"], f'the record of compiled kernels is older than "{name}".'
    # Without the compiler, lessons create fewer kernels.
    if wanted != recorded and compile_gate.available() is None:
        return 0, "the record of compiled kernels lists others than the lesson has, or in another order."
    return None


def spill_fault(row: ResourceRow, others: Sequence[ResourceRow] = ()) -> tuple[str, str] | None:
    """Message and repair for a kernel that spills undeclared, or declares a spill and does not.

    Args:
        row: the kernel.
        others: kernels of its lesson. One source at several sizes declares once; one of them must spill.
    """
    kernel = f'kernel "{row.title}"'
    if not row.taken:
        return f"{kernel} needs {row.needs}, which is none of {', '.join(ARCHITECTURES)}.", ""
    if row.spilling and not row.spills:
        largest = max(
            resources.spill_store_bytes + resources.spill_load_bytes for resources in row.taken.values()
        )
        return (
            f"{kernel} spills registers on {', '.join(row.spilling)}, up to {largest} bytes per thread.",
            'Keep fewer values at a time, or declare it in the source: "// spills: why".',
        )
    alike = [row, *(other for other in others if (other.name, other.spills) == (row.name, row.spills))]
    if row.spills and not any(other.spilling for other in alike):
        return f'{kernel} declares "// spills: {row.spills}" and spills nothing.', "Delete the comment."
    return None


def load_resources(project: Path) -> ResourceRecord:
    """The record of a project.

    Raises:
        LessonError: it is missing or malformed.
    """
    return load(project, FILE, FORM, _parsed)


def _parsed(body: dict[str, Any]) -> ResourceRecord:
    lessons = {lesson: tuple(map(_row, rows)) for lesson, rows in body["rows"].items()}
    return ResourceRecord(str(body["nvrtc"]), lessons)


def _row(data: Mapping[str, Any]) -> ResourceRow:
    name = data["kernel"].partition(" ")[0]
    resources = {}
    for target, (registers, stack, stored, loaded, shared) in data["taken"].items():
        resources[target] = Resources(name, target, *map(int, (registers, stack, stored, loaded, shared)))
    return ResourceRow(
        data["kernel"], str(data["key"]), data.get("spills", ""), data.get("needs", ""), resources
    )


def page_table(project: Path, titles: Mapping[str, str], urls: Mapping[str, str]) -> str:
    """The kernels in one fold per lesson, which the site's script searches and filters.

    Args:
        project: the project's folder.
        titles: the lessons' titles by their ids, in reading order.
        urls: the lessons' pages relative to the site's root.
    """
    lessons = load_resources(project).lessons
    folds = [
        _fold(lesson, name, urls[lesson], lessons[lesson])
        for lesson, name in titles.items()
        if lesson in lessons
    ]
    return "\n".join(
        ['<div class="tw-search-in" data-search="kernels" data-search-exclude>', *folds, "</div>"]
    )


def _fold(lesson: str, title: str, url: str, rows: Sequence[ResourceRow]) -> str:
    count = f"{len(rows)} {'kernel' if len(rows) == 1 else 'kernels'}"
    link = f'<p><a href="../{escape(url)}">Open the lesson</a></p>'
    summary = f"<summary>{escape(title)} <small>{count}</small></summary>"
    return (
        f'<details class="tw-group" id="{escape(lesson)}" data-group="{escape(title)}">{summary}\n'
        f"{link}\n{_table(rows)}\n</details>"
    )


def _table(rows: Sequence[ResourceRow]) -> str:
    architectures = {name.rstrip("af") for row in rows for name in row.taken}
    targets = [name for name in ARCHITECTURES if name in architectures]
    columns: list[str | Column] = [
        "kernel",
        Column("shared", "bytes per block"),
        Column("local", "bytes per thread"),
        *(Column(target, "registers") for target in targets),
    ]
    body = [
        [
            row.title,
            max((resources.shared_bytes for resources in row.taken.values()), default=0),
            max((resources.stack_bytes for resources in row.taken.values()), default=0),
            *(_cell(row, target) for target in targets),
        ]
        for row in rows
    ]
    return Table(columns, body).html()


def _cell(row: ResourceRow, target: str) -> Cell | str:
    special = next((name for name in row.taken if name != target and name.rstrip("af") == target), "")
    resources = row.taken.get(target) or row.taken.get(special)
    if resources is None:
        targets = ", ".join(row.taken)
        return Cell("–", f"needs {row.needs}" if row.needs else f"compiled for {targets} alone")
    if not resources.spills:
        return Cell(resources.registers)
    spilled = f"{resources.spill_store_bytes} bytes stored, {resources.spill_load_bytes} loaded back"
    return Cell(f"{resources.registers}, spills", f"{spilled}: {row.spills or 'not declared'}", mark="hazard")
