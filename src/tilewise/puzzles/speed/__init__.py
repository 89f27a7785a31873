"""The puzzles of the part `speed`, one a module."""
