"""Kernels: launching them, comparing them with pseudocode, compiling them with NVRTC."""
