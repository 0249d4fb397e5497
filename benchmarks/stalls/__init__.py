"""Records where the warps of the examples' kernels wait, with Nsight Compute on a GPU: see `__main__`."""
