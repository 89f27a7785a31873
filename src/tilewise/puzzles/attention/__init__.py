"""The puzzles of the part `attention`, one per module."""
