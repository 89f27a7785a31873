"""The server of ``mkdocs serve``: answers from the preview, and tells the open page what changed.

In: the server that MkDocs made, and a ``Preview``. Out: one in its place that sees a save at once, prepares
the site anew only where a save needs it, keeps the last good site up when that fails, and compiles texts for
its own pages where it serves this machine alone. What it overrides of ``LiveReloadServer`` MkDocs does not
promise to keep; ``pyproject.toml`` pins the release.
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
"""What an editor does; opening and closing a file raises events too."""
_SETTLED_S = 0.015
"""How long nothing may happen before a build starts: an editor's save is several events."""
_COLLECT_AT = (100_000, 20, 50)
"""How many objects are made between two collections, which hold up a page; Python's own is 700."""
_NOISE = re.compile(r"(^|/)(\.[^/]*|__pycache__|[^/]*~|[^/]*\.(swp|swx|tmp|pyc)|#[^/]*#|4913)(/|$)")


def requires_port(host: str, port: int) -> None:
    """Stop before anything is made where the address cannot be served at.

    Raises:
        PluginError: the port is in use, or cannot be had.
    """
    kind = socket.AF_INET6 if ":" in str(host) else socket.AF_INET
    with socket.socket(kind, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((str(host), port))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            why = "is in use, perhaps by another make serve" if in_use else f"cannot be had: {error.strerror}"
            raise PluginError(
                f"{host}:{port} {why}. Stop what uses it, or name another port: make serve PORT={port + 1}"
            ) from None


class LiveServer(LiveReloadServer):
    """MkDocs's server, with pages that are made when they are asked for."""

    preview: Preview
    compiler: Compiler
    compile_requests: CompileRequests | None
    """None where other machines could ask, too."""
    explain: Callable[[], str]
    """Why the site could not be prepared, in the author's words; empty where no lesson is to blame."""
    _prepare: Callable[[], None]
    _changed: set[Path]

    @classmethod
    def instead_of(cls, server: LiveReloadServer, preview: Preview, explain: Callable[[], str]) -> LiveServer:
        """Take over from the server that MkDocs made, which has not started yet."""
        host, port = server.server_address[:2]
        made = cls(
            builder=server.builder,
            host=str(host),
            port=int(port),
            root=server.root,
            mount_path=server.mount_path,
        )
        made.error_handler = server.error_handler
        made.preview, made.explain = preview, explain
        made.compiler = Compiler()
        is_private = is_loopback(str(host))
        made.compile_requests = CompileRequests(made.compiler, int(port)) if is_private else None
        gc.collect()
        gc.freeze()  # each later collection would walk through MkDocs, the theme and the course again
        gc.set_threshold(*_COLLECT_AT)
        made._changed = set()
        made._prepare = server.builder
        made.builder = made._take_changes
        made.build_delay = _SETTLED_S
        made.observer = watchdog.observers.Observer()  # type: ignore[assignment]
        for path in server._watched_paths:
            made.watch(path)
        server.server_close()
        return made

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
        heard = _Errors()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(heard)
        try:
            if not self.preview.refresh(paths):
                self._prepare()
        except Exception as error:
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            said = "\n".join(heard.messages) or f"{type(error).__name__}: {error}"
            self.preview.failed(self.explain() or said)
            log.error("The last good site stays up. Repair what is named above and save.")
        finally:
            logger.removeHandler(heard)
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
        found = self.preview.file(inside)
        if found is None:
            return _redirect(f"{path}/", start_response) if self.preview.page(url) is not None else None
        try:
            content = found.read_bytes() if isinstance(found, Path) else found
        except OSError:
            return None
        kind = str(self._guess_type(inside))  # type: ignore[no-untyped-call]
        return _answer(content, kind, start_response)

    def _compile(
        self, requests: CompileRequests, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> list[bytes]:
        """A text that the Playground, or a panel with its editor, wants compiled."""
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
        """What is new about an open page, once there is something."""
        asked = urllib.parse.parse_qs(query)
        address, seen = (asked.get(name, [""])[0] for name in ("page", "seen"))
        url = address.removeprefix(self.mount_path)
        found = self.preview.update(url, seen, self.poll_response_timeout / 2)
        return _answer(json.dumps(found).encode(), "application/json", start_response)

    def _inject_js_into_html(self, content: bytes, url: str) -> bytes:
        found = self.preview.snapshot(url)
        settings = {name: found[name] for name in ("problem", "assets", "seen")}
        script = _SCRIPT.read_text(encoding="utf-8").replace(
            '"LIVE_SETTINGS"', json.dumps(settings).replace("</", "<\\/")
        )
        styles = _STYLES.read_text(encoding="utf-8")
        asked = self.compile_requests
        compiler = compiler_meta(_COMPILE, asked.token) if asked is not None else ""
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
    """Keeps what a build logged as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
