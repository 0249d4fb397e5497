"""What every strategy edits nests with: builders, queries, primitives, and small rewritings."""
