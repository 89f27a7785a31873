"""The plugin's events, in the order in which MkDocs calls them.

In: MkDocs's configuration, files and pages. Out: the same, with lessons among them. Each event hands its work
to a module of this package; what is kept between builds lives here, since MkDocs keeps this object while it
serves.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from mkdocs.config.base import Config
from mkdocs.config.config_options import Type
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority, get_plugin_logger
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from tilewise.errors import LessonError, raise_all
from tilewise.frontend import FrontendError, build_assets
from tilewise.mkdocs_plugin import navigation, publication
from tilewise.mkdocs_plugin.conversion import Conversions, Surroundings
from tilewise.mkdocs_plugin.faults import explained, formula_fault, let_warnings_count
from tilewise.mkdocs_plugin.inputs import Trees, config_mark, links_mark
from tilewise.mkdocs_plugin.lessons import Lessons, Shelf
from tilewise.mkdocs_plugin.math import UnreadableFormula
from tilewise.mkdocs_plugin.replay import Ledger, requires_versions
from tilewise.mkdocs_plugin.search import KeptIndex
from tilewise.mkdocs_plugin.server import LiveServer
from tilewise.mkdocs_plugin.site_files import lesson_id, site_files
from tilewise.mkdocs_plugin.staging import StagedFiles, Staging
from tilewise.mkdocs_plugin.templates import KeptTemplates
from tilewise.page.prose import edited
from tilewise.prose_checks import page_faults
from tilewise.typed_numbers import sourced

if TYPE_CHECKING:
    from jinja2 import Environment

log = get_plugin_logger(__name__)

ASSETS = "assets/tilewise"
_PACKAGE = Path(__file__).parents[1]


class TilewiseConfig(Config):  # type: ignore[no-untyped-call]
    """What mkdocs.yml may set below ``tilewise``."""

    time_limit_s = Type(int, default=120)
    """After how many seconds a lesson is stopped."""


class TilewisePlugin(BasePlugin[TilewiseConfig]):  # type: ignore[no-untyped-call]
    """Builds and serves a site of lessons."""

    def __init__(self) -> None:
        requires_versions()
        self._serving = False
        self._root = Path()
        self._lessons: Lessons | None = None
        self._conversions: Conversions | None = None
        self._templates: KeptTemplates | None = None
        self._entries: dict[str, tuple[object, list[Any]]] = {}
        self._staging: Staging | None = None
        self._shelf: Shelf | None = None
        self._files = Files([])
        self._nav: Navigation | None = None
        self._env: Environment | None = None
        self._ledger: Ledger | None = None
        self._around: Surroundings | None = None
        self._assets = Path()
        self._config_mark = ""
        self._own = ""
        self._told_to_restart = False
        self._trees = Trees()
        self.failure: LessonError | None = None

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        """Learn whether this process serves; being here makes MkDocs keep this object between builds."""
        self._serving = command == "serve"

    @event_priority(100)
    def _on_config_first(self, config: MkDocsConfig) -> MkDocsConfig:
        self.failure = None
        let_warnings_count(config.strict)
        root = Path(config.config_file_path).resolve().parent
        if self._lessons is None or root != self._root:
            self._open(root)
        assert self._lessons is not None
        assert self._templates is not None
        try:
            self._assets = build_assets(root)
        except FrontendError as error:
            raise PluginError(str(error)) from None
        config.extra_javascript.append(f"{ASSETS}/tilewise.js")
        config.extra_css.append(f"{ASSETS}/tilewise.css")
        overrides = str(_PACKAGE / "web" / "overrides")
        if overrides not in config.theme.dirs:
            config.theme.dirs.insert(0, overrides)
        self._config_mark = config_mark(Path(config.config_file_path), self._own)
        self._templates.use_for(config.theme, (self._config_mark, self._trees.mark(Path(overrides), "*")))
        order = navigation.reading_order(config.nav)
        self._lessons.package = publication.package(config, root)
        try:
            self._shelf = self._lessons.load(
                order,
                os.path.relpath(config.config_file_path, root),
                navigation.lines(Path(config.config_file_path), order),
                navigation.parts(config.nav),
            )
        except LessonError as error:
            self._fail(error)
        return config

    @event_priority(-100)
    def _on_config_last(self, config: MkDocsConfig) -> MkDocsConfig:
        self._ledger = Ledger(config)
        search: Any = config.plugins.get("material/search")
        if search is not None:
            search.search_index = KeptIndex(self._entries, **search.config)
        return config

    on_config = CombinedEvent(_on_config_first, _on_config_last)

    def on_pre_build(self, *, config: MkDocsConfig) -> None:
        """While serving, build beside the served folder."""
        if self._serving:
            if self._staging is None:
                self._staging = Staging(Path(config.site_dir))
            config.site_dir = str(self._staging.folder)

    @event_priority(100)
    def _on_files_first(self, files: Files, *, config: MkDocsConfig) -> Files:
        shelf = self._loaded()
        for fault in shelf.warnings:
            log.warning(str(fault))
        for file in site_files(shelf, self._root, self._assets, ASSETS, config, self._serving):
            if file.generated_by is None or files.get_file_from_path(file.src_uri) is None:
                files.append(file)
        return files

    @event_priority(-100)
    def _on_files_last(self, files: Files, *, config: MkDocsConfig) -> Files:
        self._files = StagedFiles(files) if self._serving else files
        links = links_mark(self._files, config.site_url, leaving_out=ASSETS)
        self._around = Surroundings(self._config_mark, links, cache(self._code_mark))
        return self._files

    on_files = CombinedEvent(_on_files_first, _on_files_last)

    @event_priority(-100)
    def on_pre_page(self, page: Page, *, config: MkDocsConfig, files: Files) -> Page:
        """Give the page MkDocs's own rendering back, which mkdocs-jupyter has replaced, or what it gave."""
        page.render = partial(self._render, page)  # type: ignore[method-assign]
        return page

    def on_page_read_source(self, *, page: Page, config: MkDocsConfig) -> str | None:
        """A lesson's Markdown."""
        lesson = self._loaded().pages.get(page.file.src_uri)
        return lesson.markdown if lesson is not None else None

    def on_page_markdown(self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Fill the course's fragments into pages of docs/."""
        if page.file.src_uri in self._loaded().pages:
            return markdown
        path, text = self._source(page)
        try:
            raise_all([*page_faults(path, text)])
            return self._loaded().fill(edited(markdown, sourced(markdown)), path, text)
        except LessonError as error:
            self._fail(error)

    def on_page_content(self, html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Describe pages whose authors did not."""
        publication.describe(page, html)
        return html

    def on_nav(self, nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
        """Remember the navigation, whose titles are known once all pages are read."""
        self._nav = nav
        return nav

    @event_priority(-100)
    def on_env(self, env: Environment, *, config: MkDocsConfig, files: Files) -> Environment:
        """Learn what all pages print alike, now that every title is known."""
        assert self._templates is not None
        assert self._nav is not None
        self._env = env
        publication.prepare(env, published=not self._serving)
        shared = (
            self._config_mark,
            config.site_url,
            tuple(str(script) for script in config.extra_javascript),
            tuple(config.extra_css),
        )
        self._templates.begin(self._nav, shared)
        return env

    @event_priority(-100)
    def on_post_page(self, output: str, *, page: Page, config: MkDocsConfig) -> str:
        """While serving, leave pages alone that came out as before."""
        if self._staging is not None:
            self._staging.leave(page.file, output)
        return output

    def on_build_error(self, *, error: Exception) -> None:
        """Count nothing of a failed build as published."""
        if self._staging is not None:
            self._staging.forget()

    @event_priority(-100)
    def on_post_build(self, *, config: MkDocsConfig) -> None:
        """While serving, move the finished build into the served folder."""
        assert self._conversions is not None
        self._conversions.tidy()
        if not self._told_to_restart and self._own != self._code_mark():
            self._told_to_restart = True
            log.info("tilewise's own modules have changed. Restart mkdocs serve to make pages by them.")
        if self._staging is not None:
            self._staging.publish(self._files)
            config.site_dir = str(self._staging.served)
        else:
            self._finish(config)

    def on_serve(
        self, server: LiveReloadServer, *, config: MkDocsConfig, builder: Callable[..., None]
    ) -> LiveReloadServer:
        """Serve with a server that swaps the article and shows what went wrong."""
        return LiveServer.instead_of(server, lambda: str(self._assets), self._explain)

    def on_shutdown(self) -> None:
        """Stop what was started and delete what was made."""
        if self._lessons is not None:
            self._lessons.close()
        if self._staging is not None:
            self._staging.remove()

    def _finish(self, config: MkDocsConfig) -> None:
        """Make the built site fit to be published."""
        assert self._env is not None
        try:
            faults = publication.publish(config, self._files, self._env, self._root, ASSETS, self._assets)
        except FrontendError as error:
            raise PluginError(str(error)) from None
        for fault in faults:
            log.warning(fault)

    def _open(self, root: Path) -> None:
        cache = Path(os.environ.get("TILEWISE_CACHE") or root / ".cache" / "tilewise")
        if self._lessons is not None:
            self._lessons.close()
        self._root = root
        self._own = self._code_mark()
        self._lessons = Lessons(root, cache, warm=self._serving, time_limit_s=self.config.time_limit_s)
        self._conversions = Conversions(cache / "pages")
        self._templates = KeptTemplates(cache / "templates")

    def _code_mark(self) -> str:
        return self._trees.mark(_PACKAGE, "*.py")

    def _render(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        assert self._conversions is not None
        assert self._around is not None
        assert self._ledger is not None
        try:
            self._conversions.render(page, config, files, self._around, self._ledger)
        except UnreadableFormula as error:
            self._fail(formula_fault(error, *self._source(page)))

    def _source(self, page: Page) -> tuple[str, str]:
        """The file that an author edits for a page, as messages name it, and its text."""
        shelf = self._loaded()
        if page.file.src_uri in shelf.pages:
            lesson = shelf.course.lesson(lesson_id(page.file.src_uri))
            return lesson.path, lesson.text
        return f"docs/{page.file.src_uri}", page.file.content_string

    def _loaded(self) -> Shelf:
        assert self._shelf is not None
        return self._shelf

    def _fail(self, error: LessonError) -> NoReturn:
        """Stop the build with the author's own places, and no traceback of ours.

        Raises:
            PluginError: always.
        """
        self.failure = error
        details = f"\n{error.details}" if error.details else ""
        raise PluginError(f"{error}{details}") from None

    def _explain(self) -> str:
        """What the last failed build was about, for the open page; empty where no lesson is to blame."""
        return explained(self.failure) if self.failure is not None else ""
