"""The puzzles of the part `memory`, one per module."""
