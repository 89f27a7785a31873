"""Where things are on the site: the only place that knows URLs of lessons, downloads and figures.

In: lesson ids. Out: relative links, in two forms: ``source`` links for Markdown, which a site generator
resolves and checks, and ``href`` for raw HTML, which nobody touches any more.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Layout:
    """How lessons lie on the site."""

    folder: str = "lessons"
    """The lessons' folder, relative to the site's root, in source paths and URLs alike; may be empty."""
    suffix: str = ".py"
    """What a lesson's source path ends with, as links in Markdown name it."""
    directory_urls: bool = True
    """Whether a page's URL ends with ``/`` rather than ``.html``."""
    glossary: str = "glossary.md"
    """The source path of the glossary page, relative to the site's root."""

    def source_path(self, lesson_id: str) -> str:
        """A lesson's source path, relative to the site's root."""
        return posixpath.join(self.folder, f"{lesson_id}{self.suffix}")

    def source_link(self, from_id: str, to_id: str) -> str:
        """The Markdown link from a lesson to another; empty from a lesson to itself."""
        if from_id == to_id:
            return ""
        return _relative(self.source_path(to_id), posixpath.dirname(self.source_path(from_id)))

    def page_link(self, from_id: str, source_path: str) -> str:
        """The Markdown link from a lesson to another page, given by its source path."""
        return _relative(source_path, posixpath.dirname(self.source_path(from_id)))

    def url(self, lesson_id: str) -> str:
        """A lesson's URL, relative to the site's root."""
        return posixpath.join(self.folder, lesson_id) + ("/" if self.directory_urls else ".html")

    def href(self, from_id: str | None, to_id: str) -> str:
        """The URL of a lesson, relative to another lesson's page or to the site's root."""
        if from_id is None:
            return self.url(to_id)
        if from_id == to_id:
            return "#"
        relative = _relative(self.url(to_id), self._base(from_id))
        return f"{relative}/" if self.directory_urls else relative

    def asset(self, from_id: str, path: str) -> str:
        """The URL of a file of the site, relative to a lesson's page."""
        return _relative(path, self._base(from_id))

    def beside(self, lesson_id: str, name: str) -> str:
        """The path of a file in the folder of a lesson's page, relative to the site's root."""
        return posixpath.join(self._base(lesson_id), name)

    def _base(self, lesson_id: str) -> str:
        """The folder that relative URLs on a lesson's page start from."""
        url = posixpath.join(self.folder, lesson_id)
        return (url if self.directory_urls else posixpath.dirname(url)) or "."


@cache
def _relative(path: str, folder: str) -> str:
    """``posixpath.relpath``, which asks for the working folder twice, and is asked for hundreds of links."""
    return posixpath.relpath(path, folder)
