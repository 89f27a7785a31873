"""The theme's templates, compiled once and rendered only where what they print has changed.

In: the theme's folders and, for each page, MkDocs's context. Out: an environment that MkDocs uses as its own.
Templates are compared by the marks of ``marks``; ``template_class`` is Jinja's own place for a subclass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
from mkdocs.structure.nav import Navigation
from mkdocs.theme import Theme

from tilewise.mkdocs_plugin.marks import nav_mark, page_mark

_HIDDEN = re.compile(r"(^|/)\.")


class KeptTemplates:
    """The environment and the rendered pages of earlier builds.

    Args:
        folder: where compiled templates are kept for the next process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark: object = None
        self._environment: jinja2.Environment | None = None
        self._names: list[str] = []
        self._shared: tuple[object, ...] = ()
        self._rendered: dict[tuple[str | None, str], tuple[object, str]] = {}

    def use_for(self, theme: Theme, mark: object) -> None:
        """Make a theme hand out the kept environment, or a new one if templates or settings changed.

        MkDocs and Material call ``theme.get_env()`` several times a build, and have no hook before the first:
        the method is set on this one theme object, which lives as long as the build.
        """
        if mark != self._mark or self._environment is None:
            self._environment = self._made(theme)
            self._rendered.clear()
            self._mark = mark
        environment = self._environment
        theme.get_env = lambda: environment  # type: ignore[method-assign]

    def begin(self, nav: Navigation, shared: object) -> None:
        """Start a build's pages.

        Args:
            nav: the navigation, with every page's title known.
            shared: whatever else every page prints.
        """
        self._shared = (nav_mark(nav), shared)

    def rendered(self, name: str | None, context: dict[str, Any], render: Callable[[], str]) -> str:
        """A template's text for a context, made by ``render`` where nothing kept fits."""
        page = context.get("page")
        if page is None and name == "sitemap.xml":
            return render()
        key = (name, page.file.src_uri if page is not None else "")
        mark = (self._shared, page_mark(page) if page is not None else context.get("base_url"))
        kept = self._rendered.get(key)
        if kept is not None and kept[0] == mark:
            return kept[1]
        text = render()
        self._rendered[key] = (mark, text)
        return text

    def _made(self, theme: Theme) -> jinja2.Environment:
        environment = Theme.get_env(theme)
        self._folder.mkdir(parents=True, exist_ok=True)
        environment.bytecode_cache = jinja2.FileSystemBytecodeCache(str(self._folder))
        keeper = self

        class KeptTemplate(jinja2.Template):
            """A template that renders only where a kept text does not fit."""

            def render(self, *args: Any, **kwargs: Any) -> str:
                context = dict(*args, **kwargs)
                if "nav" not in context:
                    return super().render(*args, **kwargs)
                return keeper.rendered(self.name, context, lambda: jinja2.Template.render(self, context))

        class KeptLoader(jinja2.FileSystemLoader):
            """Looks through the theme's folders once, and past its icons, as MkDocs does later."""

            def list_templates(self) -> list[str]:
                if not keeper._names:
                    keeper._names = [name for name in super().list_templates() if not _HIDDEN.search(name)]
                return keeper._names

        environment.template_class = KeptTemplate
        self._names = []
        environment.loader = KeptLoader(theme.dirs)
        return environment
