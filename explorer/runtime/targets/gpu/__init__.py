"""Kernels on a GPU, through CuPy."""
