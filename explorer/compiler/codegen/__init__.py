"""From the fused loops to code: CUDA C++ for a GPU, its PTX and SASS, and a Python function for Numba on the CPU."""
