"""Loops as Python that Numba compiles."""
