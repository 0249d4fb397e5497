"""The model language: text to syntax tree (`parse`), syntax tree to graph (`check`), and what is wrong with either."""
