"""The contents of the pages "What the simulator counts" and "What the kernels take".

In: the records that `validation/` commits. Out: Markdown by name, for ``{{ hardware.table }}`` and the like.
No number on the pages is typed by hand, and no lesson, compiler or simulator runs for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from tilewise.errors import LessonError
from tilewise.kernel import nvrtc
from tilewise.measurements import compiled_kernels
from tilewise.measurements.validation_file import FOLDER, RENEW, load, measured, of_devices
from tilewise.outputs import Cell, Column, Table

FORM = ("comparison", 2)
"""The kind of a comparison's record, and the version of its schema."""
LESSONS = "Kernels of the lessons"
"""The title of the group of the course's own kernels."""
UNCOUNTED, CHANGED = "not counted on this GPU yet", "changed since they were counted"
"""Why a kernel is not compared."""
UNEXPLAINED = "not explained"
"""The reason for a difference without one; a test fails for it."""
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""The tools of compute-sanitizer, each in its own run."""


@dataclass(frozen=True)
class Pair:
    """One count of one kernel on both sides."""

    simulated: int
    counted: int
    why: str = ""
    """The title of the reason for the difference."""

    @property
    def residual(self) -> int:
        """Hardware minus simulator."""
        return self.counted - self.simulated


@dataclass(frozen=True)
class Distance:
    """The difference between the simulator's and the hardware's output."""

    same_bits: bool
    """Whether all bytes are equal."""
    allowed: bool
    """Whether the specimen allows this difference."""
    largest: float | None = None
    """The largest absolute difference, to four digits; None if only a hash was stored."""
    why: str = ""
    """The title of the reason why bits differ that should be equal."""


@dataclass(frozen=True)
class Row:
    """One kernel on both sides; only name and key if its counters are missing or outdated."""

    name: str
    """The specimen's name."""
    key: str
    """The specimen's key when it ran."""
    waits: str = ""
    """``UNCOUNTED`` or ``CHANGED``; empty if it is compared."""
    idea: str = ""
    """What it tests."""
    tolerance: tuple[float, float] = (0.0, 0.0)
    """How much outputs may differ, relative and absolute; zeros require equal bits."""
    instructions: Pair = Pair(0, 0)
    """Warp instructions: PTX and SASS."""
    counts: Mapping[str, Pair] = field(default_factory=dict)
    """By name of the count; only those that are nonzero on either side."""
    outputs: Mapping[str, Distance] = field(default_factory=dict)
    """By the name of the parameter."""
    edits: str = ""
    """The change to the source that reproduces the hardware's bits."""

    @property
    def exact(self) -> bool:
        """Whether the outputs must be equal bit for bit."""
        return not any(self.tolerance)


@dataclass(frozen=True)
class Comparison:
    """The simulator against one device's counters."""

    provenance: Mapping[str, Any]
    """Where, when and with which versions the counters were taken."""
    metrics: Mapping[str, str]
    """Our names for the counters, and Nsight Compute's."""
    counts: tuple[str, ...]
    """The names of the counts, in the order of the tables."""
    counters: str
    """The checksum of the counters."""
    simulator: str
    """A hash of the simulator and of everything else that affects its counts."""
    reasons: Mapping[str, str]
    """Why counts differ: a paragraph by its title."""
    groups: Mapping[str, tuple[Row, ...]]
    """Kernels by the title of their group."""
    gone: tuple[str, ...] = ()
    """The names of kernels that were counted and are no longer launched."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """The kernels that are compared."""
        return tuple(row for rows in self.groups.values() for row in rows if not row.waits)

    def waiting(self, why: str) -> tuple[str, ...]:
        """The names of kernels that are not compared, for one reason."""
        return tuple(row.name for rows in self.groups.values() for row in rows if row.waits == why)

    def keys(self, group: str) -> dict[str, str]:
        """The keys of a group's kernels, by name."""
        return {row.name: row.key for row in self.groups.get(group, ())}


def load_comparison(project: Path, name: str = "") -> Comparison:
    """The record of the comparison with a device.

    Args:
        project: the project's folder.
        name: the record; by default that of the first device.

    Raises:
        LessonError: it is missing or malformed.
    """
    names = [name] if name else of_devices(project, FORM[0])
    if not names:
        raise LessonError(f"{FOLDER}/{FORM[0]}", 0, "there is no record of a device.", RENEW)
    return load(project, names[0], FORM, _comparison)


def _comparison(body: dict[str, Any]) -> Comparison:
    members = {name: body[name] for name in ("provenance", "metrics", "counters", "simulator", "reasons")}
    groups = {group: tuple(map(_row, rows)) for group, rows in body["rows"].items()}
    return Comparison(**members, counts=tuple(body["counts"]), groups=groups, gone=tuple(body["gone"]))


def _row(data: dict[str, Any]) -> Row:
    relative, absolute = data.get("tolerance", (0, 0))
    counts = {name: _pair(*pair) for name, pair in data.get("counts", {}).items()}
    outputs = {name: Distance(*distance) for name, distance in data.get("outputs", {}).items()}
    rest = {name: str(data[name]) for name in ("waits", "idea", "edits") if name in data}
    return Row(
        str(data["name"]),
        str(data["key"]),
        tolerance=(float(relative), float(absolute)),
        instructions=_pair(*data.get("instructions", (0, 0))),
        counts=counts,
        outputs=outputs,
        **rest,
    )


def _pair(simulated: Any, counted: Any, why: str = "") -> Pair:
    return Pair(int(simulated), int(counted), why)


def fragment(name: str, project: Path) -> str:
    """A part of the pages.

    Args:
        name: one of ``FRAGMENTS`` or ``PLAIN``.
        project: the project's folder.

    Raises:
        KeyError: there is no such part.
        LessonError: a record cannot be read.
    """
    return PLAIN[name](project) if name in PLAIN else FRAGMENTS[name](load_comparison(project))


def _device(record: Comparison) -> str:
    origin = record.provenance
    versions = origin["versions"]
    return (
        f"{origin['device']} (driver {origin['driver']}, NVRTC {versions['nvrtc']}, CuPy {versions['cupy']}, "
        f"Nsight Compute {versions['ncu']}, {origin['date']})"
    )


def _pairs(record: Comparison) -> list[Pair]:
    return [pair for row in record.rows for pair in row.counts.values()]


def _same_bits(record: Comparison) -> str:
    rows = (row for row in record.rows if row.exact)
    return str(sum(not any(distance.why for distance in row.outputs.values()) for row in rows))


def _rewritten(record: Comparison) -> str:
    """Outputs whose bits differ from the hardware's, with the reason, shown by a rewritten source."""
    reasons = (
        (distance.why, [row.name, name, distance.largest, row.edits])
        for row in record.rows
        for name, distance in row.outputs.items()
        if distance.why
    )
    columns = ["kernel", "output", "largest difference", "equal once the source has"]
    return _by_reason(record, columns, reasons)


def _bounded(record: Comparison) -> str:
    rows = [
        [row.name, row.idea, name, distance.largest, *row.tolerance]
        for row in record.rows
        if not row.exact
        for name, distance in row.outputs.items()
        if not distance.same_bits
    ]
    columns = ["kernel", "what it does", "output", "largest difference", "allowed, relative", "and absolute"]
    return _html(columns, rows, "Outputs that needn't have the same bits.")


def _table(record: Comparison) -> str:
    parts = []
    for group, group_rows in record.groups.items():
        if rows := [row for row in group_rows if not row.waits]:
            counted = {name for row in rows for name in row.counts}
            names = [name for name in record.counts if name in counted]
            columns: list[str | Column] = ["kernel", "what it does"]
            columns += [Column(name, align="right") for name in names]
            body = [[row.name, row.idea, *(_cell(row.counts.get(name)) for name in names)] for row in rows]
            caption = "One number if both agree; otherwise the simulator's, an arrow, and the hardware's."
            count = f"{len(rows)} {'kernel' if len(rows) == 1 else 'kernels'}"
            summary = f"<summary>{escape(group)} <small>{count}</small></summary>"
            parts.append(f'<details class="note">{summary}\n{_html(columns, body, caption)}\n</details>')
    return "\n\n".join(parts)


def _uncounted(record: Comparison) -> str:
    """What was not compared: kernels newer than their counters, and counters without a kernel."""
    uncounted, changed = record.waiting(UNCOUNTED), record.waiting(CHANGED)
    names_by_reason = (
        (UNCOUNTED, uncounted),
        (CHANGED, changed),
        ("counted, but no longer launched", record.gone),
    )
    rows = []
    for why, names in names_by_reason:
        by_lesson: dict[str, list[str]] = {}
        for name in names:
            lesson, separator, kernel = name.partition(": ")
            by_lesson.setdefault(lesson if separator else "", []).append(kernel if separator else name)
        rows += [[lesson, why, "; ".join(kernels)] for lesson, kernels in by_lesson.items()]
    if not rows:
        return "All kernels of all lessons are in these tables."
    count = len(uncounted) + len(changed)
    sentence = (
        f"{count:,} kernels of lessons are in none of these tables until their counters are read again."
    )
    table = _html(["lesson", "why", "kernels"], rows)
    return f'{sentence}\n\n<details class="note"><summary>Which ones, and why</summary>\n{table}\n</details>'


def _cell(pair: Pair | None) -> Cell | str:
    if pair is None:
        return ""
    if not pair.residual:
        return Cell(pair.counted)
    title = f"simulator {pair.simulated:,}, hardware {pair.counted:,}: {pair.why or UNEXPLAINED}"
    return Cell(f"{pair.simulated:,} → {pair.counted:,}", title, mark="hazard")


def _differences(record: Comparison) -> str:
    reasons = (
        (pair.why, [row.name, name, pair.simulated, pair.counted, f"{pair.residual:+,}"])
        for row in record.rows
        for name, pair in row.counts.items()
        if pair.residual
    )
    residual = Column("residual", align="right")
    return _by_reason(record, ["kernel", "count", "simulator", "hardware", residual], reasons)


def _by_reason(
    record: Comparison, columns: Sequence[str | Column], reasons: Iterable[tuple[str, Sequence[Any]]]
) -> str:
    """A table for each reason, under its paragraph."""
    rows: dict[str, list[Sequence[Any]]] = {}
    for why, row in reasons:
        rows.setdefault(why or UNEXPLAINED, []).append(row)
    texts = {UNEXPLAINED: "These differences aren't explained yet.", **record.reasons}
    return "\n\n".join(
        f"### {why.capitalize()}\n\n{texts[why]}\n\n{_html(columns, body)}" for why, body in rows.items()
    )


def _instructions(record: Comparison) -> str:
    """SASS instructions per PTX instruction: the range over all kernels."""
    ratios = sorted(row.instructions.counted / row.instructions.simulated for row in record.rows)
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def _metrics(record: Comparison) -> str:
    rows = [[name.replace("_", " "), metric] for name, metric in record.metrics.items()]
    return _html(["counter", "Nsight Compute's name"], rows)


def _sanitizer(project: Path) -> str:
    """A row for each lesson: kernels checked, kernels not checked, and the findings of each tool."""
    names = of_devices(project, "sanitizer")
    if not names:
        return "No device has a record of it yet; `python -m validation.sanitizer` writes one."
    record = load(project, names[0], ("sanitizer", 1), measured)
    rows = {(row["name"], row["key"]): row for row in record["rows"]}
    by_lesson: dict[str, list[tuple[str, str]]] = {}
    for kernel in load_comparison(project).keys(LESSONS).items():
        by_lesson.setdefault(kernel[0].partition(": ")[0], []).append(kernel)
    lines = []
    for lesson, kernels in by_lesson.items():
        if checked := [rows[kernel] for kernel in kernels if kernel in rows]:
            counts = [_findings(checked, tool) for tool in TOOLS]
            lines.append([lesson, len(checked), len(kernels) - len(checked), *counts])
    columns = [Column(name, align="right") for name in ("kernels", "not checked", *TOOLS)]
    origin = record["provenance"]
    version = origin["versions"]["compute-sanitizer"]
    caption = (
        f"Findings of compute-sanitizer {version} on an {origin['device']}, {origin['date']}, by lesson."
    )
    return _html(["lesson", *columns], lines, caption)


def _findings(rows: Iterable[Mapping[str, Any]], tool: str) -> Cell | int:
    findings = {row["name"]: row["said"][tool] for row in rows if row["said"][tool]}
    title = "; ".join(f"{name}: {message}" for name, message in findings.items())
    return Cell(len(findings), title, mark="hazard") if findings else 0


def _html(columns: Iterable[str | Column], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    return Table(columns, rows, caption or None).html()


FRAGMENTS: Mapping[str, Callable[[Comparison], str]] = {
    "device": _device,
    "kernels": lambda record: f"{len(record.rows):,}",
    "counts": lambda record: f"{len(_pairs(record)):,}",
    "equal": lambda record: f"{sum(not pair.residual for pair in _pairs(record)):,}",
    "same_bits": _same_bits,
    "bounded": _bounded,
    "rewritten": _rewritten,
    "uncounted": _uncounted,
    "table": _table,
    "differences": _differences,
    "instructions": _instructions,
    "metrics": _metrics,
}
"""The parts that need the comparison, by the name after ``hardware.`` in a placeholder."""

PLAIN: Mapping[str, Callable[[Path], str]] = {
    "sanitizer": _sanitizer,
    "nvrtc": lambda project: f"NVRTC {compiled_kernels.load_resources(project).nvrtc}",
    "architectures": lambda _: ", ".join(nvrtc.ARCHITECTURES),
}
"""The parts that need no counters."""
