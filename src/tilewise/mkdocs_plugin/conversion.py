"""Markdown to HTML, once for each content: kept in memory and on disk.

In: a page that MkDocs wants rendered. Out: the same attributes that ``Page.render`` sets, from a kept
conversion where everything it depends on is unchanged. A page that logged anything is never kept, so that
its warning appears in every build. What registrations are repeated belongs to ``replay``.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import TableOfContents

from tilewise.mkdocs_plugin.math import render_math
from tilewise.mkdocs_plugin.replay import Ledger, Notes
from tilewise.page.markers import hide_marker_lines, tell_lines


@dataclass
class Conversion:
    """What converting a page gave."""

    content: str
    """The page's HTML."""
    toc: TableOfContents
    """Its table of contents."""
    title: str | None
    """The text of its first heading."""
    anchors: set[str]
    """Ids on the page."""
    links: dict[str, dict[str, str]] | None
    """By source path: the anchors that it links to, and the links as written."""
    notes: Notes
    """What it registered."""


@dataclass(frozen=True)
class Surroundings:
    """What a page's conversion depends on besides its Markdown; hashes."""

    config: str
    """mkdocs.yml, versions and our own converters."""
    files: str
    """The pages and files that links may lead to."""
    source: Callable[[], str]
    """The project's own modules, which ``:::`` quotes; found when first asked."""


_MOST_FILES = 400
"""How many conversions stay on disk; each is about as large as its page."""


class Conversions:
    """Keeps conversions, in memory and in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, tuple[str, Conversion]] = {}
        self._wrote = False

    def render(
        self, page: Page, config: MkDocsConfig, files: Files, around: Surroundings, ledger: Ledger
    ) -> None:
        """Do what ``Page.render`` does, or repeat what it did."""
        key = _key(page, around)
        conversion = self._find(page.file.src_uri, key)
        if conversion is not None:
            ledger.replay(page, conversion.notes)
            _apply(conversion, page, files)
            return
        listener = _Listener()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(listener)
        notes = ledger.note()
        try:
            Page.render(page, config, files)
            assert page.content is not None
            page.content = tell_lines(hide_marker_lines(render_math(page.content)))
        finally:
            logger.removeHandler(listener)
            ledger.close(notes)
        if not listener.heard:
            self._keep(page.file.src_uri, key, _taken(page, notes))

    def tidy(self) -> None:
        """Delete the conversions that were not used for longest, where there are many."""
        if not self._wrote:
            return
        self._wrote = False
        with contextlib.suppress(FileNotFoundError):  # another process may tidy at the same time
            files = [(file.stat().st_mtime_ns, file) for file in self._folder.glob("*.pickle")]
            for _, file in sorted(files)[:-_MOST_FILES]:
                file.unlink()

    def _find(self, src_uri: str, key: str) -> Conversion | None:
        kept = self._kept.get(src_uri)
        if kept is not None and kept[0] == key:
            return kept[1]
        file = self._folder / f"{key}.pickle"
        try:
            conversion = pickle.loads(file.read_bytes())
        except (
            OSError,
            pickle.UnpicklingError,
            AttributeError,
            EOFError,
            ImportError,
            IndexError,
            ValueError,
        ):
            return None
        if not isinstance(conversion, Conversion):
            return None
        self._kept[src_uri] = (key, conversion)
        with contextlib.suppress(OSError):  # another process may have deleted it by now
            os.utime(file)
        return conversion

    def _keep(self, src_uri: str, key: str, conversion: Conversion) -> None:
        self._kept[src_uri] = (key, conversion)
        self._folder.mkdir(parents=True, exist_ok=True)
        made = self._folder / f"{key}.{os.getpid()}"
        made.write_bytes(pickle.dumps(conversion, protocol=pickle.HIGHEST_PROTOCOL))
        made.replace(self._folder / f"{key}.pickle")
        self._wrote = True


class _Listener(logging.Handler):
    """Hears whether anything worth repeating was logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.heard = False

    def emit(self, record: logging.LogRecord) -> None:
        self.heard = True


def _key(page: Page, around: Surroundings) -> str:
    assert page.markdown is not None
    source = around.source() if ":::" in page.markdown else ""
    parts = (page.file.src_uri, page.url, str(page.title), page.markdown, around.config, around.files, source)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _taken(page: Page, notes: Notes) -> Conversion:
    links = page.links_to_anchors
    return Conversion(
        content=page.content or "",
        toc=page.toc,
        title=page._title_from_render,
        anchors=page.present_anchor_ids or set(),
        links=None if links is None else {file.src_uri: dict(found) for file, found in links.items()},
        notes=notes,
    )


def _apply(conversion: Conversion, page: Page, files: Files) -> None:
    page.content = conversion.content
    page.toc = conversion.toc
    page._title_from_render = conversion.title
    page.present_anchor_ids = conversion.anchors
    if conversion.links is not None:
        found: dict[Any, dict[str, str]] = {}
        for src_uri, links in conversion.links.items():
            file = files.get_file_from_path(src_uri)
            if file is not None:
                found[file] = links
        page.links_to_anchors = found
