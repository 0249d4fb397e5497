"""The rules of scheduled kernels, a file a kind of rule."""
