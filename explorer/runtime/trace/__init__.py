"""A module of PyTorch as a text of the model language: a tape of its operators, read as values over index sets."""
