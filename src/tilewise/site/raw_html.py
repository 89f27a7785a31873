"""HTML blocks in Markdown, stashed so that two slow HTML parsers in Python skip them.

In: Markdown whose outputs are HTML. Out: the same page, faster. Only blocks that Markdown would stash whole
are stashed: they have blank lines around but not inside them, are closed in their last line and contain no
Markdown.
"""

from __future__ import annotations

import re
from typing import Any

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from markdown.util import STX

_BLOCK = re.compile(r"(?:(?<=\n\n)|\A)<(div|figure|table|section|details|ul|ol|p)\b.*(?:\n.+)*(?=\n\n|\n?\Z)")
_ANCHOR = re.compile(r"\s(?:id|name)=\"([^\"]*)\"")
_AFTER_FENCES_AND_BEFORE_PARSERS = 22


class RawHtml(Extension):  # type: ignore[misc]
    """The extension; it has the ids in the stashed blocks of the last converted page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Start a page."""
        self.anchors = set()
        md.preprocessors.register(
            _Stashing(md, self.anchors), "tilewise_raw_html", _AFTER_FENCES_AND_BEFORE_PARSERS
        )


class _Stashing(Preprocessor):  # type: ignore[misc]
    def __init__(self, md: Markdown, anchors: set[str]) -> None:
        super().__init__(md)
        self._anchors = anchors

    def run(self, lines: list[str]) -> list[str]:
        return _BLOCK.sub(self._stashed, "\n".join(lines)).split("\n")

    def _stashed(self, match: re.Match[str]) -> str:
        block = match[0]
        if STX in block or "markdown" in block or not _is_one_element(block, match[1]):
            return block
        self._anchors.update(_ANCHOR.findall(block))
        stash: Any = self.md.htmlStash
        return str(stash.store(block))


def _is_one_element(block: str, name: str) -> bool:
    """Whether a block is a single element, by counting the tags of its name."""
    depth = 0
    for tag in re.finditer(rf"<(/?){name}\b[^>]*>", block):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end() == len(block)
    return False
