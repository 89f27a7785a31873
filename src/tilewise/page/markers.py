"""Marker lines of regions taken out of a page's HTML, the numbers of the other lines as they were.

In: HTML in which kernels carry ``data-markers``, the numbers of their marker lines, which stand blank. Out:
the same without these lines. No highlighter can leave a number out, so this comes after Markdown.
"""

from __future__ import annotations

import re

_KERNEL = re.compile(
    r'<div(?=[^>]*\bclass="[^"]*\btw-kernel\b)[^>]*\bdata-markers="(?P<markers>[\d ]+)"[^>]*>.*?</pre>', re.S
)
_LINE = re.compile(
    r'<span id="__span-[^"]*"><span class="linenos" data-linenos="\s*(?P<number>\d+)\s*"></span>'
    r'\s*(?:<span class="\w+">\s*</span>\s*)*</span>'
)


def hide_marker_lines(html: str) -> str:
    """Take the lines out that only mark a region.

    Args:
        html: a page, as Markdown made it of ``Page.markdown``.

    Returns:
        The page, where lines on both sides of a marker are neighbours, on the screen and in a copy.
    """
    if "data-markers" not in html:
        return html
    return _KERNEL.sub(lambda kernel: _without(kernel[0], set(kernel["markers"].split())), html)


def _without(kernel: str, numbers: set[str]) -> str:
    return _LINE.sub(lambda line: "" if line["number"] in numbers else line[0], kernel)
