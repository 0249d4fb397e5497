"""Points of a space on a GPU: compiled, ahead of it and in other processes, and measured on it."""
