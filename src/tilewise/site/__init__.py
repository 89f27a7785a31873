"""The MkDocs site: the plugin that passes pages to MkDocs, scripts, styles and the preview.

In: MkDocs's events and the project's lessons. Out: Markdown for each lesson, its files, and incremental
rebuilds.

Importing this package imports no submodules: ``frontend`` and ``lexers`` are used without MkDocs. The entry
point ``tilewise`` of ``mkdocs.plugins`` is ``plugin.TilewisePlugin``.
"""

from __future__ import annotations

import os

# Material prints a warning about MkDocs 2 on its first import. MkDocs loads the theme before any plugin, but
# reads mkdocs.yml, which names ``slugify`` below, before the theme.
os.environ.setdefault("NO_MKDOCS_2_WARNING", "true")


def slugify(text: str, separator: str) -> str:
    """Return the id of a heading, for ``toc`` in mkdocs.yml."""
    from tilewise.measurements.slugs import heading_slug

    return heading_slug(text, separator)
