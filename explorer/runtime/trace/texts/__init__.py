"""Expressions as the text of a definition."""
