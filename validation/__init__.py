"""The simulator held against NVIDIA's compiler, a GPU's counters and its sanitizer.

In: the lessons' kernels and many small ones. Out: the records in ``records/``, those that need a GPU from
``python -m validation`` and ``python -m validation.sanitizer``, the others from ``make records``. Two pages
of the site show them (``tilewise.measurements.validation``); no reader's process imports this package.
"""
