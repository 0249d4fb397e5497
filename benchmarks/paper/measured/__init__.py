"""The figures of the papers that need a GPU, or a GPU's profiler."""
