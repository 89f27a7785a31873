"""The outputs of a lesson's checks, prints and figures, for terminals and pages.

In: plain facts from the code that computed them. Out: text and Markdown. Kernels, exercises, runs and tables
are in separate modules; measurements are an output of ``tilewise.measurements``.
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
"""The source of a recorded text that is missing or was printed by different code."""
PENDING = "a new recording is pending"
"""The end of such a text's source if the pending list contains it."""
LONGEST_TEXT = 30
"""The maximum lines of a printed text that is not folded."""
LONGEST_LINE = 400
"""The maximum characters of its longest line."""
LONGEST_RECORDED, WIDEST_RECORDED = 4, 70
"""The same limits for recorded text, because prose, a figure or a table below it has its content."""
_SMALL = re.compile(r"\d[\d.]*e-\d+")
_TICK = '<span class="tw-check-mark" aria-hidden="true">✓</span>'


@dataclass(frozen=True)
class Text(Output):
    """Text that a cell printed, or a recorded text that only another machine can print."""

    kind: ClassVar[str] = "text"
    content: str
    """The text, without a final newline."""
    source: str = ""
    """Where it comes from, one sentence; empty for text that the cell itself printed."""

    def text(self) -> str:
        """The text, below a line with its source if there is one."""
        return f"[{self.source}]\n{self.content}" if self.source else self.content

    def is_short(self) -> bool:
        """Whether it is shown unfolded; a log of timing rounds is not."""
        lines = self.content.splitlines()
        most, widest = (LONGEST_RECORDED, WIDEST_RECORDED) if self.source else (LONGEST_TEXT, LONGEST_LINE)
        longest = max(map(len, lines), default=0)
        return len(lines) <= most and longest <= widest and "; rounds " not in self.content

    def markdown(self, context: Context) -> str:
        """A ``text`` fence of class ``tw-output``; a long text is folded, because a figure summarises it."""
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
        """The HTML of the fence."""
        title = f'<span class="filename">{escape(self.source)}</span>' if self.source else ""
        text = escape(self.content).replace("\n\n", "\n&#8203;\n")  # a blank line would end the block
        block = f'<div class="text tw-output highlight">{title}<pre><code>{text}\n</code></pre></div>'
        lines = len(self.content.splitlines())
        if self.is_short():
            return block
        return f'<details class="code"><summary>Output, {lines} lines</summary>{block}</details>'


@dataclass(frozen=True)
class FigureOutput(Output):
    """A figure's data, drawn by the page's script."""

    kind: ClassVar[str] = "figure"
    data: dict[str, Any]
    """``Figure.to_dict()``: title, caption, alt, height, kind, spec."""

    def to_dict(self) -> dict[str, Any]:
        """The figure's data."""
        return {"data": self.data}

    @classmethod
    def from_dict(cls, data: Any) -> FigureOutput:
        """The output whose ``to_dict`` returned ``data``; lists stay lists."""
        return cls(data["data"])

    def text(self) -> str:
        """The text for a terminal, which draws nothing."""
        return self.figure.text()

    def markdown(self, context: Context) -> str:
        """The element that the page's script draws into; its data become a file of the site."""
        url = context.add_file(".json", self._content)
        return context.html_block(self.figure.html(url, context.unique("figure")))

    @cached_property
    def _content(self) -> bytes:
        return self.figure.json_bytes()

    @cached_property
    def figure(self) -> Figure:
        """The figure; cached, because every edit of its prose renders a page again."""
        from tilewise.figures.figure import Figure

        return Figure.from_dict(self.data)


@dataclass(frozen=True)
class CheckOutput(Output):
    """A result that equals its reference within a tolerance."""

    kind: ClassVar[str] = "check"
    name: str
    """The name of what was compared, e.g. ``out`` or ``serial attention``."""
    count: int
    """The number of values compared."""
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
    """A kernel and its pseudocode, or another front end's kernel, with equal results."""

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
    """What ran the kernel, or the other front end's kernel."""
    by: str = "Pseudocode"
    """The tab title of what it was compared with."""

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
    """A comparison that was skipped because a package is not installed."""

    kind: ClassVar[str] = "lack"
    by: str
    """The tab title of what would have been compared."""
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
    """A hazard that a lesson triggers on purpose."""

    kind: ClassVar[str] = "hazard"
    hazard: str
    """Its kind: ``race``, ``out of bounds``, ..."""
    message: str
    """The simulator's message."""
    source_line: str = ""
    """The faulty line of the kernel, as written."""
    line: int = 0
    """Its number in the kernel; 0 if there is none."""

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
    """Text as HTML without line breaks in numbers such as ``1.7e-05``."""
    return _SMALL.sub(r'<span class="tw-unbroken">\g<0></span>', escape(text, quote=False))


def fence(text: str, attributes: str) -> str:
    """A superfences code fence, longer than any run of backticks inside.

    Args:
        text: the code.
        attributes: the text in the braces, e.g. ``.cuda #name linenums="1"``.
    """
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks} {{ {attributes} }}\n{text.rstrip()}\n{ticks}"


def attribute(text: str) -> str:
    """``text`` for a double-quoted attribute of a fence: without quotes, braces or newlines."""
    return " ".join(text.split()).replace('"', "”").replace("{", "(").replace("}", ")")


def folded(title: str, kind: str, body: str) -> str:
    """A closed ``???`` block."""
    inside = "\n".join(f"    {line}" if line.strip() else "" for line in body.splitlines())
    return f'??? {kind} "{escape(attribute(title), quote=False)}"\n\n{inside}'
