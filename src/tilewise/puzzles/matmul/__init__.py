"""The puzzles of the part `matmul`, one a module."""
