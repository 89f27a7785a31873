"""Search entries, kept for each page under a hash of its content, also for the next process.

In: pages, or what stands for them: ``content``, ``toc``, ``url``, ``title`` and ``meta``. Out: the entries
that Material makes of them, without parsing a page twice. What is indexed, and how, stays with Material, but
for the words of a table's cells, which stay apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from copy import copy
from typing import Any

from material.plugins.search.plugin import SearchIndex

from tilewise.build.file_cache import FileCache, key_of


class KeptIndex(SearchIndex):  # type: ignore[misc]  # Material is not typed
    """Material's index of one build.

    Args:
        cache: where entries are kept.
        deferred: take no page from MkDocs; ``add`` is called for each when the index is wanted.
        config: the search plugin's own options.
    """

    def __init__(self, cache: FileCache, deferred: bool, **config: Any) -> None:
        super().__init__(**config)
        self._cache = cache
        self._deferred = deferred

    def add_entry_from_context(self, page: Any) -> None:
        """Add a page's entries, as Material's plugin asks for each page that is built."""
        if not self._deferred:
            self.entries.extend(self.warm(page))

    def warm(self, page: Any) -> list[Any]:
        """A page's entries, parsed or kept."""
        page = _spaced(page)
        key = key_of(page.content, page.url, page.title, sorted(page.meta.items(), key=str))
        kept = self._cache.get(key)
        if kept is not None:
            entries: list[Any] = json.loads(kept)
            return entries
        parsed = SearchIndex(**self.config)
        parsed.add_entry_from_context(page)
        self._cache.put(key, json.dumps(parsed.entries).encode())
        return list(parsed.entries)

    def of_pages(self, pages: Iterable[Any]) -> str:
        """The whole index of these pages, as JSON."""
        index = SearchIndex(**self.config)
        for page in pages:
            index.entries.extend(self.warm(page))
        return str(index.generate_search_index(None))


def _spaced(page: Any) -> Any:
    """The page with white space between the cells of tables, which Material would join to one word."""
    spaced = copy(page)
    spaced.content = re.sub(r"</t[dh]>", " \\g<0>", page.content)
    return spaced
