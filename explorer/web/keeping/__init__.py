"""The web's side of the store: links, what a student compiled, and what became of runs."""
