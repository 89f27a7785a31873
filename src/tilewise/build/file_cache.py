"""A cache of values in a folder, from one build to the next, each under a hash of its inputs.

In: keys and bytes. Out: the same bytes later, or None. Files are written atomically, and an unreadable one
counts as absent.
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
    """Create a folder for caches if it is missing, and return it.

    Raises:
        CacheError: it is not writable, or belongs to another user, who could have put anything into it.
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
    """A hash of a value's inputs; parts are strings, bytes, or objects that ``str`` distinguishes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        digest.update(str(len(data)).encode() + b":" + data)
    return digest.hexdigest()[:40]


class FileCache:
    """A folder of cached values, of which ``tidy`` keeps the ``at_most`` most recently used."""

    def __init__(self, folder: Path, at_most: int) -> None:
        self._folder = folder
        self._at_most = at_most
        self._wrote = False

    def get(self, key: str) -> bytes | None:
        """The bytes cached under a key."""
        file = self._folder / key
        try:
            content = file.read_bytes()
            os.utime(file)
        except OSError:
            return None
        return content

    def put(self, key: str, content: bytes) -> None:
        """Cache bytes under a key; does nothing if the disk is full."""
        temporary = self._folder / f"{key}.{os.getpid()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            temporary.replace(self._folder / key)
        except OSError:
            temporary.unlink(missing_ok=True)
        self._wrote = True

    def load(self, key: str, kind: type) -> Any:
        """The object cached under a key, if it is of this type."""
        content = self.get(key)
        if content is None:
            return None
        try:
            value = pickle.loads(content)
        except Exception:  # whatever a damaged pickle raises
            return None
        return value if isinstance(value, kind) else None

    def store(self, key: str, value: object) -> None:
        """Cache an object under a key."""
        self.put(key, pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))

    def made(self, key: str, kind: type[T], make: Callable[[], T]) -> T:
        """The cached object, or a new one, which is then cached.

        Args:
            key: a result of ``key_of``.
            kind: the object's type; a cached object of another type is replaced.
            make: creates it; its exceptions propagate, and nothing is cached.
        """
        value: T | None = self.load(key, kind)
        if value is None:
            value = make()
            self.store(key, value)
        return value

    def tidy(self) -> None:
        """Delete the least recently used values beyond ``at_most``."""
        if not self._wrote:
            return
        self._wrote = False
        with contextlib.suppress(FileNotFoundError):  # another process may tidy at the same time
            files = sorted((file.stat().st_mtime_ns, file) for file in self._folder.iterdir())
            for _, file in files[: -self._at_most]:
                file.unlink()
