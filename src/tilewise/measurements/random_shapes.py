"""The page "Random shapes": the functions of `tilewise.kernels` against libraries, worst first.

In: the record that `python -m validation.random_shapes` commits. Out: Markdown by name, for
``{{ hardware.random_shapes }}`` and the like. No number on the page is typed by hand.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tilewise.measurements.validation_file import load
from tilewise.outputs import Column, Table

FILE = "random_shapes.json"
"""The record's file in `validation/records/`."""
FORM = ("random_shapes", 1)
"""The kind of record, and the version of its schema."""
LEAST = 0.85
"""The ratio below which a shape counts as slow."""
TITLES = {
    "matmul_bf16": "matmul, BF16",
    "matmul_fp32": "matmul, FP32",
    "attention": "attention",
    "attention_backward": "attention_backward",
    "attention_decode": "attention_decode",
    "softmax": "softmax",
    "sum": "sum",
    "transpose": "transpose",
}
"""The titles of families, in the order of the page."""
_SHOWN = ("ratio", "device_us", "range_us", "best", "best_us", "host_us", "best_host_us", "error")

Record = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def read(project: Path) -> Record:
    """The record.

    Raises:
        LessonError: it is missing or malformed.
    """
    repair = "Run python -m validation.random_shapes on a GPU."
    return load(project, FILE, FORM, lambda body: {**body, "families": dict(body["families"])}, repair)


def mean(rows: Rows) -> float:
    """The geometric mean of the ratios."""
    return math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))


def _machine(record: Record) -> str:
    machine = record["machine"]
    return (
        f"{machine['name']}, driver {machine['driver_version']}, SM clock {machine['clocks.sm']} of "
        f"{machine['clocks.max.sm']} and memory clock {machine['clocks.mem']} after the run; "
        f"CUDA {machine['cuda']}, PyTorch {machine['torch']}, "
        f"cuDNN {machine['cudnn']}, CuPy {machine['cupy']}; seed {record['seed']}; {machine['date']}"
    )


def _summary(record: Record) -> str:
    columns: list[str | Column] = [
        *("function", "geometric mean", "worst", f"under {LEAST}"),
        *(Column("host", "µs"), Column("library's host", "µs")),
    ]
    lines = [
        [
            TITLES[family],
            f"{mean(rows):.2f}",
            f"{min(row['ratio'] for row in rows):.2f}",
            sum(row["ratio"] < LEAST for row in rows),
            f"{statistics.median(row['host_us'] for row in rows):.0f}",
            f"{statistics.median(row['best_host_us'] for row in rows):.0f}",
        ]
        for family, rows in _families(record)
    ]
    return Table(columns, sorted(lines, key=lambda line: float(line[1]))).html()


def _tables(record: Record) -> str:
    folds = []
    for family, rows in sorted(_families(record), key=lambda pair: mean(pair[1])):
        names = [name for name in rows[0] if name not in _SHOWN]
        columns: list[str | Column] = [
            *names,
            "ratio",
            *(Column("ours", "µs"), Column("spread", "µs"), "library", Column("library", "µs")),
        ]
        lines = [
            [
                *(str(row[name]).replace("True", "yes").replace("False", "no") for name in names),
                f"{row['ratio']:.2f}",
                row["device_us"],
                f"{row['range_us'][0]} to {row['range_us'][1]}",
                row["best"],
                row["best_us"],
            ]
            for row in sorted(rows, key=lambda row: row["ratio"])
        ]
        table = Table(columns, lines).html()
        folds.append(f"<details><summary>{escape(TITLES[family])}</summary>\n{table}\n</details>")
    return "\n\n".join(folds)


def _families(record: Record) -> list[tuple[str, Rows]]:
    return [(family, record["families"][family]) for family in TITLES if family in record["families"]]


FRAGMENTS: Mapping[str, Callable[[Record], str]] = {
    "random_shapes": _summary,
    "random_machine": _machine,
    "random_tables": _tables,
}
"""The parts of the page, by name."""


def fragment(name: str, project: Path) -> str:
    """A fragment of the page."""
    return FRAGMENTS[name](read(project))
