"""Scheduled kernels as CUDA C++."""
