"""Passes over the graph, and what they weigh: each from graph to graph."""
