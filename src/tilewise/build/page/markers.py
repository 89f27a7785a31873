"""Edits of the finished HTML: removes lines that mark regions, and gives blocks their source line.

In: HTML in which ``data-markers`` of a kernel has the numbers of its marker lines, which are blank, and
comments give the line of the lesson's file where the next block begins. Out: the HTML without these lines,
and blocks with ``data-line``. Highlighters can't skip a number, and Markdown can't number all kinds of block.
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
    """Remove the lines that only mark a region.

    Returns:
        The page, where the lines around a marker are adjacent, on the screen and in a copy.
    """
    if "data-markers" not in html:
        return html
    return _KERNEL.sub(lambda kernel: _without(kernel[0], set(kernel["markers"].split())), html)


def line_mark(number: int) -> str:
    """The comment with a block's line in the lesson's file, and the blank line between comment and block."""
    return f"<!-- line {number} -->\n\n"


def without_line_marks(text: str) -> str:
    """Markdown without the comments of ``line_mark``."""
    return _MARK.sub("", text)


def tell_lines(html: str) -> str:
    """Replace each ``line_mark`` by a ``data-line`` of the block after it."""
    return _MARK.sub("", _MARKED.sub(r'<\2 data-line="\1"', html))


def _without(kernel: str, numbers: set[str]) -> str:
    return _LINE.sub(lambda line: "" if line["number"] in numbers else line[0], kernel)
