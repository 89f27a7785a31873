"""The site's styles and scripts, built in the background.

In: the project's folder. Out: the folder of the built files when it is ready, or why the build failed. The
simulator for browsers is built last, because no page waits for it.
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
        progress: shows slow activities.
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
        """Set a callback that the thread calls when the files are ready or the build failed."""
        self._changed = tell

    def refresh(self) -> None:
        """Rebuild them if a source has changed; the old files stay in use meanwhile."""
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
            return  # it checks for changes when done
        self._thread = threading.Thread(target=self._build, name="assets", daemon=True)
        self._thread.start()

    def scripts(self) -> Path:
        """Wait for everything except ``WASM`` and return the folder.

        Raises:
            FrontendError: the build failed.
        """
        self._scripts.wait()
        if self.folder is None:
            raise FrontendError(self.problem)
        return self.folder

    def all(self) -> Path:
        """Wait for everything and return the folder.

        Raises:
            FrontendError: the build failed.
        """
        self.wait()
        if self.problem:
            raise FrontendError(self.problem)
        return self.scripts()

    def wait(self) -> None:
        """Wait until the build has finished or failed."""
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
