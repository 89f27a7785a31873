"""The server of ``mkdocs serve``: answers from the preview, and notifies open pages of changes.

In: the server that MkDocs made, and a ``Preview``. Out: a replacement that reacts to a save at once, prepares
the site again only if necessary, keeps the last good site up if that fails, and compiles kernels for its own
pages if it serves only this machine. It overrides undocumented methods of ``LiveReloadServer``;
``pyproject.toml`` pins the release.
"""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import posixpath
import re
import socket
import sys
import traceback
import urllib.parse
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import watchdog.events
import watchdog.observers
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer

from tilewise.site.play.compiling import Compiler
from tilewise.site.play.page import compiler_meta
from tilewise.site.play.requests import CompileRequests, is_loopback
from tilewise.site.preview import Preview

log = logging.getLogger("mkdocs.plugins.tilewise")

_SCRIPT = Path(__file__).with_name("live.js")
_STYLES = Path(__file__).with_name("live.css")
_UPDATE = "/livereload/tilewise"
_COMPILE = "/livereload/compile"
_CHANGES = frozenset({"created", "modified", "moved", "deleted"})
"""Events of a save; opening and closing a file raises events too."""
_SETTLED_S = 0.015
"""Quiet time before a build starts: an editor's save is several events."""
_COLLECT_AT = (100_000, 20, 50)
"""Thresholds for ``gc``, whose collections delay a page; Python's own first one is 700."""
_NOISE = re.compile(r"(^|/)(\.[^/]*|__pycache__|[^/]*~|[^/]*\.(swp|swx|tmp|pyc)|#[^/]*#|4913)(/|$)")


def requires_port(host: str, port: int) -> None:
    """Check that the server can bind its address before anything is built.

    Raises:
        PluginError: the port is in use, or cannot be bound.
    """
    kind = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((str(host), port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            why = (
                "is in use, perhaps by another make serve" if in_use else f"cannot be used: {error.strerror}"
            )
            raise PluginError(
                f"{host}:{port} {why}. Stop what uses it, or name another port: make serve PORT={port + 1}"
            ) from None


class LiveServer(LiveReloadServer):
    """MkDocs's server, with pages rendered on request."""

    preview: Preview
    compiler: Compiler
    compile_requests: CompileRequests | None
    """None if other machines could send requests too."""
    explain: Callable[[], str]
    """Returns why a lesson kept the site from being prepared; empty if no lesson did."""
    _prepare: Callable[[], None]
    _changed: set[Path]

    @classmethod
    def instead_of(cls, server: LiveReloadServer, preview: Preview, explain: Callable[[], str]) -> LiveServer:
        """Replace the server that MkDocs made, which has not started yet."""
        host, port = server.server_address[:2]
        live = cls(
            builder=server.builder,
            host=str(host),
            port=int(port),
            root=server.root,
            mount_path=server.mount_path,
        )
        live.error_handler = server.error_handler
        live.preview, live.explain = preview, explain
        live.compiler = Compiler()
        is_private = is_loopback(str(host))
        live.compile_requests = CompileRequests(live.compiler, int(port)) if is_private else None
        gc.collect()
        gc.freeze()  # else each collection would traverse MkDocs, the theme and the course again
        gc.set_threshold(*_COLLECT_AT)
        live._changed = set()
        live._prepare = server.builder
        live.builder = live._take_changes
        live.build_delay = _SETTLED_S
        live.observer = watchdog.observers.Observer()  # type: ignore[assignment]
        for path in server._watched_paths:
            live.watch(path)
        server.server_close()
        return live

    def watch(self, path: str, func: None = None, *, recursive: bool = True) -> None:
        """Build when a file at or below ``path`` changes, but not when it is only read."""
        path = str(Path(path).absolute())
        if path in self._watched_paths:
            self._watched_paths[path] += 1
            return
        self._watched_paths[path] = 1
        handler = watchdog.events.FileSystemEventHandler()
        handler.on_any_event = partial(self._notice, path)  # type: ignore[method-assign]
        self._watch_refs[path] = self.observer.schedule(handler, path, recursive=recursive)

    def _notice(self, watched: str, event: watchdog.events.FileSystemEvent) -> None:
        if event.is_directory or event.event_type not in _CHANGES:
            return
        paths = [os.fsdecode(path) for path in (event.src_path, event.dest_path) if path]
        if all(_NOISE.search(path.removeprefix(watched)) for path in paths):
            return
        with self._rebuild_cond:
            self._changed.update(Path(path).resolve() for path in paths)
            self._want_rebuild = True
            self._rebuild_cond.notify_all()

    def _take_changes(self) -> None:
        with self._rebuild_cond:
            paths, self._changed = self._changed, set()
        errors = _Errors()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(errors)
        try:
            if not self.preview.refresh(paths):
                self._prepare()
        except Exception as error:
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            logged = "\n".join(errors.messages) or f"{type(error).__name__}: {error}"
            self.preview.failed(self.explain() or logged)
            log.error("The last good site stays up. Repair what is named above and save.")
        finally:
            logger.removeHandler(errors)
            sys.stderr.flush()

    def _serve_request(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes] | None:
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "ignore")
        if path == _COMPILE and self.compile_requests is not None:
            return self._compile(self.compile_requests, environ, start_response)
        if path == _UPDATE:
            return self._update(environ.get("QUERY_STRING", ""), start_response)
        if not path.startswith(self.mount_path):
            return _redirect(self.mount_path, start_response) if path == "/" else None
        inside = posixpath.normpath("/" + path.removeprefix(self.mount_path)).lstrip("/")
        url = f"{inside}/" if inside else ""
        if path.endswith("/"):
            html = self.preview.page(url)
            if html is None:
                return None
            content = self._inject_js_into_html(html.encode("utf-8", "xmlcharrefreplace"), url)
            return _answer(content, "text/html; charset=utf-8", start_response)
        file = self.preview.file(inside)
        if file is None:
            return _redirect(f"{path}/", start_response) if self.preview.page(url) is not None else None
        try:
            content = file.read_bytes() if isinstance(file, Path) else file
        except OSError:
            return None
        kind = str(self._guess_type(inside))  # type: ignore[no-untyped-call]
        return _answer(content, kind, start_response)

    def _compile(
        self, requests: CompileRequests, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> list[bytes]:
        """Answer a compile request of the Playground or of an editor on a page."""
        headers = {
            name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
            for name, value in environ.items()
            if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
        }
        status, content = requests.answer(
            environ["REQUEST_METHOD"], headers, environ["REMOTE_ADDR"], environ["wsgi.input"].read
        )
        line = f"{status} {HTTPStatus(status).phrase}"
        start_response(line, [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
        return [content]

    def server_close(self) -> None:
        """Stop serving and compiling."""
        super().server_close()
        if hasattr(self, "compiler"):
            self.compiler.close()

    def _update(self, query: str, start_response: Callable[..., Any]) -> list[bytes]:
        """Answer with an open page's next update."""
        parameters = urllib.parse.parse_qs(query)
        address, seen = (parameters.get(name, [""])[0] for name in ("page", "seen"))
        url = address.removeprefix(self.mount_path)
        update = self.preview.update(url, seen, self.poll_response_timeout / 2)
        return _answer(json.dumps(update).encode(), "application/json", start_response)

    def _inject_js_into_html(self, content: bytes, url: str) -> bytes:
        snapshot = self.preview.snapshot(url)
        settings = {name: snapshot[name] for name in ("problem", "assets", "seen")}
        script = _SCRIPT.read_text(encoding="utf-8").replace(
            '"LIVE_SETTINGS"', json.dumps(settings).replace("</", "<\\/")
        )
        styles = _STYLES.read_text(encoding="utf-8")
        requests = self.compile_requests
        compiler = compiler_meta(_COMPILE, requests.token) if requests is not None else ""
        added = f"{compiler}<style>{styles}</style><script>{script}</script>".encode()
        start, end, rest = content.rpartition(b"</body>")
        return b"".join([start or rest, added, end, rest if start else b""])


def _answer(content: bytes, kind: str, start_response: Callable[..., Any]) -> list[bytes]:
    length = ("Content-Length", str(len(content)))
    start_response("200 OK", [("Content-Type", kind), length, ("Cache-Control", "no-cache")])
    return [content]


def _redirect(address: str, start_response: Callable[..., Any]) -> list[bytes]:
    start_response("302 Found", [("Location", urllib.parse.quote(address))])
    return []


class _Errors(logging.Handler):
    """Collects the errors that a build logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
