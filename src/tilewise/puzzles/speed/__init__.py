"""The puzzles of the part `speed`, one per module."""
