"""The site's layout: the only module that knows the URLs of lessons, downloads and figures.

In: lesson ids. Out: relative links in two forms: source links for Markdown, which the site generator resolves
and checks, and URLs for raw HTML, which stay unchanged.
"""

from __future__ import annotations

import posixpath
from functools import cache

FOLDER = "lessons"
"""The lessons' folder, relative to the site's root, in both source paths and URLs."""
SUFFIX = ".py"
"""The suffix of a lesson's source path in Markdown links."""
GLOSSARY = "glossary.md"
"""The source path of the glossary page, relative to the site's root."""


def source_path(lesson_id: str) -> str:
    """A lesson's source path, relative to the site's root."""
    return f"{FOLDER}/{lesson_id}{SUFFIX}"


def is_lesson(path: str) -> bool:
    """Whether a source path is a lesson's."""
    return path.startswith(f"{FOLDER}/") and path.endswith(SUFFIX)


def lesson_id_of(path: str) -> str:
    """The id of the lesson at a source path."""
    return path.removeprefix(f"{FOLDER}/").removesuffix(SUFFIX)


def source_link(from_id: str, to_id: str) -> str:
    """The Markdown link from a lesson to another; empty from a lesson to itself."""
    return "" if from_id == to_id else page_link(from_id, source_path(to_id))


def page_link(from_id: str, path: str) -> str:
    """The Markdown link from a lesson to another page, given by its source path."""
    return _relative(path, posixpath.dirname(source_path(from_id)))


def lesson_url(lesson_id: str) -> str:
    """A lesson's URL, relative to the site's root."""
    return f"{FOLDER}/{lesson_id}/"


def href(from_id: str, to_id: str) -> str:
    """The URL of a lesson, relative to another lesson's page."""
    return "#" if from_id == to_id else f"{asset(from_id, lesson_url(to_id))}/"


def asset(from_id: str, path: str) -> str:
    """The URL of a file of the site, relative to a lesson's page."""
    return _relative(path, lesson_url(from_id))


def beside(lesson_id: str, name: str) -> str:
    """The path of a file in the folder of a lesson's page, relative to the site's root."""
    return lesson_url(lesson_id) + name


@cache
def _relative(path: str, folder: str) -> str:
    """``posixpath.relpath``, cached because it looks up the current folder twice per link."""
    return posixpath.relpath(path, folder)
