"""What only the finished HTML can take: lines that mark a region taken out, blocks told their source line.

In: HTML in which kernels carry ``data-markers``, the numbers of their marker lines, which stand blank, and
comments say which line of the lesson's file the next block begins on. Out: the same without these lines, and
blocks with ``data-line``. No highlighter can leave a number out, no Markdown can number every kind of block.
"""

from __future__ import annotations

import re

_KERNEL = re.compile(
    r'<div(?=[^>]*\bclass="[^"]*\btw-kernel\b)[^>]*\bdata-markers="(?P<markers>[\d ]+)"[^>]*>.*?</pre>', re.S
)
_MARKED = re.compile(r"<!-- line (\d+) -->\s*<([a-z]\w*)(?![^>]*\bdata-line=)")
_MARK = re.compile(r"<!-- line \d+ -->\s*")
_LINE = re.compile(
    r'<span id="__span-[^"]*"><span class="linenos" data-linenos="\s*(?P<number>\d+)\s*"></span>'
    r'\s*(?:<span class="\w+">\s*</span>\s*)*</span>'
)


def hide_marker_lines(html: str) -> str:
    """Take the lines out that only mark a region.

    Returns:
        The page, where lines on both sides of a marker are neighbours, on the screen and in a copy.
    """
    if "data-markers" not in html:
        return html
    return _KERNEL.sub(lambda kernel: _without(kernel[0], set(kernel["markers"].split())), html)


def line_mark(number: int) -> str:
    """The comment before a block that begins on a line of the lesson's file, with the blank line after it."""
    return f"<!-- line {number} -->\n\n"


def without_line_marks(text: str) -> str:
    """Markdown without the comments of ``line_mark``."""
    return _MARK.sub("", text)


def tell_lines(html: str) -> str:
    """Give each block that a ``line_mark`` stands before the line as ``data-line``; the comments go."""
    return _MARK.sub("", _MARKED.sub(r'<\2 data-line="\1"', html))


def _without(kernel: str, numbers: set[str]) -> str:
    return _LINE.sub(lambda line: "" if line["number"] in numbers else line[0], kernel)
