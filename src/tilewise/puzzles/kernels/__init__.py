"""The puzzles of the part `kernels`, one a module."""
