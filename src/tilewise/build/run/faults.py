"""Turns any exception that a cell raises into one line for its author, with the lesson's path and line.

In: an exception in the child that executes a lesson. Out: a ``LessonError`` without a traceback. The caller
decides what to do about it.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from tilewise.build.run.inputs import PACKAGE
from tilewise.build.run.job import CodeCell, Job
from tilewise.errors import LessonError


class OutOfTime(BaseException):
    """Raised inside a cell when its time is up; ``except Exception`` does not catch it."""


def out_of_time(*_: object) -> None:
    """The signal handler for a lesson's time limit."""
    raise OutOfTime


@contextmanager
def told(job: Job, cell: CodeCell) -> Iterator[None]:
    """Convert what a cell raises in the ``with`` block to an error with the lesson's line.

    Raises:
        LessonError: the cell raised something, left Python, or took too long.
    """
    try:
        yield
    except LessonError as error:
        path, line = error.path or job.path, error.line
        if not line and path == job.path:
            line = _line(job, cell)
        raise LessonError(path, line, error.message, error.repair, error.details) from None
    except OutOfTime:
        message = f"the lesson runs for more than {job.time_limit_s:g} s; this is where it was."
        repair = "Look for a loop that does not end, or take a smaller size."
        raise LessonError(job.path, _line(job, cell), message, repair) from None
    except SystemExit as error:
        message = f"the cell leaves Python by sys.exit({'' if error.code is None else repr(error.code)})."
        repair = "Raise an exception instead; a lesson goes on to its end."
        raise LessonError(job.path, _line(job, cell), message, repair) from None
    except BaseException as error:
        details = str(getattr(error, "details", "") or "")
        message = _message(job, cell, error) + _elsewhere(job, error)
        raise LessonError(job.path, _line(job, cell), message, "", details) from None


def _line(job: Job, cell: CodeCell) -> int:
    """The lesson's line that raised the exception being handled, or the cell's line."""
    lesson_line = cell.line
    for frame, line in traceback.walk_tb(sys.exc_info()[2]):
        if frame.f_code.co_filename == job.path:
            lesson_line = line
    return lesson_line


def _message(job: Job, cell: CodeCell, error: BaseException) -> str:
    kind = type(error)
    try:
        text = str(error).strip().replace(job.root + os.sep, "")
    except Exception as fault:  # an exception's ``__str__`` may itself raise
        text = f"its text cannot be shown, {type(fault).__name__}"
    if isinstance(error, SyntaxError):
        text = str(error.msg)
    if isinstance(error, ImportError):
        text = re.sub(r" \([^()]*\)$", "", text)  # the path of the module that lacks the name
    if kind is AssertionError and not text:
        line = _line(job, cell)
        return f"an assertion does not hold: {job.lines[line - 1].strip()}"
    if kind.__module__.startswith("tilewise") or kind is AssertionError:
        return text or kind.__name__
    if kind in (ValueError, TypeError) and _is_ours(error):
        return text
    return f"{kind.__name__}: {text}" if text else kind.__name__


def _elsewhere(job: Job, error: BaseException) -> str:
    """Where in a module of the project it was raised, outside the lesson: ``, in lessons/part/code.py:3``."""
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno or 1))
    home = job.root + os.sep
    for path, line in reversed(places):
        own = path.removeprefix(home)
        if own == job.path:
            return ""
        if path.startswith(home) and "site-packages" not in path and not path.startswith(str(PACKAGE)):
            return f", in {own}:{line}"
    return ""


def _is_ours(error: BaseException) -> bool:
    """Whether tilewise itself raised the error."""
    frames = list(traceback.walk_tb(error.__traceback__))
    return bool(frames) and frames[-1][0].f_code.co_filename.startswith(str(PACKAGE))
