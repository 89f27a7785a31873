"""Other machines: what a lesson shows with the records of each further machine, without running it twice.

In: a cell that has run, and the namespace it ran in. Out: what it shows with another machine's records. Only
cells that read a record, or use what such a cell defined, run once more, each machine's in a namespace that
shares everything else with the lesson's own.
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
    """Read the records of one machine for the length of a ``with`` block, with the same random numbers."""
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
    """A lesson's names as they are with the records of one further machine."""

    def __init__(self, machine: str, own: dict[str, Any]) -> None:
        self.machine = machine
        self._own = own
        self._names: dict[str, Any] | None = None  # None: all are the lesson's own so far
        self._differ: set[str] = set()
        self._uses_other = False
        self._containers: dict[str, Any] = {}

    def before(self, code: CodeType) -> None:
        """A cell is about to run: keep the lists, dicts and sets that it may change."""
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
        """A cell has run in the lesson's own namespace.

        Args:
            before: that namespace before.
            new: what the cell has bound in it.
            read_a_record: whether it opened or looked for a record.

        Returns:
            The namespace to run it in with the other machine's records; None where it need not.
        """
        if not read_a_record and not self._uses_other:
            self.share(new)
            return None
        if self._names is None:
            self._names = dict(self._own)
            for name in new:
                del self._names[name]
            self._take(before)
        for name, kept in self._containers.items():
            if _changed(self._own.get(name), kept) and name not in new:
                self._names[name] = kept
                self._differ.add(name)
        self._differ |= new.keys()
        return self._names

    def ran(self) -> None:
        """The cell has run in the other namespace too: what has come out alike counts as shared."""
        assert self._names is not None
        names = self._names
        self._differ = {name for name in self._differ if not _alike(names.get(name), self._own.get(name))}

    def share(self, new: Mapping[str, Any]) -> None:
        """What no record decides is bound to names."""
        if self._names is not None:
            self._take(new)
            self._differ -= new.keys()

    def _take(self, new: Mapping[str, Any]) -> None:
        """Take over names; functions of the lesson look up their globals in this namespace."""
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
        if type(value) is dict and any(isinstance(one, FunctionType) for one in value.values()):
            return {key: self._moved(one) for key, one in value.items()}
        return value


def reached_names(code: CodeType, names: Mapping[str, Any]) -> set[str]:
    """The global names that code may look up, at first hand or through functions of the namespace."""
    found: set[str] = set()
    left = [code]
    while left:
        for name in _global_names(left.pop()) - found:
            found.add(name)
            left += [one.__code__ for one in _functions(names.get(name)) if one.__globals__ is names]
    return found


@lru_cache(maxsize=4096)
def _global_names(code: CodeType) -> frozenset[str]:
    own = {str(one.argval) for one in dis.get_instructions(code) if one.opname in _LOADS}
    inner = (_global_names(one) for one in code.co_consts if isinstance(one, CodeType))
    return frozenset(own.union(*inner))


def _functions(value: Any) -> list[FunctionType]:
    """A function, the methods of a class, or the functions in a container."""
    if isinstance(value, type):
        value = vars(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    several = value if type(value) in (list, tuple) else [value]
    return [one for one in several if isinstance(one, FunctionType)]


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are surely equal; of functions their code, as their globals are looked at apart."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, FunctionType):
        return one.__code__ == other.__code__ and _alike(_held(one), _held(other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(_alike, one.values(), other.values()))
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other))
    if callable(getattr(one, "fingerprint", None)):  # kernels and cases
        return bool(one.fingerprint() == other.fingerprint())
    return isinstance(one, int | float | str | bytes | frozenset | set) and bool(one == other)


def _held(function: FunctionType) -> list[Any]:
    """What a function holds besides its code: default values, and what it closes over."""
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    return [function.__defaults__, function.__kwdefaults__, closed]


def _changed(now: Any, kept: Any) -> bool:
    """Whether a container holds other objects than its copy."""
    if type(now) is not type(kept) or len(now) != len(kept):
        return True
    if isinstance(kept, dict):
        return any(name not in now or now[name] is not value for name, value in kept.items())
    if isinstance(kept, set):
        return bool(now != kept)
    return any(one is not other for one, other in zip(now, kept, strict=True))
