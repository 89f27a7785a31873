"""The puzzles of the part `attention`, one a module."""
