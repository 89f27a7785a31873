"""Kernels on a GPU: launching, comparing, timing and counting, all through CuPy."""
