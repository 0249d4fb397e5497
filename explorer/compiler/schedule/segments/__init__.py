"""Strategies for sums over segments: by rows, nonzeros, pieces of rows, and dots."""
