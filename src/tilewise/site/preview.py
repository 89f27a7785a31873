"""The pages of ``mkdocs serve``, rendered on request and again after a change.

In: a site as MkDocs has prepared it, without its pages; the live course; requested paths. Out: pages and
files as a build would write them now; and updates for open pages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import Environment
from mkdocs.commands import build
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from tilewise.build.file_cache import key_of
from tilewise.build.live_course import LiveCourse
from tilewise.build.page.layout import FOLDER, SUFFIX, is_lesson, lesson_id_of, source_path
from tilewise.errors import LessonError
from tilewise.measurements.page import record_files
from tilewise.site.frontend import WASM
from tilewise.site.search import KeptIndex
from tilewise.site.site_assets import SiteAssets

log = logging.getLogger("mkdocs.plugins.tilewise")

EXAMPLES = "playground/examples.json"
"""What the Playground runs when nothing can be compiled."""
INDEX = "search/search_index.json"
SITEMAP = "sitemap.xml"
_MAX_OTHER_FAULTS = 3
"""How many faults of other pages an open page mentions."""
_QUIET_S = 0.4
"""Idle time before open lessons are checked."""
_IDLE_S = 2.0
"""Idle time before pages are rendered that nobody has requested."""


class PreparedFiles(Files):
    """The files of a served site: MkDocs neither copies them nor renders pages while it prepares the site."""

    preparing = False

    def documentation_pages(
        self, *, inclusion: Callable[[InclusionLevel], bool] = InclusionLevel.is_included
    ) -> list[File]:
        """Return the pages; none while MkDocs prepares the site, so that it renders none."""
        return [] if self.preparing else list(super().documentation_pages(inclusion=inclusion))

    def copy_static_files(
        self,
        dirty: bool = False,
        *,
        inclusion: Callable[[InclusionLevel], bool] = InclusionLevel.is_included,
    ) -> None:
        """Do nothing: files are served from their own folders."""


@dataclass(frozen=True, eq=False)
class Site:
    """A site without its pages."""

    config: MkDocsConfig
    files: PreparedFiles
    nav: Navigation
    env: Environment
    index: KeptIndex | None
    """The search index; None if the site has no search."""
    code: Callable[[], str]
    """Returns a hash of the project's own modules, which ``:::`` documents."""
    examples: Callable[[], bytes]
    """Returns the file with the Playground's examples."""


@dataclass(frozen=True)
class _Rendered:
    """A page as last rendered."""

    mark: object
    html: str
    indexed: SimpleNamespace
    """The search index's input: content, toc, url, title and meta."""


@dataclass
class _State:
    """A prepared site and its pages so far."""

    site: Site
    pages: dict[str, File] = field(default_factory=dict)
    """The files of pages by URL."""
    statics: dict[str, File] = field(default_factory=dict)
    """All other files, by path in the site."""
    written: dict[str, bytes] = field(default_factory=dict)
    """Files that MkDocs wrote while it prepared the site, by path."""
    rendered: dict[str, _Rendered] = field(default_factory=dict)
    """Rendered pages by source path."""
    faults: dict[str, tuple[LessonError, ...]] = field(default_factory=dict)
    """Faults of pages in docs/, by source path."""
    titles: tuple[str, ...] = ()
    """Titles in the navigation, which every page shows."""

    def note_titles(self) -> None:
        """Update the titles from the pages."""
        self.titles = tuple(str(page.title) for page in self.site.nav.pages)


class Preview:
    """Renders pages on request.

    Args:
        live: the course.
        assets: styles and scripts.
    """

    def __init__(self, live: LiveCourse, assets: SiteAssets) -> None:
        self._live = live
        self._assets = assets
        self._lock = threading.RLock()
        self._change = threading.Condition()
        self._changes = 0
        self._last_request = time.monotonic()
        self._state: _State | None = None
        self._opened: dict[str, None] = {}
        self._problem = ""
        self._logged: set[str] = set()
        self._closed = False
        live.runs.when_changed(self.changed)
        assets.when_changed(self.changed)
        threading.Thread(target=self._idle, name="pages", daemon=True).start()

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all pages, relative to the site."""
        return tuple(self._state.pages) if self._state is not None else ()

    def ready(self, site: Site) -> None:
        """Switch to a site that MkDocs has prepared."""
        state = _State(site)
        for file in site.files:
            if file.is_documentation_page():
                if int(file.inclusion.value) >= int(InclusionLevel.DRAFT.value):
                    state.pages[file.url if file.url not in (".", "./") else ""] = file
            elif int(file.inclusion.value) >= int(InclusionLevel.DRAFT.value):
                state.statics[file.dest_uri] = file
        folder = Path(site.config.site_dir)
        for path in folder.rglob("*"):
            if path.is_file():
                state.written[path.relative_to(folder).as_posix()] = path.read_bytes()
        with self._lock:
            self._state = state
            for file in state.pages.values():
                self._set_title(file)
            state.note_titles()
        self._problem = ""
        self.changed()

    def failed(self, problem: str) -> None:
        """Keep serving the last site, with this message, because a new one could not be prepared."""
        self._problem = problem
        self.changed()

    def changed(self) -> None:
        """Notify open pages, which check whether the change concerns them."""
        with self._change:
            self._changes += 1
            self._change.notify_all()

    def close(self) -> None:
        """Answer every waiting browser, and end the thread."""
        self._closed = True
        self.changed()

    def refresh(self, paths: Collection[Path]) -> bool:
        """Apply changes to files.

        Args:
            paths: files that were written, created, moved or deleted.

        Returns:
            Whether that is enough; False if MkDocs must prepare the site again.
        """
        self._last_request = time.monotonic()
        state = self._state
        if state is None:
            return False
        config = state.site.config
        docs = {Path(file.abs_src_path): file for file in state.pages.values() if file.abs_src_path}
        lessons = Path(config.config_file_path).parent.resolve() / FOLDER
        own = Path(__file__).resolve().parent
        for path in paths:
            if path in docs:
                if not path.is_file():
                    return False
                if not _is_lesson(docs[path]):
                    with self._lock:
                        self._set_title(docs[path])
            elif path.is_relative_to(lessons):
                if path.suffix == SUFFIX and path.parent.parent == lessons and path.name[0] != "_":
                    return False
            elif not path.is_relative_to(own / "web") or path.is_relative_to(own / "web" / "overrides"):
                return False
        self._assets.refresh()
        self._live.refresh({*paths, *(folder for path in paths for folder in path.parents)})
        for file in docs.values():
            if _is_lesson(file):
                self._set_title(file)
        state.note_titles()
        self.changed()
        return True

    def page(self, url: str) -> str | None:
        """Return the HTML of the page at a URL relative to the site; None if there is no such page."""
        self._last_request = time.monotonic()
        state = self._state
        file = state.pages.get(url) if state is not None else None
        if state is None or file is None:
            return None
        if _is_lesson(file):
            self._live.runs.open(lesson_id_of(file.src_uri))
        self._opened[file.src_uri] = None
        return self._rendered(state, file).html

    def file(self, path: str) -> bytes | Path | None:
        """Return the content or the path of any other file of the site; None if there is no such file."""
        self._last_request = time.monotonic()
        state = self._state
        if state is None:
            return None
        if path == INDEX and state.site.index is not None:
            return state.site.index.of_pages(self._indexed(state)).encode()
        docstrings: Any = state.site.config.plugins.get("mkdocstrings")
        if docstrings is not None and path == docstrings.css_filename:
            return str(docstrings.handlers.get_handler("python").extra_css).encode()
        if path == SITEMAP:
            site = state.site
            template = site.env.get_template(SITEMAP)
            return build._build_template(SITEMAP, template, site.files, site.config, site.nav).encode()
        if path == EXAMPLES:
            return state.site.examples()
        inside = path.removeprefix("assets/tilewise/")
        if inside != path:
            folder = self._assets.folder
            if inside == WASM:
                self._assets.wait()
            asset = (folder / inside).resolve() if folder is not None else None
            is_ours = asset is not None and folder is not None and asset.is_relative_to(folder.resolve())
            return asset if is_ours and asset is not None and asset.is_file() else None
        if (file := state.statics.get(path)) is not None:
            content = file._content
            if content is not None:
                return content.encode() if isinstance(content, str) else content
            return Path(file.abs_src_path) if file.abs_src_path else None
        return state.written.get(path) or self._lesson_file(path) or self._record_file(path)

    def problem(self, url: str) -> str:
        """Return the message for the page at a URL: its own faults with details, and a few others."""
        if self._problem:
            return self._problem
        state = self._state
        file = state.pages.get(url) if state is not None else None
        path = _path(file) if file is not None else ""
        faults = [*self._live.faults(path)]
        if state is not None:
            faults += [fault for of_page in list(state.faults.values()) for fault in of_page]
        own = [fault for fault in faults if fault.path == path]
        others = [fault for fault in faults if fault.path != path]
        lines = [f"{fault}\n{fault.details}" if fault.details else str(fault) for fault in own]
        lines += [str(fault) for fault in others[:_MAX_OTHER_FAULTS]]
        if len(others) > _MAX_OTHER_FAULTS:
            lines.append(f"and {len(others) - _MAX_OTHER_FAULTS} more")
        if self._assets.problem:
            lines.append(self._assets.problem)
        return "\n".join(lines)

    def update(self, url: str, seen: str, wait_s: float) -> dict[str, Any]:
        """Return a page's snapshot as soon as it differs from the browser's, or after a timeout.

        Args:
            url: the page's, relative to the site.
            seen: the browser's version, ``seen`` of the last update; empty if unknown.
            wait_s: the timeout.
        """
        deadline = time.monotonic() + wait_s
        while True:
            with self._change:
                changes = self._changes
            snapshot = self.snapshot(url)
            left_s = deadline - time.monotonic()
            if snapshot["seen"] != seen:
                return snapshot
            if left_s <= 0 or self._closed:
                return {**snapshot, "html": None}
            self._wait_for_change(changes, left_s)

    def snapshot(self, url: str) -> dict[str, Any]:
        """Return the current state of a page.

        Args:
            url: the page's, relative to the site.

        Returns:
            ``html`` (None if there is no such page), ``problem``, ``assets`` (the folder of styles and
            scripts), and ``seen`` (a hash of all these).
        """
        html, problem = self.page(url), self.problem(url)
        assets = str(self._assets.folder or "")
        return {
            "html": html,
            "problem": problem,
            "assets": assets,
            "seen": key_of(url, html, problem, assets),
        }

    def _wait_for_change(self, changes: int, timeout_s: float) -> int:
        """Wait until the number of changes differs from ``changes``; return it."""
        with self._change:
            self._change.wait_for(lambda: self._changes != changes or self._closed, timeout=timeout_s)
            return self._changes

    def note_faults(self, src_uri: str, faults: Iterable[LessonError]) -> None:
        """Store the faults of a page in docs/."""
        if self._state is not None:
            self._state.faults[src_uri] = tuple(faults)

    def _set_title(self, file: File) -> None:
        """Give a page that is new or has changed the title and description that other pages print."""
        state = self._state
        page = file.page
        assert state is not None and page is not None
        if _is_lesson(file):
            header = self._live.course.lesson(lesson_id_of(file.src_uri)).header
            page.markdown = page.markdown or ""
            page.meta = {**page.meta, "title": header.title}
        else:
            page.read_source(state.site.config)

    def _rendered(self, state: _State, file: File) -> _Rendered:
        mark = self._mark(state, file)
        rendered = state.rendered.get(file.src_uri)
        if rendered is not None and rendered.mark == mark:
            return rendered
        with self._lock:
            mark = self._mark(state, file)
            rendered = state.rendered.get(file.src_uri)
            if rendered is None or rendered.mark != mark:
                rendered = state.rendered[file.src_uri] = self._render(state, file, mark, rendered)
            return rendered

    def _mark(self, state: _State, file: File) -> object:
        """A value that changes when the page may have changed."""
        titles = state.titles
        if _is_lesson(file):
            return (titles, self._live.mark(lesson_id_of(file.src_uri)))
        assert file.abs_src_path is not None
        try:
            stat = Path(file.abs_src_path).stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            stamp = (0, 0)
        text = _text_of(file)
        course = self._live.course_mark() if "{{" in text else None
        return (titles, stamp, course, state.site.code() if ":::" in text else "")

    def _render(self, state: _State, file: File, mark: object, previous: _Rendered | None) -> _Rendered:
        page, site = file.page, state.site
        assert page is not None
        state.faults.pop(file.src_uri, None)
        try:
            build._populate_page(page, site.config, site.files)
            assert page.content is not None
            if "<autoref" in page.content or "<backlinks" in page.content:
                self._resolve(state, file)
            indexed = _indexed(page)
            html = self._html(state, file)
        except Exception as error:  # no page's text may break the other pages
            if not isinstance(error, LessonError):
                text = str(error) or type(error).__name__
                log.error("a page could not be made", exc_info=True)
                state.faults.setdefault(file.src_uri, (LessonError(_path(file), 0, text),))
            if previous is not None:
                return _Rendered(mark, previous.html, previous.indexed)
            message = "\n".join(str(fault) for fault in state.faults.get(file.src_uri, ())) or str(error)
            page.content = f"<h1>{escape(str(page.title))}</h1><pre>{escape(message)}</pre>"
            indexed, html = _indexed(page), self._html(state, file)
        return _Rendered(mark, html, indexed)

    def _resolve(self, state: _State, file: File) -> None:
        """Resolve a page's cross-references, which needs every page that documents modules to be rendered."""
        site = state.site
        for candidate in state.pages.values():
            page = candidate.page
            if page is None or ":::" not in (page.markdown or ""):
                continue
            if candidate is not file and candidate.src_uri not in state.rendered:
                build._populate_page(page, site.config, site.files)
        site.config.plugins.on_env(site.env, config=site.config, files=Files([file]))

    @staticmethod
    def _html(state: _State, file: File) -> str:
        site = state.site
        assert file.page is not None
        pages = site.files.documentation_pages(inclusion=InclusionLevel.is_in_serve)
        build._build_page(file.page, site.config, pages, site.nav, site.env, False)
        return Path(file.abs_dest_path).read_text(encoding="utf-8")

    def _lesson_file(self, path: str) -> bytes | None:
        """A figure's data, or a lesson's download."""
        view = self._live.view
        folder = f"{FOLDER}/"
        if path.startswith(folder):
            name = path.removeprefix(folder).rpartition("/")[0]
            source = source_path(name)
            return view.pages[source].files.get(path) if source in view.pages else None
        for lesson in view.course.lessons:
            page = self._live.rendered(lesson.id)
            if page is not None and path in page.files:
                return page.files[path]
        return view.figure_files().get(path)

    def _record_file(self, path: str) -> Path | None:
        """A record that was added after the site was prepared."""
        return dict(record_files(self._live.view.root)).get(path)

    @staticmethod
    def _indexed(state: _State) -> Iterator[SimpleNamespace]:
        """The search index's input: for pages that aren't rendered yet only their titles."""
        for file in state.pages.values():
            rendered = state.rendered.get(file.src_uri)
            if rendered is not None:
                yield rendered.indexed
            elif file.page is not None:
                title = str(file.page.title)
                content = f"<h1>{escape(title)}</h1>"
                yield SimpleNamespace(content=content, toc=[], url=file.page.url, title=title, meta={})

    def _idle(self) -> None:
        """While no requests arrive, log the faults of open pages, then render unopened pages."""
        changes = -1
        while not self._closed:
            changes = self._wait_for_change(changes, _QUIET_S)
            time.sleep(_QUIET_S / 4)
            state = self._state
            if state is None or self._closed:
                continue
            if time.monotonic() - self._last_request < _QUIET_S:
                changes = -1  # look again soon
                continue
            try:
                self._log_faults(state)
                if time.monotonic() - self._last_request >= _IDLE_S and self._live.is_settled():
                    self._render_next(state)
            except Exception:
                log.exception("making a page ahead of time failed")

    def _render_next(self, state: _State) -> None:
        for file in state.pages.values():
            if file.src_uri not in state.rendered:
                rendered = self._rendered(state, file)
                if state.site.index is not None:
                    state.site.index.warm(rendered.indexed)
                return

    def _log_faults(self, state: _State) -> None:
        """Log faults that have not been logged before."""
        opened = [lesson_id_of(name) for name in self._opened if is_lesson(name)]
        if any(self._live.runs.is_running(name) for name in opened):
            return  # wait for its outputs
        site_faults = [fault for of_page in list(state.faults.values()) for fault in of_page]
        faults = [*self._live.faults(""), *site_faults]
        for line in map(str, faults):
            if line not in self._logged:
                self._logged.add(line)
                log.error(line)


def _indexed(page: Page) -> SimpleNamespace:
    return SimpleNamespace(
        content=page.content or "", toc=page.toc, url=page.url, title=str(page.title), meta=dict(page.meta)
    )


def _is_lesson(file: File) -> bool:
    return is_lesson(file.src_uri)


def _path(file: File) -> str:
    """The source file of a page, as messages name it."""
    return file.src_uri if _is_lesson(file) else f"docs/{file.src_uri}"


def _text_of(file: File) -> str:
    try:
        return str(file.content_string)
    except (OSError, ValueError):
        return ""
