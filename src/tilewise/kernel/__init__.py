"""Kernels and what is done with them: launched, compared with pseudocode, compiled by NVRTC."""
