"""What went wrong, in words for authors.

In: errors of lessons and of formulas. Out: errors at an author's own line, and the text that the open page
shows while ``mkdocs serve`` waits for a repair.
"""

from __future__ import annotations

import logging

from tilewise.errors import LessonError
from tilewise.site.math import UnreadableFormula


def formula_fault(error: UnreadableFormula, path: str, text: str) -> LessonError:
    """The error of a formula that cannot be read, where it stands in the file that its author edits."""
    before, found, _ = text.partition(error.tex)
    line = before.count("\n") + 1 if found else 0
    return LessonError(path, line, str(error), "Write it in TeX that latex2mathml knows.")


def explained(failure: LessonError) -> str:
    """Every error of a failed build with its details, one below the other."""
    return "\n".join(f"{fault}\n{fault.details}" if fault.details else str(fault) for fault in failure.errors)


def let_warnings_count(strict: bool) -> None:
    """Let warnings be heard where they are faults: of those that ``-q`` silences MkDocs counts none."""
    log = logging.getLogger("mkdocs")
    if strict and log.level > logging.WARNING:
        log.setLevel(logging.WARNING)
