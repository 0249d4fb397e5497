"""Text to syntax tree: the grammar, the layout of lines, the tree, and what is wrong with what cannot be read."""
