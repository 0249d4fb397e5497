"""CUDA C++ as PTX and SASS, by NVIDIA's own tools."""
