"""Where time goes: what each operation of a model takes of a GPU, predicted, and measured where that is recorded."""
