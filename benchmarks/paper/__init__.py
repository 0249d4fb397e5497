"""The figures and tables of the papers that need no GPU, a file a paper, and how they are shown."""
