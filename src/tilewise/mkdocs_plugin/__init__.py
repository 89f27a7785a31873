"""The MkDocs plugin: a thin adapter that turns lessons into pages of a MkDocs site.

In: MkDocs's events and the project's lessons. Out: Markdown for each lesson, its files, and a rebuild that
does again only what a change asks for. Parsing, running and rendering belong to ``tilewise.lesson``,
``course``, ``run`` and ``page``; everything on the page but the lessons belongs to MkDocs.

Import this package for ``TilewisePlugin``, which is the entry point ``tilewise`` of ``mkdocs.plugins``.
"""

from __future__ import annotations

import os

# Material prints a notice about another project's future on its first import. MkDocs loads the theme before
# any plugin, but reads mkdocs.yml, which names ``slugify`` below, before the theme.
os.environ.setdefault("NO_MKDOCS_2_WARNING", "true")

from tilewise.measurements.slugs import heading_slug as slugify
from tilewise.mkdocs_plugin.plugin import TilewisePlugin

__all__ = ["TilewisePlugin", "slugify"]
