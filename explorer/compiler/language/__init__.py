"""The model language: text to tree (`parsing`), tree to graph (`check`), and what is wrong with either."""
