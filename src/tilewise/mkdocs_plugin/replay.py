"""What converting a page tells autorefs and mkdocstrings: noted once, told again when the page is kept.

In: the two plugins of this build. Out: a ``Ledger`` that notes registrations while a page is converted and
repeats them later. Both plugins offer no hook for it, so the notes are taken by putting a method of the same
name on this build's own two objects; the classes stay as they are. Pinned by ``requires_versions``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

KNOWN = {"mkdocs": "1.6", "mkdocs-autorefs": "1.4", "mkdocstrings": "1.0", "pymdown-extensions": "13.1"}
"""The releases whose insides this package leans on."""


def requires_versions() -> None:
    """Stop where a release is installed whose insides are not known.

    Raises:
        RuntimeError: names the package and the release that is needed.
    """
    for package, wanted in KNOWN.items():
        if not f"{version(package)}.".startswith(f"{wanted}."):
            raise RuntimeError(
                f"tilewise reuses pages with {package} {wanted}, and {version(package)} is installed. "
                f"Run: pip install -e '.[site]'"
            )


@dataclass
class Notes:
    """What one page registered."""

    anchors: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    """Arguments of ``AutorefsPlugin.register_anchor`` after the page."""
    objects: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    """Arguments of ``Inventory.register``."""
    handlers: list[str] = field(default_factory=list)
    """The mkdocstrings handlers that were asked, whose styles the site then carries."""


class Ledger:
    """Takes notes of one build's registrations."""

    def __init__(self, config: MkDocsConfig) -> None:
        autorefs: Any = config.plugins.get("autorefs")
        docstrings: Any = config.plugins.get("mkdocstrings")
        self._handlers = docstrings.handlers if docstrings is not None else None
        self._notes: Notes | None = None
        self._register_anchor: Callable[..., None] | None = None
        self._register_object: Callable[..., None] | None = None
        if autorefs is not None:
            self._register_anchor = autorefs.register_anchor
            autorefs.register_anchor = self._anchor
        if self._handlers is not None:
            self._register_object = self._handlers.inventory.register
            self._handlers.inventory.register = self._object

    def note(self) -> Notes:
        """Start the notes of a page; those of the page before are complete."""
        self._notes = Notes()
        return self._notes

    def close(self, notes: Notes) -> None:
        """End the notes of a page."""
        self._notes = None
        if notes.objects and self._handlers is not None:
            notes.handlers = sorted({handler.name for handler in self._handlers.seen_handlers})

    def replay(self, page: Page, notes: Notes) -> None:
        """Register again what a kept page had registered."""
        if self._register_anchor is not None:
            for args, named in notes.anchors:
                self._register_anchor(page, *args, **named)
        if self._register_object is not None:
            for args, named in notes.objects:
                self._register_object(*args, **named)
        if self._handlers is not None:
            for name in notes.handlers:
                self._handlers.get_handler(name)

    def _anchor(self, page: Page, *args: Any, **named: Any) -> None:
        if self._notes is not None:
            self._notes.anchors.append((args, named))
        if self._register_anchor is not None:
            self._register_anchor(page, *args, **named)

    def _object(self, *args: Any, **named: Any) -> None:
        if self._notes is not None:
            self._notes.objects.append((args, named))
        if self._register_object is not None:
            self._register_object(*args, **named)
