"""Chromium and the built site, for every test in this folder.

``site`` is the site's address, ``page`` a page that fails its test for what went wrong in it.
Where no Chromium is installed, each test is skipped and says so.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.workers import made_once
from tilewise.figures import Figure
from tilewise.site.frontend import build_assets, packages

ROOT = Path(__file__).parent.parent.parent
expect.set_options(timeout=20_000)  # compiling, or a page's first script, takes seconds on a busy machine
FIGURES = pytest.mark.sweep(
    *(f"src/tilewise/{name}" for name in ("figures", "outputs", "site/frontend.py", "site/web")),
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
    """What pages must not do: errors in their console, and requests to other hosts."""

    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self, page: Page, host: str) -> None:
        page.on(
            "console", lambda message: self.console.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.console.append(str(error)))
        page.on("request", lambda request: self._seen(request.url, host))

    def _seen(self, url: str, host: str) -> None:
        self.requests.append(url)
        if not url.startswith((host, "data:", "blob:", "about:")):
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


def axe_faults(page: Page, axe: str, inside: str = "html") -> list[tuple[str, list[str]]]:
    """What axe finds in a part of a page: its rules, with the elements that break them."""
    page.evaluate(axe)  # a script of the test's own, which the page's policy would refuse
    found = page.evaluate("(inside) => axe.run(inside)", inside)["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


def must_pass_axe(page: Page, axe: str, inside: str) -> None:
    """In both themes, as the site switches them."""
    for scheme in ("default", "slate"):
        page.evaluate("(scheme) => (document.body.dataset.mdColorScheme = scheme)", scheme)
        page.wait_for_timeout(500)  # colours fade into each other
        assert axe_faults(page, axe, inside) == []


def policy() -> str:
    """The site's policy, as its pages state it."""
    main = (ROOT / "src/tilewise/site/web/overrides/main.html").read_text(encoding="utf-8")
    return re.search(r'<meta http-equiv="Content-Security-Policy".*?>', main)[0]


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
def faults() -> Iterator[Faults]:
    """What the pages of a test do wrong, for which it fails; it may look into what they request."""
    found = Faults()
    yield found
    assert found.console == []
    assert found.elsewhere == []


@pytest.fixture
def page(open_context: Callable[..., BrowserContext], site: str, faults: Faults) -> Page:
    """A page of 1440 by 900 pixels; the test fails if it logs an error or asks another host for anything."""
    page = open_context().new_page()
    faults.watch(page, site)
    return page


@pytest.fixture
def open_at(open_context: Callable[..., BrowserContext], faults: Faults) -> Callable[..., Page]:
    """``open_at(address, width, height, **options)`` is a page there; the test fails for its faults."""

    def open_one(address: str, width: int = 1440, height: int = 900, **options: Any) -> Page:
        context = open_context(viewport={"width": width, "height": height}, **options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        faults.watch(page, re.match(r"file:|\w+://[^/]*/", address)[0])
        page.goto(address)
        return page

    return open_one


FIGURES_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Figures</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="tilewise/tilewise.css">
<style>main {{ max-width: 720px; margin: 0 auto; padding: 0 16px }} figure {{ margin-bottom: 60vh }}</style>
</head><body data-md-color-scheme="default"><main class="md-typeset">{}</main>
<script src="tilewise/figures.js"></script></body></html>"""


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> Path:
    """Write a page of figures, by their ids, under the built styles and scripts; its folder."""
    (folder / "tilewise").symlink_to(build_assets(ROOT))
    for name, figure in figures.items():
        (folder / f"{name}.json").write_bytes(figure.json_bytes())
    shown = "".join(figure.html(f"{name}.json", name) for name, figure in figures.items())
    (folder / "index.html").write_text(FIGURES_PAGE.format(shown), encoding="utf-8")
    return folder


@pytest.fixture
def open_page(open_at: Callable[..., Page], address: str) -> Callable[..., Page]:
    """``open_page(width, at)`` is the page at the module's address; a fault of its own fails the test."""
    return lambda width=1440, at="", **options: open_at(address + at, width, **options)


def drawn(page: Page, name: str) -> Locator:
    """The figure, scrolled to and drawn."""
    figure = page.locator(f"#{name}")
    figure.scroll_into_view_if_needed()
    expect(figure).to_have_attribute("data-state", "drawn")
    return figure


FITS = """(figure) => {
    const body = figure.querySelector(".tw-figure-body");
    const room = body.getBoundingClientRect();
    const faults = [];
    for (const one of body.querySelectorAll("text, p, label, output, dt, dd, td, th, button, code, span")) {
        const box = one.getBoundingClientRect();
        if (!one.textContent.trim() || !box.width || one.closest(".gl-container")) continue;
        const says = one.textContent.trim().slice(0, 30);
        const size = parseFloat(getComputedStyle(one).fontSize);
        if (size > 0 && size < 12) faults.push(`small: ${says}`);
        if (one.closest("pre, .tw-arrays")) continue;
        if (box.left < room.left - 1 || box.right > room.right + 1) faults.push(`cut: ${says}`);
    }
    if (body.scrollHeight > body.clientHeight + 1) faults.push("taller than its room");
    return faults;
}"""
HEIGHTS = "() => [...document.querySelectorAll('.tw-figure')].map((one) => Math.round(one.offsetHeight))"


def must_fit(page: Page, names: Iterable[str]) -> None:
    """Every figure fits into the room that was kept for it, nothing of it is cut, and no text is small."""
    before = page.evaluate(HEIGHTS)
    for name in names:
        figure = drawn(page, name)
        page.wait_for_timeout(700)  # a chart settles
        assert figure.evaluate(FITS) == [], name
    assert page.evaluate(HEIGHTS) == before
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
