"""The MkDocs site: the plugin that hands pages to MkDocs, scripts, styles and the preview.

In: MkDocs's events and the project's lessons. Out: Markdown for each lesson, its files, and a rebuild that
does again only what a change asks for.

Importing this package imports none of it: ``frontend`` and ``lexers`` are used where there is no MkDocs.
The entry point ``tilewise`` of ``mkdocs.plugins`` is ``plugin.TilewisePlugin``.
"""

from __future__ import annotations

import os

# Material prints a notice about another project's future on its first import. MkDocs loads the theme before
# any plugin, but reads mkdocs.yml, which names ``slugify`` below, before the theme.
os.environ.setdefault("NO_MKDOCS_2_WARNING", "true")


def slugify(text: str, separator: str) -> str:
    """The id of a heading, for ``toc`` in mkdocs.yml."""
    from tilewise.measurements.slugs import heading_slug

    return heading_slug(text, separator)
