"""Which puzzles there are, in the order in which the pages set them.

In: a name such as ``kernels/guard``. Out: the `Puzzle`, from a module of that name below this package. A
puzzle's module is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module

from tilewise.errors import LessonError, nearest
from tilewise.puzzles.model import Puzzle

NAMES = (
    "kernels/map",
    "kernels/guard",
    "kernels/mirror",
    "kernels/strides",
    "kernels/broadcast",
    "kernels/stride_loop",
    "speed/fused",
    "speed/registers",
    "speed/one_pass",
    "speed/sides",
    "memory/scan",
    "memory/row_sums",
    "memory/vectors",
    "memory/stencil",
    "memory/transpose",
    "memory/tree",
    "memory/histogram",
    "matmul/tile",
    "matmul/register_tile",
    "attention/normaliser",
    "attention/flash",
)
"""Every puzzle, easy ones first within a part."""


def named(name: str) -> Puzzle:
    """The puzzle of a name.

    Raises:
        LessonError: there is none, or its module holds none of that name.
    """
    if name not in NAMES:
        message = "there is no such puzzle."
        near = nearest(name, NAMES) or "`tilewise puzzle` lists them."
        raise LessonError(name, 0, message, near)
    place = f"src/tilewise/puzzles/{name}.py"
    whole = f"tilewise.puzzles.{name.replace('/', '.')}"
    try:
        module = import_module(whole)
    except ModuleNotFoundError as error:
        if error.name is None or not whole.startswith(error.name):
            raise
        repair = "Write it, or take the name out of puzzles/catalogue.py."
        raise LessonError(
            place, 0, "the catalogue names this puzzle, and there is no such file.", repair
        ) from None
    puzzle = getattr(module, "PUZZLE", None)
    if not isinstance(puzzle, Puzzle):
        raise LessonError(place, 0, "the module has no puzzle.", "Call it PUZZLE: PUZZLE = Puzzle(...).")
    if puzzle.name != name:
        raise LessonError(
            place, 0, f'the puzzle is named "{puzzle.name}".', f'Name it "{name}", like its file.'
        )
    return puzzle


def following(name: str) -> str:
    """The puzzle after one; empty after the last."""
    at = NAMES.index(name) + 1
    return NAMES[at] if at < len(NAMES) else ""
