"""The plugin's events, in the order in which MkDocs calls them.

In: MkDocs's configuration, files and pages. Out: the same, with lessons among them. Each event hands its work
to a module of this package; what is kept between builds lives here, since MkDocs keeps this object while it
serves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from mkdocs.config.base import Config
from mkdocs.config.config_options import Type
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from tilewise.errors import LessonError, raise_all
from tilewise.frontend import FrontendError, build_assets
from tilewise.measurements.page import record_files
from tilewise.mkdocs_plugin import navigation, publication
from tilewise.mkdocs_plugin.conversion import Conversions, Surroundings
from tilewise.mkdocs_plugin.lessons import LAYOUT, Lessons, Shelf
from tilewise.mkdocs_plugin.math import UnreadableFormula
from tilewise.mkdocs_plugin.replay import Ledger, requires_versions
from tilewise.mkdocs_plugin.search import KeptIndex
from tilewise.mkdocs_plugin.server import LiveServer
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
_DECIDING = (
    "mkdocs",
    "mkdocs-material",
    "mkdocs-autorefs",
    "mkdocstrings",
    "mkdocstrings-python",
    "Markdown",
)
_DECIDING_TOO = ("pymdown-extensions", "Pygments", "latex2mathml", "mkdocs-jupyter", "Jinja2")


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
        self._server: LiveServer | None = None
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
        self._hashes: dict[Path, tuple[tuple[int, int], bytes]] = {}
        self.failure: LessonError | None = None

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        """Learn whether this process serves; being here makes MkDocs keep this object between builds."""
        self._serving = command == "serve"

    @event_priority(100)
    def _on_config_first(self, config: MkDocsConfig) -> MkDocsConfig:
        self.failure = None
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
        self._config_mark = self._mark(config)
        self._templates.use_for(config.theme, (self._config_mark, self._tree(Path(overrides), "*")))
        order = navigation.reading_order(config.nav)
        self._lessons.package = publication.package(config, root)
        try:
            self._shelf = self._lessons.load(
                order,
                os.path.relpath(config.config_file_path, root),
                navigation.lines(Path(config.config_file_path), order),
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
        for path, page in shelf.pages.items():
            draft = shelf.course.lesson(_id(path)).header.draft
            level = InclusionLevel.DRAFT if draft else InclusionLevel.UNDEFINED
            files.append(
                File(path, str(self._root), config.site_dir, config.use_directory_urls, inclusion=level)
            )
            if draft and not self._serving:
                continue
            for name, content in page.files.items():
                if files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, content=content))
        for licence in publication.licence_files(config, self._root):
            files.append(licence)
        for name, content in shelf.figure_files().items():
            if files.get_file_from_path(name) is None:
                files.append(File.generated(config, name, content=content))
        for name, file in record_files(shelf.root):
            files.append(File.generated(config, name, abs_src_path=str(file)))
        for asset in sorted(self._assets.rglob("*")):
            if asset.is_file():
                inside = asset.relative_to(self._assets).as_posix()
                files.append(File.generated(config, f"{ASSETS}/{inside}", abs_src_path=str(asset)))
        return files

    @event_priority(-100)
    def _on_files_last(self, files: Files, *, config: MkDocsConfig) -> Files:
        self._files = StagedFiles(files) if self._serving else files
        self._around = self._surroundings(config)
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
        if not self._told_to_restart and self._own != self._tree(_PACKAGE, "*.py"):
            self._told_to_restart = True
            log.info(
                "tilewise's own modules have changed. Restart mkdocs serve for pages to be made by them."
            )
        if self._staging is not None:
            self._staging.publish(self._files)
            config.site_dir = str(self._staging.served)
        else:
            self._finish(config)

    def on_serve(
        self, server: LiveReloadServer, *, config: MkDocsConfig, builder: Callable[..., None]
    ) -> LiveReloadServer:
        """Serve with a server that swaps the article and shows what went wrong."""
        self._server = LiveServer.instead_of(server, lambda: str(self._assets), self._explain)
        return self._server

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
        self._own = self._tree(_PACKAGE, "*.py")
        self._lessons = Lessons(root, cache, warm=self._serving, time_limit_s=self.config.time_limit_s)
        self._conversions = Conversions(cache / "pages")
        self._templates = KeptTemplates(cache / "templates")

    def _render(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        assert self._conversions is not None
        assert self._around is not None
        assert self._ledger is not None
        try:
            self._conversions.render(page, config, files, self._around, self._ledger)
        except UnreadableFormula as error:
            path, text = self._source(page)
            before, found, _ = text.partition(error.tex)
            self._fail(
                LessonError(
                    path,
                    before.count("\n") + 1 if found else 0,
                    str(error),
                    "Write it in TeX that latex2mathml knows.",
                )
            )

    def _source(self, page: Page) -> tuple[str, str]:
        """The file that an author edits for a page, as messages name it, and its text."""
        shelf = self._loaded()
        if page.file.src_uri in shelf.pages:
            lesson = shelf.course.lesson(_id(page.file.src_uri))
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
        if self.failure is None:
            return ""
        return "\n".join(
            f"{fault}\n{fault.details}" if fault.details else str(fault) for fault in self.failure.errors
        )

    def _mark(self, config: MkDocsConfig) -> str:
        """A hash of the configuration and of the code that converts pages."""
        text = Path(config.config_file_path).read_bytes()
        return hashlib.sha256(repr((text, _versions(), self._own)).encode()).hexdigest()

    def _surroundings(self, config: MkDocsConfig) -> Surroundings:
        linked = [
            (file.src_uri, file.url, file.inclusion.name)
            for file in self._files
            if file.generated_by is None and not file.src_uri.startswith(ASSETS)
        ]
        links = hashlib.sha256(repr((sorted(linked), config.site_url)).encode()).hexdigest()
        return Surroundings(self._config_mark, links, cache(lambda: self._tree(_PACKAGE, "*.py")))

    def _tree(self, folder: Path, pattern: str) -> str:
        """A hash of the files in a folder; one that did not change is not read again."""
        digest = hashlib.sha256()
        for path in sorted(folder.rglob(pattern)):
            if "__pycache__" in path.parts or not path.is_file():
                continue
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            kept = self._hashes.get(path)
            if kept is None or kept[0] != stamp:
                kept = (stamp, hashlib.sha256(path.read_bytes()).digest())
                self._hashes[path] = kept
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + kept[1])
        return digest.hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    return tuple(f"{name} {version(name)}" for name in (*_DECIDING, *_DECIDING_TOO))


def _id(source_path: str) -> str:
    return source_path.removeprefix(f"{LAYOUT.folder}/").removesuffix(LAYOUT.suffix)
