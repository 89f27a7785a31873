"""The puzzles, in the order of the pages.

In: a name such as ``kernels/guard``. Out: the `Puzzle`, from a module of that name below this package, which
is imported on first use.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
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
    "matmul/phase",
    "matmul/ring",
    "matmul/stages",
    "matmul/deadlock",
    "matmul/proxy",
    "matmul/descriptors",
    "matmul/accumulator_mask",
    "matmul/gemm",
    "matmul/multicast",
    "attention/normaliser",
    "attention/flash",
)
"""Every puzzle, easy ones first within a part."""


@cache
def named(name: str) -> Puzzle:
    """The puzzle with a name.

    Raises:
        LessonError: there is none.
    """
    if name not in NAMES:
        near = nearest(name, NAMES) or "`tilewise puzzle` lists them."
        raise LessonError(name, 0, "there is no such puzzle.", near)
    puzzle: Puzzle = import_module(f"tilewise.puzzles.{name.replace('/', '.')}").PUZZLE
    return replace(puzzle, name=name)


def following(name: str) -> str:
    """The next puzzle's name; empty after the last."""
    at = NAMES.index(name) + 1
    return NAMES[at] if at < len(NAMES) else ""
