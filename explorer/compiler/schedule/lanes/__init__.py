"""Rows on the lanes of a warp: how they are shared, and what lanes keep."""
