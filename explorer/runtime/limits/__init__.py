"""The least that a run must move and compute."""
