"""Running lessons: their cells in order, in a separate process, with cached results."""
