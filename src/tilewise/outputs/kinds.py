"""The outputs of a lesson's checks, prints, figures and runs: what each says on a terminal and on a page.

In: plain facts, as whoever made them found them. Out: text and Markdown. Kernels and exercises have modules
of their own; measurements are an output of ``tilewise.measurements``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from tilewise.outputs.base import Context, Output, with_code
from tilewise.outputs.table import number

if TYPE_CHECKING:
    from tilewise.figures import Figure

NOT_CURRENT = "not current"
"""The source of a recorded text that is missing or was printed by other code."""
PENDING = "a new recording is pending"
"""How the source of such a text ends where the list of what is pending has it."""
LONGEST_TEXT = 30
"""Lines of a printed text that stand open on a page."""
LONGEST_LINE = 400
"""Characters of its longest line, too."""
LONGEST_RECORDED, WIDEST_RECORDED = 4, 70
"""The same of one that was recorded: what the text, a figure or a table below it says."""
_SMALL = re.compile(r"\d[\d.]*e-\d+")
_TICK = '<span class="tw-check-mark" aria-hidden="true">✓</span>'


@dataclass(frozen=True)
class Text(Output):
    """What a cell printed, or a recorded text that only another machine could print."""

    kind: ClassVar[str] = "text"
    content: str
    """The text, without a final line end."""
    source: str = ""
    """Where it comes from, one sentence; empty for what the cell itself printed just now."""

    def text(self) -> str:
        """The text, under a line that names its origin if it has one."""
        return f"[{self.source}]\n{self.content}" if self.source else self.content

    def is_short(self) -> bool:
        """Whether it stands open on a page; a log of every round of timings doesn't."""
        lines = self.content.splitlines()
        most, widest = (LONGEST_RECORDED, WIDEST_RECORDED) if self.source else (LONGEST_TEXT, LONGEST_LINE)
        longest = max(map(len, lines), default=0)
        return len(lines) <= most and longest <= widest and "; rounds " not in self.content

    def markdown(self, context: Context) -> str:
        """A ``text`` fence of class ``tw-output``; a long text is folded, as a figure speaks for it."""
        if not self.content.strip():
            return ""
        if context.plain:
            return self._html()
        title = f' title="{attribute(self.source)}"' if self.source else ""
        block = fence(self.content, f".text .tw-output{title}")
        lines = len(self.content.splitlines())
        if self.is_short():
            return block
        return folded(f"Output, {lines} lines", "code", block)

    def _html(self) -> str:
        """What the fence becomes."""
        title = f'<span class="filename">{escape(self.source)}</span>' if self.source else ""
        text = escape(self.content).replace("\n\n", "\n&#8203;\n")  # a blank line would end the block
        block = f'<div class="text tw-output highlight">{title}<pre><code>{text}\n</code></pre></div>'
        lines = len(self.content.splitlines())
        if self.is_short():
            return block
        return f'<details class="code"><summary>Output, {lines} lines</summary>{block}</details>'


@dataclass(frozen=True)
class FigureOutput(Output):
    """A figure's own data, to be drawn by the page's script."""

    kind: ClassVar[str] = "figure"
    data: dict[str, Any]
    """``Figure.to_dict()``: title, caption, alt, height, kind, spec."""

    def to_dict(self) -> dict[str, Any]:
        """The figure's data."""
        return {"data": self.data}

    @classmethod
    def from_dict(cls, data: Any) -> FigureOutput:
        """The output whose ``to_dict`` gave ``data``; lists stay lists."""
        return cls(data["data"])

    def text(self) -> str:
        """What a terminal prints: it draws nothing."""
        return self.figure.text()

    def markdown(self, context: Context) -> str:
        """The element that the page's script draws in; its data become a file of the site."""
        url = context.add_file(".json", self._content)
        return context.html_block(self.figure.html(url, context.unique("figure")))

    @cached_property
    def _content(self) -> bytes:
        return self.figure.json_bytes()

    @cached_property
    def figure(self) -> Figure:
        """The figure itself; made once, since a page is rendered again at every edit of its prose."""
        from tilewise.figures.figure import Figure

        return Figure.from_dict(self.data)


@dataclass(frozen=True)
class CheckOutput(Output):
    """A result that equals its reference within a tolerance."""

    kind: ClassVar[str] = "check"
    name: str
    """What was compared, e.g. ``out`` or ``serial attention``."""
    count: int
    """How many values were compared."""
    largest_error: float
    """The largest absolute difference."""
    rtol: float
    """Relative tolerance."""
    atol: float = 0.0
    """Absolute tolerance."""

    def text(self) -> str:
        """One line."""
        return f"check: {self._sentence()}"

    def markdown(self, context: Context) -> str:
        """A ``div.tw-check``."""
        return context.html_block(
            f'<div class="tw-check" data-kind="check">{_TICK} '
            f"<strong>Checked</strong> {_unbroken(self._sentence())}</div>"
        )

    def _sentence(self) -> str:
        tolerance = f"rtol {self.rtol:g}" + (f", atol {self.atol:g}" if self.atol else "")
        if self.rtol == 0 and self.atol == 0:
            tolerance = "exact"
        values = "value" if self.count == 1 else "values"
        error = "all equal" if self.largest_error == 0 else f"largest error {self.largest_error:.2g}"
        return f"{self.name}: {number(self.count)} {values}, {error} ({tolerance})"


@dataclass(frozen=True)
class AgreeOutput(Output):
    """A kernel and its pseudocode, or another front end's kernel, that gave the same results."""

    kind: ClassVar[str] = "agree"
    function: str
    """The name of the pseudocode's function, or of the other kernel."""
    kernel: str
    """The kernel's name."""
    cases: tuple[str, ...]
    """Each case in a few words, e.g. its sizes."""
    arrays: tuple[str, ...]
    """The arrays compared."""
    largest_error: float
    """The largest absolute difference over all cases."""
    rtol: float
    """Relative tolerance."""
    atol: float = 0.0
    """Absolute tolerance."""
    backend: str = "simulator"
    """What ran the kernel, or what ran the other front end's."""
    by: str = "Pseudocode"
    """What it was compared with, by its tab's title."""

    def text(self) -> str:
        """One line."""
        by = "pseudocode" if self.by == "Pseudocode" else self.by
        return (
            f"agree: {by} {self.function} and kernel {self.kernel}: "
            f"{', '.join(self.arrays)} in {self._cases()} ({'; '.join(self.cases)}), {self._result()}"
        )

    def markdown(self, context: Context) -> str:
        """A ``div.tw-check`` of kind ``agree``."""
        return context.html_block(
            f'<div class="tw-check" data-kind="agree">{_TICK} '
            f"<strong>{escape(self.by)} and CUDA agree</strong> for <code>{escape(self.kernel)}</code>: "
            f"{escape(', '.join(self.arrays), quote=False)} in "
            f'<span title="{escape("; ".join(self.cases))}">{self._cases()}</span>, '
            f"{_unbroken(self._result())}</div>"
        )

    def _cases(self) -> str:
        return "1 case" if len(self.cases) == 1 else f"{len(self.cases)} cases"

    def _result(self) -> str:
        tolerance = f"rtol {self.rtol:g}" + (f", atol {self.atol:g}" if self.atol else "")
        error = "all equal" if self.largest_error == 0 else f"largest error {self.largest_error:.2g}"
        return f"{error} ({tolerance}; {self.backend})"


@dataclass(frozen=True)
class LackOutput(Output):
    """A comparison that did not take place, since a package is not installed."""

    kind: ClassVar[str] = "lack"
    by: str
    """What would have been compared with the kernel, by its tab's title."""
    kernel: str
    """The kernel's name."""
    why: str
    """What is missing, e.g. ``needs Numba``."""

    def text(self) -> str:
        """One line."""
        return f"agree: {self.by} was not compared with kernel {self.kernel}: {self.why}"

    def markdown(self, context: Context) -> str:
        """A ``div.tw-lack``, which the page lists with the checks."""
        why = escape(self.why, quote=False)
        return context.html_block(
            f'<div class="tw-lack">{escape(self.by)} with {escape(self.kernel)} ({why}).</div>'
        )


@dataclass(frozen=True)
class HazardOutput(Output):
    """A hazard that a lesson provokes on purpose."""

    kind: ClassVar[str] = "hazard"
    hazard: str
    """What it is: ``race``, ``out of bounds``, ..."""
    message: str
    """What the simulator says."""
    source_line: str = ""
    """The kernel's line at fault, as written."""
    line: int = 0
    """Its number in the kernel; 0 where there is none."""

    def text(self) -> str:
        """Two lines."""
        at = f"\n  {self.line}: {self.source_line.strip()}" if self.source_line else ""
        return f"expected hazard, and it happened: {self.hazard}: {self.message}{at}"

    def markdown(self, context: Context) -> str:
        """A ``div.tw-hazard``."""
        number_ = f'<span class="tw-hazard-line">line {self.line}</span> ' if self.line else ""
        code = f"<code>{escape(self.source_line.strip(), quote=False)}</code>" if self.source_line else ""
        where = f'\n<div class="tw-hazard-source">{number_}{code}</div>' if code else ""
        return context.html_block(
            f'<div class="tw-hazard" data-hazard="{escape(self.hazard)}">'
            f"<strong>Hazard: {escape(self.hazard, quote=False)}.</strong> "
            f"{with_code(self.message)}{where}\n</div>"
        )


def _unbroken(text: str) -> str:
    """Text as HTML in which no line ends at the hyphen of a number such as ``1.7e-05``."""
    return _SMALL.sub(r'<span class="tw-unbroken">\g<0></span>', escape(text, quote=False))


def fence(text: str, attributes: str) -> str:
    """A code fence of superfences, longer than any run of back ticks inside.

    Args:
        text: the code.
        attributes: what stands in the braces, e.g. ``.cuda #name linenums="1"``.
    """
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks} {{ {attributes} }}\n{text.rstrip()}\n{ticks}"


def attribute(text: str) -> str:
    """``text`` for a double-quoted attribute of a fence: no quotes, braces or line ends."""
    return " ".join(text.split()).replace('"', "”").replace("{", "(").replace("}", ")")


def folded(title: str, kind: str, body: str) -> str:
    """A closed ``???`` block."""
    inside = "\n".join(f"    {line}" if line.strip() else "" for line in body.splitlines())
    return f'??? {kind} "{escape(attribute(title), quote=False)}"\n\n{inside}'
