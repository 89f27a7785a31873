"""The simulator against the hardware's own counters, on many small kernels.

In: specimens, and a record that ``python -m tilewise.hardware`` writes on a GPU. Out: a table of what both
counted, with a reason for every difference. Lessons do not import it.
"""
