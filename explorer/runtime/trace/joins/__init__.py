"""Several sets of edges, as a loop over relations makes them, brought into one set of typed edges."""
