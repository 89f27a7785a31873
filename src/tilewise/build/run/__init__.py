"""Running lessons: their cells in order, in a process of their own, and the results that are kept."""
