"""What the pages "What the simulator counts" and "What the kernels take" show: numbers, tables and reasons.

In: the committed records. Out: Markdown by name, for ``{{ hardware.table }}`` and the like. No number of the
pages is typed, and no lesson, compiler or simulator runs for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tilewise.gpu import compile_gate
from tilewise.hardware import clangs, resources, sanitizer
from tilewise.hardware.comparison import (
    COUNTS,
    LESSONS,
    Compared,
    ComparedRow,
    Pair,
    compared,
    load_comparison,
)
from tilewise.hardware.differences import REWRITTEN, UNEXPLAINED, Reason
from tilewise.hardware.record import recorded
from tilewise.outputs import Cell, Column, Table


def fragment(name: str) -> str:
    """A part of the page.

    Args:
        name: one of ``FRAGMENTS`` or ``PLAIN``.

    Raises:
        KeyError: there is no such part.
        LessonError: a record cannot be read.
    """
    return PLAIN[name]() if name in PLAIN else FRAGMENTS[name](compared()[0])


def _device(compared: Compared) -> str:
    made = compared.record.provenance
    versions = made["versions"]
    return (
        f"{made['device']} (driver {made['driver']}, NVRTC {versions['nvrtc']}, CuPy {versions['cupy']}, "
        f"Nsight Compute {versions['ncu']}, {made['date']})"
    )


def _pairs(compared: Compared) -> list[Pair]:
    return [pair for row in compared.rows for pair in row.counts.values()]


def _equal(compared: Compared) -> str:
    return f"{sum(not pair.residual for pair in _pairs(compared)):,}"


def _counts(compared: Compared) -> str:
    return f"{len(_pairs(compared)):,}"


def _kernels(compared: Compared) -> str:
    return f"{len(compared.rows):,}"


def _same_bits(compared: Compared) -> str:
    return str(sum(row.exact and not _fused(row) for row in compared.rows))


def _fused(row: ComparedRow) -> bool:
    return any(row.why(name) for name in row.simulated.outputs)


def _rewritten(compared: Compared) -> str:
    """Outputs with other bits than the hardware's, and the reason that a rewritten source shows."""
    by_reason: dict[Reason, list[list[Any]]] = {}
    for row in compared.rows:
        edits, _ = REWRITTEN.get(row.name, ({}, None))
        shown = "; ".join(f"{before.rstrip(';')} as {after.rstrip(';')}" for before, after in edits.items())
        for name, distance in row.simulated.outputs.items():
            if why := row.why(name):
                by_reason.setdefault(why, []).append([row.name, name, distance.largest, shown])
    columns = ["kernel", "output", "largest difference", "equal once the source has"]
    return "\n\n".join(
        f"### {reason.title.capitalize()}\n\n{reason.text}\n\n{_html(columns, rows)}"
        for reason, rows in by_reason.items()
    )


def _bounded(compared: Compared) -> str:
    rows = [
        [row.name, row.simulated.idea, name, distance.largest, *row.simulated.tolerance]
        for row in compared.rows
        if not row.exact
        for name, distance in row.simulated.outputs.items()
        if not distance.same_bits
    ]
    columns = ["kernel", "what it does", "output", "largest difference", "allowed, relative", "and absolute"]
    return _html(columns, rows, "Outputs that need not have the same bits.")


def _table(compared: Compared) -> str:
    parts = []
    for group in dict.fromkeys(row.group for row in compared.rows):
        rows = [row for row in compared.rows if row.group == group]
        names = [name for name in COUNTS if any(name in row.counts for row in rows)]
        columns = [Column("kernel"), Column("what it does"), *(Column(name, align="right") for name in names)]
        body = [[row.name, row.simulated.idea, *(_cell(row, name) for name in names)] for row in rows]
        caption = "One number where both agree, else the simulator's, an arrow, and the hardware's."
        parts.append(f"### {group}\n\n{_html(columns, body, caption)}")
    return "\n\n".join(parts)


def _uncounted(compared: Compared) -> str:
    """What was not compared, by name: kernels newer than their counters, and counters without a kernel."""
    named = (
        ("not counted on this GPU yet", compared.uncounted),
        ("changed since they were counted", compared.changed),
        ("counted, and launched no more", compared.gone),
    )
    rows = []
    for why, names in named:
        by_lesson: dict[str, list[str]] = {}
        for name in names:
            lesson, apart, kernel = name.partition(": ")
            by_lesson.setdefault(lesson if apart else "", []).append(kernel if apart else name)
        rows += [[lesson, why, "; ".join(kernels)] for lesson, kernels in by_lesson.items()]
    if not rows:
        return "All kernels of all lessons are in these tables."
    count = len(compared.uncounted) + len(compared.changed)
    said = f"{count:,} kernels of lessons are in none of these tables until counters are taken again."
    return f"{said}\n\n{_html(['lesson', 'why', 'kernels'], rows)}"


def _cell(row: ComparedRow, name: str) -> Cell | str | int:
    pair = row.counts.get(name)
    if pair is None:
        return ""
    if not pair.residual:
        return Cell(pair.counted)
    why = pair.why.title if pair.why else "not explained"
    title = f"simulator {pair.simulated:,}, hardware {pair.counted:,}: {why}"
    return Cell(f"{pair.simulated:,} → {pair.counted:,}", title, mark="hazard")


def _differences(compared: Compared) -> str:
    by_reason: dict[Reason, list[list[Any]]] = {}
    for row in compared.rows:
        for name, pair in row.counts.items():
            if pair.residual:
                both = [pair.simulated, pair.counted, f"{pair.residual:+,}"]
                by_reason.setdefault(pair.why or UNEXPLAINED, []).append([row.name, name, *both])
    columns = [
        Column("kernel"),
        Column("count"),
        Column("simulator"),
        Column("hardware"),
        Column("residual", align="right"),
    ]
    return "\n\n".join(
        f"### {reason.title.capitalize()}\n\n{reason.text}\n\n{_html(columns, rows)}"
        for reason, rows in by_reason.items()
    )


def _instructions(compared: Compared) -> str:
    """How many machine instructions stand for one of PTX: the range over all kernels."""
    ratios = sorted(row.instructions.counted / row.instructions.simulated for row in compared.rows)
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def _metrics(compared: Compared) -> str:
    rows = [[name.replace("_", " "), metric] for name, metric in compared.record.metrics.items()]
    return _html(["counter", "Nsight Compute's name"], rows)


def _clangs() -> str:
    """Each kernel whose counts differ between two compilers."""
    record = clangs.load_clangs()
    rows = [
        [one.kernel, one.count.replace("_", " "), one.ours, one.other, f"{one.other - one.ours:+,}"]
        for one in record.found
    ]
    columns = [
        Column("kernel"),
        Column("count"),
        Column(f"clang {record.ours}"),
        Column(f"clang {record.other}"),
        Column("difference", align="right"),
    ]
    return _html(columns, rows)


def _html(columns: Iterable[str | Column], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    return Table(columns, rows, caption or None).html()


FRAGMENTS: Mapping[str, Callable[[Compared], str]] = {
    "device": _device,
    "kernels": _kernels,
    "counts": _counts,
    "equal": _equal,
    "same_bits": _same_bits,
    "bounded": _bounded,
    "rewritten": _rewritten,
    "uncounted": _uncounted,
    "table": _table,
    "differences": _differences,
    "instructions": _instructions,
    "metrics": _metrics,
}
"""What can stand after ``hardware.`` in a placeholder."""

PLAIN: Mapping[str, Callable[[], str]] = {
    "resources": resources.page_table,
    "sanitizer": lambda: sanitizer.page_table(load_comparison(recorded()[0].device).keys(LESSONS)),
    "nvrtc": lambda: f"NVRTC {resources.load_resources().nvrtc}",
    "architectures": lambda: ", ".join(compile_gate.ARCHITECTURES),
    "clangs": _clangs,
    "clang_pair": lambda: f"clang {clangs.load_clangs().ours} and clang {clangs.load_clangs().other}",
    "clang_kernels": lambda: str(clangs.load_clangs().kernels),
}
"""Likewise, of what has no device's counters in it."""
