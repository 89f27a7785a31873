"""The puzzles of the part `kernels`, one per module."""
