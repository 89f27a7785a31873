"""The server of ``tilewise play``, for this machine only.

In: the folder of built styles and scripts, and optionally a kernel. Out: the Playground, and answers to its
compile requests. It serves no other files.
"""

from __future__ import annotations

import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tilewise.site.play.compiling import Compiler
from tilewise.site.play.examples import examples
from tilewise.site.play.page import POLICY, SCHEME, page
from tilewise.site.play.requests import CompileRequests

log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
}
_CONNECTION_S = 30
"""Timeout of an idle connection."""


class PlayServer(ThreadingHTTPServer):
    """Serves the Playground.

    Args:
        assets: the folder of styles and scripts.
        port: its port; 0 means any free one.
        text: the editor's initial text; None means an example.
        file: the name of the text's file; may be empty.
        compiler: None means a new one.
    """

    daemon_threads = True

    def __init__(
        self,
        assets: Path,
        port: int,
        text: str | None = None,
        file: str = "",
        compiler: Compiler | None = None,
    ) -> None:
        super().__init__((HOST, port), _Handler)
        self.assets = assets.resolve()
        self.compiler = compiler or Compiler()
        self.requests = CompileRequests(self.compiler, self.server_port)
        self.html = page(self.requests.token, text, file).encode()
        threading.Thread(target=examples, name="examples", daemon=True).start()
        self.compiler.warm()

    @property
    def address(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.server_port}/"

    def server_close(self) -> None:
        """Stop serving and compiling."""
        super().server_close()
        self.compiler.close()


class _Handler(BaseHTTPRequestHandler):
    server: PlayServer
    timeout = _CONNECTION_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the page or one of its files."""
        if not self.server.requests.is_own_host(self.headers.get("Host", "")):
            self._answer(403, b"Only pages of this machine are answered.", ".txt")
            return
        path = unquote(urlsplit(self.path).path)
        known = {
            "/": (self.server.html, ".html"),
            "/scheme.js": (SCHEME.encode(), ".js"),
        }
        if path in known:
            self._answer(200, *known[path])
        elif path == "/examples.json":
            self._answer(200, examples(), ".json")
        elif path.startswith("/assets/") and (asset := self._asset(path.removeprefix("/assets/"))):
            self._answer(200, asset.read_bytes(), asset.suffix)
        else:
            self._answer(404, b"There is no such page.", ".txt")

    def do_POST(self) -> None:
        """Answer a compile request."""
        if urlsplit(self.path).path != "/compile":
            self._answer(404, b"There is no such page.", ".txt")
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, content = self.server.requests.answer(
            "POST", headers, str(self.client_address[0]), self.rfile.read
        )
        self.close_connection = status != 200  # its body may not have been read
        self._answer(status, content, ".json")

    def _asset(self, inside: str) -> Path | None:
        try:
            path = (self.server.assets / inside).resolve()
            is_ours = path.is_relative_to(self.server.assets) and path.is_file()
        except (OSError, ValueError):
            return None
        return path if is_ours and path.suffix in _KINDS else None

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _KINDS[kind])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-cache")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the terminal quiet."""
        log.debug(format, *args)
