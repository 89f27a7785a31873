"""The reader's files: one per puzzle, below the folder in which the reader works, and never overwritten.

In: a puzzle and a folder. Out: the file with its gaps, or the text of an answer. Nothing else in tilewise
writes there, so neither a build nor an upgrade touches an answer.
"""

from __future__ import annotations

from pathlib import Path

from tilewise.errors import LessonError
from tilewise.puzzles.model import Puzzle


def write_start(puzzle: Puzzle, folder: Path) -> Path:
    """Write the reader's file of a puzzle, with its gaps.

    Args:
        puzzle: the puzzle.
        folder: the folder that the reader works in.

    Returns:
        The file.

    Raises:
        LessonError: the file exists or cannot be written.
    """
    file = folder / puzzle.file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(puzzle.start)
    except FileExistsError:
        raise LessonError(
            puzzle.file,
            0,
            "this file already exists, so it was left unchanged.",
            f"Check it with `tilewise puzzle {puzzle.name}`. To start over, move or delete it first.",
        ) from None
    except OSError as error:
        raise LessonError(
            puzzle.file,
            0,
            f"the file can't be written: {error.strerror}.",
            "Work in a folder that you can write to.",
        ) from None
    return file


def answer(puzzle: Puzzle, folder: Path, file: str | None = None) -> tuple[str, str]:
    """The text of an answer, and its file's name for messages.

    Args:
        puzzle: the puzzle.
        folder: the folder that the reader works in.
        file: the file, if it is not the one from `write_start`.

    Raises:
        LessonError: there is no such file, or it cannot be read as text.
    """
    name = file or puzzle.file
    try:
        return (folder / name).read_text(encoding="utf-8-sig"), name
    except FileNotFoundError:
        begin = f"Create it with `tilewise puzzle start {puzzle.name}`."
        repair = f"{begin} Run the command in the folder that contains `puzzles`."
        raise LessonError(name, 0, "this file doesn't exist.", repair) from None
    except UnicodeDecodeError:
        raise LessonError(name, 0, "the file isn't UTF-8 text.", "Save it as UTF-8.") from None
    except OSError as error:
        raise LessonError(name, 0, f"the file can't be read: {error.strerror}.") from None
