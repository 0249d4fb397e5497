"""The strategy that fits every nest: a warp an iteration."""
