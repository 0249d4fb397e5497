"""Ember's Figure 1 on a GPU: whole models in PyTorch, their embedding operations, and the tables of both."""
