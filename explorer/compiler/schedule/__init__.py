"""Schedules: how the nests of loops are laid out on a GPU, one file a template."""
