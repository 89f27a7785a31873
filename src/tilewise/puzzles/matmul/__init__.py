"""The puzzles of the part `matmul`, one per module."""
