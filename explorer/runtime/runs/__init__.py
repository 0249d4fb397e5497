"""A run of a model, told as events: set up by family, run by target."""
