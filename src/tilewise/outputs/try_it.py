"""A run that readers can change on the page: its initial counts, and the controls.

In: the initial counts, and the data with which the page's script runs the kernel with other sizes. Out: HTML
that works without the script; ``site/web/run`` takes over when a reader changes something.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, ClassVar

from tilewise.outputs.base import Context, Output
from tilewise.outputs.run import RunLine, RunOutput

COUNTS_BEGIN, COUNTS_END, END = "<!-- counts -->", "<!-- end of counts -->", "<!-- end of run -->"
"""The start and end of the counts table, and the end of the run; the front page omits the table."""
MOST_LINES = 7
"""The maximum lines of the initial run on a page: those with the most traffic."""


@dataclass(frozen=True)
class TryOutput(Output):
    """A kernel that readers run with their own sizes."""

    kind: ClassVar[str] = "try"
    run: RunOutput
    """The initial run."""
    offer: dict[str, Any]
    """Kernels, sizes, launch and arguments, in the format of ``kernel/try_it.py``."""
    caption: str
    """A sentence below the title."""
    warp: dict[str, Any] = field(default_factory=lambda: {"caption": "", "rows": []})
    """The first warp's accesses in the initial run, in the format of ``simulator/results/first_warp.py``."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"run": self.run.to_dict(), "offer": self.offer, "caption": self.caption, "warp": self.warp}

    @classmethod
    def from_dict(cls, data: Any) -> TryOutput:
        """The output whose ``to_dict`` returned ``data``."""
        return cls(RunOutput.from_dict(data["run"]), data["offer"], data["caption"], data["warp"])

    def text(self) -> str:
        """The initial run."""
        return self.run.text()

    def markdown(self, context: Context) -> str:
        """The controls and the initial run's table; the data to run it is a separate file."""
        url = context.add_file(".json", json.dumps(self.offer, separators=(",", ":")).encode())
        name = context.unique("try")
        return context.html_block(
            "\n".join(
                [
                    f'<div class="tw-try" id="{name}" data-offer="{escape(url)}">',
                    '<p class="tw-try-head"><strong>Run it yourself.</strong> '
                    f"{escape(self.caption, quote=False)}</p>",
                    '<form class="tw-try-controls" aria-label="Sizes of the run">',
                    *self._kernels(name),
                    *(_size(name, size) for size in self.offer["sizes"]),
                    "</form>",
                    '<div class="tw-try-result">',
                    _picture(self.warp),
                    f"{COUNTS_BEGIN}{_shortened(self.run).html()}{COUNTS_END}</div>",
                    f"{END}</div>",
                ]
            )
        )

    def _kernels(self, name: str) -> list[str]:
        labels = [kernel["label"] for kernel in self.offer["kernels"]]
        if len(labels) < 2:
            return []
        options = "".join(
            f'<option value="{at}">{escape(label, quote=False)}</option>' for at, label in enumerate(labels)
        )
        return [
            f'<div class="tw-try-size"><label for="{name}-kernel">kernel</label>'
            f'<select id="{name}-kernel" name="kernel" autocomplete="off">{options}</select></div>'
        ]


def _shortened(run: RunOutput) -> RunOutput:
    left = len(run.lines) - MOST_LINES
    if left <= 0:
        return run
    instructions = sum(column.group == "instructions" for column in run.columns)

    def weight(line: RunLine) -> tuple[int, int]:
        issued, *_ = (cell.text for cell in line.cells if isinstance(cell.text, int))
        return sum(cell.text != "" for cell in line.cells[instructions:]), issued

    heaviest = sorted(run.lines, key=weight, reverse=True)[:MOST_LINES]
    lines = tuple(line for line in run.lines if line in heaviest)
    more = "1 more line is" if left == 1 else f"{left} more lines are"
    note = f"{more} counted in the last row. Your own run lists all of them."
    return replace(run, lines=lines, notes=(*run.notes, note))


def _picture(warp: Mapping[str, Any]) -> str:
    """The first warp's accesses, as in ``site/web/run/table.js``."""
    if not warp["rows"]:
        return ""
    rows = "".join(
        f"<li><span>line {row['line']} {escape(row['text'])}, <strong>{row['counted']}</strong></span>"
        f'<span class="tw-try-lanes" aria-hidden="true">{_marks(row["lanes"], 32)}</span>'
        + (_sectors(row["sectors"]) if row["banks"] is None else _banks(row["banks"]))
        + "</li>"
        for row in warp["rows"]
    )
    caption = escape(warp["caption"])
    return f'<figure class="tw-try-warp"><ul>{rows}</ul><figcaption>{caption}</figcaption></figure>'


def _marks(used: Sequence[int], count: int) -> str:
    return "".join('<i class="tw-try-used"></i>' if at in used else "<i></i>" for at in range(count))


def _sectors(sectors: Sequence[tuple[int, Sequence[int]]]) -> str:
    """Each sector's eight words, with a gap if the previous sector is not accessed."""
    before = [number for number, _ in sectors]
    cells = "".join(
        f"<b{_apart(number, before[at - 1] if at else number - 1)}>{_marks(used, 8)}</b>"
        for at, (number, used) in enumerate(sectors)
    )
    return f'<span class="tw-try-sectors" aria-hidden="true">{cells}</span>'


def _apart(number: int, before: int) -> str:
    return ' class="tw-try-apart"' if number > before + 1 else ""


def _banks(banks: Sequence[int]) -> str:
    """Each bank's words; unmarked, because all of them are used."""
    cells = "".join(f"<b>{'<i></i>' * count}</b>" for count in banks)
    return f'<span class="tw-try-banks" aria-hidden="true">{cells}</span>'


def _size(within: str, size: dict[str, Any]) -> str:
    """A slider over a range or a list of choices."""
    name, start = size["name"], size["start"]
    least, most, at = size.get("least", 0), size.get("most", 0), start
    if values := size.get("values"):
        most, at = len(values) - 1, values.index(start)
    identity, label = f"{within}-{name}", name.replace("_", " ")
    return (
        f'<div class="tw-try-size"><label for="{identity}">{escape(label, quote=False)}</label>'
        f'<input type="range" id="{identity}" name="{escape(name)}" min="{least}" max="{most}" value="{at}" '
        f'aria-valuetext="{start}" autocomplete="off">{_value(identity, label, size)}</div>'
    )


def _value(identity: str, label: str, size: dict[str, Any]) -> str:
    """The number next to a slider: a field, or the current choice."""
    if "values" in size:
        return f'<output for="{identity}" class="tw-try-value">{size["start"]}</output>'
    return (
        f'<input type="number" class="tw-try-value" aria-label="{escape(label)} as a number" '
        f'min="{size["least"]}" max="{size["most"]}" value="{size["start"]}" autocomplete="off">'
    )
