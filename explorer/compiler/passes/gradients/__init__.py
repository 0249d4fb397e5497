"""The backward pass, as values of the same graph."""
