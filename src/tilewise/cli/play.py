"""``tilewise play``: the Playground in a browser, with your own CUDA file.

In: a file, or nothing. Out: a server on this machine until it is interrupted. The file is read once and never
written; edits stay in the page.
"""

from __future__ import annotations

import errno
import webbrowser
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewise.cli.trace import cache_root, text_of
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.site.play.server import PlayServer

PORT = 8017
"""The port tried first, so that shared links also work on other machines."""
_TRIED = 20


def play(arguments: Namespace) -> int:
    """Serve the Playground until it is interrupted.

    Returns:
        0.

    Raises:
        LessonError: there is no such file, the port is taken, or the scripts cannot be built.
    """
    from tilewise.site.frontend import FrontendError, build_assets
    from tilewise.site.play.requests import MOST_LETTERS

    text, file = None, arguments.file
    if file is not None:
        if not Path(file).is_file():
            raise LessonError(file, 0, "there is no such file.")
        text = text_of(file, Path(file))
        if len(text) > MOST_LETTERS:
            raise LessonError(
                file, 0, f"the file has more than {MOST_LETTERS:,} letters.", "Give the kernel alone."
            )
    try:
        assets = build_assets(cache_root())
    except FrontendError as error:
        raise LessonError("tilewise play", 0, "the page cannot be built.", str(error)) from None
    with _server(assets, arguments.port, text, Path(file).name if file else "") as server:
        print(f"Playground: {server.address}  (Ctrl+C ends it)", flush=True)
        if not arguments.no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _server(assets: Path, port: int | None, text: str | None, name: str) -> PlayServer:
    """The server, at the requested port or the first free one.

    Raises:
        LessonError: no port is free.
    """
    from tilewise.site.play.server import PlayServer

    ports = [port] if port is not None else [*range(PORT, PORT + _TRIED), 0]
    for candidate in ports:
        try:
            return PlayServer(assets, candidate, text, name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or candidate == ports[-1]:
                raise LessonError(
                    "tilewise play",
                    0,
                    f"port {candidate} cannot be used: {error.strerror}.",
                    "Name another with --port, or none.",
                ) from None
    raise AssertionError("the last port is tried or refused")
