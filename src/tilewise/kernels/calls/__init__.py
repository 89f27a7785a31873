"""Functions on arrays: which kernel they choose, with what settings, and how they launch it."""
