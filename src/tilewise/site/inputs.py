"""Hashes of the inputs that pages depend on besides their own text.

In: folders of sources, the configuration file and the site's files. Out: hashes that change when one of
them does, or when the version of a package that renders pages changes.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

from mkdocs.structure.files import Files

_DECIDING = [
    "mkdocs",
    "mkdocs-material",
    "mkdocs-jupyter",
    "mkdocs-autorefs",
    "mkdocstrings",
    "mkdocstrings-python",
    "Markdown",
    "pymdown-extensions",
    "Pygments",
    "latex2mathml",
    "Jinja2",
]


def tree_mark(folder: Path, *patterns: str) -> str:
    """Return a hash of the files in a folder whose names match one of the patterns."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in folder.rglob(pattern)):
        if "__pycache__" not in path.parts and path.is_file():
            content = hashlib.sha256(path.read_bytes()).digest()
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + content)
    return digest.hexdigest()


def config_mark(file: Path, code: str) -> str:
    """Return a hash of the configuration file, and of the code and packages that convert pages."""
    return hashlib.sha256(repr((file.read_bytes(), _versions(), code)).encode()).hexdigest()


def links_mark(files: Files, site_url: str | None, leaving_out: str) -> str:
    """Return a hash of the authors' pages and files that links may point to.

    Args:
        files: all files of the site.
        site_url: the site's address.
        leaving_out: the folder of styles and scripts, which pages do not link to.
    """
    linked = [
        (file.src_uri, file.url, file.inclusion.name)
        for file in files
        if file.generated_by is None and not file.src_uri.startswith(leaving_out)
    ]
    return hashlib.sha256(repr((sorted(linked), site_url)).encode()).hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    return tuple(f"{name} {version(name)}" for name in _DECIDING)
