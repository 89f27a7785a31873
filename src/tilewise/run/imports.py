"""Which of the modules that a warm server has loaded a lesson would have loaded by itself.

In: the import statements that run in a process, seen one by one. Out: for a job, the modules that a process
of its own would hold at its end. Where that cannot be told, all count. Hashing files belongs to ``inputs``.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewise.run.inputs import PACKAGE

_OWN = PACKAGE.name
_WAYS_AROUND = ("importlib", "imp", "pkgutil", "runpy", "pickle")
"""Modules that load others without an import statement."""


class Imports:
    """Follows import statements from its making on: at first of the server, then of the job in its fork."""

    def __init__(self) -> None:
        self._always = {name for name in sys.modules if _is_own(name)}
        self._edges: dict[str, set[str]] = {}
        self._asked: set[str] = set()
        self._everything = False
        self._before: set[str] = set()
        self._import = builtins.__import__
        builtins.__import__ = self._followed

    def begin(self) -> None:
        """A job begins in this process; what was imported so far was the server's doing."""
        self._asked.clear()
        self._before = set(sys.modules)

    def unused(self) -> frozenset[str]:
        """The modules of tilewise that are loaded and that the job's own imports do not reach."""
        if self._everything:
            return frozenset()
        reached: set[str] = set()
        pending = [*self._always, *self._asked, *(name for name in sys.modules if name not in self._before)]
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending += self._edges.get(name, ())
        return frozenset(name for name in sys.modules if _is_own(name) and name not in reached)

    def _followed(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        module = self._import(name, globals, locals, fromlist or (), level)
        importer = str((globals or {}).get("__name__", ""))
        if level == 0 and not _is_own(name):
            if name.split(".", maxsplit=1)[0] in _WAYS_AROUND and self._is_the_lessons(globals):
                self._everything = True
            return module
        package = str((globals or {}).get("__package__") or "") if level else ""
        base = package.rsplit(".", level - 1)[0] if level else ""
        target = ".".join(part for part in (base, name) if part)
        found = set(_with_parents(target))
        if target == _OWN and self._is_the_lessons(globals) and not (fromlist and "*" not in fromlist):
            self._everything = True  # any of its names may be used later, each of which loads its module
        for entry in fromlist or ():
            found |= set(_with_parents(f"{target}.{entry}")) & sys.modules.keys()
            home = getattr(sys.modules.get(target), "_HOME", {}).get(entry)
            found |= set(_with_parents(home)) if home else set()
        self._asked |= found
        self._edges.setdefault(importer, set()).update(found)
        return module

    @staticmethod
    def _is_the_lessons(globals: Mapping[str, Any] | None) -> bool:
        """Whether an import statement stands in the lesson or in a module of its project."""
        file = str((globals or {}).get("__file__") or "")
        inside = file.startswith((str(PACKAGE), sys.prefix, sys.base_prefix)) or file.startswith("<")
        return bool(file) and not inside


def _is_own(name: str) -> bool:
    return name == _OWN or name.startswith(f"{_OWN}.")


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]
