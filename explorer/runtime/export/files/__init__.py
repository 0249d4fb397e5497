"""Files that every extension has as they stand here: they need PyTorch, and nothing of the explorer."""
