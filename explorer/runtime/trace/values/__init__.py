"""What the tensors of a tape are: expressions over index sets, and the dimensions of tensors in these."""
