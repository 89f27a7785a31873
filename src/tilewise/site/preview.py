"""The pages of ``mkdocs serve``: each is made when a browser asks for it, and again when it has changed.

In: a site as MkDocs has prepared it, without its pages; the live course; paths that browsers ask for. Out:
pages and files, as a build at this moment would make them; and for an open page, what is new.
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
"""What the Playground runs where nothing can be compiled."""
INDEX = "search/search_index.json"
SITEMAP = "sitemap.xml"
_MOST_OTHERS = 3
"""How many faults of other pages an open page mentions."""
_QUIET_S = 0.4
"""How long nobody asks for anything before open lessons are looked over."""
_IDLE_S = 2.0
"""How long, before pages are made that nobody has asked for."""


class PreparedFiles(Files):
    """The files of a site that is served: MkDocs neither copies them nor, while it prepares, makes pages."""

    preparing = False

    def documentation_pages(
        self, *, inclusion: Callable[[InclusionLevel], bool] = InclusionLevel.is_included
    ) -> list[File]:
        """The pages; none while MkDocs prepares the site, so that it makes none."""
        return [] if self.preparing else list(super().documentation_pages(inclusion=inclusion))

    def copy_static_files(
        self,
        dirty: bool = False,
        *,
        inclusion: Callable[[InclusionLevel], bool] = InclusionLevel.is_included,
    ) -> None:
        """Nothing: they are served from where they are."""


@dataclass(frozen=True, eq=False)
class Site:
    """A site without its pages."""

    config: MkDocsConfig
    files: PreparedFiles
    nav: Navigation
    env: Environment
    index: KeptIndex | None
    """The search index; None where the site has no search."""
    code: Callable[[], str]
    """A hash of the project's own modules, which ``:::`` quotes."""
    examples: Callable[[], bytes]
    """Makes the file of the Playground's examples."""


@dataclass(frozen=True)
class _Made:
    """A page as it was last made."""

    mark: object
    html: str
    indexed: SimpleNamespace
    """What the search index takes from it: content, toc, url, title and meta."""


@dataclass
class _State:
    """What is kept of a prepared site."""

    site: Site
    pages: dict[str, File] = field(default_factory=dict)
    """The files of pages by URL."""
    statics: dict[str, File] = field(default_factory=dict)
    """All other files by their path in the site."""
    written: dict[str, bytes] = field(default_factory=dict)
    """What MkDocs wrote while it prepared, by path."""
    made: dict[str, _Made] = field(default_factory=dict)
    """Pages by source path."""
    faults: dict[str, tuple[LessonError, ...]] = field(default_factory=dict)
    """What is wrong with pages of docs/, by source path."""
    titles: tuple[str, ...] = ()
    """Those of the navigation, which every page shows."""

    def note_titles(self) -> None:
        """Take the pages' titles as they are now."""
        self.titles = tuple(str(page.title) for page in self.site.nav.pages)


class Preview:
    """Makes pages on request.

    Args:
        live: the course.
        assets: styles and scripts.
    """

    def __init__(self, live: LiveCourse, assets: SiteAssets) -> None:
        self._live = live
        self._assets = assets
        self._lock = threading.RLock()
        self._news = threading.Condition()
        self._changes = 0
        self._asked = time.monotonic()
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
        """Serve a site that MkDocs has prepared."""
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
                self._entitle(file)
            state.note_titles()
        self._problem = ""
        self.changed()

    def failed(self, problem: str) -> None:
        """The site could not be prepared: the last one is served on, with this message."""
        self._problem = problem
        self.changed()

    def changed(self) -> None:
        """Something is new: open pages look whether it concerns them."""
        with self._news:
            self._changes += 1
            self._news.notify_all()

    def close(self) -> None:
        """Let every browser that waits have an answer, and end the thread."""
        self._closed = True
        self.changed()

    def refresh(self, paths: Collection[Path]) -> bool:
        """Take changes of files.

        Args:
            paths: files that were written, made, moved or deleted.

        Returns:
            Whether that is all there is to do; False: the site has to be prepared anew.
        """
        self._asked = time.monotonic()
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
                        self._entitle(docs[path])
            elif path.is_relative_to(lessons):
                if path.suffix == SUFFIX and path.parent.parent == lessons and path.name[0] != "_":
                    return False
            elif not path.is_relative_to(own / "web") or path.is_relative_to(own / "web" / "overrides"):
                return False
        self._assets.refresh()
        self._live.refresh({*paths, *(folder for path in paths for folder in path.parents)})
        for file in docs.values():
            if _is_lesson(file):
                self._entitle(file)
        state.note_titles()
        self.changed()
        return True

    def page(self, url: str) -> str | None:
        """The HTML of the page at a URL, relative to the site; None where there is none."""
        self._asked = time.monotonic()
        state = self._state
        file = state.pages.get(url) if state is not None else None
        if state is None or file is None:
            return None
        if _is_lesson(file):
            self._live.runs.open(lesson_id_of(file.src_uri))
        self._opened[file.src_uri] = None
        return self._made(state, file).html

    def file(self, path: str) -> bytes | Path | None:
        """The content of another file of the site, or where it is; None where there is none."""
        self._asked = time.monotonic()
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
            found = (folder / inside).resolve() if folder is not None else None
            is_ours = found is not None and folder is not None and found.is_relative_to(folder.resolve())
            return found if is_ours and found is not None and found.is_file() else None
        if (file := state.statics.get(path)) is not None:
            content = file._content
            if content is not None:
                return content.encode() if isinstance(content, str) else content
            return Path(file.abs_src_path) if file.abs_src_path else None
        return state.written.get(path) or self._lesson_file(path) or self._record_file(path)

    def problem(self, url: str) -> str:
        """What is wrong, for the page at a URL: its own faults with their details, and a few others."""
        if self._problem:
            return self._problem
        state = self._state
        file = state.pages.get(url) if state is not None else None
        path = _path(file) if file is not None else ""
        found = [*self._live.faults(path)]
        if state is not None:
            found += [fault for faults in list(state.faults.values()) for fault in faults]
        own = [fault for fault in found if fault.path == path]
        others = [fault for fault in found if fault.path != path]
        lines = [f"{fault}\n{fault.details}" if fault.details else str(fault) for fault in own]
        lines += [str(fault) for fault in others[:_MOST_OTHERS]]
        if len(others) > _MOST_OTHERS:
            lines.append(f"and {len(others) - _MOST_OTHERS} more")
        if self._assets.problem:
            lines.append(self._assets.problem)
        return "\n".join(lines)

    def update(self, url: str, seen: str, wait_s: float) -> dict[str, Any]:
        """What is new about a page, as soon as there is something, or after a while.

        Args:
            url: the page's, relative to the site.
            seen: what the browser has, as ``seen`` of the last update said; empty: nothing is known of it.
            wait_s: how long to wait.
        """
        deadline = time.monotonic() + wait_s
        while True:
            with self._news:
                changes = self._changes
            found = self.snapshot(url)
            left = deadline - time.monotonic()
            if found["seen"] != seen:
                return found
            if left <= 0 or self._closed:
                return {**found, "html": None}
            self._wait_for_news(changes, left)

    def snapshot(self, url: str) -> dict[str, Any]:
        """A page as it is now.

        Args:
            url: the page's, relative to the site.

        Returns:
            ``html`` (None: there is no such page), ``problem``, ``assets`` (a name of the styles and
            scripts), and ``seen`` (a name of all these).
        """
        html, problem = self.page(url), self.problem(url)
        assets = str(self._assets.folder or "")
        return {
            "html": html,
            "problem": problem,
            "assets": assets,
            "seen": key_of(url, html, problem, assets),
        }

    def _wait_for_news(self, changes: int, timeout_s: float) -> int:
        """Wait until there were more changes than so many; how many there are now."""
        with self._news:
            self._news.wait_for(lambda: self._changes != changes or self._closed, timeout=timeout_s)
            return self._changes

    def note_faults(self, src_uri: str, faults: Iterable[LessonError]) -> None:
        """Take what is wrong with a page of docs/."""
        if self._state is not None:
            self._state.faults[src_uri] = tuple(faults)

    def _entitle(self, file: File) -> None:
        """Give a page that was not made yet, or has changed, the title and description that others print."""
        state = self._state
        page = file.page
        assert state is not None and page is not None
        if _is_lesson(file):
            header = self._live.course.lesson(lesson_id_of(file.src_uri)).header
            page.markdown = page.markdown or ""
            page.meta = {**page.meta, "title": header.title}
        else:
            page.read_source(state.site.config)

    def _made(self, state: _State, file: File) -> _Made:
        mark = self._mark(state, file)
        made = state.made.get(file.src_uri)
        if made is not None and made.mark == mark:
            return made
        with self._lock:
            mark = self._mark(state, file)
            made = state.made.get(file.src_uri)
            if made is None or made.mark != mark:
                made = state.made[file.src_uri] = self._make(state, file, mark, made)
            return made

    def _mark(self, state: _State, file: File) -> object:
        """A value that is another one once the page may be another one."""
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

    def _make(self, state: _State, file: File, mark: object, before: _Made | None) -> _Made:
        page, site = file.page, state.site
        assert page is not None
        state.faults.pop(file.src_uri, None)
        try:
            build._populate_page(page, site.config, site.files)
            assert page.content is not None
            if "<autoref" in page.content or "<backlinks" in page.content:
                self._resolve(state, file)
            indexed = _indexed(page)
            html = self._written(state, file)
        except Exception as error:  # whatever a page's text leads to, the others stay readable
            if not isinstance(error, LessonError):
                text = str(error) or type(error).__name__
                log.error("a page could not be made", exc_info=True)
                state.faults.setdefault(file.src_uri, (LessonError(_path(file), 0, text),))
            if before is not None:
                return _Made(mark, before.html, before.indexed)
            shown = "\n".join(str(fault) for fault in state.faults.get(file.src_uri, ())) or str(error)
            page.content = f"<h1>{escape(str(page.title))}</h1><pre>{escape(shown)}</pre>"
            indexed, html = _indexed(page), self._written(state, file)
        return _Made(mark, html, indexed)

    def _resolve(self, state: _State, file: File) -> None:
        """Set a page's cross-references, for which every page that documents modules must be known."""
        site = state.site
        for other in state.pages.values():
            documents = other.page is not None and ":::" in (other.page.markdown or "")
            if other is not file and documents and other.src_uri not in state.made and other.page is not None:
                build._populate_page(other.page, site.config, site.files)
        site.config.plugins.on_env(site.env, config=site.config, files=Files([file]))

    @staticmethod
    def _written(state: _State, file: File) -> str:
        site = state.site
        assert file.page is not None
        pages = site.files.documentation_pages(inclusion=InclusionLevel.is_in_serve)
        build._build_page(file.page, site.config, pages, site.nav, site.env, False)
        return Path(file.abs_dest_path).read_text(encoding="utf-8")

    def _lesson_file(self, path: str) -> bytes | None:
        """A figure's data, or a lesson to download."""
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
        """A record that came since the site was prepared."""
        return dict(record_files(self._live.view.root)).get(path)

    @staticmethod
    def _indexed(state: _State) -> Iterator[SimpleNamespace]:
        """What the search index takes: of pages that were not made yet only the titles."""
        for file in state.pages.values():
            made = state.made.get(file.src_uri)
            if made is not None:
                yield made.indexed
            elif file.page is not None:
                title = str(file.page.title)
                content = f"<h1>{escape(title)}</h1>"
                yield SimpleNamespace(content=content, toc=[], url=file.page.url, title=title, meta={})

    def _idle(self) -> None:
        """While nobody asks for anything: faults of open pages, then the pages that nobody has opened."""
        changes = -1
        while not self._closed:
            changes = self._wait_for_news(changes, _QUIET_S)
            time.sleep(_QUIET_S / 4)
            state = self._state
            if state is None or self._closed:
                continue
            if time.monotonic() - self._asked < _QUIET_S:
                changes = -1  # look again soon
                continue
            try:
                self._log_news(state)
                if time.monotonic() - self._asked >= _IDLE_S and self._live.is_settled():
                    self._make_next(state)
            except Exception:
                log.exception("making a page ahead of time failed")

    def _make_next(self, state: _State) -> None:
        for file in state.pages.values():
            if file.src_uri not in state.made:
                made = self._made(state, file)
                if state.site.index is not None:
                    state.site.index.warm(made.indexed)
                return

    def _log_news(self, state: _State) -> None:
        """Say on the terminal what is wrong and was not said before."""
        opened = [lesson_id_of(name) for name in self._opened if is_lesson(name)]
        if any(self._live.runs.is_running(name) for name in opened):
            return  # its outputs come first
        faults = [*self._live.faults(""), *(one for some in list(state.faults.values()) for one in some)]
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
    """The file that an author edits for a page, as messages name it."""
    return file.src_uri if _is_lesson(file) else f"docs/{file.src_uri}"


def _text_of(file: File) -> str:
    try:
        return str(file.content_string)
    except (OSError, ValueError):
        return ""
