"""Small sites: as ``mkdocs serve`` shows them after a save, and cold, from nothing."""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.livereload import LiveReloadServer

import tilewise
from tilewise.course.rules import run_faults
from tilewise.simulator.engine.machine import prepare
from tilewise.site.server import LiveServer

URL = "http://127.0.0.1:8000/"


@dataclass
class Shown:
    """What browsers are shown once every lesson has run."""

    files: dict[str, bytes]
    """Every page, what lessons offer and draw, and the search index, by path."""
    problems: dict[str, str]
    """What is wrong, by the URL of the page that says so; pages without a problem are left out."""
    warnings: list[str]
    """Stale records and misses without a reason."""
    logged: list[str]
    """Warnings and errors on the terminal."""

    def write(self, folder: Path) -> Path:
        """Write the files, for a static server."""
        for path, content in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder


@dataclass
class Serving:
    """One ``mkdocs serve`` without its sockets: what a save does, and what pages come of it."""

    project: Path
    site: Path
    _server: LiveServer | None = None
    _stamps: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def show(self) -> Shown:
        """Take what has changed on disk since the last time, let every lesson run, and make every page."""
        heard = Heard()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(heard)
        try:
            changed = self._changed()
            if self._server is None:
                self._server = self._start()
            elif changed:
                self._server._changed = changed
                self._server._take_changes()
            return self._shown(heard)
        finally:
            logger.removeHandler(heard)

    def write(self, folder: Path) -> None:
        """Write all that a browser may ask for, for a static server."""
        self.show().write(folder)
        preview = self.plugin.preview
        for path in preview._state.statics:
            content = preview.file(path)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content.read_bytes() if isinstance(content, Path) else content)
        shutil.copytree(self.plugin._assets.folder, folder / "assets" / "tilewise", dirs_exist_ok=True)

    def close(self) -> None:
        if self._server is not None:
            self.plugin.on_shutdown()
            self._server.server_close()

    def _start(self) -> LiveServer:
        def prepare() -> None:
            config = load_config(str(self.project / "mkdocs.yml"), site_dir=str(self.site))
            if self._server is None:
                config.plugins.on_startup(command="serve", dirty=False)
                self.plugin = config.plugins["tilewise"]
            config.site_url = URL
            build(config, serve_url=URL)

        prepare()
        server = LiveReloadServer(builder=prepare, host="127.0.0.1", port=8000, root=str(self.site))
        return LiveServer.instead_of(server, self.plugin.preview, self.plugin._explain)

    def _changed(self) -> set[Path]:
        """The files that were written, made or deleted since the last call."""
        files = [path for path in self.project.rglob("*") if path.is_file() and "site" not in path.parts]
        stamps = {path.resolve(): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}
        changed = {
            path for path in stamps.keys() | self._stamps if stamps.get(path) != self._stamps.get(path)
        }
        self._stamps = stamps
        return changed

    def _shown(self, heard: Heard) -> Shown:
        preview, live = self.plugin.preview, self.plugin._live
        deadline = time.monotonic() + 120
        while not live.is_settled():
            assert time.monotonic() < deadline, "the lessons do not end"
            time.sleep(0.01)
        files: dict[str, bytes] = {}
        for url in preview.urls:
            html = preview.page(url)
            assert html is not None
            files[f"{url}index.html" if url.endswith("/") or not url else url] = html.encode()
        for page in live.view.pages.values():
            files.update(page.files)
        for path in ("search/search_index.json", "sitemap.xml", "404.html"):
            content = preview.file(path)
            assert isinstance(content, bytes)
            files[path] = content
        problems = {url: text for url in preview.urls if (text := preview.problem(url))}
        runs = live.runs.runs()
        warnings = [
            str(fault)
            for lesson in live.course.lessons
            if lesson.id in runs
            for fault in run_faults(lesson, runs[lesson.id], stops=False)
        ]
        return Shown(files, problems, warnings, heard.messages)


class Heard(logging.Handler):
    """Keeps warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.levelname} {record.getMessage()}")


def forget_plugins() -> None:
    """Make MkDocs forget the plugins it keeps for the rest of a process, as a new process would."""
    dict(MkDocsConfig._schema)["plugins"].plugin_cache.clear()


@functools.cache
def simulator() -> Path:
    """The simulator's compiled machine, in the cache of whoever runs the tests: it takes 20 s to compile."""
    return prepare()


def link_assets(web_cache: Path, cache: Path) -> None:
    """Let a cold cache find what no lesson decides: styles, scripts and the simulator, built already."""
    cache.mkdir(parents=True, exist_ok=True)
    (web_cache / "web").mkdir(parents=True, exist_ok=True)
    if not (cache / "web").exists():
        (cache / "web").symlink_to(web_cache / "web", target_is_directory=True)
    machine = simulator()
    if not (cache / machine.name).exists():
        shutil.copy(machine, cache)


def cold(project: Path, folder: Path, web_cache: Path, whole: bool = False) -> Shown:
    """Serve a project in a process of its own with an empty cache, as if nothing had been made before.

    It runs the code that the test itself runs, wherever another copy may be installed. What is shown is in
    ``written`` of the folder; with ``whole`` also the theme's files, for a browser.
    """
    cache = folder / "cache"
    link_assets(web_cache, cache)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sites import Serving; from pathlib import Path\n"
        "import json; made = Serving(Path(sys.argv[2]), Path(sys.argv[3]))\n"
        "shown = made.show(); (made if sys.argv[5] else shown).write(Path(sys.argv[4])); made.close()\n"
        "print('RESULT' + json.dumps([shown.problems, shown.warnings, shown.logged]))"
    )
    site, written = folder / "site", folder / "written"
    site.mkdir(parents=True, exist_ok=True)
    home = str(Path(tilewise.__file__).parents[1])
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    arguments = [str(Path(__file__).parent), str(project), str(site), str(written), "whole" * whole]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "TILEWISE_CACHE": str(cache), "PYTHONPATH": os.pathsep.join([home, *others])},
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RESULT" in done.stdout, done.stdout + done.stderr
    files = {
        path.relative_to(written).as_posix(): path.read_bytes()
        for path in written.rglob("*")
        if path.is_file()
    }
    return Shown(files, *json.loads(done.stdout.rpartition("RESULT")[2]))


def edit(path: Path, old: str, new: str) -> None:
    """Replace text in a file; its time of change differs even where the clock is coarse."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")
    now = time.time_ns()
    os.utime(path, ns=(now, now))
