"""Scores of facts with a list of negatives that a chunk of them shares."""
