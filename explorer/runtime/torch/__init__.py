"""A compiled model as a module of PyTorch."""
