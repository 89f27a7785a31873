"""The plugin's events, in the order in which MkDocs calls them.

In: MkDocs's configuration, files and pages. Out: the same, with lessons included. A build runs every lesson
and renders every page; while serving, MkDocs only prepares the site, and ``preview`` renders pages on
request. State that outlives a build is here, because MkDocs keeps this object while it serves.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import urlsplit

from mkdocs.config.base import Config
from mkdocs.config.config_options import Type
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import BasePlugin, CombinedEvent, event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from tilewise.build import navigation
from tilewise.build.file_cache import CacheError, FileCache, key_of, usable
from tilewise.build.live_course import LiveCourse
from tilewise.build.page.layout import FOLDER, lesson_id_of
from tilewise.build.page.prose import edited
from tilewise.build.pipeline import CourseView, Lessons, PageRenderer
from tilewise.build.progress import Progress, lessons_text
from tilewise.build.run.background import BackgroundRuns
from tilewise.build.run.runner import Runner
from tilewise.build.sources import LessonSources
from tilewise.course.rules.typed_numbers import page_faults
from tilewise.course.typed_numbers import sourced
from tilewise.errors import LessonError, raise_all
from tilewise.gpu.device import gpu_here
from tilewise.measurements.archive import Archive
from tilewise.measurements.machines import machines
from tilewise.simulator.compile.toolchain import clang
from tilewise.site import publication, publishing
from tilewise.site.conversion import Conversions, Surroundings
from tilewise.site.core_track import follow_core
from tilewise.site.frontend import FrontendError
from tilewise.site.in_page.files import compiler_files
from tilewise.site.inputs import config_mark, links_mark, tree_mark
from tilewise.site.math import UnreadableFormula
from tilewise.site.play.examples import examples
from tilewise.site.preview import EXAMPLES, PreparedFiles, Preview, Site
from tilewise.site.search import KeptIndex
from tilewise.site.server import LiveServer, requires_port
from tilewise.site.site_assets import SiteAssets
from tilewise.site.site_files import PLAYGROUND, site_files

if TYPE_CHECKING:
    from jinja2 import Environment

log = get_plugin_logger(__name__)
_mkdocs_log = logging.getLogger("mkdocs")

ASSETS = "assets/tilewise"
OFFLINE = "offline.js"
_PACKAGE = Path(__file__).parents[1]


class TilewiseConfig(Config):  # type: ignore[no-untyped-call]
    """Options under ``tilewise`` in mkdocs.yml."""

    time_limit_s = Type(int, default=300)
    """Time in seconds after which a lesson is stopped."""


class TilewisePlugin(BasePlugin[TilewiseConfig]):  # type: ignore[no-untyped-call]
    """Builds and serves a site of lessons."""

    _cache: Path
    _code: str
    _config_mark: str
    _code_now: Callable[[], str]
    _sources: LessonSources
    _renderer: PageRenderer
    _conversions: Conversions
    _filled: FileCache
    _around: Surroundings
    _assets: SiteAssets
    # for a build
    _lessons: Lessons
    _warnings: tuple[LessonError, ...]
    # while serving
    _live: LiveCourse

    def __init__(self) -> None:
        self._serving = False
        self._root: Path | None = None
        self._progress = Progress(log.info)
        self._view: CourseView | None = None
        self._files = Files([])
        self._nav: Navigation | None = None
        self._env: Environment | None = None
        self._index: KeptIndex | None = None
        self._close: list[Callable[[], None]] = []
        self._pages_rendered = 0
        self._page_progress = ExitStack()
        self.preview: Preview | None = None
        self.failure: LessonError | None = None

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        """Note whether this process serves; this hook also makes MkDocs keep this object between builds."""
        self._serving = command == "serve"

    @event_priority(100)
    def _on_config_first(self, config: MkDocsConfig) -> MkDocsConfig:
        self.failure = None
        if config.strict and _mkdocs_log.level > logging.WARNING:
            _mkdocs_log.setLevel(logging.WARNING)  # MkDocs doesn't count warnings that -q silences
        root = Path(config.config_file_path).resolve().parent
        if root != self._root:
            if self._serving:
                requires_port(*config.dev_addr)
            self._open(root)
        config.extra_javascript.append(f"{ASSETS}/tilewise.js")
        config.extra_css.append(f"{ASSETS}/tilewise.css")
        overrides = str(_PACKAGE / "site" / "web" / "overrides")
        if overrides not in config.theme.dirs:
            config.theme.dirs.insert(0, overrides)
        config.markdown_extensions.append(self._conversions.raw_html)
        self._config_mark = config_mark(Path(config.config_file_path), self._code)
        self._renderer.package = publication.package(config, root)
        file = Path(config.config_file_path)
        nav = navigation.read(config.nav, file, os.path.relpath(file, root), config.extra.get("parts"))
        self._assets.refresh()
        if self._serving:
            self._live.configure(nav)
            self._view = self._live.view
            return config
        try:
            course = self._lessons.load(nav, self._progress)
        except LessonError as error:
            self._fail(error)
        self._view = course.view
        self._warnings = course.warnings
        return config

    @event_priority(-100)
    def _on_config_last(self, config: MkDocsConfig) -> MkDocsConfig:
        search: Any = config.plugins.get("material/search")
        self._index = None
        if search is not None:
            cache = FileCache(self._cache / "search", at_most=400)
            self._index = KeptIndex(cache, deferred=self._serving, **search.config)
            search.search_index = self._index
        return config

    on_config = CombinedEvent(_on_config_first, _on_config_last)

    @event_priority(100)
    def _on_files_first(self, files: Files, *, config: MkDocsConfig) -> Files:
        try:
            assets = None if self._serving else self._assets.scripts()
        except FrontendError as error:
            raise PluginError(str(error)) from None
        generated = {} if self._serving else self._generated_files()
        for file in site_files(self._loaded(), self._project(), assets, ASSETS, config, generated):
            if file.generated_by is None or files.get_file_from_path(file.src_uri) is None:
                files.append(file)
        if not self._serving:
            for fault in self._warnings:
                log.warning(str(fault))
        return files

    @event_priority(-100)
    def _on_files_last(self, files: Files, *, config: MkDocsConfig) -> Files:
        self._files = PreparedFiles(files) if self._serving else files
        links = links_mark(self._files, config.site_url, leaving_out=ASSETS)
        self._code_now = cache(self._code_mark)  # hashed again whenever the site is prepared
        self._around = Surroundings(self._config_mark, links, self._code_now)
        return self._files

    on_files = CombinedEvent(_on_files_first, _on_files_last)

    def on_nav(self, nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
        """Point the footer along the core track; while serving, make MkDocs continue without pages."""
        self._nav = nav
        follow_core(nav, self._loaded().course)
        self._pages_rendered = 0
        pages = len(files.documentation_pages())
        self._page_progress.close()
        if not self._serving:
            text = self._progress.during(
                lambda: f"Making pages: {min(self._pages_rendered, pages)} of {pages}"
            )
            self._page_progress.enter_context(text)
        if isinstance(self._files, PreparedFiles):
            self._files.preparing = True
        return nav

    @event_priority(-100)
    def on_pre_page(self, page: Page, *, config: MkDocsConfig, files: Files) -> Page:
        """Replace the page's ``render``, which mkdocs-jupyter has patched, by a cached one."""
        self._pages_rendered += 1
        page.render = partial(self._render, page)  # type: ignore[method-assign]
        return page

    def on_page_read_source(self, *, page: Page, config: MkDocsConfig) -> str | None:
        """Return a lesson's Markdown."""
        pages = self._loaded().pages
        return pages[page.file.src_uri].markdown if page.file.src_uri in pages else None

    def on_page_markdown(self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Insert the course's fragments into pages of docs/."""
        if page.file.src_uri in self._loaded().pages:
            return markdown
        path, text = self._source(page)
        view = self._loaded()

        def fill() -> tuple[str, tuple[LessonError, ...]]:
            faults = tuple(page_faults(path, text))
            if self.preview is None:
                raise_all(faults)
            text_now = edited(markdown, sourced(markdown))
            return view.fill(text_now, path, text, self._renderer.package), faults

        try:
            if self.preview is None or self._live.is_settled():
                quoted = (view.mark(), self._records_mark()) if "{{" in markdown else ()
                key = key_of(self._config_mark, path, text, markdown, repr(self._renderer.package), quoted)
                filled, faults = self._filled.made(key, tuple, fill)
            else:
                filled, faults = fill()
        except LessonError as error:
            self._fail(error)
        if self.preview is not None:
            self.preview.note_faults(page.file.src_uri, faults)
        return str(filled)

    @event_priority(-100)
    def on_env(self, env: Environment, *, config: MkDocsConfig, files: Files) -> Environment:
        """Set the templates' globals; for a build, wait for styles and scripts."""
        if env is not self._env:  # the preview resolves each page's cross-references by this event
            self._env = env
            env.globals["published"] = not self._serving
            env.globals["machines"] = machines(Archive(self._project() / FOLDER))
        try:
            if not self._serving:
                self._assets.all()  # because MkDocs copies files now
                env.globals["compiler"] = self._add_compiler(files, config)
        except FrontendError as error:
            raise PluginError(str(error)) from None
        return env

    def _add_compiler(self, files: Files, config: MkDocsConfig) -> bool:
        """Add the compiler's files next to the scripts; if they are unavailable, pages have no editor."""
        try:
            contents = compiler_files(self._project(), self._progress.during)
        except FrontendError as error:
            log.info("Kernels cannot be edited on this site: %s", error)
            return False
        for name, content in contents.items():
            source: Any = (
                {"content": content} if isinstance(content, bytes) else {"abs_src_path": str(content)}
            )
            files.append(File.generated(config, f"{ASSETS}/compiler/{name}", **source))
        if contents:  # at the root, because a service worker's scope is its folder
            offline = self._assets.all() / OFFLINE
            files.append(File.generated(config, OFFLINE, abs_src_path=str(offline)))
        return bool(contents)

    @event_priority(-100)
    def on_post_build(self, *, config: MkDocsConfig) -> None:
        """Finish a built site, or pass a prepared one to the preview."""
        self._page_progress.close()
        self._conversions.tidy()
        self._filled.tidy()
        assert self._env is not None
        if self.preview is None or not isinstance(self._files, PreparedFiles):
            self._finish(config)
            return
        assert self._nav is not None
        self._files.preparing = False
        self.preview.ready(
            Site(config, self._files, self._nav, self._env, self._index, self._code_now, self._examples)
        )
        if self._code != self._code_mark():
            log.info("tilewise's own modules have changed. Restart mkdocs serve to make pages by them.")
            self._code = self._code_mark()

    def on_serve(
        self, server: LiveReloadServer, *, config: MkDocsConfig, builder: Callable[..., None]
    ) -> LiveReloadServer:
        """Serve pages on request."""
        assert self.preview is not None
        return LiveServer.instead_of(server, self.preview, self._explain)

    def on_shutdown(self) -> None:
        """Stop everything that was started."""
        while self._close:
            self._close.pop()()

    def _finish(self, config: MkDocsConfig) -> None:
        """Prepare the built site for publication."""
        with self._progress.during("Finishing the site"):
            root = urlsplit(config.site_url or "/").path
            publishing.finish(Path(config.site_dir), f"{ASSETS}/tilewise.css", root)

    def _open(self, root: Path) -> None:
        """Set up for a project; its caches must be writable."""
        self.on_shutdown()
        self._root = root
        try:
            self._cache = usable(Path(os.environ.get("TILEWISE_CACHE") or root / ".cache" / "tilewise"))
        except CacheError as error:
            raise PluginError(str(error)) from None
        self._code = self._code_mark()
        self._sources = LessonSources(root, self._cache, self._code)
        self._filled = FileCache(self._cache / "filled", at_most=200)
        self._renderer = PageRenderer(self._cache, self._code)
        self._conversions = Conversions(self._cache / "pages")
        self._assets = SiteAssets(root, self._progress)
        runner = Runner(root, self._cache, time_limit_s=self.config.time_limit_s)
        self._close.append(runner.close)
        at_once = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        if not self._serving:
            self._lessons = Lessons(root, self._sources, self._renderer, runner, at_once)
            return
        runs = BackgroundRuns(runner, at_once)
        self._live = LiveCourse(root, self._sources, self._renderer, runs)
        self.preview = Preview(self._live, self._assets)
        self._progress.add(lambda: lessons_text(*runs.progress()))
        self._close += [runs.close, self.preview.close]

    def _code_mark(self) -> str:
        return tree_mark(_PACKAGE, "*.py", "*.txt")

    def _records_mark(self) -> str:
        """A hash of the records, and of the GPU and environment variables that affect them."""
        root = self._project()
        folders = [root / FOLDER / name for name in ("measurements", "predictions")]
        marks = [tree_mark(folder, "*.json") for folder in (*folders, root / "validation" / "records")]
        switches = [value for name, value in sorted(os.environ.items()) if name.startswith("TILEWISE_")]
        return key_of(*marks, gpu_here(), *switches)

    def _examples(self) -> bytes:
        """The Playground's examples, cached because compiling them takes seconds."""
        texts = [tree_mark(_PACKAGE / folder, "*") for folder in ("cuda/include", "site/play/examples")]
        key = key_of("examples", self._code, clang(), *texts)
        return self._filled.made(key, bytes, examples)

    def _generated_files(self) -> Mapping[str, bytes]:
        """Generated files of a build, cached because they take seconds."""
        view = self._loaded()
        key = key_of("figures", self._config_mark, view.mark(), self._records_mark())
        generated: dict[str, bytes] = dict(self._filled.made(key, dict, view.figure_files))
        if (self._project() / "docs" / PLAYGROUND).is_file():
            generated[EXAMPLES] = self._examples()
        return generated

    def _render(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        try:
            self._conversions.render(page, config, files, self._around)
        except UnreadableFormula as error:
            path, text = self._source(page)
            before, formula, _ = text.partition(error.tex)
            line = before.count("\n") + 1 if formula else 0
            self._fail(LessonError(path, line, str(error), "Write it in TeX that latex2mathml knows."))

    def _source(self, page: Page) -> tuple[str, str]:
        """A page's source file, as messages name it, and its text."""
        view = self._loaded()
        if page.file.src_uri in view.pages:
            lesson = view.course.lesson(lesson_id_of(page.file.src_uri))
            return lesson.path, lesson.text
        return f"docs/{page.file.src_uri}", page.file.content_string

    def _loaded(self) -> CourseView:
        """The course; while serving, its current state."""
        if self.preview is not None:
            return self._live.view
        assert self._view is not None
        return self._view

    def _project(self) -> Path:
        assert self._root is not None
        return self._root

    def _fail(self, error: LessonError) -> NoReturn:
        """Stop the build or the page with the lesson's own lines and without a traceback.

        Raises:
            PluginError: always.
        """
        self.failure = error
        details = f"\n{error.details}" if error.details else ""
        raise PluginError(f"{error}{details}") from None

    def _explain(self) -> str:
        """The last failed build's message for open pages; empty if no lesson failed."""
        faults = self.failure.errors if self.failure is not None else ()
        return "\n".join(f"{fault}\n{fault.details}" if fault.details else str(fault) for fault in faults)
