"""The server of ``mkdocs serve``: tells the open page what changed, or what went wrong.

In: the server that MkDocs made. Out: one in its place that sees a save at once, keeps the last good site up
when a build fails, and puts ``live.js`` into pages instead of MkDocs's reload. It overrides three methods of
``LiveReloadServer`` that MkDocs does not promise to keep; ``replay.requires_versions`` pins the release.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
import urllib.parse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import watchdog.events
import watchdog.observers
from mkdocs.livereload import LiveReloadServer

log = logging.getLogger("mkdocs.plugins.tilewise")

_SCRIPT = Path(__file__).with_name("live.js")
_CHANGES = frozenset({"created", "modified", "moved", "deleted"})
"""What an editor does; opening and closing a file raises events too."""
_SETTLED_S = 0.015
"""How long nothing may happen before a build starts: an editor's save is several events."""
_NOISE = re.compile(r"(^|/)(\.[^/]*|__pycache__|[^/]*~|[^/]*\.(swp|swx|tmp|pyc)|#[^/]*#|4913)(/|$)")


class LiveServer(LiveReloadServer):
    """MkDocs's server, which does not fall over a failed build."""

    _build: Callable[[], None]
    _problem: str
    explain: Callable[[], str]
    """What the last build failed of, in the author's words; empty where it is no lesson's fault."""
    assets: Callable[[], str]
    """A name of the present styles and scripts: when it changes, pages are loaded anew."""

    @classmethod
    def instead_of(
        cls, server: LiveReloadServer, assets: Callable[[], str], explain: Callable[[], str]
    ) -> LiveServer:
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
        made.assets, made.explain = assets, explain
        made._problem = ""
        made._build = server.builder
        made.builder = made._try_build
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
            self._want_rebuild = True
            self._rebuild_cond.notify_all()

    def _try_build(self) -> None:
        heard = _Errors()
        logger = logging.getLogger("mkdocs")
        logger.addHandler(heard)
        try:
            self._build()
            self._problem = ""
        except Exception as error:
            if not isinstance(error, SystemExit):
                traceback.print_exc()
            self._problem = self.explain() or "\n".join(heard.messages) or f"{type(error).__name__}: {error}"
            log.error("The last good site stays up. Repair what is named above and save.")
        finally:
            logger.removeHandler(heard)
            sys.stderr.flush()

    def _serve_request(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes] | None:
        if match := re.fullmatch(r"/livereload/tilewise/([0-9]+)", environ["PATH_INFO"]):
            seen = int(match[1])
            with self._epoch_cond:
                self._epoch_cond.wait_for(
                    lambda: self._visible_epoch > seen, timeout=self.poll_response_timeout
                )
                state: dict[str, Any] = {
                    "epoch": self._visible_epoch,
                    "problem": self._problem,
                    "assets": self.assets(),
                }
                if self._visible_epoch > seen:
                    state["html"] = self._page(environ.get("QUERY_STRING", ""))
            start_response("200 OK", [("Content-Type", "application/json"), ("Cache-Control", "no-store")])
            return [json.dumps(state).encode()]
        return super()._serve_request(environ, start_response)

    def _page(self, query: str) -> str | None:
        """The page at the address in a query, which spares the browser a request; None where unsure."""
        address = urllib.parse.parse_qs(query).get("page", [""])[0]
        if not address.startswith(self.mount_path) or not address.endswith("/"):
            return None
        root = Path(self.root).resolve()
        file = (root / address.removeprefix(self.mount_path) / "index.html").resolve()
        if not file.is_relative_to(root) or not file.is_file():
            return None
        return file.read_text(encoding="utf-8")

    def _inject_js_into_html(self, content: bytes, epoch: int) -> bytes:
        settings = json.dumps({"epoch": epoch, "assets": self.assets(), "problem": self._problem})
        script = _SCRIPT.read_text(encoding="utf-8").replace(
            '"LIVE_SETTINGS"', settings.replace("</", "<\\/")
        )
        start, end, rest = content.rpartition(b"</body>")
        return b"".join(
            [start or rest, b"<script>", script.encode(), b"</script>", end, rest if start else b""]
        )


class _Errors(logging.Handler):
    """Keeps what a build logged as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
