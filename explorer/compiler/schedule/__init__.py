"""Schedules: who does an iteration of a nest, and where its rows live, one primitive after another."""
