"""Markdown to HTML, cached on disk by content.

In: a page that MkDocs wants rendered. Out: the attributes that ``Page.render`` sets, from the cache if
everything they depend on is unchanged. A page that logged a warning is never cached, so that every build
repeats the warning.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import TableOfContents

from tilewise.build.file_cache import FileCache, key_of
from tilewise.build.page.folds import gather
from tilewise.build.page.markers import hide_marker_lines, tell_lines
from tilewise.site.math import render_math
from tilewise.site.raw_html import RawHtml

_HEADING = re.compile(r"<h([1-4])\b[^>]*>.*?</h\1>", re.S)
_HYPHENATED = re.compile(r"(?<![\w-])(?=[\w-]{3,20}(?![\w-]))\w+(?:-\w+)+(?![^<]*>)")


@dataclass
class Conversion:
    """The result of converting a page."""

    content: str
    """The page's HTML."""
    toc: TableOfContents
    """Its table of contents."""
    title: str | None
    """The text of its first heading."""
    anchors: set[str]
    """Ids on the page."""
    links: dict[str, dict[str, str]] | None
    """By source path: the anchors that the page links to, and the links as written."""
    registered: _Registered
    """What it registered with the plugins that link names."""


@dataclass(frozen=True)
class Surroundings:
    """Hashes of what a page's conversion depends on besides its Markdown."""

    config: str
    """Of mkdocs.yml, package versions and our own converters."""
    files: str
    """Of the pages and files that links may point to."""
    modules: Callable[[], str]
    """Returns a hash of the modules that ``:::`` documents."""


def whole_words(html: str) -> str:
    """Return a page whose headings don't break at a hyphen: "split-K" stays on one line."""
    return _HEADING.sub(
        lambda heading: _HYPHENATED.sub(r'<span class="tw-unbroken">\g<0></span>', heading[0]), html
    )


class Conversions:
    """Caches conversions in a folder.

    Args:
        folder: the cache's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._files = FileCache(folder, at_most=400)
        self.raw_html = RawHtml()

    def render(self, page: Page, config: MkDocsConfig, files: Files, around: Surroundings) -> None:
        """Do what ``Page.render`` does, or apply its cached result."""
        assert page.markdown is not None
        modules = around.modules() if ":::" in page.markdown else ""
        texts = (page.file.src_uri, page.url, page.title, page.markdown)
        key = key_of(*texts, around.config, around.files, modules)
        conversion: Conversion | None = self._files.load(key, Conversion)
        if conversion is not None:
            _apply(conversion, page, files)
            _register(config, page, conversion.registered)
            return
        listener = _WarningListener()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(listener)
        try:
            with _registering(config) as registered:
                self._convert(page, config, files)
        finally:
            logger.removeHandler(listener)
        if not listener.has_warned:
            self._files.store(key, _conversion_of(page, registered))

    def _convert(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        Page.render(page, config, files)
        assert page.content is not None
        page.content = whole_words(gather(tell_lines(hide_marker_lines(render_math(page.content)))))
        page.present_anchor_ids = (page.present_anchor_ids or set()) | self.raw_html.anchors

    def tidy(self) -> None:
        """Evict the least recently used conversions if there are many."""
        self._files.tidy()


class _WarningListener(logging.Handler):
    """Notes whether this thread logged a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.has_warned = False
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        self.has_warned |= record.thread == self._thread


@dataclass
class _Registered:
    """What a page's conversion registers, as the keyword arguments of each call."""

    anchors: list[dict[str, Any]] = field(default_factory=list)
    """Headings and documented names, for autorefs."""
    names: list[dict[str, Any]] = field(default_factory=list)
    """Documented names, for mkdocstrings' inventory."""


@contextmanager
def _registering(config: MkDocsConfig) -> Iterator[_Registered]:
    """Record what is registered inside the ``with`` block."""
    registered = _Registered()
    with ExitStack() as stack:
        if (autorefs := config.plugins.get("autorefs")) is not None:
            stack.enter_context(_recording(autorefs, "register_anchor", registered.anchors))
        if (docstrings := config.plugins.get("mkdocstrings")) is not None:
            stack.enter_context(_recording(docstrings.handlers.inventory, "register", registered.names))
        yield registered


@contextmanager
def _recording(owner: Any, name: str, calls: list[dict[str, Any]]) -> Iterator[None]:
    """Record the arguments of each call of a method, except a page."""
    method = getattr(owner, name)
    parameters = signature(method)

    def record(*positional: Any, **keywords: Any) -> None:
        arguments = parameters.bind(*positional, **keywords).arguments
        calls.append({name: value for name, value in arguments.items() if name != "page"})
        method(*positional, **keywords)

    setattr(owner, name, record)
    try:
        yield
    finally:
        delattr(owner, name)


def _register(config: MkDocsConfig, page: Page, registered: _Registered) -> None:
    """Register what converting the cached page registered."""
    autorefs: Any = config.plugins.get("autorefs")
    for arguments in registered.anchors if autorefs is not None else ():
        autorefs.register_anchor(page, **arguments)
    docstrings: Any = config.plugins.get("mkdocstrings")
    if docstrings is not None and registered.names:
        docstrings.handlers.get_handler("python")  # writes its styles and inventory only once used
        for arguments in registered.names:
            docstrings.handlers.inventory.register(**arguments)


def _conversion_of(page: Page, registered: _Registered) -> Conversion:
    links = page.links_to_anchors
    return Conversion(
        content=page.content or "",
        toc=page.toc,
        title=page._title_from_render,
        anchors=page.present_anchor_ids or set(),
        links=None if links is None else {file.src_uri: dict(anchors) for file, anchors in links.items()},
        registered=registered,
    )


def _apply(conversion: Conversion, page: Page, files: Files) -> None:
    page.content = conversion.content
    page.toc = conversion.toc
    page._title_from_render = conversion.title
    page.present_anchor_ids = conversion.anchors
    if conversion.links is not None:
        links_to_anchors: dict[Any, dict[str, str]] = {}
        for src_uri, links in conversion.links.items():
            file = files.get_file_from_path(src_uri)
            if file is not None:
                links_to_anchors[file] = links
        page.links_to_anchors = links_to_anchors
