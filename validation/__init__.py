"""Validation of the simulator against NVIDIA's compiler, a GPU's counters and compute-sanitizer.

In: the lessons' kernels and many small ones. Out: the records in ``records/``: ``python -m validation`` and
``python -m validation.sanitizer`` write those that need a GPU, ``make records`` the others. Two pages of the
site show them (``tilewise.measurements.validation``); readers' processes never import this package.
"""
