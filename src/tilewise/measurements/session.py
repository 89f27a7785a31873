"""The session: what ``measure`` does instead of printing, while a lesson is recorded or counted.

In: a handler from a command. Out: the handler that is installed now, if any. Nothing here runs anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement


class Handler(Protocol):
    """Takes each experiment of a lesson, in order."""

    def __call__(self, experiment: Experiment) -> Measurement:
        """Do with it what the command is for; what comes back is what ``measure`` returns to the lesson."""


_HANDLER: ContextVar[Handler | None] = ContextVar("tilewise_measure_handler", default=None)


def handler() -> Handler | None:
    """The handler that is installed now."""
    return _HANDLER.get()


@contextmanager
def handled_by(new: Handler) -> Iterator[None]:
    """Hand experiments to ``new`` for the length of a ``with`` block."""
    token = _HANDLER.set(new)
    try:
        yield
    finally:
        _HANDLER.reset(token)
