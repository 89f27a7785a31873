"""Anchors of headings: lower case, words joined by hyphens, letters of any script kept.

In: a heading's text and a separator. Out: the slug. Numbering of equal slugs is left to Python-Markdown.
"""

from __future__ import annotations

import re

_DROPPED = re.compile(r"[^\w\- ]+")
_GAPS = re.compile(r"[\s_-]+")


def slugify(text: str, separator: str = "-") -> str:
    """The anchor of a heading, e.g. ``two-coordinates-then-three``."""
    return _GAPS.sub(separator, _DROPPED.sub("", text).strip()).lower()
