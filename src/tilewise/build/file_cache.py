"""Values kept in a folder from one build to the next, each under a key that says what it was made of.

In: keys and bytes. Out: the same bytes later, or nothing. A file is written whole or not at all, and one that
cannot be read counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class CacheError(Exception):
    """The cache's folder cannot be used; the message says why, and what to do."""


def usable(folder: Path) -> Path:
    """A folder for caches, made where it is missing.

    Raises:
        CacheError: it belongs to another user, who could have put anything into it, or cannot be written.
    """
    repair = f"Delete it, or name a folder of your own: TILEWISE_CACHE=/path/to/folder. ({folder})"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = folder.stat().st_uid
        probe = folder / f".writable-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise CacheError(f"the cache cannot be written: {error.strerror}. {repair}") from None
    if hasattr(os, "getuid") and owner != os.getuid():
        raise CacheError(f"the cache belongs to another user (number {owner}). {repair}")
    return folder


def key_of(*parts: object) -> str:
    """A hash of what a value is made of; parts are texts, bytes, or what ``repr`` tells apart."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(str(len(data)).encode() + b":" + data)
    return digest.hexdigest()[:40]


class FileCache:
    """A folder of kept values, of which ``tidy`` leaves the ``at_most`` used last."""

    def __init__(self, folder: Path, at_most: int) -> None:
        self._folder = folder
        self._at_most = at_most
        self._wrote = False

    def get(self, key: str) -> bytes | None:
        """The bytes kept under a key."""
        file = self._folder / key
        try:
            content = file.read_bytes()
            os.utime(file)
        except OSError:
            return None
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep bytes under a key; nothing happens where the disk is full."""
        made = self._folder / f"{key}.{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            made.write_bytes(content)
            made.replace(self._folder / key)
        except OSError:
            made.unlink(missing_ok=True)
        self._wrote = True

    def load(self, key: str, kind: type) -> Any:
        """The object kept under a key, if it is of this type."""
        content = self.get(key)
        if content is None:
            return None
        try:
            found = pickle.loads(content)
        except Exception:  # whatever a damaged pickle raises
            return None
        return found if isinstance(found, kind) else None

    def store(self, key: str, value: object) -> None:
        """Keep an object under a key."""
        self.put(key, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))

    def made(self, key: str, kind: type[T], make: Callable[[], T]) -> T:
        """The object kept under a key, or made and kept.

        Args:
            key: as ``key_of`` makes it.
            kind: the object's type; what is kept and is of another type is made anew.
            make: makes it; what it raises is raised, and nothing is kept.
        """
        found: T | None = self.load(key, kind)
        if found is None:
            found = make()
            self.store(key, found)
        return found

    def tidy(self) -> None:
        """Delete the values that were not used for longest, where there are many."""
        if not self._wrote:
            return
        self._wrote = False
        with contextlib.suppress(FileNotFoundError):  # another process may tidy at the same time
            files = sorted((file.stat().st_mtime_ns, file) for file in self._folder.iterdir())
            for _, file in files[: -self._at_most]:
                file.unlink()
