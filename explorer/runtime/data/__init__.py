"""Where a run's data comes from: triples, graphs, lists of indices; generated or read."""
