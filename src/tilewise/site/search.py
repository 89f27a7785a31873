"""Search entries, cached on disk under a hash of each page's content.

In: pages, or objects with ``content``, ``toc``, ``url``, ``title`` and ``meta``. Out: Material's entries for
them, without parsing a page twice. Material decides what is indexed and how, except that words of
neighbouring table cells stay separate.
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
        cache: stores the entries.
        deferred: ignore MkDocs's pages; ``of_pages`` gets them when the index is requested.
        config: the search plugin's own options.
    """

    def __init__(self, cache: FileCache, deferred: bool, **config: Any) -> None:
        super().__init__(**config)
        self._cache = cache
        self._deferred = deferred

    def add_entry_from_context(self, page: Any) -> None:
        """Add a page's entries; Material's plugin calls this for each page that is built."""
        if not self._deferred:
            self.entries.extend(self.warm(page))

    def warm(self, page: Any) -> list[Any]:
        """Return a page's entries, from the cache or parsed."""
        page = _spaced(page)
        key = key_of(page.content, page.url, page.title, sorted(page.meta.items(), key=str))
        cached = self._cache.get(key)
        if cached is not None:
            entries: list[Any] = json.loads(cached)
            return entries
        parsed = SearchIndex(**self.config)
        parsed.add_entry_from_context(page)
        self._cache.put(key, json.dumps(parsed.entries).encode())
        return list(parsed.entries)

    def of_pages(self, pages: Iterable[Any]) -> str:
        """Return the index of these pages as JSON."""
        index = SearchIndex(**self.config)
        for page in pages:
            index.entries.extend(self.warm(page))
        return str(index.generate_search_index(None))


def _spaced(page: Any) -> Any:
    """The page with spaces between table cells, whose words Material would otherwise join."""
    spaced = copy(page)
    spaced.content = re.sub(r"</t[dh]>", " \\g<0>", page.content)
    return spaced
