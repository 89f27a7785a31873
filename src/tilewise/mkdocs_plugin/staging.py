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
        self._copied: dict[Path, object] = {}
        self._pages: dict[Path, str] = {}
        self._same: set[Path] = set()

    def leave(self, file: File, output: str) -> None:
        """Spare MkDocs writing a page that lies in the served folder already, word for word."""
        inside = Path(file.dest_uri)
        if self._pages.get(inside) == output:
            file.abs_dest_path = os.devnull
            self._same.add(inside)
        self._pages[inside] = output

    def publish(self, files: Files) -> None:
        """Bring the served folder up to date with the staging folder and the build's static files."""
        present = self._same
        self._same = set()
        for made in self.folder.rglob("*"):
            inside = made.relative_to(self.folder)
            target = self.served / inside
            if made.is_dir():
                _make_folder(target)
                continue
            present.add(inside)
            self._copied.pop(inside, None)
            _make_folder(target.parent)
            made.replace(target)
        for file in files:
            inside = Path(file.dest_uri)
            if not file.is_documentation_page() and _is_served(file) and inside not in present:
                present.add(inside)
                self._copy(file, inside)
        self._remove_others(present)

    def forget(self) -> None:
        """After a build that failed: what it had made was not published."""
        self._pages.clear()
        self._same.clear()

    def remove(self) -> None:
        """Delete the staging folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _copy(self, file: File, inside: Path) -> None:
        content = file._content
        mark: object = content
        source = Path(file.abs_src_path) if file.abs_src_path is not None else None
        if content is None and source is not None:
            stat = source.stat()
            mark = (source, stat.st_mtime_ns, stat.st_size)
        if self._copied.get(inside) == mark:
            return
        target = self.served / inside
        _make_folder(target.parent)
        if content is None and source is not None:
            shutil.copyfile(source, target)
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content or b"")
        self._copied[inside] = mark

    def _remove_others(self, present: set[Path]) -> None:
        for found in sorted(self.served.rglob("*"), reverse=True):
            inside = found.relative_to(self.served)
            if found.is_dir():
                if not any(found.iterdir()):
                    found.rmdir()
            elif inside not in present:
                found.unlink()
                self._copied.pop(inside, None)
                self._pages.pop(inside, None)


def _make_folder(folder: Path) -> None:
    """Make a folder, also where a file of an earlier build lies in its way."""
    if folder.is_dir():
        return
    if folder.is_file():
        folder.unlink()
    if folder.parent != folder:
        _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)


def _is_served(file: File) -> bool:
    return int(file.inclusion.value) >= int(InclusionLevel.DRAFT.value)
