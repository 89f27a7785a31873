"""A static host such as those that publish sites: gzip, ETags, ten minutes of caching, a 404 page.

In: a folder and, optionally, the path below which it is served. Out: an address. For ``benchmarks/pages.py``
and browser tests: ``python -m http.server`` neither compresses nor answers with the site's own 404 page.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_COMPRESSED = ("text/", "application/javascript", "application/json", "application/xml", "image/svg+xml")
_TYPES = {".woff2": "font/woff2", ".js": "text/javascript", ".ipynb": "application/json"}


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD from a folder."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, *args: object, folder: Path, below: str) -> None:
        self._folder = folder
        self._below = below
        super().__init__(*args)  # type: ignore[arg-type]  # the server passes what the handler asks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        file = self._file(path)
        if file is not None and file.is_dir() and not path.endswith("/"):
            self._head(301, {"Location": f"{path}/", "Content-Length": "0"})
            return
        if file is not None and file.is_dir():
            file /= "index.html"
        status = 200
        if file is None or not file.is_file():
            status, file = 404, self._folder / "404.html"
        if not file.is_file():
            self._head(404, {"Content-Length": "0"})
            return
        kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        body, tag = _content(file, file.stat().st_mtime_ns)
        headers = {"Content-Type": kind, "ETag": tag, "Cache-Control": "max-age=600"}
        if kind.startswith(_COMPRESSED) and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = _zipped(file, file.stat().st_mtime_ns)
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        if status == 200 and self.headers.get("If-None-Match") == tag:
            self._head(304, headers)
            return
        self._head(status, {**headers, "Content-Length": str(len(body))})
        if with_body:
            self.wfile.write(body)

    def _file(self, path: str) -> Path | None:
        """The file that a path names, if it lies in the folder."""
        if not path.startswith(self._below):
            return None
        file = (self._folder / path.removeprefix(self._below)).resolve()
        return file if file.is_relative_to(self._folder) else None

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


@cache
def _content(file: Path, _stamp: int) -> tuple[bytes, str]:
    body = file.read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:16]}"'


@cache
def _zipped(file: Path, _stamp: int) -> bytes:
    return gzip.compress(file.read_bytes(), 6, mtime=0)


@contextmanager
def host(folder: Path, below: str = "/", port: int = 0) -> Iterator[str]:
    """Serve a folder until the block ends.

    Args:
        folder: what to serve.
        below: the path of its root, such as ``/tilewise/`` where a repository's pages lie.
        port: the port; 0 takes a free one.

    Yields:
        The address of the folder, ending in a slash.
    """
    handler = partial(_Handler, folder=folder.resolve(), below=below)
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{below}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
