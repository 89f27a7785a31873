"""The course's kernels beside NVIDIA's compiler, a GPU's own counters, its sanitizer and a second clang.

In: the lessons' kernels and many small ones. Out: committed records, those that need a GPU from
``python -m tilewise.hardware`` and the others from ``make records``, and the parts of the two pages that show
them, with a reason for every difference. Lessons do not import it.
"""
