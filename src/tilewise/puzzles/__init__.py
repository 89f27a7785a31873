"""Puzzles: kernels with gaps that a reader fills in, judged for results, hazards and traffic.

In: a puzzle's name, or a reader's file. Out: a puzzle's page output, the reader's file, a verdict. One module
per puzzle, one package per part; `catalogue` lists them in order.
"""

from tilewise.puzzles.output import puzzle

__all__ = ["puzzle"]
