"""Strategies for products of rows and matrices, and for sums of outer products."""
