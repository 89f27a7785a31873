"""Chromium and the built site, for every test in this folder.

``site`` is the site's address, ``page`` a page that fails its test for what went wrong in it.
Where no Chromium is installed, each test is skipped and says so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.workers import made_once
from tilewise.frontend import packages

ROOT = Path(__file__).parent.parent.parent
FIGURES = pytest.mark.sweep(
    *(f"src/tilewise/{name}" for name in ("figures", "frontend.py", "outputs", "web")),
    "tests/browser/conftest.py",
    packages=["numpy"],
)
"""Marks tests of figures on a page of their own, which no lesson decides."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@dataclass
class Faults:
    """What a page must not do: errors in its console, and requests to other hosts."""

    host: str
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on(
            "console", lambda message: self.console.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda request: self._seen(request.url))

    def _seen(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self.host, "data:", "blob:", "about:")):
            self.elsewhere.append(url)


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files, and a sitemap that names this server: instant navigation follows the sitemap."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path != "/sitemap.xml":
            super().do_GET()
            return
        here = f"<loc>http://{self.headers['Host']}/"
        found = (Path(self.directory) / "sitemap.xml").read_text(encoding="utf-8")
        body = re.sub(r"<loc>https?://[^/<]+/", here, found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def search_for(page: Page, words: str) -> None:
    """Open the search by its key and type ``words``: Material closes it 125 ms after a page has opened."""
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
    page.keyboard.press("/")
    page.keyboard.type(words, delay=20)


@pytest.fixture(scope="session")
def served() -> Iterator[Callable[[Path], str]]:
    """``served(folder)`` is the address under which a folder is served."""
    servers: list[ThreadingHTTPServer] = []

    def serve(folder: Path) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def built(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once as ``make site`` builds it, or the folder that TILEWISE_SITE names."""
    if given := os.environ.get("TILEWISE_SITE"):
        return Path(given).resolve()
    return made_once(tmp_path_factory, "site", _build)


def _build(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, f"the site does not build:\n{done.stderr}"


@pytest.fixture(scope="session")
def site(built: Path, served: Callable[[Path], str]) -> str:
    """The address of the built site, ending in a slash."""
    return served(built)


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's own script; npm fetches it the first time."""
    folder = packages(ROOT / "tests" / "browser" / "audits", ROOT)
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def open_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """``open_context(**options)`` is a fresh context, closed after the test."""
    contexts: list[BrowserContext] = []

    def open_one(**options: Any) -> BrowserContext:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        contexts.append(context)
        return context

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture
def faults(site: str) -> Faults:
    """What went wrong in ``page``: a test may look into it."""
    return Faults(site)


@pytest.fixture
def page(open_context: Callable[..., BrowserContext], faults: Faults) -> Iterator[Page]:
    """A page of 1440 by 900 pixels; the test fails if it logs an error or asks another host for anything."""
    page = open_context().new_page()
    faults.watch(page)
    yield page
    assert faults.console == []
    assert faults.elsewhere == []
