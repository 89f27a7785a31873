"""Marks of pages and navigations: plain values that are equal where a template would print the same.

In: MkDocs's pages and navigation. Out: tuples and text to compare or hash. What is kept under them is
decided by ``search`` and ``templates``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mkdocs.structure import StructureItem
from mkdocs.structure.nav import Link, Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink


def toc_mark(items: Iterable[AnchorLink]) -> tuple[Any, ...]:
    """A table of contents: titles, anchors, levels and nesting."""
    return tuple((item.title, item.id, item.level, toc_mark(item.children)) for item in items)


def page_mark(page: Page) -> tuple[Any, ...]:
    """Everything that a template prints of the page it is for."""
    return (
        page.content,
        toc_mark(page.toc),
        *_head(page),
        str(page.abs_url),
        str(page.canonical_url),
        str(page.edit_url),
        str(getattr(page, "nb_url", "")),
        _head(page.previous_page),
        _head(page.next_page),
        [str(section.title) for section in page.ancestors],
    )


def nav_mark(nav: Navigation) -> tuple[Any, ...]:
    """Everything that a template prints of the navigation."""
    return tuple(_item(item) for item in nav.items)


def _item(item: StructureItem) -> tuple[Any, ...]:
    if isinstance(item, Section):
        return ("section", str(item.title), tuple(_item(child) for child in item.children))
    if isinstance(item, Page):
        return ("page", *_head(item))
    return ("link", str(item.title), item.url if isinstance(item, Link) else "")


def _head(page: Page | None) -> tuple[str, ...]:
    if page is None:
        return ()
    return (str(page.title), page.url, repr(sorted(page.meta.items(), key=lambda pair: str(pair[0]))))
