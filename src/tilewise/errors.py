"""Errors for the author of a lesson: one line that names the place, the fault and the repair.

``LessonError`` is raised by parsing, ordering, running and rendering; any other exception is a bug of
tilewise and keeps its traceback. The commands and the site print and collect errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

LONGEST_LINE = 300
"""Maximum length of a message, and of a repair, in characters."""


class LessonError(Exception):
    """A fault in a lesson, a record or the navigation, for its author.

    Attributes:
        path: the file, relative to the project, e.g. ``lessons/kernels/grids.py``.
        line: the line in that file, from 1; 0 if there is none to name.
        message: what is wrong, one sentence.
        repair: what to do about it, one sentence; may be empty.
        details: longer text (a kernel's compiler messages) for a terminal to show below; often empty.
    """

    def __init__(self, path: str, line: int, message: str, repair: str = "", details: str = "") -> None:
        self.path = path
        self.line = line
        self.message = one_line(message)
        self.repair = one_line(repair)
        self.details = details
        super().__init__(path, line, message, repair, details)

    @property
    def errors(self) -> tuple[LessonError, ...]:
        """The faults it represents: itself, or those it contains."""
        return (self,)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return " ".join(part for part in (f"{place}:", self.message, self.repair) if part)


class LessonErrors(LessonError):  # noqa: N818 - the plural of an exception
    """Several faults found together; its place is that of the first."""

    def __init__(self, errors: Sequence[LessonError]) -> None:
        first = errors[0]
        super().__init__(first.path, first.line, first.message, first.repair, first.details)
        self._errors = tuple(errors)

    @property
    def errors(self) -> tuple[LessonError, ...]:
        """The faults it contains, in the order in which they were found."""
        return self._errors

    def __reduce__(self) -> tuple[type[LessonErrors], tuple[tuple[LessonError, ...]]]:
        return (LessonErrors, (self._errors,))

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self._errors)


def raise_all(errors: Sequence[LessonError]) -> None:
    """Raise a single error as it is, several as ``LessonErrors``; return if there are none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise LessonErrors(errors)


def one_line(text: str) -> str:
    """``text`` as one line for a terminal: whitespace collapsed, no control characters, truncated."""
    start = text[: 8 * LONGEST_LINE]
    line = " ".join("".join(sign if sign.isprintable() else _printable(sign) for sign in start).split())
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE].rstrip()} …"


def _printable(sign: str) -> str:
    return " " if sign.isspace() else "\N{REPLACEMENT CHARACTER}"


def nearest(name: str, names: Iterable[str]) -> str:
    """A repair that suggests close names.

    Args:
        name: the unknown name.
        names: the existing names.

    Returns:
        ``Did you mean "a" or "b"?``, or, if nothing is close, ``There is "a", "b", ...`` for a short list, or
        an empty string.
    """
    known = sorted(set(names))
    folded = {entry.casefold(): entry for entry in reversed(known)}
    close = [folded[match] for match in get_close_matches(name.casefold(), folded, cutoff=0.6)]
    if close:
        return f"Did you mean {any_of(close)}?"
    if 0 < len(known) <= 12:
        return f"There is {all_of(known)}."
    return ""


def any_of(names: Sequence[str]) -> str:
    """``"a", "b" or "c"``."""
    return _joined(names, "or")


def all_of(names: Sequence[str]) -> str:
    """``"a", "b" and "c"``."""
    return _joined(names, "and")


def _joined(names: Sequence[str], word: str) -> str:
    quoted = [f'"{name}"' for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"
