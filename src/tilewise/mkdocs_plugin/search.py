"""Search entries, kept for each page while its content is unchanged.

In: pages as Material's search plugin hands them to its index. Out: the same entries, without parsing a page
a second time. What is indexed, and how, stays with Material.
"""

from __future__ import annotations

from typing import Any

from material.plugins.search.plugin import SearchIndex
from mkdocs.structure.pages import Page

from tilewise.mkdocs_plugin.marks import toc_mark


class KeptIndex(SearchIndex):  # type: ignore[misc]  # Material is not typed
    """Material's index of one build, with the entries of earlier builds at hand."""

    def __init__(self, kept: dict[str, tuple[object, list[Any]]], **config: Any) -> None:
        super().__init__(**config)
        self._kept = kept

    def add_entry_from_context(self, page: Page) -> None:
        """Add a page's entries, parsed or kept."""
        mark = (page.content, page.url, str(page.title), repr(page.meta), toc_mark(page.toc))
        kept = self._kept.get(page.file.src_uri)
        if kept is not None and kept[0] == mark:
            self.entries.extend(kept[1])
            return
        before = len(self.entries)
        super().add_entry_from_context(page)
        self._kept[page.file.src_uri] = (mark, self.entries[before:])
