"""The figures and tables of the papers, a file a paper, and how they are shown; measured/ has those of a GPU."""
