"""Syntax tree to graph: names are resolved, shapes and index sets checked, loops and helpers taken apart."""
