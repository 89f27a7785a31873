"""``tilewise puzzle``: list the puzzles, start one, check an answer, or print a hint.

In: a puzzle's name, and the current folder, which contains the answers. Out: lines on stdout and an exit
status; a wrong answer raises a ``LessonError``.
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
"""Maximum line width of a hint."""


def puzzle(arguments: Namespace) -> int:
    """Run the command.

    Returns:
        0; a wrong answer raises.

    Raises:
        LessonError: there is no such puzzle, file or hint, or the answer is wrong.
    """
    words, hint, file = arguments.words, arguments.hint, arguments.file
    begins = bool(words) and words[0] == "start"
    names = words[1:] if begins else words
    if len(names) > 1 or (begins and not names) or (hint is not None and (begins or not names)):
        repair = "Name one: `tilewise puzzle kernels/guard` or `tilewise puzzle start kernels/guard`."
        raise LessonError("tilewise puzzle", 0, "the command takes one puzzle at a time.", repair)
    if not names:
        return _list()
    chosen = named(names[0])
    if begins:
        return _start(chosen, file)
    if hint is not None:
        return _hint(chosen, hint)
    return _check(chosen, file)


def _list() -> int:
    rows = [(name, named(name).title, _state(named(name))) for name in NAMES]
    print(Table(["puzzle", "title", "file"], rows).text())
    print("\nStart one with `tilewise puzzle start NAME`, and check it with `tilewise puzzle NAME`.")
    return 0


def _state(chosen: Puzzle) -> str:
    return chosen.file if Path(chosen.file).exists() else "not started"


def _start(chosen: Puzzle, file: str | None) -> int:
    if file is not None:
        raise LessonError("tilewise puzzle", 0, "`start` doesn't take --file.", f"It writes {chosen.file}.")
    write_start(chosen, Path())
    print(f"Created {chosen.file}. Edit it, then check it with: tilewise puzzle {chosen.name}")
    return 0


def _hint(chosen: Puzzle, last: int) -> int:
    if not 1 <= last <= len(chosen.hint_list):
        repair = f"Choose 1 to {len(chosen.hint_list)}: `tilewise puzzle {chosen.name} --hint 1`."
        raise LessonError("tilewise puzzle", 0, f"{chosen.name} has no hint {last}.", repair)
    width = min(WIDEST, shutil.get_terminal_size().columns)
    for number, text in enumerate(chosen.hint_list[:last], start=1):
        print(textwrap.fill(f"Hint {number} of {len(chosen.hint_list)}: {plain_text(text)}", width))
    if last < len(chosen.hint_list):
        print(f"Next hint: tilewise puzzle {chosen.name} --hint {last + 1}")
    return 0


def _check(chosen: Puzzle, file: str | None) -> int:
    text, path = answer(chosen, Path(), file)
    try:
        verdict = judge(chosen, text, path)
    except ToolchainError as error:
        raise LessonError(
            "tilewise puzzle", 0, str(error), "`tilewise doctor` says what is missing."
        ) from None
    print(f"{path}: {solved(verdict.launches)}")
    rows = [(spent.what, spent.counted, spent.most) for spent in verdict.spent]
    print(Table([Column("metric"), Column("yours"), Column("budget")], rows, f"For {verdict.label}.").text())
    if after := following(chosen.name):
        print(f"Next: tilewise puzzle start {after}")
    return 0
