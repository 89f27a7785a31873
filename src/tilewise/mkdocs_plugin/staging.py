"""Builds for ``mkdocs serve``: made beside the served folder, then moved into it as a whole.

In: a finished build in a staging folder and MkDocs's list of files. Out: the served folder with the same
content; only what changed is touched, and a build that fails leaves the last good site as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from mkdocs.structure.files import File, Files, InclusionLevel


class StagedFiles(Files):
    """The files of one build, of which ``Staging`` copies what changed, instead of MkDocs everything."""

    def copy_static_files(
        self,
        dirty: bool = False,
        *,
        inclusion: Callable[[InclusionLevel], bool] = InclusionLevel.is_included,
    ) -> None:
        """Nothing: ``Staging.publish`` copies."""


class Staging:
    """The served folder and what is known to lie in it.

    Args:
        served: the folder that the server serves.
    """

    def __init__(self, served: Path) -> None:
        self.served = served
        self.folder = served.with_name(f"{served.name}_next")
        self._copied: dict[str, object] = {}

    def publish(self, files: Files) -> None:
        """Bring the served folder up to date with the staging folder and the build's static files."""
        present: set[str] = set()
        for folder, _, names in os.walk(self.folder):
            inside = os.path.relpath(folder, self.folder)
            target = self.served / inside
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                path = os.path.normpath(os.path.join(inside, name))
                present.add(path)
                self._copied.pop(path, None)
                os.replace(os.path.join(folder, name), target / name)
        for file in files:
            path = os.path.normpath(file.dest_uri)
            if not file.is_documentation_page() and file.inclusion.is_in_serve() and path not in present:
                present.add(path)
                self._copy(file, path)
        self._remove_others(present)

    def remove(self) -> None:
        """Delete the staging folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _copy(self, file: File, path: str) -> None:
        content = file._content
        mark: object = content
        if content is None:
            assert file.abs_src_path is not None
            stat = os.stat(file.abs_src_path)
            mark = (file.abs_src_path, stat.st_mtime_ns, stat.st_size)
        if self._copied.get(path) == mark:
            return
        target = self.served / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.abs_src_path is not None and content is None:
            shutil.copyfile(file.abs_src_path, target)
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content or b"")
        self._copied[path] = mark

    def _remove_others(self, present: set[str]) -> None:
        for folder, _, names in os.walk(self.served, topdown=False):
            inside = os.path.relpath(folder, self.served)
            left = False
            for name in names:
                path = os.path.normpath(os.path.join(inside, name))
                if path in present:
                    left = True
                else:
                    os.unlink(os.path.join(folder, name))
                    self._copied.pop(path, None)
            if not left and inside != "." and not os.listdir(folder):
                os.rmdir(folder)
