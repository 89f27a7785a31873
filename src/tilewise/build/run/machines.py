"""Other machines: what a lesson shows with the records of each further machine, without running it twice.

In: a cell that has run, and its namespace. Out: its outputs with another machine's records. Only cells that
read a record, or use what such a cell defined, run again, in one namespace per machine that shares everything
else with the lesson's.
"""

from __future__ import annotations

import copy
import dis
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from tilewise.build.run.job import RECORDED_ON

_CONTAINERS = (list, dict, set)
_LOADS = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})


@contextmanager
def records_of(machine: str) -> Iterator[None]:
    """Read one machine's records inside a ``with`` block, then restore the random states."""
    before = os.environ.get(RECORDED_ON)
    states = random.getstate(), np.random.get_state()
    os.environ[RECORDED_ON] = machine
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        if before is None:
            del os.environ[RECORDED_ON]
        else:
            os.environ[RECORDED_ON] = before


class OtherMachine:
    """A lesson's namespace with the records of one further machine."""

    def __init__(self, machine: str, own: dict[str, Any]) -> None:
        self.machine = machine
        self._own = own
        self._names: dict[str, Any] | None = None  # None: identical to the lesson's so far
        self._differ: set[str] = set()
        self._uses_other = False
        self._containers: dict[str, Any] = {}

    def before(self, code: CodeType) -> None:
        """Copy the lists, dicts and sets that the next cell may change."""
        names = self._own if self._names is None else self._names
        reached = reached_names(code, self._own)
        self._uses_other = not self._differ.isdisjoint(reached)
        self._containers = {
            name: copy.copy(names[name])
            for name in reached
            if type(names.get(name)) in _CONTAINERS and names[name] is self._own.get(name)
        }

    def after(
        self, before: Mapping[str, Any], new: Mapping[str, Any], read_a_record: bool
    ) -> dict[str, Any] | None:
        """Note that a cell has run in the lesson's namespace.

        Args:
            before: the namespace before the cell.
            new: the names that the cell bound.
            read_a_record: whether it opened or looked up a record.

        Returns:
            The namespace to run it in with the other machine's records; None if that is not needed.
        """
        if not read_a_record and not self._uses_other:
            self.share(new)
            return None
        if self._names is None:
            self._names = dict(self._own)
            for name in new:
                del self._names[name]
            self._take(before)
        for name, copied in self._containers.items():
            if _changed(self._own.get(name), copied) and name not in new:
                self._names[name] = copied
                self._differ.add(name)
        self._differ |= new.keys()
        return self._names

    def ran(self) -> None:
        """The cell has run in both namespaces: names with equal values count as shared again."""
        assert self._names is not None
        names = self._names
        self._differ = {name for name in self._differ if not _alike(names.get(name), self._own.get(name))}

    def share(self, new: Mapping[str, Any]) -> None:
        """Bind names that depend on no record."""
        if self._names is not None:
            self._take(new)
            self._differ -= new.keys()

    def _take(self, new: Mapping[str, Any]) -> None:
        """Copy names; the lesson's functions then look up their globals in this namespace."""
        assert self._names is not None
        self._names.update({name: self._moved(value) for name, value in new.items()})

    def _moved(self, value: Any) -> Any:
        if isinstance(value, FunctionType) and value.__globals__ is self._own:
            assert self._names is not None
            moved = FunctionType(
                value.__code__, self._names, value.__name__, value.__defaults__, value.__closure__
            )
            moved.__kwdefaults__ = value.__kwdefaults__
            moved.__dict__.update(value.__dict__)
            moved.__module__, moved.__qualname__, moved.__doc__ = (
                value.__module__, value.__qualname__, value.__doc__
            )  # fmt: skip
            return moved
        if type(value) is dict and any(isinstance(item, FunctionType) for item in value.values()):
            return {key: self._moved(item) for key, item in value.items()}
        return value


def reached_names(code: CodeType, names: Mapping[str, Any]) -> set[str]:
    """The global names that code may look up, directly or through functions of the namespace."""
    reached: set[str] = set()
    left = [code]
    while left:
        for name in _global_names(left.pop()) - reached:
            reached.add(name)
            left += [f.__code__ for f in _functions(names.get(name)) if f.__globals__ is names]
    return reached


@lru_cache(maxsize=4096)
def _global_names(code: CodeType) -> frozenset[str]:
    own = {str(op.argval) for op in dis.get_instructions(code) if op.opname in _LOADS}
    inner = (_global_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return frozenset(own.union(*inner))


def _functions(value: Any) -> list[FunctionType]:
    """A function, the methods of a class, or the functions in a container."""
    if isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    items = value if type(value) in (list, tuple) else [value]
    return [item for item in items if isinstance(item, FunctionType)]


def _alike(left: Any, right: Any) -> bool:
    """Whether two values are certainly equal; functions by code, because globals are compared separately."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, FunctionType):
        return left.__code__ == right.__code__ and _alike(_state(left), _state(right))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(_alike, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(map(_alike, left.values(), right.values()))
    if isinstance(left, np.ndarray):
        return bool(left.dtype == right.dtype and np.array_equal(left, right))
    if callable(getattr(left, "fingerprint", None)):  # kernels and cases
        return bool(left.fingerprint() == right.fingerprint())
    return isinstance(left, int | float | str | bytes | frozenset | set) and bool(left == right)


def _state(function: FunctionType) -> list[Any]:
    """A function's default values and closure."""
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    return [function.__defaults__, function.__kwdefaults__, closed]


def _changed(now: Any, copied: Any) -> bool:
    """Whether a container's objects differ from those of its copy."""
    if type(now) is not type(copied) or len(now) != len(copied):
        return True
    if isinstance(copied, dict):
        return any(name not in now or now[name] is not value for name, value in copied.items())
    if isinstance(copied, set):
        return bool(now != copied)
    return any(item is not copied_item for item, copied_item in zip(now, copied, strict=True))
