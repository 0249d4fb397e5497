"""Inspectors: kernels that look at a graph or a batch at run time, for the kernels behind them."""
