"""Processes that compile and run for another one, and the pools that keep them."""
