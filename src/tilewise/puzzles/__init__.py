"""Puzzles: kernels with gaps that a reader fills in, judged for results, hazards and traffic.

In: a puzzle's name, or a reader's file. Out: what a page shows of a puzzle, the reader's file, a verdict. One
module a puzzle, in a package a part; which there are, and in which order, says `catalogue`.
"""

from tilewise.puzzles.output import puzzle

__all__ = ["puzzle"]
