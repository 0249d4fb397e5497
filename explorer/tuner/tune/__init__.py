"""A search on a target: what it chooses from there, how a point is tried, and why one is chosen."""
