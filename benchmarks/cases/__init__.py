"""Models, sizes and options that suites and tests share: those of `gpu_check`, and texts of any length."""
