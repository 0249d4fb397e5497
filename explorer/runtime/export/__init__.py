"""A compiled model as a PyTorch extension that is built without the explorer (Hector §3.6)."""
