"""The puzzles of the part `memory`, one a module."""
