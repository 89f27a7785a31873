"""``tilewise puzzle``: list the puzzles, start one, check an answer, or print a hint.

In: a puzzle's name, and the current folder, where answers are kept. Out: lines on stdout and an exit status;
what is wrong with an answer comes as a ``LessonError``.
"""

from __future__ import annotations

import shutil
import textwrap
from argparse import Namespace
from pathlib import Path

from tilewise.errors import LessonError
from tilewise.outputs.table import Column, Table
from tilewise.puzzles.answers import answer, write_start
from tilewise.puzzles.catalogue import NAMES, following, named
from tilewise.puzzles.judging import judge
from tilewise.puzzles.model import Puzzle, plain_text
from tilewise.puzzles.wording import solved
from tilewise.simulator import ToolchainError

WIDEST = 100
"""Columns that a hint fills at most."""


def puzzle(given: Namespace) -> int:
    """Do what the command's words say.

    Returns:
        0; an answer that is not right raises.

    Raises:
        LessonError: there is no such puzzle, file or hint, or the answer is not right yet.
    """
    words, hint, file = given.words, given.hint, given.file
    begins = bool(words) and words[0] == "start"
    names = words[1:] if begins else words
    if len(names) > 1 or (begins and not names) or (hint is not None and (begins or not names)):
        repair = "Name one: `tilewise puzzle kernels/guard` or `tilewise puzzle start kernels/guard`."
        raise LessonError("tilewise puzzle", 0, "the command takes one puzzle at a time.", repair)
    if not names:
        return _list()
    found = named(names[0])
    if begins:
        return _begin(found, file)
    if hint is not None:
        return _hint(found, hint)
    return _check(found, file)


def _list() -> int:
    rows = [(name, named(name).title, _state(named(name))) for name in NAMES]
    print(Table(["puzzle", "title", "file"], rows).text())
    print("\nStart one with `tilewise puzzle start NAME`, and check it with `tilewise puzzle NAME`.")
    return 0


def _state(found: Puzzle) -> str:
    return found.file if Path(found.file).exists() else "not started"


def _begin(found: Puzzle, file: str | None) -> int:
    if file is not None:
        raise LessonError("tilewise puzzle", 0, "`start` doesn't take --file.", f"It writes {found.file}.")
    write_start(found, Path())
    print(f"Created {found.file}. Edit it, then check it with: tilewise puzzle {found.name}")
    return 0


def _hint(found: Puzzle, last: int) -> int:
    if not 1 <= last <= len(found.hint_list):
        repair = f"Choose 1 to {len(found.hint_list)}: `tilewise puzzle {found.name} --hint 1`."
        raise LessonError("tilewise puzzle", 0, f"{found.name} has no hint {last}.", repair)
    width = min(WIDEST, shutil.get_terminal_size().columns)
    for number, text in enumerate(found.hint_list[:last], start=1):
        print(textwrap.fill(f"Hint {number} of {len(found.hint_list)}: {plain_text(text)}", width))
    if last < len(found.hint_list):
        print(f"Next hint: tilewise puzzle {found.name} --hint {last + 1}")
    return 0


def _check(found: Puzzle, file: str | None) -> int:
    text, path = answer(found, Path(), file)
    try:
        verdict = judge(found, text, path)
    except ToolchainError as error:
        raise LessonError(
            "tilewise puzzle", 0, str(error), "`tilewise doctor` says what is missing."
        ) from None
    print(f"{path}: {solved(verdict.launches)}")
    rows = [(one.what, one.counted, one.most) for one in verdict.spent]
    print(Table([Column("metric"), Column("yours"), Column("budget")], rows, f"For {verdict.label}.").text())
    if after := following(found.name):
        print(f"Next: tilewise puzzle start {after}")
    return 0
