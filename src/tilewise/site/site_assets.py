"""The site's styles and scripts, built while other work goes on.

In: the project's folder. Out: the folder of the built files once it is there, or why it could not be built.
The simulator for browsers comes last, since no page waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from tilewise.build.progress import Progress
from tilewise.site.frontend import WASM, FrontendError, add_wasm, assets_folder, build_scripts

log = logging.getLogger("mkdocs.plugins.tilewise")


class SiteAssets:
    """Builds styles and scripts in a thread.

    Args:
        root: the project's folder.
        progress: mentions what lasts.
    """

    def __init__(self, root: Path, progress: Progress) -> None:
        self._root = root
        self._progress = progress
        self._changed: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._wanted = Path()
        self._scripts = threading.Event()
        self.folder: Path | None = None
        self.problem = ""

    def when_changed(self, tell: Callable[[], None]) -> None:
        """Tell, from a thread, when they are there or could not be built."""
        self._changed = tell

    def refresh(self) -> None:
        """Build them if a source has changed; those there are stay in use meanwhile."""
        wanted = assets_folder(self._root)
        if wanted == self._wanted and not self.problem:
            return
        self._wanted = wanted
        if wanted.is_dir():
            self.folder, self.problem = wanted, ""
            self._scripts.set()
            if (wanted / WASM).is_file():
                return
        if self._thread is not None and self._thread.is_alive():
            return  # it looks again when it is done
        self._thread = threading.Thread(target=self._build, name="assets", daemon=True)
        self._thread.start()

    def scripts(self) -> Path:
        """The folder, once all of it but ``WASM`` is there.

        Raises:
            FrontendError: it could not be built.
        """
        self._scripts.wait()
        if self.folder is None:
            raise FrontendError(self.problem)
        return self.folder

    def all(self) -> Path:
        """The folder, once all of it is there.

        Raises:
            FrontendError: it could not be built.
        """
        self.wait()
        if self.problem:
            raise FrontendError(self.problem)
        return self.scripts()

    def wait(self) -> None:
        """Wait until all of it is there, or cannot be built."""
        if self._thread is not None:
            self._thread.join()

    def _build(self) -> None:
        folder = None
        try:
            while folder != self._wanted:
                folder = build_scripts(self._root, self._progress.during)
                self.folder, self.problem = folder, ""
                self._scripts.set()
                self._changed()
                add_wasm(folder, self._progress.during)
        except FrontendError as error:
            self.problem = str(error)
        except OSError as error:
            self.problem = f"The site's styles and scripts could not be built: {error}."
        if self.problem:
            log.error(self.problem)
        self._scripts.set()
        self._changed()
